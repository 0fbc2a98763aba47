/* conv3d.c - Conv3D and its gradients: for every filter plane a two-dimensional pass over the image
 * planes it meets.
 *
 *     y[n, z] = sum over kd of conv2d(x[n, z * sd + kd * dd - pd], f[kd])
 *
 * Invariants
 *   1. A pass runs only on sizes that sizes_of has checked; empty tensors never reach it.
 *   2. Sums go in the order of filter planes, whatever the threads.
 *   3. NCDHW is transposed to NDHWC and back; halves are summed as float and rounded once.
 * Threads: compute is concurrent; the passes use parallel_for.
 */
#include "conv/conv_operands.h"

typedef struct {
  pf_window w; /* first: `load` reads it; its lists have 5 entries */
  int64_t stride[3], rate[3];
} space;

typedef struct {
  pf_conv plane; /* of one image plane and one filter plane */
  int64_t n, d, kd, od, sd, dd, pd;
} volume;

/* A list attribute over [n, d, h, w, c]: its spatial entries, in [1, INT32_MAX]; the others 1. */
static pf_status spatial_entries(pf_ctx *c, const space *s, const pf_list *list, const char *name,
                                 int64_t *out) {
  const int64_t *v = list->items;
  int first = s->w.nchw ? 2 : 1, channel = s->w.nchw ? 1 : 4;
  out[0] = out[1] = out[2] = 1;
  if (list->n == 0) return PF_OK;
  if (list->n != 5)
    return PF_INVALID(c, "%s must specify 5 dimensions, got %" PRId64, name, list->n);
  if (v[0] != 1 || v[channel] != 1)
    return PF_INVALID(c, "%s in the batch and depth dimensions are not supported", name);
  for (int i = 0; i < 3; i++) {
    out[i] = v[first + i];
    if (out[i] < 1 || out[i] > INT32_MAX)
      return PF_INVALID(c, "%s must be positive and fit int32, got %" PRId64, name, out[i]);
  }
  return PF_OK;
}

static pf_status space_init(pf_ctx *c, void *state) {
  space *s = state;
  s->w.nchw = pf_str_is(s->w.data_format, "NCDHW");
  if (!s->w.nchw && s->w.data_format.len && !pf_str_is(s->w.data_format, "NDHWC"))
    return PF_INVALID(c, "data_format must be NDHWC or NCDHW, got '%.*s'",
                      (int)PF_MIN(s->w.data_format.len, 40), s->w.data_format.data);
  PF_TRY(spatial_entries(c, s, &s->w.strides, "strides", s->stride));
  PF_TRY(spatial_entries(c, s, &s->w.dilations, "dilations", s->rate));
  s->w.pad = pf_str_is(s->w.padding, "SAME") ? PF_PAD_SAME : PF_PAD_VALID;
  if (s->w.pad == PF_PAD_VALID && !pf_str_is(s->w.padding, "VALID"))
    return PF_INVALID(c, "padding must be SAME or VALID, got '%.*s'",
                      (int)PF_MIN(s->w.padding.len, 40), s->w.padding.data);
  return PF_OK;
}

static pf_status volume_dims(pf_ctx *c, const space *s, const int64_t *shape, int32_t ndim,
                             const char *name, int64_t *ndhwc) {
  if (ndim != 5)
    return PF_INVALID(c, "%s must be 5-dimensional: %s", name, pf_shape_text(shape, ndim).s);
  int first = s->w.nchw ? 2 : 1;
  ndhwc[0] = shape[0], ndhwc[4] = shape[s->w.nchw ? 1 : 4];
  for (int i = 0; i < 3; i++) ndhwc[1 + i] = shape[first + i];
  return PF_OK;
}
static void volume_shape(const space *s, const volume *v, int64_t *shape) {
  int first = s->w.nchw ? 2 : 1;
  shape[0] = v->n, shape[s->w.nchw ? 1 : 4] = v->plane.oc;
  shape[first] = v->od, shape[first + 1] = v->plane.oh, shape[first + 2] = v->plane.ow;
}

/* All sizes of the convolution of x [n, d, h, w, c] with f [kd, kh, kw, c, oc]. */
static pf_status sizes_of(pf_ctx *c, const space *s, const int64_t *x, const int64_t *f,
                          volume *v) {
  pf_window depth = s->w, plane = s->w;
  const int64_t image[4] = {x[0], x[2], x[3], x[4]}, filter[4] = {f[1], f[2], f[3], f[4]};
  int64_t whole;
  depth.sh = s->stride[0], depth.dh = s->rate[0];
  plane.sh = s->stride[1], plane.sw = s->stride[2];
  plane.dh = s->rate[1], plane.dw = s->rate[2];
  *v = (volume){.n = x[0], .d = x[1], .kd = f[0], .sd = s->stride[0], .dd = s->rate[0]};
  PF_TRY(conv_sizes(c, &plane, image, filter, &v->plane));
  PF_TRY(pf_window_size(c, &depth, 0, v->d, v->kd, &v->od, &v->pd));
  int64_t planes = v->d + v->pd * 2 + v->kd * v->dd + v->sd;
  if (planes > INT32_MAX || !pf_mul(PF_MAX(v->plane.x_image, 1), planes * 64, &whole) ||
      !pf_mul(whole, PF_MAX(v->n, 1), &whole))
    return PF_INVALID(c, "convolution of %s with filter %s is too large", pf_shape_text(x, 5).s,
                      pf_shape_text(f, 5).s);
  return PF_OK;
}

