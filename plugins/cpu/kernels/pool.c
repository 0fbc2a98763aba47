/* pool.c - MaxPool, AvgPool, MaxPoolWithArgmax and their gradients.
 *
 * Invariants
 *   1. Pooling never mixes channels: NCHW [n, c, h, w] is pooled as n * c images of one channel.
 *   2. Padding takes no part: it is never the maximum and does not count in an average.
 *   3. The gradient of a maximum goes to its first position in row-major order.
 * Threads: parallel_for over images; one task writes one image, so sums have a fixed order.
 */
#include "common.h"
#include "half.h"
#include "isa.h"
#include "window.h"

enum { CHANNELS = 256, LANES = 32 };
typedef struct { pf_window w; int32_t Targmax, with_batch; } pool_state;
typedef struct {
  int64_t n, h, w, c, oh, ow, pt, pl;
  const pool_state *s;
  int32_t type;
  const void *x, *dy;
  void *out;
  int64_t *argmax;
} pool;
typedef struct { int64_t y0, y1, x0, x1; } window;

PF_INLINE window window_at(const pool *p, int64_t oy, int64_t ox) {
  const pf_window *s = &p->s->w;
  int64_t y = oy * s->sh - p->pt, x = ox * s->sw - p->pl;
  return (window){PF_MAX(y, 0), PF_MIN(y + s->kh, p->h), PF_MAX(x, 0), PF_MIN(x + s->kw, p->w)};
}

/* ---------------------------------------------------------------- forward */
/* Channels are pooled LANES at a time, in registers.  TX is the type in memory; FETCH(room, p, n)
 * gives n elements at p as T, STORE puts n of them there.  START of v, JOIN of a and v, END of a.
 */
#define FETCH_PLAIN(room, p, n) (p)
#define FETCH_HALF(room, p, n) (half_read(p, room, n), room)
#define FETCH_BFLOAT16(room, p, n) (bfloat16_read(p, room, n), room)
#define STORE_PLAIN(from, p, n) memcpy(p, from, sizeof *(p) * (size_t)(n))
#define POOL(NAME, tag, TX, T, FETCH, STORE, START, JOIN, END) \
PF_INLINE void NAME##_##tag##_part(const pool *p, const TX *x, TX *out, window v, \
                                   const int64_t m) { \
  T acc[LANES], room[LANES], count = (T)((v.y1 - v.y0) * (v.x1 - v.x0)); \
  (void)room, (void)count; \
  const T *first = FETCH(room, x + (v.y0 * p->w + v.x0) * p->c, m); \
  for (int64_t k = 0; k < m; k++) { T v = first[k]; (void)v; acc[k] = START; } \
  for (int64_t y = v.y0; y < v.y1; y++) \
    for (int64_t z = v.x0; z < v.x1; z++) { \
      const T *q = FETCH(room, x + (y * p->w + z) * p->c, m); \
      for (int64_t k = 0; k < m; k++) { T a = acc[k], v = q[k]; acc[k] = JOIN; } \
    } \
  for (int64_t k = 0; k < m; k++) { T a = acc[k]; acc[k] = END; } \
  STORE(acc, out, m); \
} \
static void NAME##_##tag(const pool *p, int64_t image) { \
  const TX *x = (const TX *)p->x + image * p->h * p->w * p->c; \
  TX *out = (TX *)p->out + image * p->oh * p->ow * p->c; \
  for (int64_t i = 0; i < p->oh * p->ow; i++, out += p->c) { \
    window v = window_at(p, i / p->ow, i % p->ow); \
    int64_t k = 0; \
    for (; k + LANES <= p->c; k += LANES) NAME##_##tag##_part(p, x + k, out + k, v, LANES); \
    if (k < p->c) NAME##_##tag##_part(p, x + k, out + k, v, p->c - k); \
  } \
}
#define MAX_OF(num, T, tag) \
  POOL(max, tag, T, T, FETCH_PLAIN, STORE_PLAIN, v, (v > a) | (v != v) ? v : a, a)
