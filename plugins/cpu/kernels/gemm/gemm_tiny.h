/* gemm_tiny.h - batches of matrices of at most 16 elements each, with AVX-512: a matrix lies in one
 * register (float) or two (double), and permutations lay out, for each step p of the inner
 * dimension, column p of op(a) and row p of op(b) as the lanes of c want them. The patterns hold
 * the strides, so transposed operands cost nothing. 1000 products of 4 x 4 floats: 19 us -> 4 us.
 *
 * Invariant: an element of c is one chain of fused multiply-adds in the order of p (gemm_tile.h).
 * Threads: pure.
 *
 * Fast path: small_4, batch_1000x4 (docs/paths.md).
 */
enum { TINY = 16 };

/* Element of op(a) (a_at) and of op(b) that lane l of c reads at step p. */
typedef struct {
  int a_at[TINY][TINY], b_at[TINY][TINY];
  int a_extent, b_extent; /* elements of a, of b, that lie in memory */
} tiny_plan;

/* False if the product is not a tiny one. */
static int tiny_plan_of(const pf_gemm *g, tiny_plan *plan) {
  const int64_t m = g->m, n = g->n, k = g->k;
  if (m > TINY || n > TINY || k > TINY || m * n > TINY || m * k > TINY || k * n > TINY) return 0;
  const int64_t a = (m - 1) * g->a_row + (k - 1) * g->a_col + 1,
                b = (k - 1) * g->b_row + (n - 1) * g->b_col + 1;
  if (k == 0 || g->add || g->epilogue || g->ldc != n || a > TINY || b > TINY) return 0;
  plan->a_extent = (int)a, plan->b_extent = (int)b;
  for (int64_t p = 0; p < k; p++)
    for (int64_t l = 0; l < TINY; l++) {
      const int64_t i = l < m * n ? l / n : 0, j = l < m * n ? l % n : 0;
      plan->a_at[p][l] = (int)(i * g->a_row + p * g->a_col);
      plan->b_at[p][l] = (int)(p * g->b_row + j * g->b_col);
    }
  return 1;
}

PF_INLINE uint32_t tiny_mask(int64_t n) { return (1u << n) - 1; }

/* batch entries [lo, hi) of pf_gemm_many */
typedef struct {
  const void *a, *b;
  void *c;
  const int64_t *a_at, *b_at;
  int64_t c_step, lo, hi;
} tiny_batch;

/* whole: 4 x 4 x 4 */
PF_INLINE void tiny_body_f32(const tiny_plan *t, const tiny_batch *s, const int whole, int64_t k,
                             int64_t numbers) {
  const __mmask16 ma = (__mmask16)tiny_mask(t->a_extent), mb = (__mmask16)tiny_mask(t->b_extent),
                  mc = (__mmask16)tiny_mask(numbers);
  __m512i xs[4], ys[4];
  if (whole)
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++)
      xs[p] = _mm512_loadu_si512(t->a_at[p]), ys[p] = _mm512_loadu_si512(t->b_at[p]);
  for (int64_t i = s->lo; i < s->hi; i++) {
    const float *a = (const float *)s->a + s->a_at[i], *b = (const float *)s->b + s->b_at[i];
    float *c = (float *)s->c + i * s->c_step;
    const __m512 x = whole ? _mm512_loadu_ps(a) : _mm512_maskz_loadu_ps(ma, a),
                 y = whole ? _mm512_loadu_ps(b) : _mm512_maskz_loadu_ps(mb, b);
    __m512 sum = _mm512_setzero_ps();
    if (whole) {
#pragma GCC unroll 4
      for (int p = 0; p < 4; p++)
        sum =
            _mm512_fmadd_ps(_mm512_permutexvar_ps(xs[p], x), _mm512_permutexvar_ps(ys[p], y), sum);
      _mm512_storeu_ps(c, sum);
      continue;
    }
    for (int64_t p = 0; p < k; p++)
      sum = _mm512_fmadd_ps(_mm512_permutexvar_ps(_mm512_loadu_si512(t->a_at[p]), x),
                            _mm512_permutexvar_ps(_mm512_loadu_si512(t->b_at[p]), y), sum);
    _mm512_mask_storeu_ps(c, mc, sum);
  }
}

