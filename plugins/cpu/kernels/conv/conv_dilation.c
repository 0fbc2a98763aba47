/* conv_dilation.c - Dilation2D (greyscale morphology) and its two gradients.
 *
 *     y[n, i, j, c] = max over u, v of x[n, i * sh + u * rh - pt, j * sw + v * rw - pl, c]
 *                     + f[u, v, c]
 *
 * Invariants
 *   1. Positions outside the image do not compete; sizes were checked by sizes_of.
 *   2. The gradient of a maximum goes to the first position that reaches it, in row order.
 *   3. Halves are computed as float and rounded once.
 * Threads: rows of output in parallel; the gradients share out images (of the input) and channels
 * (of the filter), so no two threads add to one number.
 */
#include <float.h>
#include "conv/window.h"

typedef struct { pf_window w; /* its `dilations` are the op's `rates` */ } dilation;

typedef struct {
  int64_t n, h, w, c, kh, kw, oh, ow, sh, sw, rh, rw, pt, pl;
  const void *x, *f, *dy;
  void *out;
} sizes;

static pf_status dilation_init(pf_ctx *c, void *state) {
  dilation *s = state;
  return pf_window_init(c, &s->w);
}

static pf_status sizes_of(pf_ctx *c, const pf_window *w, sizes *s) {
  const DLTensor *x = c->in[0], *f = c->in[1];
  int64_t total;
  if (x->ndim != 4) return PF_INVALID(c, "input must be 4-dimensional: %s", PF_SHAPE(x).s);
  if (f->ndim != 3) return PF_INVALID(c, "filter must be 3-dimensional: %s", PF_SHAPE(f).s);
  if (f->shape[2] != x->shape[3])
    return PF_INVALID(c, "input and filter must have the same depth: %" PRId64 " vs %" PRId64,
                      x->shape[3], f->shape[2]);
  *s = (sizes){.n = x->shape[0],
               .h = x->shape[1],
               .w = x->shape[2],
               .c = x->shape[3],
               .kh = f->shape[0],
               .kw = f->shape[1],
               .sh = w->sh,
               .sw = w->sw,
               .rh = w->dh,
               .rw = w->dw,
               .x = PF_DATA(const void, x),
               .f = PF_DATA(const void, f)};
  PF_TRY(pf_window_size(c, w, 0, s->h, s->kh, &s->oh, &s->pt));
  PF_TRY(pf_window_size(c, w, 1, s->w, s->kw, &s->ow, &s->pl));
  const int64_t reach[4] = {s->n, s->h + s->pt + s->kh * s->rh + s->sh,
                            s->w + s->pl + s->kw * s->rw + s->sw, s->c};
  if (!pf_shape_numel(reach, 4, &total))
    return PF_INVALID(c, "dilation of %s with filter %s is too large", PF_SHAPE(x).s,
                      PF_SHAPE(f).s);
  return PF_OK;
}

#define LOWEST(T) \
  _Generic((T)0, float: -FLT_MAX, double: -DBL_MAX, default: lowest(sizeof(T), (T)-1 < (T)1))
static int64_t lowest(size_t bytes, int is_signed) {
  return !is_signed ? 0 : bytes == 8 ? INT64_MIN : -((int64_t)1 << (8 * bytes - 1));
}
/* Sums of integers wrap. */
#define SUM(T, a, b) \
  _Generic((T)0, float: (a) + (b), double: (a) + (b), default: (T)((uint64_t)(a) + (uint64_t)(b)))

/* place: the first place of the maximum of window (i, j), channel c, as an index into x and one
 * into f; the window's first where no place reaches more than the lowest number. */
