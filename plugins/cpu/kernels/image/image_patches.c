/* image_patches.c - ExtractImagePatches, ExtractVolumePatches, ExtractGlimpse, ExtractGlimpseV2.
 *
 *     patches[b, y, x, (ky, kx, k)] = image[b, y * sy + ky * ry - top, x * sx + kx * rx - left, k]
 *
 * An image is a volume of depth one.  What lies outside is zero.  A glimpse is one window per
 * image, at a place of its own; outside it holds noise: between the image's least and largest value
 * (uniform), of the image's mean and deviation (gaussian), or zero.  The noise is a function of the
 * position alone, so that equal inputs give equal glimpses.
 *
 * Invariants: window coordinates are computed in int64 from sizes below 2^31.
 * Threads: parallel_for over rows of patches, and over glimpses.
 */
#include "base/common.h"

/* ---------------------------------------------------------------- patches */
typedef struct {
  pf_list ksizes, strides, rates;
  pf_str padding;
} patch_state;
typedef struct {
  int64_t in[3], out[3], k[3], stride[3], rate[3], before[3];
  int64_t pixel; /* bytes */
  const char *x;
  char *y;
} patch_job;

static pf_status numbers_of(pf_ctx *c, const pf_list *list, const char *name, int volume,
                            int64_t *out) {
  const int64_t *v = list->items;
  int n = volume ? 5 : 4;
  if (list->n != n)
    return PF_INVALID(c, "%s must have %d elements, got %" PRId64, name, n, list->n);
  if (v[0] != 1 || v[n - 1] != 1)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "Only support ksizes across space: the first and last "
                    "of %s must be 1",
                    name);
  for (int i = 1; i < n - 1; i++)
    if (v[i] < 1 || v[i] > INT32_MAX)
      return PF_INVALID(c, "%s must be positive, got %" PRId64, name, v[i]);
  out[0] = volume ? v[1] : 1;
  out[1] = v[n - 3], out[2] = v[n - 2];
  return PF_OK;
}

static void patch_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const patch_job *j = arg;
  int64_t patch = j->k[0] * j->k[1] * j->k[2] * j->pixel;
  for (int64_t r = lo; r < hi; r++) { /* r = (b * depth + z) * height + y */
    int64_t y = r % j->out[1], z = r / j->out[1] % j->out[0], b = r / j->out[1] / j->out[0];
    char *o = j->y + r * j->out[2] * patch;
    for (int64_t x = 0; x < j->out[2]; x++)
      for (int64_t kz = 0; kz < j->k[0]; kz++)
        for (int64_t ky = 0; ky < j->k[1]; ky++) {
          int64_t iz = z * j->stride[0] + kz * j->rate[0] - j->before[0];
          int64_t iy = y * j->stride[1] + ky * j->rate[1] - j->before[1];
          int row = iz >= 0 && iz < j->in[0] && iy >= 0 && iy < j->in[1];
          for (int64_t kx = 0; kx < j->k[2]; kx++, o += j->pixel) {
            int64_t ix = x * j->stride[2] + kx * j->rate[2] - j->before[2];
            int64_t at = ((b * j->in[0] + iz) * j->in[1] + iy) * j->in[2] + ix;
            if (row && ix >= 0 && ix < j->in[2]) memcpy(o, j->x + at * j->pixel, (size_t)j->pixel);
            else memset(o, 0, (size_t)j->pixel);
          }
        }
  }
}

