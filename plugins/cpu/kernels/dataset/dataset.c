/* dataset.c - elements, datasets, stages, and how they ask each other: dataset.h.
 *
 * Threads: as told there.
 */
#include "dataset/dataset.h"

/* ---------------------------------------------------------------- elements */
int ds_row_room(ds_row *r, int32_t n) {
  *r = (ds_row){calloc((size_t)PF_MAX(n, 1), sizeof *r->v), n, NULL};
  if (!r->v) r->n = 0;
  return r->v != NULL;
}
void ds_row_clear(ds_row *r) {
  for (int32_t i = 0; i < r->n; i++) ds_drop(r->v[i]);
  free(r->v);
  free(r->error);
  *r = (ds_row){0};
}
int ds_row_share(const pf_host *h, const ds_row *from, ds_row *to) {
  if (!ds_row_room(to, from->n)) return 0;
  for (int32_t i = 0; i < from->n; i++)
    if (!(to->v[i] = h->tensor_ref(from->v[i]))) return ds_row_clear(to), 0;
  return 1;
}
pf_status ds_fail(ds_row *r, pf_status st, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args); /* perhaps of r's own error */
  va_end(args);
  ds_row_clear(r);
  r->error = strdup(text);
  return st;
}
pf_status ds_not_the_end(ds_row *r, pf_status st, pf_status instead) {
  if (st != PF_OUT_OF_RANGE) return st;
  return ds_fail(r, instead, "Function invocation produced OutOfRangeError: %s",
                 r->error ? r->error : "");
}
ds_tensor *ds_scalar_int64(const pf_host *h, int64_t value) {
  ds_tensor *t = h->tensor_new(h, NULL, PF_MEM_HOST, PF_INT64, NULL, 0);
  if (t) *PF_DATA(int64_t, &t->dl_tensor) = value;
  return t;
}

/* ---------------------------------------------------------------- datasets */
void ds_ref(dataset *d) { atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed); }
void ds_unref(void *obj) {
  dataset *d = obj;
  if (!d || atomic_fetch_sub(&d->refs, 1) > 1) return;
  if (d->kind->free) d->kind->free(d);
  for (int32_t i = 0; i < d->n_in; i++) ds_unref(d->in[i]);
  free(d->in);
  free(d->types);
  free(d->label);
  free(d);
}
const pf_type PF_DATASET = {.size = sizeof(pf_type), .id = "pyflow.Dataset", .unref = ds_unref};

pf_status ds_input(pf_ctx *c, int32_t i, dataset **lent) {
  void *obj;
  PF_TRY(c->host->resource_get(c, i, &PF_DATASET, &obj));
  *lent = obj;
  return PF_OK;
}