#define AVG_OF(num, T, tag) POOL(avg, tag, T, T, FETCH_PLAIN, STORE_PLAIN, 0, a + v, a / count)
#define HALF_POOLS(tag, FETCH, STORE) \
  POOL(max, tag, uint16_t, float, FETCH, STORE, v, (v > a) | (v != v) ? v : a, a) \
  POOL(avg, tag, uint16_t, float, FETCH, STORE, 0, a + v, a / count)
PF_EACH_REAL(MAX_OF)
PF_EACH_FLOAT(AVG_OF)
HALF_POOLS(f16, FETCH_HALF, half_write)
HALF_POOLS(bf16, FETCH_BFLOAT16, bfloat16_write)

#define FLOAT_POOL(num, T, tag) \
static void argmax_##tag(const pool *p, int64_t image) { \
  const T *x = (const T *)p->x + image * p->h * p->w * p->c; \
  int64_t at = image * p->oh * p->ow * p->c; \
  int64_t base = p->s->with_batch ? image * p->h * p->w * p->c : 0; \
  T *out = (T *)p->out + at; \
  int64_t *arg = p->argmax + at; \
  for (int64_t i = 0; i < p->oh * p->ow; i++, out += p->c, arg += p->c) { \
    window v = window_at(p, i / p->ow, i % p->ow); \
    int64_t first = (v.y0 * p->w + v.x0) * p->c; \
    for (int64_t k = 0; k < p->c; k++) out[k] = x[first + k], arg[k] = base + first + k; \
    for (int64_t y = v.y0; y < v.y1; y++) \
      for (int64_t z = v.x0; z < v.x1; z++) { \
        int64_t q = (y * p->w + z) * p->c; \
        for (int64_t k = 0; k < p->c; k++) \
          if (x[q + k] > out[k]) out[k] = x[q + k], arg[k] = base + q + k; \
      } \
  } \
} \
static void avg_grad_##tag(const pool *p, int64_t image) { \
  const T *dy = (const T *)p->dy + image * p->oh * p->ow * p->c; \
  T *dx = (T *)p->out + image * p->h * p->w * p->c; \
  memset(dx, 0, sizeof(T) * (size_t)(p->h * p->w * p->c)); \
  for (int64_t i = 0; i < p->oh * p->ow; i++, dy += p->c) { \
    window v = window_at(p, i / p->ow, i % p->ow); \
    T share = 1 / (T)((v.y1 - v.y0) * (v.x1 - v.x0)); \
    for (int64_t y = v.y0; y < v.y1; y++) \
      for (int64_t z = v.x0; z < v.x1; z++) { \
        T *q = dx + (y * p->w + z) * p->c; \
        PF_IVDEP for (int64_t k = 0; k < p->c; k++) q[k] += dy[k] * share; \
      } \
  } \
} \
/* channels [k0, k0 + n) of one window: find the maximum, then give dy to its first place */ \
static void route_##tag(const T *x, T *dx, const T *dy, const pool *p, window v, int64_t n) { \
  T best[CHANNELS], left[CHANNELS]; \
  for (int64_t k = 0; k < n; k++) best[k] = x[(v.y0 * p->w + v.x0) * p->c + k], left[k] = dy[k]; \
  for (int64_t y = v.y0; y < v.y1; y++) \
    for (int64_t z = v.x0; z < v.x1; z++) { \
      const T *q = x + (y * p->w + z) * p->c; \
      for (int64_t k = 0; k < n; k++) \
        best[k] = (q[k] > best[k]) | (q[k] != q[k]) ? q[k] : best[k]; \
    } \
  for (int64_t y = v.y0; y < v.y1; y++) \
    for (int64_t z = v.x0; z < v.x1; z++) { \
      const T *q = x + (y * p->w + z) * p->c; \
      T *d = dx + (y * p->w + z) * p->c; \
      PF_IVDEP for (int64_t k = 0; k < n; k++) { \
        T give = q[k] == best[k] ? left[k] : (T)0; \
        left[k] = q[k] == best[k] ? (T)0 : left[k]; \
        d[k] += give; \
      } \
    } \
} \
static void max_grad_##tag(const pool *p, int64_t image) { \
  const T *x = (const T *)p->x + image * p->h * p->w * p->c; \
  const T *dy = (const T *)p->dy + image * p->oh * p->ow * p->c; \
  T *dx = (T *)p->out + image * p->h * p->w * p->c; \
  memset(dx, 0, sizeof(T) * (size_t)(p->h * p->w * p->c)); \
  for (int64_t i = 0; i < p->oh * p->ow; i++, dy += p->c) { \
    window v = window_at(p, i / p->ow, i % p->ow); \
    for (int64_t k = 0; k < p->c; k += CHANNELS) \
      route_##tag(x + k, dx + k, dy + k, p, v, PF_MIN(CHANNELS, p->c - k)); \
  } \
}

