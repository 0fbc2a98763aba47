/* queue_ops.c - FIFOQueue, PaddingFIFOQueue, RandomShuffleQueue, PriorityQueue, QueueEnqueue,
 * QueueEnqueueMany, QueueDequeue, QueueDequeueMany, QueueDequeueUpTo, QueueClose, QueueIsClosed,
 * QueueSize: with handles that are references (TF's first ops) and resources (V2).
 *
 * Invariant: what reaches pf_attempt_start fits the queue: number of components, types, shapes.
 * Threads: any number of calls on one queue.
 */
#include "queue/queue.h"

/* ---------------------------------------------------------------- making */
typedef struct {
  pf_list component_types, shapes;
  int64_t capacity, min_after_dequeue, seed, seed2;
  pf_str container, shared_name;
  int32_t kind;
} make_state;

static void queue_tell(void *obj, pf_wait_state *to) {
  pf_queue *q = obj;
  pthread_mutex_lock(&q->base.lock);
  const pf_attempt *a = q->base.side[PF_TAKES].first;
  const pf_dequeue *d = a && a->kind == &pf_dequeue_kind ? (const pf_dequeue *)a : NULL;
  to->there = q->n + (d ? d->n : 0), to->needed = d ? d->n + d->left : 0;
  if (!to->there) snprintf(to->takes, sizeof to->takes, "empty queue");
  else if (q->min_after && q->n)
    snprintf(to->takes, sizeof to->takes, "queue with %" PRId64 " elements that stay", q->n);
  else
    snprintf(to->takes, sizeof to->takes, "queue with %" PRId64 " of %" PRId64 " elements",
             to->there, to->needed);
  snprintf(to->puts, sizeof to->puts, "full queue");
  pthread_mutex_unlock(&q->base.lock);
}
const pf_type pf_queue_type = {sizeof(pf_type), 0,         "pyflow.Queue", pf_waited_unref,
                               pf_waited_abort, queue_tell};

static int32_t queues_made; /* of the process: TF numbers unnamed resources */
static pf_status make_queue(pf_ctx *c, void *arg, void **obj) {
  const make_state *s = arg;
  char text[400];
  pf_str name = s->shared_name, node = c->host->node_name(c);
  if (!name.len) {
    int n = snprintf(text, sizeof text, "_%d_%.*s",
                     __atomic_fetch_add(&queues_made, 1, __ATOMIC_RELAXED),
                     (int)PF_MIN(node.len, 350), node.data);
    name = (pf_str){text, n};
  }
  pf_queue *q = calloc(1, sizeof *q);
  static const int32_t leading[] = {PF_INT64};
  if (!q) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a queue");
  pf_waited_init(&q->base, pf_queue_free);
  q->kind = &pf_queue_kinds[s->kind];
  q->host = c->host;
  if (!pf_queue_set_parts(q, leading, s->kind == PF_PRIORITY, &s->component_types, &s->shapes,
                          name))
    return free(q), pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a queue");
  q->unspecified = s->shapes.n == 0 && s->component_types.n > 0;
  q->capacity = s->capacity < 0 ? INT32_MAX : s->capacity;
  q->min_after = s->min_after_dequeue;
  q->seed = s->seed, q->seed2 = s->seed2;
  uint64_t key[2], counter[2];
  if (s->seed || s->seed2)
    q->random = (pf_philox){.key = (uint64_t)s->seed, .hi = (uint64_t)s->seed2};
  else if (q->kind->op == pf_queue_kinds[PF_RANDOM_SHUFFLE].op) {
    pf_status st = c->host->rng(c, 1, key, counter);
    if (st) return pf_waited_unref(q), st;
    q->random = (pf_philox){.key = key[0], .lo = counter[0], .hi = counter[1]};
  }
  *obj = q;
  return PF_OK;
}

/* ---------------------------------------------------------------- queues shared by several nodes
 * */
