/* frames.c - mutated frames through the whole of core/net's receiving end.
 *
 *     python sanitize.py address --script frames.c --count 100000        # long.py fuzz-frames
 *
 * A link of this file's own hands a peer what a seeded generator made: frames of every type, right ones, then bytes and lengths of them
 * changed, frames cut, doubled, swapped; in pieces of any length.  The peer either lives on or is lost with a typed error.  Looked at:
 * the sanitizers' reports; that memory is what it was before; that no case takes a second or more than CAP bytes.
 */
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include "net/outgoing.h"

enum { MOST = 1 << 21 };
static const int64_t CAP = (int64_t)256 << 20;

/* ---------------------------------------------------------------- numbers */
static uint64_t seed;
static uint32_t next_number(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (uint32_t)(seed >> 16);
}
static uint32_t below(uint32_t n) { return n ? next_number() % n : 0; }

/* ---------------------------------------------------------------- a link that plays a tape */
struct pf_link_conn { const uint8_t *p; int64_t n; int32_t fd, closed; };
struct pf_link_map { int32_t unused; };
static uint8_t shared[1 << 16];
static pf_link_map the_map;
static int64_t posted;
static int32_t tape_descriptor(pf_link_conn *c) { return c->fd; }
static int64_t tape_post(pf_link_conn *c, const pf_span *s, int32_t n) {
  int64_t all = 0;
  for (int32_t k = 0; k < n; k++) all += (int64_t)s[k].n;
  if (below(8) == 0) all = below((uint32_t)all + 1);
  posted += all;
  return c->closed ? PF_LINK_LOST : all;
}
static int64_t tape_receive(pf_link_conn *c, const pf_span *s, int32_t n, pf_link_problem *p) {
  int64_t all = 0, piece = below(4) ? c->n : 1 + below(200);
  for (int32_t k = 0; k < n && c->n && piece > 0; k++) {
    int64_t m = pf_min64(pf_min64((int64_t)s[k].n, c->n), piece);
    memcpy(s[k].data, c->p, (size_t)m);
    c->p += m, c->n -= m, all += m, piece -= m;
  }
  if (all) return all;
  snprintf(p->text, (size_t)p->room, "the tape ends");
  return PF_LINK_LOST;
}
static void tape_close(pf_link_conn *c) { c->closed = 1; }
static void tape_release(pf_link_conn *c) { free(c); }
static void *tape_arena(pf_link_conn *c, int64_t bytes, uint32_t *id) { return NULL; }
static void *tape_map(pf_link_conn *c, uint32_t id, int64_t *bytes, pf_link_map **out) {
  *bytes = sizeof shared, *out = &the_map;
  return id == 0 ? shared : NULL;
}
static void tape_unmap(pf_link_map *m) { (void)m; }
static const pf_link tape = {.size = sizeof(pf_link), .kind = "tape", .descriptor = tape_descriptor, .post = tape_post,
  .receive = tape_receive, .close = tape_close, .release = tape_release, .arena = tape_arena, .map = tape_map, .unmap = tape_unmap};

