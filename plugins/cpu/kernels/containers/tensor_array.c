/* tensor_array.c - TensorArrayV3, GradV3, WriteV3, ReadV3, SizeV3, CloseV3 (tensor_array.h holds
 * the rules).
 *
 * Threads: compute is concurrent; each array has a lock.
 */
#include "containers/tensor_array.h"

/* ---------------------------------------------------------------- values */
void value_release(value *v) {
  if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
  v->t->deleter(v->t);
  free(v);
}
static value *value_new(DLManagedTensorVersioned *t) { /* steals t, on failure too */
  value *v = t ? malloc(sizeof *v) : NULL;
  if (!v) {
    if (t) t->deleter(t);
    return NULL;
  }
  atomic_init(&v->refs, 1);
  v->t = t;
  return v;
}
static void published_free(DLManagedTensorVersioned *m) {
  value_release(m->manager_ctx);
  free(m);
}
/* Strings are the host's own and cannot be lent under another header. */
static pf_status value_copy(pf_ctx *c, int32_t i, value *v) {
  const DLTensor *t = &v->t->dl_tensor;
  DLTensor *y = c->host->output(c, i, t->shape, t->ndim);
  pf_status r = y ? pf_copy_run(c, y, 0, t, 0, pf_numel(t), 0) : PF_RESOURCE_EXHAUSTED;
  value_release(v);
  return r;
}
/* Output i is the value; the caller's reference goes with it. */
static pf_status value_publish(pf_ctx *c, int32_t i, value *v) {
  if (atomic_load(&v->refs) == 1) {
    DLManagedTensorVersioned *t = v->t;
    free(v);
    return c->host->set_output(c, i, t);
  }
  if (c->out_type[i] == PF_STRING) return value_copy(c, i, v);
  if (c->out_type[i] == PF_RESOURCE || c->out_type[i] == PF_VARIANT) {
    value_release(v);
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "a TensorArray's element of type %s is read once: leave "
                    "clear_after_read on",
                    pf_type_name(c->out_type[i]));
  }
  DLManagedTensorVersioned *m = malloc(sizeof *m);
  if (!m) {
    value_release(v);
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to publish a value");
  }
  *m = *v->t;
  m->manager_ctx = v;
  m->deleter = published_free;
  m->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  return c->host->set_output(c, i, m);
}

/* ---------------------------------------------------------------- arrays */
static void slot_clear(slot *s) {
  value_release(s->v);
  free(s->shape);
  *s = (slot){0};
}
static void array_unref(void *obj) {
  tensor_array *a = obj;
  if (!a || atomic_fetch_sub(&a->refs, 1) != 1) return;
  for (int64_t i = 0; i < a->n; i++) slot_clear(&a->slots[i]);
  for (tensor_array *g = a->grad, *next; g; g = next) {
    next = g->next;
    array_unref(g);
  }
  pthread_mutex_destroy(&a->lock);
  free(a->slots);
  free(a);
}
const pf_type PF_TENSOR_ARRAY = {
  .size = sizeof(pf_type), .id = "pyflow.TensorArray", .unref = array_unref};

static int set_size(tensor_array *a, int64_t n) {
  if (n > a->room) {
    int64_t room = PF_MAX(n, PF_MIN(a->room * 2, INT32_MAX));
    slot *slots = realloc(a->slots, sizeof *slots * (size_t)room);
    if (!slots) return 0;
    memset(slots + a->room, 0, sizeof *slots * (size_t)(room - a->room));
    a->slots = slots;
    a->room = room;
  }
  a->n = PF_MAX(a->n, n);
  return 1;
}

static tensor_array *array_new(int32_t type, int64_t n, pf_str name) {
  tensor_array *a = calloc(1, sizeof *a);
  if (!a) return NULL;
  atomic_init(&a->refs, 1);
  pthread_mutex_init(&a->lock, NULL);
  a->type = type;
  a->ndim = -1;
  a->parts = a->joined = -1;
  memcpy(a->name, name.data, (size_t)PF_MIN(name.len, (int64_t)sizeof a->name - 1));
  if (set_size(a, n)) return a;
  array_unref(a);
  return NULL;
}

