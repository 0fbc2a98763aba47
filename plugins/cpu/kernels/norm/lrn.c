/* lrn.c - LRN and LRNGrad: local response normalisation over channels (Krizhevsky et al., 2012).
 *
 *     y[k] = x[k] * n[k] ^ -beta,    n[k] = bias + alpha * sum of x[j]^2
 *     dx[k] = dy[k] * n[k] ^ -beta + x[k] * sum of g[j],    g = -2 alpha beta y dy / n
 *
 * Both sums are over |j - k| <= depth_radius: side by side for narrow ones, in double along the
 * channels for wide ones, of what is in the window only: a number that left it, however large, or
 * a NaN, leaves no trace.  The power is exact roots for beta = 0.5, 0.75 and 1, else
 * exp(-beta log n): about 1 + |beta log n| ulp.  Where there is AVX-512, that for 0.75 is two
 * approximate reciprocal roots and one Newton step for both (a result within 3 ulp, as against 5 of
 * the exact roots; twice as fast), and windows of five are shifted in registers.  Pixels of whole
 * groups of vectors run as one stream: a group is loaded before the one ahead of it is stored,
 * since a load that ends in the same 12 bits as a store just before it would wait (a third slower
 * where results lie 128 bytes further into their page than the input).
 *
 * Invariants: every output is one sum in a fixed order; halves are computed as float and rounded
 * once.
 * Threads: parallel_for over pixels; a pixel is handled by one thread.
 */
#include "base/common.h"
#include "vec/half.h"
#include "base/isa.h"
#include "base/machine.h"
#include "vec/vfloat.h"
#include "vec/vmath.h"

enum {
  NARROW = 8,
  ROWS = 8,       /* radius; rows of floats a worker has */
  TOGETHER = 256, /* pixels */
  STREAM_BYTES = PF_STREAM_BYTES
};
typedef struct {
  int32_t T;
  int32_t pad;
  int64_t radius;
  double bias, alpha, beta;
} lrn_state;
typedef struct {
  const lrn_state *s;
  const char *dy, *x, *y; /* of type T */
  char *out;
  float *room; /* [workers][ROWS][c + 2 NARROW] */
  int64_t c;
  int stream; /* results go past the caches */
} lrn;

/* window_sums of wide ones: v is cut into blocks of a window's length; each window is the end of a
 * block, of which `ends` has every sum, and the beginning of the next, whose ends are summed up
 * meanwhile. */
static void wide_sums(const float *v, float *out, int64_t r, int64_t c, float base, float by,
                      double *ends) {
  double end = 0;
  for (int64_t j = PF_MIN(r, c - 1); j >= 0; j--) ends[j] = end += v[j];
  for (int64_t k = 0; k < c; k += 2 * r + 1) { /* windows that begin in a block */
    const int64_t next = k + r + 1, to = PF_MIN(k + 2 * r + 1, c);
    int64_t j = PF_MIN(next + 2 * r, c - 1);
    double begin = end = 0;
    out[k] = base + by * (float)ends[PF_MAX(k - r, 0)];
    for (int64_t i = k + 1; i < to; i++, j--) {
      if (i + r < c) begin += v[i + r];
      if (j >= next) ends[j] = end += v[j];
      out[i] = base + by * (float)(ends[PF_MAX(i - r, 0)] + begin);
    }
    for (; j >= next; j--) ends[j] = end += v[j];
  }
}
/* out[k] = base + by * sum of v[j] over |j - k| <= r; v has NARROW zeros on either side */
static void window_sums(const float *v, float *out, int64_t r, int64_t c, float base, float by,
                        double *ends) {
  if (r > NARROW) {
    wide_sums(v, out, r, c, base, by, ends);
    return;
  }
  for (int64_t k = 0; k < c; k += PF_VF) {
    int part = (int)PF_MIN(c - k, PF_VF);
    pf_vf sum = pf_vf_load_part(v + k - r, part);
    if (part == PF_VF)
      for (int64_t d = 1 - r; d <= r; d++) sum += pf_vf_load(v + k + d);
    else
      for (int64_t d = 1 - r; d <= r; d++) sum += pf_vf_load_part(v + k + d, part);
    pf_vf_store_part(out + k, pf_vf_set(base) + pf_vf_set(by) * sum, part);
  }
}
PF_INLINE pf_vf vector_root(pf_vf v) {
#if defined(__AVX512F__)
  return _mm512_sqrt_ps(v);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_sqrt_ps(v);
#elif defined(__SSE2__)
  return (pf_vf)_mm_sqrt_ps((__m128)v);
#else
  for (int i = 0; i < PF_VF; i++) v[i] = sqrtf(v[i]);
  return v;
#endif
}
enum { OTHER, HALF, THREE_QUARTERS, ONE }; /* beta */
static int kind_of(float beta) {
  return beta == 0.75f ? THREE_QUARTERS : beta == 0.5f ? HALF : beta == 1.0f ? ONE : OTHER;
}
#if defined(__AVX512F__)
/* q = n^-1/2, t = q^-1/2 to 14 bits each: q t q is n^-3/4 to 2^-12.7, and a step of p^-4 = n^3, of
 * which every product is within range, makes that 2^-24 */
