/* image_resize.c - ResizeBilinear, ResizeBicubic, ResizeArea, ResizeNearestNeighbor and the
 * gradients of all but ResizeArea.
 *
 * Method: every resampling is separable: an output coordinate is a weighted sum of a few input
 * coordinates (its taps).  A step filters the rows it needs along x, once each, then sums rows.
 * Where a tap lies is TF's convention:
 *
 *     legacy              x * scale               scale = in / out
 *     align_corners       x * scale               scale = (in - 1) / (out - 1)
 *     half_pixel_centers  (x + 0.5) * scale - 0.5
 *
 * Bicubic weights are Catmull's cubic with A = -0.75, or Keys' -0.5 with half_pixel_centers (then
 * taps outside the image have weight 0), read from a table of 1024 steps as TF does.
 *
 * Invariants: every tap is inside the image; sizes are checked before anything is allocated; the
 * result does not depend on the number of threads.
 * Threads: parallel_for over output rows (forward) or images (gradients).
 */
#include "base/common.h"
#include "base/isa.h"

enum { TABLE = 1024, CACHED = 4 };
enum { BILINEAR, BICUBIC, AREA };
typedef struct { int32_t align, half; } resize_state;
/* the taps of i: start[i] .. start[i + 1] */
typedef struct {
  int64_t n, *start, *index;
  float *weight;
} taps;
typedef struct { int64_t b, h, w, ch, oh, ow; } sizes;

/* ---------------------------------------------------------------- where output pixels lie */
static float scale_of(int64_t in, int64_t out, int align) {
  return align && out > 1 ? (float)(in - 1) / (float)(out - 1) : (float)in / (float)out;
}
static float place(int64_t i, float scale, int half) {
  return half ? ((float)i + 0.5f) * scale - 0.5f : (float)i * scale;
}
static int64_t bounded(int64_t i, int64_t n) { return PF_MIN(PF_MAX(i, 0), n - 1); }

static void bilinear_taps(taps *t, int64_t in, int64_t out, const resize_state *s) {
  float scale = scale_of(in, out, s->align);
  for (int64_t i = 0; i < out; i++) {
    float at = place(i, scale, s->half), low = floorf(at), part = at - low;
    t->start[i] = 2 * i;
    t->index[2 * i] = bounded((int64_t)low, in);
    t->index[2 * i + 1] = bounded((int64_t)ceilf(at), in);
    t->weight[2 * i] = 1 - part;
    t->weight[2 * i + 1] = part;
  }
}