pf_status array_open(pf_ctx *c, int32_t type, tensor_array **out) {
  void *obj;
  PF_TRY(c->host->resource_get(c, 0, &PF_TENSOR_ARRAY, &obj));
  tensor_array *a = obj;
  if (type && a->type != type)
    return PF_INVALID(c, "TensorArray %s: dtype is %s but Op requested dtype %s.", a->name,
                      pf_type_name(a->type), pf_type_name(type));
  pthread_mutex_lock(&a->lock);
  *out = a;
  if (a->closed)
    return array_done(a, PF_INVALID(c, "TensorArray %s has already been closed.", a->name));
  return PF_OK;
}

pf_status array_grow(pf_ctx *c, tensor_array *a, int64_t n) {
  if (n <= a->n) return PF_OK;
  if (!a->dynamic)
    return PF_INVALID(c,
                      "TensorArray %s: Tried to write to index %" PRId64
                      " but array is not resizeable and size is: %" PRId64,
                      a->name, n - 1, a->n);
  if (n > INT32_MAX || !set_size(a, n))
    return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                    "no memory for %" PRId64 " elements of TensorArray %s", n, a->name);
  return PF_OK;
}

/* The element shape so far admits `t`; with identical_element_shapes it becomes t's. */
static int shape_fits(tensor_array *a, const DLTensor *t) {
  if (a->ndim >= 0) {
    if (a->ndim != t->ndim) return 0;
    for (int32_t d = 0; d < t->ndim; d++)
      if (a->dims[d] >= 0 && a->dims[d] != t->shape[d]) return 0;
  }
  if (a->identical && t->ndim <= PF_MAX_DIMS) {
    a->ndim = t->ndim;
    for (int32_t d = 0; d < t->ndim; d++) a->dims[d] = t->shape[d];
  }
  return 1;
}

/* ---------------------------------------------------------------- sums in gradient arrays */
int array_add_values(int32_t type, const DLTensor *x, const DLTensor *y, DLTensor *out) {
  int64_t n = pf_numel(out);
#define ADD(num, T, tag) case num: { \
    const T *a = PF_DATA(const T, x), *b = PF_DATA(const T, y); T *o = PF_DATA(T, out); \
    for (int64_t i = 0; i < n; i++) { o[i] = (T)(a[i] + b[i]); } \
    return 1; }
#define ADD_HALF(num, from, to) case num: { \
    const uint16_t *a = PF_DATA(const uint16_t, x), *b = PF_DATA(const uint16_t, y); \
    uint16_t *o = PF_DATA(uint16_t, out); \
    for (int64_t i = 0; i < n; i++) { o[i] = to(from(a[i]) + from(b[i])); } \
    return 1; }
  if (type == PF_COMPLEX64) n *= 2, type = PF_FLOAT32;
  if (type == PF_COMPLEX128) n *= 2, type = PF_FLOAT64;
  switch (type) {
    PF_EACH_FLOAT(ADD) /* signed integers wrap, as unsigned ones of their size */
    ADD(PF_INT8, uint8_t, )
    ADD(PF_INT16, uint16_t, )
    ADD(PF_INT32, uint32_t, )
    ADD(PF_INT64, uint64_t, )
    PF_EACH_UNSIGNED(ADD)
    ADD_HALF(PF_FLOAT16, pf_from_half, pf_to_half)
    ADD_HALF(PF_BFLOAT16, pf_from_bf16, pf_to_bf16) default : return 0;
  }
}

/* slot = slot + t, a new tensor: the old one may be someone's output */
static pf_status aggregate(pf_ctx *c, tensor_array *a, slot *s, int64_t index,
                           DLManagedTensorVersioned *t) {
  const DLTensor *old = &s->v->t->dl_tensor, *add = &t->dl_tensor;
  if (!pf_same_shape(old, add))
    return PF_INVALID(c,
                      "TensorArray %s: Could not aggregate to TensorArray index %" PRId64
                      " because the existing shape is %s but the new input shape is %s.",
                      a->name, index, PF_SHAPE(old).s, PF_SHAPE(add).s);
  DLManagedTensorVersioned *sum =
      c->host->tensor_new(c->host, c->dev, PF_MEM_DEVICE, a->type, old->shape, old->ndim);
  if (!sum) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to add gradients");
  int ok = array_add_values(a->type, old, add, &sum->dl_tensor);
  value *v = value_new(sum);
  if (!v) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to add gradients");
  if (!ok) {
    value_release(v);
    return pf_failf(c, PF_UNIMPLEMENTED, "TensorArray %s: cannot add values of type %s", a->name,
                    pf_type_name(a->type));
  }
  value_release(s->v);
  s->v = v;
  return PF_OK;
}