/* Output planes [*a, *b) that filter plane k meets inside the image. */
static void planes_met(const volume *v, int64_t k, int64_t *a, int64_t *b) {
  int64_t first = k * v->dd - v->pd; /* image plane of output plane 0 */
  *a = first >= 0 ? 0 : (-first + v->sd - 1) / v->sd;
  *b = first >= v->d ? 0 : PF_MIN((v->d - 1 - first) / v->sd + 1, v->od);
  *a = PF_MIN(*a, *b);
}

/* Which of the four operands is written; x, dy are whole volumes, f, df whole filters. */
typedef struct {
  const void *x, *f, *dy;
  void *out;
} operands;

/* Output planes [a, b) of all volumes, filter plane k: added to what is there. */
static pf_status run_planes(pf_ctx *c, const space *s, const volume *v, int which,
                            const operands *o, int64_t k, int64_t a, int64_t b) {
  static const pass passes[2][3] = {
    {PF_ISA_NAME(pf_conv_forward_f32), PF_ISA_NAME(pf_conv_input_f32),
     PF_ISA_NAME(pf_conv_filter_f32)},
    {PF_ISA_NAME(pf_conv_forward_f64), PF_ISA_NAME(pf_conv_input_f64),
     PF_ISA_NAME(pf_conv_filter_f64)}};
  const int64_t size = s->w.T == PF_FLOAT64 ? 8 : 4;
  pf_conv g = v->plane;
  const int64_t x_at = (a * v->sd + k * v->dd - v->pd) * g.x_image * size;
  const int64_t y_at = a * g.y_image * size, f_at = k * g.kh * g.kw * g.fc * g.oc * size;
  g.depth = b - a;
  g.n = v->n * g.depth;
  g.x_volume = v->d * g.x_image;
  g.y_volume = v->od * g.y_image;
  g.x_image *= v->sd;
  pf_conv_call call = {.g = &g, .add = 1};
  call.x = o->x ? (const char *)o->x + x_at : NULL;
  call.dy = o->dy ? (const char *)o->dy + y_at : NULL;
  call.f = o->f ? (const char *)o->f + f_at : NULL;
  call.out = (char *)o->out + (which == FORWARD ? y_at : which == INPUT ? x_at : f_at);
  return passes[s->w.T == PF_FLOAT64][which](c, &call);
}

