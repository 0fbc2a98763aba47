/* iterator.c - IteratorV2, OneShotIterator, MakeIterator, IteratorGetNext, elements as optionals,
 * string handles, and an iterator's state: iterator.h.
 *
 * Threads: as told there.
 */
#include "containers/tensor_list.h"
#include "dataset/iterator.h"
#include <time.h>

/* ---------------------------------------------------------------- readings */
void ds_reading_ref(ds_reading *r) { atomic_fetch_add(&r->refs, 1); }
void ds_reading_unref(ds_reading *r) {
  if (!r || atomic_fetch_sub(&r->refs, 1) > 1) return;
  ds_close(r->stage);
  ds_unref(r->of);
  pthread_cond_destroy(&r->root.idle);
  pthread_mutex_destroy(&r->root.lock);
  free(r);
}
void ds_hold(ds_root *root) {
  ds_reading_ref((ds_reading *)root);
  atomic_fetch_add(&root->busy, 1);
}
void ds_release(ds_root *root) {
  pthread_mutex_lock(&root->lock);
  if (atomic_fetch_sub(&root->busy, 1) == 1) pthread_cond_broadcast(&root->idle);
  pthread_mutex_unlock(&root->lock);
  ds_reading_unref((ds_reading *)root);
}
pf_status ds_reading_open(dataset *of, ds_row *error, ds_reading **out) {
  ds_reading *r = calloc(1, sizeof *r);
  *out = NULL;
  if (!r) return ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory for an iterator");
  atomic_store(&r->refs, 1);
  r->root.host = of->host;
  pthread_mutex_init(&r->root.lock, NULL);
  pthread_cond_init(&r->root.idle, NULL);
  ds_ref(r->of = of);
  pf_status st = ds_open(of, (ds_place){&r->root, 1}, error, &r->stage);
  if (st) ds_reading_unref(r);
  else *out = r;
  return st;
}

/* ---------------------------------------------------------------- iterators */
typedef struct iterator iterator;
typedef struct waiting {                /* references: the list's and the cancel callback's */
  struct waiting *next;
  atomic_int refs;
  int listed, optional;
  iterator *it;
  pf_ctx *c;
  uint64_t ticket;
} waiting;
struct iterator {
  ds_waiter landed;                     /* first: of the request */
  atomic_int refs;
  pthread_mutex_t lock;
  pthread_cond_t quiet;                 /* busy has become 0 */
  const pf_host *host;
  ds_reading *reading, *asked;          /* asked: of the request, while busy */
  ds_function factory;                  /* of a one-shot iterator */
  ds_flight flight;
  waiting *first, **last;
  int busy, kept;                       /* a request, or a save, is on; `answer` waits for a call */
  ds_row row, answer_row;               /* the request's; the kept answer's */
  pf_status answer;
  int32_t n_types, *types, n_shapes;
  pf_shape *shapes;                     /* with their sizes behind them, in one piece */
  char *container, *name;
  pf_str pending;                       /* a state that was restored before the dataset is known */
};
static void iterator_free(void *obj) {
  iterator *it = obj;
  if (atomic_fetch_sub(&it->refs, 1) > 1) return;
  ds_row_clear(&it->answer_row);
  if (it->factory.fn) ds_function_clear(&it->factory);
  ds_reading_unref(it->reading);
  pthread_cond_destroy(&it->quiet);
  pthread_mutex_destroy(&it->lock);
  free(it->types);
  free(it->shapes);
  free(it->container);
  free(it->name);
  free((char *)it->pending.data);
  free(it);
}
static void iterator_abort(void *obj, pf_status why);
static void iterator_tell(void *obj, pf_wait_state *to) {
  (void)obj;
  to->flags = PF_WAIT_WORKS;
  snprintf(to->takes, sizeof to->takes, "next element of iterator");
}
static const pf_type ITERATOR = {.size = sizeof(pf_type), .id = "pyflow.Iterator",
                                 .unref = iterator_free, .abort = iterator_abort,
                                 .tell = iterator_tell};

static void waiting_unref(waiting *w, int n) {
  if (atomic_fetch_sub(&w->refs, n) == n) {
    iterator_free(w->it);
    free(w);
  }
}

