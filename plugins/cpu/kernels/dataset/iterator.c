/* iterator.c - IteratorGetNext, elements as optionals: who waits for an element, and gets it
 * (iterator.h).
 *
 * Threads: as told there.
 */
#include "containers/tensor_list.h"
#include "dataset/iterator.h"

void ds_iterator_free(void *obj) {
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
const pf_type ds_iterator_type = {.size = sizeof(pf_type),
                                  .id = "pyflow.Iterator",
                                  .unref = ds_iterator_free,
                                  .abort = iterator_abort,
                                  .tell = iterator_tell};

static void waiting_unref(waiting *w, int n) {
  if (atomic_fetch_sub(&w->refs, n) == n) {
    ds_iterator_free(w->it);
    free(w);
  }
}

/* ---------------------------------------------------------------- giving an answer */
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
    st = pf_failf(c, PF_INVALID_ARGUMENT,
                  "the dataset's elements have %d components, the node has "
                  "%d outputs",
                  row->n, c->n_out);
  for (int32_t i = 0; !st && i < c->n_out; i++) {
    ds_tensor *t = row->v[i];
    if (c->host->type_of(t) != c->out_type[i])
      st = PF_INVALID(c, "component %d of the element is %s, expected %s", i,
                      pf_type_name(c->host->type_of(t)), pf_type_name(c->out_type[i]));
    else row->v[i] = NULL, st = c->host->set_output(c, i, t);
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

pf_status ds_told(pf_ctx *c, pf_status st, ds_row *error) {
  if (st) pf_failf(c, st, "%s", error->error ? error->error : "no memory");
  ds_row_clear(error);
  return st;
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
    return ds_fail(&it->row, PF_FAILED_PRECONDITION,
                   "GetNext() failed because the iterator has "
                   "not been initialized. Ensure that you have run the initializer operation for "
                   "this iterator before getting the next element.");
  it->flight.done = factory_landed;
  atomic_fetch_add(&it->refs, 1); /* the flight's */
  ds_fly(&it->flight, it->host, &it->factory, &none, 0);
  return PF_PENDING;
}
static waiting *first_of(iterator *it) { /* with the lock, out of the list */
  waiting *w = it->first;
  if (!w) return NULL;
  it->first = w->next;
  if (!it->first) it->last = &it->first;
  w->listed = 0;
  return w;
}
/* With the lock, the request over: 1: another one begins for who waits. */
int ds_go_on(iterator *it) {
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
    int more = ds_go_on(it);
    pthread_mutex_unlock(&it->lock);
    ds_reading_unref(over);
    if (w) end_call(w, st, &row);
    ds_row_clear(&row);
    if (!more) break;
    st = ask(it);
    if (st == PF_PENDING) return;
  }
  ds_iterator_free(it);
}
void ds_request_landed(ds_waiter *w, pf_status st) { settle((iterator *)w, st); }

pf_status ds_iterator_fits(const iterator *it, const dataset *d, ds_row *error) {
  if (it->n_types != d->n_types)
    return ds_fail(error, PF_INVALID_ARGUMENT,
                   "Number of components does not match: expected %d "
                   "types but got %d.",
                   it->n_types, d->n_types);
  for (int32_t i = 0; i < it->n_types; i++)
    if (it->types[i] != d->types[i])
      return ds_fail(error, PF_INVALID_ARGUMENT,
                     "Data type mismatch at component %d: expected %s "
                     "but got %s.",
                     i, pf_type_name(it->types[i]), pf_type_name(d->types[i]));
  return PF_OK;
}
/* A reading of the dataset that a factory made. */
pf_status ds_open_made(iterator *it, ds_row *made, ds_row *error, ds_reading **out) {
  dataset *d;
  PF_TRY(ds_made(it->host, made, error, &d));
  pf_status st = ds_iterator_fits(it, d, error);
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
    st = ds_open_made(it, &made, &it->row, &r);
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
  ds_iterator_free(it); /* the flight's */
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
void ds_ask_later(void *arg) {
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
  if (ask_now && h->post(h, PF_LANE_CPU, ds_ask_later, it)) ds_ask_later(it);
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
  PF_TRY(c->host->resource_get(c, 0, &ds_iterator_type, &obj));
  iterator *it = obj;
  pthread_mutex_lock(&it->lock);
  if (it->kept && !it->first) return take_kept(c, it, optional);
  if (it->busy) return join(c, it, optional);
  begin(it);
  atomic_fetch_add(&it->refs, 1); /* the request's */
  pthread_mutex_unlock(&it->lock);
  pf_ctx *outer = ds_asks(c);
  pf_status st = ask(it);
  ds_asks(outer);
  if (st == PF_PENDING) {
    pthread_mutex_lock(&it->lock);
    return it->kept && !it->first ? take_kept(c, it, optional) : join(c, it, optional);
  }
  ds_row row = it->row; /* this call's, before those who came meanwhile */
  pthread_mutex_lock(&it->lock);
  ds_reading *over = it->asked;
  int more = ds_go_on(it);
  pthread_mutex_unlock(&it->lock);
  ds_reading_unref(over);
  st = give(c, st, &row, optional);
  if (!more) ds_iterator_free(it);
  else if (it->host->post(it->host, PF_LANE_CPU, ds_ask_later, it)) ds_ask_later(it);
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

/* ---------------------------------------------------------------- tables */
#define NEXT(op_, compute_) \
  PF_CPU_FLAGS(op_, NULL, PF_KERNEL_ASYNC | PF_KERNEL_EXPENSIVE | PF_KERNEL_TAKES, \
               .compute = compute_)
extern const pf_kernel *const iterator_kernels[];
const pf_kernel *const iterator_kernels[] = {
  NEXT("IteratorGetNext", get_next), NEXT("IteratorGetNextSync", get_next),
  NEXT("IteratorGetNextAsOptional", get_next_as_optional), NULL};
