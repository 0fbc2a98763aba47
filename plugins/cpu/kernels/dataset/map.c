/* map.c - MapDataset, ParallelMapDataset(V2), MapAndBatchDataset: a function of each element, in
 * order.
 *
 * A RING of places, as many as calls may be under way. An element goes into the first free place,
 * its call begins at once, and results leave in the order in which elements came. A place keeps its
 * arguments until its result has left: that is what is saved, and called again when restored.
 *
 *     place: FREE -> CALLED [fill]    CALLED -> DONE [landed]    DONE -> FREE [give]
 *
 * Invariants
 *   1. Call n of a stage draws its random numbers from stream mix(path, n): the same element gets
 *      the same numbers however many calls run at once, and after a restore.
 *   2. The input is asked by one at a time (`filling`), without the lock.
 *   3. A function that fails with OUT_OF_RANGE ends the iteration, as in TF.
 *   4. Whoever may touch the stage after an answer was given holds it: the answer may have closed
 *      it.
 * Threads: any; `lock` guards the ring.
 */
#include "dataset/batch.h"
#include "dataset/reading.h"

typedef struct {
  pf_list output_types;
  pf_str f;
  int32_t preserve_cardinality;
} map_state;
typedef struct {
  dataset d;
  ds_function f;
  int64_t parallel;
  int32_t keeps;
} map_dataset;
typedef struct map_stage map_stage;
enum { FREE, CALLED, DONE };
typedef struct {
  ds_flight flight;
  map_stage *of;
  ds_row args;
  int state;
} place;
struct map_stage {
  ds_stage s;
  ds_stage *in;
  atomic_int refs; /* its own, and of what is under way */
  pthread_mutex_t lock;
  place *ring;
  int64_t size, head, tail;      /* the next to leave, the next to come; of all ever */
  int filling, finished, closed; /* the input is asked; a function ended the iteration */
  pf_status ended;               /* what the input said last; DS_OK: an element */
  ds_row error;                  /* with it */
  ds_waiter fill_waiter;
  ds_row fill_row;
  pf_status fill_st;
  atomic_int met;
  ds_waiter *waiter; /* who waits for the head */
  ds_row *out;
};
static const map_dataset *of(const map_stage *m) { return (const map_dataset *)m->s.of; }
static place *at(const map_stage *m, int64_t n) { return &m->ring[n % m->size]; }

static void hold(map_stage *m) {
  atomic_fetch_add(&m->refs, 1);
  ds_hold(m->s.root);
}
static void map_free_stage(map_stage *m) {
  if (atomic_fetch_sub(&m->refs, 1) > 1) return;
  for (int64_t i = 0; m->ring && i < m->size; i++) {
    ds_row_clear(&m->ring[i].args);
    ds_row_clear(&m->ring[i].flight.row);
  }
  ds_row_clear(&m->error);
  free(m->ring);
  ds_close(m->in);
  ds_unref((dataset *)m->s.of);
  pthread_mutex_destroy(&m->lock);
  free(m);
}
static void let_go(map_stage *m) {
  ds_root *root = m->s.root;
  map_free_stage(m);
  ds_release(root);
}

/* ---------------------------------------------------------------- giving; with the lock */
static pf_status give_head(map_stage *m, ds_row *out) {
  place *p = at(m, m->head);
  pf_status st = p->flight.st;
  *out = p->flight.row;
  p->flight.row = (ds_row){0};
  ds_row_clear(&p->args);
  p->state = FREE;
  m->head++;
  if (st != PF_OUT_OF_RANGE) return st;
  if (of(m)->keeps) return ds_not_the_end(out, st, PF_INVALID_ARGUMENT);
  ds_row_clear(out);
  m->finished = 1;
  return DS_END;
}
static pf_status try_give(map_stage *m, ds_row *out) {
  if (m->finished) return DS_END;
  if (m->head < m->tail) return at(m, m->head)->state == DONE ? give_head(m, out) : PF_PENDING;
  if (m->filling || m->ended == DS_OK) return PF_PENDING;
  pf_status st = m->ended;
  if (st == DS_END) return st;
  *out = m->error; /* told once; then the input is asked again */
  m->error = (ds_row){0};
  m->ended = DS_OK;
  return st;
}
/* Something has changed: perhaps who waits can have its answer. */
static void wake(map_stage *m) {
  pthread_mutex_lock(&m->lock);
  ds_waiter *w = m->waiter;
  pf_status st = w ? try_give(m, m->out) : PF_PENDING;
  if (st != PF_PENDING) m->waiter = NULL;
  pthread_mutex_unlock(&m->lock);
  if (st != PF_PENDING) w->fn(w, st);
}