/* ---------------------------------------------------------------- giving an answer */
static _Thread_local pf_ctx *asking;    /* the call on whose stack a request runs */
int ds_asker_gone(const ds_root *r) {
  return asking && r->host->cancelled(asking);
}
/* The element, or at the end none, as one optional.  Takes the row. */
static pf_status give_optional(pf_ctx *c, pf_status st, ds_row *row) {
  tensor_list *l = list_new(c, LIST_OPTIONAL, row->n);
  if (!l) return ds_row_clear(row), PF_RESOURCE_EXHAUSTED;
  l->max = st == DS_OK;
  for (int32_t i = 0; i < row->n; i++) {
    l->items[i] = (list_item){value_of(row->v[i]), -1};
    row->v[i] = NULL;
    if (!l->items[i].v)
      return ds_row_clear(row), list_unref(l),
             pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an optional");
  }
  ds_row_clear(row);
  return list_out(c, 0, l);
}
/* Outputs of the call, or its failure.  Takes the row. */
static pf_status give(pf_ctx *c, pf_status st, ds_row *row, int optional) {
  if (optional && (st == DS_OK || st == DS_END)) return give_optional(c, st, row);
  if (st == DS_END) return pf_fail(c, PF_OUT_OF_RANGE, "End of sequence");
  if (st) {
    if (row->error) pf_failf(c, st, "%s", row->error);
    ds_row_clear(row);
    return st;
  }
  if (row->n != c->n_out)
    st = pf_failf(c, PF_INVALID_ARGUMENT, "the dataset's elements have %d components, the node has "
                  "%d outputs", row->n, c->n_out);
  for (int32_t i = 0; !st && i < c->n_out; i++) {
    ds_tensor *t = row->v[i];
    if (c->host->type_of(t) != c->out_type[i])
      st = PF_INVALID(c, "component %d of the element is %s, expected %s", i,
                      pf_type_name(c->host->type_of(t)), pf_type_name(c->out_type[i]));
    else
      row->v[i] = NULL, st = c->host->set_output(c, i, t);
  }
  ds_row_clear(row);
  return st;
}
static void end_call(waiting *w, pf_status st, ds_row *row) {
  int never = w->it->host->off_cancel(w->ticket);
  st = give(w->c, st, row, w->optional);
  w->it->host->done(w->ticket, st);
  waiting_unref(w, never ? 2 : 1);
}

/* ---------------------------------------------------------------- asking */
/* With the lock: a request is on from now. */
static void begin(iterator *it) {
  it->busy = 1;
  it->asked = it->reading;
  if (!it->asked) return;
  ds_reading_ref(it->asked);
  atomic_store(&it->asked->root.interrupted, 0);
}
static void factory_landed(ds_flight *f);
/* Without it: the answer in it->row, or PF_PENDING. */
static pf_status ask(iterator *it) {
  ds_row none = {0};
  it->row = none;
  if (it->asked) return it->asked->stage->kind->next(it->asked->stage, &it->row, &it->landed);
  if (!it->factory.fn)
    return ds_fail(&it->row, PF_FAILED_PRECONDITION, "GetNext() failed because the iterator has "
                   "not been initialized. Ensure that you have run the initializer operation for "
                   "this iterator before getting the next element.");
  it->flight.done = factory_landed;
  atomic_fetch_add(&it->refs, 1);       /* the flight's */
  ds_fly(&it->flight, it->host, &it->factory, &none, 0);
  return PF_PENDING;
}
static waiting *first_of(iterator *it) {        /* with the lock, out of the list */
  waiting *w = it->first;
  if (!w) return NULL;
  it->first = w->next;
  if (!it->first) it->last = &it->first;
  w->listed = 0;
  return w;
}
/* With the lock, the request over: 1: another one begins for who waits. */
static int go_on(iterator *it) {
  it->asked = NULL;
  it->busy = 0;
  if (it->first && !it->kept) begin(it);
  else pthread_cond_broadcast(&it->quiet);
  return it->busy;
}
/* The request has ended with st and it->row; goes on while calls wait and answers come at once.
 * Ends one reference, the request's. */
