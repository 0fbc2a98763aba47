/* tensor_list.c - lists and their items one by one: EmptyTensorList, TensorListReserve, GetItem,
 * SetItem, PushBack, PopBack, Length, ElementShape, Resize (tensor_list.h holds the rules).
 *
 * Threads: compute is concurrent; a list is written by its sole owner only.
 */
#include "containers/tensor_list.h"

/* ---------------------------------------------------------------- values and items */
void value_unref(list_value *v) {
  if (!v || atomic_fetch_sub(&v->refs, 1) != 1) return;
  if (v->t) v->t->deleter(v->t);
  if (v->list) list_unref(v->list);
  free(v);
}
static list_value *value_new(DLManagedTensorVersioned *t, tensor_list *l) { /* steals both */
  list_value *v = t || l ? calloc(1, sizeof *v) : NULL;
  if (v) {
    atomic_init(&v->refs, 1);
    v->t = t;
    v->list = l;
    return v;
  }
  if (t) t->deleter(t);
  if (l) list_unref(l);
  return NULL;
}
list_value *value_of(DLManagedTensorVersioned *steal) { return value_new(steal, NULL); }

list_value *value_retained(pf_ctx *c, int32_t in) {
  list_value *v;
  if (c->in_type[in] == PF_VARIANT) {
    tensor_list *l;
    if (list_in(c, in, 0, &l)) return NULL;
    atomic_fetch_add(&l->refs, 1);
    v = value_new(NULL, l);
  } else if (c->in_type[in] == PF_RESOURCE) {
    pf_failf(c, PF_UNIMPLEMENTED, "lists of resources are not supported");
    return NULL;
  } else {
    v = value_new(c->host->retain(c, in), NULL);
  }
  if (!v) pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to keep an element of a list");
  return v;
}

pf_status item_copy(pf_ctx *c, const list_item *i, DLTensor *out, int64_t at, int64_t esize) {
  int32_t ndim;
  const int64_t *dims = item_dims(i, &ndim);
  int64_t n = dims_numel(dims, ndim);
  return pf_copy_run(c, out, at, &i->v->t->dl_tensor, i->row >= 0 ? i->row * n : 0, n, esize);
}

static void published_free(DLManagedTensorVersioned *m) {
  value_unref(m->manager_ctx);
  free(m);
}
/* Output o is the item: large ones are lent, small ones copied, which is cheaper and leaves a
 * buffer that may be written over. */
pf_status item_publish(pf_ctx *c, int32_t o, const list_item *i) {
  enum { SMALL = 4096 };
  if (i->v->list) {
    atomic_fetch_add(&i->v->list->refs, 1);
    return list_out(c, o, i->v->list);
  }
  int32_t ndim;
  const int64_t *dims = item_dims(i, &ndim);
  int64_t esize = pf_type_size(c->out_type[o]), bytes = dims_numel(dims, ndim) * esize;
  DLManagedTensorVersioned *m = esize && bytes > SMALL ? malloc(sizeof *m) : NULL;
  if (!m) {
    DLTensor *y = c->host->output(c, o, dims, ndim);
    PF_EXHAUSTED(y);
    return item_copy(c, i, y, 0, esize);
  }
  *m = *i->v->t;
  m->dl_tensor.shape = (int64_t *)dims;
  m->dl_tensor.ndim = ndim;
  m->dl_tensor.data = PF_DATA(char, &i->v->t->dl_tensor) + (i->row > 0 ? i->row * bytes : 0);
  m->dl_tensor.byte_offset = 0;
  m->manager_ctx = item_share(*i).v;
  m->deleter = published_free;
  m->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
  return c->host->set_output(c, o, m);
}