PF_EACH_FLOAT(FLOAT_POOL)

/* ---------------------------------------------------------------- one job over all images */
typedef void (*image_fn)(const pool *, int64_t);
typedef struct { const pool *p; image_fn fn; } job;
static void run_images(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const job *j = arg;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) j->fn(j->p, i);
}
static pf_status run_job(pf_ctx *c, const pool *p, image_fn fn) {
  job j = {p, fn};
  int64_t work = (p->oh * p->ow * p->s->w.kh * p->s->w.kw + p->h * p->w) * p->c;
  return pf_parallel(c, p->n, pf_grain(work), run_images, &j);
}

static pf_status pool_init(pf_ctx *c, void *state) {
  pool_state *s = state;
  PF_TRY(pf_window_init(c, &s->w));
  if (s->w.kc != 1)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "Pooling over depth (ksize %" PRId64 " there) is not supported", s->w.kc);
  if (s->w.pad == PF_PAD_EXPLICIT &&
      (PF_MAX(s->w.pt, s->w.pb) >= s->w.kh || PF_MAX(s->w.pl, s->w.pr) >= s->w.kw))
    return PF_INVALID(c, "explicit padding must be smaller than the window (ksize)");
  return PF_OK;
}

/* Sizes of pooling a tensor of this shape; `out_shape` in the tensor's own layout. */
static pf_status pool_sizes(pf_ctx *c, const pool_state *s, const int64_t *shape, int32_t ndim,
                            pool *p, int64_t *out_shape) {
  int64_t d[4] = {0};
  PF_TRY(pf_window_dims(c, &s->w, shape, ndim, "tensor_in", d));
  *p = (pool){.n = d[0], .h = d[1], .w = d[2], .c = d[3], .s = s, .type = s->w.T};
  PF_TRY(pf_window_size(c, &s->w, 0, p->h, s->w.kh, &p->oh, &p->pt));
  PF_TRY(pf_window_size(c, &s->w, 1, p->w, s->w.kw, &p->ow, &p->pl));
  pf_window_shape(&s->w, p->n, p->oh, p->ow, p->c, out_shape);
  if (s->w.nchw) {
    if (!pf_mul(p->n, p->c, &p->n))
      return PF_INVALID(c, "shape %s has too many elements", pf_shape_text(shape, ndim).s);
    p->c = 1;
  }
  return PF_OK;
}