static void settle(iterator *it, pf_status st) {
  for (;;) {
    ds_row row = it->row;
    pthread_mutex_lock(&it->lock);
    ds_reading *over = it->asked;
    int none = over != it->reading || ds_stopped(st, &row); /* another reading's, or no answer */
    waiting *w = none ? NULL : first_of(it);
    if (!none && !w) {
      it->answer_row = row;
      it->answer = st;
      it->kept = 1;
      row = (ds_row){0};
    }
    int more = go_on(it);
    pthread_mutex_unlock(&it->lock);
    ds_reading_unref(over);
    if (w) end_call(w, st, &row);
    ds_row_clear(&row);
    if (!more) break;
    st = ask(it);
    if (st == PF_PENDING) return;
  }
  iterator_free(it);
}
static void request_landed(ds_waiter *w, pf_status st) { settle((iterator *)w, st); }

static pf_status fits(const iterator *it, const dataset *d, ds_row *error) {
  if (it->n_types != d->n_types)
    return ds_fail(error, PF_INVALID_ARGUMENT, "Number of components does not match: expected %d "
                   "types but got %d.", it->n_types, d->n_types);
  for (int32_t i = 0; i < it->n_types; i++)
    if (it->types[i] != d->types[i])
      return ds_fail(error, PF_INVALID_ARGUMENT, "Data type mismatch at component %d: expected %s "
                     "but got %s.", i, pf_type_name(it->types[i]), pf_type_name(d->types[i]));
  return PF_OK;
}
/* The list's shapes and their sizes, copied; 0: no memory */
static int keep_shapes(iterator *it, const pf_list *shapes) {
  const pf_shape *given = shapes->items;
  size_t n = (size_t)shapes->n, sizes = 0;
  for (size_t i = 0; i < n; i++) sizes += (size_t)PF_MAX(given[i].ndim, 0);
  it->shapes = calloc(1, (n + 1) * sizeof *given + sizes * sizeof *given->dims);
  if (!it->shapes) return 0;
  int64_t *to = (int64_t *)(it->shapes + n);
  for (size_t i = 0; i < n; i++) {
    it->shapes[i] = (pf_shape){to, given[i].ndim, 0};
    for (int32_t k = 0; k < given[i].ndim; k++) *to++ = given[i].dims[k];
  }
  it->n_shapes = (int32_t)n;
  return 1;
}
static int may_be(pf_shape a, pf_shape b) {
  if (a.ndim < 0 || b.ndim < 0) return 1;
  for (int32_t k = 0; a.ndim == b.ndim && k < a.ndim; k++)
    if (a.dims[k] >= 0 && b.dims[k] >= 0 && a.dims[k] != b.dims[k]) return 0;
  return a.ndim == b.ndim;
}
static const char *shape_text(pf_shape s, char *to, size_t room) {
  size_t n = (size_t)snprintf(to, room, "[");
  for (int32_t k = 0; k < s.ndim && n + 24 < room; k++)
    n += (size_t)snprintf(to + n, room - n, s.dims[k] < 0 ? "%s?" : "%s%" PRId64, k ? "," : "",
                          s.dims[k]);
  snprintf(to + n, room - n, "]");
  return to;
}
/* What a node says of the elements' shapes may be so of the iterator's. */
static pf_status shapes_fit(const iterator *it, const pf_list *declared, ds_row *error) {
  const pf_shape *wanted = declared->items;
  char a[300], b[300];
  for (int32_t i = 0; i < it->n_shapes && i < declared->n; i++)
    if (!may_be(wanted[i], it->shapes[i]))
      return ds_fail(error, PF_INVALID_ARGUMENT, "Incompatible shapes at component %d: expected %s "
                     "but got %s.", i, shape_text(wanted[i], a, sizeof a),
                     shape_text(it->shapes[i], b, sizeof b));
  return PF_OK;
}
/* A reading of the dataset that a factory made. */
static pf_status open_made(iterator *it, ds_row *made, ds_row *error, ds_reading **out) {
  dataset *d;
  PF_TRY(ds_made(it->host, made, error, &d));
  pf_status st = fits(it, d, error);
  if (!st) st = ds_reading_open(d, error, out);
  ds_unref(d);
  return st;
}
static void factory_landed(ds_flight *f) {
  iterator *it = (iterator *)((char *)f - offsetof(iterator, flight));
  ds_row made = f->row;
  ds_reading *r = NULL;
  pf_status st = f->st;
  it->row = (ds_row){0};
  if (st) {
    it->row = made;
  } else {
    st = open_made(it, &made, &it->row, &r);
    ds_row_clear(&made);
  }
  if (!st) {
    pthread_mutex_lock(&it->lock);
    it->reading = r;
    begin(it);
    pthread_mutex_unlock(&it->lock);
    st = ask(it);
  }
  if (st != PF_PENDING) settle(it, st);
  iterator_free(it);                    /* the flight's */
}

