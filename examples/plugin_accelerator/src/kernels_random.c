/* kernels_random.c - RandomUniform, RandomStandardNormal, TruncatedNormal: Philox4x32-10 (Salmon et
 * al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
 *
 * The host reserves the counters, RESERVED for each element; element i of a call takes its bits
 * from counter i / 4 (i / 2 for doubles), so the numbers are those of the CPU's kernels: uniform
 * ones to the bit, normal ones to rounding.
 */
#include "launch.h"
#include <math.h>

enum { RESERVED = 256 };
enum { UNIFORM, NORMAL, TRUNCATED };

static void philox(const int64_t *p, uint64_t skip, uint32_t x[4]) { /* p: key, low, high */
  uint64_t key = (uint64_t)p[0], lo = (uint64_t)p[1] + skip;
  uint64_t hi = (uint64_t)p[2] + (lo < skip);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  uint32_t c[4] = {(uint32_t)lo, (uint32_t)(lo >> 32), (uint32_t)hi, (uint32_t)(hi >> 32)};
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b,
                        (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    memcpy(c, next, sizeof c);
  }
  memcpy(x, c, sizeof c);
}

static double unit_float(uint32_t x) { return (double)(x & 0x7fffffu) / 8388608.0; }
static double unit_double(uint32_t hi, uint32_t lo) {
  return (double)((uint64_t)(hi & 0xfffffu) << 32 | lo) / 4503599627370496.0;
}
static void normals(double u, double v, double *p) { /* Box and Muller */
  double r = sqrt(-2 * log(u < 1e-7 ? 1e-7 : u));
  p[0] = sin(6.283185307179586 * v) * r;
  p[1] = cos(6.283185307179586 * v) * r;
}

/* The numbers of one counter: 4, or 2 doubles. */
static int32_t numbers(const int64_t *key, uint64_t counter, int32_t kind, int32_t wide,
                       double *f) {
  uint32_t x[4];
  double u[4];
  philox(key, counter, x);
  int32_t n = wide ? 2 : 4;
  for (int32_t i = 0; i < n; i++)
    u[i] = wide ? unit_double(x[2 * i], x[2 * i + 1]) : unit_float(x[i]);
  for (int32_t i = 0; i < n; i += 2) {
    if (kind == UNIFORM) f[i] = u[i], f[i + 1] = u[i + 1];
    else normals(u[i], u[i + 1], f + i);
  }
  return n;
}

/* params: kind, then key, low and high word of the first counter */
static pf_status run_random(fake_call *c) {
  fake_array *y = &c->y[0];
  int32_t kind = (int32_t)c->p.i[0], wide = y->kind == 'd', each = wide ? 2 : 4;
  for (int64_t g = 0; g * each < y->n; g++) {
    int64_t have = g * each, last = have + each < y->n ? have + each : y->n;
    uint64_t at = (uint64_t)g * (kind == TRUNCATED ? RESERVED / (uint64_t)(wide ? 2 : 1) : 1);
    while (have < last) {
      double f[4];
      int32_t n = numbers(c->p.i + 1, at++, kind, wide, f);
      for (int32_t i = 0; i < n && have < last; i++)
        if (kind != TRUNCATED || fabs(f[i]) < 2) put(y, have++, f[i]);
    }
  }
  return PF_OK;
}

static pf_status draw(pf_ctx *c, int64_t kind) {
  int64_t dims[MAX_HOST_VALUES];
  uint64_t key[2] = {0}, counter[2] = {0};
  int32_t n = host_ints(c, 0, dims);
  if (n < 0) return PF_INVALID_ARGUMENT;
  for (int32_t i = 0; i < n; i++)
    if (dims[i] < 0) return failf(c, PF_INVALID_ARGUMENT, "shape has a negative dimension");
  DLTensor *y = c->host->output(c, 0, dims, n);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  if (pf_numel(y) == 0) return PF_OK;
  pf_status status = c->host->rng(c, (uint64_t)pf_numel(y) * RESERVED, key, counter);
  if (status) return status;
  fake_params p = {.i = {kind, (int64_t)key[0], (int64_t)counter[0], (int64_t)counter[1]}};
  fake_tensors t = {.y = {y}, .n_y = 1};
  return launch_on(c, run_random, &p, &t);
}
static pf_status uniform(pf_ctx *c, const void *s) { return (void)s, draw(c, UNIFORM); }
static pf_status normal(pf_ctx *c, const void *s) { return (void)s, draw(c, NORMAL); }
static pf_status truncated(pf_ctx *c, const void *s) { return (void)s, draw(c, TRUNCATED); }

#define SHAPED ARGS(ON_HOST("shape"))
const pf_kernel *const random_kernels[] = {
  FAKE("RandomUniform", "dtype=" FAKE_FLOATS, uniform, SHAPED),
  FAKE("RandomStandardNormal", "dtype=" FAKE_FLOATS, normal, SHAPED),
  FAKE("TruncatedNormal", "dtype=" FAKE_FLOATS, truncated, SHAPED), NULL};
