/* bytes.c - products of 8-bit whole numbers (bytes.h): four rows of a times a panel of b at a time.
 *
 * One instruction multiplies four neighbours of a with those of 16 columns and adds them up, where
 * the processor has it (pf_has_byte_products); elsewhere the compiler's vectors do.
 *
 * Threads: parallel_for over panels and blocks of rows.
 */
#include "gemm/bytes.h"
#include "base/machine.h"

enum { ROWS = 4, BLOCK = 64, VECTORS = 4, PANEL_ROW = PF_BYTE_COLUMNS * PF_BYTE_DEPTH };

typedef void (*dots)(const uint8_t *a, int64_t lda, const int8_t *b, int64_t groups, int32_t *c);

/* ---------------------------------------------------------------- one panel: c [rows][64] */
PF_INLINE void plain(const uint8_t *a, int64_t lda, const int rows, const int8_t *b, int64_t groups,
                     int32_t *c) {
  for (int i = 0; i < rows; i++, a += lda, c += PF_BYTE_COLUMNS) {
    uint32_t sum[PF_BYTE_COLUMNS] = {0};
    for (int64_t g = 0; g < groups; g++) {
      const int8_t *four = b + g * PANEL_ROW;
      const int32_t x0 = a[4 * g], x1 = a[4 * g + 1], x2 = a[4 * g + 2], x3 = a[4 * g + 3];
      for (int j = 0; j < PF_BYTE_COLUMNS; j++)
        sum[j] += (uint32_t)(x0 * four[4 * j] + x1 * four[4 * j + 1] + x2 * four[4 * j + 2] +
                             x3 * four[4 * j + 3]);
    }
    memcpy(c, sum, sizeof sum);
  }
}
static void plain_1(const uint8_t *a, int64_t lda, const int8_t *b, int64_t groups, int32_t *c) {
  plain(a, lda, 1, b, groups, c);
}
static void plain_4(const uint8_t *a, int64_t lda, const int8_t *b, int64_t groups, int32_t *c) {
  plain(a, lda, ROWS, b, groups, c);
}

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#define VNNI __attribute__((target("avx512vnni")))

PF_INLINE VNNI __m512i four_of(const uint8_t *a) {
  int32_t four;
  memcpy(&four, a, 4);
  return _mm512_set1_epi32(four);
}
static VNNI void vnni_1(const uint8_t *a, int64_t lda, const int8_t *b, int64_t groups,
                        int32_t *c) {
  __m512i even[VECTORS], odd[VECTORS];
  int64_t g = 0;
  (void)lda;
  for (int j = 0; j < VECTORS; j++) even[j] = odd[j] = _mm512_setzero_si512();
  for (; g + 1 < groups; g += 2, b += 2 * PANEL_ROW) {
    const __m512i x = four_of(a + 4 * g), y = four_of(a + 4 * g + 4);
    for (int j = 0; j < VECTORS; j++) {
      even[j] = _mm512_dpbusd_epi32(even[j], x, _mm512_loadu_si512(b + 64 * j));
      odd[j] = _mm512_dpbusd_epi32(odd[j], y, _mm512_loadu_si512(b + PANEL_ROW + 64 * j));
    }
  }
  if (g < groups)
    for (int j = 0; j < VECTORS; j++)
      even[j] = _mm512_dpbusd_epi32(even[j], four_of(a + 4 * g), _mm512_loadu_si512(b + 64 * j));
  for (int j = 0; j < VECTORS; j++)
    _mm512_storeu_si512(c + 16 * j, _mm512_add_epi32(even[j], odd[j]));
}
static VNNI void vnni_4(const uint8_t *a, int64_t lda, const int8_t *b, int64_t groups,
                        int32_t *c) {
  __m512i sum[ROWS][VECTORS];
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < VECTORS; j++) sum[i][j] = _mm512_setzero_si512();
  for (int64_t g = 0; g < groups; g++, b += PANEL_ROW) {
    __m512i column[VECTORS];
    for (int j = 0; j < VECTORS; j++) column[j] = _mm512_loadu_si512(b + 64 * j);
    for (int i = 0; i < ROWS; i++) {
      const __m512i x = four_of(a + i * lda + 4 * g);
      for (int j = 0; j < VECTORS; j++) sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], x, column[j]);
    }
  }
  for (int i = 0; i < ROWS; i++)
    for (int j = 0; j < VECTORS; j++)
      _mm512_storeu_si512(c + i * PF_BYTE_COLUMNS + 16 * j, sum[i][j]);
}
#define ONE (pf_has_byte_products() ? vnni_1 : plain_1)
#define FOUR (pf_has_byte_products() ? vnni_4 : plain_4)
#else
#define ONE plain_1
#define FOUR plain_4
#endif

/* ---------------------------------------------------------------- all */
typedef struct {
  const pf_byte_product *p;
  int64_t groups, blocks;
  dots one, four;
} job;

/* Rows of c from sums [rows][64]: less what the zero points add. */
static void settle(const pf_byte_product *p, const int32_t *sums, int64_t row, int64_t rows,
                   int64_t column) {
  const int64_t columns = PF_MIN(p->n - column, PF_BYTE_COLUMNS);
  const int32_t *of_b = p->sums + column, *zeros = p->zeros + column;
  const uint32_t zero = (uint32_t)p->a_zero;
  for (int64_t i = 0; i < rows; i++, sums += PF_BYTE_COLUMNS) {
    int32_t *c = p->c + (row + i) * p->n + column;
    const uint32_t of_a = (uint32_t)p->row_sums[row + i] - (uint32_t)p->k * zero;
    for (int64_t j = 0; j < columns; j++)
      c[j] = (int32_t)((uint32_t)sums[j] - zero * (uint32_t)of_b[j] - of_a * (uint32_t)zeros[j]);
  }
}

static void multiply(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *s = arg;
  const pf_byte_product *p = s->p;
  _Alignas(64) int32_t sums[ROWS * PF_BYTE_COLUMNS];
  (void)worker;
  for (int64_t at = lo; at < hi; at++) {
    const int64_t panel = at / s->blocks, first = at % s->blocks * BLOCK,
                  end = PF_MIN(first + BLOCK, p->m);
    const int8_t *b = p->b + panel * s->groups * PANEL_ROW;
    for (int64_t row = first; row < end;) {
      const int64_t rows = end - row >= ROWS ? ROWS : 1;
      (rows == ROWS ? s->four : s->one)(p->a + row * p->lda, p->lda, b, s->groups, sums);
      settle(p, sums, row, rows, panel * PF_BYTE_COLUMNS);
      row += rows;
    }
  }
}

pf_status PF_ISA_NAME(pf_multiply_bytes)(pf_ctx *c, const pf_byte_product *p) {
  job s = {.p = p,
           .groups = pf_byte_groups(p->k),
           .blocks = (p->m + BLOCK - 1) / BLOCK,
           .one = ONE,
           .four = FOUR};
  const int64_t work = PF_MIN(p->m, BLOCK) * s.groups * PF_BYTE_COLUMNS / 8;
  return pf_parallel(c, pf_byte_panels(p->n) * s.blocks, pf_grain(work), multiply, &s);
}