/* ---------------------------------------------------------------- waiting calls */
static void called_off(void *arg) {
  waiting *w = arg, **at;
  iterator *it = w->it;
  pthread_mutex_lock(&it->lock);
  int listed = w->listed;
  if (listed) {
    for (at = &it->first; *at != w; at = &(*at)->next) {}
    *at = w->next;
    if (!w->next) it->last = at;
    w->listed = 0;
    if (!it->first && it->asked) atomic_store(&it->asked->root.interrupted, 1);
  }
  pthread_mutex_unlock(&it->lock);
  if (listed) it->host->done(w->ticket, PF_CANCELLED);
  waiting_unref(w, listed ? 2 : 1);
}
static void iterator_abort(void *obj, pf_status why) {
  iterator *it = obj;
  pthread_mutex_lock(&it->lock);
  if (it->asked) atomic_store(&it->asked->root.interrupted, 1);
  waiting *w = it->first;
  it->first = NULL;
  it->last = &it->first;
  for (waiting *x = w; x; x = x->next) x->listed = 0;
  pthread_mutex_unlock(&it->lock);
  while (w) {
    waiting *next = w->next;
    int never = it->host->off_cancel(w->ticket);
    pf_fail(w->c, why, "the iterator's container was reset");
    it->host->done(w->ticket, why);
    waiting_unref(w, never ? 2 : 1);
    w = next;
  }
}
static void ask_later(void *arg) {
  iterator *it = arg;
  pf_status st = ask(it);
  if (st != PF_PENDING) settle(it, st);
}
/* With the lock, which it gives back: the call joins those that wait. */
static pf_status join(pf_ctx *c, iterator *it, int optional) {
  waiting *w = calloc(1, sizeof *w);
  if (!w) {
    pthread_mutex_unlock(&it->lock);
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a call that waits");
  }
  atomic_store(&w->refs, 2);
  w->it = it;
  w->optional = optional;
  atomic_fetch_add(&it->refs, 1);
  w->c = c = c->host->defer(c, &w->ticket);
  pf_status st = c->host->on_cancel(c, w->ticket, called_off, w);
  int ask_now = 0;
  if (!st) {
    w->listed = 1;
    *it->last = w;
    it->last = &w->next;
    if (!it->busy) {
      begin(it);
      atomic_fetch_add(&it->refs, 1);
      ask_now = 1;
    }
  }
  const pf_host *h = it->host;
  pthread_mutex_unlock(&it->lock);
  if (st) return waiting_unref(w, 2), st;
  if (ask_now && h->post(h, PF_LANE_CPU, ask_later, it)) ask_later(it);
  return PF_PENDING;
}
/* With the lock, which it gives back: the answer that is there. */
static pf_status take_kept(pf_ctx *c, iterator *it, int optional) {
  ds_row row = it->answer_row;
  pf_status st = it->answer;
  it->answer_row = (ds_row){0};
  it->kept = 0;
  pthread_mutex_unlock(&it->lock);
  return give(c, st, &row, optional);
}
static pf_status next_of(pf_ctx *c, int optional) {
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &ITERATOR, &obj));
  iterator *it = obj;
  pthread_mutex_lock(&it->lock);
  if (it->kept && !it->first) return take_kept(c, it, optional);
  if (it->busy) return join(c, it, optional);
  begin(it);
  atomic_fetch_add(&it->refs, 1);       /* the request's */
  pthread_mutex_unlock(&it->lock);
  pf_ctx *outer = asking;
  asking = c;
  pf_status st = ask(it);
  asking = outer;
  if (st == PF_PENDING) {
    pthread_mutex_lock(&it->lock);
    return it->kept && !it->first ? take_kept(c, it, optional) : join(c, it, optional);
  }
  ds_row row = it->row;                 /* this call's, before those who came meanwhile */
  pthread_mutex_lock(&it->lock);
  ds_reading *over = it->asked;
  int more = go_on(it);
  pthread_mutex_unlock(&it->lock);
  ds_reading_unref(over);
  st = give(c, st, &row, optional);
  if (!more) iterator_free(it);
  else if (it->host->post(it->host, PF_LANE_CPU, ask_later, it)) ask_later(it);
  return st;
}
static pf_status get_next(pf_ctx *c, const void *state) {
  (void)state;
  return next_of(c, 0);
}
static pf_status get_next_as_optional(pf_ctx *c, const void *state) {
  (void)state;
  return next_of(c, 1);
}

