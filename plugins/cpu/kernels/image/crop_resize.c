/* crop_resize.c - CropAndResize and its gradients with respect to the image and to the boxes.
 *
 * A box [y1, x1, y2, x2] is in units of the image's height and width minus one.  Sample (i, j) of a
 * crop lies at y1 (h-1) + i (y2-y1) (h-1) / (crop_h-1), or in the middle of the box for a crop of
 * one row; what lies outside the image, NaN included, takes the extrapolation value.
 *
 * Invariants: box indices are checked before use; pixel indices come only from points inside.
 * Threads: parallel_for over boxes; the image's gradient is summed by one thread.
 */
#include "base/common.h"

typedef struct {
  pf_str method;
  double extrapolation;
  int32_t nearest;
} crop_state;
typedef struct {
  const crop_state *s;
  const DLTensor *image;
  const float *boxes, *dy;
  const int32_t *owner;
  int64_t n, h, w, ch, oh, ow; /* boxes; the image; a crop */
  int32_t type;
  void *out;
} job;

static pf_status crop_init(pf_ctx *c, void *state) {
  crop_state *s = state;
  s->nearest = s->method.len == 7;
  return PF_OK;
}

/* ---------------------------------------------------------------- checks */
static pf_status boxes_of(pf_ctx *c, int32_t in, int64_t batch, job *j) {
  const DLTensor *boxes = c->in[in], *owner = c->in[in + 1];
  if (pf_numel(boxes) == 0 && pf_numel(owner) == 0) {
    j->n = 0;
    return PF_OK;
  }
  if (boxes->ndim != 2 || boxes->shape[1] != 4)
    return PF_INVALID(c, "boxes must be 2-D [boxes, 4], got shape %s", PF_SHAPE(boxes).s);
  if (owner->ndim != 1 || owner->shape[0] != boxes->shape[0])
    return PF_INVALID(c, "box_index %s must have one element for each of the boxes %s",
                      PF_SHAPE(owner).s, PF_SHAPE(boxes).s);
  j->n = boxes->shape[0];
  j->boxes = PF_DATA(const float, boxes);
  j->owner = PF_DATA(const int32_t, owner);
  for (int64_t i = 0; i < j->n; i++)
    if (j->owner[i] < 0 || j->owner[i] >= batch)
      return pf_failf(c, PF_OUT_OF_RANGE,
                      "box_index has values outside [0, batch_size): box %" PRId64
                      " has %d, batch_size is %" PRId64,
                      i, j->owner[i], batch);
  return PF_OK;
}
static pf_status image_of(pf_ctx *c, const DLTensor *x, job *j) {
  if (x->ndim != 4) return PF_INVALID(c, "input image must be 4-D, got shape %s", PF_SHAPE(x).s);
  j->image = x, j->h = x->shape[1], j->w = x->shape[2], j->ch = x->shape[3];
  if (j->h <= 0 || j->w <= 0)
    return PF_INVALID(c, "image dimensions must be positive, got %s", PF_SHAPE(x).s);
  if (j->h > INT32_MAX || j->w > INT32_MAX)
    return PF_INVALID(c, "image dimensions must fit int32, got %s", PF_SHAPE(x).s);
  return PF_OK;
}
/* crops of a gradient input: [boxes, crop_h, crop_w, channels] */
static pf_status crops_of(pf_ctx *c, job *j) {
  const DLTensor *dy = c->in[0];
  if (dy->ndim != 4) return PF_INVALID(c, "grads image must be 4-D, got shape %s", PF_SHAPE(dy).s);
  j->oh = dy->shape[1], j->ow = dy->shape[2];
  j->dy = PF_DATA(const float, dy);
  if (pf_numel(dy) && (j->oh <= 0 || j->ow <= 0))
    return PF_INVALID(c, "grads dimensions must be positive, got %s", PF_SHAPE(dy).s);
  return PF_OK;
}
static pf_status agree(pf_ctx *c, const job *j) {
  const DLTensor *dy = c->in[0];
  if (dy->shape[0] != j->n || (j->n && dy->shape[3] != j->ch))
    return PF_INVALID(
        c, "grads %s must have the boxes %" PRId64 " and the channels %" PRId64 " of the image",
        PF_SHAPE(dy).s, j->n, j->ch);
  return PF_OK;
}

