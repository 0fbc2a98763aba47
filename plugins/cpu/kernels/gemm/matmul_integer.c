/* matmul_integer.c - _MatMulInteger: products of 8-bit whole numbers with packed weights (bytes.h).
 *
 * Threads: those of bytes.c; a's rows are copied on the caller's.
 */
#include "gemm/bytes.h"

typedef struct { int32_t T; } integer_state;

/* a's rows as uint8, each padded to the next 4, and their sums; int8 is shifted by 128. */
static void copy_rows(const uint8_t *a, int64_t m, int64_t k, int64_t lda, uint8_t flip,
                      uint8_t *to, int32_t *sums) {
  for (int64_t i = 0; i < m; i++, a += k, to += lda) {
    int32_t sum = 0;
    for (int64_t p = 0; p < k; p++) to[p] = a[p] ^ flip;
    for (int64_t p = 0; p < k; p++) sum += to[p];
    memset(to + k, 0, (size_t)(lda - k));
    sums[i] = sum;
  }
}

static pf_status matmul_integer(pf_ctx *c, const void *state) {
  const integer_state *s = state;
  const DLTensor *a = c->in[0];
  PF_TRY(pf_check_rank(c, a, "a"));
  if (a->ndim < 1) return PF_INVALID(c, "a must have at least one axis, got a scalar");
  if (pf_numel(c->in[1]) != 1)
    return PF_INVALID(c, "a's zero point must be one number, got shape %s", PF_SHAPE(c->in[1]).s);
  int64_t shape[PF_MAX_DIMS], bytes;
  const int64_t k = a->shape[a->ndim - 1], n = pf_numel(c->in[3]),
                m = pf_product(a->shape, 0, a->ndim - 1), lda = 4 * pf_byte_groups(k);
  PF_TRY(pf_want_bytes(c, 2, n, k));
  memcpy(shape, a->shape, sizeof(int64_t) * (size_t)a->ndim);
  shape[a->ndim - 1] = n;
  DLTensor *out = pf_output_checked(c, 0, shape, a->ndim);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  if (!pf_mul(m, lda + 4, &bytes)) return PF_INVALID(c, "a is too large");
  int32_t *sums = c->host->scratch(c, (uint64_t)bytes + 64, 64);
  if (!sums) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the rows of a product");
  uint8_t *rows = (uint8_t *)(sums + m);
  const uint8_t flip = s->T == PF_INT8 ? 128 : 0;
  copy_rows(PF_DATA(const uint8_t, a), m, k, lda, flip, rows, sums);
  const pf_byte_product p = {.m = m,
                             .n = n,
                             .k = k,
                             .lda = lda,
                             .a = rows,
                             .b = PF_DATA(const int8_t, c->in[2]),
                             .sums = PF_DATA(const int32_t, c->in[3]),
                             .zeros = PF_DATA(const int32_t, c->in[4]),
                             .row_sums = sums,
                             .a_zero = *PF_DATA(const uint8_t, c->in[1]) ^ flip,
                             .c = PF_DATA(int32_t, out)};
  return PF_ISA_NAME(pf_multiply_bytes)(c, &p);
}

const pf_kernel *const PF_ISA_NAME(matmul_integer_kernels)[] = {
  PF_CPU_FLAGS("_MatMulInteger", "T=uint8|int8", PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE,
               .attrs = PF_ATTRS(PF_ATTR(integer_state, PF_ATTR_TYPE, T)),
               .state_size = sizeof(integer_state), .compute = matmul_integer),
  NULL};