/* ---------------------------------------------------------------- making them */
typedef struct {
  pf_list output_types, output_shapes;
  pf_str shared_name, container, dataset_factory;
} iterator_state;

static pf_status iterator_make(pf_ctx *c, void *arg, void **obj) {
  const iterator_state *st = arg;
  iterator *it = calloc(1, sizeof *it);
  size_t bytes = sizeof *it->types * (size_t)PF_MAX(st->output_types.n, 1);
  pf_str name = st->shared_name.len ? st->shared_name : c->host->node_name(c);
  if (!it || !(it->types = malloc(bytes)))
    return free(it), pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an iterator");
  it->container = strndup(st->container.len ? st->container.data : "",
                          (size_t)PF_MIN(st->container.len, 400));
  it->name = strndup(name.data, (size_t)PF_MIN(name.len, 600));
  it->n_types = (int32_t)st->output_types.n;
  memcpy(it->types, st->output_types.items, sizeof *it->types * (size_t)it->n_types);
  if (!keep_shapes(it, &st->output_shapes))
    return free(it->types), free(it->container), free(it->name), free(it),
           pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an iterator");
  it->landed.fn = request_landed;
  atomic_store(&it->refs, 1);
  pthread_mutex_init(&it->lock, NULL);
  pthread_cond_init(&it->quiet, NULL);
  it->host = c->host;
  it->last = &it->first;
  if (st->dataset_factory.len) {
    pf_status r = ds_function_get(c, st->dataset_factory, 0, 0, &it->factory);
    if (r) return iterator_free(it), r;
  }
  *obj = it;
  return PF_OK;
}
static pf_status iterator_compute(pf_ctx *c, const void *state) {
  const iterator_state *st = state;
  return c->host->resource_output(c, 0, st->container, st->shared_name, &ITERATOR, iterator_make,
                                  (void *)st);
}
static pf_status told(pf_ctx *c, pf_status st, ds_row *error) {
  if (st) pf_failf(c, st, "%s", error->error ? error->error : "no memory");
  ds_row_clear(error);
  return st;
}
static pf_status load_pending(iterator *it, ds_reading *r, ds_row *error, ds_row *answer,
                              pf_status *status, int64_t *kept);
static pf_status make_iterator(pf_ctx *c, const void *state) {
  void *obj;
  dataset *d;
  ds_row error = {0}, answer = {0};
  ds_reading *r = NULL, *old;
  pf_status status = DS_OK;
  int64_t kept = 0;
  (void)state;
  PF_TRY(ds_input(c, 0, &d));
  PF_TRY(c->host->resource_get(c, 1, &ITERATOR, &obj));
  iterator *it = obj;
  pf_status st = fits(it, d, &error);
  if (!st) st = ds_reading_open(d, &error, &r);
  if (!st) st = load_pending(it, r, &error, &answer, &status, &kept);
  if (st) {
    ds_reading_unref(r);
    ds_row_clear(&answer);
    return told(c, st, &error);
  }
  pthread_mutex_lock(&it->lock);
  old = it->reading;
  it->reading = r;
  it->kept = kept != 0;
  error = it->answer_row;
  it->answer_row = answer;
  it->answer = status;
  if (it->asked) atomic_store(&it->asked->root.interrupted, 1);
  pthread_mutex_unlock(&it->lock);
  ds_row_clear(&error);
  ds_reading_unref(old);
  return PF_OK;
}

/* ---------------------------------------------------------------- handles as strings
 * "pyflow.Iterator:3:abcname": the length of the container's name, it, and the iterator's own. */
