/* image_color.c - RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation, AdjustContrastv2.
 *
 *     v = max(r, g, b)     s = (v - min) / v     h = sixths of the colour circle, in [0, 1)
 *
 * Hue is changed in the form (hexagon position, min, max), which needs no division by v, so that
 * colours outside [0, 1] survive it, as in TF.  Halves are computed as floats and rounded once.
 *
 * Invariants: NaN and infinity give NaN or some colour, never an endless loop or a wild index.
 * Threads: parallel_for over pixels; contrast: over images.
 */
#include "base/common.h"
#include "base/isa.h"

/* ---------------------------------------------------------------- one pixel */
#define COLOR_SPACES(T, TAG, FABS) \
  PF_INLINE void hsv_of_##TAG(const T *p, T *o) { \
    T r = p[0], g = p[1], b = p[2]; \
    T v = PF_MAX(PF_MAX(r, g), b), range = v - PF_MIN(PF_MIN(r, g), b), norm = 1 / (6 * range); \
    T h = r == v ? norm * (g - b) : g == v ? norm * (b - r) + (T)(2.0 / 6.0) \
                                           : norm * (r - g) + (T)(4.0 / 6.0); \
    h = range > 0 ? h : 0; \
    o[0] = h < 0 ? h + 1 : h; \
    o[1] = v > 0 ? range / v : 0; \
    o[2] = v; \
  } \
  PF_INLINE T ramp_##TAG(T x) { return x < 0 ? 0 : x > 1 ? 1 : x; } \
  PF_INLINE void rgb_of_##TAG(const T *p, T *o) { \
    T h = p[0] * 6, s = p[1], v = p[2]; \
    T r = ramp_##TAG(FABS(h - 3) - 1), g = ramp_##TAG(2 - FABS(h - 2)); \
    T b = ramp_##TAG(2 - FABS(h - 4)); \
    o[0] = (1 - s + s * r) * v; \
    o[1] = (1 - s + s * g) * v; \
    o[2] = (1 - s + s * b) * v; \
  }
COLOR_SPACES(float, f32, fabsf)
COLOR_SPACES(double, f64, fabs)

/* hue as a position on the hexagon, [0, 6): which component is largest, where the middle lies */
static void turn_hue(const float *p, float turn, float *o) {
  float hi = PF_MAX(PF_MAX(p[0], p[1]), p[2]), lo = PF_MIN(PF_MIN(p[0], p[1]), p[2]);
  float range = hi - lo, h = 0;
  if (range > 0) {
    if (p[0] == hi) h = p[1] >= p[2] ? (p[1] - lo) / range : 6 - (p[2] - lo) / range;
    else if (p[1] == hi) h = p[2] >= p[0] ? 2 + (p[2] - lo) / range : 2 - (p[0] - lo) / range;
    else h = p[0] >= p[1] ? 4 + (p[0] - lo) / range : 4 - (p[1] - lo) / range;
  }
  h = fmodf(h + turn, 6);
  h = h < 0 ? h + 6 : h;
  int side = h >= 0 && h < 6 ? (int)h : 0;
  float part = h - (float)side, mid = lo + (side & 1 ? 1 - part : part) * range;
  static const int top[6] = {0, 1, 1, 2, 2, 0}, middle[6] = {1, 0, 2, 1, 0, 2};
  o[0] = o[1] = o[2] = lo;
  o[top[side]] = hi;
  o[middle[side]] = mid;
}

static void saturate(const float *p, float scale, float *o) {
  float hsv[3];
  hsv_of_f32(p, hsv);
  hsv[1] = ramp_f32(hsv[1] * scale);
  rgb_of_f32(hsv, o);
}

/* ---------------------------------------------------------------- all pixels */
enum { TO_HSV, TO_RGB, HUE, SATURATION };
typedef struct {
  const void *in;
  void *out;
  float amount;
  int what;
  int32_t type;
} job;

