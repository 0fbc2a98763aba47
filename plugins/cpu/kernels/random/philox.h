/* philox.h - one Philox4x32-10 block at a time (Salmon et al. 2011), for distributions that draw
 * until they accept.
 *
 *     pf_philox g = pf_philox_skip(base, 256 * i);       // element i's own counters
 *     double u = pf_philox_unit(&g);                     // uniform doubles come as TF's kernels take them: the
 *                                                        // second of a block first
 * Threads: a generator belongs to its caller.
 */
#ifndef PF_CPU_PHILOX_H
#define PF_CPU_PHILOX_H
#include "base/common.h"
#include "vec/simd.h"

typedef struct {
  uint64_t key, lo, hi; /* the next counter is hi:lo */
  double unit[2], normal[2];
  int units, normals;    /* how many of them are left */
  const uint32_t *ready; /* blocks computed before, PF_PHILOX_WIDE words apart */
  int n_ready;
} pf_philox;
enum { PF_PHILOX_WIDE = 16 };

PF_LOCAL void pf_philox_block(pf_philox *g, uint32_t x[4]) {
  if (g->n_ready) {
    for (int i = 0; i < 4; i++, g->ready += PF_PHILOX_WIDE) x[i] = *g->ready;
    g->n_ready--;
    if (++g->lo == 0) g->hi++;
    return;
  }
  uint32_t k0 = (uint32_t)g->key, k1 = (uint32_t)(g->key >> 32);
  x[0] = (uint32_t)g->lo, x[1] = (uint32_t)(g->lo >> 32);
  x[2] = (uint32_t)g->hi, x[3] = (uint32_t)(g->hi >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t a = (uint64_t)x[0] * 0xD2511F53u, b = (uint64_t)x[2] * 0xCD9E8D57u;
    uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ k0, y2 = (uint32_t)(a >> 32) ^ x[3] ^ k1;
    x[1] = (uint32_t)b, x[3] = (uint32_t)a, x[0] = y0, x[2] = y2;
  }
  if (++g->lo == 0) g->hi++;
}
/* PF_PHILOX_WIDE counters to their bits, side by side: word i of block l is x[i][l].  Each word has
 * a 64-bit lane of a vector, whose upper half multiplication leaves out: it may hold anything. */