/* Halves are pooled as float, between scratch copies. */
static pf_status wide_in(pf_ctx *c, int32_t type, const DLTensor *t, const void **x) {
  *x = PF_DATA(const void, t);
  if (!pf_is_half(type)) return PF_OK;
  float *y = c->host->scratch(c, (uint64_t)pf_numel(t) * 4 + 4, 64);
  if (!y) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
  halves_read(type, *x, y, pf_numel(t));
  *x = y;
  return PF_OK;
}
static pf_status run_wide(pf_ctx *c, pool *p, DLTensor *out, image_fn f32, image_fn f64) {
  p->out = PF_DATA(void, out);
  if (!pf_is_half(p->type)) return run_job(c, p, p->type == PF_FLOAT64 ? f64 : f32);
  p->out = c->host->scratch(c, (uint64_t)pf_numel(out) * 4 + 4, 64);
  if (!p->out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
  PF_TRY(run_job(c, p, f32));
  halves_write(p->type, p->out, PF_DATA(void, out), pf_numel(out));
  return PF_OK;
}

static pf_status forward(pf_ctx *c, const pool_state *s, int max) {
  int64_t shape[4];
  pool p;
  PF_TRY(pool_sizes(c, s, c->in[0]->shape, c->in[0]->ndim, &p, shape));
  DLTensor *out = pf_output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  p.x = PF_DATA(const void, c->in[0]), p.out = PF_DATA(void, out);
#define CASE(num, T, tag) case num: return run_job(c, &p, max_##tag);
  if (max) switch (p.type) {
      PF_EACH_REAL(CASE) CASE(PF_FLOAT16, uint16_t, f16) CASE(PF_BFLOAT16, uint16_t, bf16)
    }
  return run_job(c, &p, p.type == PF_FLOAT64    ? avg_f64
                        : p.type == PF_FLOAT16  ? avg_f16
                        : p.type == PF_BFLOAT16 ? avg_bf16 : avg_f32);
}
static pf_status max_pool(pf_ctx *c, const void *s) { return forward(c, s, 1); }
static pf_status avg_pool(pf_ctx *c, const void *s) { return forward(c, s, 0); }

static pf_status max_pool_argmax(pf_ctx *c, const void *state) {
  const pool_state *s = state;
  int64_t shape[4];
  pool p;
  PF_TRY(pool_sizes(c, s, c->in[0]->shape, c->in[0]->ndim, &p, shape));
  if (s->w.nchw) return pf_failf(c, PF_UNIMPLEMENTED, "MaxPoolWithArgmax supports NHWC only");
  DLTensor *out = pf_output_checked(c, 0, shape, 4),
           *arg = out ? pf_output_checked(c, 1, shape, 4) : NULL;
  PF_EXHAUSTED(arg);
  int64_t n = pf_numel(out);
  if (n == 0) return PF_OK;
  PF_TRY(wide_in(c, p.type, c->in[0], &p.x));
  p.argmax = PF_DATA(int64_t, arg);
  if (s->Targmax == PF_INT32) {
    if (pf_numel(c->in[0]) > INT32_MAX)
      return PF_INVALID(c, "input is too large for int32 indices: use Targmax=int64");
    p.argmax = c->host->scratch(c, (uint64_t)n * 8, 64);
    if (!p.argmax) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for indices");
  }
  PF_TRY(run_wide(c, &p, out, argmax_f32, argmax_f64));
  if (s->Targmax == PF_INT32)
    for (int64_t i = 0; i < n; i++) PF_DATA(int32_t, arg)[i] = (int32_t)p.argmax[i];
  return PF_OK;
}

/* ---------------------------------------------------------------- gradients */
static pf_status check_grad(pf_ctx *c, const DLTensor *dy, const int64_t *shape) {
  if (pf_same_dims(dy->shape, dy->ndim, shape, 4)) return PF_OK;
  return PF_INVALID(c, "Expected grad shape to be %s, but got %s", pf_shape_text(shape, 4).s,
                    PF_SHAPE(dy).s);
}

static pf_status max_pool_grad(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *dy = c->in[2];
  int64_t shape[4];
  pool p;
  PF_TRY(pool_sizes(c, state, x->shape, x->ndim, &p, shape));
  if (!pf_same_dims(c->in[1]->shape, c->in[1]->ndim, shape, 4))
    return PF_INVALID(c, "Expected orig_output shape to be %s, but got %s",
                      pf_shape_text(shape, 4).s, PF_SHAPE(c->in[1]).s);
  PF_TRY(check_grad(c, dy, shape));
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  PF_TRY(wide_in(c, p.type, x, &p.x));
  PF_TRY(wide_in(c, p.type, dy, &p.dy));
  return run_wide(c, &p, out, max_grad_f32, max_grad_f64);
}

static pf_status avg_pool_grad(pf_ctx *c, const void *state) {
  const DLTensor *dy = c->in[1];
  int64_t in_shape[PF_MAX_DIMS], shape[4], total;
  int32_t n = 0;
  pool p;
  PF_TRY(pf_in_vector(c, 0, "orig_input_shape", in_shape, &n));
  if (n != 4) return PF_INVALID(c, "orig_input_shape must be a vector of 4 sizes, got %d", n);
  for (int d = 0; d < 4; d++)
    if (in_shape[d] < 0)
      return PF_INVALID(c, "orig_input_shape must be non-negative, got %s",
                        pf_shape_text(in_shape, 4).s);
  if (!pf_shape_numel(in_shape, 4, &total))
    return PF_INVALID(c, "orig_input_shape %s has too many elements", pf_shape_text(in_shape, 4).s);
  PF_TRY(pool_sizes(c, state, in_shape, 4, &p, shape));
  PF_TRY(check_grad(c, dy, shape));
  DLTensor *out = pf_output_checked(c, 0, in_shape, 4);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  PF_TRY(wide_in(c, p.type, dy, &p.dy));
  return run_wide(c, &p, out, avg_grad_f32, avg_grad_f64);
}

/* dx[argmax[i]] += dy[i] */
static pf_status argmax_grad(pf_ctx *c, const void *state) {
  const pool_state *s = state;
  const DLTensor *x = c->in[0], *dy = c->in[1], *arg = c->in[2];
  int64_t n = pf_numel(dy), size = pf_numel(x), images = x->ndim ? PF_MAX(x->shape[0], 1) : 1;
  if (x->ndim != 4 || dy->ndim != 4 || !pf_same_shape(dy, arg) ||
      (n && dy->shape[0] != x->shape[0]))
    return PF_INVALID(c, "input, grad and argmax do not fit: %s %s %s", PF_SHAPE(x).s,
                      PF_SHAPE(dy).s, PF_SHAPE(arg).s);
  int64_t per_in = size / images, per_out = PF_MAX(n / images, 1);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = pf_index_at(arg, s->Targmax, i) + (s->with_batch ? 0 : i / per_out * per_in);
    if (at < 0 || at >= size || pf_index_at(arg, s->Targmax, i) < 0)
      return PF_INVALID(c, "argmax[%" PRId64 "] = %" PRId64 " is out of range for input %s", i,
                        pf_index_at(arg, s->Targmax, i), PF_SHAPE(x).s);
  }
  DLTensor *out = c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(out);
  if (size) memset(PF_DATA(void, out), 0, (size_t)(size * pf_type_size(s->w.T)));
  for (int64_t i = 0; i < n; i++) {
    int64_t at = pf_index_at(arg, s->Targmax, i) + (s->with_batch ? 0 : i / per_out * per_in);
    if (s->w.T == PF_FLOAT32) PF_DATA(float, out)[at] += PF_DATA(const float, dy)[i];
    else PF_DATA(double, out)[at] += PF_DATA(const double, dy)[i];
  }
  return PF_OK;
}

