/* barrier.c - Barrier, BarrierInsertMany, BarrierTakeMany, BarrierClose, BarrierReadySize,
 * BarrierIncompleteSize: components that come one by one under a key, and are taken as tuples.
 *
 *     key: ABSENT -> INCOMPLETE [insert]
 *          INCOMPLETE -> READY  [insert, the last component]
 *          READY -> out         [take]
 *
 * Invariants
 *   1. What is ready lies in a priority queue of (number of the insertion, key, components), which
 *      the barrier is: takes are the queue's own.
 *   2. After closing, keys that are incomplete may be completed, unless what is pending was
 *      cancelled; then, or when none is left, the queue is closed.
 * Threads: `lock` (waiting.h) guards all fields.
 *
 * Source: TF 1.15 tf.contrib.data's Barrier (data_flow_ops.Barrier).
 */
#include "queue/queue.h"
#include "state/lookup_table.h"

typedef struct {
  pf_queue q;          /* parts: number, key, components */
  pf_table incomplete; /* key -> pf_chunk *: parts that have not come are NULL */
  int64_t inserted;
  int32_t closed, cancelled;
} barrier;
typedef struct {
  pf_list component_types, shapes;
  int64_t capacity;
  pf_str container, shared_name;
} make_state;

static void forget_incomplete(barrier *b) {
  for (int64_t i = 0; i < b->incomplete.slots; i++) {
    const pf_entry *e = &b->incomplete.entries[i];
    pf_chunk *k;
    if (!e->bytes) continue;
    memcpy(&k, e->bytes + e->key_n, sizeof k);
    pf_chunk_drop(k, 1);
  }
  pf_table_clear(&b->incomplete);
}
static void barrier_free(pf_waited *w) {
  forget_incomplete((barrier *)w);
  pf_queue_free(w);
}
/* with the lock: the components that have come of the key that lacks the fewest */
static void fullest_key(const barrier *b, pf_wait_state *to) {
  int32_t n = b->q.n_parts - 2;
  for (int64_t i = 0; i < b->incomplete.slots; i++) {
    const pf_entry *e = &b->incomplete.entries[i];
    const pf_chunk *k;
    int64_t came = 0;
    if (!e->bytes) continue;
    memcpy(&k, e->bytes + e->key_n, sizeof k);
    for (int32_t p = 0; p < n; p++) came += k->part[p + 2] != NULL;
    to->there = PF_MAX(to->there, came);
  }
  to->needed = n;
}
static void barrier_tell(void *obj, pf_wait_state *to) {
  barrier *b = obj;
  pthread_mutex_lock(&b->q.base.lock);
  fullest_key(b, to);
  snprintf(to->takes, sizeof to->takes,
           "incomplete barrier with %" PRId64 " of %" PRId64 " components of a key", to->there,
           to->needed);
  pthread_mutex_unlock(&b->q.base.lock);
}
static const pf_type barrier_type = {
  sizeof(pf_type), 0, "pyflow.Barrier", pf_waited_unref, pf_waited_abort, barrier_tell};