#if defined(__AVX512F__)
#define PF_MUL_LOW(a, k) ((pf_lanes)_mm512_mul_epu32((__m512i)(a), _mm512_set1_epi64(k)))
typedef uint64_t pf_lanes __attribute__((vector_size(64)));
#elif defined(__AVX2__)
#define PF_MUL_LOW(a, k) ((pf_lanes)_mm256_mul_epu32((__m256i)(a), _mm256_set1_epi64x(k)))
typedef uint64_t pf_lanes __attribute__((vector_size(32)));
#elif defined(__SSE2__)
#define PF_MUL_LOW(a, k) ((pf_lanes)_mm_mul_epu32((__m128i)(a), _mm_set1_epi64x(k)))
typedef uint64_t pf_lanes __attribute__((vector_size(16)));
#else
#define PF_MUL_LOW(a, k) (((a) & 0xffffffffu) * (uint64_t)(k))
typedef uint64_t pf_lanes __attribute__((vector_size(16)));
#endif
PF_LOCAL void pf_philox_rounds(uint64_t key, uint32_t x[4][PF_PHILOX_WIDE]) {
  enum { LANES = sizeof(pf_lanes) / 8, N = PF_PHILOX_WIDE / LANES };
  uint64_t k0 = key & 0xffffffffu, k1 = key >> 32;
  union {
    uint64_t word[4][PF_PHILOX_WIDE];
    pf_lanes v[4][N];
  } w;
  for (int i = 0; i < 4; i++)
    PF_ROLLED for (int l = 0; l < PF_PHILOX_WIDE; l++) w.word[i][l] = x[i][l];
  PF_ROLLED for (int round = 0; round < 10;
                 round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) for (int l = 0; l < N; l++) {
    pf_lanes a = PF_MUL_LOW(w.v[0][l], 0xD2511F53u), b = PF_MUL_LOW(w.v[2][l], 0xCD9E8D57u);
    pf_lanes y0 = (b >> 32) ^ w.v[1][l] ^ k0, y2 = (a >> 32) ^ w.v[3][l] ^ k1;
    w.v[1][l] = b, w.v[3][l] = a, w.v[0][l] = y0, w.v[2][l] = y2;
  }
  for (int i = 0; i < 4; i++)
    PF_ROLLED for (int l = 0; l < PF_PHILOX_WIDE; l++) x[i][l] = (uint32_t)w.word[i][l];
}
/* blocks `step` counters apart */
PF_LOCAL void pf_philox_blocks(const pf_philox *g, uint64_t step, uint32_t x[4][PF_PHILOX_WIDE]) {
  PF_ROLLED for (int l = 0; l < PF_PHILOX_WIDE; l++) {
    uint64_t lo = g->lo + (uint64_t)l * step, hi = g->hi + (lo < g->lo);
    x[0][l] = (uint32_t)lo, x[1][l] = (uint32_t)(lo >> 32);
    x[2][l] = (uint32_t)hi, x[3][l] = (uint32_t)(hi >> 32);
  }
  pf_philox_rounds(g->key, x);
}
PF_LOCAL pf_philox pf_philox_skip(const pf_philox *g, uint64_t n) {
  pf_philox s = {.key = g->key, .lo = g->lo + n, .hi = g->hi};
  s.hi += s.lo < n;
  return s;
}
PF_INLINE double pf_philox_double(uint32_t hi, uint32_t lo) {
  return pf_bits_double((uint64_t)(hi & 0xfffffu) << 32 | lo | 0x3ff0000000000000u) - 1.0;
}
PF_LOCAL double pf_philox_unit(pf_philox *g) {
  if (!g->units) {
    uint32_t x[4];
    pf_philox_block(g, x);
    g->unit[0] = pf_philox_double(x[0], x[1]), g->unit[1] = pf_philox_double(x[2], x[3]);
    g->units = 2;
  }
  return g->unit[--g->units];
}
PF_LOCAL double pf_philox_normal(pf_philox *g) { /* Box and Muller */
  if (!g->normals) {
    uint32_t x[4];
    pf_philox_block(g, x);
    double u = pf_philox_double(x[0], x[1]), v = 6.283185307179586 * pf_philox_double(x[2], x[3]);
    u = u < 1.0e-7 ? 1.0e-7 : u;
    double r = sqrt(-2.0 * log(u));
    g->normal[0] = v, g->normal[1] = r, g->normals = 1;
    return cos(v) * r;
  }
  g->normals = 0; /* the sine is rarely asked for */
  return sin(g->normal[0]) * g->normal[1];
}
/* The generator of a stateless op: the two seeds are scrambled by one block with a fixed key. */
PF_LOCAL pf_philox pf_philox_of_seeds(uint64_t first, uint64_t second) {
  pf_philox g = {.key = 0x02461e293ec8f720u, .lo = first, .hi = second};
  uint32_t x[4];
  pf_philox_block(&g, x);
  return (pf_philox){.key = (uint64_t)x[1] << 32 | x[0], .hi = (uint64_t)x[3] << 32 | x[2]};
}

/* What the stateless distributions take: input 0, the shape of the result; input 1, two seeds. */
typedef struct {
  int64_t shape[PF_MAX_DIMS];
  int32_t ndim;
  pf_philox base;
} pf_sample_shape;
PF_LOCAL pf_status pf_stateless_shape(pf_ctx *c, pf_sample_shape *s) {
  const DLTensor *seed = c->in[1];
  if (c->in[0]->ndim != 1)
    return PF_INVALID(c, "shape must be a vector, got shape %s", PF_SHAPE(c->in[0]).s);
  if (seed->ndim != 1 || seed->shape[0] != 2)
    return PF_INVALID(c, "seed must have shape [2], not %s", PF_SHAPE(seed).s);
  PF_TRY(pf_in_vector(c, 0, "shape", s->shape, &s->ndim));
  s->base = pf_philox_of_seeds((uint64_t)pf_in_index(c, 1, 0), (uint64_t)pf_in_index(c, 1, 1));
  return PF_OK;
}
#endif