typedef struct { char s[400]; } list_text;
static list_text types_text(const int32_t *types, int64_t n) {
  list_text t;
  size_t at = 0;
  t.s[0] = 0;
  for (int64_t i = 0; i < n && at + 32 < sizeof t.s; i++)
    at +=
        (size_t)snprintf(t.s + at, sizeof t.s - at, "%s%s", i ? ", " : "", pf_type_name(types[i]));
  return t;
}
static pf_text shape_text(const pf_shape *s) {
  pf_text t = {"<unknown>"};
  if (s->ndim < 0) return t;
  size_t n = 0;
  t.s[n++] = '[';
  for (int32_t i = 0; i < s->ndim && n < sizeof t.s - 24; i++)
    n += (size_t)snprintf(t.s + n, sizeof t.s - n, s->dims[i] < 0 ? "%s?" : "%s%" PRId64,
                          i ? "," : "", s->dims[i]);
  t.s[n++] = ']', t.s[n] = 0;
  return t;
}
static list_text shapes_text(const pf_shape *shapes, int64_t n) {
  list_text t;
  size_t at = (size_t)snprintf(t.s, sizeof t.s, "[");
  for (int64_t i = 0; i < n && at + 64 < sizeof t.s; i++)
    at += (size_t)snprintf(t.s + at, sizeof t.s - at, "%s%.50s", i ? ", " : "",
                           shape_text(shapes + i).s);
  snprintf(t.s + at, sizeof t.s - at, "]");
  return t;
}
static pf_status fits_node(pf_ctx *c, const pf_queue *q, const make_state *s) {
  pf_str node = c->host->node_name(c);
  int64_t capacity = s->capacity < 0 ? INT32_MAX : s->capacity, n = s->component_types.n,
          more = q->n_parts - n;
  if (q->kind != &pf_queue_kinds[s->kind])
    return PF_INVALID(c,
                      "Shared queue '%s' has type '%s' that does not match type of Node "
                      "'%.*s': %s",
                      q->name, q->kind->op, (int)PF_MIN(node.len, 300), node.data,
                      pf_queue_kinds[s->kind].op);
  if (q->capacity != capacity)
    return PF_INVALID(
        c, "Shared queue '%s' has capacity %" PRId64 " but requested capacity was %" PRId64,
        q->name, q->capacity, capacity);
  if (more != (s->kind == PF_PRIORITY) ||
      (n && memcmp(q->types + more, s->component_types.items, (size_t)n * 4)))
    return PF_INVALID(c,
                      "Shared queue '%s' has component types %s but requested component types "
                      "were %s",
                      q->name, types_text(q->types, q->n_parts).s,
                      types_text(s->component_types.items, n).s);
  int same = q->unspecified == (s->shapes.n == 0 && n > 0);
  const pf_shape *asked = s->shapes.items;
  for (int64_t i = 0; i < s->shapes.n && same; i++)
    same = pf_same_dims(q->shapes[i + more].dims, q->shapes[i + more].ndim, asked[i].dims,
                        asked[i].ndim);
  if (!same)
    return PF_INVALID(c,
                      "Shared queue '%s' has component shapes %s but requested component "
                      "shapes were %s",
                      q->name, shapes_text(q->shapes, q->unspecified ? 0 : q->n_parts).s,
                      shapes_text(asked, s->shapes.n).s);
  if (q->min_after != s->min_after_dequeue)
    return PF_INVALID(c,
                      "Shared queue '%s' has min_after_dequeue %" PRId64 " but requested "
                      "min_after_dequeue was %" PRId64 ".",
                      q->name, q->min_after, s->min_after_dequeue);
  if (q->seed != s->seed || q->seed2 != s->seed2)
    return PF_INVALID(c,
                      "Shared queue '%s' has random seeds (%" PRId64 ", %" PRId64 ") but "
                      "requested seeds are (%" PRId64 ", %" PRId64 ").",
                      q->name, q->seed, q->seed2, s->seed, s->seed2);
  return PF_OK;
}
static pf_status open_queue(pf_ctx *c, const void *state) {
  make_state *s = (make_state *)state;
  void *obj;
  pf_str name = s->shared_name.len ? s->shared_name : c->host->node_name(c);
  PF_TRY(c->host->resource(c, PF_SCOPE_CONTAINER, s->container, name, &pf_queue_type, make_queue, s,
                           &obj));
  PF_TRY(fits_node(c, obj, s));
  return c->host->resource_output(c, 0, s->container, name, &pf_queue_type, make_queue, s);
}
static pf_status check_make(pf_ctx *c, make_state *s, int32_t kind) {
  s->kind = kind;
  const pf_shape *shapes = s->shapes.items;
  int64_t n = s->component_types.n;
  if (s->shapes.n && s->shapes.n != n)
    return PF_INVALID(c, "a queue of %" PRId64 " components got %" PRId64 " shapes", n,
                      s->shapes.n);
  for (int64_t i = 0; i < s->shapes.n; i++) {
    int32_t known = shapes[i].ndim >= 0 && shapes[i].ndim < PF_MAX_DIMS;
    for (int32_t k = 0; k < shapes[i].ndim && kind != PF_PADDING_FIFO; k++)
      known &= shapes[i].dims[k] >= 0;
    if (!known)
      return PF_INVALID(c, "shape %s of component %" PRId64 " of a %s is not %s",
                        shape_text(shapes + i).s, i, pf_queue_kinds[kind].op,
                        kind == PF_PADDING_FIFO ? "of known rank" : "fully defined");
  }
  if (s->min_after_dequeue < 0)
    return PF_INVALID(c, "min_after_dequeue %" PRId64 " must be >= 0", s->min_after_dequeue);
  if (s->capacity >= 0 && s->min_after_dequeue && s->min_after_dequeue >= s->capacity)
    return PF_INVALID(c, "min_after_dequeue %" PRId64 " must be < capacity %" PRId64,
                      s->min_after_dequeue, s->capacity);
  return PF_OK;
}
static pf_status init_fifo(pf_ctx *c, void *s) { return check_make(c, s, PF_FIFO); }
static pf_status init_padding(pf_ctx *c, void *s) { return check_make(c, s, PF_PADDING_FIFO); }
static pf_status init_shuffle(pf_ctx *c, void *s) { return check_make(c, s, PF_RANDOM_SHUFFLE); }
static pf_status init_priority(pf_ctx *c, void *s) { return check_make(c, s, PF_PRIORITY); }

