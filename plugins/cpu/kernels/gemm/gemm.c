/* gemm.c - matrix products in plain C, one copy per instruction set; and the choice between ways
 * to compute one.
 *
 * Invariants
 *   1. The order in which an element of c is summed depends on `how` and k only.
 *   2. Nothing is allocated: the caller gives pf_gemm_work bytes.
 * Threads: pure; callers cut c into blocks and give each thread its own `work`.
 */
#define PF_ALL_INTRINSICS /* avx512bf16 */
#include "base/machine.h"
#include "gemm/gemm.h"
#include "gemm/tile_types.h"

enum { BLOCK_K = 512, BLOCK_N = 1024, BLOCK_M = 192, ROWS_UNIT = 24, PACK_ROWS = 8 };
enum { ROW_STEP = 4, ROW_LONG = 8, ROW_BLOCK = 4096, ROW_MOST = 3 };
enum { DOTS = 4, DOTS_MOST = 5, DOTS_LONG = 8 };
enum { SWAP_ROWS = 24, OUTER = 2, REST_K = 16 };
/* bytes: rows this far apart share cache sets, so a block of them is copied; a matrix up to the
 * first size lies in L2, from the second on L1's sets matter no more to sums of rows, from the
 * third on it lies in memory */
enum {
  FAR_ROWS = 2048,
  IN_L2 = PF_L2_BYTES * 5 / 4,
  SETS_BYTES = PF_L3_BYTES,
  MEMORY_BYTES = PF_L3_BYTES * 3 / 2
};
enum { BEYOND_L1 = 2 * PF_L1_BYTES, FETCH_ROWS = 8, MANY_PANELS = 8 };
enum { FETCH_TURNED = 16 };

/* A matrix that a vector is multiplied with, read once: eight rows at a time, or four where they
 * share L1's sets and it is of less than `sets` bytes and comes from L3. */
PF_INLINE int many_rows(int64_t bytes, int64_t row_bytes, int64_t sets) {
  return bytes <= IN_L2 || bytes >= sets || row_bytes % PF_PAGE != 0;
}

/* Micro-kernels: vectors, most rows, and whether there are masks for the last vector (without them
 * b must be padded). */
#if defined(__AVX512F__)
#define GEMM_HALVES 1
enum { GEMM_NV = 4, GEMM_ROWS = 8, GEMM_MASKS = 1, DOTS_ROWS = 4 };
PF_INLINE int gemm_rows(int nv) { return nv > 4 ? 3 : nv == 4 ? 6 : 8; }
enum { GEMM_ALL_HALVES = 2 }; /* vectors of a tile that is of half vectors only */
#define GEMM_EACH_MICRO(X) \
  GEMM_UP_TO_8(X, 1) GEMM_UP_TO_8(X, 2) GEMM_UP_TO_8(X, 3) GEMM_UP_TO_6(X, 4)
enum { GEMM_WIDE = 8, GEMM_WIDE_MOST = 3 }; /* vectors and rows of a wide tile */
#define GEMM_TINY 1                    /* batches of matrices that fit a register */
#define GEMM_TURNED 8                  /* rows of a tile of c^T that is turned in registers */
#define GEMM_WIDE_ROWS(X, nv) X(nv, 1) X(nv, 2) X(nv, 3)
#define GEMM_EACH_WIDE(X) \
  GEMM_WIDE_ROWS(X, 5) GEMM_WIDE_ROWS(X, 6) GEMM_WIDE_ROWS(X, 7) GEMM_WIDE_ROWS(X, 8)
#elif defined(__aarch64__)
enum { GEMM_NV = 4, GEMM_ROWS = 8, GEMM_MASKS = 0, DOTS_ROWS = 4 };
PF_INLINE int gemm_rows(int nv) { return nv == 4 ? 6 : 8; }
#define GEMM_EACH_MICRO(X) \
  GEMM_UP_TO_8(X, 1) GEMM_UP_TO_8(X, 2) GEMM_UP_TO_8(X, 3) GEMM_UP_TO_6(X, 4)