/* the cubic of the two pixels beside the point (x in [0, 1]) and of the two beyond */
static float cubic_near(int64_t step, double a) {
  float x = (float)((double)step / TABLE);
  return (float)(((a + 2) * x - (a + 3)) * x * x + 1);
}
static float cubic_far(int64_t step, double a) {
  float x = (float)((double)step / TABLE) + 1;
  return (float)(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}
static void bicubic_taps(taps *t, int64_t in, int64_t out, const resize_state *s) {
  float scale = scale_of(in, out, s->align);
  double a = s->half ? -0.5 : -0.75;
  for (int64_t i = 0; i < out; i++) {
    float at = place(i, scale, s->half), low = floorf(at), sum = 0, *w = t->weight + 4 * i;
    int64_t first = (int64_t)low - 1, step = lrintf((at - low) * TABLE);
    w[0] = cubic_far(step, a), w[1] = cubic_near(step, a);
    w[2] = cubic_near(TABLE - step, a), w[3] = cubic_far(TABLE - step, a);
    t->start[i] = 4 * i;
    for (int k = 0; k < 4; k++) {
      t->index[4 * i + k] = bounded(first + k, in);
      if (s->half && t->index[4 * i + k] != first + k) w[k] = 0;
      sum += w[k];
    }
    if (s->half && fabsf(sum) > 1e-30f)
      for (int k = 0; k < 4; k++) w[k] /= sum;
  }
}

/* pixel i covers [i * scale, (i + 1) * scale) of the input; weights are shares of it */
static void area_taps(taps *t, int64_t in, int64_t out, const resize_state *s) {
  float scale = scale_of(in, out, s->align);
  int64_t n = 0;
  for (int64_t i = 0; i < out; i++) {
    float lo = (float)i * scale, hi = (float)(i + 1) * scale;
    t->start[i] = n;
    for (int64_t k = (int64_t)floorf(lo); k < (int64_t)ceilf(hi); k++) {
      float from = PF_MAX((float)k, lo), to = PF_MIN((float)(k + 1), hi);
      t->index[n] = bounded(k, in);
      t->weight[n++] = (to - from) / scale;
    }
  }
  t->start[out] = n;
}

static pf_status make_taps(pf_ctx *c, taps *t, int64_t in, int64_t out, int kind,
                           const resize_state *s) {
  int64_t room = kind == BILINEAR ? 2 * out : kind == BICUBIC ? 4 * out : 3 * in + 3 * out + 16;
  t->n = out;
  t->start = c->host->scratch(c, (uint64_t)(out + 1) * 8, 64);
  t->index = c->host->scratch(c, (uint64_t)room * 8, 64);
  t->weight = c->host->scratch(c, (uint64_t)room * 4, 64);
  if (!t->start || !t->index || !t->weight)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the weights of a resized image");
  if (kind == AREA) area_taps(t, in, out, s);
  else if (kind == BICUBIC) bicubic_taps(t, in, out, s);
  else bilinear_taps(t, in, out, s);
  t->start[out] = kind == AREA ? t->start[out] : room;
  return PF_OK;
}

/* ---------------------------------------------------------------- shapes */
static pf_status image_sizes(pf_ctx *c, const DLTensor *x, const char *name, sizes *z) {
  if (x->ndim != 4)
    return PF_INVALID(c, "%s must be 4-dimensional [batch, height, width, channels], got shape %s",
                      name, PF_SHAPE(x).s);
  z->b = x->shape[0], z->h = x->shape[1], z->w = x->shape[2], z->ch = x->shape[3];
  if (z->h > INT32_MAX || z->w > INT32_MAX)
    return PF_INVALID(c, "%s sizes must be between 0 and max int32, got %s", name, PF_SHAPE(x).s);
  return PF_OK;
}
/* height and width from the `size` input: two positive numbers */
static pf_status wanted_size(pf_ctx *c, int64_t *h, int64_t *w) {
  const DLTensor *t = c->in[1];
  if (t->ndim != 1 || t->shape[0] != 2)
    return PF_INVALID(c, "shape_t must have two elements, got shape %s", PF_SHAPE(t).s);
  *h = PF_DATA(const int32_t, t)[0], *w = PF_DATA(const int32_t, t)[1];
  if (*h <= 0 || *w <= 0)
    return PF_INVALID(c, "output dimensions must be positive, got %" PRId64 " x %" PRId64, *h, *w);
  return PF_OK;
}
static pf_status conventions(pf_ctx *c, void *state) {
  const resize_state *s = state;
  if (s->half && s->align)
    return PF_INVALID(c, "If half_pixel_centers is True, align_corners must be False.");
  return PF_OK;
}
static pf_status forward_sizes(pf_ctx *c, sizes *z) {
  PF_TRY(image_sizes(c, c->in[0], "input", z));
  PF_TRY(wanted_size(c, &z->oh, &z->ow));
  if (z->h == 0 || z->w == 0)
    return PF_INVALID(c, "input image must be of non-zero size, got %s", PF_SHAPE(c->in[0]).s);
  return PF_OK;
}
static DLTensor *image_output(pf_ctx *c, const sizes *z) {
  return pf_output_checked(c, 0, (int64_t[]){z->b, z->oh, z->ow, z->ch}, 4);
}

/* ---------------------------------------------------------------- forward */
typedef struct {
  sizes z;
  taps x, y;
  int kind;
  int32_t type;
  const char *in;
  int64_t per_worker;       /* floats of `rows` */
  float *out, *rows, *wide; /* CACHED filtered rows and one row as floats, per worker */
} job;

#define TO_FLOAT(TYPE, T, TAG) \
  case TYPE: for (int64_t i = 0; i < n; i++) y[i] = (float)((const T *)x)[i]; break;
static void to_float(int32_t type, const void *x, float *y, int64_t n) {
  switch (type) {
    PF_EACH_INT(TO_FLOAT)
    case PF_FLOAT64:
      for (int64_t i = 0; i < n; i++) y[i] = (float)((const double *)x)[i];
      break;
    default: pf_half_to_float(type, x, y, n);
  }
}

PF_INLINE void filter_linear(const taps *t, const float *x, float *y, int64_t ch) {
  for (int64_t i = 0; i < t->n; i++) {
    const float *p = x + t->index[2 * i] * ch, *q = x + t->index[2 * i + 1] * ch;
    float part = t->weight[2 * i + 1], *o = y + i * ch;
    for (int64_t k = 0; k < ch; k++) o[k] = p[k] + (q[k] - p[k]) * part;
  }
}
PF_INLINE void filter_cubic(const taps *t, const float *x, float *y, int64_t ch) {
  for (int64_t i = 0; i < t->n; i++) {
    const int64_t *at = t->index + 4 * i;
    const float *w = t->weight + 4 * i, *p = x + at[0] * ch, *q = x + at[1] * ch;
    const float *r = x + at[2] * ch, *s = x + at[3] * ch;
    for (int64_t k = 0; k < ch; k++)
      y[i * ch + k] = p[k] * w[0] + q[k] * w[1] + r[k] * w[2] + s[k] * w[3];
  }
}
PF_INLINE void filter_area(const taps *t, const float *x, float *y, int64_t ch) {
  for (int64_t i = 0; i < t->n; i++) {
    float *o = y + i * ch, sum[4] = {0};
    if (ch > 4) memset(o, 0, (size_t)ch * 4);
    for (int64_t m = t->start[i]; m < t->start[i + 1]; m++) {
      const float *p = x + t->index[m] * ch;
      if (ch > 4)
        for (int64_t k = 0; k < ch; k++) o[k] += p[k] * t->weight[m];
      else
        for (int64_t k = 0; k < ch; k++) sum[k] += p[k] * t->weight[m];
    }
    if (ch <= 4)
      for (int64_t k = 0; k < ch; k++) o[k] = sum[k];
  }
}
static void filter_row(const job *j, const float *x, float *y) {
  const taps *t = &j->x;
  int64_t ch = j->z.ch;
  if (j->kind == BICUBIC) {
    if (ch == 3) filter_cubic(t, x, y, 3);
    else if (ch == 1) filter_cubic(t, x, y, 1);
    else filter_cubic(t, x, y, ch);
    return;
  }
  if (j->kind == BILINEAR) {
    if (ch == 3) filter_linear(t, x, y, 3);
    else if (ch == 1) filter_linear(t, x, y, 1);
    else filter_linear(t, x, y, ch);
    return;
  }
  if (ch == 3) filter_area(t, x, y, 3);
  else if (ch == 1) filter_area(t, x, y, 1);
  else filter_area(t, x, y, ch);
}

/* row `y` of image `b` filtered along x, from the cache or put there */
static const float *filtered(const job *j, int64_t b, int64_t y, float *rows, float *wide,
                             int64_t *tags) {
  int64_t slot = y % CACHED, row = b * j->z.h + y, wide_n = j->z.w * j->z.ch;
  float *out = rows + slot * j->z.ow * j->z.ch;
  if (tags[slot] == row) return out;
  const char *in = j->in + row * wide_n * pf_type_size(j->type);
  if (j->type != PF_FLOAT32) to_float(j->type, in, wide, wide_n);
  filter_row(j, j->type == PF_FLOAT32 ? (const float *)in : wide, out);
  tags[slot] = row;
  return out;
}

/* a row of AREA: rows are summed first, which vectors do, then along x; `sum`: room for a row */
static void area_row(const job *j, int64_t b, int64_t first, int64_t end, float *sum, float *wide,
                     float *out) {
  int64_t n = j->z.w * j->z.ch, size = pf_type_size(j->type);
  memset(sum, 0, (size_t)n * 4);
  for (int64_t m = first; m < end; m++) {
    const char *in = j->in + (b * j->z.h + j->y.index[m]) * n * size;
    float weight = j->y.weight[m];
    if (j->type != PF_FLOAT32) to_float(j->type, in, wide, n);
    const float *p = j->type == PF_FLOAT32 ? (const float *)in : wide;
    for (int64_t i = 0; i < n; i++) sum[i] += p[i] * weight;
  }
  filter_row(j, sum, out);
}

static void resize_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  int64_t n = j->z.ow * j->z.ch, tags[CACHED] = {-1, -1, -1, -1};
  float *rows = j->rows + worker * j->per_worker, *wide = j->wide + worker * j->z.w * j->z.ch;
  for (int64_t r = lo; r < hi; r++) {
    int64_t b = r / j->z.oh, y = r % j->z.oh, first = j->y.start[y], end = j->y.start[y + 1];
    float *out = j->out + r * n;
    if (j->kind == BILINEAR) {
      const float *p = filtered(j, b, j->y.index[first], rows, wide, tags);
      const float *q = filtered(j, b, j->y.index[first + 1], rows, wide, tags);
      float part = j->y.weight[first + 1];
      for (int64_t i = 0; i < n; i++) out[i] = p[i] + (q[i] - p[i]) * part;
      continue;
    }
    if (j->kind == BICUBIC) {
      const float *row[4], *w = j->y.weight + first;
      for (int k = 0; k < 4; k++) row[k] = filtered(j, b, j->y.index[first + k], rows, wide, tags);
      for (int64_t i = 0; i < n; i++)
        out[i] = row[0][i] * w[0] + row[1][i] * w[1] + row[2][i] * w[2] + row[3][i] * w[3];
      continue;
    }
    area_row(j, b, first, end, rows, wide, out);
  }
}