static pf_status write_problem(pf_ctx *c, tensor_array *a, int64_t index, const DLTensor *t) {
  if (index < 0)
    return PF_INVALID(
        c, "TensorArray %s: Tried to write to index %" PRId64 " but array size is: %" PRId64,
        a->name, index, a->n);
  PF_TRY(array_grow(c, a, index + 1));
  const slot *s = &a->slots[index];
  if (s->read || s->cleared)
    return PF_INVALID(c,
                      "TensorArray %s: Could not write to TensorArray index %" PRId64
                      " because it has already been read.",
                      a->name, index);
  if (s->written && !a->aggregate)
    return PF_INVALID(c,
                      "TensorArray %s: Could not write to TensorArray index %" PRId64
                      " because it has already been written to.",
                      a->name, index);
  if (!shape_fits(a, t))
    return PF_INVALID(
        c,
        "TensorArray %s: Could not write to TensorArray index %" PRId64
        " because the value shape is %s "
        "which is incompatible with the TensorArray's inferred element shape: %s (consider setting "
        "infer_shape=False).",
        a->name, index, PF_SHAPE(t).s, pf_shape_text(a->dims, a->ndim).s);
  return PF_OK;
}

pf_status array_write(pf_ctx *c, tensor_array *a, int64_t index, DLManagedTensorVersioned *t) {
  pf_status r = write_problem(c, a, index, &t->dl_tensor);
  if (r != PF_OK) {
    t->deleter(t);
    return r;
  }
  slot *s = &a->slots[index];
  if (s->written) {
    r = aggregate(c, a, s, index, t);
    t->deleter(t);
    return r;
  }
  value *v = value_new(t);
  if (!v) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to keep a value");
  s->v = v;
  s->written = 1;
  return PF_OK;
}

/* ---------------------------------------------------------------- reading */
static int known(const int64_t *dims, int32_t ndim) {
  if (ndim < 0) return 0;
  for (int32_t d = 0; d < ndim; d++)
    if (dims[d] < 0) return 0;
  return 1;
}

static pf_status take_zeros(pf_ctx *c, tensor_array *a, int64_t index, const pf_shape *want,
                            value **v) {
  const slot *s = &a->slots[index];
  const int64_t *dims = s->shape ? s->shape : a->dims;
  int32_t ndim = s->shape ? s->ndim : a->ndim;
  if (!known(dims, ndim) && want && known(want->dims, want->ndim))
    dims = want->dims, ndim = want->ndim;
  if (!known(dims, ndim))
    return PF_INVALID(c,
                      "TensorArray %s: Could not read from TensorArray index %" PRId64
                      " because it has not been "
                      "written to. Furthermore, the element shape is not fully defined: %s. It is "
                      "possible you are "
                      "working with a resizeable TensorArray and stop_gradients is not allowing "
                      "the gradients to be "
                      "written. If you set the full element_shape property on the forward "
                      "TensorArray, the proper "
                      "all-zeros tensor will be returned instead of incurring this error.",
                      a->name, index, ndim < 0 ? "<unknown>" : pf_shape_text(dims, ndim).s);
  DLManagedTensorVersioned *t =
      c->host->tensor_new(c->host, c->dev, PF_MEM_DEVICE, a->type, dims, ndim);
  if (t && pf_type_size(a->type)) {
    int64_t bytes = pf_numel(&t->dl_tensor) * pf_type_size(a->type);
    if (bytes) memset(PF_DATA(void, &t->dl_tensor), 0, (size_t)bytes);
  }
  *v = value_new(t);
  return *v ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for zeros");
}

pf_status array_take(pf_ctx *c, tensor_array *a, int64_t index, const pf_shape *want, value **v) {
  if (index < 0 || index >= a->n)
    return PF_INVALID(
        c, "TensorArray %s: Tried to read from index %" PRId64 " but array size is: %" PRId64,
        a->name, index, a->n);
  slot *s = &a->slots[index];
  if (s->cleared)
    return PF_INVALID(c,
                      "TensorArray %s: Could not read index %" PRId64
                      " twice because it was cleared after a previous "
                      "read (perhaps try setting clear_after_read = false?).",
                      a->name, index);
  if (!s->written) return take_zeros(c, a, index, want, v);
  s->read = 1;
  *v = s->v;
  if (!a->clear_after_read) {
    atomic_fetch_add(&s->v->refs, 1);
    return PF_OK;
  }
  if (!s->shape && s->v->t->dl_tensor.ndim > 0) { /* a gradient array may still ask for the shape */
    const DLTensor *t = &s->v->t->dl_tensor;
    s->shape = malloc(sizeof(int64_t) * (size_t)t->ndim);
    if (s->shape) memcpy(s->shape, t->shape, sizeof(int64_t) * (size_t)t->ndim);
    s->ndim = s->shape ? t->ndim : 0;
  }
  s->v = NULL;
  s->cleared = 1;
  return PF_OK;
}