static int take_types(dataset *d, const pf_list *types, const dataset *like) {
  d->n_types = types ? (int32_t)types->n : like ? like->n_types : 0;
  d->types = malloc(sizeof *d->types * (size_t)PF_MAX(d->n_types, 1));
  if (!d->types) return 0;
  for (int32_t i = 0; i < d->n_types; i++)
    d->types[i] = types ? ((const int32_t *)types->items)[i] : like->types[i];
  return 1;
}
static const ds_kind BARE = {.name = "bare"};
void *ds_new(pf_ctx *c, size_t size, const ds_kind *kind, const int32_t *in, int32_t n_in,
             const pf_list *types) {
  dataset *d = calloc(1, size);
  if (!d) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a dataset"), NULL;
  pf_str label = c->host->node_name(c);
  atomic_store(&d->refs, 1);
  d->kind = &BARE; /* until the caller's fields are set, ds_out says which */
  d->host = c->host;
  d->label = strndup(label.data, (size_t)PF_MIN(label.len, 400));
  d->in = calloc((size_t)PF_MAX(n_in, 1), sizeof *d->in);
  for (int32_t i = 0; d->in && i < n_in; i++) {
    dataset *lent;
    if (ds_input(c, in ? in[i] : i, &lent)) return ds_unref(d), NULL;
    ds_ref(d->in[d->n_in++] = lent);
  }
  if (!d->label || !d->in || !take_types(d, types, n_in ? d->in[0] : NULL)) {
    ds_unref(d);
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a dataset"), NULL;
  }
  d->kind = kind;
  return d;
}
void *ds_bare(size_t size, const ds_kind *kind, const dataset *like, const int32_t *types,
              int32_t n_types) {
  dataset *d = calloc(1, size);
  if (!d) return NULL;
  const pf_list given = {.items = (void *)types, .n = n_types};
  atomic_store(&d->refs, 1);
  d->kind = &BARE;
  d->host = like->host;
  d->label = strdup(like->label);
  if (!d->label || !take_types(d, types ? &given : NULL, like)) return ds_unref(d), NULL;
  d->kind = kind;
  return d;
}
void *ds_over(size_t size, const ds_kind *kind, dataset *in) {
  dataset *d = ds_bare(size, kind, in, NULL, 0);
  if (d) d->in = malloc(sizeof *d->in);
  if (d && d->in) return d->in[d->n_in++] = in, d;
  if (d) d->kind = &BARE; /* its own fields are not set */
  ds_unref(d);
  ds_unref(in);
  return NULL;
}
int ds_types_equal(const dataset *d, const int32_t *types, int32_t n) {
  return d->n_types == n && !memcmp(d->types, types, sizeof *types * (size_t)n);
}
pf_status ds_same_types(pf_ctx *c, const dataset *d) {
  return ds_types_equal(d->in[0], d->types, d->n_types)
             ? PF_OK
             : PF_INVALID(c, "output_types of the node are not those of the dataset '%s'",
                          d->in[0]->label);
}
pf_status ds_out(pf_ctx *c, void *d, pf_status st) {
  if (!st) return c->host->resource_handle(c, 0, PF_SCOPE_CONTAINER, &PF_DATASET, d);
  ds_unref(d);
  return st;
}
int64_t ds_size(const dataset *d) { return d->kind->size ? d->kind->size(d) : -1; }

pf_status ds_keep_inputs(pf_ctx *c, int32_t first, int32_t n, ds_row *out) {
  int ok = ds_row_room(out, n);
  for (int32_t i = 0; ok && i < n; i++) ok = (out->v[i] = c->host->retain(c, first + i)) != NULL;
  return ok ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a dataset");
}
pf_status ds_scalar_in(pf_ctx *c, int32_t i, const char *name, int64_t *out) {
  return pf_in_scalar(c, i, name, out);
}
pf_status ds_bool_in(pf_ctx *c, int32_t i, const char *name, int32_t *out) {
  if (pf_numel(c->in[i]) != 1) return PF_INVALID(c, "%s must be a scalar", name);
  *out = PF_DATA(const uint8_t, c->in[i])[0] != 0;
  return PF_OK;
}

/* ---------------------------------------------------------------- stages */
pf_status ds_open(const dataset *d, ds_place at, ds_row *error, ds_stage **out) {
  *out = NULL;
  return d->kind->open(d, at, error, out);
}
void ds_close(ds_stage *s) {
  if (s) s->kind->close(s);
}
void *ds_stage_new(size_t size, const ds_stage_kind *kind, const dataset *of, ds_place at,
                   ds_row *error) {
  ds_stage *s = calloc(1, size);
  if (!s) return ds_fail(error, PF_RESOURCE_EXHAUSTED, "no memory for an iterator"), NULL;
  *s = (ds_stage){kind, of, at.root, at.path};
  return s;
}

/* ---------------------------------------------------------------- asking
 * met: 0 -> 1 by the first of {who asked has left, the answer is there}, who goes on is the second.
 */
static void pulled(ds_waiter *w, pf_status st) {
  ds_pull_slot *slot = (ds_pull_slot *)w;
  ds_task *t = slot->task;
  slot->st = st;
  if (atomic_fetch_add(&slot->met, 1) == 0) return;
  st = t->run(t);
  if (st != PF_PENDING) t->waiter->fn(t->waiter, st);
}
pf_status ds_pull(ds_pull_slot *slot, ds_task *task, ds_stage *from) {
  slot->w.fn = pulled;
  slot->task = task;
  slot->row = (ds_row){0}; /* who answers without an element leaves it so */
  atomic_store_explicit(&slot->met, 0, memory_order_relaxed);
  pf_status st = from->kind->next(from, &slot->row, &slot->w);
  if (st != PF_PENDING) return slot->st = st;
  return atomic_fetch_add(&slot->met, 1) ? slot->st : PF_PENDING;
}
pf_status ds_task_next(ds_stage *s, ds_row *out, ds_waiter *w) {
  ds_task *t = (ds_task *)s;
  t->out = out;
  t->waiter = w;
  return t->run(t);
}

