/* tensor_array_bulk.c - TensorArrayGatherV3, ScatterV3, ConcatV3, SplitV3: many slots in one call
 * (tensor_array.h).
 *
 * Invariants
 *   1. Values are taken or put while the array's lock is held, so a bulk op is one event to others.
 *   2. A failed call may leave earlier slots written, as in TF; it never leaves references behind.
 * Threads: compute is concurrent.
 */
#include "containers/tensor_array.h"

static void release_all(value **v, int64_t n) {
  for (int64_t i = 0; i < n; i++) value_release(v[i]);
}
static const DLTensor *tensor_of(const value *v) { return &v->t->dl_tensor; }

/* Values of `n` slots: indices[i], or i itself; v has room for n. */
static pf_status take_many(pf_ctx *c, tensor_array *a, const int32_t *indices, int64_t n,
                           const pf_shape *want, value **v) {
  for (int64_t i = 0; i < n; i++) {
    pf_status r = array_take(c, a, indices ? indices[i] : i, want, &v[i]);
    if (r == PF_OK) continue;
    release_all(v, i);
    return r;
  }
  return PF_OK;
}

/* The element shape when there is nothing to look at. */
static pf_status empty_shape(pf_ctx *c, const tensor_array *a, const pf_shape *want, int64_t *dims,
                             int32_t *ndim) {
  const int64_t *from = a->ndim >= 0 ? a->dims : want->dims;
  int ok = (*ndim = a->ndim >= 0 ? a->ndim : want->ndim) >= 0 && *ndim < PF_MAX_DIMS;
  for (int32_t d = 0; ok && d < *ndim; d++) ok = (dims[d] = from[d]) >= 0;
  if (ok) return PF_OK;
  return pf_failf(
      c, PF_UNIMPLEMENTED,
      "TensorArray %s has size zero, but element shape %s is not fully defined. Currently "
      "only static shapes are supported when packing zero-size TensorArrays.",
      a->name, *ndim < 0 ? "<unknown>" : pf_shape_text(from, *ndim).s);
}

/* ---------------------------------------------------------------- gather: [n] + element */
static pf_status pack(pf_ctx *c, const tensor_array *a, value **v, int64_t n,
                      const pf_shape *want) {
  int64_t shape[PF_MAX_DIMS + 1];
  int32_t nd = 0;
  shape[0] = n;
  if (n == 0) {
    PF_TRY(empty_shape(c, a, want, shape + 1, &nd));
  } else {
    const DLTensor *first = tensor_of(v[0]);
    PF_TRY(pf_check_rank(c, first, "element"));
    for (nd = 0; nd < first->ndim; nd++) shape[nd + 1] = first->shape[nd];
    for (int64_t i = 1; i < n; i++)
      if (!pf_same_shape(first, tensor_of(v[i])))
        return PF_INVALID(
            c,
            "TensorArray %s has inconsistent shapes. Index 0 has shape: %s but index %" PRId64
            " has shape: %s",
            a->name, PF_SHAPE(first).s, i, PF_SHAPE(tensor_of(v[i])).s);
  }
  DLTensor *out = pf_output_checked(c, 0, shape, nd + 1);
  PF_EXHAUSTED(out);
  int64_t each = pf_product(shape, 1, nd + 1);
  for (int64_t i = 0; i < n; i++)
    PF_TRY(pf_copy_run(c, out, i * each, tensor_of(v[i]), 0, each, pf_type_size(a->type)));
  return PF_OK;
}

static pf_status gather(pf_ctx *c, const void *state) {
  const array_state *s = state;
  const DLTensor *idx = c->in[1];
  tensor_array *a;
  if (idx->ndim != 1)
    return PF_INVALID(c, "Expected indices to be a vector, but received shape: %s",
                      PF_SHAPE(idx).s);
  int64_t n = idx->shape[0];
  value **v = c->host->scratch(c, sizeof *v * (size_t)n + 8, 8);
  if (!v) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to gather");
  PF_TRY(array_open(c, s->T, &a));
  PF_TRY(array_done(a, take_many(c, a, PF_DATA(const int32_t, idx), n, &s->element_shape, v)));
  pf_status r = pack(c, a, v, n, &s->element_shape);
  release_all(v, n);
  return r;
}