#define DILATION(tag, T) \
  static void forward_##tag(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
    const sizes *s = arg; \
    (void)worker; \
    for (int64_t row = lo; row < hi; row++) { \
      T *y = (T *)s->out + row * s->ow * s->c; \
      const T *x = (const T *)s->x + row / s->oh * s->h * s->w * s->c; \
      const int64_t top = row % s->oh * s->sh - s->pt; \
      for (int64_t i = 0; i < s->ow * s->c; i++) y[i] = (T)LOWEST(T); \
      for (int64_t j = 0; j < s->ow; j++, y += s->c) \
        for (int64_t tap = 0; tap < s->kh * s->kw; tap++) { \
          const int64_t h = top + tap / s->kw * s->rh, \
                        w = j * s->sw - s->pl + tap % s->kw * s->rw; \
          if (h < 0 || h >= s->h || w < 0 || w >= s->w) continue; \
          const T *px = x + (h * s->w + w) * s->c, *pf = (const T *)s->f + tap * s->c; \
          PF_IVDEP for (int64_t c = 0; c < s->c; c++) { \
            const T v = SUM(T, px[c], pf[c]); \
            y[c] = v > y[c] ? v : y[c]; \
          } \
        } \
    } \
  } \
  static void place_##tag(const sizes *s, int64_t n, int64_t i, int64_t j, int64_t c, \
                          int64_t *at_x, int64_t *at_f) { \
    T best = (T)LOWEST(T); \
    const int64_t top = i * s->sh - s->pt, left = j * s->sw - s->pl; \
    *at_x = ((n * s->h + PF_MAX(top, 0)) * s->w + PF_MAX(left, 0)) * s->c + c; \
    *at_f = c; \
    for (int64_t tap = 0; tap < s->kh * s->kw; tap++) { \
      const int64_t h = top + tap / s->kw * s->rh, w = left + tap % s->kw * s->rw; \
      if (h < 0 || h >= s->h || w < 0 || w >= s->w) continue; \
      const int64_t x = ((n * s->h + h) * s->w + w) * s->c + c, f = tap * s->c + c; \
      const T v = SUM(T, ((const T *)s->x)[x], ((const T *)s->f)[f]); \
      if (v > best) best = v, *at_x = x, *at_f = f; \
    } \
  } \
  static void scatter_##tag(const sizes *s, int64_t n0, int64_t n1, int64_t c0, int64_t c1, \
                            int to_filter) { \
    T *out = s->out; \
    for (int64_t n = n0; n < n1; n++) \
      for (int64_t i = 0; i < s->oh; i++) \
        for (int64_t j = 0; j < s->ow; j++) \
          for (int64_t c = c0; c < c1; c++) { \
            int64_t at_x, at_f; \
            const T dy = ((const T *)s->dy)[((n * s->oh + i) * s->ow + j) * s->c + c]; \
            place_##tag(s, n, i, j, c, &at_x, &at_f); \
            T *to = out + (to_filter ? at_f : at_x); \
            *to = SUM(T, *to, dy); \
          } \
  } \
  static void to_input_##tag(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
    (void)worker; \
    scatter_##tag(arg, lo, hi, 0, ((const sizes *)arg)->c, 0); \
  } \
  static void to_filter_##tag(void *arg, int64_t lo, int64_t hi, int32_t worker) { \
    (void)worker; \
    scatter_##tag(arg, 0, ((const sizes *)arg)->n, lo, hi, 1); \
  }
#define EACH(number, T, tag) DILATION(tag, T)
PF_EACH_REAL(EACH)
#undef EACH

enum { FORWARD, TO_INPUT, TO_FILTER };
#define ROW(number, T, tag) [number] = {forward_##tag, to_input_##tag, to_filter_##tag},
static const pf_range passes[PF_TYPE_COUNT][3] = {PF_EACH_REAL(ROW)};
#undef ROW

/* An operand as float where it is a half. */
static pf_status widened(pf_ctx *c, int32_t type, const void **x, int64_t n) {
  if (!pf_is_half(type) || !*x || !n) return PF_OK;
  float *wide = c->host->scratch(c, (uint64_t)n * 4, 64);
  if (!wide) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a float copy");
  pf_half_to_float(type, *x, wide, n);
  *x = wide;
  return PF_OK;
}