/* Lanes 8 h to 8 h + 7 of a pattern. */
PF_INLINE __m512i tiny_half(const int *at, int h) {
  return _mm512_cvtepi32_epi64(_mm256_loadu_si256((const __m256i *)(at + 8 * h)));
}
PF_INLINE __m512d tiny_pick(const __m512d x[2], __m512i at) {
  return _mm512_permutex2var_pd(x[0], at, x[1]);
}

PF_INLINE void tiny_body_f64(const tiny_plan *t, const tiny_batch *s, const int whole, int64_t k,
                             int64_t numbers) {
  const uint32_t ma = tiny_mask(t->a_extent), mb = tiny_mask(t->b_extent), mc = tiny_mask(numbers);
  __m512i xs[4][2], ys[4];
  if (whole)
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
      xs[p][0] = tiny_half(t->a_at[p], 0), xs[p][1] = tiny_half(t->a_at[p], 1);
      ys[p] = tiny_half(t->b_at[p], 0); /* the same for both halves of c */
    }
  for (int64_t i = s->lo; i < s->hi; i++) {
    const double *a = (const double *)s->a + s->a_at[i], *b = (const double *)s->b + s->b_at[i];
    double *c = (double *)s->c + i * s->c_step;
    __m512d sum[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    if (whole) {
      const __m512d x[2] = {_mm512_loadu_pd(a), _mm512_loadu_pd(a + 8)},
                    y[2] = {_mm512_loadu_pd(b), _mm512_loadu_pd(b + 8)};
#pragma GCC unroll 4
      for (int p = 0; p < 4; p++) {
        const __m512d row = tiny_pick(y, ys[p]);
        sum[0] = _mm512_fmadd_pd(tiny_pick(x, xs[p][0]), row, sum[0]);
        sum[1] = _mm512_fmadd_pd(tiny_pick(x, xs[p][1]), row, sum[1]);
      }
      _mm512_storeu_pd(c, sum[0]);
      _mm512_storeu_pd(c + 8, sum[1]);
      continue;
    }
    const __m512d x[2] = {_mm512_maskz_loadu_pd((__mmask8)ma, a),
                          _mm512_maskz_loadu_pd((__mmask8)(ma >> 8), a + 8)},
                  y[2] = {_mm512_maskz_loadu_pd((__mmask8)mb, b),
                          _mm512_maskz_loadu_pd((__mmask8)(mb >> 8), b + 8)};
    for (int64_t p = 0; p < k; p++)
#pragma GCC unroll 2
      for (int h = 0; h < 2; h++)
        sum[h] = _mm512_fmadd_pd(tiny_pick(x, tiny_half(t->a_at[p], h)),
                                 tiny_pick(y, tiny_half(t->b_at[p], h)), sum[h]);
    _mm512_mask_storeu_pd(c, (__mmask8)mc, sum[0]);
    _mm512_mask_storeu_pd(c + 8, (__mmask8)(mc >> 8), sum[1]);
  }
}

#define TINY_RUN(tag) \
  static int tiny_##tag(const pf_gemm *g, const tiny_batch *s) { \
    tiny_plan plan; \
    if (!tiny_plan_of(g, &plan)) return 0; \
    if (g->m == 4 && g->n == 4 && g->k == 4) tiny_body_##tag(&plan, s, 1, 4, TINY); \
    else tiny_body_##tag(&plan, s, 0, g->k, g->m * g->n); \
    return 1; \
  }
TINY_RUN(f32)
TINY_RUN(f64)
#undef TINY_RUN
