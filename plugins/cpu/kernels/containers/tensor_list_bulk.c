/* tensor_list_bulk.c - many items at once: TensorListFromTensor, Stack, Gather, Scatter (V2,
 * IntoExistingList), Concat (V2), Split, ConcatLists, and ZerosLike and AddN of lists, which
 * sum the gradients of a list (tensor_list.h holds the rules).
 *
 * Invariants: every shape is checked before a byte of the output is written; products are checked.
 * Threads: compute is concurrent.
 */
#include "containers/tensor_list.h"
#include "containers/tensor_array.h"

/* ---------------------------------------------------------------- tensor -> list */
static pf_status plain_elements(pf_ctx *c, int32_t type) {
  if (type != PF_VARIANT && type != PF_RESOURCE) return PF_OK;
  return pf_failf(c, PF_UNIMPLEMENTED, "a tensor of %s elements is not supported, only scalars are",
                  pf_type_name(type));
}
/* The rows of input 0 as values: one reference of the tensor, shared. */
static pf_status rows_of(pf_ctx *c, const part_shape *shape, list_value **out) {
  const DLTensor *t = c->in[0];
  if (t->ndim < 1)
    return PF_INVALID(c, "Tensor must be at least a vector, but saw shape: %s", PF_SHAPE(t).s);
  PF_TRY(pf_check_rank(c, t, "tensor"));
  PF_TRY(plain_elements(c, c->in_type[0]));
  if (!part_fits(*shape, t->shape + 1, t->ndim - 1))
    return PF_INVALID(c, "Specified a list with shape %s from a tensor with shape %s",
                      part_write(shape).s, pf_shape_text(t->shape + 1, t->ndim - 1).s);
  *out = value_retained(c, 0);
  return *out ? PF_OK : PF_RESOURCE_EXHAUSTED;
}
static void put_row(tensor_list *l, int64_t at, list_value *v, int64_t row) {
  item_clear(&l->items[at]);
  l->items[at] = item_share((list_item){v, row});
}

static pf_status from_tensor(pf_ctx *c, const void *state) {
  part_shape shape;
  list_value *v;
  PF_TRY(part_in(c, 1, &shape));
  PF_TRY(rows_of(c, &shape, &v));
  tensor_list *l = list_new(c, ((const list_state *)state)->type, c->in[0]->shape[0]);
  for (int64_t i = 0; l && i < l->n; i++) put_row(l, i, v, i);
  value_unref(v);
  PF_EXHAUSTED(l);
  l->shape = shape;
  return list_out(c, 0, l);
}