/* The sum over all filter planes. */
static pf_status run_volume(pf_ctx *c, const space *s, const volume *v, int which,
                            const operands *o, int64_t elements) {
  volume flat = *v;
  if (v->kd == 1 && v->sd == 1 && v->pd == 0) /* planes are images */
    flat.n = 1, flat.d = flat.od = v->n * v->d;
  memset(o->out, 0, (size_t)(elements * (s->w.T == PF_FLOAT64 ? 8 : 4)));
  for (int64_t k = 0; k < flat.kd; k++) {
    int64_t a, b;
    planes_met(&flat, k, &a, &b);
    if (a < b) PF_TRY(run_planes(c, s, &flat, which, o, k, a, b));
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- kernels */
static pf_status conv3d(pf_ctx *c, const void *state) {
  const space *s = state;
  const DLTensor *x = c->in[0], *f = c->in[1];
  int64_t xd[5], shape[5];
  operands o = {0};
  volume v;
  PF_TRY(volume_dims(c, s, x->shape, x->ndim, "input", xd));
  if (f->ndim != 5) return PF_INVALID(c, "filter must be 5-dimensional: %s", PF_SHAPE(f).s);
  PF_TRY(sizes_of(c, s, xd, f->shape, &v));
  volume_shape(s, &v, shape);
  result r = {.t = pf_output_checked(c, 0, shape, 5),
              .pixels = v.od * v.plane.oh * v.plane.ow,
              .ch = v.plane.oc,
              .image = 1};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(x) == 0) return zeros(r.t, s->w.T);
  PF_TRY(load(c, &s->w, x, v.d * v.plane.h * v.plane.w, v.plane.c, 1, &o.x));
  PF_TRY(load(c, &s->w, f, 0, 0, 0, &o.f));
  PF_TRY(open_result(c, &s->w, &r));
  o.out = r.at;
  PF_TRY(run_volume(c, s, &v, FORWARD, &o, pf_numel(r.t)));
  return store(c, &s->w, &r);
}

/* The shape a vector input names. */
static pf_status named_shape(pf_ctx *c, int32_t in, const char *name, int64_t *shape) {
  int32_t n;
  int64_t total;
  PF_TRY(pf_in_vector(c, in, name, shape, &n));
  if (n != 5) return PF_INVALID(c, "%s must be a vector of 5 sizes, got %d", name, n);
  for (int i = 0; i < 5; i++)
    if (shape[i] < 0)
      return PF_INVALID(c, "%s must be non-negative, got %s", name, pf_shape_text(shape, 5).s);
  if (!pf_shape_numel(shape, 5, &total) || total > INT64_MAX / 64)
    return PF_INVALID(c, "%s %s has too many elements", name, pf_shape_text(shape, 5).s);
  return PF_OK;
}

static pf_status check_volume(pf_ctx *c, const space *s, const volume *v) {
  const DLTensor *dy = c->in[2];
  int64_t want[5];
  volume_shape(s, v, want);
  if (pf_same_dims(dy->shape, dy->ndim, want, 5)) return PF_OK;
  return PF_INVALID(c, "Size of out_backprop doesn't match computed: actual = %s, computed = %s",
                    PF_SHAPE(dy).s, pf_shape_text(want, 5).s);
}

static pf_status conv3d_backprop_input(pf_ctx *c, const void *state) {
  const space *s = state;
  const DLTensor *f = c->in[1], *dy = c->in[2];
  int64_t shape[PF_MAX_DIMS], xd[5];
  operands o = {0};
  volume v;
  PF_TRY(named_shape(c, 0, "input_sizes", shape));
  if (f->ndim != 5) return PF_INVALID(c, "filter must be 5-dimensional: %s", PF_SHAPE(f).s);
  PF_TRY(volume_dims(c, s, shape, 5, "input_sizes", xd));
  PF_TRY(sizes_of(c, s, xd, f->shape, &v));
  PF_TRY(check_volume(c, s, &v));
  result r = {.t = pf_output_checked(c, 0, shape, 5),
              .pixels = v.d * v.plane.h * v.plane.w,
              .ch = v.plane.c,
              .image = 1};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0) return zeros(r.t, s->w.T);
  PF_TRY(load(c, &s->w, dy, v.od * v.plane.oh * v.plane.ow, v.plane.oc, 1, &o.dy));
  PF_TRY(load(c, &s->w, f, 0, 0, 0, &o.f));
  PF_TRY(open_result(c, &s->w, &r));
  o.out = r.at;
  PF_TRY(run_volume(c, s, &v, INPUT, &o, pf_numel(r.t)));
  return store(c, &s->w, &r);
}

static pf_status conv3d_backprop_filter(pf_ctx *c, const void *state) {
  const space *s = state;
  const DLTensor *x = c->in[0], *dy = c->in[2];
  int64_t shape[PF_MAX_DIMS], xd[5];
  operands o = {0};
  volume v;
  PF_TRY(named_shape(c, 1, "filter_sizes", shape));
  PF_TRY(volume_dims(c, s, x->shape, x->ndim, "input", xd));
  PF_TRY(sizes_of(c, s, xd, shape, &v));
  PF_TRY(check_volume(c, s, &v));
  result r = {.t = pf_output_checked(c, 0, shape, 5)};
  PF_EXHAUSTED(r.t);
  if (pf_numel(r.t) == 0 || pf_numel(dy) == 0 || pf_numel(x) == 0) return zeros(r.t, s->w.T);
  PF_TRY(load(c, &s->w, x, v.d * v.plane.h * v.plane.w, v.plane.c, 1, &o.x));
  PF_TRY(load(c, &s->w, dy, v.od * v.plane.oh * v.plane.ow, v.plane.oc, 1, &o.dy));
  PF_TRY(open_result(c, &s->w, &r));
  o.out = r.at;
  PF_TRY(run_volume(c, s, &v, FILTER, &o, pf_numel(r.t)));
  return store(c, &s->w, &r);
}

#define ENTRY(op, fn) PF_CPU_FLAGS(op, "T=" PF_FLOATS, CONV_FLAGS, \
  .attrs = PF_ATTRS(WINDOW_ATTRS), .state_size = sizeof(space), .init = space_init, .compute = fn)
const pf_kernel *const PF_ISA_NAME(conv3d_kernels)[] = {
  ENTRY("Conv3D", conv3d), ENTRY("Conv3DBackpropInputV2", conv3d_backprop_input),
  ENTRY("Conv3DBackpropFilterV2", conv3d_backprop_filter), NULL};