static const char PREFIX[] = "pyflow.Iterator:";
static pf_status to_string_handle(pf_ctx *c, const void *state) {
  void *obj;
  char text[1200];
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &ITERATOR, &obj));
  const iterator *it = obj;
  int n = snprintf(text, sizeof text, "%s%zu:%s%s", PREFIX, strlen(it->container), it->container,
                   it->name);
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  return c->host->str_set(y, 0, (pf_str){text, PF_MIN(n, (int)sizeof text - 1)});
}
static pf_status nobody(pf_ctx *c, void *arg, void **obj) {
  (void)arg;
  (void)obj;
  return pf_fail(c, PF_NOT_FOUND, "no iterator has this string handle: it was never made, or its "
                 "container was reset");
}
/* 1: the parts of a string handle */
static int parse_handle(pf_str s, pf_str *container, pf_str *name) {
  int64_t prefix = (int64_t)sizeof PREFIX - 1, at = prefix, n = 0;
  if (s.len < prefix || memcmp(s.data, PREFIX, (size_t)prefix)) return 0;
  for (; at < s.len && s.data[at] >= '0' && s.data[at] <= '9' && n < 100000; at++)
    n = n * 10 + s.data[at] - '0';
  if (at == prefix || at >= s.len || s.data[at] != ':' || n > s.len - at - 1) return 0;
  *container = (pf_str){s.data + at + 1, n};
  *name = (pf_str){s.data + at + 1 + n, s.len - at - 1 - n};
  return name->len > 0;
}
static pf_status from_string_handle(pf_ctx *c, const void *state) {
  const iterator_state *st = state;
  pf_str text, container, name;
  void *obj;
  ds_row error = {0};
  if (pf_numel(c->in[0]) != 1) return PF_INVALID(c, "a string handle must be a scalar");
  PF_TRY(c->host->str_get(c->in[0], 0, &text));
  if (!parse_handle(text, &container, &name))
    return PF_INVALID(c, "this is no string handle of an iterator: '%.*s'",
                      (int)PF_MIN(text.len, 100), text.data);
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, container, name, &ITERATOR, nobody, NULL, &obj));
  iterator *it = obj;
  const dataset declared = {.n_types = (int32_t)st->output_types.n,
                            .types = (int32_t *)st->output_types.items};
  if (declared.n_types) {
    pf_status r = fits(it, &declared, &error);
    if (!r) r = shapes_fit(it, &st->output_shapes, &error);
    if (r) return told(c, r, &error);
  }
  return c->host->resource_output(c, 0, container, name, &ITERATOR, nobody, NULL);
}