PF_INLINE pf_vf normal_three_quarters(pf_vf n, pf_vf *rests) { /* rests are NaN for 0 and inf */
  pf_vf q = _mm512_rsqrt14_ps(n), t = _mm512_rsqrt14_ps(q), p = q * t * q, a = n * p;
  pf_vf rest = _mm512_fnmadd_ps(a * a, a * p, pf_vf_set(1));
  *rests += rest;
  return PF_VF_FMA(p * pf_vf_set(0.25f), rest, p);
}
PF_INLINE pf_vf three_quarters(pf_vf n) {
  const __m512i ends = _mm512_set1_epi32(5 << 8 | 8 << 20); /* of 0: inf, of inf: 0 */
  pf_vf unused = pf_vf_set(0);
  return _mm512_fixupimm_ps(normal_three_quarters(n, &unused), n, ends, 0);
}
#endif
PF_INLINE pf_vf power_of(pf_vf n, int kind) { /* n ^ -beta */
#if defined(__AVX512F__)
  if (kind == THREE_QUARTERS) return three_quarters(n);
#endif
  pf_vf root = kind == ONE ? n : vector_root(n);
  if (kind == THREE_QUARTERS) root *= vector_root(root);
  return pf_vf_set(1) / root;
}
/* x n ^ -beta */
PF_INLINE void powers_as(int kind, const float *n, const float *x, float *out, int64_t c) {
  for (int64_t k = 0; k < c; k += PF_VF) {
    int part = (int)PF_MIN(c - k, PF_VF);
    pf_vf p = power_of(pf_vf_load_part(n + k, part), kind);
    pf_vf_store_part(out + k, pf_vf_load_part(x + k, part) * p, part);
  }
}
static void powers(const float *n, const float *x, float *out, float beta, int64_t c) {
  switch (kind_of(beta)) {
    case THREE_QUARTERS: powers_as(THREE_QUARTERS, n, x, out, c); break;
    case HALF: powers_as(HALF, n, x, out, c); break;
    case ONE: powers_as(ONE, n, x, out, c); break;
    default:
      PF_IVDEP for (int64_t k = 0; k < c; k++) out[k] = x[k] * pf_exp_f32(-beta * pf_log_f32(n[k]));
  }
}
/* The whole vectors of a narrow window and such a power, in one walk; returns where they end.
 * `stream`: past the caches. */
PF_INLINE int64_t forward_as(int kind, const float *v, const float *x, float *out, int64_t c,
                             const lrn_state *s, int stream) {
  pf_vf bias = pf_vf_set((float)s->bias), alpha = pf_vf_set((float)s->alpha);
  int64_t r = s->radius, k = 0;
  for (; k + PF_VF <= c; k += PF_VF) {
    pf_vf sum = pf_vf_load(v + k - r);
    for (int64_t d = 1 - r; d <= r; d++) sum += pf_vf_load(v + k + d);
    pf_vf_write(PF_FLOAT32, out + k, pf_vf_load(x + k) * power_of(bias + alpha * sum, kind),
                stream);
  }
  return k;
}
#if defined(__AVX512F__)
#define SHIFTED(high, low, by) \
  _mm512_castsi512_ps(_mm512_alignr_epi32((__m512i)(high), (__m512i)(low), by))