static pf_status patches(pf_ctx *c, const patch_state *s, int volume) {
  const DLTensor *x = c->in[0];
  int32_t nd = volume ? 5 : 4;
  patch_job j = {.rate = {1, 1, 1}, .x = PF_DATA(const char, x)};
  int same = s->padding.len == 4; /* SAME, else VALID */
  if (x->ndim != nd)
    return PF_INVALID(c, "input must be %d-dimensional, got shape %s", nd, PF_SHAPE(x).s);
  PF_TRY(numbers_of(c, &s->ksizes, "ksizes", volume, j.k));
  PF_TRY(numbers_of(c, &s->strides, "strides", volume, j.stride));
  if (!volume) PF_TRY(numbers_of(c, &s->rates, "rates", volume, j.rate));
  int64_t ch = x->shape[nd - 1], depth = ch;
  for (int i = 0; i < 3; i++) {
    j.in[i] = i == 0 && !volume ? 1 : x->shape[i + nd - 4];
    int64_t span = (j.k[i] - 1) * j.rate[i] + 1; /* both below 2^31 */
    if (j.in[i] > INT32_MAX) return PF_INVALID(c, "input is too large: %s", PF_SHAPE(x).s);
    if (!same && j.in[i] - span + j.stride[i] < 0) /* none at all, as in convolutions */
      return PF_INVALID(c, "a window of %" PRId64 " does not fit into %s with padding VALID", span,
                        PF_SHAPE(x).s);
    j.out[i] = same ? (j.in[i] + j.stride[i] - 1) / j.stride[i]
                    : (j.in[i] - span + j.stride[i]) / j.stride[i];
    if (same) j.before[i] = PF_MAX((j.out[i] - 1) * j.stride[i] + span - j.in[i], 0) / 2;
    if (!pf_mul(depth, j.k[i], &depth)) return PF_INVALID(c, "ksizes are too large");
  }
  int64_t wide[5] = {x->shape[0], j.out[0], j.out[1], j.out[2], depth};
  int64_t flat[4] = {x->shape[0], j.out[1], j.out[2], depth};
  DLTensor *y = pf_output_checked(c, 0, volume ? wide : flat, nd);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  j.pixel = ch * pf_type_size(c->in_type[0]);
  j.y = PF_DATA(char, y);
  return pf_parallel(c, x->shape[0] * j.out[0] * j.out[1], pf_grain(j.out[2] * depth), patch_rows,
                     &j);
}
static pf_status image_patches(pf_ctx *c, const void *s) { return patches(c, s, 0); }
static pf_status volume_patches(pf_ctx *c, const void *s) { return patches(c, s, 1); }

/* ---------------------------------------------------------------- glimpses */
enum { UNIFORM, GAUSSIAN, ZERO };
typedef struct {
  int32_t centered, normalized, uniform;
  pf_str noise;
  int kind;
} glimpse_state;
typedef struct {
  const glimpse_state *s;
  int version;
  int64_t h, w, ch, gh, gw;
  const float *x, *offsets;
  float *y;
} glimpse_job;

static pf_status glimpse_init(pf_ctx *c, void *state) {
  glimpse_state *s = state;
  pf_str n = s->noise;
  if (n.len == 0) s->kind = s->uniform ? UNIFORM : GAUSSIAN;
  else if (n.len == 7 && !memcmp(n.data, "uniform", 7)) s->kind = UNIFORM;
  else if (n.len == 8 && !memcmp(n.data, "gaussian", 8)) s->kind = GAUSSIAN;
  else if (n.len == 4 && !memcmp(n.data, "zero", 4)) s->kind = ZERO;
  else
    return PF_INVALID(c, "The noise should be uniform, gaussian or zero, got '%.*s'",
                      (int)PF_MIN(n.len, 100), n.data);
  if (s->uniform && n.len && s->kind != UNIFORM)
    return PF_INVALID(c, "The uniform_noise and noise should not be specified at the same time");
  return PF_OK;
}

static uint64_t mixed(uint64_t x) { /* splitmix64 (Vigna): bits from a position */
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}
static double unit(uint64_t x) { return (double)(mixed(x) >> 11) * 0x1p-53; }
static float noise_at(const glimpse_job *j, uint64_t at, double low, double scale) {
  if (j->s->kind == ZERO) return 0;
  if (j->s->kind == UNIFORM) return (float)(low + scale * unit(at));
  double r = sqrt(-2 * log(1 - unit(2 * at))), angle = 6.283185307179586 * unit(2 * at + 1);
  return (float)(low + scale * r * cos(angle));
}

/* the channel's least value and range, or mean and deviation */
static void noise_of(const glimpse_job *j, int64_t b, int64_t k, double *low, double *scale) {
  const float *x = j->x + b * j->h * j->w * j->ch + k;
  int64_t n = j->h * j->w;
  double least = INFINITY, most = -INFINITY, sum = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = (double)x[i * j->ch];
    least = PF_MIN(least, v), most = PF_MAX(most, v), sum += v, squares += v * v;
  }
  double mean = sum / (double)PF_MAX(n, 1), spread = squares / (double)PF_MAX(n, 1) - mean * mean;
  *low = n == 0 ? 0 : j->s->kind == UNIFORM ? least : mean;
  *scale = n == 0 ? 0 : j->s->kind == UNIFORM ? most - least : sqrt(PF_MAX(spread, 0));
}

/* the first row (or column) of a glimpse; far outside where the offset is no number.  The offset
 * is the window's middle, but for version 2's corner unless it is centered and normalized */
static int64_t first_of(const glimpse_job *j, float offset, int64_t in, int64_t size) {
  double at = (double)offset;
  int both = j->s->centered && j->s->normalized;
  if (j->s->normalized) at *= (double)in;
  if (j->s->centered) at = (j->version == 1 || both ? at / 2 : at) + (double)in / 2;
  if (j->version == 1 || both) at -= (double)size / 2;
  return at > -1e9 && at < 1e9 ? (int64_t)at : -4000000000;
}

