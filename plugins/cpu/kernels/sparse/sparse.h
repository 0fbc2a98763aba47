/* sparse.h - a sparse tensor as three inputs: indices [n, rank], values [n], shape [rank].
 *
 * Invariants
 *   1. pf_coo_input checks everything a kernel relies on: ranks, lengths, non-negative sizes,
 *      indices inside the shape.  After it, rows of `at` may be used as addresses (products still
 *      need pf_coo_numel). Ops that only compare and move places take any, -1 too, as TensorFlow's
 *      do: pf_coo_anywhere.
 *   2. Rows compare lexicographically; "in order" means rising so, which is the order TF calls
 *      canonical.
 * Threads: pure functions of their arguments.
 */
#ifndef PF_CPU_SPARSE_H
#define PF_CPU_SPARSE_H
#include "base/common.h"

typedef struct {
  const int64_t *at, *dims; /* n rows of rank numbers; rank sizes */
  const DLTensor *values;
  int64_t n;
  int32_t rank, type;
} coo;

PF_INLINE int pf_row_compare(const int64_t *a, const int64_t *b, int32_t rank) {
  for (int32_t k = 0; k < rank; k++)
    if (a[k] != b[k]) return a[k] < b[k] ? -1 : 1;
  return 0;
}
/* indices and shape of inputs `i` and `d`, which are int64; values of input `v` (-1: none); the
 * last `loose` dimensions' indices may lie outside the shape */
PF_LOCAL pf_status pf_coo_bounded(pf_ctx *c, int32_t i, int32_t v, int32_t d, const char *name,
                                  int32_t loose, coo *s) {
  const DLTensor *at = c->in[i], *dims = c->in[d], *values = v < 0 ? NULL : c->in[v];
  if (at->ndim != 2)
    return PF_INVALID(c, "%s indices must be a matrix [n, rank], got shape %s", name,
                      PF_SHAPE(at).s);
  if (dims->ndim != 1)
    return PF_INVALID(c, "%s shape must be a vector, got shape %s", name, PF_SHAPE(dims).s);
  if (values && (values->ndim != 1 || values->shape[0] != at->shape[0]))
    return PF_INVALID(c, "%s values must be a vector of %" PRId64 " elements, got shape %s", name,
                      at->shape[0], PF_SHAPE(values).s);
  if (dims->shape[0] != at->shape[1])
    return PF_INVALID(c, "%s shape has %" PRId64 " sizes, its indices %" PRId64, name,
                      dims->shape[0], at->shape[1]);
  if (dims->shape[0] > PF_MAX_DIMS)
    return PF_INVALID(c, "%s has rank %" PRId64 ", at most %d is supported", name, dims->shape[0],
                      PF_MAX_DIMS);
  *s = (coo){PF_DATA(const int64_t, at), PF_DATA(const int64_t, dims), values, at->shape[0],
             (int32_t)at->shape[1],      v < 0 ? 0 : c->in_type[v]};
  for (int32_t k = 0; k < s->rank; k++)
    if (s->dims[k] < 0)
      return PF_INVALID(c, "%s shape has a negative size: dimension %d is %" PRId64, name, k,
                        s->dims[k]);
  for (int64_t r = 0; r < s->n; r++)
    for (int32_t k = 0; k < s->rank - loose; k++) {
      int64_t x = s->at[r * s->rank + k];
      if (x < 0 || x >= s->dims[k])
        return PF_INVALID(c,
                          "%s indices[%" PRId64 ", %d] = %" PRId64
                          " is out of bounds: need 0 <= index < %" PRId64,
                          name, r, k, x, s->dims[k]);
    }
  return PF_OK;
}
PF_LOCAL pf_status pf_coo_input(pf_ctx *c, int32_t i, int32_t v, int32_t d, const char *name,
                                coo *s) {
  return pf_coo_bounded(c, i, v, d, name, 0, s);
}
/* Its places may be anywhere: they are no addresses. */
PF_LOCAL pf_status pf_coo_anywhere(pf_ctx *c, int32_t i, int32_t v, int32_t d, const char *name,
                                   coo *s) {
  return pf_coo_bounded(c, i, v, d, name, PF_MAX_DIMS, s);
}
/* 1: places rise, none twice */
PF_LOCAL int pf_coo_rises(const coo *s, int64_t *wrong) {
  for (int64_t r = 1; r < s->n; r++)
    if (pf_row_compare(s->at + (r - 1) * s->rank, s->at + r * s->rank, s->rank) >= 0) {
      *wrong = r;
      return 0;
    }
  return 1;
}
/* the number of elements of the dense tensor; an error when it overflows */
PF_LOCAL pf_status pf_coo_numel(pf_ctx *c, const int64_t *dims, int32_t rank, int64_t *n) {
  if (pf_shape_numel(dims, rank, n)) return PF_OK;
  return PF_INVALID(c, "a dense shape of %s has too many elements", pf_shape_text(dims, rank).s);
}
/* The same by digits of `key << low | row`, lowest digit of the key first, for many rows whose
 * numbers all fit in one word.  0: they do not, nothing is done. */