/* beta 0.75 and a window of five, from x itself */
PF_INLINE void forward_five(const float *x, float *out, int64_t c, const lrn_state *s, int stream) {
  pf_vf bias = pf_vf_set((float)s->bias), alpha = pf_vf_set((float)s->alpha);
  pf_vf here = pf_vf_load_part(x, (int)PF_MIN(c, PF_VF)), next, v;
  pf_vf low = pf_vf_set(0), mid = here * here, high, sum;
  for (int64_t k = 0; k < c; k += PF_VF, here = next, low = mid, mid = high) {
    int64_t left = c - k - PF_VF;
    if (left >= PF_VF) next = pf_vf_load(x + k + PF_VF);
    else next = left > 0 ? pf_vf_load_part(x + k + PF_VF, (int)left) : pf_vf_set(0);
    high = next * next;
    sum = (SHIFTED(mid, low, 14) + SHIFTED(mid, low, 15)) + mid;
    sum += SHIFTED(high, mid, 1) + SHIFTED(high, mid, 2);
    v = here * three_quarters(PF_VF_FMA(alpha, sum, bias));
    if (left >= 0) pf_vf_write(PF_FLOAT32, out + k, v, stream);
    else pf_vf_store_part(out + k, v, (int)(c - k));
  }
}
/* the same of pixels that lie together, in groups of `count` vectors: c is so many times such.
 * -> 0 if a power was not that of a normal number */
PF_INLINE int groups_of_five(const float *x, float *out, int64_t pixels, int64_t c,
                             const lrn_state *s, int count, int stream) {
  pf_vf bias = pf_vf_set((float)s->bias), alpha = pf_vf_set((float)s->alpha);
  pf_vf here[4], next[4], v[6], rests = pf_vf_set(0), sum;
  int64_t step = count * PF_VF, n = pixels * c, k = 0;
  for (int u = 0; u < count; u++) here[u] = pf_vf_load(x + u * PF_VF);
  v[0] = pf_vf_set(0);
  for (int64_t i = 0; i < n; i += step) {
    const float *after = i + step < n ? x + i + step : x;
    int last = (k += step) == c;
    for (int u = 0; u < count; u++) next[u] = pf_vf_load(after + u * PF_VF);
    for (int u = 0; u < count; u++) v[u + 1] = here[u] * here[u];
    v[count + 1] = next[0] * next[0];
    if (last) v[count + 1] = pf_vf_set(0), k = 0;
    for (int u = 0; u < count; u++) {
      sum = (SHIFTED(v[u + 1], v[u], 14) + SHIFTED(v[u + 1], v[u], 15)) + v[u + 1];
      sum += SHIFTED(v[u + 2], v[u + 1], 1) + SHIFTED(v[u + 2], v[u + 1], 2);
      here[u] *= normal_three_quarters(PF_VF_FMA(alpha, sum, bias), &rests);
    }
    for (int u = 0; u < count; u++)
      pf_vf_write(PF_FLOAT32, out + i + u * PF_VF, here[u], stream), here[u] = next[u];
    v[0] = v[count];
    if (last) v[0] = pf_vf_set(0);
  }
  return !_mm512_cmp_ps_mask(rests, rests, _CMP_UNORD_Q);
}
static int stream_of_five(const float *x, float *out, int64_t pixels, int64_t c, const lrn_state *s,
                          int stream) {
  if (c % (4 * PF_VF) == 0)
    return stream ? groups_of_five(x, out, pixels, c, s, 4, 1)
                  : groups_of_five(x, out, pixels, c, s, 4, 0);
  if (c % (2 * PF_VF) == 0)
    return stream ? groups_of_five(x, out, pixels, c, s, 2, 1)
                  : groups_of_five(x, out, pixels, c, s, 2, 0);
  return 0;
}
static int is_five(const lrn_state *s) {
  return s->radius == 2 && kind_of((float)s->beta) == THREE_QUARTERS;
}
#else
static int stream_of_five(const float *x, float *out, int64_t pixels, int64_t c, const lrn_state *s,
                          int stream) {
  (void)x, (void)out, (void)pixels, (void)c, (void)s, (void)stream;
  return 0;
}
static int is_five(const lrn_state *s) {
  (void)s;
  return 0;
}
static void forward_five(const float *x, float *out, int64_t c, const lrn_state *s, int stream) {
  (void)x, (void)out, (void)c, (void)s, (void)stream;
}
#endif
static int64_t forward_vectors(const float *v, const float *x, float *out, int64_t c,
                               const lrn_state *s, int stream) {
  if (s->radius > NARROW) return 0;
  switch (kind_of((float)s->beta)) {
    case THREE_QUARTERS:
      return stream ? forward_as(THREE_QUARTERS, v, x, out, c, s, 1)
                    : forward_as(THREE_QUARTERS, v, x, out, c, s, 0);
    case HALF: return forward_as(HALF, v, x, out, c, s, 0);
    case ONE: return forward_as(ONE, v, x, out, c, s, 0);
    default: return 0;
  }
}