/* ---------------------------------------------------------------- kernels */
static pf_status flow_output(pf_ctx *c, int32_t in, int32_t out) {
  return c->host->alias(c, in, out, c->in[in]->shape, c->in[in]->ndim);
}

static pf_status array_create(pf_ctx *c, const void *state) {
  const array_state *s = state;
  int64_t n;
  PF_TRY(pf_in_scalar(c, 0, "size", &n));
  if (n < 0) return PF_INVALID(c, "Size should be >= 0, got %" PRId64, n);
  if (s->element_shape.ndim > PF_MAX_DIMS)
    return PF_INVALID(c, "element_shape has rank %d, at most %d is supported",
                      s->element_shape.ndim, PF_MAX_DIMS);
  DLTensor *flow = c->host->output(c, 1, NULL, 0);
  PF_EXHAUSTED(flow);
  PF_DATA(float, flow)[0] = 0;
  tensor_array *a = array_new(s->T, n, s->name.len ? s->name : c->host->node_name(c));
  if (!a) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a TensorArray");
  a->dynamic = s->dynamic_size;
  a->clear_after_read = s->clear_after_read;
  a->identical = s->identical_element_shapes;
  a->ndim = s->element_shape.ndim;
  for (int32_t d = 0; d < a->ndim; d++) a->dims[d] = s->element_shape.dims[d];
  return c->host->resource_handle(c, 0, PF_SCOPE_STEP, &PF_TENSOR_ARRAY, a);
}

/* A gradient slot knows the shape of the forward value, so that what is never written reads as
 * zeros. */
static int copy_shapes(const tensor_array *a, tensor_array *g, const int64_t *prepend,
                       int32_t n_prepend) {
  for (int64_t i = 0; i < a->n; i++) {
    const slot *s = &a->slots[i];
    if (!s->written) continue;
    const int64_t *dims = s->v ? s->v->t->dl_tensor.shape : s->shape;
    int32_t ndim = s->v ? s->v->t->dl_tensor.ndim : s->ndim;
    g->slots[i].shape = malloc(sizeof(int64_t) * (size_t)PF_MAX(ndim + n_prepend, 1));
    if (!g->slots[i].shape) return 0;
    for (int32_t d = 0; d < n_prepend; d++) g->slots[i].shape[d] = prepend[d];
    for (int32_t d = 0; d < ndim; d++) g->slots[i].shape[n_prepend + d] = dims[d];
    g->slots[i].ndim = ndim + n_prepend;
  }
  return 1;
}

static tensor_array *gradient_new(tensor_array *a, pf_str source, const int64_t *prepend,
                                  int32_t n_prepend) {
  char name[sizeof a->name + sizeof a->source];
  int n =
      snprintf(name, sizeof name, "%s@%.*s", a->name, (int)PF_MIN(source.len, 100), source.data);
  tensor_array *g = array_new(a->type, a->n, (pf_str){name, n});
  if (!g) return NULL;
  g->aggregate = 1;
  g->clear_after_read = 1;
  g->identical = a->identical;
  g->joined = a->parts;
  if (a->ndim >= 0 && a->ndim + n_prepend <= PF_MAX_DIMS) {
    g->ndim = a->ndim + n_prepend;
    for (int32_t d = 0; d < n_prepend; d++) g->dims[d] = prepend[d];
    for (int32_t d = 0; d < a->ndim; d++) g->dims[n_prepend + d] = a->dims[d];
  }
  memcpy(g->source, source.data, (size_t)source.len);
  if (!copy_shapes(a, g, prepend, n_prepend)) {
    array_unref(g);
    return NULL;
  }
  g->next = a->grad;
  a->grad = g;
  return g;
}