/* ---------------------------------------------------------------- functions */
static const pf_functions_api *functions(const pf_host *h) {
  static _Atomic(const void *) found;
  const void *api = atomic_load_explicit(&found, memory_order_acquire);
  if (!api) atomic_store(&found, api = h->extension("pyflow.functions/1"));
  return api;
}
pf_status ds_function_get(pf_ctx *c, pf_str name, int32_t first, int32_t n, ds_function *out) {
  const pf_functions_api *api = functions(c->host);
  *out = (ds_function){0};
  if (!api) return pf_fail(c, PF_UNIMPLEMENTED, "this host calls no functions from kernels");
  PF_TRY(api->get(c, name, &out->fn));
  out->captured = calloc((size_t)PF_MAX(n, 1), sizeof *out->captured);
  for (int32_t i = 0; out->captured && i < n; i++, out->n_captured++)
    if (!(out->captured[i] = c->host->retain(c, first + i))) break;
  if (out->captured && out->n_captured == n) return PF_OK;
  ds_function_clear(out);
  return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for what a function captured");
}
pf_status ds_function_gives(pf_ctx *c, const ds_function *f, const int32_t *types, int32_t n) {
  const int32_t *given;
  int32_t n_given = functions(c->host)->outputs(f->fn, &given);
  if (n_given != n) return PF_INVALID(c, "the function gives %d results, expected %d", n_given, n);
  for (int32_t i = 0; i < n; i++)
    if (given[i] != types[i])
      return PF_INVALID(c, "result %d of the function is %s, expected %s", i,
                        pf_type_name(given[i]), pf_type_name(types[i]));
  return PF_OK;
}
void ds_function_clear(ds_function *f) {
  for (int32_t i = 0; i < f->n_captured; i++) ds_drop(f->captured[i]);
  free(f->captured);
  if (f->fn) functions(NULL)->release(f->fn);
  *f = (ds_function){0};
}
uint64_t ds_mix(uint64_t a, uint64_t b) {
  uint64_t z = (a ^ (b * 0x9E3779B97F4A7C15u)) + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return z ? z : 1;
}
/* Results, or why there are none, into the row; a function's OutOfRange is the end, as in TF. */
static pf_status landed_row(ds_row *row, const ds_function *f, pf_status st, pf_str message,
                            ds_tensor *const *take) {
  const int32_t *types;
  int32_t n = functions(NULL)->outputs(f->fn, &types);
  if (st) return ds_fail(row, st, "%.*s", (int)PF_MIN(message.len, 1000), message.data);
  if (!ds_row_room(row, n)) {
    for (int32_t i = 0; i < n; i++) ds_drop(take[i]);
    return ds_fail(row, PF_RESOURCE_EXHAUSTED, "no memory for a function's results");
  }
  memcpy(row->v, take, sizeof *take * (size_t)n);
  return PF_OK;
}
typedef struct {
  ds_flight *flight;
  const ds_function *f;
} flying;
static void flight_landed(void *arg, pf_status st, pf_str message, ds_tensor *const *take) {
  flying *y = arg;
  ds_flight *flight = y->flight;
  flight->st = landed_row(&flight->row, y->f, st, message, take);
  free(y);
  flight->done(flight);
}
void ds_fly(ds_flight *flight, const pf_host *h, const ds_function *f, ds_row *args,
            uint64_t stream) {
  enum { FEW = 32 };
  ds_tensor *few[FEW], **steal = few;
  const pf_functions_api *api = functions(h);
  int32_t n = args->n + f->n_captured, ok = 1;
  pf_fn_options how = {.size = sizeof how, .stream = stream};
  flying *y = malloc(sizeof *y);
  if (n > FEW) steal = malloc(sizeof *steal * (size_t)n);
  flight->row = (ds_row){0};
  if (api->inputs(f->fn, NULL) != n) {
    flight->st = ds_fail(&flight->row, PF_INVALID_ARGUMENT,
                         "the function takes %d arguments, the dataset gives %d",
                         api->inputs(f->fn, NULL), n);
    goto at_once;
  }
  if (y && steal) {
    memcpy(steal, args->v, sizeof *steal * (size_t)args->n);
    for (int32_t i = 0; i < f->n_captured; i++)
      ok &= (steal[args->n + i] = h->tensor_ref(f->captured[i])) != NULL;
    for (int32_t i = 0; !ok && i < f->n_captured; i++) ds_drop(steal[args->n + i]);
  }
  if (!y || !steal || !ok) {
    flight->st = ds_fail(&flight->row, PF_RESOURCE_EXHAUSTED, "no memory to call a function");
    goto at_once;
  }
  args->n = 0; /* they are the call's now */
  *y = (flying){flight, f};
  pf_status st = api->call(f->fn, NULL, &how, steal, flight_landed, y, NULL);
  if (!st) {
    ds_row_clear(args);
    if (steal != few) free(steal);
    return;
  }
  flight->st = ds_fail(&flight->row, st, "a function could not be called");
at_once:
  ds_row_clear(args);
  if (steal != few) free(steal);
  free(y);
  flight->done(flight);
}

