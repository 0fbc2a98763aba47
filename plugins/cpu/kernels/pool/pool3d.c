/* pool3d.c - pooling over three spatial dimensions: MaxPool3D, AvgPool3D and their gradients; and,
 * as volumes of depth 1, MaxPoolV2, MaxPoolGradV2 and the second gradients MaxPoolGradGrad,
 * MaxPoolGradGradV2, MaxPoolGradGradWithArgmax: attributes, sizes and checks.
 *
 * Invariants
 *   1. The work is pool.h's; channels-first tensors are n * c images of one channel.
 *   2. Every size and index is checked before anything is computed.
 *   3. A second gradient is taken from the first maximum, where a first one goes.
 * Threads: those of pool.h.
 */
#include "pool/pool.h"

typedef struct {
  int32_t T, TInput, Targmax, with_batch;
  pf_list ksize, strides;
  pf_str padding, data_format;
} pool_attrs;

/* ---------------------------------------------------------------- sizes */
static int is_text(pf_str s, const char *text) {
  return s.len == (int64_t)strlen(text) && !memcmp(s.data, text, (size_t)s.len);
}
static int channels_first(const pool_attrs *s) {
  return s->data_format.len > 1 && s->data_format.data[1] == 'C';
}

/* One dimension: output size and padding before. */
static pf_status place(pf_ctx *c, int same, pf_pool *p, int d) {
  int64_t in = p->in[d], k = p->k[d], s = p->stride[d];
  if (k < 1 || s < 1 || k > INT32_MAX || s > INT32_MAX)
    return PF_INVALID(
        c, "ksize and strides must be positive and fit int32, got %" PRId64 " and %" PRId64, k, s);
  if (!same && in < k)
    return PF_INVALID(
        c, "Computed output size would be negative: input size %" PRId64 ", window size %" PRId64,
        in, k);
  p->out[d] = same ? in / s + (in % s != 0) : (in - k) / s + 1;
  p->before[d] = same ? PF_MAX((p->out[d] - 1) * s + k - in, 0) / 2 : 0;
  return PF_OK;
}

/* Sizes of pooling a tensor of `ndim` (4 or 5) dimensions; `out` gets the result's shape. */
static pf_status pool_sizes(pf_ctx *c, const pool_attrs *s, const int64_t *shape, int32_t ndim,
                            int32_t want, const int64_t *ksize, const int64_t *strides, pf_pool *p,
                            int64_t *out) {
  int first = channels_first(s), same = is_text(s->padding, "SAME"), spatial = want - 2;
  if (ndim != want)
    return PF_INVALID(c, "the pooled tensor must have rank %d, got shape %s", want,
                      pf_shape_text(shape, ndim).s);
  if (!same && !is_text(s->padding, "VALID"))
    return PF_INVALID(c, "padding must be SAME or VALID, got '%.*s'", (int)s->padding.len,
                      s->padding.data);
  int ch = first ? 1 : want - 1, at = first ? 2 : 1;
  if (ksize[0] != 1 || strides[0] != 1 || ksize[ch] != 1 || strides[ch] != 1)
    return pf_failf(c, PF_UNIMPLEMENTED,
                    "Pooling is not yet supported on the batch nor channel dimension.");
  *p = (pf_pool){.n = shape[0], .c = shape[ch]};
  memcpy(out, shape, sizeof(int64_t) * (size_t)want);
  for (int d = 0; d < 3; d++) {
    int from = d - (3 - spatial);
    p->in[d] = from < 0 ? 1 : shape[at + from];
    p->k[d] = from < 0 ? 1 : ksize[at + from];
    p->stride[d] = from < 0 ? 1 : strides[at + from];
    PF_TRY(place(c, same, p, d));
    if (from >= 0) out[at + from] = p->out[d];
  }
  if (first) {
    if (!pf_mul(p->n, p->c, &p->n)) return PF_INVALID(c, "the pooled tensor is too large");
    p->c = 1;
  }
  return PF_OK;
}
static pf_status attr_sizes(pf_ctx *c, const pool_attrs *s, const int64_t *shape, int32_t ndim,
                            int32_t want, pf_pool *p, int64_t *out) {
  if (s->ksize.n != want || s->strides.n != want)
    return PF_INVALID(c, "ksize and strides must have %d elements", want);
  return pool_sizes(c, s, shape, ndim, want, s->ksize.items, s->strides.items, p, out);
}
/* ksize and strides as inputs `at` and `at + 1` */
static pf_status input_sizes(pf_ctx *c, const pool_attrs *s, int32_t at, pf_pool *p, int64_t *out) {
  int64_t v[2][PF_MAX_DIMS];
  int32_t n[2];
  PF_TRY(pf_in_vector(c, at, "ksize", v[0], &n[0]));
  PF_TRY(pf_in_vector(c, at + 1, "strides", v[1], &n[1]));
  if (n[0] != 4 || n[1] != 4)
    return PF_INVALID(c, "ksize and strides must have 4 elements, got %d and %d", n[0], n[1]);
  return pool_sizes(c, s, c->in[0]->shape, c->in[0]->ndim, 4, v[0], v[1], p, out);
}

