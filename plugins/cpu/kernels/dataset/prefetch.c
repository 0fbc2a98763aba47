/* prefetch.c - PrefetchDataset: elements that are there before they are asked for.
 *
 * A bounded ring that fills itself: whoever takes an element, or whose request has landed, asks for
 * the next one while there is room, on a thread of the host's pool.
 *
 *     IDLE -> FILLING [next]     FILLING -> IDLE [fill: full, ended, or paused]
 *
 * Invariants
 *   1. One thread at a time is FILLING, and it asks the input.
 *   2. An end or a failure stands in the ring behind the elements before it; a failure is told
 *      once.
 *   3. Whoever may touch the stage after an answer was given holds it: the answer may have closed
 *      it.
 * Threads: any; `lock` guards the ring.
 */
#include "dataset/dataset.h"
#include "dataset/reading.h"
#include "dataset/prefetch.h"

enum { AUTO = 4 };
typedef struct { pf_list output_types; } prefetch_state;
typedef struct {
  dataset d;
  int64_t room;
} prefetch;
typedef struct {
  ds_row row;
  pf_status st;
} item;
typedef struct {
  ds_stage s;
  ds_stage *in;
  atomic_int refs; /* its own, and the filling thread's */
  pthread_mutex_t lock;
  item *ring;
  int64_t head, n; /* the first; how many */
  int filling, ended, closed;
  ds_waiter landed;
  ds_row row;
  pf_status st;
  atomic_int met;
  ds_waiter *waiter;
  ds_row *out;
} prefetch_stage;

static int64_t room(const prefetch_stage *p) { return ((const prefetch *)p->s.of)->room; }

static void prefetch_free(prefetch_stage *p) {
  if (atomic_fetch_sub(&p->refs, 1) > 1) return;
  for (int64_t i = 0; p->ring && i < room(p); i++) ds_row_clear(&p->ring[i].row);
  free(p->ring);
  ds_close(p->in);
  ds_unref((dataset *)p->s.of);
  pthread_mutex_destroy(&p->lock);
  free(p);
}
static pf_status take(prefetch_stage *p, ds_row *out) { /* with the lock */
  if (!p->n) return p->ended ? DS_END : PF_PENDING;
  item *first = &p->ring[p->head];
  pf_status st = first->st;
  *out = first->row;
  *first = (item){{0}, DS_OK};
  p->head = (p->head + 1) % room(p);
  p->n--;
  return st;
}
static void arrived(prefetch_stage *p, pf_status st) {
  ds_waiter *w = NULL;
  pthread_mutex_lock(&p->lock);
  int stopped = ds_stopped(st, &p->row);
  if (st == DS_END) {
    p->ended = 1;
  } else if (!stopped) {
    p->ring[(p->head + p->n) % room(p)] = (item){p->row, st};
    p->n++;
  }
  p->row = (ds_row){0};
  if (p->waiter && (stopped || (st = take(p, p->out)) != PF_PENDING)) {
    w = p->waiter;
    p->waiter = NULL;
  }
  pthread_mutex_unlock(&p->lock);
  if (w) w->fn(w, st);
}
static void fill(void *arg) { /* FILLING, and it holds the stage and the root */
  prefetch_stage *p = arg;
  ds_root *root = p->s.root;
  for (;;) {
    pthread_mutex_lock(&p->lock);
    int wanted = p->waiter && !p->n; /* by a request that a pause waits for */
    int go = !p->ended && !p->closed && p->n < room(p) && (wanted || !atomic_load(&root->paused)) &&
             !atomic_load(&root->interrupted);
    ds_waiter *w = go || p->n || p->ended ? NULL : p->waiter; /* it is interrupted */
    if (w) p->waiter = NULL;
    if (!go) p->filling = 0;
    pthread_mutex_unlock(&p->lock);
    if (w) w->fn(w, PF_CANCELLED);
    if (!go) break;
    atomic_store_explicit(&p->met, 0, memory_order_relaxed);
    pf_status st = p->in->kind->next(p->in, &p->row, &p->landed);
    if (st == PF_PENDING) {
      if (atomic_fetch_add(&p->met, 1) == 0) return;
      st = p->st;
    }
    arrived(p, st);
  }
  prefetch_free(p);
  ds_release(root);
}
static void fill_landed(ds_waiter *w, pf_status st) {
  prefetch_stage *p = (prefetch_stage *)((char *)w - offsetof(prefetch_stage, landed));
  p->st = st;
  if (atomic_fetch_add(&p->met, 1) == 0) return;
  arrived(p, st);
  fill(p);
}
static pf_status prefetch_next(ds_stage *s, ds_row *out, ds_waiter *w) {
  prefetch_stage *p = (prefetch_stage *)s;
  const pf_host *h = s->of->host;
  pthread_mutex_lock(&p->lock);
  pf_status st = take(p, out);
  if (st == PF_PENDING) {
    p->waiter = w;
    p->out = out;
  }
  int go = !p->filling && !p->ended && p->n < room(p) &&
           (st == PF_PENDING || !atomic_load(&s->root->paused));
  if (go) { /* IDLE -> FILLING */
    p->filling = 1;
    atomic_fetch_add(&p->refs, 1);
    ds_hold(s->root);
  }
  pthread_mutex_unlock(&p->lock);
  if (go && h->post(h, PF_LANE_CPU, fill, p)) fill(p);
  return st;
}
static void prefetch_close(ds_stage *s) {
  prefetch_stage *p = (prefetch_stage *)s;
  pthread_mutex_lock(&p->lock);
  p->closed = 1;
  pthread_mutex_unlock(&p->lock);
  prefetch_free(p);
}
static void prefetch_save(ds_stage *s, ds_writer *w) { /* failures in the ring are not kept */
  prefetch_stage *p = (prefetch_stage *)s;
  int64_t n = 0;
  for (int64_t i = 0; i < p->n; i++) n += p->ring[(p->head + i) % room(p)].st == DS_OK;
  ds_put_int(w, p->ended);
  ds_put_int(w, n);
  for (int64_t i = 0; i < p->n; i++) {
    const item *x = &p->ring[(p->head + i) % room(p)];
    if (x->st == DS_OK) ds_put_row(w, &x->row);
  }
  ds_put_stage(w, p->in);
}
static pf_status prefetch_load(ds_stage *s, ds_reader *r) {
  prefetch_stage *p = (prefetch_stage *)s;
  int64_t ended, n;
  PF_TRY(ds_get_range(r, 0, 1, &ended));
  PF_TRY(ds_get_range(r, 0, room(p), &n));
  p->ended = (int)ended;
  for (; p->n < n; p->n++) {
    PF_TRY(ds_get_row(r, s->of->in[0], &p->ring[p->n].row));
    p->ring[p->n].st = DS_OK;
  }
  return ds_get_stage(r, p->in);
}
static const ds_stage_kind PREFETCH_STAGE = {
  .next = prefetch_next, .close = prefetch_close, .save = prefetch_save, .load = prefetch_load};