/* ---------------------------------------------------------------- where samples lie */
static float sample_at(float lo, float hi, int64_t i, int64_t crop, int64_t size) {
  float span = (float)(size - 1);
  if (crop <= 1) return 0.5f * (lo + hi) * span;
  return lo * span + (float)i * ((hi - lo) * span / (float)(crop - 1));
}
static int inside(float at, int64_t size) { return at >= 0 && at <= (float)(size - 1); }

typedef struct {
  int64_t lo, hi;
  float part;
  int in;
} axis_point;
static axis_point point_at(float lo, float hi, int64_t i, int64_t crop, int64_t size, int nearest) {
  float at = sample_at(lo, hi, i, crop, size);
  axis_point p = {.in = inside(at, size)};
  if (!p.in) return p;
  p.lo = PF_MIN((int64_t)(nearest ? roundf(at) : floorf(at)), size - 1);
  p.hi = nearest ? p.lo : PF_MIN((int64_t)ceilf(at), size - 1);
  p.part = nearest ? 0 : at - (float)p.lo;
  return p;
}

#define PIXEL(TYPE, T, TAG) case TYPE: return (float)PF_DATA(const T, x)[at];
static float pixel(const DLTensor *x, int32_t type, int64_t at) {
  switch (type) {
    PF_EACH_REAL(PIXEL)
    case PF_FLOAT16: return pf_from_half(PF_DATA(const uint16_t, x)[at]);
    default: return pf_from_bf16(PF_DATA(const uint16_t, x)[at]);
  }
}

/* ---------------------------------------------------------------- forward */
static void crop_pixel(const job *j, int64_t row, const axis_point *y, const axis_point *x,
                       float *out) {
  int64_t a = ((row + y->lo) * j->w + x->lo) * j->ch, b = ((row + y->lo) * j->w + x->hi) * j->ch;
  int64_t p = ((row + y->hi) * j->w + x->lo) * j->ch, q = ((row + y->hi) * j->w + x->hi) * j->ch;
  if (j->type == PF_FLOAT32) {
    const float *v = PF_DATA(const float, j->image);
    for (int64_t k = 0; k < j->ch; k++) {
      float top = v[a + k] + (v[b + k] - v[a + k]) * x->part;
      float low = v[p + k] + (v[q + k] - v[p + k]) * x->part;
      out[k] = top + (low - top) * y->part;
    }
    return;
  }
  for (int64_t k = 0; k < j->ch; k++) {
    float tl = pixel(j->image, j->type, a + k), tr = pixel(j->image, j->type, b + k);
    float bl = pixel(j->image, j->type, p + k), br = pixel(j->image, j->type, q + k);
    float top = tl + (tr - tl) * x->part, low = bl + (br - bl) * x->part;
    out[k] = top + (low - top) * y->part;
  }
}
/* columns [m0, m1) of crop n, whose samples lie at x[0 .. m1 - m0) */
enum { COLUMNS = 64 };
static void crop_columns(const job *j, int64_t n, const axis_point *x, int64_t m0, int64_t m1) {
  const float *box = j->boxes + 4 * n;
  for (int64_t i = 0; i < j->oh; i++) {
    axis_point y = point_at(box[0], box[2], i, j->oh, j->h, j->s->nearest);
    float *out = (float *)j->out + ((n * j->oh + i) * j->ow + m0) * j->ch;
    for (int64_t m = 0; m < m1 - m0; m++, out += j->ch) {
      if (y.in && x[m].in) crop_pixel(j, j->owner[n] * j->h, &y, &x[m], out);
      else
        for (int64_t k = 0; k < j->ch; k++) out[k] = (float)j->s->extrapolation;
    }
  }
}
static void crop_boxes(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  axis_point x[COLUMNS];
  for (int64_t n = lo; n < hi; n++) {
    const float *box = j->boxes + 4 * n;
    for (int64_t m0 = 0; m0 < j->ow; m0 += COLUMNS) {
      int64_t m1 = PF_MIN(m0 + COLUMNS, j->ow);
      for (int64_t m = m0; m < m1; m++)
        x[m - m0] = point_at(box[1], box[3], m, j->ow, j->w, j->s->nearest);
      crop_columns(j, n, x, m0, m1);
    }
  }
}
static pf_status crop(pf_ctx *c, const void *state) {
  job j = {.s = state, .type = c->in_type[0]};
  const DLTensor *size = c->in[3];
  PF_TRY(image_of(c, c->in[0], &j));
  PF_TRY(boxes_of(c, 1, c->in[0]->shape[0], &j));
  if (size->ndim != 1 || size->shape[0] != 2)
    return PF_INVALID(c, "crop_size must have two elements, got shape %s", PF_SHAPE(size).s);
  j.oh = PF_DATA(const int32_t, size)[0], j.ow = PF_DATA(const int32_t, size)[1];
  if (j.oh <= 0 || j.ow <= 0)
    return PF_INVALID(c, "crop dimensions must be positive, got %" PRId64 " x %" PRId64, j.oh,
                      j.ow);
  DLTensor *y = pf_output_checked(c, 0, (int64_t[]){j.n, j.oh, j.ow, j.ch}, 4);
  PF_EXHAUSTED(y);
  j.out = PF_DATA(float, y);
  if (pf_numel(y) == 0) return PF_OK;
  return pf_parallel(c, j.n, pf_grain(j.oh * j.ow * j.ch * 4), crop_boxes, &j);
}