/* ---------------------------------------------------------------- calls */
static void landed(ds_flight *f) {
  place *p = (place *)f;
  map_stage *m = p->of;
  pthread_mutex_lock(&m->lock);
  p->state = DONE;
  pthread_mutex_unlock(&m->lock);
  wake(m);
  let_go(m);
}
/* Call n of the stage, whose arguments lie in its place. */
static void call(map_stage *m, int64_t n) {
  place *p = at(m, n);
  ds_row args;
  hold(m);
  p->of = m;
  p->flight.done = landed;
  if (ds_row_share(m->s.of->host, &p->args, &args)) {
    ds_fly(&p->flight, m->s.of->host, &of(m)->f, &args, ds_mix(m->s.path, (uint64_t)n));
    return;
  }
  p->flight.st = ds_fail(&p->flight.row, PF_RESOURCE_EXHAUSTED, "no memory to call a function");
  landed(&p->flight);
}

/* ---------------------------------------------------------------- filling */
static void filled(map_stage *m, pf_status st) {
  ds_row row = m->fill_row;
  ds_waiter *w = NULL;
  m->fill_row = (ds_row){0};
  pthread_mutex_lock(&m->lock);
  int64_t n = m->tail;
  m->filling = 0;
  if (ds_stopped(st, &row)) { /* nothing came, who waits hears of it */
    w = m->waiter;
    m->waiter = NULL;
  } else if (st == DS_OK) {
    at(m, n)->args = row;
    at(m, n)->state = CALLED;
    m->tail++;
  } else {
    m->ended = st;
    m->error = row;
  }
  pthread_mutex_unlock(&m->lock);
  if (w) w->fn(w, st);
  else if (st == DS_OK) call(m, n);
  else wake(m);
}
static void fill(map_stage *m) {
  ds_root *root = m->s.root;
  hold(m);
  for (;;) {
    pthread_mutex_lock(&m->lock);
    int go = !m->filling && m->ended == DS_OK && !m->finished && !m->closed &&
             m->tail - m->head < m->size && !ds_interrupted(root) &&
             (m->head == m->tail || !atomic_load(&root->paused)); /* one for who asks */
    if (go) m->filling = 1;
    pthread_mutex_unlock(&m->lock);
    if (!go) break;
    hold(m);
    atomic_store_explicit(&m->met, 0, memory_order_relaxed);
    pf_status st = m->in->kind->next(m->in, &m->fill_row, &m->fill_waiter);
    if (st == PF_PENDING) {
      if (atomic_fetch_add(&m->met, 1) == 0) break;
      st = m->fill_st;
    }
    filled(m, st);
    let_go(m);
  }
  let_go(m);
}
static void fill_landed(ds_waiter *w, pf_status st) {
  map_stage *m = (map_stage *)((char *)w - offsetof(map_stage, fill_waiter));
  m->fill_st = st;
  if (atomic_fetch_add(&m->met, 1) == 0) return;
  filled(m, st);
  fill(m);
  let_go(m);
}

/* ---------------------------------------------------------------- the stage */
static pf_status map_next(ds_stage *s, ds_row *out, ds_waiter *w) {
  map_stage *m = (map_stage *)s;
  pf_status st;
  int idle;
  do { /* again after an error that was told */
    fill(m);
    pthread_mutex_lock(&m->lock);
    st = try_give(m, out);
    idle = st == PF_PENDING && !m->filling && m->head == m->tail;
    if (idle && ds_interrupted(s->root)) st = PF_CANCELLED;
    if (st == PF_PENDING && !idle) {
      m->waiter = w;
      m->out = out;
    }
    pthread_mutex_unlock(&m->lock);
  } while (st == PF_PENDING && idle);
  return st;
}
static void map_close(ds_stage *s) {
  map_stage *m = (map_stage *)s;
  pthread_mutex_lock(&m->lock);
  m->closed = 1;
  pthread_mutex_unlock(&m->lock);
  map_free_stage(m);
}
static void map_save(ds_stage *s, ds_writer *w) {
  map_stage *m = (map_stage *)s;
  ds_put_int(w, m->finished);
  ds_put_int(w, m->ended == DS_END);
  ds_put_int(w, m->head);
  ds_put_int(w, m->tail - m->head);
  for (int64_t n = m->head; n < m->tail; n++) ds_put_row(w, &at(m, n)->args);
  ds_put_stage(w, m->in);
}
/* Saved with more parallel calls: what does not fit in the ring makes it larger. */
static pf_status map_load(ds_stage *s, ds_reader *r) {
  map_stage *m = (map_stage *)s;
  int64_t finished, ended, n;
  PF_TRY(ds_get_range(r, 0, 1, &finished));
  PF_TRY(ds_get_range(r, 0, 1, &ended));
  PF_TRY(ds_get_range(r, 0, INT64_MAX / 2, &m->head));
  PF_TRY(ds_get_range(r, 0, 1 << 20, &n));
  if (n > m->size) {
    place *ring = calloc((size_t)n, sizeof *ring);
    if (!ring) return PF_RESOURCE_EXHAUSTED;
    free(m->ring);
    m->ring = ring;
    m->size = n;
  }
  m->finished = (int)finished;
  m->ended = ended ? DS_END : DS_OK;
  m->tail = m->head;
  for (int64_t i = 0; i < n; i++, m->tail++) {
    PF_TRY(ds_get_row(r, s->of->in[0], &at(m, m->tail)->args));
    at(m, m->tail)->state = CALLED;
  }
  PF_TRY(ds_get_stage(r, m->in));
  for (int64_t k = m->head; k < m->tail; k++) call(m, k);
  return PF_OK;
}
static const ds_stage_kind MAP_STAGE = {
  .next = map_next, .close = map_close, .save = map_save, .load = map_load};