static pf_status want_shape(pf_ctx *c, int32_t in, const char *name, const int64_t *shape,
                            int32_t ndim) {
  const DLTensor *t = c->in[in];
  if (pf_same_dims(t->shape, t->ndim, shape, ndim)) return PF_OK;
  return PF_INVALID(c, "Expected %s shape to be %s, but got %s", name, pf_shape_text(shape, ndim).s,
                    PF_SHAPE(t).s);
}

/* ---------------------------------------------------------------- forward */
static pf_status forward(pf_ctx *c, const pool_attrs *s, const pf_pool *p, const int64_t *shape,
                         int32_t ndim, int max) {
  DLTensor *out = pf_output_checked(c, 0, shape, ndim);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  return PF_ISA_NAME(pf_pool_forward)(c, p, s->T, max, PF_DATA(const void, c->in[0]),
                                      PF_DATA(void, out));
}
static pf_status pool_volume(pf_ctx *c, const pool_attrs *s, int max) {
  int64_t shape[5];
  pf_pool p;
  PF_TRY(attr_sizes(c, s, c->in[0]->shape, c->in[0]->ndim, 5, &p, shape));
  return forward(c, s, &p, shape, 5, max);
}
static pf_status max_pool3d(pf_ctx *c, const void *s) { return pool_volume(c, s, 1); }
static pf_status avg_pool3d(pf_ctx *c, const void *s) { return pool_volume(c, s, 0); }
static pf_status max_pool_v2(pf_ctx *c, const void *s) {
  int64_t shape[4];
  pf_pool p;
  PF_TRY(input_sizes(c, s, 1, &p, shape));
  return forward(c, s, &p, shape, 4, 1);
}

/* ---------------------------------------------------------------- gradients of maxima */
/* out[i] = from[at[i]], `at` within the image that i belongs to */
static void take_elements(int32_t type, const void *from, const int64_t *at, int64_t per_out,
                          int64_t per_in, int64_t n, void *out) {
  const size_t size = (size_t)pf_type_size(type);
  for (int64_t i = 0; i < n; i++) {
    const size_t place = (size_t)(i / per_out * per_in + at[i]);
    memcpy((char *)out + (size_t)i * size, (const char *)from + place * size, size);
  }
}

/* Inputs 0 to 2: orig_input, orig_output, grad.  `second`: grad has orig_input's shape, the result
 * orig_output's; otherwise the other way round. */
static pf_status backward(pf_ctx *c, const pool_attrs *s, pf_pool *p, const int64_t *shape,
                          int32_t ndim, int second) {
  const DLTensor *x = c->in[0];
  PF_TRY(want_shape(c, 1, "orig_output", shape, ndim));
  PF_TRY(want_shape(c, 2, "grad", second ? x->shape : shape, ndim));
  DLTensor *out = pf_output_checked(c, 0, second ? shape : x->shape, ndim);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  const void *from = PF_DATA(const void, x), *grad = PF_DATA(const void, c->in[2]);
  if (!second) return PF_ISA_NAME(pf_pool_max_gradient)(c, p, s->T, from, grad, PF_DATA(void, out));
  const int64_t n = pf_numel(out);
  int64_t *at = c->host->scratch(c, (uint64_t)n * 8, 64);
  if (!at) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for indices");
  PF_TRY(PF_ISA_NAME(pf_pool_first_maxima)(c, p, s->T, from, NULL, at));
  take_elements(s->T, grad, at, n / p->n, pf_numel(x) / p->n, n, PF_DATA(void, out));
  return PF_OK;
}
static pf_status with_attrs(pf_ctx *c, const void *state, int32_t ndim, int second) {
  const pool_attrs *s = state;
  int64_t shape[5];
  pf_pool p;
  if (s->TInput && s->TInput != s->T)
    return pf_failf(c, PF_UNIMPLEMENTED, "TInput %s and T %s must be one type",
                    pf_type_name(s->TInput), pf_type_name(s->T));
  PF_TRY(attr_sizes(c, s, c->in[0]->shape, c->in[0]->ndim, ndim, &p, shape));
  return backward(c, s, &p, shape, ndim, second);
}
static pf_status with_inputs(pf_ctx *c, const void *s, int second) {
  int64_t shape[4];
  pf_pool p;
  PF_TRY(input_sizes(c, s, 3, &p, shape));
  return backward(c, s, &p, shape, 4, second);
}
static pf_status max_grad3d(pf_ctx *c, const void *s) { return with_attrs(c, s, 5, 0); }
static pf_status max_grad_grad3d(pf_ctx *c, const void *s) { return with_attrs(c, s, 5, 1); }
static pf_status max_grad_grad2d(pf_ctx *c, const void *s) { return with_attrs(c, s, 4, 1); }
static pf_status max_grad_v2(pf_ctx *c, const void *s) { return with_inputs(c, s, 0); }
static pf_status max_grad_grad_v2(pf_ctx *c, const void *s) { return with_inputs(c, s, 1); }