/* ---------------------------------------------------------------- what fits a queue */
static pf_status queue_of(pf_ctx *c, pf_queue **q) {
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &pf_queue_type, &obj));
  *q = obj;
  return PF_OK;
}
static pf_status check_types(pf_ctx *c, const pf_queue *q, const int32_t *types, int32_t n) {
  if (n != q->n_parts)
    return PF_INVALID(c, "%s '%s': Wrong number of components in tuple. Expected %d, got %d",
                      q->kind->op, q->name, q->n_parts, n);
  for (int32_t i = 0; i < n; i++)
    if (types[i] != q->types[i])
      return PF_INVALID(c, "%s '%s': Type mismatch in tuple component %d. Expected %s, got %s",
                        q->kind->op, q->name, i, pf_type_name(q->types[i]), pf_type_name(types[i]));
  return PF_OK;
}
/* `skip` dimensions come before the element's own */
static int fits(const pf_shape *want, const DLTensor *t, int32_t skip) {
  if (t->ndim - skip != want->ndim) return 0;
  for (int32_t k = 0; k < want->ndim; k++)
    if (want->dims[k] >= 0 && want->dims[k] != t->shape[k + skip]) return 0;
  return 1;
}
static pf_status check_shapes(pf_ctx *c, const pf_queue *q, int32_t many) {
  int64_t dims[PF_MAX_DIMS + 1] = {many ? c->in[1]->shape[0] : 0};
  for (int32_t i = 0; i < q->n_parts; i++) {
    const pf_shape *s = &q->shapes[i];
    int32_t rows = !many || c->in[1 + i]->shape[0] == dims[0];
    if ((q->unspecified && !(q->kind->keyed && i == 0)) || (rows && fits(s, c->in[1 + i], many)))
      continue;
    memcpy(dims + many, s->dims, (size_t)s->ndim * sizeof *dims);
    pf_shape want = {dims, s->ndim + many, 0};
    return PF_INVALID(c, "Shape mismatch in tuple component %d. Expected %s, got %s", i,
                      shape_text(&want).s, PF_SHAPE(c->in[1 + i]).s);
  }
  return PF_OK;
}
static pf_status check_rows(pf_ctx *c, const pf_queue *q) {
  for (int32_t i = 0; i < q->n_parts; i++) {
    const DLTensor *t = c->in[1 + i];
    if (t->ndim < 1)
      return PF_INVALID(c,
                        "component %d of an enqueue_many is a scalar, expected a dimension of "
                        "elements first",
                        i);
    if (t->shape[0] != c->in[1]->shape[0] && q->unspecified)
      return PF_INVALID(c,
                        "All input tensors must have the same size in the 0th dimension. "
                        "Component %d has %" PRId64 ", and should have %" PRId64,
                        i, t->shape[0], c->in[1]->shape[0]);
  }
  if (c->in[1]->shape[0] > INT32_MAX)
    return PF_INVALID(c, "an enqueue_many takes less than 2^31 "
                         "elements");
  return PF_OK;
}