static pf_status resize(pf_ctx *c, const void *state, int kind) {
  job j = {.kind = kind, .type = c->in_type[0], .in = PF_DATA(const char, c->in[0])};
  PF_TRY(forward_sizes(c, &j.z));
  DLTensor *y = image_output(c, &j.z);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  PF_TRY(make_taps(c, &j.x, j.z.w, j.z.ow, kind, state));
  PF_TRY(make_taps(c, &j.y, j.z.h, j.z.oh, kind, state));
  int64_t workers = c->host->workers(c), n = j.z.ow * j.z.ch, wide = j.z.w * j.z.ch;
  j.out = PF_DATA(float, y);
  j.per_worker = PF_MAX(CACHED * n, wide);
  j.rows = c->host->scratch(c, (uint64_t)(workers * j.per_worker) * 4, 64);
  j.wide = c->host->scratch(c, (uint64_t)(workers * wide) * 4, 64);
  if (!j.rows || !j.wide)
    return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the rows of a resized image");
  int64_t grain = PF_MAX(pf_grain(n * 4), 4);
  return pf_parallel(c, j.z.b * j.z.oh, grain, resize_rows, &j);
}
static pf_status bilinear(pf_ctx *c, const void *s) { return resize(c, s, BILINEAR); }
static pf_status bicubic(pf_ctx *c, const void *s) { return resize(c, s, BICUBIC); }
static pf_status area(pf_ctx *c, const void *s) { return resize(c, s, AREA); }