/* Indices of input 1: one for each row of input 0, from 0 on.  *highest: the largest, or -1. */
static pf_status scatter_indices(pf_ctx *c, int64_t *highest) {
  const DLTensor *t = c->in[0], *at = c->in[1];
  if (at->ndim != 1)
    return PF_INVALID(c, "Expected indices to be a vector, but received shape: %s", PF_SHAPE(at).s);
  if (t->ndim < 1 || at->shape[0] != t->shape[0])
    return PF_INVALID(
        c, "Invalid number of rows in input tensor. Expected: %" PRId64 " Actual shape: %s",
        at->shape[0], PF_SHAPE(t).s);
  *highest = -1;
  for (int64_t i = 0; i < at->shape[0]; i++) {
    int64_t k = pf_in_index(c, 1, i);
    if (k < 0)
      return PF_INVALID(c, "Indices in TensorListScatter must all be non-negative, got %" PRId64,
                        k);
    *highest = PF_MAX(*highest, k);
  }
  return PF_OK;
}
static pf_status scatter(pf_ctx *c, const void *state) {
  part_shape shape;
  list_value *v;
  int64_t highest, n = -1;
  PF_TRY(part_in(c, 2, &shape));
  PF_TRY(scatter_indices(c, &highest));
  if (c->n_in > 3) PF_TRY(pf_in_scalar(c, 3, "num_elements", &n));
  if (n < -1)
    return PF_INVALID(c, "TensorListScatter expects num_elements >= -1, found: %" PRId64, n);
  if (n >= 0 && highest >= n)
    return PF_INVALID(
        c, "TensorListScatter: Trying to scatter at index %" PRId64 " in list with size %" PRId64,
        highest, n);
  PF_TRY(rows_of(c, &shape, &v));
  tensor_list *l = list_new(c, ((const list_state *)state)->type, n < 0 ? highest + 1 : n);
  for (int64_t i = 0; l && i < c->in[1]->shape[0]; i++) put_row(l, pf_in_index(c, 1, i), v, i);
  value_unref(v);
  PF_EXHAUSTED(l);
  l->shape = shape;
  return list_out(c, 0, l);
}
static pf_status scatter_into(pf_ctx *c, const void *state) {
  tensor_list *l, *y;
  const DLTensor *t = c->in[1], *at = c->in[2];
  int64_t highest = -1;
  PF_TRY(list_in(c, 0, ((const list_state *)state)->type, &l));
  PF_TRY(plain_elements(c, c->in_type[1]));
  if (at->ndim != 1 || t->ndim < 1 || at->shape[0] != t->shape[0])
    return PF_INVALID(c,
                      "Invalid number of rows in input tensor: indices have shape %s, the "
                      "tensor has %s",
                      PF_SHAPE(at).s, PF_SHAPE(t).s);
  if (!part_fits(l->shape, t->shape + 1, t->ndim - 1))
    return PF_INVALID(c, "Tried to set a tensor with incompatible shape: %s list shape: %s",
                      pf_shape_text(t->shape + 1, t->ndim - 1).s, part_write(&l->shape).s);
  for (int64_t i = 0; i < at->shape[0]; i++) {
    int64_t k = pf_in_index(c, 2, i);
    if (k < 0) return PF_INVALID(c, "Indices must all be non-negative, got %" PRId64, k);
    highest = PF_MAX(highest, k);
  }
  list_value *v = value_retained(c, 1);
  PF_EXHAUSTED(v);
  pf_status r = list_open(c, 0, l, &y);
  if (r == PF_OK && highest >= y->n) {
    r = list_resize(c, y, highest + 1);
    if (r && y != l) list_unref(y);
  }
  for (int64_t i = 0; !r && i < at->shape[0]; i++) put_row(y, pf_in_index(c, 2, i), v, i);
  value_unref(v);
  return r ? r : list_put(c, 0, 0, y, l);
}

static pf_status split_one(pf_ctx *c, tensor_list *l, int64_t i, int64_t from, int64_t rows) {
  const DLTensor *t = c->in[0];
  int64_t dims[PF_MAX_DIMS], row = dims_numel(t->shape + 1, t->ndim - 1);
  memcpy(dims, t->shape, sizeof(int64_t) * (size_t)t->ndim);
  dims[0] = rows;
  if (!part_fits(l->shape, dims, t->ndim))
    return PF_INVALID(c, "Specified a list with shape %s but element %" PRId64 " has shape %s",
                      part_write(&l->shape).s, i, pf_shape_text(dims, t->ndim).s);
  list_value *v =
      value_of(c->host->tensor_new(c->host, c->dev, PF_MEM_DEVICE, l->type, dims, t->ndim));
  if (!v) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for an element of a list");
  l->items[i] = (list_item){v, -1};
  return pf_copy_run(c, &v->t->dl_tensor, 0, t, from * row, rows * row, pf_type_size(l->type));
}
static pf_status split(pf_ctx *c, const void *state) {
  const DLTensor *t = c->in[0], *lengths = c->in[2];
  part_shape shape;
  int64_t sum = 0;
  PF_TRY(part_in(c, 1, &shape));
  PF_TRY(plain_elements(c, c->in_type[0]));
  PF_TRY(pf_check_rank(c, t, "tensor"));
  if (lengths->ndim != 1)
    return PF_INVALID(c, "Expected lengths to be a vector, received shape: %s",
                      PF_SHAPE(lengths).s);
  if (t->ndim < 1)
    return PF_INVALID(c, "Tensor must be at least a vector, but saw shape: %s", PF_SHAPE(t).s);
  for (int64_t i = 0; i < lengths->shape[0]; i++) {
    int64_t n = pf_in_index(c, 2, i);
    if (n < 0) return PF_INVALID(c, "Invalid value in lengths: %" PRId64, n);
    if (__builtin_add_overflow(sum, n, &sum)) sum = INT64_MAX;
  }
  if (sum != t->shape[0])
    return PF_INVALID(
        c, "Unused values in tensor. Length of tensor: %" PRId64 " Values used: %" PRId64,
        t->shape[0], sum);
  tensor_list *l = list_new(c, ((const list_state *)state)->type, lengths->shape[0]);
  PF_EXHAUSTED(l);
  l->shape = shape;
  pf_status r = PF_OK;
  for (int64_t i = 0, from = 0; !r && i < l->n; i++) {
    int64_t n = pf_in_index(c, 2, i);
    r = split_one(c, l, i, from, n);
    from += n;
  }
  if (!r) return list_out(c, 0, l);
  list_unref(l);
  return r;
}