#elif defined(__AVX2__)
enum { GEMM_NV = 2, GEMM_ROWS = 8, GEMM_MASKS = 1, DOTS_ROWS = 2 };
PF_INLINE int gemm_rows(int nv) { return nv == 2 ? 6 : 8; }
#define GEMM_EACH_MICRO(X) GEMM_UP_TO_8(X, 1) GEMM_UP_TO_6(X, 2)
#else
enum { GEMM_NV = 2, GEMM_ROWS = 8, GEMM_MASKS = 0, DOTS_ROWS = 2 };
PF_INLINE int gemm_rows(int nv) { return nv == 2 ? 4 : 8; }
#define GEMM_EACH_MICRO(X) GEMM_UP_TO_8(X, 1) GEMM_UP_TO_4(X, 2)
#endif
#if defined(__GNUC__)
#define GEMM_FETCH(p, write, near) __builtin_prefetch(p, write, near)
#else
#define GEMM_FETCH(p, write, near) (void)(p)
#endif
enum { GEMM_FAR_NV = 3 }; /* tiles of so many vectors fetch what is far */
/* registers for some rows times eight */
#if defined(__AVX512F__) || defined(__aarch64__)
#define GEMM_MANY 1
#define GEMM_FIVE 1                    /* dot products of five rows and five columns at once */
#else
#define GEMM_MANY 0
#define GEMM_FIVE 0
#endif
#define GEMM_UP_TO_4(X, nv) X(nv, 1) X(nv, 2) X(nv, 3) X(nv, 4)
#define GEMM_UP_TO_6(X, nv) GEMM_UP_TO_4(X, nv) X(nv, 5) X(nv, 6)
#define GEMM_UP_TO_8(X, nv) GEMM_UP_TO_6(X, nv) X(nv, 7) X(nv, 8)

#ifndef GEMM_HALVES
#define GEMM_HALVES 0
#define GEMM_TURNED 0
#define GEMM_TINY 0
enum { GEMM_WIDE = GEMM_NV, GEMM_WIDE_MOST = 1 };
#define GEMM_EACH_WIDE(X)
#endif
/* What the compiler should not see through: an address (GEMM_HIDE); a vector that is to be loaded
 * once, not by each multiplication that reads it (GEMM_HOLD). */
#if defined(__GNUC__)
#define GEMM_HIDE(x) __asm__("" : "+r"(x))
#else
#define GEMM_HIDE(x) (void)0
#endif
#if defined(__GNUC__) && defined(__SSE2__)
#define GEMM_HOLD(x) __asm__("" : "+v"(x))
#else
#define GEMM_HOLD(x) (void)0
#endif

/* Where a tile's rows of a are: row r at third[r / 3] + r % 3 rows, in bytes. An address each and
 * its step would take more of the time of the two multipliers' ports than the loads do. */
typedef struct {
  const char *third[3];
  int64_t row, row_2, step;
} a_rows;

PF_INLINE a_rows a_rows_of(const void *a, int64_t row, int64_t step) {
  const char *at = a;
  a_rows rows = {
    .third = {at, at + 3 * row, at + 6 * row}, .row = row, .row_2 = 2 * row, .step = step};
  GEMM_HIDE(rows.third[1]); /* or they are counted from `at` */
  GEMM_HIDE(rows.third[2]);
  GEMM_HIDE(rows.row);
  GEMM_HIDE(rows.row_2);
  return rows;
}
PF_INLINE void a_rows_step(a_rows *a, const int mr) {
  a->third[0] += a->step;
  if (mr > 3) a->third[1] += a->step;
  if (mr > 6) a->third[2] += a->step;
}

/* ---------------------------------------------------------------- which way */
enum { DIRECT_ROWS = 32, FEW_ROWS = 16, DOTS_COLUMNS = 16 };
/* bytes of b (or of a transposed a) that stay in the caches while they are read where they are */
#if defined(__AVX512F__)
enum { DIRECT_BYTES = PF_L2_BYTES, DIRECT_BYTES_APART = PF_L2_BYTES * 5 / 2 };
#else
enum { DIRECT_BYTES = PF_L2_BYTES / 4, DIRECT_BYTES_APART = PF_L2_BYTES / 4 };
#endif

/* One row times b. */
static int how_row(int64_t n, int b_rows_contiguous, int64_t vl) {
  if (!b_rows_contiguous) return PF_GEMM_DOTS;
  return GEMM_MASKS && n <= GEMM_WIDE * vl ? PF_GEMM_DIRECT : PF_GEMM_ROW;
}