static pf_status run(pf_ctx *c, const pf_window *w, sizes *s, int which, DLTensor *t) {
  const int32_t type = pf_is_half(w->T) ? PF_FLOAT32 : w->T;
  const int64_t n = pf_numel(t), work = s->kh * s->kw;
  PF_TRY(widened(c, w->T, &s->x, s->n * s->h * s->w * s->c));
  PF_TRY(widened(c, w->T, &s->f, s->kh * s->kw * s->c));
  PF_TRY(widened(c, w->T, &s->dy, s->n * s->oh * s->ow * s->c));
  s->out = PF_DATA(void, t);
  if (pf_is_half(w->T)) s->out = c->host->scratch(c, (uint64_t)n * 4, 64);
  if (!s->out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for the result");
  memset(s->out, 0, (size_t)(n * pf_type_size(type)));
  if (which == FORWARD)
    PF_TRY(pf_parallel(c, s->n * s->oh, pf_grain(s->ow * s->c * work), passes[type][FORWARD], s));
  else if (which == TO_INPUT)
    PF_TRY(pf_parallel(c, s->n, pf_grain(s->oh * s->ow * s->c * work), passes[type][TO_INPUT], s));
  else
    PF_TRY(pf_parallel(c, s->c, pf_grain(s->n * s->oh * s->ow * work), passes[type][TO_FILTER], s));
  if (pf_is_half(w->T)) pf_float_to_half(w->T, s->out, PF_DATA(void, t), n);
  return PF_OK;
}

static pf_status dilation2d(pf_ctx *c, const void *state) {
  const pf_window *w = state;
  sizes s;
  PF_TRY(sizes_of(c, w, &s));
  const int64_t shape[4] = {s.n, s.oh, s.ow, s.c};
  DLTensor *t = pf_output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(t);
  return pf_numel(t) ? run(c, w, &s, FORWARD, t) : PF_OK;
}

static pf_status gradient(pf_ctx *c, const pf_window *w, int which) {
  const DLTensor *dy = c->in[2], *like = c->in[which == TO_INPUT ? 0 : 1];
  sizes s;
  PF_TRY(sizes_of(c, w, &s));
  const int64_t want[4] = {s.n, s.oh, s.ow, s.c};
  if (!pf_same_dims(dy->shape, dy->ndim, want, 4))
    return PF_INVALID(c, "out_backprop must have shape %s, got %s", pf_shape_text(want, 4).s,
                      PF_SHAPE(dy).s);
  DLTensor *t = pf_output_checked(c, 0, like->shape, like->ndim);
  PF_EXHAUSTED(t);
  s.dy = PF_DATA(const void, dy);
  if (pf_numel(t) == 0) return PF_OK;
  if (pf_numel(dy) == 0) {
    memset(PF_DATA(void, t), 0, (size_t)(pf_numel(t) * pf_type_size(w->T)));
    return PF_OK;
  }
  return run(c, w, &s, which, t);
}
static pf_status dilation2d_input(pf_ctx *c, const void *state) {
  return gradient(c, state, TO_INPUT);
}
static pf_status dilation2d_filter(pf_ctx *c, const void *state) {
  return gradient(c, state, TO_FILTER);
}

#define RATES \
  (&(const pf_attr){sizeof(pf_attr), 0, "rates", PF_ATTR_LIST | PF_ATTR_INT, \
                    offsetof(pf_window, dilations)})
#define FLAGS (PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE)
#define ENTRY(op, fn) PF_CPU_FLAGS(op, "T=" PF_REAL, FLAGS, \
  .attrs = PF_ATTRS(PF_ATTR(pf_window, PF_ATTR_TYPE, T), \
                    PF_ATTR(pf_window, PF_ATTR_LIST | PF_ATTR_INT, strides), RATES, \
                    PF_ATTR(pf_window, PF_ATTR_STRING, padding)), \
  .state_size = sizeof(dilation), .init = dilation_init, .compute = fn)
const pf_kernel *const conv_dilation_kernels[] = {
  ENTRY("Dilation2D", dilation2d), ENTRY("Dilation2DBackpropInput", dilation2d_input),
  ENTRY("Dilation2DBackpropFilter", dilation2d_filter), NULL};
