/* quantize.c - simulated quantisation of floats: FakeQuantWithMinMaxArgs, Vars and VarsPerChannel
 * with their gradients; QuantizeAndDequantize V1, V2, V3.
 *
 * Method: the range is nudged so that 0 is a whole step (Jacob et al., "Quantization and training
 * of neural networks for efficient integer-arithmetic-only inference", 2018, section 3), in float32
 * as TensorFlow does it. Threads: parallel_for over elements where all have one range, else one per
 * call.
 */
#include "base/common.h"
#include "vec/float_at.h"
#include "base/isa.h"
#if defined(PF_HAVE_AVX2) && defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct {
  double min, max;
  int64_t num_bits;
  int32_t narrow_range;
} fake_state;
typedef struct { float low, high, step; } grid;

static grid nudge(float min, float max, int64_t bits, int narrow) {
  float first = narrow ? 1.0f : 0.0f, last = (float)((1LL << bits) - 1);
  float step = (max - min) / (last - first), zero = first - min / step;
  float whole = zero < first ? first : zero > last ? last : roundf(zero);
  return (grid){(first - whole) * step, (last - whole) * step, step};
}
static float snap(float x, const grid *g) {
  float inverse = 1.0f / g->step, v = x < g->low ? g->low : x > g->high ? g->high : x;
  return floorf((v - g->low) * inverse + 0.5f) * g->step + g->low;
}
/* A run of elements of one range.  A number of steps fits int32 and is >= 0, so that it is cut off
 * by conversion, unless the range is so small or large that a step or its inverse is not finite. */