/* "_0_barrier": the queue's name without "_queue"; of the calling thread until its next call */
static const char *barrier_name(const barrier *b) {
  static _Thread_local char name[400];
  snprintf(name, sizeof name, "%.*s", (int)strlen(b->q.name) - (int)sizeof "_queue" + 1, b->q.name);
  return name;
}
static int32_t barriers_made;
static pf_status make(pf_ctx *c, void *arg, void **obj) {
  const make_state *s = arg;
  char text[400], number[16] = "";
  pf_str name = s->shared_name, node = c->host->node_name(c);
  if (!name.len) {
    name = node;
    int32_t made = __atomic_fetch_add(&barriers_made, 1, __ATOMIC_RELAXED);
    snprintf(number, sizeof number, "_%d_", made);
  }
  int length =
      snprintf(text, sizeof text, "%s%.*s_queue", number, (int)PF_MIN(name.len, 350), name.data);
  name = (pf_str){text, length};
  barrier *b = calloc(1, sizeof *b);
  if (!b) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a barrier");
  pf_waited_init(&b->q.base, barrier_free);
  b->q.kind = &pf_queue_kinds[PF_PRIORITY];
  b->q.host = c->host;
  b->q.capacity = INT32_MAX;
  int32_t leading[] = {PF_INT64, PF_STRING};
  b->q.unspecified = !s->shapes.n;
  if (!pf_queue_set_parts(&b->q, leading, 2, &s->component_types, &s->shapes, name))
    return free(b), pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a barrier");
  *obj = b;
  return PF_OK;
}
static pf_status open_barrier(pf_ctx *c, const void *state) {
  make_state *s = (make_state *)state;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  void *obj;
  PF_TRY(
      c->host->resource(c, PF_SCOPE_CONTAINER, s->container, name, &barrier_type, make, s, &obj));
  const barrier *b = obj;
  if (b->q.n_parts != s->component_types.n + 2 ||
      memcmp(b->q.types + 2, s->component_types.items, (size_t)s->component_types.n * 4))
    return PF_INVALID(c, "Shared barrier '%s' has other component types than this node asks for",
                      b->q.name);
  return c->host->resource_output(c, 0, s->container, name, &barrier_type, make, s);
}
static pf_status init_barrier(pf_ctx *c, void *state) {
  const make_state *s = state;
  const pf_shape *shapes = s->shapes.items;
  if (s->capacity >= 0)
    return PF_INVALID(c, "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier "
                         "through a queue to enforce a "
                         "limited capacity.");
  if (s->shapes.n && s->shapes.n != s->component_types.n)
    return PF_INVALID(c,
                      "All of the component shapes must be specified: %" PRId64
                      " components, %" PRId64 " shapes",
                      s->component_types.n, s->shapes.n);
  for (int64_t i = 0; i < s->shapes.n; i++) {
    int32_t known = shapes[i].ndim >= 0 && shapes[i].ndim < PF_MAX_DIMS;
    for (int32_t k = 0; k < shapes[i].ndim; k++) known &= shapes[i].dims[k] >= 0;
    if (!known)
      return PF_INVALID(c,
                        "the shape of component %" PRId64 " of a barrier is not "
                        "fully defined",
                        i);
  }
  return PF_OK;
}
static pf_status barrier_of(pf_ctx *c, barrier **b) {
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &barrier_type, &obj));
  *b = obj;
  return PF_OK;
}