/* ---------------------------------------------------------------- right frames */
static pf_tensor *some_tensor(void) {
  static const int32_t types[] = {PF_FLOAT32, PF_INT64, PF_BOOL, PF_STRING, PF_COMPLEX128, PF_FLOAT16, PF_UINT8};
  int64_t dims[12];
  int32_t ndim = (int32_t)below(below(8) ? 4 : 12), type = types[below(7)];
  for (int32_t k = 0; k < ndim; k++) dims[k] = ndim > 4 ? 1 + below(2) : below(4) ? 1 + below(4) : below(9) ? 1 : 0;
  pf_tensor *t = pf_tensor_new(type, dims, ndim);
  if (type != PF_STRING) memset(t->m.dl_tensor.data, 1, (size_t)t->nbytes);
  for (int64_t k = 0; type == PF_STRING && k < t->nbytes / (int64_t)sizeof(pf_str); k++)
    pf_tensor_str_set(&t->m.dl_tensor, k, (pf_str){"abcdefghijklmnop", below(17)});
  return t;
}
static void put_tensor(pf_net_out *o) {
  static const int64_t dims[] = {64, 32};
  pf_tensor *t = some_tensor();
  if (below(40) == 0) {                 /* a large one */
    int64_t n = PF_NET_PUSH + below(200000);
    uint32_t pad = below(64);
    pf_put32(o, PF_UINT8), pf_put32(o, PF_TENSOR_PADDED), pf_put32(o, 1), pf_put32(o, 0), pf_put64(o, (uint64_t)n), pf_put64(o, (uint64_t)n);
    if (below(2)) pad = (uint32_t)(-(o->n + 4 - PF_NET_HEAD) & 63);
    pf_put32(o, pad);
    memset(pf_put(o, pad + n), 7, (size_t)(pad + n));
  } else if (below(8)) {
    pf_net_put_tensor(o, t, below(10) == 0, NULL);
  } else {                              /* by reference, perhaps beyond the end */
    pf_put32(o, PF_FLOAT32), pf_put32(o, PF_TENSOR_IN_ARENA), pf_put32(o, 2), pf_put32(o, 0);
    pf_put64(o, dims[0]), pf_put64(o, dims[1]), pf_put64(o, 4 * dims[0] * dims[1]);
    pf_put32(o, below(3) == 0), pf_put32(o, 0), pf_put64(o, 64 * below(1100));
  }
  pf_tensor_unref(t);
}
static void put_shape(pf_net_out *o, int64_t bytes) {
  pf_put32(o, PF_UINT8), pf_put32(o, PF_TENSOR_ABSENT), pf_put32(o, 1), pf_put32(o, 0), pf_put64(o, (uint64_t)bytes), pf_put64(o, (uint64_t)bytes);
}
static int64_t made;                    /* frames of this tape */
static void put_frame(pf_net_out *all, pf_peer *p, int type, uint64_t id, int64_t bytes, int64_t at) {
  pf_net_out o = {0};
  pf_error err;
  int n;
  pf_error_clear(&err);
  pf_error_set(&err, PF_INVALID_ARGUMENT, "an error");
  int flags = (int)below(2);
  pf_put_head(&o, type, flags, (pf_step_key){7, below(5)}, 0);
  switch (type) {
    case PF_NET_HELLO:
      pf_put32(&o, PF_NET_MAGIC), pf_put32(&o, PF_NET_VERSION), pf_put64(&o, 99), pf_put64(&o, p->net->incarnation);
      pf_put_text(&o, pf_str_of("/job:f/task:1")), pf_put_text(&o, pf_str_of(p->net->task->name));
      pf_put64(&o, 1 << 26);
      break;
    case PF_NET_RUN:
      n = below(5) ? 2 : (int)below(4);
      pf_put64(&o, below(100)), pf_put64(&o, below(8) ? 1 : below(3)), pf_put64(&o, 0), pf_put32(&o, (uint32_t)n), pf_put32(&o, 0);
      for (int k = 0; k < n; k++) put_tensor(&o);
      break;
    case PF_NET_DONE:
      pf_put64(&o, 1 + below(3));
      if (below(3)) {
        pf_put32(&o, 0), pf_put32(&o, n = (int)below(4));
        for (int k = 0; k < n; k++) put_tensor(&o);
      } else pf_net_put_error(&o, err.code, &err);
      break;
    case PF_NET_TENSOR:
      if (flags) pf_put64(&o, id);          /* asked for, perhaps */
      pf_put_text(&o, (pf_str){"key key key key", below(15)}), put_tensor(&o);
      break;
    case PF_NET_ANNOUNCE: pf_put64(&o, id), pf_put_text(&o, (pf_str){"large", 5}), put_shape(&o, bytes); break;
    case PF_NET_GET: pf_put64(&o, below(3)); break;
    case PF_NET_CHUNK:
      pf_put64(&o, id), pf_put64(&o, (uint64_t)at);
      for (int64_t k = 0; k < bytes; k += 8) pf_put64(&o, 0);
      break;
    case PF_NET_CANCEL: pf_net_put_error(&o, err.code, &err); break;
    case PF_NET_PING: pf_put64(&o, 5), pf_put64(&o, 6); break;
    case PF_NET_CREDIT: pf_put32(&o, 0), pf_put32(&o, 0), pf_put64(&o, 4096); break;
    case PF_NET_BYE: pf_put32(&o, below(3)), pf_put_text(&o, (pf_str){"bye", 3}); break;
    default: break;
  }
  pf_put_end(&o);
  made++;
  uint8_t *to = pf_put(all, o.n);
  memcpy(to, o.p, (size_t)o.n);
  if (o.n_splices) abort();             /* some_tensor makes none that large */
  pf_net_out_free(&o);
}