static void one_pixel(const job *j, const float *p, float *o) {
  switch (j->what) {
    case TO_HSV: hsv_of_f32(p, o); break;
    case TO_RGB: rgb_of_f32(p, o); break;
    case HUE: turn_hue(p, j->amount, o); break;
    default: saturate(p, j->amount, o);
  }
}
static void pixels(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  float wide[3], made[3];
  for (int64_t i = lo; i < hi; i++) {
    if (j->type == PF_FLOAT64) {
      const double *p = (const double *)j->in + 3 * i;
      double *o = (double *)j->out + 3 * i;
      if (j->what == TO_HSV) hsv_of_f64(p, o);
      else rgb_of_f64(p, o);
    } else if (j->type == PF_FLOAT32) {
      one_pixel(j, (const float *)j->in + 3 * i, made);
      memcpy((float *)j->out + 3 * i, made, sizeof made);
    } else {
      pf_half_to_float(j->type, (const uint16_t *)j->in + 3 * i, wide, 3);
      one_pixel(j, wide, made);
      pf_float_to_half(j->type, made, (uint16_t *)j->out + 3 * i, 3);
    }
  }
}

static pf_status convert(pf_ctx *c, int what, float amount, int32_t least) {
  const DLTensor *x = c->in[0];
  if (x->ndim < least)
    return PF_INVALID(c, "input must be at least %d-D, got shape %s", least, PF_SHAPE(x).s);
  if (x->shape[x->ndim - 1] != 3)
    return PF_INVALID(c, "input must have 3 channels but instead has %" PRId64 " channels.",
                      x->shape[x->ndim - 1]);
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  job j = {PF_DATA(const void, x), PF_DATA(void, y), amount, what, c->in_type[0]};
  return pf_parallel(c, pf_numel(x) / 3, pf_grain(24), pixels, &j);
}
static pf_status rgb_to_hsv(pf_ctx *c, const void *s) { return convert(c, TO_HSV, 0, 1); }
static pf_status hsv_to_rgb(pf_ctx *c, const void *s) { return convert(c, TO_RGB, 0, 1); }

static pf_status amount_of(pf_ctx *c, const char *name, float *out) {
  const DLTensor *t = c->in[1];
  if (t->ndim != 0) return PF_INVALID(c, "%s must be scalar: %s", name, PF_SHAPE(t).s);
  *out = PF_DATA(const float, t)[0];
  return PF_OK;
}
static pf_status adjust_hue(pf_ctx *c, const void *s) {
  float delta;
  PF_TRY(amount_of(c, "delta", &delta));
  return convert(c, HUE, fmodf(delta, 1) * 6, 3);
}
static pf_status adjust_saturation(pf_ctx *c, const void *s) {
  float scale;
  PF_TRY(amount_of(c, "scale", &scale));
  return convert(c, SATURATION, scale, 3);
}

/* ---------------------------------------------------------------- contrast */
typedef struct {
  const void *in;
  void *out;
  double *mean;  /* one per channel and worker */
  int64_t n, ch; /* pixels of an image, channels */
  float factor;
  int32_t type;
} contrast_job;

/* Channels of neighbouring pixels, LANES pixels at a time: their sums, and what becomes of them.
 * Inlined with the number of channels known, both are vector loops. */