/* ---------------------------------------------------------------- gradient: image */
#define SPREAD(NAME, T) \
  static void NAME(const job *j, T *dx) { \
    const float *dy = j->dy; \
    for (int64_t n = 0; n < j->n; n++) { \
      const float *box = j->boxes + 4 * n; \
      int64_t row = j->owner[n] * j->h; \
      for (int64_t i = 0; i < j->oh; i++) { \
        axis_point y = point_at(box[0], box[2], i, j->oh, j->h, j->s->nearest); \
        for (int64_t m = 0; m < j->ow; m++, dy += j->ch) { \
          axis_point x = point_at(box[1], box[3], m, j->ow, j->w, j->s->nearest); \
          if (!y.in || !x.in) continue; \
          for (int v = 0; v < 4; v++) { \
            T part = (T)((v & 2 ? y.part : 1 - y.part) * (v & 1 ? x.part : 1 - x.part)); \
            T *o = dx + ((row + (v & 2 ? y.hi : y.lo)) * j->w + (v & 1 ? x.hi : x.lo)) * j->ch; \
            for (int64_t k = 0; k < j->ch; k++) o[k] += (T)dy[k] * part; \
          } \
        } \
      } \
    } \
  }
SPREAD(spread_f32, float)
SPREAD(spread_f64, double)

static pf_status crop_grad_image(pf_ctx *c, const void *state) {
  job j = {.s = state, .type = c->out_type[0]};
  const DLTensor *size = c->in[3];
  int64_t shape[4];
  PF_TRY(crops_of(c, &j));
  if (size->ndim != 1 || size->shape[0] != 4)
    return PF_INVALID(c, "image_size must have 4 elements, got shape %s", PF_SHAPE(size).s);
  for (int i = 0; i < 4; i++) shape[i] = PF_DATA(const int32_t, size)[i];
  if (shape[1] <= 0 || shape[2] <= 0) return PF_INVALID(c, "image dimensions must be positive");
  j.h = shape[1], j.w = shape[2], j.ch = shape[3];
  PF_TRY(boxes_of(c, 1, shape[0], &j));
  PF_TRY(agree(c, &j));
  DLTensor *dx = pf_output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(dx);
  int64_t n = pf_numel(dx);
  int half = pf_is_half(j.type);
  float *sums = half ? c->host->scratch(c, (uint64_t)n * 4 + 4, 64) : PF_DATA(float, dx);
  if (!sums) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the gradient");
  memset(sums, 0, (size_t)n * (j.type == PF_FLOAT64 ? 8 : 4));
  if (n == 0 || pf_numel(c->in[0]) == 0) j.n = 0;
  if (j.type == PF_FLOAT64) spread_f64(&j, PF_DATA(double, dx));
  else spread_f32(&j, sums);
  if (half) pf_float_to_half(j.type, sums, PF_DATA(void, dx), n);
  return PF_OK;
}