/* ---------------------------------------------------------------- gradients: the taps, backward */
typedef struct {
  sizes z; /* h, w: the image's; oh, ow: the gradient's */
  taps x, y;
  const float *dy;
  void *dx, *row; /* one row of dx per worker */
} grad_job;

#define GRADIENT(NAME, T) \
  static void NAME(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
    const grad_job *j = arg; \
    int64_t ch = j->z.ch, n = j->z.w * ch; \
    T *row = (T *)j->row + worker * n; \
    for (int64_t b = lo; b < hi; b++) { \
      T *dx = (T *)j->dx + b * j->z.h * n; \
      memset(dx, 0, (size_t)(j->z.h * n) * sizeof(T)); \
      for (int64_t y = 0; y < j->z.oh; y++) { \
        const float *dy = j->dy + (b * j->z.oh + y) * j->z.ow * ch; \
        memset(row, 0, (size_t)n * sizeof(T)); \
        for (int64_t i = 0; i < j->x.n; i++) \
          for (int64_t m = j->x.start[i]; m < j->x.start[i + 1]; m++) { \
            T *o = row + j->x.index[m] * ch, weight = (T)j->x.weight[m]; \
            for (int64_t k = 0; k < ch; k++) o[k] += (T)dy[i * ch + k] * weight; \
          } \
        for (int64_t m = j->y.start[y]; m < j->y.start[y + 1]; m++) { \
          T *o = dx + j->y.index[m] * n, weight = (T)j->y.weight[m]; \
          for (int64_t i = 0; i < n; i++) o[i] += row[i] * weight; \
        } \
      } \
    } \
  }
GRADIENT(gradient_f32, float)
GRADIENT(gradient_f64, double)