#define FIELD(name, kind) PF_REF(pf_attr, #name, kind, offsetof(pool_state, w.name))
#define OPTIONAL(name, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name, kind, offsetof(pool_state, field)})
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, types, fn, ...) PF_CPU_FLAGS(op, types, FLAGS, \
  .attrs = PF_ATTRS(FIELD(T, PF_ATTR_TYPE), FIELD(strides, PF_ATTR_LIST | PF_ATTR_INT), \
                    FIELD(ksize, PF_ATTR_LIST | PF_ATTR_INT), FIELD(padding, PF_ATTR_STRING), \
                    OPTIONAL("data_format", PF_ATTR_STRING, w.data_format), \
                    OPTIONAL("explicit_paddings", PF_ATTR_LIST | PF_ATTR_INT, \
                             w.explicit_paddings), ##__VA_ARGS__), \
  .state_size = sizeof(pool_state), .init = pool_init, .compute = fn)
#define ARGMAX \
  OPTIONAL("Targmax", PF_ATTR_TYPE, Targmax), \
      OPTIONAL("include_batch_in_index", PF_ATTR_BOOL, with_batch)
const pf_kernel *const PF_ISA_NAME(pool_kernels)[] = {
  ENTRY("MaxPool", "T=" PF_REAL, max_pool),
  ENTRY("AvgPool", "T=" PF_FLOATS, avg_pool),
  ENTRY("MaxPoolGrad", "T=" PF_FLOATS, max_pool_grad),
  ENTRY("AvgPoolGrad", "T=" PF_FLOATS, avg_pool_grad),
  ENTRY("MaxPoolWithArgmax", "T=" PF_FLOATS, max_pool_argmax, ARGMAX),
  ENTRY("MaxPoolGradWithArgmax", "T=float|double", argmax_grad, ARGMAX),
  NULL
};