static pf_status map_open(const dataset *d, ds_place where, ds_row *error, ds_stage **out) {
  map_stage *m = ds_stage_new(sizeof *m, &MAP_STAGE, d, where, error);
  if (!m) return PF_RESOURCE_EXHAUSTED;
  pthread_mutex_init(&m->lock, NULL);
  atomic_store(&m->refs, 1);
  ds_ref((dataset *)d); /* who opened it may let go of it during calls */
  m->fill_waiter.fn = fill_landed;
  m->size = of(m)->parallel;
  m->ring = calloc((size_t)m->size, sizeof *m->ring);
  pf_status st = m->ring ? ds_open(d->in[0], where, error, &m->in)
                         : ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory for a map's calls");
  if (st) return map_close(&m->s), st;
  *out = &m->s;
  return PF_OK;
}
static void map_free(dataset *d) { ds_function_clear(&((map_dataset *)d)->f); }
static int64_t map_size(const dataset *d) { return ds_size(d->in[0]); }
static const ds_kind MAP = {"Map", map_open, map_free, map_size};

static pf_status map_new(pf_ctx *c, const map_state *st, int64_t parallel, int32_t n_captured,
                         dataset **out) {
  map_dataset *d = ds_new(c, sizeof *d, &MAP, NULL, 1, &st->output_types);
  *out = (dataset *)d;
  if (!d) return PF_INVALID_ARGUMENT;
  d->parallel = parallel == -1 ? c->host->workers(c) : parallel;
  d->keeps = st->preserve_cardinality;
  pf_status r = ds_function_get(c, st->f, 1, n_captured, &d->f);
  if (!r) r = ds_function_gives(c, &d->f, d->d.types, d->d.n_types);
  if (!r && (d->parallel < 1 || d->parallel > 1 << 16))
    r = PF_INVALID(c, "num_parallel_calls must be greater than zero.");
  return r;
}
static pf_status map_made(pf_ctx *c, const void *state, int64_t parallel, int32_t n_captured) {
  dataset *d;
  pf_status st = map_new(c, state, parallel, n_captured, &d);
  return ds_out(c, d, st);
}
static pf_status map_compute(pf_ctx *c, const void *state) {
  return map_made(c, state, 1, c->n_in - 1);
}
static pf_status parallel_map_compute(pf_ctx *c, const void *state) {
  int64_t parallel;
  PF_TRY(ds_scalar_in(c, c->n_in - 1, "num_parallel_calls", &parallel));
  return map_made(c, state, parallel, c->n_in - 2);
}
/* MapAndBatchDataset: batches of what the map gives. */
static pf_status map_and_batch_compute(pf_ctx *c, const void *state) {
  int32_t first = c->n_in - 3, drop;
  int64_t size, parallel;
  dataset *d;
  PF_TRY(ds_scalar_in(c, first, "batch_size", &size));
  PF_TRY(ds_scalar_in(c, first + 1, "num_parallel_calls", &parallel));
  PF_TRY(ds_bool_in(c, first + 2, "drop_remainder", &drop));
  pf_status st = map_new(c, state, parallel, first - 1, &d);
  if (!st) st = ds_can_batch(c, size, d);
  if (!st && !(d = ds_batched(d, size, drop)))
    st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a dataset");
  return ds_out(c, d, st);
}
#define MAPS(op_, compute_) \
  PF_CPU(op_, NULL, .compute = compute_, .state_size = sizeof(map_state), \
         .attrs = PF_ATTRS(PF_ATTR(map_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types), \
                           PF_ATTR(map_state, PF_ATTR_FUNC, f), \
                           PF_ATTR(map_state, PF_ATTR_BOOL, preserve_cardinality)))
extern const pf_kernel *const map_kernels[];
const pf_kernel *const map_kernels[] = {
  MAPS("MapDataset", map_compute),
  MAPS("ParallelMapDataset", parallel_map_compute),
  MAPS("ParallelMapDatasetV2", parallel_map_compute),
  MAPS("MapAndBatchDataset", map_and_batch_compute),
  MAPS("ExperimentalMapAndBatchDataset", map_and_batch_compute),
  NULL};