/* ---------------------------------------------------------------- list -> tensor */
typedef struct {
  pf_ctx *c;
  const tensor_list *l;
  DLTensor *y;
  int32_t indices_in;  /* -1: the items in order */
  int64_t size, esize; /* elements of an item, bytes of an element */
} stacking;
static void stack_part(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const stacking *s = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const list_item *it = &s->l->items[s->indices_in < 0 ? i : pf_in_index(s->c, s->indices_in, i)];
    char *to = PF_DATA(char, s->y) + i * s->size * s->esize;
    if (it->v) item_copy(s->c, it, s->y, i * s->size, s->esize);
    else if (s->size) memset(to, 0, (size_t)(s->size * s->esize));
  }
}
/* Output 0: `n` items of one shape, stacked. */
static pf_status stack_items(pf_ctx *c, const tensor_list *l, int32_t indices_in, int64_t n,
                             const part_shape *shape) {
  if (shape->ndim >= PF_MAX_DIMS)
    return pf_failf(c, PF_UNIMPLEMENTED, "elements of rank %d are not stacked", shape->ndim);
  int64_t dims[PF_MAX_DIMS] = {n};
  for (int32_t d = 0; d < shape->ndim; d++) dims[d + 1] = shape->dims[d];
  DLTensor *y = pf_output_checked(c, 0, dims, shape->ndim + 1);
  PF_EXHAUSTED(y);
  stacking s = {
    c, l, y, indices_in, dims_numel(shape->dims, shape->ndim), pf_type_size(c->out_type[0])};
  if (s.esize) return pf_parallel(c, n, pf_grain(s.size), stack_part, &s);
  for (int64_t i = 0; i < n; i++) { /* strings; what is not set stays empty */
    const list_item *it = &l->items[indices_in < 0 ? i : pf_in_index(c, indices_in, i)];
    if (it->v) PF_TRY(item_copy(c, it, y, i * s.size, 0));
  }
  return PF_OK;
}
static pf_status list_stack(pf_ctx *c, const void *state) {
  const list_state *s = state;
  tensor_list *l;
  part_shape shape;
  PF_TRY(list_in(c, 0, s->type, &l));
  PF_TRY(plain_elements(c, s->type));
  if (s->num_elements != -1 && s->num_elements != l->n)
    return PF_INVALID(c,
                      "Operation expected a list with %" PRId64
                      " elements but got a list with %" PRId64 " elements.",
                      s->num_elements, l->n);
  PF_TRY(part_of_items(c, 1, l, &shape));
  if (!part_full(&shape))
    return PF_INVALID(c,
                      l->n ? "Tried to stack list which only contains uninitialized tensors and "
                             "has a non-fully-defined element shape: %s"
                           : "Tried to stack elements of an empty list with non-fully-defined "
                             "element_shape: %s",
                      part_write(&shape).s);
  return stack_items(c, l, -1, l->n, &shape);
}
static pf_status list_gather(pf_ctx *c, const void *state) {
  const list_state *s = state;
  const DLTensor *at = c->in[1];
  tensor_list *l;
  part_shape shape;
  PF_TRY(list_in(c, 0, s->type, &l));
  PF_TRY(plain_elements(c, s->type));
  if (at->ndim != 1)
    return PF_INVALID(c, "Expected indices to be a vector, but received shape: %s", PF_SHAPE(at).s);
  for (int64_t i = 0; i < at->shape[0]; i++) {
    int64_t k = pf_in_index(c, 1, i);
    if (k < 0 || k >= l->n)
      return PF_INVALID(c, "Index %" PRId64 " out o range; list only has %" PRId64 " elements.", k,
                        l->n);
  }
  PF_TRY(part_of_items(c, 2, l, &shape));
  if (!part_full(&shape))
    return PF_INVALID(c,
                      at->shape[0] ? "Tried to gather uninitialized tensors from a list with "
                                     "non-fully-defined element_shape: %s"
                                   : "Tried to gather 0-elements from a list with "
                                     "non-fully-defined shape: %s",
                      part_write(&shape).s);
  return stack_items(c, l, 1, at->shape[0], &shape);
}