/* ---------------------------------------------------------------- state */
/* With the lock: 0: the call was cancelled meanwhile */
static int wait_a_while(pf_ctx *c, pthread_cond_t *cond, pthread_mutex_t *lock) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += 50000000;
  if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
  pthread_cond_timedwait(cond, lock, &until);
  return !c->host->cancelled(c);
}
/* Waits until no request is on, and takes the place of one. */
static pf_status begin_quietly(pf_ctx *c, iterator *it) {
  int go = 1;
  pthread_mutex_lock(&it->lock);
  while (it->busy && go) go = wait_a_while(c, &it->quiet, &it->lock);
  if (go) it->busy = 1;
  pthread_mutex_unlock(&it->lock);
  return go ? PF_OK : PF_CANCELLED;
}
static void end_quietly(iterator *it) {
  pthread_mutex_lock(&it->lock);
  int more = go_on(it);
  if (more) atomic_fetch_add(&it->refs, 1);
  pthread_mutex_unlock(&it->lock);
  if (more && it->host->post(it->host, PF_LANE_CPU, ask_later, it)) ask_later(it);
}
/* Background stages begin nothing more, and what they have begun is over. */
static pf_status pause(pf_ctx *c, ds_root *root) {
  int go = 1;
  pthread_mutex_lock(&root->lock);
  atomic_store(&root->paused, 1);
  while (atomic_load(&root->busy) && go) go = wait_a_while(c, &root->idle, &root->lock);
  pthread_mutex_unlock(&root->lock);
  return go ? PF_OK : PF_CANCELLED;
}
static void put_reading(ds_writer *w, iterator *it, ds_reading *r, ds_row *shared) {
  pthread_mutex_lock(&it->lock);        /* the kept answer: an initializer may take it away */
  int kept = it->reading == r && it->kept && (it->answer == DS_OK || it->answer == DS_END);
  int end = it->answer == DS_END;
  if (kept && !end && !ds_row_share(it->host, &it->answer_row, shared)) w->failed = 1;
  pthread_mutex_unlock(&it->lock);
  ds_put_int(w, kept ? 1 + end : 0);
  if (kept && !end) ds_put_row(w, shared);
  ds_row_clear(shared);
  ds_put_stage(w, r->stage);
}
static pf_status save_state(pf_ctx *c, const void *state) {
  void *obj;
  ds_writer w;
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &ITERATOR, &obj));
  iterator *it = obj;
  PF_TRY(begin_quietly(c, it));
  pthread_mutex_lock(&it->lock);
  ds_reading *r = it->reading;
  ds_row none = {0};
  if (r) ds_reading_ref(r);             /* an initializer may replace it meanwhile */
  pthread_mutex_unlock(&it->lock);
  if (!r && !it->pending.data && !it->factory.fn) {
    end_quietly(it);
    return pf_fail(c, PF_FAILED_PRECONDITION, "Save() failed because the iterator has not been "
                   "initialized. Ensure that you have run the initializer operation for this "
                   "iterator before saving it.");
  }
  pf_status st = r ? pause(c, &r->root) : PF_OK;
  ds_write_begin(&w, it->host);
  if (!r && it->pending.data) ds_put_again(&w, it->pending);    /* as it was restored */
  else ds_put_int(&w, r != NULL);
  if (r) {
    if (!st) put_reading(&w, it, r, &none);
    atomic_store(&r->root.paused, 0);
  }
  end_quietly(it);
  ds_reading_unref(r);
  if (st) return free(w.bytes), st;
  DLTensor *y = w.failed ? NULL : c->host->output(c, 0, NULL, 0);
  if (w.failed == 2)
    st = pf_fail(c, PF_UNIMPLEMENTED, "the state of this iterator cannot be saved: an element that "
                 "it holds has a resource or variant, or a stage holds what cannot be written");
  else if (!y || c->host->str_set(y, 0, (pf_str){w.bytes, (int64_t)w.n}))
    st = pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an iterator's state");
  free(w.bytes);
  return st;
}
static pf_status load_into(ds_reading *r, ds_reader *in, ds_row *answer, pf_status *status,
                           int64_t *kept) {
  PF_TRY(ds_get_range(in, 0, 2, kept));
  *status = *kept == 2 ? DS_END : DS_OK;
  if (*kept == 1) PF_TRY(ds_get_row(in, r->of, answer));
  PF_TRY(ds_get_stage(in, r->stage));
  return ds_read_end(in);
}
/* The dataset of a one-shot iterator that has not been asked yet; the kernel is BLOCKING. */
static pf_status open_one_shot(iterator *it, ds_row *error, ds_reading **out) {
  ds_row none = {0}, made;
  pf_status st = ds_call_and_wait(it->host, &it->factory, &none, 0, &made);
  if (st) return *error = made, st;
  st = open_made(it, &made, error, out);
  ds_row_clear(&made);
  return st;
}
/* A fresh reading of the iterator's dataset. */
static pf_status open_again(iterator *it, ds_row *error, ds_reading **out) {
  pthread_mutex_lock(&it->lock);
  ds_reading *now = it->reading;        /* an initializer may replace it meanwhile */
  if (now) ds_reading_ref(now);
  pthread_mutex_unlock(&it->lock);
  if (now) {
    pf_status st = ds_reading_open(now->of, error, out);
    return ds_reading_unref(now), st;
  }
  return open_one_shot(it, error, out);
}
/* A state that came before the dataset is known waits for the initializer. */
static pf_status keep_pending(iterator *it, pf_str bytes) {
  char *copy = malloc((size_t)PF_MAX(bytes.len, 1));
  if (!copy) return PF_RESOURCE_EXHAUSTED;
  memcpy(copy, bytes.data, (size_t)bytes.len);
  pthread_mutex_lock(&it->lock);
  char *old = it->pending.data ? (char *)it->pending.data : NULL;
  it->pending = (pf_str){copy, bytes.len};
  pthread_mutex_unlock(&it->lock);
  free(old);
  return PF_OK;
}
/* The state that waited, if any, into a fresh reading; told once, whether it fits or not. */
static pf_status load_pending(iterator *it, ds_reading *r, ds_row *error, ds_row *answer,
                              pf_status *status, int64_t *kept) {
  ds_reader in;
  int64_t there;
  pthread_mutex_lock(&it->lock);
  pf_str bytes = it->pending;
  it->pending = (pf_str){0};
  pthread_mutex_unlock(&it->lock);
  if (!bytes.data) return PF_OK;
  pf_status st = ds_read_begin(&in, it->host, bytes);
  if (!st) st = ds_get_range(&in, 0, 1, &there);
  if (!st && there) st = load_into(r, &in, answer, status, kept);
  if (st) ds_fail(error, st, "%s", in.why[0] ? in.why : "the saved state could not be read");
  free((char *)bytes.data);
  return st;
}
static pf_status restore_state(pf_ctx *c, const void *state) {
  void *obj;
  pf_str bytes;
  ds_reader in;
  ds_row error = {0}, answer = {0};
  ds_reading *r = NULL, *old = NULL;
  int64_t there, kept = 0;
  pf_status status = DS_OK;
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &ITERATOR, &obj));
  if (pf_numel(c->in[1]) != 1) return PF_INVALID(c, "an iterator's state must be a scalar string");
  PF_TRY(c->host->str_get(c->in[1], 0, &bytes));
  iterator *it = obj;
  PF_TRY(begin_quietly(c, it));
  pf_status st = ds_read_begin(&in, it->host, bytes);
  if (!st) st = ds_get_range(&in, 0, 1, &there);
  int waits = !st && there && !it->reading && !it->factory.fn;
  if (waits) {
    st = keep_pending(it, bytes);
    there = 0;
  } else if (!st && there) {
    st = open_again(it, &error, &r);
    if (!st) st = load_into(r, &in, &answer, &status, &kept);
  }
  if (!st && there) {
    pthread_mutex_lock(&it->lock);
    old = it->reading;
    it->reading = r;
    error = it->answer_row;
    it->answer_row = answer;
    it->answer = status;
    it->kept = kept != 0;
    pthread_mutex_unlock(&it->lock);
    r = NULL;
  }
  end_quietly(it);
  ds_reading_unref(old);
  ds_reading_unref(r);
  if (st && in.why[0] && !error.error) {
    ds_row_clear(&answer);
    return pf_failf(c, st, "%s", in.why);
  }
  if (st) return ds_row_clear(&answer), told(c, st, &error);
  ds_row_clear(&error);
  return PF_OK;
}