static pf_status resize_grad(pf_ctx *c, const void *state, int kind) {
  grad_job j = {0};
  sizes g;
  int32_t type = c->in_type[1];
  const DLTensor *x = c->in[1];
  PF_TRY(image_sizes(c, c->in[0], "input_grad", &g));
  PF_TRY(image_sizes(c, x, "original_image", &j.z));
  if (g.b != j.z.b || g.ch != j.z.ch)
    return PF_INVALID(c, "grads %s and original_image %s must agree in batch and channels",
                      PF_SHAPE(c->in[0]).s, PF_SHAPE(x).s);
  j.z.oh = g.h, j.z.ow = g.w;
  DLTensor *dx = pf_output_like(c, 0, x);
  PF_EXHAUSTED(dx);
  int64_t n = pf_numel(dx), row = j.z.w * j.z.ch, size = type == PF_FLOAT64 ? 8 : 4;
  if (n == 0) return PF_OK;
  if (g.h) PF_TRY(make_taps(c, &j.y, j.z.h, g.h, kind, state));
  if (g.w) PF_TRY(make_taps(c, &j.x, j.z.w, g.w, kind, state));
  j.dy = PF_DATA(const float, c->in[0]);
  j.dx = pf_is_half(type) ? c->host->scratch(c, (uint64_t)n * 4, 64) : PF_DATA(void, dx);
  j.row = c->host->scratch(c, (uint64_t)(row * c->host->workers(c) * size), 64);
  if (!j.row || !j.dx) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the gradient");
  PF_TRY(pf_parallel(c, j.z.b, 1, type == PF_FLOAT64 ? gradient_f64 : gradient_f32, &j));
  if (pf_is_half(type)) pf_float_to_half(type, j.dx, PF_DATA(void, dx), n);
  return PF_OK;
}
static pf_status bilinear_grad(pf_ctx *c, const void *s) { return resize_grad(c, s, BILINEAR); }
static pf_status bicubic_grad(pf_ctx *c, const void *s) { return resize_grad(c, s, BICUBIC); }

/* ---------------------------------------------------------------- nearest neighbour */
static int64_t *nearest_of(pf_ctx *c, int64_t in, int64_t out, const resize_state *s) {
  float scale = scale_of(in, out, s->align);
  int64_t *at = c->host->scratch(c, (uint64_t)out * 8, 64);
  for (int64_t i = 0; at && i < out; i++) {
    float p = s->half ? ((float)i + 0.5f) * scale : (float)i * scale;
    at[i] = bounded((int64_t)(s->align ? roundf(p) : floorf(p)), in);
  }
  return at;
}