/* ---------------------------------------------------------------- inserting */
typedef struct { int64_t component_index; } insert_state;
static pf_status no_memory(pf_ctx *c) {
  return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a barrier's element");
}
/* a tuple with its number and key alone */
static pf_chunk *tuple_of(barrier *b, pf_str key) {
  pf_chunk *k = calloc(1, sizeof *k + sizeof(pf_tensor *) * (size_t)b->q.n_parts);
  if (!k) return NULL;
  k->refs = 1, k->rows = -1, k->n = b->q.n_parts;
  const pf_host *host = b->q.host;
  k->part[0] = host->tensor_new(host, NULL, PF_MEM_HOST, PF_INT64, NULL, 0);
  k->part[1] = host->tensor_new(host, NULL, PF_MEM_HOST, PF_STRING, NULL, 0);
  if (!k->part[0] || !k->part[1] || host->str_set(&k->part[1]->dl_tensor, 0, key) ||
      !pf_table_put(&b->incomplete, key, (pf_str){(const char *)&k, sizeof k}))
    return pf_chunk_drop(k, 1), NULL;
  PF_DATA(int64_t, &k->part[0]->dl_tensor)[0] = INT64_MIN + b->inserted;
  return k;
}
/* row i of the values, as a tensor */
static pf_tensor *row_of(pf_ctx *c, int64_t i) {
  const DLTensor *v = c->in[2];
  pf_tensor *t =
      c->host->tensor_new(c->host, NULL, PF_MEM_HOST, c->in_type[2], v->shape + 1, v->ndim - 1);
  int64_t n = pf_product(v->shape, 1, v->ndim);
  if (t && pf_copy_run(c, &t->dl_tensor, 0, v, i * n, n, pf_type_size(c->in_type[2]))) {
    t->deleter(t);
    return NULL;
  }
  return t;
}
/* with the lock */
static pf_status insert_one(pf_ctx *c, barrier *b, int64_t i, int32_t part, int32_t *fresh) {
  pf_str key, found;
  pf_chunk *k;
  PF_TRY(c->host->str_get(c->in[1], i, &key));
  if (pf_table_find(&b->incomplete, key, &found)) memcpy(&k, found.data, sizeof k);
  else if (b->closed)
    return pf_failf(c, PF_CANCELLED,
                    "Barrier %s is closed, but attempted to insert a brand new "
                    "key: %.*s.  Pending "
                    "enqueues cancelled: %d.  Insertion index: %" PRId64 ".  Number of incomplete "
                    "keys: %" PRId64 ".",
                    barrier_name(b), (int)PF_MIN(key.len, 200), key.data, b->cancelled, i,
                    b->incomplete.n);
  else if (!(k = tuple_of(b, key))) return no_memory(c);
  else *fresh = 1;
  if (k->part[part])
    return PF_INVALID(c, "Key %.*s already has a value for component %d in barrier %s",
                      (int)PF_MIN(key.len, 200), key.data, part - 2, barrier_name(b));
  if (!(k->part[part] = row_of(c, i))) return no_memory(c);
  for (int32_t p = 2; p < k->n; p++)
    if (!k->part[p]) return PF_OK;
  if (!pf_queue_room(&b->q, 1)) return no_memory(c);
  pf_table_remove(&b->incomplete, key);
  b->q.kind->put(&b->q, (pf_element){k, -1, 0, 0});
  return PF_OK;
}
static pf_status check_insert(pf_ctx *c, const barrier *b, int64_t component) {
  const DLTensor *keys = c->in[1], *values = c->in[2];
  if (component < 0 || component >= b->q.n_parts - 2)
    return PF_INVALID(c, "The component ID is out of range %" PRId64 " > num_components (= %d)",
                      component, b->q.n_parts - 2);
  if (c->in_type[2] != b->q.types[2 + component])
    return PF_INVALID(c, "component %" PRId64 " of barrier %s is %s, got %s", component, b->q.name,
                      pf_type_name(b->q.types[2 + component]), pf_type_name(c->in_type[2]));
  if (keys->ndim != 1 || values->ndim < 1 || values->shape[0] != keys->shape[0])
    return PF_INVALID(c, "keys must be a vector and values have as many rows, got shapes %s and %s",
                      PF_SHAPE(keys).s, PF_SHAPE(values).s);
  const pf_shape *s = &b->q.shapes[2 + component];
  if (!b->q.unspecified && !pf_same_dims(values->shape + 1, values->ndim - 1, s->dims, s->ndim))
    return PF_INVALID(c, "Shape mismatch in tuple component %" PRId64 ". Expected %s, got %s",
                      component, pf_shape_text(s->dims, s->ndim).s,
                      pf_shape_text(values->shape + 1, values->ndim - 1).s);
  return PF_OK;
}
static pf_status insert_many(pf_ctx *c, const void *state) {
  int64_t component = ((const insert_state *)state)->component_index;
  barrier *b;
  PF_TRY(barrier_of(c, &b));
  PF_TRY(check_insert(c, b, component));
  int64_t n = c->in[1]->shape[0];
  pf_attempt *over = NULL;
  pf_status st = PF_OK;
  int32_t fresh = 0;
  pthread_mutex_lock(&b->q.base.lock);
  if (b->closed && (b->cancelled || (n && !b->incomplete.n)))
    st = pf_failf(c, PF_CANCELLED,
                  "Barrier %s is closed.  Pending enqueues cancelled: %d.  "
                  "Number of new insertions: %" PRId64 ".  Number of incomplete keys: %" PRId64 ".",
                  barrier_name(b), b->cancelled, n, b->incomplete.n);
  for (int64_t i = 0; i < n && !st; i++) st = insert_one(c, b, i, (int32_t)component + 2, &fresh);
  b->inserted += fresh;
  if (b->closed && !b->incomplete.n) b->q.closed = 1;
  pf_waited_settle(&b->q.base, &over);
  pthread_mutex_unlock(&b->q.base.lock);
  pf_attempts_end(over);
  return st;
}

/* ---------------------------------------------------------------- taking, closing, asking */
typedef struct {
  int32_t allow_small_batch;
  int64_t timeout_ms;
} take_state;
/* of a closed barrier: fewer than *n that are complete or may be completed are an error; `small`,
 * all that are complete are taken at once, and none is an error */