typedef struct {
  grid g;
  const float *x;
  float *y;
} snap_job;
PF_INLINE void snap_body(const snap_job *j, int64_t lo, int64_t hi) {
  float low = j->g.low, high = j->g.high, step = j->g.step, inverse = 1.0f / step;
  const float *x = j->x;
  float *y = j->y;
  for (int64_t i = lo; i < hi; i++) {
    float v = x[i], w = v > low ? v : low; /* NaN becomes low here */
    w = (w < high ? w : high) - low;
    w = (float)(int32_t)(w * inverse + 0.5f) * step + low;
    y[i] = v == v ? w : v;
  }
}
#if defined(PF_HAVE_AVX2) && defined(__x86_64__)
#define V(f) _mm256_##f
__attribute__((target("avx2"))) static void snap_avx2(const snap_job *j, int64_t lo, int64_t hi) {
  __m256 low = V(set1_ps)(j->g.low), high = V(set1_ps)(j->g.high), step = V(set1_ps)(j->g.step);
  __m256 inverse = V(set1_ps)(1.0f / j->g.step), half = V(set1_ps)(0.5f);
  for (; lo + 8 <= hi; lo += 8) {
    __m256 v = V(loadu_ps)(j->x + lo), w = V(max_ps)(v, low);
    w = V(sub_ps)(V(min_ps)(w, high), low);
    w = V(cvtepi32_ps)(V(cvttps_epi32)(V(add_ps)(V(mul_ps)(w, inverse), half)));
    w = V(add_ps)(V(mul_ps)(w, step), low);
    V(storeu_ps)(j->y + lo, V(blendv_ps)(w, v, V(cmp_ps)(v, v, _CMP_UNORD_Q)));
  }
  snap_body(j, lo, hi);
}
#else
#define snap_avx2 snap_body
#endif
static void snap_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const snap_job *j = arg;
  (void)worker;
  if (!isfinite(j->g.low) || !isfinite(j->g.high) || !isfinite(j->g.step) ||
      !isfinite(1.0f / j->g.step))
    for (int64_t i = lo; i < hi; i++) j->y[i] = snap(j->x[i], &j->g);
  else if (pf_cpu_isa() >= PF_ISA_LEVEL_AVX2) snap_avx2(j, lo, hi);
  else snap_body(j, lo, hi);
}
static pf_status snap_all(pf_ctx *c, grid g, DLTensor *y) {
  snap_job j = {g, PF_DATA(const float, c->in[0]), PF_DATA(float, y)};
  return pf_parallel(c, pf_numel(y), PF_GRAIN, snap_range, &j);
}
static pf_status check_bits(pf_ctx *c, const fake_state *s) {
  if (s->num_bits >= 2 && s->num_bits <= 16) return PF_OK;
  return PF_INVALID(c, "num_bits must be between 2 and 16, inclusive, got %" PRId64, s->num_bits);
}
static pf_status args(pf_ctx *c, const void *state) {
  const fake_state *s = state;
  PF_TRY(check_bits(c, s));
  if (!(s->min < s->max))
    return PF_INVALID(c, "min has to be smaller than max, was: %g >= %g", s->min, s->max);
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  PF_EXHAUSTED(y);
  return snap_all(c, nudge((float)s->min, (float)s->max, s->num_bits, s->narrow_range), y);
}
static pf_status args_gradient(pf_ctx *c, const void *state) {
  const fake_state *s = state;
  const DLTensor *dy = c->in[0], *x = c->in[1];
  PF_TRY(check_bits(c, s));
  if (!(s->min < s->max))
    return PF_INVALID(c, "min has to be smaller than max, was: %g >= %g", s->min, s->max);
  if (!pf_same_shape(dy, x))
    return PF_INVALID(c, "gradient and input must be the same size: %s and %s", PF_SHAPE(dy).s,
                      PF_SHAPE(x).s);
  DLTensor *dx = pf_output_like(c, 0, x);
  PF_EXHAUSTED(dx);
  grid g = nudge((float)s->min, (float)s->max, s->num_bits, s->narrow_range);
  for (int64_t i = 0, n = pf_numel(dx); i < n; i++) {
    float v = PF_DATA(const float, x)[i];
    PF_DATA(float, dx)[i] = v >= g.low && v <= g.high ? PF_DATA(const float, dy)[i] : 0.0f;
  }
  return PF_OK;
}
/* the ranges of `depth` channels: the last dimension, or one for all */
static pf_status ranges(pf_ctx *c, const fake_state *s, int32_t in, int channels, grid **g,
                        int64_t *depth) {
  const DLTensor *x = c->in[in], *lo = c->in[in + 1], *hi = c->in[in + 2];
  PF_TRY(check_bits(c, s));
  if (channels && x->ndim < 1) return PF_INVALID(c, "inputs must have rank >= 1, got a scalar");
  *depth = channels ? x->shape[x->ndim - 1] : 1;
  int32_t rank = channels;
  if (lo->ndim != rank || hi->ndim != rank || pf_numel(lo) != *depth || pf_numel(hi) != *depth)
    return PF_INVALID(c, "min and max must be %s, got shapes %s and %s for inputs %s",
                      channels ? "vectors, one element per channel" : "scalars", PF_SHAPE(lo).s,
                      PF_SHAPE(hi).s, PF_SHAPE(x).s);
  *g = c->host->scratch(c, (uint64_t)*depth * sizeof(grid) + 8, 64);
  PF_EXHAUSTED(*g);
  for (int64_t k = 0; k < *depth; k++) {
    float a = PF_DATA(const float, lo)[k], b = PF_DATA(const float, hi)[k];
    (*g)[k] = a == 0 && b == 0 ? (grid){0, 0, 0} : nudge(a, b, s->num_bits, s->narrow_range);
  }
  return PF_OK;
}
static pf_status vars_of(pf_ctx *c, const fake_state *s, int channels) {
  grid *g;
  int64_t depth;
  PF_TRY(ranges(c, s, 0, channels, &g, &depth));
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  PF_EXHAUSTED(y);
  if (!channels && g->step != 0) return snap_all(c, *g, y);
  for (int64_t i = 0, k = 0, n = pf_numel(y); i < n; i++, k = k + 1 < depth ? k + 1 : 0)
    PF_DATA(float, y)[i] = g[k].step == 0 ? 0.0f : snap(PF_DATA(const float, c->in[0])[i], &g[k]);
  return PF_OK;
}
static pf_status vars_gradient_of(pf_ctx *c, const fake_state *s, int channels) {
  const DLTensor *dy = c->in[0], *x = c->in[1];
  grid *g;
  int64_t depth;
  PF_TRY(ranges(c, s, 1, channels, &g, &depth));
  if (!pf_same_shape(dy, x))
    return PF_INVALID(c, "gradient and input must be the same size: %s and %s", PF_SHAPE(dy).s,
                      PF_SHAPE(x).s);
  DLTensor *dx = pf_output_like(c, 0, x), *dlo, *dhi;
  PF_EXHAUSTED(dx);
  dlo = pf_output_like(c, 1, c->in[2]);
  PF_EXHAUSTED(dlo);
  dhi = pf_output_like(c, 2, c->in[3]);
  PF_EXHAUSTED(dhi);
  double *sums = c->host->scratch(c, (uint64_t)depth * 16 + 16, 64);
  PF_EXHAUSTED(sums);
  for (int64_t k = 0; k < 2 * depth; k++) sums[k] = 0;
  for (int64_t i = 0, n = pf_numel(x); i < n; i++) {
    const grid *k = &g[i % depth];
    float v = PF_DATA(const float, x)[i], d = PF_DATA(const float, dy)[i];
    int below = k->step != 0 && v < k->low, above = k->step != 0 && v > k->high;
    PF_DATA(float, dx)[i] = below || above ? 0.0f : d;
    if (below) sums[i % depth] += d;
    if (above) sums[depth + i % depth] += d;
  }
  for (int64_t k = 0; k < depth; k++)
    PF_DATA(float, dlo)[k] = (float)sums[k], PF_DATA(float, dhi)[k] = (float)sums[depth + k];
  return PF_OK;
}
static pf_status vars(pf_ctx *c, const void *s) { return vars_of(c, s, 0); }
static pf_status per_channel(pf_ctx *c, const void *s) { return vars_of(c, s, 1); }
static pf_status vars_gradient(pf_ctx *c, const void *s) { return vars_gradient_of(c, s, 0); }
static pf_status per_channel_gradient(pf_ctx *c, const void *s) {
  return vars_gradient_of(c, s, 1);
}