static pf_status gradient(pf_ctx *c, const array_state *s, const int64_t *prepend,
                          int32_t n_prepend) {
  tensor_array *a, *g;
  if (s->name.len >= (int64_t)sizeof a->source)
    return PF_INVALID(c, "source is too long: %" PRId64 " bytes", s->name.len);
  PF_TRY(array_open(c, 0, &a));
  for (g = a->grad; g; g = g->next)
    if ((int64_t)strlen(g->source) == s->name.len &&
        !memcmp(g->source, s->name.data, (size_t)s->name.len))
      break;
  if (!g) g = gradient_new(a, s->name, prepend, n_prepend);
  if (g) atomic_fetch_add(&g->refs, 1);
  array_done(a, PF_OK);
  if (!g) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a gradient TensorArray");
  PF_TRY(flow_output(c, 1, 1));
  return c->host->resource_handle(c, 0, PF_SCOPE_STEP, &PF_TENSOR_ARRAY, g);
}
static pf_status array_grad(pf_ctx *c, const void *s) { return gradient(c, s, NULL, 0); }
static pf_status array_grad_with_shape(pf_ctx *c, const void *s) {
  int64_t prepend[PF_MAX_DIMS];
  int32_t n;
  PF_TRY(pf_in_vector(c, 2, "shape_to_prepend", prepend, &n));
  return gradient(c, s, prepend, n);
}

static pf_status array_write_one(pf_ctx *c, const void *state) {
  const array_state *s = state;
  tensor_array *a;
  int64_t index;
  PF_TRY(pf_in_scalar(c, 1, "index", &index));
  PF_TRY(array_open(c, s->T, &a));
  DLManagedTensorVersioned *t = c->host->retain(c, 2);
  if (!t) return array_done(a, pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to keep a value"));
  PF_TRY(array_done(a, array_write(c, a, index, t)));
  return flow_output(c, 3, 0);
}

static pf_status array_read_one(pf_ctx *c, const void *state) {
  const array_state *s = state;
  tensor_array *a;
  value *v = NULL;
  int64_t index;
  PF_TRY(pf_in_scalar(c, 1, "index", &index));
  PF_TRY(array_open(c, s->T, &a));
  PF_TRY(array_done(a, array_take(c, a, index, NULL, &v)));
  return value_publish(c, 0, v);
}

static pf_status array_size(pf_ctx *c, const void *state) {
  tensor_array *a;
  (void)state;
  PF_TRY(array_open(c, 0, &a));
  int64_t n = a->n;
  array_done(a, PF_OK);
  DLTensor *out = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(out);
  PF_DATA(int32_t, out)[0] = (int32_t)n;
  return PF_OK;
}

static pf_status array_close(pf_ctx *c, const void *state) {
  void *obj;
  (void)state;
  PF_TRY(c->host->resource_get(c, 0, &PF_TENSOR_ARRAY, &obj));
  tensor_array *a = obj;
  pthread_mutex_lock(&a->lock);
  for (int64_t i = 0; i < a->n; i++) slot_clear(&a->slots[i]);
  a->closed = 1;
  return array_done(a, PF_OK);
}

#define TYPE(name_) PF_REF(pf_attr, name_, PF_ATTR_TYPE, offsetof(array_state, T))
#define OPTIONAL(name_, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name_, kind, offsetof(array_state, field)})
#define ENTRY(op, fn, ...) PF_CPU(op, NULL, .attrs = PF_ATTRS(__VA_ARGS__), \
  .state_size = sizeof(array_state), .compute = fn)
const pf_kernel *const tensor_array_kernels[] = {
  ENTRY("TensorArrayV3", array_create, TYPE("dtype"),
        OPTIONAL("dynamic_size", PF_ATTR_BOOL, dynamic_size),
        OPTIONAL("clear_after_read", PF_ATTR_BOOL, clear_after_read),
        OPTIONAL("identical_element_shapes", PF_ATTR_BOOL, identical_element_shapes),
        PF_ATTR(array_state, PF_ATTR_SHAPE, element_shape),
        OPTIONAL("tensor_array_name", PF_ATTR_STRING, name)),
  ENTRY("TensorArrayGradV3", array_grad,
        PF_REF(pf_attr, "source", PF_ATTR_STRING, offsetof(array_state, name))),
  ENTRY("TensorArrayGradWithShape", array_grad_with_shape,
        PF_REF(pf_attr, "source", PF_ATTR_STRING, offsetof(array_state, name))),
  ENTRY("TensorArrayWriteV3", array_write_one, TYPE("T")),
  ENTRY("TensorArrayReadV3", array_read_one, TYPE("dtype")),
  PF_CPU("TensorArraySizeV3", NULL, .compute = array_size),
  PF_CPU("TensorArrayCloseV3", NULL, .compute = array_close),
  NULL};