/* ---------------------------------------------------------------- putting and taking */
static pf_status put(pf_ctx *c, int32_t many) {
  pf_queue *q;
  PF_TRY(queue_of(c, &q));
  PF_TRY(check_types(c, q, c->in_type + 1, c->n_in - 1));
  if (many) PF_TRY(check_rows(c, q));
  PF_TRY(check_shapes(c, q, many));
  pf_enqueue e = {.base.kind = &pf_enqueue_kind, .left = many ? c->in[1]->shape[0] : 1};
  if (!e.left) return PF_OK;
  if (!(e.chunk = pf_chunk_of_inputs(c, 1, q->n_parts, many ? e.left : -1)))
    return PF_RESOURCE_EXHAUSTED;
  e.chunk->held = &q->held;
  __atomic_add_fetch(&q->held, e.left, __ATOMIC_RELAXED);
  return pf_attempt_start(c, &q->base, &e.base);
}
static pf_status enqueue(pf_ctx *c, const void *s) { return (void)s, put(c, 0); }
static pf_status enqueue_many(pf_ctx *c, const void *s) { return (void)s, put(c, 1); }

static pf_status take(pf_ctx *c, int32_t many, int32_t up_to) {
  pf_queue *q;
  int64_t n = 1;
  PF_TRY(queue_of(c, &q));
  PF_TRY(check_types(c, q, c->out_type, c->n_out));
  if (many) {
    if (c->in[1]->ndim)
      return PF_INVALID(c, "n must be a scalar, got shape %s", PF_SHAPE(c->in[1]).s);
    n = pf_in_index(c, 1, 0);
    if (n < 0)
      return PF_INVALID(c, "Dequeue%sOp requested %" PRId64 " < 0 elements",
                        up_to ? "UpTo" : "Many", n);
    if (q->unspecified)
      return PF_INVALID(c,
                        "%s's DequeueMany and DequeueUpTo require the components to have "
                        "specified shapes.",
                        q->kind->op);
  }
  pf_dequeue d = {.base.kind = &pf_dequeue_kind, .left = n, .many = many, .up_to = up_to};
  d.base.on = &q->base;
  return n ? pf_attempt_start(c, &q->base, &d.base) : pf_dequeue_kind.deliver(c, &d.base);
}
static pf_status dequeue(pf_ctx *c, const void *s) { return (void)s, take(c, 0, 0); }
static pf_status dequeue_many(pf_ctx *c, const void *s) { return (void)s, take(c, 1, 0); }
static pf_status dequeue_up_to(pf_ctx *c, const void *s) { return (void)s, take(c, 1, 1); }