PF_LOCAL int pf_row_digits(const int64_t *at, int64_t n, int32_t rank, int32_t keys, int64_t *order,
                           int64_t *spare) {
  enum { MANY = 256, DIGIT = 11 };
  int bits[PF_MAX_DIMS], low = 64 - __builtin_clzll((uint64_t)n | 1), all = low;
  uint32_t count[1 << DIGIT];
  if (n < MANY || n > UINT32_MAX || keys < 1 || keys > PF_MAX_DIMS) return 0;
  for (int32_t k = 0; k < keys; k++) {
    uint64_t any = 1;
    for (int64_t i = 0; i < n; i++) any |= (uint64_t)at[i * rank + k];
    bits[k] = 64 - __builtin_clzll(any), all += bits[k];
  }
  if (all > 64) return 0;
  uint64_t *a = (uint64_t *)order, *b = (uint64_t *)spare;
  for (int64_t i = 0; i < n; i++) {
    uint64_t key = 0;
    for (int32_t k = 0; k < keys; k++) key = key << bits[k] | (uint64_t)at[i * rank + k];
    a[i] = key << low | (uint64_t)i;
  }
  for (int shift = low; shift < all; shift += DIGIT) {
    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < n; i++) count[a[i] >> shift & ((1 << DIGIT) - 1)]++;
    for (uint32_t d = 0, sum = 0, c; d < 1 << DIGIT; d++, sum += c) c = count[d], count[d] = sum;
    for (int64_t i = 0; i < n; i++) b[count[a[i] >> shift & ((1 << DIGIT) - 1)]++] = a[i];
    uint64_t *other = a;
    a = b, b = other;
  }
  for (int64_t i = 0; i < n; i++) order[i] = (int64_t)(a[i] & (((uint64_t)1 << low) - 1));
  return 1;
}
/* order[i]: the row that comes i-th when the first `keys` columns rise; equal rows keep their
 * order. `spare` is as long as order. */