typedef struct {
  float *x, *dy, *y, *v, *norm, *power;
  double *ends;
} lines;
static lines lines_of(const lrn *p, int32_t worker) {
  int64_t step = p->c + 2 * NARROW;
  float *at = p->room + worker * ROWS * step + NARROW;
  lines l = {at,
             at + step,
             at + 2 * step,
             at + 3 * step,
             at + 4 * step,
             at + 5 * step,
             (double *)(at - NARROW + 6 * step)};
  memset(l.v - NARROW, 0, (size_t)step * sizeof(float));
  return l;
}
static int64_t size_of(const lrn *p) { return pf_is_half(p->s->T) ? 2 : 4; }
static const float *line(const lrn *p, const char *from, int64_t i, float *room) {
  const char *at = from + i * p->c * size_of(p);
  if (size_of(p) == 4) return (const float *)at;
  halves_read(p->s->T, at, room, p->c);
  return room;
}
static void squares(const lrn *p, const float *x, const lines *l) {
  PF_IVDEP for (int64_t k = 0; k < p->c; k++) l->v[k] = x[k] * x[k];
}
/* from channel k on, which is 0 for wide windows */
static void norms(const lrn *p, const lines *l, int64_t k) {
  window_sums(l->v + k, l->norm + k, p->s->radius, p->c - k, (float)p->s->bias, (float)p->s->alpha,
              l->ends);
}

static void forward(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const lrn *p = arg;
  const int five = is_five(p->s);
  lines l = lines_of(p, worker);
  int64_t done = lo; /* up to here they went as a stream, or cannot */
  for (int64_t i = lo; i < hi; i++) {
    if (five && i == done && size_of(p) == 4) {
      done = PF_MIN(i + TOGETHER, hi);
      if (stream_of_five((const float *)p->x + i * p->c, (float *)p->out + i * p->c, done - i, p->c,
                         p->s, p->stream)) {
        i = done - 1;
        continue;
      }
    }
    const float *x = line(p, p->x, i, l.x);
    char *to = p->out + i * p->c * size_of(p);
    float *out = size_of(p) == 4 ? (float *)to : l.power;
    int64_t k = five ? p->c : 0;
    if (five && p->stream) forward_five(x, out, p->c, p->s, 1);
    else if (five) forward_five(x, out, p->c, p->s, 0);
    else squares(p, x, &l), k = forward_vectors(l.v, x, out, p->c, p->s, p->stream);
    if (k < p->c) {
      norms(p, &l, k);
      powers(l.norm + k, x + k, out + k, (float)p->s->beta, p->c - k);
    }
    if (size_of(p) == 2) halves_write(p->s->T, out, to, p->c);
  }
  if (p->stream) pf_vf_fence();
}
static void backward(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const lrn *p = arg;
  const float ab = (float)(-2 * p->s->alpha * p->s->beta);
  lines l = lines_of(p, worker);
  for (int64_t i = lo; i < hi; i++) {
    const float *x = line(p, p->x, i, l.x), *y = line(p, p->y, i, l.y),
                *dy = line(p, p->dy, i, l.dy);
    char *to = p->out + i * p->c * size_of(p);
    float *out = size_of(p) == 4 ? (float *)to : l.v;
    squares(p, x, &l);
    norms(p, &l, 0);
    powers(l.norm, dy, l.power, (float)p->s->beta, p->c);
    PF_IVDEP for (int64_t k = 0; k < p->c; k++) l.v[k] = ab * y[k] / l.norm[k] * dy[k];
    window_sums(l.v, l.norm, p->s->radius, p->c, 0, 1, l.ends);
    PF_IVDEP for (int64_t k = 0; k < p->c; k++) out[k] = l.power[k] + x[k] * l.norm[k];
    if (size_of(p) == 2) halves_write(p->s->T, out, to, p->c);
  }
}

