/* step_orders.c - random orders of arrival, begin, end, failure and clean-up of steps, from THREADS threads, on the core's own table
 * (host/step_table.pyx).  Built with a sanitizer and run by sanitize.py --script step_orders.
 *
 *     step_orders COUNT SEED
 *
 * Every step gets a few puts, takes, partitions, failures and clean-ups in any order; a batch of steps is dealt to the threads,
 * which run side by side.  After each batch every step is cleaned up once more, and then
 *   1. the table holds no step but gone ones, and no bytes;
 *   2. every tensor that was put is freed, every take that was accepted was told once, what was taken is what was put;
 *   3. a member was told only while it was one; of a step that failed for a cause, the cause is what is told.
 */
#include "host/host.h"
#include <stdatomic.h>

enum { THREADS = 4, BATCH = 64, KEYS = 3, ACTIONS = 24 };
enum { PUT, TAKE, BEGIN, END, DERIVED, CAUSE, CLEAN, ASK };

typedef struct { pf_member member; pf_a32 is_one; pf_rendezvous *r; atomic_int done; } partition;
typedef struct {
  pf_step_key key;
  partition parts[2];
  atomic_int cause, cleaned;
} step;
typedef struct { step *s; int what, which; } action;

static pf_task *task;
static atomic_llong made, freed, asked, told, wrong;
static step steps[BATCH];
static action lists[THREADS][BATCH * ACTIONS];
static int n_list[THREADS];
static pthread_barrier_t gate;
static int over;

static void mistake(const char *what) {
  fprintf(stderr, "step_orders: %s\n", what);
  atomic_fetch_add(&wrong, 1);
}
static uint64_t next_random(uint64_t *s) {
  *s += 0x9E3779B97F4A7C15u;
  uint64_t z = *s;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}
static pf_str name_of(int which) {
  static const char *names[KEYS] = {"a;0:0", "b;0:0", "c;0:1"};
  return (pf_str){names[which], 5};
}

static void gone(DLManagedTensorVersioned *t) {
  atomic_fetch_add(&freed, 1);
  free(t->dl_tensor.data);
  free(t);
}
static pf_tensor *value_for(step *s, int which) {
  DLManagedTensorVersioned *t = calloc(1, sizeof *t);
  float *data = malloc(64);
  data[0] = (float)(s->key.step % 1000) * KEYS + (float)which;
  t->version.major = 1;
  t->dl_tensor.data = data;
  t->dl_tensor.device.device_type = kDLCPU;
  t->dl_tensor.dtype = (DLDataType){kDLFloat, 32, 1};
  t->deleter = gone;
  atomic_fetch_add(&made, 1);
  return pf_tensor_adopt(t, 0);
}
typedef struct { step *s; int which; atomic_int n; } taker;
static void take_told(void *arg, pf_status st, pf_tensor *take, int32_t dead) {
  taker *k = arg;
  if (atomic_fetch_add(&k->n, 1)) mistake("a take was told twice");
  if (st == PF_OK && *(float *)take->m.dl_tensor.data != (float)(k->s->key.step % 1000) * KEYS + (float)k->which) mistake("a wrong tensor");
  pf_tensor_unref(take);
  atomic_fetch_add(&told, 1);
  free(k);
}
static void stopped(void *arg, const pf_error *why) {
  partition *p = arg;
  if (!pf_a32_load(&p->is_one)) mistake("a member was told that is none");
  if (!why->code) mistake("a member was told of no error");
}

static void act(const action *a) {
  step *s = a->s;
  partition *p = s->parts + a->which % 2;
  pf_error err;
  pf_error_clear(&err);
  pf_status st = PF_OK;
  switch (a->what) {
    case PUT:
      st = pf_task_put(task, s->key, name_of(a->which), value_for(s, a->which), 0, &err);
      if (st != err.code) mistake("a put's error");
      break;
    case TAKE: {
      taker *k = calloc(1, sizeof *k);
      k->s = s;
      k->which = a->which;
      atomic_fetch_add(&asked, 1);
      st = pf_task_take(task, s->key, name_of(a->which), NULL, take_told, k, &err);
      if (st) {
        atomic_fetch_sub(&asked, 1);
        free(k);
        if (st != err.code) mistake("a take's error");
      }
      break;
    }
    case BEGIN:
      pf_a32_store(&p->is_one, 1);
      p->member.stop = stopped;
      p->member.arg = p;
      st = pf_task_begin(task, s->key, &p->member, &p->r, &err);
      if (st) {
        if (st != err.code) mistake("a begin's error");
        pf_a32_store(&p->is_one, 0);
        atomic_store(&p->done, 2);
      } else atomic_store(&p->done, 1);
      break;
    case END:                           /* by whichever thread, once it has begun */
      if (atomic_load(&p->done) != 1) return;
      if (atomic_exchange(&p->done, 3) != 1) return;
      pf_task_end(task, s->key, &p->member);
      pf_a32_store(&p->is_one, 0);
      pf_rendezvous_unref(p->r);
      break;
    case DERIVED: case CAUSE:
      err.derived = a->what == DERIVED;
      pf_error_set(&err, a->what == CAUSE ? PF_DATA_LOSS : PF_CANCELLED, "by chance");
      st = pf_task_fail(task, s->key, &err);
      if (st == PF_OK && a->what == CAUSE) atomic_store(&s->cause, 1);
      break;
    case CLEAN:
      atomic_store(&s->cleaned, 1);
      pf_task_clean(task, s->key);
      return;
    case ASK: {
      pf_reader r;
      pf_task_reader(task, s->key, name_of(a->which), &r);
      pf_task_error(task, s->key, &err);
      return;
    }
  }
  if (st != PF_OK && st != PF_NOT_FOUND && st != PF_CANCELLED && st != PF_DATA_LOSS && st != PF_ALREADY_EXISTS
      && st != PF_RESOURCE_EXHAUSTED) mistake("a status that nobody gave");
}