/* ---------------------------------------------------------------- QuantizeAndDequantize */
typedef struct {
  int64_t num_bits, axis;
  int32_t signed_input, range_given, narrow_range;
  double input_min, input_max;
  pf_str round_mode;
} qd_state;
/* One slice of `n` elements, `step` apart in runs of `inner`: float32 arithmetic for float32, as
 * TF's. */
typedef struct { double low, high, scale, inverse; } qd_range;
static qd_range qd_fit(const qd_state *s, double min, double max, int32_t type) {
  double lowest = s->signed_input ? -(double)(1LL << (s->num_bits - 1)) : 0;
  double highest = s->signed_input ? (double)(1LL << (s->num_bits - 1)) - 1
                                   : (double)((1ULL << (s->num_bits - 1)) * 2.0 - 1);
  if (s->signed_input && s->narrow_range) lowest += 1;
  double a = lowest * min > 0 ? lowest / min : INFINITY,
         b = highest * max > 0 ? highest / max : INFINITY;
  qd_range r = {min, max, 0, 0};
  if (type == PF_FLOAT32) a = (float)a, b = (float)b;
  if (a < b) r.scale = a, r.inverse = min / lowest, r.high = highest * r.inverse;
  else r.scale = b, r.inverse = max / highest, r.low = lowest * r.inverse;
  if (type == PF_FLOAT32)
    r = (qd_range){(float)r.low, (float)r.high, (float)r.scale, (float)r.inverse};
  return r;
}
static pf_status qd(pf_ctx *c, const qd_state *s, const double *given_min, const double *given_max,
                    const DLTensor *tmin, const DLTensor *tmax, int64_t axis) {
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0],
          up = s->round_mode.len == 7 && !memcmp(s->round_mode.data, "HALF_UP", 7);
  int64_t depth = 1, inner = 1;
  if (s->num_bits < 1 || s->num_bits > 63 || (s->signed_input && s->num_bits < 2))
    return PF_INVALID(c, "num_bits is out of range: %" PRId64 " with signed_input %s", s->num_bits,
                      s->signed_input ? "true" : "false");
  if (axis < -1 || axis >= x->ndim)
    return PF_INVALID(c, "Axis %" PRId64 " must be -1 or less than the rank of input %s", axis,
                      PF_SHAPE(x).s);
  if (axis >= 0) depth = x->shape[axis], inner = pf_product(x->shape, (int32_t)axis + 1, x->ndim);
  if (tmin && s->range_given &&
      (pf_numel(tmin) != depth || pf_numel(tmax) != depth || tmin->ndim > 1 || tmax->ndim > 1))
    return PF_INVALID(
        c, "input_min and input_max must have %" PRId64 " elements, got shapes %s and %s", depth,
        PF_SHAPE(tmin).s, PF_SHAPE(tmax).s);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  int64_t n = pf_numel(x), outer = n / PF_MAX(depth * inner, 1);
  for (int64_t k = 0; k < depth; k++) {
    double min = INFINITY, max = -INFINITY;
#define EACH(at) \
  for (int64_t o = 0; o < (axis < 0 ? 1 : outer); o++) \
    for (int64_t j = 0, at = axis < 0 ? 0 : (o * depth + k) * inner; j < (axis < 0 ? n : inner); j++, at++)
    if (s->range_given) {
      min = given_min ? *given_min : get(tmin, type, k);
      max = given_max ? *given_max : get(tmax, type, k);
      if (!(min <= max))
        return PF_INVALID(c, "Invalid range: input_min %g > input_max %g", min, max);
    } else {
      EACH(at) {
        double v = get(x, type, at);
        min = PF_MIN(min, v), max = PF_MAX(max, v);
      }
      if (n == 0) break;
    }
    qd_range r = qd_fit(s, min, max, type);
    EACH(at) {
      double v = get(x, type, at);
      v = v < r.low ? r.low : v > r.high ? r.high : v;
      v *= r.scale;
      if (type == PF_FLOAT32) v = (float)v;
      put(y, type, at, (up ? floor(v + 0.5) : nearbyint(v)) * r.inverse);
    }
  }
  return PF_OK;
}
static pf_status qd_v1(pf_ctx *c, const void *state) {
  const qd_state *s = state;
  if (s->range_given && !(s->input_min <= s->input_max))
    return PF_INVALID(c, "Invalid range: input_min %g > input_max %g", s->input_min, s->input_max);
  return qd(c, s, &s->input_min, &s->input_max, NULL, NULL, -1);
}
static pf_status qd_v2(pf_ctx *c, const void *state) {
  const qd_state *s = state;
  return qd(c, s, NULL, NULL, c->in[1], c->in[2], s->axis);
}
static pf_status qd_v3(pf_ctx *c, const void *state) {
  qd_state s = *(const qd_state *)state;
  PF_TRY(pf_in_scalar(c, 3, "num_bits", &s.num_bits));
  return qd(c, &s, NULL, NULL, c->in[1], c->in[2], s.axis);
}