/* ---------------------------------------------------------------- tables */
#define ITERATOR_ATTRS \
  PF_ATTR(iterator_state, PF_ATTR_TYPE | PF_ATTR_LIST, output_types), \
      PF_ATTR(iterator_state, PF_ATTR_SHAPE | PF_ATTR_LIST, output_shapes)
#define NAMED \
  PF_ATTR(iterator_state, PF_ATTR_STRING, shared_name), \
      PF_ATTR(iterator_state, PF_ATTR_STRING, container)
#define WAITS (PF_KERNEL_BLOCKING | PF_KERNEL_TAKES)     /* for the request that is on */
#define MAKES(op_, ...) \
  PF_CPU(op_, NULL, .compute = iterator_compute, .state_size = sizeof(iterator_state), \
         .attrs = PF_ATTRS(ITERATOR_ATTRS, NAMED, ##__VA_ARGS__))
#define NEXT(op_, compute_) \
  PF_CPU_FLAGS(op_, NULL, PF_KERNEL_ASYNC | PF_KERNEL_EXPENSIVE | PF_KERNEL_TAKES, \
               .compute = compute_)
extern const pf_kernel *const iterator_kernels[];
const pf_kernel *const iterator_kernels[] = {
    MAKES("Iterator"), MAKES("IteratorV2"),
    MAKES("OneShotIterator", PF_ATTR(iterator_state, PF_ATTR_FUNC, dataset_factory)),
    PF_CPU_FLAGS("MakeIterator", NULL, PF_KERNEL_BLOCKING, .compute = make_iterator),
    NEXT("IteratorGetNext", get_next),
    NEXT("IteratorGetNextSync", get_next),
    NEXT("IteratorGetNextAsOptional", get_next_as_optional),
    PF_CPU("IteratorToStringHandle", NULL, .compute = to_string_handle),
    PF_CPU("IteratorFromStringHandleV2", NULL, .compute = from_string_handle,
           .state_size = sizeof(iterator_state), .attrs = PF_ATTRS(ITERATOR_ATTRS)),
    PF_CPU_FLAGS("_SaveIterator", NULL, WAITS, .compute = save_state),
    PF_CPU_FLAGS("_RestoreIterator", NULL, WAITS, .compute = restore_state), NULL};