/* b's rows are contiguous, b_row apart: packed or not?  Rows whole pages apart share cache sets. */
static int how_packed(int64_t m, int64_t n, int64_t k, int64_t b_row, int a_rows, int64_t size) {
  const int apart = b_row * size % PF_PAGE != 0;
  if (!GEMM_MASKS) return PF_GEMM_BLOCKED;
  if (!a_rows && m * k * size >= DIRECT_BYTES) return PF_GEMM_BLOCKED;
  const int64_t bytes = n * k * size;
  if (bytes <= (apart || m <= DIRECT_ROWS ? DIRECT_BYTES_APART : DIRECT_BYTES))
    return PF_GEMM_DIRECT;
  return bytes < MEMORY_BYTES && m <= (apart ? DIRECT_ROWS : FEW_ROWS) ? PF_GEMM_DIRECT
                                                                       : PF_GEMM_BLOCKED;
}

/* What a way takes, in cycles of one multiplication of vectors each. Packing, storing through the
 * transpose and summing across a vector cost per element; the figures are fits to measurements. */
typedef struct { double vl, pack, sum, turn, turn_far; } how_costs;
enum { NEAR_BYTES = PF_L1_BYTES, BLOCKED_CALL = 100 };

static how_costs costs_of(int64_t size) {
  return size == 4 ? (how_costs){PF_VF, 0.45, 1.25, 0.3, 0.4}
                   : (how_costs){PF_VD, 0.75, 2, 0.45, 0.6};
}

/* Half vectors' time that n columns take where tiles gather tails (gemm_tile.h), or 0. */
static double tail_halves(double m, int64_t n, int64_t unit) {
  const int64_t full = n / unit, tail = n % unit;
  if (m < GEMM_ROWS || full < 1 || full > 2) return 0;
  if (tail == 0 || tail > unit / 2 || (tail & (tail - 1))) return 0;
  return full == 1 ? 1.55 : 2.75;
}

/* Rows of a times rows of b: columns fill whole or, where they take half the time, half vectors. */
static double tile_cost(double m, int64_t n, double k, int halves, const how_costs *h) {
  const int64_t unit = (int64_t)h->vl / (1 + halves);
  const double tails = halves ? tail_halves(m, n, unit) : 0;
  if (tails > 0) return m * k * tails * (double)unit / h->vl;
  return m * k * PF_MAX((double)((n + unit - 1) / unit * unit) / h->vl, 1);
}

/* Dot products in squares of five, and four where five is too much. */
PF_INLINE int by_five(int64_t m, int64_t n, int64_t k, int64_t vl) {
  return GEMM_FIVE && n % DOTS && m >= 12 && k >= 16 * vl;
}

static double dots_cost(double m, int64_t n, int64_t k, double sum, const how_costs *h) {
  const int64_t vl = (int64_t)h->vl, sums = (n + DOTS - 1) / DOTS * DOTS;
  const double step = by_five((int64_t)m, n, k, vl) ? 1.02 : 1.08;
  return m * ((double)n * step * (double)((k + vl - 1) / vl) + sum * (double)sums);
}

static double turn_cost(const pf_gemm *g, int64_t size, const how_costs *h) {
  const double elements = (double)g->m * (double)g->n;
  return elements * (elements * (double)size <= NEAR_BYTES ? h->turn : h->turn_far);
}

/* Few rows times b, which is read as it lies in memory, whole lines at a time: pays where they are
 * alike in all rows, and where stripes of b would come from memory; wide ones of a b that lies in
 * L2 are faster (2 x 512 by 512 x 512 9.8 us, 10.9 row by row). */
static int reads_rows(int64_t m, int64_t n, int64_t k, int64_t b_row, int64_t size) {
  if (n * k * size >= MEMORY_BYTES) return m <= FEW_ROWS;
  if (m <= GEMM_WIDE_MOST && n * k * size <= IN_L2) return 0;
  return m <= ROW_MOST && (!GEMM_MASKS || b_row * size % PF_LINE == 0) &&
         n * size >= 8 * m * PF_LINE;
}

/* a is transposed: is c^T faster?  Of two products in panels the one is that turns less of the
 * operands: lines of memory are turned at a tenth of the speed at which they are copied. Where
 * a half vector takes a whole one's time turning takes half as much again, near or far. */
static int swaps_rows(const pf_gemm *g, int64_t size, const how_costs *h) {
  const int64_t m = g->m, n = g->n, k = g->k;
  const int wholes = GEMM_HALVES && pf_has_whole_vectors_only(), halves = GEMM_HALVES && !wholes;
  const double plain = tile_cost((double)m, n, (double)k, halves, h);
  const double swap = tile_cost((double)n, m, (double)k, halves, h);
  const double turn = wholes ? 1.5 * h->turn * (double)(m * n) : turn_cost(g, size, h);
  if (swap + turn < (wholes ? 0.88 : 0.95) * plain) return 1;
  if (g->b_row == 1 || how_packed(m, n, k, g->b_row, 0, size) != PF_GEMM_BLOCKED ||
      how_packed(n, m, k, g->a_col, 0, size) != PF_GEMM_BLOCKED)
    return 0;
  const double pack = h->pack * (double)k;
  const double turns = turn * (double)((k + BLOCK_K - 1) / BLOCK_K);
  return swap + pack * (double)n + turns < 0.98 * (plain + pack * (double)m);
}

