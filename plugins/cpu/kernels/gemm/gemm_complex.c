/* gemm_complex.c - products of complex matrices as products of real ones.
 *
 * A row of complex numbers is a row of twice as many real ones.  With each number x + iy of b as
 * the block  x y  a [m, k] times b [k, n] is the real product [m, 2k] times [2k, 2n], and its
 *           -y x  result lies as the complex one does.
 *
 * Invariant: the way depends on sizes only.  Threads: inside products.
 */
#include "gemm/gemm_product.h"

enum { LEAST_PRODUCTS = 512 }; /* from here the copy of b is worth it */

#define SPREAD(tag, T) \
  static void spread_##tag(const pf_gemm *g, const T *b, int conj, T *to) { \
    const T sign = (T)(conj ? -1 : 1); \
    for (int64_t p = 0; p < g->k; p++, to += 4 * g->n) \
      for (int64_t j = 0; j < g->n; j++) { \
        const T *v = b + 2 * (p * g->b_row + j * g->b_col), re = v[0], im = sign * v[1]; \
        to[2 * j] = re, to[2 * j + 1] = im; \
        to[2 * (g->n + j)] = -im, to[2 * (g->n + j) + 1] = re; \
      } \
  } \
  static void in_rows_##tag(const pf_gemm *g, const T *a, int conj, T *to) { \
    const T sign = (T)(conj ? -1 : 1); \
    for (int64_t i = 0; i < g->m; i++) \
      for (int64_t p = 0; p < g->k; p++, to += 2) { \
        const T *v = a + 2 * (i * g->a_row + p * g->a_col); \
        to[0] = v[0], to[1] = sign * v[1]; \
      } \
  }
SPREAD(f32, float)
SPREAD(f64, double)
#undef SPREAD

int PF_ISA_NAME(pf_gemm_is_complex)(const pf_gemm_call *p) {
  const double products = (double)p->g.m * (double)p->g.n * (double)p->g.k;
  return (p->type == PF_COMPLEX64 || p->type == PF_COMPLEX128) && products >= LEAST_PRODUCTS;
}

pf_status PF_ISA_NAME(pf_gemm_run_complex)(pf_ctx *c, const pf_gemm_call *p) {
  const pf_gemm *g = &p->g;
  const int wide = p->type == PF_COMPLEX128, copied = g->a_col != 1 || p->conj_a;
  const int64_t size = wide ? 16 : 8, n = PF_MAX(p->batches, 1);
  int64_t b_bytes, a_bytes;
  if (!pf_mul(g->k, g->n, &b_bytes) || !pf_mul(b_bytes, 2 * size, &b_bytes) ||
      !pf_mul(g->m, g->k * size, &a_bytes))
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "a complex product is too large");
  char *room = c->host->scratch(c, (uint64_t)b_bytes + (uint64_t)(copied ? a_bytes : 0) + 64, 64);
  if (!room) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a complex product");
  char *rows = room + (b_bytes + 63) / 64 * 64;
  pf_gemm_room shared = {0};
  for (int64_t i = 0; i < n; i++) {
    const char *a = (const char *)g->a + (p->batches > 1 ? p->a_at[i] : 0) * size;
    const char *b = (const char *)g->b + (p->batches > 1 ? p->b_at[i] : 0) * size;
    if (wide) spread_f64(g, (const double *)(const void *)b, p->conj_b, (double *)(void *)room);
    else spread_f32(g, (const float *)(const void *)b, p->conj_b, (float *)(void *)room);
    if (copied && wide)
      in_rows_f64(g, (const double *)(const void *)a, p->conj_a, (double *)(void *)rows);
    else if (copied)
      in_rows_f32(g, (const float *)(const void *)a, p->conj_a, (float *)(void *)rows);
    pf_gemm_call real = {.type = wide ? PF_FLOAT64 : PF_FLOAT32, .batches = 1, .room = &shared};
    shared.next = 0;
    real.g = (pf_gemm){.m = g->m,
                       .n = 2 * g->n,
                       .k = 2 * g->k,
                       .a = copied ? rows : a,
                       .b = room,
                       .c = (char *)g->c + i * g->m * g->n * size,
                       .add = g->add};
    pf_gemm_layout(&real.g, 0, 0, 2 * (copied ? g->k : g->a_row), 2 * g->n);
    PF_TRY(PF_ISA_NAME(pf_gemm_run_numbers)(c, &real));
  }
  return PF_OK;
}