static pf_status prefetch_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  prefetch_stage *p = ds_stage_new(sizeof *p, &PREFETCH_STAGE, d, at, error);
  if (!p) return PF_RESOURCE_EXHAUSTED;
  pthread_mutex_init(&p->lock, NULL);
  atomic_store(&p->refs, 1);
  ds_ref((dataset *)d); /* who opened it may let go of it while it fills */
  p->landed.fn = fill_landed;
  p->ring = calloc((size_t)room(p), sizeof *p->ring);
  pf_status st = p->ring ? ds_open(d->in[0], at, error, &p->in)
                         : ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory to prefetch");
  if (st) return prefetch_close(&p->s), st;
  *out = &p->s;
  return PF_OK;
}
static int64_t prefetch_size(const dataset *d) { return ds_size(d->in[0]); }
static const ds_kind PREFETCH = {"Prefetch", prefetch_open, NULL, prefetch_size};
dataset *ds_prefetched(dataset *of, int64_t room) {
  prefetch *p = ds_over(sizeof *p, &PREFETCH, of);
  if (p) p->room = PF_MAX(room, 1);
  return p ? &p->d : NULL;
}
static pf_status prefetch_compute(pf_ctx *c, const void *state) {
  prefetch *d =
      ds_new(c, sizeof *d, &PREFETCH, NULL, 1, &((const prefetch_state *)state)->output_types);
  if (!d) return PF_INVALID_ARGUMENT;
  pf_status st = ds_same_types(c, &d->d);
  if (!st) st = ds_scalar_in(c, 1, "buffer_size", &d->room);
  if (!st && (d->room < -1 || d->room > 1 << 24))
    st = PF_INVALID(c, "buffer_size must be >= 0, or -1 for a size of the host's choice");
  if (d->room == -1) d->room = AUTO;
  if (d->room == 0) d->room = 1; /* TF's "no prefetching" is one ahead here */
  return ds_out(c, d, st);
}
extern const pf_kernel *const prefetch_kernels[];
const pf_kernel *const prefetch_kernels[] = {
  PF_CPU("PrefetchDataset", NULL, .compute = prefetch_compute, .state_size = sizeof(prefetch_state),
         .attrs = PF_ATTRS(PF_ATTR(prefetch_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types))),
  NULL};