static pf_status close(pf_ctx *c, const void *s) {
  pf_queue *q;
  PF_TRY(queue_of(c, &q));
  return pf_queue_close(c, q, *(const int32_t *)s);
}
static pf_status size(pf_ctx *c, const void *s) {
  pf_queue *q;
  (void)s;
  PF_TRY(queue_of(c, &q));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pthread_mutex_lock(&q->base.lock);
  PF_DATA(int32_t, y)[0] = (int32_t)q->n;
  pthread_mutex_unlock(&q->base.lock);
  return PF_OK;
}
static pf_status is_closed(pf_ctx *c, const void *s) {
  pf_queue *q;
  (void)s;
  PF_TRY(queue_of(c, &q));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  pthread_mutex_lock(&q->base.lock);
  PF_DATA(uint8_t, y)[0] = q->closed != 0;
  pthread_mutex_unlock(&q->base.lock);
  return PF_OK;
}
static pf_status no_timeout(pf_ctx *c, void *state) {
  if (*(int64_t *)state == -1) return PF_OK;
  return PF_INVALID(c, "Timeout not supported yet: use RunOptions(timeout_in_ms=...)");
}

#define MAKE(op_, init_, ...) PF_CPU_FLAGS(op_, NULL, 0, .init = init_, .compute = open_queue, \
  .state_size = sizeof(make_state), .attrs = PF_ATTRS( \
    PF_ATTR(make_state, PF_ATTR_TYPE | PF_ATTR_LIST, component_types), \
    PF_ATTR(make_state, PF_ATTR_SHAPE | PF_ATTR_LIST, shapes), \
    PF_ATTR(make_state, PF_ATTR_INT, capacity), PF_ATTR(make_state, PF_ATTR_STRING, container), \
    PF_ATTR(make_state, PF_ATTR_STRING, shared_name), __VA_ARGS__))
#define INT(name) PF_ATTR(make_state, PF_ATTR_INT, name)
#define ACCESS(op_, role_, compute_) PF_CPU_FLAGS(op_, NULL, PF_KERNEL_ASYNC | PF_KERNEL_##role_, \
  .compute = compute_, .init = no_timeout, .state_size = 8, .attrs = PF_ATTRS(PF_REF(pf_attr, "timeout_ms", PF_ATTR_INT, 0)))
#define CLOSE(op_) PF_CPU_FLAGS(op_, NULL, PF_KERNEL_ASYNC | PF_KERNEL_PUTS, .compute = close, .state_size = 8, \
  .attrs = PF_ATTRS(PF_REF(pf_attr, "cancel_pending_enqueues", PF_ATTR_BOOL, 0)))
#define BOTH(kernel, op_, ...) kernel(op_, __VA_ARGS__), kernel(op_ "V2", __VA_ARGS__)
#define ASK(op_, compute_) PF_CPU_FLAGS(op_, NULL, 0, .compute = compute_)
const pf_kernel *const queue_ops_kernels[] = {
  BOTH(MAKE, "FIFOQueue", init_fifo, NULL),
  BOTH(MAKE, "PaddingFIFOQueue", init_padding, NULL),
  BOTH(MAKE, "RandomShuffleQueue", init_shuffle, INT(min_after_dequeue), INT(seed), INT(seed2)),
  BOTH(MAKE, "PriorityQueue", init_priority, NULL),
  BOTH(ACCESS, "QueueEnqueue", PUTS, enqueue),
  BOTH(ACCESS, "QueueEnqueueMany", PUTS, enqueue_many),
  BOTH(ACCESS, "QueueDequeue", TAKES, dequeue),
  BOTH(ACCESS, "QueueDequeueMany", TAKES, dequeue_many),
  BOTH(ACCESS, "QueueDequeueUpTo", TAKES, dequeue_up_to),
  CLOSE("QueueClose"),
  CLOSE("QueueCloseV2"),
  BOTH(ASK, "QueueIsClosed", is_closed),
  BOTH(ASK, "QueueSize", size),
  NULL};