/* ---------------------------------------------------------------- gradient: boxes */
static void box_gradients(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  for (int64_t n = lo; n < hi; n++) {
    const float *box = j->boxes + 4 * n, *dy = j->dy + n * j->oh * j->ow * j->ch;
    double sum[4] = {0, 0, 0, 0}, sy = (double)(j->h - 1), sx = (double)(j->w - 1);
    int64_t row = j->owner[n] * j->h;
    for (int64_t i = 0; i < j->oh; i++) {
      axis_point y = point_at(box[0], box[2], i, j->oh, j->h, 0);
      double v = j->oh > 1 ? (double)i / (double)(j->oh - 1) : 0.5;
      for (int64_t m = 0; m < j->ow; m++, dy += j->ch) {
        axis_point x = point_at(box[1], box[3], m, j->ow, j->w, 0);
        double u = j->ow > 1 ? (double)m / (double)(j->ow - 1) : 0.5, gy = 0, gx = 0;
        if (!y.in || !x.in) continue;
        for (int64_t k = 0; k < j->ch; k++) {
          float tl = pixel(j->image, j->type, ((row + y.lo) * j->w + x.lo) * j->ch + k);
          float tr = pixel(j->image, j->type, ((row + y.lo) * j->w + x.hi) * j->ch + k);
          float bl = pixel(j->image, j->type, ((row + y.hi) * j->w + x.lo) * j->ch + k);
          float br = pixel(j->image, j->type, ((row + y.hi) * j->w + x.hi) * j->ch + k);
          gy += (double)(dy[k] * ((1 - x.part) * (bl - tl) + x.part * (br - tr)));
          gx += (double)(dy[k] * ((1 - y.part) * (tr - tl) + y.part * (br - bl)));
        }
        sum[0] += gy * sy * (j->oh > 1 ? 1 - v : v);
        sum[1] += gx * sx * (j->ow > 1 ? 1 - u : u);
        sum[2] += gy * sy * v;
        sum[3] += gx * sx * u;
      }
    }
    for (int k = 0; k < 4; k++) ((float *)j->out)[4 * n + k] = (float)sum[k];
  }
}
static pf_status crop_grad_boxes(pf_ctx *c, const void *state) {
  job j = {.s = state, .type = c->in_type[1]};
  PF_TRY(crops_of(c, &j));
  PF_TRY(image_of(c, c->in[1], &j));
  PF_TRY(boxes_of(c, 2, c->in[1]->shape[0], &j));
  PF_TRY(agree(c, &j));
  DLTensor *out = pf_output_checked(c, 0, (int64_t[]){j.n, 4}, 2);
  PF_EXHAUSTED(out);
  j.out = PF_DATA(float, out);
  return pf_parallel(c, j.n, pf_grain(j.oh * j.ow * j.ch * 8), box_gradients, &j);
}

#define METHOD PF_ATTR(crop_state, PF_ATTR_STRING, method)
#define COMMON(fn) .init = crop_init, .compute = fn, .state_size = sizeof(crop_state)
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define PIXELS "T=uint8|uint16|int8|int16|int32|int64|half|float|double"
const pf_kernel *const crop_resize_kernels[] = {
  PF_CPU_FLAGS("CropAndResize", PIXELS, FLAGS, COMMON(crop),
               .attrs = PF_ATTRS(METHOD, PF_REF(pf_attr, "extrapolation_value", PF_ATTR_FLOAT,
                                                offsetof(crop_state, extrapolation)))),
  PF_CPU_FLAGS("CropAndResizeGradImage", "T=float|half|double", FLAGS, COMMON(crop_grad_image),
               .attrs = PF_ATTRS(METHOD)),
  PF_CPU_FLAGS("CropAndResizeGradBoxes", PIXELS, FLAGS, COMMON(crop_grad_boxes),
               .attrs = PF_ATTRS(METHOD)),
  NULL};