static pf_status check_rest(pf_ctx *c, barrier *b, int32_t small, int64_t *n) {
  pthread_mutex_lock(&b->q.base.lock);
  int64_t total = b->q.n + (small ? 0 : b->incomplete.n), closed = b->closed;
  pthread_mutex_unlock(&b->q.base.lock);
  if (!closed) return PF_OK;
  if (small) *n = PF_MIN(*n, total);
  if (total >= PF_MAX(*n, 1)) return PF_OK;
  return pf_failf(c, PF_OUT_OF_RANGE,
                  "Barrier '%s' is closed and has insufficient elements "
                  "(requested %" PRId64 ", total size %" PRId64 ")",
                  barrier_name(b), *n, total);
}
static pf_status take_many(pf_ctx *c, const void *state) {
  const take_state *s = state;
  barrier *b;
  int64_t n;
  PF_TRY(barrier_of(c, &b));
  PF_TRY(pf_in_scalar(c, 1, "num_elements", &n));
  if (n < 0) return PF_INVALID(c, "num_elements must be >= 0, got %" PRId64, n);
  if (c->n_out != b->q.n_parts ||
      memcmp(c->out_type + 2, b->q.types + 2, (size_t)(c->n_out - 2) * 4))
    return PF_INVALID(c, "Barrier %s has other component types than this node asks for", b->q.name);
  if (b->q.unspecified)
    return PF_INVALID(c, "PriorityQueue's DequeueMany and DequeueUpTo require the components to "
                         "have specified shapes.");
  PF_TRY(check_rest(c, b, s->allow_small_batch, &n));
  pf_dequeue d = {
    .base.kind = &pf_dequeue_kind, .left = n, .many = 1, .up_to = s->allow_small_batch};
  d.base.on = &b->q.base;
  return n ? pf_attempt_start(c, &b->q.base, &d.base) : pf_dequeue_kind.deliver(c, &d.base);
}
static pf_status check_take(pf_ctx *c, void *state) {
  if (((const take_state *)state)->timeout_ms == -1) return PF_OK;
  return PF_INVALID(c, "Timeout not supported yet: use RunOptions(timeout_in_ms=...)");
}
static pf_status close(pf_ctx *c, const void *state) {
  int32_t cancel = *(const int32_t *)state;
  barrier *b;
  PF_TRY(barrier_of(c, &b));
  pf_attempt *over = NULL;
  pthread_mutex_lock(&b->q.base.lock);
  int32_t already = b->closed && (b->cancelled || !cancel);
  if (!already) {
    b->closed = 1, b->cancelled = cancel;
    if (cancel) forget_incomplete(b);
    if (!b->incomplete.n) b->q.closed = 1;
    pf_waited_settle(&b->q.base, &over);
  }
  pthread_mutex_unlock(&b->q.base.lock);
  pf_attempts_end(over);
  return already ? pf_failf(c, PF_CANCELLED, "Barrier '%s' is already closed.", barrier_name(b))
                 : PF_OK;
}
static pf_status sizes(pf_ctx *c, int32_t ready) {
  barrier *b;
  PF_TRY(barrier_of(c, &b));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pthread_mutex_lock(&b->q.base.lock);
  PF_DATA(int32_t, y)[0] = (int32_t)(ready ? b->q.n : b->incomplete.n);
  pthread_mutex_unlock(&b->q.base.lock);
  return PF_OK;
}
static pf_status ready_size(pf_ctx *c, const void *s) { return (void)s, sizes(c, 1); }
static pf_status incomplete_size(pf_ctx *c, const void *s) { return (void)s, sizes(c, 0); }

const pf_kernel *const barrier_kernels[] = {
  PF_CPU_FLAGS("Barrier", NULL, 0, .init = init_barrier, .compute = open_barrier,
               .state_size = sizeof(make_state),
               .attrs = PF_ATTRS(PF_ATTR(make_state, PF_ATTR_TYPE | PF_ATTR_LIST, component_types),
                                 PF_ATTR(make_state, PF_ATTR_SHAPE | PF_ATTR_LIST, shapes),
                                 PF_ATTR(make_state, PF_ATTR_INT, capacity),
                                 PF_ATTR(make_state, PF_ATTR_STRING, container),
                                 PF_ATTR(make_state, PF_ATTR_STRING, shared_name))),
  PF_CPU_FLAGS("BarrierInsertMany", NULL, PF_KERNEL_PUTS, .compute = insert_many,
               .state_size = sizeof(insert_state),
               .attrs = PF_ATTRS(PF_ATTR(insert_state, PF_ATTR_INT, component_index))),
  PF_CPU_FLAGS("BarrierTakeMany", NULL, PF_KERNEL_ASYNC | PF_KERNEL_TAKES, .init = check_take,
               .compute = take_many, .state_size = sizeof(take_state),
               .attrs = PF_ATTRS(PF_ATTR(take_state, PF_ATTR_BOOL, allow_small_batch),
                                 PF_ATTR(take_state, PF_ATTR_INT, timeout_ms))),
  PF_CPU_FLAGS("BarrierClose", NULL, 0, .compute = close, .state_size = 8,
               .attrs = PF_ATTRS(PF_REF(pf_attr, "cancel_pending_enqueues", PF_ATTR_BOOL, 0))),
  PF_CPU_FLAGS("BarrierReadySize", NULL, 0, .compute = ready_size),
  PF_CPU_FLAGS("BarrierIncompleteSize", NULL, 0, .compute = incomplete_size),
  NULL};