enum { LANES = 16 };
PF_INLINE void mean_of(const float *x, int64_t n, int64_t ch, double *mean) {
  double sum[4 * LANES] = {0};
  int64_t i = 0, step = ch * LANES, all = n * ch;
  if (ch <= 4)
    for (; i + step <= all; i += step)
      for (int64_t k = 0; k < step; k++) sum[k] += (double)x[i + k];
  for (int64_t k = 0; k < ch; k++) mean[k] = 0;
  for (int64_t m = 0; m < LANES && ch <= 4; m++)
    for (int64_t k = 0; k < ch; k++) mean[k] += sum[m * ch + k];
  for (; i < all; i += ch)
    for (int64_t k = 0; k < ch; k++) mean[k] += (double)x[i + k];
  for (int64_t k = 0; k < ch; k++) mean[k] /= (double)n;
}
PF_INLINE void stretch(const float *x, int64_t n, int64_t ch, const double *mean, float factor,
                       float *y) {
  float m[4 * LANES];
  int64_t i = 0, step = ch * LANES, all = n * ch;
  if (ch <= 4) {
    for (int64_t k = 0; k < step; k++) m[k] = (float)mean[k % ch];
    for (; i + step <= all; i += step)
      for (int64_t k = 0; k < step; k++) y[i + k] = (x[i + k] - m[k]) * factor + m[k];
  }
  for (; i < all; i += ch)
    for (int64_t k = 0; k < ch; k++)
      y[i + k] = (x[i + k] - (float)mean[k]) * factor + (float)mean[k];
}
static void contrast_floats(const contrast_job *j, const float *x, double *mean, float *y) {
  if (j->ch == 3) mean_of(x, j->n, 3, mean), stretch(x, j->n, 3, mean, j->factor, y);
  else if (j->ch == 1) mean_of(x, j->n, 1, mean), stretch(x, j->n, 1, mean, j->factor, y);
  else mean_of(x, j->n, j->ch, mean), stretch(x, j->n, j->ch, mean, j->factor, y);
}
static void contrast_halves(const contrast_job *j, const uint16_t *x, double *mean, uint16_t *y) {
  memset(mean, 0, (size_t)j->ch * 8);
  for (int64_t i = 0; i < j->n; i++)
    for (int64_t k = 0; k < j->ch; k++) mean[k] += (double)pf_from_half(x[i * j->ch + k]);
  for (int64_t k = 0; k < j->ch; k++) mean[k] /= (double)j->n;
  for (int64_t i = 0; i < j->n; i++)
    for (int64_t k = 0; k < j->ch; k++) {
      float m = (float)mean[k], v = pf_from_half(x[i * j->ch + k]);
      y[i * j->ch + k] = pf_to_half((v - m) * j->factor + m);
    }
}
static void contrast_images(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const contrast_job *j = arg;
  double *mean = j->mean + worker * j->ch;
  int64_t all = j->n * j->ch;
  for (int64_t b = lo; b < hi; b++)
    if (j->type == PF_FLOAT32)
      contrast_floats(j, (const float *)j->in + b * all, mean, (float *)j->out + b * all);
    else contrast_halves(j, (const uint16_t *)j->in + b * all, mean, (uint16_t *)j->out + b * all);
}
static pf_status adjust_contrast(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  contrast_job j = {.type = c->in_type[0]};
  if (x->ndim < 3) return PF_INVALID(c, "input must be at least 3-D, got shape %s", PF_SHAPE(x).s);
  PF_TRY(amount_of(c, "contrast_factor", &j.factor));
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  int64_t all = pf_numel(x);
  if (all == 0) return PF_OK;
  j.ch = x->shape[x->ndim - 1];
  j.n = x->shape[x->ndim - 2] * x->shape[x->ndim - 3];
  j.in = PF_DATA(const void, x), j.out = PF_DATA(void, y);
  j.mean = c->host->scratch(c, (uint64_t)(j.ch * c->host->workers(c)) * 8, 64);
  if (!j.mean) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the means");
  return pf_parallel(c, all / (j.n * j.ch), 1, contrast_images, &j);
}

#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
const pf_kernel *const PF_ISA_NAME(image_color_kernels)[] = {
  PF_CPU_FLAGS("RGBToHSV", "T=half|bfloat16|float|double", FLAGS, .compute = rgb_to_hsv),
  PF_CPU_FLAGS("HSVToRGB", "T=half|bfloat16|float|double", FLAGS, .compute = hsv_to_rgb),
  PF_CPU_FLAGS("AdjustHue", "T=half|float", FLAGS, .compute = adjust_hue),
  PF_CPU_FLAGS("AdjustSaturation", "T=half|float", FLAGS, .compute = adjust_saturation),
  PF_CPU_FLAGS("AdjustContrastv2", "T=half|float", FLAGS, .compute = adjust_contrast),
  NULL};