static void glimpses(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const glimpse_job *j = arg;
  for (int64_t b = lo; b < hi; b++) {
    int64_t top = first_of(j, j->offsets[2 * b], j->h, j->gh);
    int64_t left = first_of(j, j->offsets[2 * b + 1], j->w, j->gw);
    int all = top >= 0 && left >= 0 && top + j->gh <= j->h && left + j->gw <= j->w;
    for (int64_t k = 0; k < j->ch; k++) {
      double low = 0, scale = 0;
      if (!all && j->s->kind != ZERO) noise_of(j, b, k, &low, &scale);
      for (int64_t y = 0; y < j->gh; y++)
        for (int64_t x = 0; x < j->gw; x++) {
          int64_t iy = top + y, ix = left + x, at = ((b * j->gh + y) * j->gw + x) * j->ch + k;
          int in = iy >= 0 && iy < j->h && ix >= 0 && ix < j->w;
          j->y[at] = in ? j->x[((b * j->h + iy) * j->w + ix) * j->ch + k]
                        : noise_at(j, (uint64_t)at, low, scale);
        }
    }
  }
}

static pf_status glimpse(pf_ctx *c, const void *state, int version) {
  const DLTensor *x = c->in[0], *size = c->in[1], *offsets = c->in[2];
  glimpse_job j = {.s = state,
                   .version = version,
                   .x = PF_DATA(const float, x),
                   .offsets = PF_DATA(const float, offsets)};
  if (x->ndim != 4) return PF_INVALID(c, "input must be 4-dimensional, got %s", PF_SHAPE(x).s);
  if (size->ndim != 1 || size->shape[0] != 2)
    return PF_INVALID(c, "size must have two elements, got shape %s", PF_SHAPE(size).s);
  j.gh = PF_DATA(const int32_t, size)[0], j.gw = PF_DATA(const int32_t, size)[1];
  if (j.gh < 1 || j.gw < 1)
    return PF_INVALID(c, "the glimpse size must be positive, got %" PRId64 " x %" PRId64, j.gh,
                      j.gw);
  if (offsets->ndim != 2 || offsets->shape[0] != x->shape[0] || offsets->shape[1] != 2)
    return PF_INVALID(c, "offsets must be [batch, 2], got shape %s beside input %s",
                      PF_SHAPE(offsets).s, PF_SHAPE(x).s);
  j.h = x->shape[1], j.w = x->shape[2], j.ch = x->shape[3];
  DLTensor *y = pf_output_checked(c, 0, (int64_t[]){x->shape[0], j.gh, j.gw, j.ch}, 4);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  j.y = PF_DATA(float, y);
  return pf_parallel(c, x->shape[0], pf_grain(j.gh * j.gw * j.ch), glimpses, &j);
}
static pf_status glimpse_v1(pf_ctx *c, const void *s) { return glimpse(c, s, 1); }
static pf_status glimpse_v2(pf_ctx *c, const void *s) { return glimpse(c, s, 2); }

#define LIST(name) PF_ATTR(patch_state, PF_ATTR_INT | PF_ATTR_LIST, name)
#define PATCHES(op, types, fn, ...) \
  PF_CPU_FLAGS(op, types, FLAGS, .compute = fn, .state_size = sizeof(patch_state), \
               .attrs = PF_ATTRS(LIST(ksizes), LIST(strides), __VA_ARGS__ \
                                 PF_ATTR(patch_state, PF_ATTR_STRING, padding)))
#define GLIMPSE(op, fn) \
  PF_CPU_FLAGS(op, NULL, FLAGS, .init = glimpse_init, .compute = fn, \
               .state_size = sizeof(glimpse_state), \
               .attrs = PF_ATTRS(PF_ATTR(glimpse_state, PF_ATTR_BOOL, centered), \
                                 PF_ATTR(glimpse_state, PF_ATTR_BOOL, normalized), \
                                 PF_REF(pf_attr, "uniform_noise", PF_ATTR_BOOL, \
                                        offsetof(glimpse_state, uniform)), \
                                 PF_ATTR(glimpse_state, PF_ATTR_STRING, noise)))
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ELEMENTS "T=" PF_NUMBERS
const pf_kernel *const image_patches_kernels[] = {
  PATCHES("ExtractImagePatches", ELEMENTS "|bool", image_patches, LIST(rates), ),
  PATCHES("ExtractVolumePatches", "T=" PF_REAL, volume_patches),
  GLIMPSE("ExtractGlimpse", glimpse_v1), GLIMPSE("ExtractGlimpseV2", glimpse_v2), NULL};