/* ---------------------------------------------------------------- Concat */
/* Everything but the first dimension, and the first where all that is known agrees (else -1). */
static pf_status concat_shape(pf_ctx *c, const list_state *s, const tensor_list *l,
                              part_shape *rest, int64_t *first) {
  part_shape asked;
  if (c->n_in > 1) PF_TRY(part_in(c, 1, &asked));
  else PF_TRY(part_of(c, s->element_shape.dims, s->element_shape.ndim, &asked));
  if (!part_merge_part(&asked, &l->shape))
    return PF_INVALID(c, "Concat: element_shape disagrees with the list's elements, which have %s",
                      part_write(&l->shape).s);
  if (asked.ndim == 0)
    return PF_INVALID(c, "Concat requires elements to be at least vectors, found scalars instead.");
  *first = asked.ndim < 0 ? -1 : asked.dims[0];
  *rest = part_unknown();
  if (asked.ndim > 0) part_merge(rest, asked.dims + 1, asked.ndim - 1);
  int agree = 1;
  int64_t seen = *first;
  for (int64_t i = 0; i < l->n; i++) {
    if (!l->items[i].v) continue;
    int32_t ndim;
    const int64_t *dims = item_dims(&l->items[i], &ndim);
    if (ndim < 1)
      return PF_INVALID(
          c, "Concat saw a scalar shape at index %" PRId64 " but requires at least vectors.", i);
    if (!part_merge(rest, dims + 1, ndim - 1))
      return PF_INVALID(c, "Incompatible shapes during merge: %s vs. %s of element %" PRId64,
                        part_write(rest).s, pf_shape_text(dims + 1, ndim - 1).s, i);
    if (*first >= 0 && dims[0] != *first)
      return PF_INVALID(c,
                        "First entry of element_shape input does not match the first dim of "
                        "list element at index: %" PRId64 " Expected: %" PRId64 " Actual: %" PRId64,
                        i, *first, dims[0]);
    if (seen < 0) seen = dims[0];
    agree &= seen == dims[0];
  }
  *first = agree ? seen : -1;
  if (part_full(rest)) return PF_OK;
  return PF_INVALID(c,
                    "All except the first dimension must be fully defined when concating a list "
                    "without set elements. element_shape: %s",
                    part_write(&asked).s);
}
/* Rows of item i, set or not. */
static pf_status concat_rows(pf_ctx *c, const tensor_list *l, int64_t i, int64_t first,
                             int64_t *n) {
  const DLTensor *leading = c->n_in > 2 ? c->in[2] : NULL;
  *n = first;
  if (l->items[i].v) {
    int32_t ndim;
    *n = item_dims(&l->items[i], &ndim)[0];
  } else if (leading && pf_numel(leading) > 0) {
    if (leading->ndim != 1 || i >= leading->shape[0])
      return PF_INVALID(c,
                        "List contains uninitialized tensor at index %" PRId64
                        " but leading_dims has shape %s",
                        i, PF_SHAPE(leading).s);
    *n = pf_in_index(c, 2, i);
  }
  if (*n >= 0) return PF_OK;
  return PF_INVALID(c,
                    "Concat: element %" PRId64
                    " is not set, and its first dimension is not known: give leading_dims",
                    i);
}
static pf_status list_concat(pf_ctx *c, const void *state) {
  const list_state *s = state;
  tensor_list *l;
  part_shape rest;
  int64_t first, total = 0;
  PF_TRY(list_in(c, 0, s->type, &l));
  PF_TRY(plain_elements(c, s->type));
  PF_TRY(concat_shape(c, s, l, &rest, &first));
  DLTensor *lengths = c->host->output(c, 1, &l->n, 1);
  PF_EXHAUSTED(lengths);
  for (int64_t i = 0, n; i < l->n; i++) {
    PF_TRY(concat_rows(c, l, i, first, &n));
    PF_DATA(int64_t, lengths)[i] = n;
    if (__builtin_add_overflow(total, n, &total)) total = INT64_MAX;
  }
  int64_t dims[PF_MAX_DIMS] = {total}, esize = pf_type_size(s->type);
  if (rest.ndim >= PF_MAX_DIMS) return PF_INVALID(c, "Concat: rank %d is too high", rest.ndim + 1);
  for (int32_t d = 0; d < rest.ndim; d++) dims[d + 1] = rest.dims[d];
  DLTensor *y = pf_output_checked(c, 0, dims, rest.ndim + 1);
  PF_EXHAUSTED(y);
  int64_t row = dims_numel(rest.dims, rest.ndim);
  for (int64_t i = 0, at = 0; i < l->n; i++) {
    int64_t n = PF_DATA(int64_t, lengths)[i] * row;
    if (l->items[i].v) PF_TRY(item_copy(c, &l->items[i], y, at, esize));
    else if (n && esize) memset(PF_DATA(char, y) + at * esize, 0, (size_t)(n * esize));
    at += n;
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- lists -> list */
static pf_status concat_lists(pf_ctx *c, const void *state) {
  int32_t type = ((const list_state *)state)->type;
  tensor_list *a, *b;
  PF_TRY(list_in(c, 0, type, &a));
  PF_TRY(list_in(c, 1, type, &b));
  if (a->shape.ndim != b->shape.ndim ||
      (a->shape.ndim > 0 &&
       memcmp(a->shape.dims, b->shape.dims, sizeof(int64_t) * (size_t)a->shape.ndim)))
    return PF_INVALID(c,
                      "input_a and input_b TensorList element shapes are not identical. Saw %s "
                      "vs. %s",
                      part_write(&a->shape).s, part_write(&b->shape).s);
  tensor_list *l = list_new(c, type, a->n + b->n);
  PF_EXHAUSTED(l);
  l->shape = a->shape;
  l->max = a->max;
  for (int64_t i = 0; i < l->n; i++)
    l->items[i] = item_share(i < a->n ? a->items[i] : b->items[i - a->n]);
  return list_out(c, 0, l);
}

static pf_status zeros_item(pf_ctx *c, const list_item *x, list_item *y);
static tensor_list *zeros_list(pf_ctx *c, const tensor_list *x) {
  tensor_list *l = list_new(c, x->type, x->n);
  if (!l) return NULL;
  l->shape = x->shape;
  l->max = x->max;
  for (int64_t i = 0; i < x->n; i++)
    if (x->items[i].v && zeros_item(c, &x->items[i], &l->items[i])) {
      list_unref(l);
      return NULL;
    }
  return l;
}
static pf_status wrap_list(pf_ctx *c, tensor_list *l, list_item *y) {
  list_value *v = l ? calloc(1, sizeof *v) : NULL;
  if (!v) {
    list_unref(l);
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a list of lists");
  }
  atomic_init(&v->refs, 1);
  v->list = l;
  *y = (list_item){v, -1};
  return PF_OK;
}
static pf_status zeros_item(pf_ctx *c, const list_item *x, list_item *y) {
  if (x->v->list) return wrap_list(c, zeros_list(c, x->v->list), y);
  int32_t ndim;
  const int64_t *dims = item_dims(x, &ndim);
  int32_t type = c->host->type_of(x->v->t);
  list_value *v = value_of(c->host->tensor_new(c->host, c->dev, PF_MEM_DEVICE, type, dims, ndim));
  if (!v) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for zeros like a list");
  size_t bytes = (size_t)(dims_numel(dims, ndim) * pf_type_size(type));
  if (bytes) memset(PF_DATA(char, &v->t->dl_tensor), 0, bytes);
  *y = (list_item){v, -1};
  return PF_OK;
}
static pf_status zeros_like_list(pf_ctx *c, const void *state) {
  tensor_list *x;
  (void)state;
  PF_TRY(list_in(c, 0, 0, &x));
  tensor_list *l = zeros_list(c, x);
  PF_EXHAUSTED(l);
  return list_out(c, 0, l);
}

static pf_status add_lists(pf_ctx *c, const tensor_list *a, const tensor_list *b,
                           tensor_list **out);
/* A row is looked at as a tensor of its own. */
static DLTensor item_view(const list_item *i, int64_t esize) {
  DLTensor t = i->v->t->dl_tensor;
  int32_t ndim;
  t.shape = (int64_t *)item_dims(i, &ndim);
  t.ndim = ndim;
  if (i->row > 0) t.byte_offset += (uint64_t)(i->row * dims_numel(t.shape, ndim) * esize);
  return t;
}
static pf_status add_items(pf_ctx *c, const list_item *a, const list_item *b, list_item *y) {
  if (!a->v || !b->v) { /* what is not set counts as zero */
    *y = item_share(a->v ? *a : *b);
    return PF_OK;
  }
  if (a->v->list || b->v->list) {
    tensor_list *sum;
    PF_TRY(add_lists(c, a->v->list, b->v->list, &sum));
    return wrap_list(c, sum, y);
  }
  int32_t type = c->host->type_of(a->v->t);
  if (type != c->host->type_of(b->v->t))
    return PF_INVALID(c, "Trying to add values of different types");
  int64_t esize = pf_type_size(type);
  DLTensor s = item_view(a, esize), t = item_view(b, esize);
  if (!pf_same_shape(&s, &t))
    return PF_INVALID(c, "Trying to add two lists with elements of different shapes: %s and %s",
                      PF_SHAPE(&s).s, PF_SHAPE(&t).s);
  list_value *v =
      value_of(c->host->tensor_new(c->host, c->dev, PF_MEM_DEVICE, type, s.shape, s.ndim));
  if (!v) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to add lists");
  *y = (list_item){v, -1};
  if (array_add_values(type, &s, &t, &v->t->dl_tensor)) return PF_OK;
  return pf_failf(c, PF_UNIMPLEMENTED, "cannot add list elements of type %s", pf_type_name(type));
}
static pf_status add_lists(pf_ctx *c, const tensor_list *a, const tensor_list *b,
                           tensor_list **out) {
  if (!a || !b || a->type != b->type)
    return PF_INVALID(c,
                      "Trying to add two lists of tensors of different dtypes. One is %s and "
                      "the other is %s",
                      a ? pf_type_name(a->type) : "none", b ? pf_type_name(b->type) : "none");
  if (a->n != b->n)
    return PF_INVALID(c,
                      "Trying to add two lists of tensors with different lengths. One is "
                      "%" PRId64 " and the other is %" PRId64,
                      a->n, b->n);
  part_shape shape = a->shape;
  if (!part_merge_part(&shape, &b->shape))
    return PF_INVALID(c,
                      "Trying to add two lists of tensors with incompatible element shapes. One "
                      "is %s and the other is %s",
                      part_write(&a->shape).s, part_write(&b->shape).s);
  tensor_list *l = list_new(c, a->type, a->n);
  PF_EXHAUSTED(l);
  l->shape = shape;
  l->max = a->max;
  pf_status r = PF_OK;
  for (int64_t i = 0; !r && i < l->n; i++)
    r = add_items(c, &a->items[i], &b->items[i], &l->items[i]);
  if (r) list_unref(l);
  else *out = l;
  return r;
}
static pf_status add_n_lists(pf_ctx *c, const void *state) {
  tensor_list *sum, *next, *old;
  (void)state;
  PF_TRY(list_in(c, 0, 0, &sum));
  atomic_fetch_add(&sum->refs, 1);
  for (int32_t i = 1; i < c->n_in; i++) {
    old = sum;
    pf_status r = list_in(c, i, 0, &next);
    if (!r) r = add_lists(c, old, next, &sum);
    list_unref(old);
    if (r) return r;
  }
  return list_out(c, 0, sum);
}

#define LIST(op_, fn_, ...) \
  PF_CPU(op_, NULL, .state_size = sizeof(list_state), .compute = fn_, \
         .attrs = PF_ATTRS(PF_REF(pf_attr, "element_dtype", PF_ATTR_TYPE, \
                                  offsetof(list_state, type)), ##__VA_ARGS__))
const pf_kernel *const tensor_list_bulk_kernels[] = {
  LIST("TensorListFromTensor", from_tensor),
  LIST("TensorListStack", list_stack, PF_ATTR(list_state, PF_ATTR_INT, num_elements)),
  LIST("TensorListGather", list_gather),
  LIST("TensorListScatter", scatter),
  LIST("TensorListScatterV2", scatter),
  LIST("TensorListScatterIntoExistingList", scatter_into),
  LIST("TensorListConcat", list_concat, PF_ATTR(list_state, PF_ATTR_SHAPE, element_shape)),
  LIST("TensorListConcatV2", list_concat),
  LIST("TensorListSplit", split),
  LIST("TensorListConcatLists", concat_lists),
  PF_CPU("ZerosLike", "T=variant", .priority = 1, .compute = zeros_like_list),
  PF_CPU("AddN", "T=variant", .priority = 1, .compute = add_n_lists),
  NULL};