/* ---------------------------------------------------------------- wrong ones */
static void mutate(uint8_t *p, int64_t *n) {
  static const uint64_t strange[] = {0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff, ~(uint64_t)0};
  int64_t at = *n ? below((uint32_t)*n) : 0, k;
  uint64_t x = strange[below(11)];
  switch (*n > 16 ? below(7) : 6) {
    case 0: p[at] ^= (uint8_t)(1 << below(8)); break;
    case 1: p[at] = (uint8_t)next_number(); break;
    case 2: at = pf_min64(at & ~3, *n - 8), memcpy(p + at, &x, 4); break;
    case 3: at = pf_min64(at & ~3, *n - 8), memcpy(p + at, &x, 8); break;
    case 4:                             /* a stretch goes */
      k = pf_min64(1 + below(40), *n - at);
      memmove(p + at, p + at + k, (size_t)(*n - at - k)), *n -= k;
      break;
    case 5:                             /* a stretch is doubled */
      k = pf_min64(pf_min64(1 + below(200), *n - at), MOST - *n);
      memmove(p + at + k, p + at, (size_t)(*n - at)), *n += k;
      break;
    default: *n = below(4) ? *n : at; break;
  }
}

static int64_t mutated, whole;          /* frames of tapes with a mutation, of the others */
static int64_t make_tape(pf_peer *p, uint8_t *to, int greeting) {
  pf_net_out all = {0};
  int frames = 1 + (int)below(5);
  made = 0;
  if (greeting) put_frame(&all, p, PF_NET_HELLO, 0, 0, 0);
  for (int k = 0; k < frames; k++) {
    if (below(4)) {
      put_frame(&all, p, 1 + (int)below(PF_NET_TYPES - 1), 1 + below(2), 8 * (1 + below(64)), 8 * below(3));
      continue;
    }
    int64_t bytes = 8 * (1 + below(2000)), half = bytes / 2 / 8 * 8;    /* a whole transfer */
    put_frame(&all, p, PF_NET_ANNOUNCE, 10 + (uint64_t)k, bytes, 0);
    if (half) put_frame(&all, p, PF_NET_CHUNK, 10 + (uint64_t)k, half, 0);
    put_frame(&all, p, PF_NET_CHUNK, 10 + (uint64_t)k, bytes - half, half);
  }
  int64_t n = pf_min64(all.n, MOST / 2);
  memcpy(to, all.p, (size_t)n);
  free(all.own);
  int mutations = (int)below(5);
  for (int k = mutations; k > 0; k--) mutate(to, &n);
  *(mutations ? &mutated : &whole) += made;
  return n;
}

