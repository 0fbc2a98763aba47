/* gemm.c - blocked matrix products in plain C, one copy per instruction set.
 *
 * Invariants
 *   1. The order in which an element of c is summed depends on m, n, k and the layout only.
 *   2. Nothing is allocated: the caller gives pf_gemm_work bytes.
 * Threads: pure; callers cut c into blocks and give each thread its own `work`.
 */
#include "gemm.h"
#include "tile_types.h"

enum { BLOCK_K = 512, BLOCK_N = 1024, BLOCK_M = 192, THIN_ROWS = 2, PACK_ROWS = 8 };
/* bytes: rows this far apart share cache sets, so a block of them is copied */
enum { FAR_ROWS = 2048 };

static int swap_sides(const pf_gemm *g) { return g->n > g->m; }

uint64_t PF_ISA_NAME(pf_gemm_work)(const pf_gemm *g, int64_t element_size) {
  int64_t n = PF_MAX(g->n, 1), w = TILE_NV * PF_VF;
  if (g->b_col != 1 && swap_sides(g)) n = PF_MAX(g->m, 1);
  /* a transposed a, or one with far rows */
  int64_t a_pack = PF_MIN(g->k, BLOCK_K) * PF_MIN(PF_MAX(g->m, g->n), BLOCK_M);
  n = PF_MIN((n + w - 1) / w * w, BLOCK_N + w);
  return (uint64_t)((n * PF_MIN(g->k, BLOCK_K) + a_pack) * element_size + 64);
}

#define TILE_F32
#include "tile_begin.h"
#include "gemm_body.h"
#include "tile_end.h"
#define TILE_F64
#include "tile_begin.h"
#include "gemm_body.h"
#include "tile_end.h"

/* ---------------------------------------------------------------- types without a vector kernel */
#define PLAIN(tag, T, A, B) \
  static void plain_##tag(const pf_gemm *g) { \
    const T *a = g->a, *b = g->b; \
    for (int64_t i = 0; i < g->m; i++) { \
      T *c = (T *)g->c + i * g->ldc; \
      if (!g->add) memset(c, 0, sizeof(T) * (size_t)g->n); \
      for (int64_t p = 0; p < g->k; p++) { \
        T x = a[i * g->a_row + p * g->a_col]; \
        const T *row = b + p * g->b_row; \
        x = A(x); \
        for (int64_t j = 0; j < g->n; j++) c[j] += x * B(row[j * g->b_col]); \
      } \
    } \
  }
#define SAME(x) (x)
#define CONJ_F(x) __builtin_conjf(x)
#define CONJ_D(x) __builtin_conj(x)
PLAIN(i32, uint32_t, SAME, SAME)
PLAIN(i64, uint64_t, SAME, SAME)
PLAIN(c64, float _Complex, SAME, SAME)
PLAIN(c64_a, float _Complex, CONJ_F, SAME)
PLAIN(c64_b, float _Complex, SAME, CONJ_F)
PLAIN(c64_ab, float _Complex, CONJ_F, CONJ_F)
PLAIN(c128, double _Complex, SAME, SAME)
PLAIN(c128_a, double _Complex, CONJ_D, SAME)
PLAIN(c128_b, double _Complex, SAME, CONJ_D)
PLAIN(c128_ab, double _Complex, CONJ_D, CONJ_D)

void PF_ISA_NAME(pf_gemm_plain)(const pf_gemm *g, int32_t type, int conj_a, int conj_b) {
  static void (*const c64[])(const pf_gemm *) = {plain_c64, plain_c64_a, plain_c64_b, plain_c64_ab};
  static void (*const c128[])(const pf_gemm *) = {plain_c128, plain_c128_a, plain_c128_b,
                                                  plain_c128_ab};
  int form = (conj_a ? 1 : 0) + (conj_b ? 2 : 0);
  switch (type) {
    case PF_INT32: case PF_UINT32: plain_i32(g); break;
    case PF_INT64: case PF_UINT64: plain_i64(g); break;
    case PF_COMPLEX64: c64[form](g); break;
    case PF_COMPLEX128: c128[form](g); break;
    default: break;
  }
}