/* -------------------------------------------------- concat: along the elements' first dimension */
static pf_status join(pf_ctx *c, const tensor_array *a, value **v, int64_t n,
                      const pf_shape *want) {
  int64_t shape[PF_MAX_DIMS + 1], rows = 0, at = 0;
  int32_t nd = 0;
  if (n == 0) {
    pf_shape whole = *want; /* the attribute leaves out dimension 0 */
    tensor_array plain = {.ndim = -1};
    memcpy(plain.name, a->name, sizeof plain.name);
    PF_TRY(empty_shape(c, &plain, &whole, shape + 1, &nd));
    nd++;
  } else {
    const DLTensor *first = tensor_of(v[0]);
    PF_TRY(pf_check_rank(c, first, "element"));
    for (nd = 0; nd < first->ndim; nd++) shape[nd] = first->shape[nd];
    for (int64_t i = 0; i < n; i++) {
      const DLTensor *t = tensor_of(v[i]);
      if (t->ndim < 1)
        return PF_INVALID(c,
                          "Concat saw a scalar shape at index %" PRId64
                          " but requires at least vectors. "
                          "Did you mean to call pack?",
                          i);
      if (!pf_same_dims(first->shape + 1, nd - 1, t->shape + 1, t->ndim - 1))
        return PF_INVALID(c,
                          "TensorArray %s has inconsistent shapes. Index 0 has (excepting "
                          "dimension 0) shape: %s but "
                          "index %" PRId64 " has (excepting dimension 0) shape: %s",
                          a->name, pf_shape_text(first->shape + 1, nd - 1).s, i,
                          pf_shape_text(t->shape + 1, t->ndim - 1).s);
      if (__builtin_add_overflow(rows, t->shape[0], &rows))
        return PF_INVALID(c, "TensorArray %s is too large", a->name);
    }
  }
  shape[0] = rows;
  DLTensor *out = pf_output_checked(c, 0, shape, nd),
           *lengths = out ? c->host->output(c, 1, &n, 1) : NULL;
  PF_EXHAUSTED(lengths);
  for (int64_t i = 0; i < n; i++) {
    int64_t count = pf_numel(tensor_of(v[i]));
    PF_DATA(int64_t, lengths)[i] = tensor_of(v[i])->shape[0];
    PF_TRY(pf_copy_run(c, out, at, tensor_of(v[i]), 0, count, pf_type_size(a->type)));
    at += count;
  }
  return PF_OK;
}