/* ---------------------------------------------------------------- a case */
static int64_t ends[17], lives;
static void play(pf_net *n, uint8_t *bytes) {
  pf_link_conn *c = calloc(1, sizeof *c);
  pf_remote *r = NULL;
  int greeting = below(4) == 0;
  c->fd = n->wakefd;
  pf_peer *p = pf_peer_new(n, &tape, c, 0);
  c->n = make_tape(p, bytes, greeting);
  c->p = bytes;
  pf_peer_ref(p);                       /* the net's list has it: it is found as a connected peer is */
  pthread_mutex_lock(&n->lock);
  p->next = n->peers;
  n->peers = p;
  if (!greeting) {
    pf_copy_text(p->name, sizeof p->name, "/job:f/task:1", 13);
    pf_a32_store(&p->state, PF_PEER_OPEN);
  }
  pthread_mutex_unlock(&n->lock);
  pf_error err;
  pf_error_clear(&err);
  if (!greeting) pf_net_run(n, p->name, 1, (pf_step_key){7, 1}, NULL, 0, 0, NULL, NULL, &r, &err);
  for (int k = 0; k < 100000 && !pf_peer_is(p, PF_PEER_LOST); k++) {
    pf_peer_readable(p);
    if (below(4) == 0) pf_peer_writable(p);
  }
  if (!pf_peer_is(p, PF_PEER_LOST)) {
    fprintf(stderr, "a peer neither lives nor is lost\n");
    abort();
  }
  lives += strstr(p->why.message, "the tape ends") != NULL;
  ends[p->why.code]++;
  if (r && !pf_a32_load(&r->over)) abort();
  pf_remote_unref(r);
  pf_peer_unref(p);
  pf_task_clean_session(n->task, 7);
  pf_task_sweep(n->task, -1);           /* of sessions that no frame had */
}

static void drop(void *owner) { (void)owner; }

int main(int argc, char **argv) {
  int64_t count = argc > 1 ? atoll(argv[1]) : 1000, worst = 0, before = -1;
  seed = (uint64_t)(argc > 2 ? atoll(argv[2]) : 0) * 2654435769u + 88172645463325252u;
  pf_error err;
  pf_error_clear(&err);
  pf_task *task = pf_task_new("/job:fuzz/task:0");
  pf_net_options o = {.lease_ns = (int64_t)3600 * 1000000000, .queue_bytes = 1 << 20, .arena_bytes = 1 << 20, .incoming_bytes = 64 << 20,
                      .window_bytes = 1 << 18};
  pf_net *n = pf_net_new(task, &o, &err);
  uint8_t *bytes = malloc(MOST);
  /* A plan whose arguments are looked at, and never right: its second one is a handle. */
  static int32_t types[2] = {PF_FLOAT32, PF_RESOURCE};
  static pf_plan plan;
  static pf_shape shapes[2] = {{.ndim = -1}, {.ndim = -1}};
  static pf_str names[2] = {{"a", 1}, {"b", 1}};
  pf_plan *plans[1] = {&plan};
  int32_t numbers[2] = {0, 1};
  plan.n_args = 2, plan.arg_shape = shapes, plan.arg_name = names;
  plan.arg_type = types;
  if (!n || pf_net_serve(n, 1, &(pf_net_plans){plans, numbers, numbers, 1, 2, 0, 2}, NULL, drop, &err)) return 3;
  pf_mem_reset_peak();
  for (int64_t k = 0; k < count; k++) {
    int64_t began = pf_now_ns();
    play(n, bytes);
    began = pf_now_ns() - began;
    if (began > worst) worst = began;
    if (k == 100) before = pf_mem_in_use();
    if (began > (int64_t)5 * 1000000000) {
      fprintf(stderr, "case %lld took %.1f s\n", (long long)k, (double)began / 1e9);
      return 4;
    }
  }
  pf_mem_stats mem;
  pf_mem_get_stats(&mem);
  printf("%lld tapes with %lld frames mutated and %lld beside them, %lld to their ends; worst %.1f ms, most memory %.1f MB; lost with:", (long long)count,
         (long long)mutated, (long long)whole, (long long)lives,
         (double)worst / 1e6, (double)mem.peak / 1e6);
  for (int k = 0; k < 17; k++)
    if (ends[k]) printf(" %d: %lld", k, (long long)ends[k]);
  printf("\n");
  int leaks = before >= 0 && pf_mem_in_use() - before > 1 << 20;
  pf_net_close(n);
  pf_net_unref(n);
  pf_task_unref(task);
  free(bytes);
  if (leaks) fprintf(stderr, "memory in use grew from %lld to %lld bytes\n", (long long)before, (long long)pf_mem_in_use());
  return leaks || mem.peak > CAP ? 5 : 0;
}