/* op(b)'s rows are contiguous. */
static int how_rows(const pf_gemm *g, int64_t size, const how_costs *h) {
  const int64_t m = g->m, n = g->n, k = g->k;
  const int a_rows = g->a_col == 1;
  const double plain = tile_cost((double)m, n, (double)k, GEMM_HALVES, h);
  /* one port */
  const double sum = size == 4 && GEMM_HALVES && pf_has_whole_vectors_only() ? 2 * h->sum : h->sum;
  if (a_rows && n <= DOTS_COLUMNS && m >= DOTS &&
      dots_cost((double)m, n, k, sum, h) + h->pack * (double)(n * k) < 0.94 * plain)
    return PF_GEMM_DOTS_PACKED;
  if (reads_rows(m, n, k, g->b_row, size)) return PF_GEMM_ROW;
  if (g->a_row == 1 && swaps_rows(g, size, h))
    return PF_GEMM_SWAP | how_packed(n, m, k, g->a_col, g->b_row == 1, size);
  return how_packed(m, n, k, g->b_row, a_rows, size);
}

/* op(b)'s columns are contiguous. */
static int how_columns(const pf_gemm *g, int64_t size, const how_costs *h) {
  const double m = (double)g->m, n = (double)g->n, k = (double)g->k;
  const int a_rows = g->a_col == 1;
  const double plain =
      tile_cost(m, g->n, k, GEMM_HALVES, h) + h->pack * k * (a_rows ? n : m + n) + BLOCKED_CALL;
  const double turn = turn_cost(g, size, h);
  const double swap =
      tile_cost(n, g->m, k, GEMM_HALVES, h) + turn + a_rows * (h->pack * m * k + BLOCKED_CALL);
  const double best = PF_MIN(plain, swap);
  if (a_rows && dots_cost(m, g->n, g->k, h->sum, h) < best) return PF_GEMM_DOTS;
  if (!a_rows && g->m <= DOTS_COLUMNS && g->n >= DOTS &&
      dots_cost(n, g->m, g->k, h->sum, h) + h->pack * m * k + turn < 0.9 * best)
    return PF_GEMM_SWAP | PF_GEMM_DOTS_PACKED;
  if (plain <= swap) return PF_GEMM_BLOCKED;
  if (a_rows) return PF_GEMM_SWAP | PF_GEMM_BLOCKED;
  return PF_GEMM_SWAP | how_packed(g->n, g->m, g->k, g->a_col, g->b_row == 1, size);
}

int PF_ISA_NAME(pf_gemm_how)(const pf_gemm *g, int64_t size) {
  const how_costs h = costs_of(size);
  const int64_t vl = (int64_t)h.vl, m = g->m, n = g->n;
  if (m == 1 && n == 1 && g->a_col == 1 && g->b_row == 1) return PF_GEMM_DOT;
  if (m == 1 && g->a_col == 1) return how_row(n, g->b_col == 1, vl);
  if (n == 1 && g->ldc == 1 && g->b_row == 1) return PF_GEMM_SWAP | how_row(m, g->a_row == 1, vl);
  return g->b_col == 1 ? how_rows(g, size, &h) : how_columns(g, size, &h);
}

uint64_t PF_ISA_NAME(pf_gemm_work)(const pf_gemm *g, int64_t size) {
  int how = g->how, swap = (how & PF_GEMM_SWAP) != 0;
  int64_t n = PF_MAX(swap ? g->m : g->n, 1), m = PF_MAX(swap ? g->n : g->m, 1), w = TILE_NV * PF_VF;
  switch (how & ~PF_GEMM_SWAP) {
    case PF_GEMM_DIRECT:
    case PF_GEMM_DOT:
    case PF_GEMM_DOTS:
    case PF_GEMM_ROW: return 64;
    case PF_GEMM_DOTS_PACKED: return (uint64_t)(n * g->k * size + 64);
    default: break;
  }
  int64_t a_pack = PF_MIN(g->k, BLOCK_K) * PF_MIN(m, BLOCK_M); /* transposed, or with far rows */
  n = g->panels ? 0 : PF_MIN((n + w - 1) / w * w, BLOCK_N + w);
  return (uint64_t)((n * PF_MIN(g->k, BLOCK_K) + a_pack) * size + 64);
}