static pf_status run(pf_ctx *c, const lrn_state *s, const DLTensor *x, pf_range fn, lrn *p) {
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  int64_t n = pf_numel(x);
  if (n == 0) return PF_OK;
  p->s = s;
  p->c = x->shape[3];
  p->out = PF_DATA(char, out);
  p->stream =
      s->T == PF_FLOAT32 && n * 4 >= STREAM_BYTES && p->c % 16 == 0 && (uintptr_t)p->out % 64 == 0;
  uint64_t floats = (uint64_t)ROWS * (uint64_t)(p->c + 2 * NARROW);
  p->room = c->host->scratch(c, floats * (uint64_t)c->host->workers(c) * 4, 64);
  if (!p->room) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for normalisation");
  return pf_parallel(c, n / p->c, pf_grain(p->c * 16), fn, p);
}

static pf_status check(pf_ctx *c, const lrn_state *s, const DLTensor *x, const char *name) {
  if (x->ndim != 4)
    return PF_INVALID(c, "%s must be 4-dimensional, got shape %s", name, PF_SHAPE(x).s);
  if (s->radius < 0 || s->radius > INT32_MAX)
    return PF_INVALID(c, "depth_radius must be in [0, 2^31), got %" PRId64, s->radius);
  return PF_OK;
}
static pf_status lrn_forward(pf_ctx *c, const void *state) {
  lrn p = {0};
  PF_TRY(check(c, state, c->in[0], "in"));
  p.x = PF_DATA(const char, c->in[0]);
  return run(c, state, c->in[0], forward, &p);
}
static pf_status lrn_grad(pf_ctx *c, const void *state) {
  const lrn_state *s = state;
  lrn p = {0};
  PF_TRY(check(c, s, c->in[1], "input_image"));
  if (!pf_same_shape(c->in[0], c->in[1]) || !pf_same_shape(c->in[1], c->in[2]))
    return PF_INVALID(c, "input_grads, input_image and output_image must have one shape: %s %s %s",
                      PF_SHAPE(c->in[0]).s, PF_SHAPE(c->in[1]).s, PF_SHAPE(c->in[2]).s);
  p.dy = PF_DATA(const char, c->in[0]), p.x = PF_DATA(const char, c->in[1]);
  p.y = PF_DATA(const char, c->in[2]);
  return run(c, s, c->in[1], backward, &p);
}

#define FIELD(name_, kind, field) PF_REF(pf_attr, name_, kind, offsetof(lrn_state, field))
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, fn) PF_CPU_FLAGS(op, "T=half|bfloat16|float", FLAGS, \
  .attrs = PF_ATTRS(FIELD("T", PF_ATTR_TYPE, T), FIELD("depth_radius", PF_ATTR_INT, radius), \
                    FIELD("bias", PF_ATTR_FLOAT, bias), FIELD("alpha", PF_ATTR_FLOAT, alpha), \
                    FIELD("beta", PF_ATTR_FLOAT, beta)), \
  .state_size = sizeof(lrn_state), .compute = fn)
const pf_kernel *const PF_ISA_NAME(lrn_kernels)[] = {ENTRY("LRN", lrn_forward),
                                                     ENTRY("LRNGrad", lrn_grad), NULL};