/* ---------------------------------------------------------------- shapes known in part */
part_text part_write(const part_shape *p) {
  part_text t;
  size_t n = 0;
  if (p->ndim < 0) {
    memcpy(t.s, "<unknown>", 10);
    return t;
  }
  t.s[n++] = '[';
  for (int32_t i = 0; i < p->ndim && n < sizeof t.s - 24; i++) {
    if (i) t.s[n++] = ',';
    n += (size_t)(p->dims[i] < 0 ? snprintf(t.s + n, sizeof t.s - n, "?")
                                 : snprintf(t.s + n, sizeof t.s - n, "%" PRId64, p->dims[i]));
  }
  t.s[n++] = ']';
  t.s[n] = 0;
  return t;
}
pf_status part_of(pf_ctx *c, const int64_t *dims, int32_t ndim, part_shape *out) {
  if (ndim > PF_MAX_DIMS)
    return pf_failf(c, PF_UNIMPLEMENTED, "element_shape has rank %d, at most %d is supported", ndim,
                    PF_MAX_DIMS);
  *out = part_unknown();
  return part_merge(out, dims, ndim) ? PF_OK : PF_INTERNAL;
}
pf_status part_in(pf_ctx *c, int32_t in, part_shape *out) {
  const DLTensor *t = c->in[in];
  *out = part_unknown();
  if (t->ndim == 0) {
    if (pf_in_index(c, in, 0) == -1) return PF_OK;
    return PF_INVALID(c, "The only valid scalar shape tensor is the fully unknown shape specified "
                         "as -1.");
  }
  PF_TRY(pf_in_vector(c, in, "element_shape", out->dims, &out->ndim));
  for (int32_t d = 0; d < out->ndim; d++)
    if (out->dims[d] < -1)
      return PF_INVALID(c, "Dimension %" PRId64 " of element_shape must be >= -1", out->dims[d]);
  return PF_OK;
}
int part_full(const part_shape *p) {
  if (p->ndim < 0) return 0;
  for (int32_t d = 0; d < p->ndim; d++)
    if (p->dims[d] < 0) return 0;
  return 1;
}
int part_merge(part_shape *p, const int64_t *dims, int32_t ndim) {
  if (ndim > PF_MAX_DIMS || (p->ndim >= 0 && p->ndim != ndim)) return 0;
  if (p->ndim < 0)
    for (int32_t d = 0; d < ndim; d++) p->dims[d] = -1;
  p->ndim = ndim;
  for (int32_t d = 0; d < ndim; d++) {
    if (dims[d] < 0) continue;
    if (p->dims[d] >= 0 && p->dims[d] != dims[d]) return 0;
    p->dims[d] = dims[d];
  }
  return 1;
}
pf_status part_of_items(pf_ctx *c, int32_t in, const tensor_list *l, part_shape *out) {
  PF_TRY(part_in(c, in, out));
  part_shape asked = *out;
  if (!part_merge_part(out, &l->shape))
    return PF_INVALID(c, "Incompatible shapes: element_shape is %s, the list's elements have %s",
                      part_write(&asked).s, part_write(&l->shape).s);
  if (part_full(&l->shape)) return PF_OK;
  for (int64_t k = 0; k < l->n; k++) {
    if (!l->items[k].v || l->items[k].v->list) continue;
    int32_t ndim;
    const int64_t *dims = item_dims(&l->items[k], &ndim);
    if (!part_merge(out, dims, ndim))
      return PF_INVALID(c, "Incompatible shapes during merge: %s vs. %s of element %" PRId64,
                        part_write(out).s, pf_shape_text(dims, ndim).s, k);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- lists */
void list_unref(void *obj) {
  tensor_list *l = obj;
  if (!l || atomic_fetch_sub(&l->refs, 1) != 1) return;
  for (int64_t i = 0; i < l->n; i++) value_unref(l->items[i].v);
  free(l->items);
  free(l);
}
const pf_type PF_TENSOR_LIST = {
  .size = sizeof(pf_type), .id = "pyflow.TensorList", .unref = list_unref};

pf_status list_resize(pf_ctx *c, tensor_list *l, int64_t n) {
  if (n > LIST_MAX)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                    "a list of %" PRId64 " elements is too long, at most %d are supported", n,
                    LIST_MAX);
  for (int64_t i = n; i < l->n; i++) item_clear(&l->items[i]);
  if (n > l->room) {
    int64_t room = PF_MAX(n, PF_MIN(l->room * 2, LIST_MAX));
    list_item *items = realloc(l->items, sizeof *items * (size_t)room);
    if (!items)
      return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for %" PRId64 " list elements", n);
    l->items = items;
    l->room = room;
  }
  if (n > l->n) memset(l->items + l->n, 0, sizeof *l->items * (size_t)(n - l->n));
  l->n = n;
  return PF_OK;
}
tensor_list *list_new(pf_ctx *c, int32_t type, int64_t n) {
  tensor_list *l = calloc(1, sizeof *l);
  if (!l) {
    pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a list");
    return NULL;
  }
  atomic_init(&l->refs, 1);
  l->type = type;
  l->max = -1;
  l->shape = part_unknown();
  if (list_resize(c, l, n) == PF_OK) return l;
  list_unref(l);
  return NULL;
}
pf_status list_in(pf_ctx *c, int32_t in, int32_t type, tensor_list **out) {
  void *obj;
  PF_TRY(c->host->resource_get(c, in, &PF_TENSOR_LIST, &obj));
  *out = obj;
  if (!type || type == (*out)->type) return PF_OK;
  if ((*out)->type == LIST_OPTIONAL)
    return PF_INVALID(c, "input %d is an optional, expected a list", in);
  return PF_INVALID(c, "Invalid data types; op elements %s but list elements %s",
                    pf_type_name(type), pf_type_name((*out)->type));
}
int list_owned(pf_ctx *c, int32_t in, const tensor_list *l) {
  return atomic_load(&l->refs) == 1 && c->host->can_forward(c, in);
}
pf_status list_out(pf_ctx *c, int32_t out, tensor_list *steal) {
  return c->host->resource_handle(c, out, PF_SCOPE_CONTAINER, &PF_TENSOR_LIST, steal);
}
pf_status list_open(pf_ctx *c, int32_t in, tensor_list *l, tensor_list **out) {
  *out = l;
  if (list_owned(c, in, l)) return PF_OK;
  tensor_list *copy = list_new(c, l->type, l->n);
  PF_EXHAUSTED(copy);
  copy->max = l->max;
  copy->shape = l->shape;
  for (int64_t i = 0; i < l->n; i++) copy->items[i] = item_share(l->items[i]);
  *out = copy;
  return PF_OK;
}
pf_status list_put(pf_ctx *c, int32_t in, int32_t out, tensor_list *l, const tensor_list *input) {
  return l == input ? c->host->alias(c, in, out, NULL, 0) : list_out(c, out, l);
}
static pf_status list_drop(tensor_list *l, const tensor_list *input, pf_status why) {
  if (l != input) list_unref(l);
  return why;
}

/* ---------------------------------------------------------------- making lists */
static pf_status list_empty(pf_ctx *c, const void *state) {
  int64_t max;
  part_shape shape;
  if (c->in[1]->ndim != 0)
    return PF_INVALID(c, "expected max_num_elements to be a scalar but got shape: %s",
                      PF_SHAPE(c->in[1]).s);
  PF_TRY(pf_in_scalar(c, 1, "max_num_elements", &max));
  PF_TRY(part_in(c, 0, &shape));
  tensor_list *l = list_new(c, ((const list_state *)state)->type, 0);
  PF_EXHAUSTED(l);
  l->max = max;
  l->shape = shape;
  return list_out(c, 0, l);
}
static pf_status list_reserve(pf_ctx *c, const void *state) {
  int64_t n;
  part_shape shape;
  PF_TRY(part_in(c, 0, &shape));
  if (c->in[1]->ndim != 0)
    return PF_INVALID(c, "The num_elements to reserve must be a tensor size 1, but got %s",
                      PF_SHAPE(c->in[1]).s);
  PF_TRY(pf_in_scalar(c, 1, "num_elements", &n));
  if (n < 0)
    return PF_INVALID(
        c, "The num_elements to reserve must be a non negative number, but got %" PRId64, n);
  tensor_list *l = list_new(c, ((const list_state *)state)->type, n);
  PF_EXHAUSTED(l);
  l->shape = shape;
  return list_out(c, 0, l);
}

/* ---------------------------------------------------------------- asking lists */
static pf_status list_length(pf_ctx *c, const void *state) {
  tensor_list *l;
  (void)state;
  PF_TRY(list_in(c, 0, 0, &l));
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  PF_DATA(int32_t, y)[0] = (int32_t)l->n;
  return PF_OK;
}
static pf_status list_element_shape(pf_ctx *c, const void *state) {
  tensor_list *l;
  (void)state;
  PF_TRY(list_in(c, 0, 0, &l));
  int64_t n = l->shape.ndim;
  DLTensor *y = c->host->output(c, 0, &n, n >= 0);
  PF_EXHAUSTED(y);
  if (n < 0) pf_put_index(y, c->out_type[0], 0, -1);
  for (int64_t d = 0; d < n; d++) pf_put_index(y, c->out_type[0], d, l->shape.dims[d]);
  return PF_OK;
}

/* Output o: zeros, where the element was never set. */
static pf_status publish_zeros(pf_ctx *c, int32_t o, int32_t shape_in, const tensor_list *l) {
  part_shape shape;
  PF_TRY(part_of_items(c, shape_in, l, &shape));
  if (!part_full(&shape))
    return PF_INVALID(c,
                      "Trying to read an uninitialized element but element_shape is not fully "
                      "defined: %s",
                      part_write(&shape).s);
  if (c->out_type[o] == PF_VARIANT || c->out_type[o] == PF_RESOURCE)
    return PF_INVALID(c, "Trying to read an uninitialized element of a list of lists");
  DLTensor *y = pf_output_checked(c, o, shape.dims, shape.ndim);
  PF_EXHAUSTED(y);
  int64_t bytes = pf_numel(y) * pf_type_size(c->out_type[o]);
  if (bytes) memset(PF_DATA(void, y), 0, (size_t)bytes); /* new strings are empty already */
  return PF_OK;
}
static pf_status list_get(pf_ctx *c, const void *state) {
  tensor_list *l;
  int64_t i;
  PF_TRY(list_in(c, 0, ((const list_state *)state)->type, &l));
  PF_TRY(pf_in_scalar(c, 1, "index", &i));
  if (i < 0 || i >= l->n)
    return PF_INVALID(
        c, "Trying to access element %" PRId64 " in a list with %" PRId64 " elements.", i, l->n);
  return l->items[i].v ? item_publish(c, 0, &l->items[i]) : publish_zeros(c, 0, 2, l);
}

/* ---------------------------------------------------------------- changing lists */
static pf_status item_problem(pf_ctx *c, const tensor_list *l, int32_t in, const char *what) {
  const DLTensor *t = c->in[in];
  if (part_fits(l->shape, t->shape, t->ndim)) return PF_OK;
  return PF_INVALID(c, "%s shape: %s list shape: %s", what, PF_SHAPE(t).s, part_write(&l->shape).s);
}
static pf_status list_set(pf_ctx *c, const void *state) {
  const list_state *s = state;
  tensor_list *l, *y;
  int64_t i;
  PF_TRY(list_in(c, 0, s->type, &l));
  PF_TRY(pf_in_scalar(c, 1, "index", &i));
  if (i < 0 || (i >= l->n && !s->resize))
    return PF_INVALID(
        c, "Trying to modify element %" PRId64 " in a list with %" PRId64 " elements.", i, l->n);
  PF_TRY(item_problem(c, l, 2,
                      "Tried to set a tensor with incompatible shape at a list index. "
                      "Item element"));
  list_value *v = value_retained(c, 2);
  PF_EXHAUSTED(v);
  pf_status r = list_open(c, 0, l, &y);
  if (r == PF_OK && i >= y->n && (r = list_resize(c, y, i + 1))) list_drop(y, l, r);
  if (r) {
    value_unref(v);
    return r;
  }
  item_clear(&y->items[i]);
  y->items[i] = (list_item){v, -1};
  return list_put(c, 0, 0, y, l);
}
static pf_status list_push(pf_ctx *c, const void *state) {
  tensor_list *l, *y;
  PF_TRY(list_in(c, 0, ((const list_state *)state)->type, &l));
  PF_TRY(item_problem(c, l, 1,
                      "Tried to append a tensor with incompatible shape to a list. Op "
                      "element"));
  if (l->max >= 0 && l->n >= l->max)
    return PF_INVALID(
        c, "Tried to push item into a full list list size: %" PRId64 " max_num_elements: %" PRId64,
        l->n, l->max);
  list_value *v = value_retained(c, 1);
  PF_EXHAUSTED(v);
  pf_status r = list_open(c, 0, l, &y);
  if (r == PF_OK && (r = list_resize(c, y, y->n + 1))) list_drop(y, l, r);
  if (r) {
    value_unref(v);
    return r;
  }
  y->items[y->n - 1] = (list_item){v, -1};
  return list_put(c, 0, 0, y, l);
}
static pf_status list_pop(pf_ctx *c, const void *state) {
  tensor_list *l, *y;
  PF_TRY(list_in(c, 0, ((const list_state *)state)->type, &l));
  if (!l->n) return PF_INVALID(c, "Trying to pop from an empty list.");
  const list_item *last = &l->items[l->n - 1];
  PF_TRY(last->v ? item_publish(c, 1, last) : publish_zeros(c, 1, 1, l));
  PF_TRY(list_open(c, 0, l, &y));
  pf_status r = list_resize(c, y, y->n - 1);
  return r ? list_drop(y, l, r) : list_put(c, 0, 0, y, l);
}
static pf_status list_resized(pf_ctx *c, const void *state) {
  tensor_list *l, *y;
  int64_t n;
  (void)state;
  PF_TRY(list_in(c, 0, 0, &l));
  PF_TRY(pf_in_scalar(c, 1, "size", &n));
  if (n < 0)
    return PF_INVALID(c, "TensorListSlice expects size to be non-negative. Got: %" PRId64, n);
  PF_TRY(list_open(c, 0, l, &y));
  pf_status r = list_resize(c, y, n);
  return r ? list_drop(y, l, r) : list_put(c, 0, 0, y, l);
}

#define LIST(op_, fn_, ...) \
  PF_CPU(op_, NULL, .state_size = sizeof(list_state), .compute = fn_, \
         .attrs = PF_ATTRS(PF_REF(pf_attr, "element_dtype", PF_ATTR_TYPE, \
                                  offsetof(list_state, type)), ##__VA_ARGS__))
const pf_kernel *const tensor_list_kernels[] = {
  LIST("EmptyTensorList", list_empty),
  LIST("TensorListReserve", list_reserve),
  LIST("TensorListGetItem", list_get),
  LIST(
      "TensorListSetItem", list_set,
      PF_REF(pf_attr, "resize_if_index_out_of_bounds", PF_ATTR_BOOL, offsetof(list_state, resize))),
  LIST("TensorListPushBack", list_push),
  LIST("TensorListPopBack", list_pop),
  PF_CPU("TensorListLength", NULL, .compute = list_length),
  PF_CPU("TensorListElementShape", NULL, .compute = list_element_shape),
  PF_CPU("TensorListResize", NULL, .compute = list_resized),
  NULL};