/* out[i] = grad[argmax[i]] */
static pf_status argmax_grad_grad(pf_ctx *c, const void *state) {
  const pool_attrs *s = state;
  const DLTensor *x = c->in[0], *dz = c->in[1], *arg = c->in[2];
  int64_t shape[5], n = pf_numel(arg), size = pf_numel(x);
  pf_pool p;
  PF_TRY(attr_sizes(c, s, x->shape, x->ndim, 4, &p, shape));
  PF_TRY(want_shape(c, 1, "grad", x->shape, 4));
  PF_TRY(want_shape(c, 2, "argmax", shape, 4));
  DLTensor *out = pf_output_checked(c, 0, shape, 4);
  PF_EXHAUSTED(out);
  int64_t per_out = PF_MAX(n / PF_MAX(p.n, 1), 1), per_in = size / PF_MAX(p.n, 1),
          bytes = pf_type_size(s->T);
  for (int64_t i = 0; i < n; i++) {
    int64_t a = pf_index_at(arg, s->Targmax, i), limit = s->with_batch ? size : per_in;
    if (a < 0 || a >= limit)
      return PF_INVALID(c, "argmax[%" PRId64 "] = %" PRId64 " is not in [0, %" PRId64 ")", i, a,
                        limit);
    a += s->with_batch ? 0 : i / per_out * per_in;
    memcpy(PF_DATA(char, out) + i * bytes, PF_DATA(const char, dz) + a * bytes, (size_t)bytes);
  }
  return PF_OK;
}

/* ---------------------------------------------------------------- gradient of averages */
static pf_status avg_grad3d(pf_ctx *c, const void *state) {
  const pool_attrs *s = state;
  int64_t in[PF_MAX_DIMS], shape[5], total;
  int32_t n = 0;
  pf_pool p;
  PF_TRY(pf_in_vector(c, 0, "orig_input_shape", in, &n));
  if (n != 5) return PF_INVALID(c, "orig_input_shape must have 5 elements, got %d", n);
  for (int d = 0; d < 5; d++)
    if (in[d] < 0)
      return PF_INVALID(c, "orig_input_shape must be non-negative, got %s", pf_shape_text(in, 5).s);
  if (!pf_shape_numel(in, 5, &total))
    return PF_INVALID(c, "orig_input_shape %s has too many elements", pf_shape_text(in, 5).s);
  PF_TRY(attr_sizes(c, s, in, 5, 5, &p, shape));
  PF_TRY(want_shape(c, 1, "grad", shape, 5));
  DLTensor *out = pf_output_checked(c, 0, in, 5);
  PF_EXHAUSTED(out);
  if (pf_numel(out) == 0) return PF_OK;
  return PF_ISA_NAME(pf_pool_average_gradient)(c, &p, s->T, PF_DATA(const void, c->in[1]),
                                               PF_DATA(void, out));
}

#define FIELD(name, kind, field) \
  (&(const pf_attr){sizeof(pf_attr), PF_ATTR_OPTIONAL, name, kind, offsetof(pool_attrs, field)})
#define ENTRY(op, types, fn) \
  PF_CPU_FLAGS(op, "T=" types, PF_KERNEL_DETERMINISTIC | PF_KERNEL_EXPENSIVE, \
    .attrs = PF_ATTRS(FIELD("T", PF_ATTR_TYPE, T), FIELD("TInput", PF_ATTR_TYPE, TInput), \
                      FIELD("Targmax", PF_ATTR_TYPE, Targmax), \
                      FIELD("include_batch_in_index", PF_ATTR_BOOL, with_batch), \
                      FIELD("ksize", PF_ATTR_LIST | PF_ATTR_INT, ksize), \
                      FIELD("strides", PF_ATTR_LIST | PF_ATTR_INT, strides), \
                      FIELD("padding", PF_ATTR_STRING, padding), \
                      FIELD("data_format", PF_ATTR_STRING, data_format)), \
    .state_size = sizeof(pool_attrs), .compute = fn)
#define SINGLE "float|half|bfloat16"
const pf_kernel *const PF_ISA_NAME(pool3d_kernels)[] = {
  ENTRY("MaxPool3D", SINGLE, max_pool3d),
  ENTRY("MaxPool3DGrad", SINGLE, max_grad3d),
  ENTRY("MaxPool3DGradGrad", PF_FLOATS, max_grad_grad3d),
  ENTRY("AvgPool3D", PF_FLOATS, avg_pool3d),
  ENTRY("AvgPool3DGrad", PF_FLOATS, avg_grad3d),
  ENTRY("MaxPoolV2", PF_FLOATS, max_pool_v2),
  ENTRY("MaxPoolGradV2", PF_FLOATS, max_grad_v2),
  ENTRY("MaxPoolGradGrad", PF_FLOATS, max_grad_grad2d),
  ENTRY("MaxPoolGradGradV2", PF_FLOATS, max_grad_grad_v2),
  ENTRY("MaxPoolGradGradWithArgmax", PF_FLOATS, argmax_grad_grad),
  NULL};