typedef struct {
  ds_flight flight;
  ds_pull_slot *slot;
} slot_flight;
static void slot_landed(ds_flight *flight) {
  ds_pull_slot *slot = ((slot_flight *)flight)->slot;
  pf_status st = flight->st;
  slot->row = flight->row;
  free(flight);
  pulled(&slot->w, st);
}
pf_status ds_call(ds_pull_slot *slot, ds_task *task, const ds_function *f, ds_row *args,
                  uint64_t stream) {
  slot_flight *y = calloc(1, sizeof *y);
  slot->task = task;
  slot->row = (ds_row){0};
  if (!y) {
    ds_row_clear(args);
    return slot->st = ds_fail(&slot->row, PF_RESOURCE_EXHAUSTED, "no memory to call a function");
  }
  atomic_store_explicit(&slot->met, 0, memory_order_relaxed);
  *y = (slot_flight){{.done = slot_landed}, slot};
  ds_fly(&y->flight, task->s.of->host, f, args, stream);
  return atomic_fetch_add(&slot->met, 1) ? slot->st : PF_PENDING;
}

typedef struct {
  ds_flight f;
  pthread_mutex_t lock;
  pthread_cond_t over;
  int landed;
} awaited;
static void awaited_landed(ds_flight *f) {
  awaited *w = (awaited *)f;
  pthread_mutex_lock(&w->lock);
  w->landed = 1;
  pthread_cond_signal(&w->over);
  pthread_mutex_unlock(&w->lock);
}
pf_status ds_call_and_wait(const pf_host *h, const ds_function *f, ds_row *args, uint64_t stream,
                           ds_row *results) {
  awaited w = {.f = {.done = awaited_landed}};
  pthread_mutex_init(&w.lock, NULL);
  pthread_cond_init(&w.over, NULL);
  ds_fly(&w.f, h, f, args, stream);
  pthread_mutex_lock(&w.lock);
  while (!w.landed) pthread_cond_wait(&w.over, &w.lock);
  pthread_mutex_unlock(&w.lock);
  pthread_cond_destroy(&w.over);
  pthread_mutex_destroy(&w.lock);
  *results = w.f.row;
  return w.f.st;
}
ds_tensor *ds_variant(dataset *d) {
  return d->host->handle_new(d->host, PF_VARIANT, &PF_DATASET, d); /* lets go of it on a failure */
}
pf_status ds_made(const pf_host *h, const ds_row *results, ds_row *error, dataset **out) {
  void *obj = NULL;
  if (results->n != 1 || h->handle_get(results->v[0], &PF_DATASET, &obj))
    return ds_fail(error, PF_INVALID_ARGUMENT, "the function must return a dataset");
  ds_ref(*out = obj);
  return PF_OK;
}