typedef struct {
  sizes z;
  const int64_t *x, *y;
  const char *in;
  char *out;
  int64_t size;
} near_job;
static void nearest_rows(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const near_job *j = arg;
  for (int64_t r = lo; r < hi; r++) {
    int64_t row = r / j->z.oh * j->z.h + j->y[r % j->z.oh];
    const char *in = j->in + row * j->z.w * j->size;
    char *out = j->out + r * j->z.ow * j->size;
    switch (j->size) { /* a pixel's bytes; equal for all */
      case 4:
        for (int64_t i = 0; i < j->z.ow; i++) memcpy(out + 4 * i, in + 4 * j->x[i], 4);
        break;
      case 12:
        for (int64_t i = 0; i < j->z.ow; i++) memcpy(out + 12 * i, in + 12 * j->x[i], 12);
        break;
      default:
        for (int64_t i = 0; i < j->z.ow; i++)
          memcpy(out + i * j->size, in + j->x[i] * j->size, (size_t)j->size);
    }
  }
}
static pf_status nearest(pf_ctx *c, const void *state) {
  near_job j = {.in = PF_DATA(const char, c->in[0])};
  PF_TRY(forward_sizes(c, &j.z));
  DLTensor *y = image_output(c, &j.z);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  j.x = nearest_of(c, j.z.w, j.z.ow, state);
  j.y = nearest_of(c, j.z.h, j.z.oh, state);
  if (!j.x || !j.y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the indices");
  j.size = j.z.ch * pf_type_size(c->in_type[0]);
  j.out = PF_DATA(char, y);
  return pf_parallel(c, j.z.b * j.z.oh, pf_grain(j.z.ow * j.z.ch), nearest_rows, &j);
}

#define SUM_NEAREST(TYPE, T, ACC) \
  case TYPE: { \
    const T *in = PF_DATA(const T, dy); \
    T *out = PF_DATA(T, dx); \
    for (int64_t r = 0; r < z.b * z.h; r++) { \
      T *o = out + (r / z.h * z.oh + y[r % z.h]) * z.ow * z.ch; \
      for (int64_t i = 0; i < z.w; i++) \
        for (int64_t k = 0; k < z.ch; k++) \
          o[x[i] * z.ch + k] = (T)((ACC)o[x[i] * z.ch + k] + (ACC)in[(r * z.w + i) * z.ch + k]); \
    } \
    break; \
  }
/* sums of halves are kept as floats and rounded once */
static void sum_halves(const sizes *z, const int64_t *x, const int64_t *y, const uint16_t *in,
                       float *o, int32_t type) {
  for (int64_t r = 0; r < z->b * z->h; r++)
    for (int64_t i = 0; i < z->w; i++)
      for (int64_t k = 0; k < z->ch; k++) {
        uint16_t v = in[(r * z->w + i) * z->ch + k];
        o[((r / z->h * z->oh + y[r % z->h]) * z->ow + x[i]) * z->ch + k] +=
            type == PF_FLOAT16 ? pf_from_half(v) : pf_from_bf16(v);
      }
}
static pf_status nearest_grad(pf_ctx *c, const void *state) {
  sizes z;
  const DLTensor *dy = c->in[0];
  int32_t type = c->in_type[0];
  PF_TRY(image_sizes(c, dy, "grads", &z));
  PF_TRY(wanted_size(c, &z.oh, &z.ow));
  DLTensor *dx = image_output(c, &z);
  PF_EXHAUSTED(dx);
  int64_t n = pf_numel(dx);
  if (n == 0) return PF_OK;
  memset(PF_DATA(char, dx), 0, (size_t)(n * pf_type_size(type)));
  if (pf_numel(dy) == 0) return PF_OK;
  int64_t *x = nearest_of(c, z.ow, z.w, state), *y = nearest_of(c, z.oh, z.h, state);
  if (!x || !y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the indices");
  switch (type) {
    SUM_NEAREST(PF_FLOAT32, float, float)
    SUM_NEAREST(PF_FLOAT64, double, double)
    SUM_NEAREST(PF_INT32, int32_t, uint32_t)
    SUM_NEAREST(PF_INT8, int8_t, uint32_t)
    SUM_NEAREST(PF_UINT8, uint8_t, uint32_t)
    default: {
      float *sums = c->host->scratch(c, (uint64_t)n * 4, 64);
      if (!sums) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the gradient");
      memset(sums, 0, (size_t)n * 4);
      sum_halves(&z, x, y, PF_DATA(const uint16_t, dy), sums, type);
      pf_float_to_half(type, sums, PF_DATA(void, dx), n);
    }
  }
  return PF_OK;
}

#define FLAG(name_, field) PF_REF(pf_attr, name_, PF_ATTR_BOOL, offsetof(resize_state, field))
#define COMMON(fn) .init = conventions, .compute = fn, .state_size = sizeof(resize_state), \
  .attrs = PF_ATTRS(FLAG("align_corners", align), \
                    PF_REF(pf_attr, "half_pixel_centers", PF_ATTR_BOOL, \
                           offsetof(resize_state, half)))
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define PIXELS "T=int8|uint8|int16|uint16|int32|int64|bfloat16|half|float|double"
const pf_kernel *const PF_ISA_NAME(image_resize_kernels)[] = {
  PF_CPU_FLAGS("ResizeBilinear", PIXELS, FLAGS, COMMON(bilinear)),
  PF_CPU_FLAGS("ResizeBicubic", PIXELS, FLAGS, COMMON(bicubic)),
  PF_CPU_FLAGS("ResizeNearestNeighbor", PIXELS, FLAGS, COMMON(nearest)),
  PF_CPU_FLAGS("ResizeArea", PIXELS, FLAGS, .compute = area, .state_size = sizeof(resize_state),
               .attrs = PF_ATTRS(FLAG("align_corners", align))),
  PF_CPU_FLAGS("ResizeBilinearGrad", "T=float|bfloat16|half|double", FLAGS, COMMON(bilinear_grad)),
  PF_CPU_FLAGS("ResizeBicubicGrad", "T=float|double", FLAGS, COMMON(bicubic_grad)),
  PF_CPU_FLAGS("ResizeNearestNeighborGrad", "T=uint8|int8|int32|half|bfloat16|float|double", FLAGS,
               COMMON(nearest_grad)),
  NULL};