static void deal(uint64_t *rng, uint64_t first) {
  static action all[BATCH * ACTIONS];
  int n = 0;
  for (int b = 0; b < BATCH; b++) {
    step *s = steps + b;
    memset(s, 0, sizeof *s);
    s->key = (pf_step_key){(first + (uint64_t)b) % 5, first + (uint64_t)b};
    for (int k = 0; k < KEYS; k++) {
      if (next_random(rng) % 4) all[n++] = (action){s, PUT, k};
      if (next_random(rng) % 4) all[n++] = (action){s, TAKE, k};
    }
    for (int k = 0; k < 2; k++) {
      if (next_random(rng) % 3) all[n++] = (action){s, BEGIN, k};
      all[n++] = (action){s, END, k};
    }
    if (next_random(rng) % 4 == 0) all[n++] = (action){s, DERIVED, 0};
    if (next_random(rng) % 4 == 0) all[n++] = (action){s, CAUSE, 0};
    if (next_random(rng) % 2) all[n++] = (action){s, CLEAN, 0};
    if (next_random(rng) % 8 == 0) all[n++] = (action){s, CLEAN, 0};
    if (next_random(rng) % 2) all[n++] = (action){s, ASK, 0};
  }
  for (int k = n - 1; k > 0; k--) {
    int j = (int)(next_random(rng) % (uint64_t)(k + 1));
    action swap = all[k];
    all[k] = all[j];
    all[j] = swap;
  }
  for (int t = 0; t < THREADS; t++) n_list[t] = 0;
  for (int k = 0; k < n; k++) {
    int t = (int)(next_random(rng) % THREADS);
    lists[t][n_list[t]++] = all[k];
  }
}
static void *work(void *arg) {
  int t = (int)(intptr_t)arg;
  for (;;) {
    pthread_barrier_wait(&gate);
    if (over) return NULL;
    for (int k = 0; k < n_list[t]; k++) act(lists[t] + k);
    pthread_barrier_wait(&gate);
  }
}
static void settle(void) {
  pf_error err;
  for (int b = 0; b < BATCH; b++) {
    step *s = steps + b;
    if (atomic_load(&s->cause) && !atomic_load(&s->cleaned)) {
      pf_member late = {0};
      pf_rendezvous *r;
      if (!pf_task_error(task, s->key, &err) || err.derived || err.code != PF_DATA_LOSS) mistake("a consequence hides the cause");
      pf_error_clear(&err);
      if (pf_task_begin(task, s->key, &late, &r, &err) != PF_DATA_LOSS || err.derived) mistake("a step begins that failed, or not for the cause");
    }
    for (int k = 0; k < 2; k++) act(&(action){s, END, k});
  }
  if (steps[0].key.step % 3 == 0)
    for (uint64_t k = 0; k < 5; k++) pf_task_clean_session(task, k);
  else
    for (int b = 0; b < BATCH; b++) pf_task_clean(task, steps[b].key);
  if (task->n_open || task->n_early || task->early_bytes || task->early_first) mistake("the table is not empty");
  if (atomic_load(&made) != atomic_load(&freed)) mistake("a tensor is left");
  if (atomic_load(&asked) != atomic_load(&told)) mistake("a take was never told");
}

int main(int argc, char **argv) {
  const uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
  uint64_t rng = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, n = 0;
  pthread_t id[THREADS];
  task = pf_task_new("/job:orders/task:0");
  pthread_barrier_init(&gate, NULL, THREADS + 1);
  for (int t = 0; t < THREADS; t++) pthread_create(id + t, NULL, work, (void *)(intptr_t)t);
  for (; n < count && !atomic_load(&wrong); n += BATCH) {
    deal(&rng, n);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    settle();
  }
  over = 1;
  pthread_barrier_wait(&gate);
  for (int t = 0; t < THREADS; t++) pthread_join(id[t], NULL);
  printf("%llu steps, %lld tensors, %lld takes told, %lld gone ones remembered, %lld mistakes\n", (unsigned long long)n,
         (long long)made, (long long)told, (long long)task->n_gone, (long long)wrong);
  pf_task_unref(task);
  return wrong != 0;
}