#define BITS PF_ATTR(fake_state, PF_ATTR_INT, num_bits), PF_ATTR(fake_state, PF_ATTR_BOOL, narrow_range)
#define ARGS PF_ATTR(fake_state, PF_ATTR_FLOAT, min), PF_ATTR(fake_state, PF_ATTR_FLOAT, max), BITS
#define FAKE(op, f, ...) \
  PF_CPU("FakeQuantWithMinMax" op, NULL, .compute = f, .state_size = sizeof(fake_state), \
         .attrs = PF_ATTRS(__VA_ARGS__))
#define QD(kind, f) PF_ATTR(qd_state, kind, f)
const pf_kernel *const quantize_kernels[] = {
  FAKE("Args", args, ARGS),
  FAKE("ArgsGradient", args_gradient, ARGS),
  FAKE("Vars", vars, BITS),
  FAKE("VarsGradient", vars_gradient, BITS),
  FAKE("VarsPerChannel", per_channel, BITS),
  FAKE("VarsPerChannelGradient", per_channel_gradient, BITS),
  PF_CPU("QuantizeAndDequantize", "T=" PF_FLOATS, .compute = qd_v1, .state_size = sizeof(qd_state),
         .attrs = PF_ATTRS(QD(PF_ATTR_INT, num_bits), QD(PF_ATTR_BOOL, signed_input),
                           QD(PF_ATTR_BOOL, range_given), QD(PF_ATTR_FLOAT, input_min),
                           QD(PF_ATTR_FLOAT, input_max))),
  PF_CPU("QuantizeAndDequantizeV2", "T=" PF_FLOATS, .compute = qd_v2,
         .state_size = sizeof(qd_state),
         .attrs = PF_ATTRS(QD(PF_ATTR_INT, num_bits), QD(PF_ATTR_INT, axis),
                           QD(PF_ATTR_BOOL, signed_input), QD(PF_ATTR_BOOL, range_given),
                           QD(PF_ATTR_BOOL, narrow_range), QD(PF_ATTR_STRING, round_mode))),
  PF_CPU("QuantizeAndDequantizeV3", "T=" PF_FLOATS, .compute = qd_v3,
         .state_size = sizeof(qd_state),
         .attrs = PF_ATTRS(QD(PF_ATTR_INT, axis), QD(PF_ATTR_BOOL, signed_input),
                           QD(PF_ATTR_BOOL, range_given), QD(PF_ATTR_BOOL, narrow_range))),
  NULL};
