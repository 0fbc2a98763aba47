/* bytes.h - products of 8-bit whole numbers: c [m, n] = (a - a_zero) (b - b_zero), in int32.
 *
 * a is uint8, a row every lda bytes, with zeros behind its k up to a multiple of 4.  b is int8 and
 * packed: panels of 64 columns, in them groups of 4 rows, a column's 4 neighbours side by side:
 * [n / 64][k / 4][64][4], zeros where there is nothing.
 *
 * Invariant: sums wrap as int32 does; they are the same whatever way they are formed, and however c
 * is cut.
 */
#ifndef PF_CPU_GEMM_BYTES_H
#define PF_CPU_GEMM_BYTES_H
#include "base/common.h"
#include "base/isa.h"

enum { PF_BYTE_COLUMNS = 64, PF_BYTE_DEPTH = 4 };

typedef struct {
  int64_t m, n, k, lda;
  const uint8_t *a;
  const int8_t *b;
  const int32_t *sums;     /* [n]: of b's columns */
  const int32_t *zeros;    /* [n]: b's zero points */
  const int32_t *row_sums; /* [m]: of a's rows */
  int32_t a_zero;
  int32_t *c; /* [m, n] */
} pf_byte_product;

PF_INLINE int64_t pf_byte_panels(int64_t n) { return (n + PF_BYTE_COLUMNS - 1) / PF_BYTE_COLUMNS; }
PF_INLINE int64_t pf_byte_groups(int64_t k) { return (k + PF_BYTE_DEPTH - 1) / PF_BYTE_DEPTH; }

/* Computes c on the pool's threads. */
pf_status PF_ISA_NAME(pf_multiply_bytes)(pf_ctx *c, const pf_byte_product *p);

/* PF_INVALID_ARGUMENT unless input `in` is [n / 64][k / 4][64][4] and the next two are [n]. */
PF_LOCAL pf_status pf_want_bytes(pf_ctx *c, int32_t in, int64_t n, int64_t k) {
  const int64_t shape[4] = {pf_byte_panels(n), pf_byte_groups(k), PF_BYTE_COLUMNS, PF_BYTE_DEPTH};
  if (!pf_same_dims(c->in[in]->shape, c->in[in]->ndim, shape, 4))
    return PF_INVALID(c, "input %d must be packed weights of shape %s, got %s", in,
                      pf_shape_text(shape, 4).s, PF_SHAPE(c->in[in]).s);
  for (int32_t i = in + 1; i < in + 3; i++)
    if (!pf_same_dims(c->in[i]->shape, c->in[i]->ndim, &n, 1))
      return PF_INVALID(c, "input %d must have shape [%" PRId64 "], got %s", i, n,
                        PF_SHAPE(c->in[i]).s);
  return PF_OK;
}
#endif