#if GEMM_TURNED
/* c[j * ldc + i] = x[i][j] of 8 vectors, the first `cols` of their columns. */
PF_INLINE void turn_f32(const pf_vf *x, float *c, int64_t ldc, int cols) {
  const __m512i near = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11),
                far = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  __m512 part[2][4]; /* of four rows: lane l of [j] is column 4 l + j */
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++, x += 4) {
    const __m512 a = _mm512_unpacklo_ps(x[0], x[1]), b = _mm512_unpackhi_ps(x[0], x[1]),
                 d = _mm512_unpacklo_ps(x[2], x[3]), e = _mm512_unpackhi_ps(x[2], x[3]);
    part[h][0] = _mm512_shuffle_ps(a, d, 0x44), part[h][1] = _mm512_shuffle_ps(a, d, 0xee);
    part[h][2] = _mm512_shuffle_ps(b, e, 0x44), part[h][3] = _mm512_shuffle_ps(b, e, 0xee);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++, c += ldc) {
    const __m512d p = _mm512_castps_pd(part[0][j]), q = _mm512_castps_pd(part[1][j]);
    const __m512d u = _mm512_permutex2var_pd(p, near, q), v = _mm512_permutex2var_pd(p, far, q);
    if (j < cols) _mm256_storeu_pd((double *)c, _mm512_castpd512_pd256(u));
    if (j + 4 < cols) _mm256_storeu_pd((double *)(c + 4 * ldc), _mm512_extractf64x4_pd(u, 1));
    if (j + 8 < cols) _mm256_storeu_pd((double *)(c + 8 * ldc), _mm512_castpd512_pd256(v));
    if (j + 12 < cols) _mm256_storeu_pd((double *)(c + 12 * ldc), _mm512_extractf64x4_pd(v, 1));
  }
}
PF_INLINE void turn_f64(const pf_vd *x, double *c, int64_t ldc, int cols) {
#pragma GCC unroll 2
  for (int odd = 0; odd < 2; odd++, c += ldc) {
    pf_vd y[4]; /* lane l of [i]: column 2 l + odd of rows 2 i, 2 i + 1 */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
      y[i] = odd ? _mm512_unpackhi_pd(x[2 * i], x[2 * i + 1])
                 : _mm512_unpacklo_pd(x[2 * i], x[2 * i + 1]);
    const pf_vd a = _mm512_shuffle_f64x2(y[0], y[1], 0x44),
                b = _mm512_shuffle_f64x2(y[0], y[1], 0xee),
                d = _mm512_shuffle_f64x2(y[2], y[3], 0x44),
                e = _mm512_shuffle_f64x2(y[2], y[3], 0xee);
    if (odd < cols) _mm512_storeu_pd(c, _mm512_shuffle_f64x2(a, d, 0x88));
    if (odd + 2 < cols) _mm512_storeu_pd(c + 2 * ldc, _mm512_shuffle_f64x2(a, d, 0xdd));
    if (odd + 4 < cols) _mm512_storeu_pd(c + 4 * ldc, _mm512_shuffle_f64x2(b, e, 0x88));
    if (odd + 6 < cols) _mm512_storeu_pd(c + 6 * ldc, _mm512_shuffle_f64x2(b, e, 0xdd));
  }
}
#endif

#if GEMM_HALVES
/* n elements, again and again: 1, 2 or (float) 4. */
PF_INLINE __m256 repeat_f32(const float *p, const int n) {
  if (n == 1) return _mm256_set1_ps(*p);
  if (n == 4) return _mm256_broadcast_ps((const __m128 *)p);
  double pair;
  memcpy(&pair, p, sizeof pair);
  return _mm256_castpd_ps(_mm256_set1_pd(pair));
}
PF_INLINE __m256d repeat_f64(const double *p, const int n) {
  return n == 1 ? _mm256_set1_pd(*p) : _mm256_broadcast_pd((const __m128d *)p);
}
#endif