PF_LOCAL void pf_row_order(const int64_t *at, int64_t n, int32_t rank, int32_t keys, int64_t *order,
                           int64_t *spare) {
  for (int64_t i = 0; i < n; i++) order[i] = i;
  int sorted = 1;
  for (int64_t i = 1; sorted && i < n; i++)
    sorted = pf_row_compare(at + (i - 1) * rank, at + i * rank, keys) <= 0;
  if (sorted || pf_row_digits(at, n, rank, keys, order, spare)) return;
  for (int64_t width = 1; width < n; width *= 2) { /* merges runs of `width` */
    for (int64_t lo = 0; lo < n; lo += 2 * width) {
      int64_t mid = PF_MIN(lo + width, n), hi = PF_MIN(lo + 2 * width, n), i = lo, j = mid;
      for (int64_t k = lo; k < hi; k++) {
        int left = i < mid && (j >= hi || pf_row_compare(at + order[i] * rank, at + order[j] * rank,
                                                         keys) <= 0);
        spare[k] = order[left ? i++ : j++];
      }
    }
    memcpy(order, spare, sizeof(int64_t) * (size_t)n);
  }
}
PF_LOCAL pf_status pf_coo_order(pf_ctx *c, const coo *s, int64_t **order) {
  *order = c->host->scratch(c, (uint64_t)s->n * 16 + 16, 64);
  PF_EXHAUSTED(*order);
  pf_row_order(s->at, s->n, s->rank, s->rank, *order, *order + s->n);
  return PF_OK;
}
/* the three outputs of a sparse result from output `o` on; only the shape is written */
typedef struct {
  DLTensor *indices, *values, *shape;
  int64_t *at;
} coo_out;
PF_LOCAL pf_status pf_coo_output(pf_ctx *c, int32_t oi, int32_t ov, int32_t os, int64_t n,
                                 const int64_t *dims, int32_t rank, coo_out *y) {
  int64_t matrix[2] = {n, rank}, r = rank;
  y->indices = pf_output_checked(c, oi, matrix, 2);
  PF_EXHAUSTED(y->indices);
  y->values = c->host->output(c, ov, &n, 1);
  PF_EXHAUSTED(y->values);
  y->at = PF_DATA(int64_t, y->indices);
  if (os < 0) return PF_OK;
  y->shape = c->host->output(c, os, &r, 1);
  PF_EXHAUSTED(y->shape);
  if (rank) memcpy(PF_DATA(int64_t, y->shape), dims, sizeof(int64_t) * (size_t)rank);
  return PF_OK;
}

/* ------------------------------------------------------- arithmetic on single elements, by type */
#define PF_SPARSE_EACH(X) \
  PF_EACH_REAL(X) X(PF_COMPLEX64, float _Complex, c64) X(PF_COMPLEX128, double _Complex, c128)
/* y[i] += x[j] */
#define PF_ADD_CASE(TYPE, T, TAG) case TYPE: \
    ((T *)y)[i] = (T)(((T *)y)[i] + ((const T *)x)[j]); break;
PF_LOCAL void pf_add_element(int32_t type, void *y, int64_t i, const void *x, int64_t j) {
  switch (type) {
    PF_EACH_FLOAT(PF_ADD_CASE)
    PF_ADD_CASE(PF_INT8, uint8_t, )
    PF_ADD_CASE(PF_UINT8, uint8_t, )
    PF_ADD_CASE(PF_INT16, uint16_t, )
    PF_ADD_CASE(PF_UINT16, uint16_t, )
    PF_ADD_CASE(PF_INT32, uint32_t, )
    PF_ADD_CASE(PF_UINT32, uint32_t, )
    PF_ADD_CASE(PF_INT64, uint64_t, )
    PF_ADD_CASE(PF_UINT64, uint64_t, )
    PF_ADD_CASE(PF_COMPLEX64, float _Complex, )
    PF_ADD_CASE(PF_COMPLEX128, double _Complex, )
    case PF_FLOAT16:
      ((uint16_t *)y)[i] =
          pf_to_half(pf_from_half(((uint16_t *)y)[i]) + pf_from_half(((const uint16_t *)x)[j]));
      break;
    case PF_BFLOAT16:
      ((uint16_t *)y)[i] =
          pf_to_bf16(pf_from_bf16(((uint16_t *)y)[i]) + pf_from_bf16(((const uint16_t *)x)[j]));
      break;
  }
}
/* x[i] as a double: enough to compare all but 64-bit integers, which compare by themselves */
#define PF_LESS_CASE(TYPE, T, TAG) case TYPE: return ((const T *)x)[i] < ((const T *)y)[j];
PF_LOCAL int pf_less_element(int32_t type, const void *x, int64_t i, const void *y, int64_t j) {
  switch (type) {
    PF_EACH_REAL(PF_LESS_CASE)
    case PF_FLOAT16:
      return pf_from_half(((const uint16_t *)x)[i]) < pf_from_half(((const uint16_t *)y)[j]);
    default: return pf_from_bf16(((const uint16_t *)x)[i]) < pf_from_bf16(((const uint16_t *)y)[j]);
  }
}
#endif