static pf_status concat(pf_ctx *c, const void *state) {
  const array_state *s = state;
  tensor_array *a;
  PF_TRY(array_open(c, s->T, &a));
  int64_t n = a->joined >= 0 ? PF_MIN(a->joined, a->n) : a->n;
  value **v = c->host->scratch(c, sizeof *v * (size_t)n + 8, 8);
  if (!v) return array_done(a, pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory to concatenate"));
  PF_TRY(array_done(a, take_many(c, a, NULL, n, NULL, v)));
  pf_status r = join(c, a, v, n, &s->element_shape);
  release_all(v, n);
  return r;
}

/* ------------------------------------------------------ scatter and split: pieces of one tensor */
static pf_status write_piece(pf_ctx *c, tensor_array *a, int64_t index, const DLTensor *x,
                             int64_t at, const int64_t *shape, int32_t ndim) {
  DLManagedTensorVersioned *t =
      c->host->tensor_new(c->host, c->dev, PF_MEM_DEVICE, a->type, shape, ndim);
  if (!t)
    return pf_failf(c, PF_RESOURCE_EXHAUSTED, "no memory for an element of TensorArray %s",
                    a->name);
  pf_status r =
      pf_copy_run(c, &t->dl_tensor, 0, x, at, pf_product(shape, 0, ndim), pf_type_size(a->type));
  if (r == PF_OK) return array_write(c, a, index, t);
  t->deleter(t);
  return r;
}

static pf_status scatter_into(pf_ctx *c, tensor_array *a, const DLTensor *idx, const DLTensor *x) {
  int64_t n = idx->shape[0], each = pf_product(x->shape, 1, x->ndim), most = -1;
  for (int64_t i = 0; i < n; i++) most = PF_MAX(most, PF_DATA(const int32_t, idx)[i]);
  if (!a->dynamic && most >= a->n)
    return PF_INVALID(
        c, "TensorArray %s: Max scatter index must be < array size (%" PRId64 " vs. %" PRId64 ")",
        a->name, most, a->n);
  for (int64_t i = 0; i < n; i++)
    PF_TRY(
        write_piece(c, a, PF_DATA(const int32_t, idx)[i], x, i * each, x->shape + 1, x->ndim - 1));
  return PF_OK;
}

static pf_status scatter(pf_ctx *c, const void *state) {
  const array_state *s = state;
  const DLTensor *idx = c->in[1], *x = c->in[2];
  tensor_array *a;
  if (idx->ndim != 1)
    return PF_INVALID(c, "Expected indices to be a vector, but received shape: %s",
                      PF_SHAPE(idx).s);
  if (x->ndim < 1 || x->shape[0] != idx->shape[0])
    return PF_INVALID(c, "Expected len(indices) == values.shape[0], but saw: %" PRId64 " vs. %s",
                      idx->shape[0], PF_SHAPE(x).s);
  PF_TRY(array_open(c, s->T, &a));
  PF_TRY(array_done(a, scatter_into(c, a, idx, x)));
  return c->host->alias(c, 3, 0, c->in[3]->shape, c->in[3]->ndim);
}

static pf_status split_into(pf_ctx *c, tensor_array *a, const DLTensor *x,
                            const DLTensor *lengths) {
  const int64_t *len = PF_DATA(const int64_t, lengths);
  int64_t n = lengths->shape[0], shape[PF_MAX_DIMS], at = 0;
  /* the gradient of a concat that joined fewer slots than the array has (tensor_array.h, 4) */
  const int fits = a->aggregate ? n <= a->n : n == a->n;
  if (!a->dynamic && !fits)
    return PF_INVALID(c,
                      "TensorArray %s: size is not equal to the size of lengths (%" PRId64
                      " vs. %" PRId64
                      "), and the TensorArray is not marked as dynamically resizeable",
                      a->name, a->n, n);
  for (int32_t d = 1; d < x->ndim; d++) shape[d] = x->shape[d];
  int64_t each = pf_product(x->shape, 1, x->ndim);
  for (int64_t i = 0; i < n; i++) {
    shape[0] = len[i];
    PF_TRY(write_piece(c, a, i, x, at, shape, x->ndim));
    at += len[i] * each;
  }
  a->parts = n;
  return PF_OK;
}

static pf_status split(pf_ctx *c, const void *state) {
  const array_state *s = state;
  const DLTensor *x = c->in[1], *lengths = c->in[2];
  tensor_array *a;
  int64_t total = 0;
  if (lengths->ndim != 1)
    return PF_INVALID(c, "Expected lengths to be a vector, received shape: %s",
                      PF_SHAPE(lengths).s);
  if (x->ndim < 1)
    return PF_INVALID(c, "Expected value to be at least a vector, but received shape: %s",
                      PF_SHAPE(x).s);
  PF_TRY(pf_check_rank(c, x, "value"));
  for (int64_t i = 0; i < lengths->shape[0]; i++) {
    int64_t len = PF_DATA(const int64_t, lengths)[i];
    if (len < 0 || __builtin_add_overflow(total, len, &total))
      return PF_INVALID(c, "Expected lengths to be non-negative, got %" PRId64 " at index %" PRId64,
                        len, i);
  }
  if (total != x->shape[0])
    return PF_INVALID(
        c,
        "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is %" PRId64
        " and value's shape is: %s",
        total, PF_SHAPE(x).s);
  PF_TRY(array_open(c, s->T, &a));
  PF_TRY(array_done(a, split_into(c, a, x, lengths)));
  return c->host->alias(c, 3, 0, c->in[3]->shape, c->in[3]->ndim);
}

#define TYPE(name_) PF_REF(pf_attr, name_, PF_ATTR_TYPE, offsetof(array_state, T))
#define SHAPE(name_) PF_REF(pf_attr, name_, PF_ATTR_SHAPE, offsetof(array_state, element_shape))
#define ENTRY(op, fn, ...) PF_CPU(op, NULL, .attrs = PF_ATTRS(__VA_ARGS__), \
  .state_size = sizeof(array_state), .compute = fn)
const pf_kernel *const tensor_array_bulk_kernels[] = {
  ENTRY("TensorArrayGatherV3", gather, TYPE("dtype"), SHAPE("element_shape")),
  ENTRY("TensorArrayScatterV3", scatter, TYPE("T")),
  ENTRY("TensorArrayConcatV3", concat, TYPE("dtype"), SHAPE("element_shape_except0")),
  ENTRY("TensorArraySplitV3", split, TYPE("T")), NULL};
