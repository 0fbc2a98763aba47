/* net_storm.c - tasks of one process that send each other tensors, take them, clean up, leave and come again, from THREADS threads,
 * over the links of plugins/net, and that of plugins/grpc with threads that carry its bytes in gRPC's place.  Built with a sanitizer: sanitize.py thread --script net_storm.c
 *
 *     net_storm COUNT SEED
 *
 * Every tensor holds its step's number; what is taken has to.  A peer that leaves may take with it what was on its way: then who waits
 * for it is told as its step is cleaned up.  At the end nothing is left in a table, in a queue or in an arena, and each take was told.
 */
#include <stdatomic.h>
#include <unistd.h>
#include "net/peer.h"
#include "../../plugins/grpc/links/streams.h"
#include "../../plugins/net/links/links.h"

enum { TASKS = 3, THREADS = 4, KINDS = 3, BLOCK = 1 << 16 };
static pf_task *tasks[TASKS];
static pf_net *nets[TASKS];
static char addresses[TASKS][KINDS][256];
static const char *const kinds[KINDS] = {"unix", "tcp", "grpc"};
static pthread_rwlock_t changing = PTHREAD_RWLOCK_INITIALIZER;
static atomic_llong asked, told, right, wrong, failed;
static atomic_int over, pumps;

static uint64_t next_random(uint64_t *s) {
  *s += 0x9E3779B97F4A7C15u;
  uint64_t z = *s;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

static void open_net(int k) {
  pf_error err;
  pf_net_options o = {.lease_ns = (int64_t)5 * 1000000000, .queue_bytes = 1 << 20, .arena_bytes = (k % 2) * (64 << 20), .incoming_bytes = 8 << 20,
                      .window_bytes = 1 << 21};
  char name[40];
  pf_error_clear(&err);
  snprintf(name, sizeof name, "/job:storm/task:%d", k);
  tasks[k] = pf_task_new(name);
  nets[k] = pf_net_new(tasks[k], &o, &err);
  if (!nets[k]) abort();
  for (int j = 0; j < KINDS; j++)
    if (pf_net_listen(nets[k], kinds[j], "", 0, addresses[k][j], 256, &err)) abort();
}
static void close_net(int k) {
  pf_net_close(nets[k]);
  pf_task_sweep(tasks[k], -1);
  pf_net_unref(nets[k]);
  pf_task_unref(tasks[k]);
}

/* ---------------------------------------------------------------- bytes between two streams, as gRPC brings them */
typedef struct { pf_stream *ends[2]; pf_net *nets[2]; atomic_int left; } wire;
typedef struct { wire *w; int from; } pump;

static void free_spent(pf_stream *s) {
  for (void *owner; (owner = pf_stream_spent(s));) free(owner);
}
static void leave(wire *w) {
  if (atomic_fetch_sub(&w->left, 1) != 1) return;
  for (int k = 0; k < 2; k++) {
    free_spent(w->ends[k]);
    pf_stream_unref(w->ends[k]);
    pf_net_unref(w->nets[k]);
  }
  free(w);
}
static void *carry(void *arg) {
  pump p = *(pump *)arg;
  pf_stream *from = p.w->ends[p.from], *to = p.w->ends[!p.from];
  char *block = malloc(BLOCK), *next = malloc(BLOCK);
  int64_t n;
  free(arg);
  pf_stream_give(from, block, BLOCK);
  while ((n = pf_stream_take(from, next, BLOCK)) > 0) {
    char *bytes = malloc((size_t)n), *was = block;
    memcpy(bytes, block, (size_t)n);
    block = next, next = was;
    if (!pf_stream_put(to, bytes, n, bytes)) {
      free(bytes);
      break;
    }
    pf_net_receive(p.w->nets[!p.from], to);
    pf_stream_mark(to);
  }
  pf_stream_end(to, "the other end is over");
  pf_stream_end(from, "nobody reads");
  free(block), free(next);
  leave(p.w);
  atomic_fetch_sub(&pumps, 1);
  return NULL;
}
static wire *dial(int a, int b, char *address) {
  wire *w = calloc(1, sizeof *w);
  pthread_t thread;
  w->nets[0] = nets[a], w->nets[1] = nets[b];
  w->left = 3;                          /* the pumps, and who dials */
  for (int k = 0; k < 2; k++) {
    if (!(w->ends[k] = pf_stream_new())) abort();
    pf_net_ref(w->nets[k]);
  }
  snprintf(address, 256, "%llu", (unsigned long long)pf_stream_dial(w->ends[0]));
  pf_stream_offer(strtoull(addresses[b][2], NULL, 10), w->ends[1]);
  for (int k = 0; k < 2; k++) {
    pump *p = malloc(sizeof *p);
    *p = (pump){w, k};
    atomic_fetch_add(&pumps, 1);
    if (pthread_create(&thread, NULL, carry, p)) abort();
    pthread_detach(thread);
  }
  return w;
}

typedef struct { uint64_t number; int64_t n; } taking;
static void taken(void *arg, pf_status st, pf_tensor *take, int32_t dead) {
  taking *t = arg;
  atomic_fetch_add(&told, 1);
  if (st) atomic_fetch_add(&failed, 1);
  else {
    const uint64_t *x = take->m.dl_tensor.data;
    int ok = take->nbytes == 8 * t->n && x[0] == t->number && x[t->n - 1] == t->number;
    atomic_fetch_add(ok ? &right : &wrong, 1);
    pf_tensor_unref(take);
  }
  free(t);
}

/* One tensor from task a to task b, for whoever takes it before or after. */
static void send_one(int a, int b, uint64_t number, uint64_t *s) {
  static const int64_t sizes[] = {1, 100, 9000, 200000};
  int64_t n = sizes[next_random(s) % 4];
  pf_error err;
  pf_step_key key = {1, number};
  pf_str name = {"key", 3};
  taking *t = malloc(sizeof *t);
  *t = (taking){number, n};
  pf_error_clear(&err);
  int first = next_random(s) % 2;
  atomic_fetch_add(&asked, 1);
  if (first && pf_task_take(tasks[b], key, name, NULL, taken, t, &err)) abort();
  pf_peer *p = pf_net_peer(nets[a], tasks[b]->name);
  if (!p) {
    char address[256];
    wire *w = NULL;
    if (number % KINDS == 2) w = dial(a, b, address);
    else memcpy(address, addresses[b][number % KINDS], sizeof address);
    pf_net_connect(nets[a], tasks[b]->name, pf_task_incarnation(tasks[b]), kinds[number % KINDS], address, 0, (int64_t)5 * 1000000000, &err);
    if (w) pf_stream_undial(w->ends[0]), leave(w);
    p = pf_net_peer(nets[a], tasks[b]->name);
  }
  if (p) {
    pf_tensor *x = pf_tensor_new(PF_UINT64, &n, 1);
    for (int64_t k = 0; k < n; k++) ((uint64_t *)x->m.dl_tensor.data)[k] = number;
    pf_error_clear(&err);
    pf_peer_put(p, key, name, x, 0, NULL, &err);
    pf_peer_unref(p);
  }
  if (!first && pf_task_take(tasks[b], key, name, NULL, taken, t, &err)) abort();
  if (next_random(s) % 8) usleep((useconds_t)(next_random(s) % 300));
  if (next_random(s) % 16 == 0) pf_net_disconnect(nets[a], tasks[b]->name, 0, "a storm");
  pf_peer_view views[8];
  pf_net_views(nets[a], views, 8);
  for (int k = 0; k < 400 && next_random(s) % 4; k++) usleep(50);
  pf_task_clean(tasks[b], key);
}

typedef struct { int count, id; uint64_t seed; } job;
static void *work(void *arg) {
  job *j = arg;
  uint64_t s = j->seed;
  for (int k = 0; k < j->count; k++) {
    int a = (int)(next_random(&s) % TASKS), b = (a + 1 + (int)(next_random(&s) % (TASKS - 1))) % TASKS;
    pthread_rwlock_rdlock(&changing);
    send_one(a, b, (uint64_t)j->id * 1000000 + (uint64_t)k, &s);
    pthread_rwlock_unlock(&changing);
  }
  return NULL;
}
static void *renew(void *arg) {         /* tasks end and begin anew */
  uint64_t s = *(uint64_t *)arg;
  while (!atomic_load(&over)) {
    usleep(200000);
    int k = (int)(next_random(&s) % TASKS);
    pthread_rwlock_wrlock(&changing);
    close_net(k);
    open_net(k);
    pthread_rwlock_unlock(&changing);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int count = argc > 1 ? atoi(argv[1]) : 1000;
  uint64_t seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 0;
  pthread_t threads[THREADS], renewer;
  job jobs[THREADS];
  pf_net_add_link(&pf_link_unix), pf_net_add_link(&pf_link_tcp), pf_net_add_link(&pf_link_grpc);
  for (int k = 0; k < TASKS; k++) open_net(k);
  pthread_create(&renewer, NULL, renew, &seed);
  for (int k = 0; k < THREADS; k++) {
    jobs[k] = (job){count / THREADS, k + 1, seed * 7919 + (uint64_t)k};
    pthread_create(&threads[k], NULL, work, &jobs[k]);
  }
  for (int k = 0; k < THREADS; k++) pthread_join(threads[k], NULL);
  atomic_store(&over, 1);
  pthread_join(renewer, NULL);
  int64_t left = 0;
  for (int k = 0; k < TASKS; k++) left += tasks[k]->n_open;
  for (int k = 0; k < TASKS; k++) close_net(k);
  for (int k = 0; k < 1000 && atomic_load(&pumps); k++) usleep(10000);
  printf("%lld takes, %lld told: %lld right, %lld wrong, %lld cleaned up first\n", (long long)asked, (long long)told, (long long)right,
         (long long)wrong, (long long)failed);
  return atomic_load(&pumps) || wrong || told != asked || left || right * 8 < asked ? 1 : 0;
}