/* The sums of four vectors, in one pass of additions and shuffles where there are many lanes. */
#if defined(__AVX512F__)
PF_INLINE void sum_4_f32(pf_vf a, pf_vf b, pf_vf c, pf_vf d, float *out) {
  const pf_vf ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const pf_vf cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const pf_vf x = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  const __m256 y = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(y), _mm256_extractf128_ps(y, 1)));
}
#else
PF_INLINE void sum_4_f32(pf_vf a, pf_vf b, pf_vf c, pf_vf d, float *out) {
  out[0] = pf_vf_sum(a), out[1] = pf_vf_sum(b), out[2] = pf_vf_sum(c), out[3] = pf_vf_sum(d);
}
#endif
#if defined(__AVX2__) && defined(__FMA__)
PF_INLINE __m256d half_f64(pf_vd x) {
#if defined(__AVX512F__)
  return _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd(x, 1));
#else
  return x;
#endif
}
PF_INLINE void sum_4_f64(pf_vd a, pf_vd b, pf_vd c, pf_vd d, double *out) {
  const __m256d ab = _mm256_hadd_pd(half_f64(a), half_f64(b));
  const __m256d cd = _mm256_hadd_pd(half_f64(c), half_f64(d));
  _mm256_storeu_pd(out, _mm256_add_pd(_mm256_permute2f128_pd(ab, cd, 0x20),
                                      _mm256_permute2f128_pd(ab, cd, 0x31)));
}
#else
PF_INLINE void sum_4_f64(pf_vd a, pf_vd b, pf_vd c, pf_vd d, double *out) {
  out[0] = pf_vd_sum(a), out[1] = pf_vd_sum(b), out[2] = pf_vd_sum(c), out[3] = pf_vd_sum(d);
}
#endif

#if GEMM_TINY
#include "gemm/gemm_tiny.h"
#endif

#define V_SUM_4 sum_4_f32
#define V_TURN turn_f32
#define GEMM_EACH_TAIL(X) X(1, 1) X(1, 2) X(1, 4) X(2, 1) X(2, 2) X(2, 4)
#define TILE_F32
#include "gemm/tile_begin.h"
#include "gemm/gemm_body.h"
#include "gemm/tile_end.h"
#undef V_SUM_4
#undef V_TURN
#undef GEMM_EACH_TAIL
#define V_SUM_4 sum_4_f64
#define V_TURN turn_f64
#define GEMM_EACH_TAIL(X) X(1, 1) X(1, 2) X(2, 1) X(2, 2)
#define TILE_F64
#include "gemm/tile_begin.h"
#include "gemm/gemm_body.h"
#include "gemm/tile_end.h"
#undef V_SUM_4
#undef V_TURN

#if PF_GEMM_PAIRS
/* Pairs of bfloat16 travel as floats; only the multiplication looks at them. */
#pragma GCC push_options
#pragma GCC target("avx512bf16")
PF_INLINE pf_vf fma_pairs(pf_vf a, pf_vf b, pf_vf c) {
  return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
#define pack_rows_bf16 pack_rows_f32
#define pack_columns_bf16 pack_columns_f32
#define tile_nv_bf16 tile_nv_f32
#define pf_epilogue_bf16 pf_epilogue_f32
#define V_SUM_4 sum_4_f32
#define V_TURN turn_f32
#define TILE_F32
#include "gemm/tile_begin.h"
#undef TILE
#undef TILE_NAME
#undef V_FMA
#undef GEMM_HALVES
#undef GEMM_TURNED
#undef GEMM_FIVE
#undef GEMM_TINY
#define GEMM_TINY 0
#define GEMM_HALVES 0                  /* not worth their 30 kB here */
#define GEMM_TURNED 0
#define GEMM_FIVE 0
#define TILE(name) name##_bf16
#define TILE_NAME(name) PF_ISA_NAME(name##_bf16)
#define V_FMA fma_pairs
#include "gemm/gemm_body.h"
#include "gemm/tile_end.h"
#undef V_SUM_4
#undef V_TURN
#pragma GCC pop_options
#endif

uint64_t PF_ISA_NAME(pf_gemm_packed_bytes)(const pf_gemm *g, int64_t size) {
  int64_t n = g->how & PF_GEMM_SWAP ? g->m : g->n;
  return (uint64_t)((n + PF_VF - 1) / PF_VF * PF_VF * g->k * size) + 64;
}

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
    case PF_INT32:
    case PF_UINT32: plain_i32(g); break;
    case PF_INT64:
    case PF_UINT64: plain_i64(g); break;
    case PF_COMPLEX64: c64[form](g); break;
    case PF_COMPLEX128: c128[form](g); break;
    default: break;
  }
}
