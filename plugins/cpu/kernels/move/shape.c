/* shape.c - ops about shapes (Shape, Reshape, BroadcastGradientArgs, ...) and tensors made from a
 * shape (Fill, ZerosLike, Range, ...).  Reshape and its like are aliases: no element is copied. */
#include "move/strided.h"

static pf_status index_vector(pf_ctx *c, int32_t out, const int64_t *v, int64_t n) {
  DLTensor *y = c->host->output(c, out, &n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    if (c->out_type[out] == PF_INT32 && v[i] > INT32_MAX)
      return PF_INVALID(c, "%" PRId64 " does not fit int32; use out_type=int64", v[i]);
    pf_put_index(y, c->out_type[out], i, v[i]);
  }
  return PF_OK;
}
static pf_status index_scalar(pf_ctx *c, int64_t v) {
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  PF_EXHAUSTED(y);
  if (c->out_type[0] == PF_INT32 && v > INT32_MAX)
    return PF_INVALID(
        c, "Number of elements %" PRId64 " is larger than int32 max; use out_type=int64", v);
  pf_put_index(y, c->out_type[0], 0, v);
  return PF_OK;
}
static pf_status shape(pf_ctx *c, const void *state) { /* Shape, ShapeN */
  (void)state;
  for (int32_t i = 0; i < c->n_in; i++) PF_TRY(index_vector(c, i, c->in[i]->shape, c->in[i]->ndim));
  return PF_OK;
}
static pf_status rank(pf_ctx *c, const void *state) {
  (void)state;
  return index_scalar(c, c->in[0]->ndim);
}
static pf_status size(pf_ctx *c, const void *state) {
  (void)state;
  return index_scalar(c, pf_numel(c->in[0]));
}

/* -------------------------------------------------------- the same elements under another shape */
static pf_status reshape(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t dims[PF_MAX_DIMS], known = 1, total = pf_numel(x);
  int32_t nd, unknown = -1;
  (void)state;
  if (c->in[1]->ndim != 1)
    return PF_INVALID(c, "sizes input must be 1-D, not %s", PF_SHAPE(c->in[1]).s);
  PF_TRY(pf_in_vector(c, 1, "shape", dims, &nd));
  for (int32_t i = 0; i < nd; i++) {
    if (dims[i] == -1 && unknown >= 0)
      return PF_INVALID(c, "Only one input size may be -1, not both %d and %d", unknown, i);
    if (dims[i] < -1)
      return PF_INVALID(c, "Size %d must be non-negative, not %" PRId64, i, dims[i]);
    if (dims[i] == -1) unknown = i;
    else if (!pf_mul(known, dims[i], &known))
      return PF_INVALID(c, "Shape %s has too many elements", pf_shape_text(dims, nd).s);
  }
  if (unknown >= 0) {
    if (known == 0 && total == 0) { /* what is left of both without the sizes of 0, as in TF */
      int fits = 1;
      known = total = 1;
      for (int32_t i = 0; i < nd; i++)
        if (dims[i] > 0) fits = fits && pf_mul(known, dims[i], &known);
      for (int32_t i = 0; i < x->ndim; i++)
        if (x->shape[i]) fits = fits && pf_mul(total, x->shape[i], &total);
      if (!fits) return PF_INVALID(c, "Shape %s has too many elements", PF_SHAPE(x).s);
      total -= total % known;
    }
    if (known == 0)
      return PF_INVALID(
          c, "reshape cannot infer the missing input size for an empty tensor unless all "
             "specified input sizes are non-zero");
    if (total % known)
      return PF_INVALID(c,
                        "Input to reshape is a tensor with %" PRId64
                        " values, but the requested shape requires "
                        "a multiple of %" PRId64,
                        total, known);
    dims[unknown] = total / known;
  } else if (known != total) {
    return PF_INVALID(c,
                      "Input to reshape is a tensor with %" PRId64
                      " values, but the requested shape has %" PRId64,
                      total, known);
  }
  if (!pf_shape_numel(dims, nd, &known))
    return PF_INVALID(c, "Shape %s has too many elements", pf_shape_text(dims, nd).s);
  return c->host->alias(c, 0, 0, dims, nd);
}

static pf_status expand_dims(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t axis, dims[PF_MAX_DIMS + 1];
  int32_t a;
  (void)state;
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(pf_in_scalar(c, 1, "dim", &axis));
  if (axis < -1 - x->ndim || axis > x->ndim)
    return PF_INVALID(c, "Tried to expand dim index %" PRId64 " for tensor with %d dimensions.",
                      axis, x->ndim);
  a = (int32_t)(axis < 0 ? axis + x->ndim + 1 : axis);
  for (int32_t i = 0; i <= x->ndim; i++)
    dims[i] = i < a ? x->shape[i] : i == a ? 1 : x->shape[i - 1];
  return c->host->alias(c, 0, 0, dims, x->ndim + 1);
}

typedef struct { pf_list squeeze_dims; } squeeze_state;
static pf_status squeeze(pf_ctx *c, const void *state) {
  const squeeze_state *s = (const squeeze_state *)state;
  const DLTensor *x = c->in[0];
  const int64_t *axes = (const int64_t *)s->squeeze_dims.items;
  int64_t dims[PF_MAX_DIMS];
  int32_t drop[PF_MAX_DIMS] = {0}, nd = 0;
  PF_TRY(pf_check_rank(c, x, "input"));
  for (int64_t i = 0; i < s->squeeze_dims.n; i++) {
    if (axes[i] < -x->ndim || axes[i] >= x->ndim)
      return PF_INVALID(c, "Tried to squeeze dim index %" PRId64 " for tensor with %d dimensions.",
                        axes[i], x->ndim);
    int32_t a = (int32_t)(axes[i] < 0 ? axes[i] + x->ndim : axes[i]);
    if (x->shape[a] != 1)
      return PF_INVALID(c, "Can not squeeze dim[%d], expected a dimension of 1, got %" PRId64, a,
                        x->shape[a]);
    drop[a] = 1;
  }
  for (int32_t i = 0; i < x->ndim; i++)
    if (!(s->squeeze_dims.n ? drop[i] : x->shape[i] == 1)) dims[nd++] = x->shape[i];
  return c->host->alias(c, 0, 0, dims, nd);
}

static pf_status same(pf_ctx *c, const void *state) {
  (void)state;
  return c->host->alias(c, 0, 0, c->in[0]->shape, c->in[0]->ndim);
}
typedef struct { pf_shape shape; } ensure_state;
static pf_status ensure_shape(pf_ctx *c, const void *state) {
  const pf_shape *want = &((const ensure_state *)state)->shape;
  const DLTensor *x = c->in[0];
  int32_t ok = want->ndim < 0 || want->ndim == x->ndim;
  for (int32_t i = 0; ok && i < want->ndim; i++)
    ok = want->dims[i] < 0 || want->dims[i] == x->shape[i];
  if (!ok)
    return PF_INVALID(c, "Shape of tensor %s is not compatible with expected shape %s.",
                      PF_SHAPE(x).s, pf_shape_text(want->dims, want->ndim).s);
  return same(c, state);
}

/* ---------------------------------------------------------------- arithmetic on shapes */
static pf_status broadcast_args(pf_ctx *c, const void *state) {
  int64_t s[2][PF_MAX_DIMS], out[PF_MAX_DIMS];
  int32_t n[2];
  (void)state;
  for (int32_t k = 0; k < 2; k++) PF_TRY(pf_in_vector(c, k, k ? "s1" : "s0", s[k], &n[k]));
  int32_t nd = PF_MAX(n[0], n[1]);
  for (int32_t i = 1; i <= nd; i++) {
    int64_t a = i <= n[0] ? s[0][n[0] - i] : 1, b = i <= n[1] ? s[1][n[1] - i] : 1;
    if (a != b && a != 1 && b != 1)
      return PF_INVALID(c, "Incompatible shapes: %s vs. %s", pf_shape_text(s[0], n[0]).s,
                        pf_shape_text(s[1], n[1]).s);
    out[nd - i] = a == 1 ? b : a;
  }
  return index_vector(c, 0, out, nd);
}
/* the axes along which each of two broadcast shapes was repeated: what its gradient sums over */
static pf_status broadcast_gradient_args(pf_ctx *c, const void *state) {
  int64_t s[2][PF_MAX_DIMS], r[2][PF_MAX_DIMS];
  int32_t n[2], nr[2] = {0, 0};
  (void)state;
  for (int32_t k = 0; k < 2; k++) PF_TRY(pf_in_vector(c, k, k ? "s1" : "s0", s[k], &n[k]));
  int32_t nd = PF_MAX(n[0], n[1]);
  int32_t equal = pf_same_dims(s[0], n[0], s[1], n[1]);
  for (int32_t i = 0; i < nd && !equal; i++) {
    int64_t d[2];
    for (int32_t k = 0; k < 2; k++) d[k] = i - (nd - n[k]) >= 0 ? s[k][i - (nd - n[k])] : 1;
    if (d[0] != d[1] && d[0] != 1 && d[1] != 1)
      return PF_INVALID(c, "Incompatible shapes: %s vs. %s", pf_shape_text(s[0], n[0]).s,
                        pf_shape_text(s[1], n[1]).s);
    for (int32_t k = 0; k < 2; k++)
      if (d[k] == 1) r[k][nr[k]++] = i; /* both 1: listed for both, summing one element is free */
  }
  PF_TRY(index_vector(c, 0, r[0], nr[0]));
  return index_vector(c, 1, r[1], nr[1]);
}
static pf_status concat_offset(pf_ctx *c, const void *state) {
  int64_t axis, first[PF_MAX_DIMS], dims[PF_MAX_DIMS], at = 0;
  int32_t nd, n, a;
  (void)state;
  PF_TRY(pf_in_scalar(c, 0, "concat_dim", &axis));
  for (int32_t i = 1; i < c->n_in; i++) {
    PF_TRY(pf_in_vector(c, i, "shape", dims, &n));
    if (i == 1) {
      memcpy(first, dims, sizeof first), nd = n;
      PF_TRY(pf_axis(c, axis, nd, "Concat dim", &a));
    }
    if (n != nd)
      return PF_INVALID(c, "input %d should contain %d elements, but got %d", i - 1, nd, n);
    for (int32_t d = 0; d < nd; d++)
      if (d != a && dims[d] != first[d])
        return PF_INVALID(
            c,
            "All dimensions except %d must match. Input %d has shape %s and doesn't match input 0 "
            "with shape %s.",
            a, i - 1, pf_shape_text(dims, nd).s, pf_shape_text(first, nd).s);
    int64_t offset[PF_MAX_DIMS] = {0};
    offset[a] = at;
    if (__builtin_add_overflow(at, dims[a], &at)) return PF_INVALID(c, "Offsets overflow int64");
    PF_TRY(index_vector(c, i - 1, offset, nd));
  }
  return PF_OK;
}
#define INVERT(tag, T) \
  static pf_status invert_##tag(pf_ctx *c, const T *x, T *y, int64_t n) { \
    memset(y, 0xff, (size_t)n * sizeof(T));      /* -1: nobody's */ \
    for (int64_t i = 0; i < n; i++) { \
      const int64_t v = x[i]; \
      if (v < 0 || v >= n) \
        return PF_INVALID(c, "%" PRId64 " is not between 0 and %" PRId64, v, n); \
      if (y[v] != -1) return PF_INVALID(c, "%" PRId64 " is duplicated in the input.", v); \
      y[v] = (T)i; \
    } \
    return PF_OK; \
  }
INVERT(i32, int32_t)
INVERT(i64, int64_t)
#undef INVERT
static pf_status invert_permutation(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  (void)state;
  if (x->ndim != 1)
    return PF_INVALID(c, "invert_permutation expects a 1D vector, got shape %s.", PF_SHAPE(x).s);
  DLTensor *y = pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  return c->in_type[0] == PF_INT64
             ? invert_i64(c, PF_DATA(const int64_t, x), PF_DATA(int64_t, y), x->shape[0])
             : invert_i32(c, PF_DATA(const int32_t, x), PF_DATA(int32_t, y), x->shape[0]);
}

/* ---------------------------------------------------------------- filled tensors */
static pf_status shape_input(pf_ctx *c, int32_t in, const char *name, int64_t *dims, int32_t *nd) {
  PF_TRY(pf_in_vector(c, in, name, dims, nd));
  if (c->in[in]->ndim == 0) *nd = 1; /* TF lets a scalar stand for a vector of one */
  for (int32_t i = 0; i < *nd; i++)
    if (dims[i] < 0)
      return PF_INVALID(c, "Dimension %d of %s must be >= 0, got %" PRId64, i, name, dims[i]);
  return PF_OK;
}
static pf_status fill(pf_ctx *c, const void *state) {
  int64_t dims[PF_MAX_DIMS];
  int32_t nd;
  (void)state;
  PF_TRY(shape_input(c, 0, "dims", dims, &nd));
  if (c->in[1]->ndim != 0 && pf_numel(c->in[1]) != 1)
    return PF_INVALID(c, "value must be a scalar, got shape %s", PF_SHAPE(c->in[1]).s);
  DLTensor *y = pf_output_checked(c, 0, dims, nd);
  PF_EXHAUSTED(y);
  return pf_fill(c, y, 0, pf_numel(y), c->in[1], 0, pf_type_size(c->out_type[0]));
}
static pf_status zeros_like(pf_ctx *c, const void *state) {
  (void)state;
  DLTensor *y = pf_output_like(c, 0, c->in[0]);
  PF_EXHAUSTED(y);
  return pf_zero(c, y, 0, pf_numel(y), pf_type_size(c->out_type[0]));
}
static int32_t one_of(int32_t type, char *out) {
  memset(out, 0, 16);
  float f = 1;
  double d = 1;
  uint16_t half = 0x3c00, bf16 = 0x3f80;
  switch (type) {
    case PF_FLOAT32:
    case PF_COMPLEX64: memcpy(out, &f, 4); return 1;
    case PF_FLOAT64:
    case PF_COMPLEX128: memcpy(out, &d, 8); return 1;
    case PF_FLOAT16: memcpy(out, &half, 2); return 1;
    case PF_BFLOAT16: memcpy(out, &bf16, 2); return 1;
    case PF_INT8:
    case PF_UINT8:
    case PF_BOOL: *(uint8_t *)out = 1; return 1;
    case PF_INT16:
    case PF_UINT16: {
      uint16_t v = 1;
      memcpy(out, &v, 2);
      return 1;
    }
    case PF_INT32:
    case PF_UINT32: {
      uint32_t v = 1;
      memcpy(out, &v, 4);
      return 1;
    }
    case PF_INT64:
    case PF_UINT64: {
      uint64_t v = 1;
      memcpy(out, &v, 8);
      return 1;
    }
    default: return 0;
  }
}
static pf_status ones_like(pf_ctx *c, const void *state) {
  _Alignas(16) char one[16];
  (void)state;
  if (!one_of(c->out_type[0], one))
    return pf_failf(c, PF_UNIMPLEMENTED, "OnesLike is not defined for %s",
                    pf_type_name(c->out_type[0]));
  DLTensor *y = pf_output_like(c, 0, c->in[0]), value = {.data = one};
  PF_EXHAUSTED(y);
  return pf_fill(c, y, 0, pf_numel(y), &value, 0, pf_type_size(c->out_type[0]));
}
typedef struct { int32_t init; } empty_state;
static pf_status empty(pf_ctx *c, const void *state) {
  int64_t dims[PF_MAX_DIMS];
  int32_t nd;
  PF_TRY(shape_input(c, 0, "shape", dims, &nd));
  DLTensor *y = pf_output_checked(c, 0, dims, nd);
  PF_EXHAUSTED(y);
  int64_t esize = pf_type_size(c->out_type[0]);
  return ((const empty_state *)state)->init || !esize ? pf_zero(c, y, 0, pf_numel(y), esize)
                                                      : PF_OK;
}

/* ---------------------------------------------------------------- sequences */
#define RANGE_FLOAT(T) { \
    T start = *PF_DATA(T, c->in[0]), limit = *PF_DATA(T, c->in[1]), delta = *PF_DATA(T, c->in[2]); \
    PF_TRY(range_size(c, (double)start, (double)limit, (double)delta, \
                      ceil(fabs(((double)limit - (double)start) / (double)delta)), &n)); \
    DLTensor *y = c->host->output(c, 0, &n, 1); \
    PF_EXHAUSTED(y); \
    for (int64_t i = 0; i < n; i++) PF_DATA(T, y)[i] = start + (T)i * delta; \
    return PF_OK; }
#define RANGE_INT(T, U) \
  { \
    T start = *PF_DATA(T, c->in[0]), limit = *PF_DATA(T, c->in[1]), delta = *PF_DATA(T, c->in[2]); \
    uint64_t span = \
        limit > start ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit; \
    uint64_t step = delta < 0 ? 0 - (uint64_t)delta : (uint64_t)delta; \
    PF_TRY(range_size(c, (double)start, (double)limit, (double)delta, \
                      step ? (double)(span / step) + (span % step != 0) : 0, &n)); \
    DLTensor *y = c->host->output(c, 0, &n, 1); \
    PF_EXHAUSTED(y); \
    for (int64_t i = 0; i < n; i++) PF_DATA(T, y)[i] = (T)((U)start + (U)i * (U)delta); \
    return PF_OK; \
  }
static pf_status range_size(pf_ctx *c, double start, double limit, double delta, double n,
                            int64_t *size) {
  if (delta == 0) return PF_INVALID(c, "Requires delta != 0: 0");
  if (delta > 0 && start > limit)
    return PF_INVALID(c, "Requires start <= limit when delta > 0: %g/%g", start, limit);
  if (delta < 0 && start < limit)
    return PF_INVALID(c, "Requires start >= limit when delta < 0: %g/%g", start, limit);
  if (!(n < 0x1p59)) return PF_INVALID(c, "Requires ((limit - start) / delta) < 2^59, got %g", n);
  *size = (int64_t)n;
  return PF_OK;
}
static pf_status range_half(pf_ctx *c) { /* computed as float, each value rounded once */
  float v[3];
  int64_t n;
  for (int32_t i = 0; i < 3; i++)
    pf_half_to_float(c->out_type[0], PF_DATA(const void, c->in[i]), &v[i], 1);
  PF_TRY(range_size(c, v[0], v[1], v[2], ceil(fabs(((double)v[1] - v[0]) / v[2])), &n));
  DLTensor *y = c->host->output(c, 0, &n, 1);
  PF_EXHAUSTED(y);
  for (int64_t i = 0; i < n; i++) {
    float x = v[0] + (float)i * v[2];
    pf_float_to_half(c->out_type[0], &x, PF_DATA(uint16_t, y) + i, 1);
  }
  return PF_OK;
}
static pf_status range(pf_ctx *c, const void *state) {
  int64_t n;
  (void)state;
  for (int32_t i = 0; i < 3; i++)
    if (pf_numel(c->in[i]) != 1)
      return PF_INVALID(c, "%s must be a scalar, not shape %s",
                        i == 0   ? "start"
                        : i == 1 ? "limit"
                                 : "delta",
                        PF_SHAPE(c->in[i]).s);
  switch (c->out_type[0]) {
    case PF_FLOAT32: RANGE_FLOAT(float)
    case PF_FLOAT64: RANGE_FLOAT(double)
    case PF_FLOAT16:
    case PF_BFLOAT16: return range_half(c);
    case PF_INT8: RANGE_INT(int8_t, uint32_t)
    case PF_INT16: RANGE_INT(int16_t, uint32_t)
    case PF_INT32: RANGE_INT(int32_t, uint32_t)
    default: RANGE_INT(int64_t, uint64_t)
  }
}
static pf_status lin_space_half(pf_ctx *c, DLTensor *y, int64_t n) {
  float v[2];
  for (int32_t i = 0; i < 2; i++)
    pf_half_to_float(c->out_type[0], PF_DATA(const void, c->in[i]), &v[i], 1);
  for (int64_t i = 0; i < n; i++) {
    float x = n > 1 && i == n - 1 ? v[1]
              : n > 1             ? v[0] + (v[1] - v[0]) / (float)(n - 1) * (float)i
                                  : v[0];
    pf_float_to_half(c->out_type[0], &x, PF_DATA(uint16_t, y) + i, 1);
  }
  return PF_OK;
}
static pf_status lin_space(pf_ctx *c, const void *state) {
  int64_t n;
  (void)state;
  for (int32_t i = 0; i < 2; i++)
    if (pf_numel(c->in[i]) != 1)
      return PF_INVALID(c, "%s must be a scalar, not shape %s", i ? "stop" : "start",
                        PF_SHAPE(c->in[i]).s);
  PF_TRY(pf_in_scalar(c, 2, "num", &n));
  if (n <= 0) return PF_INVALID(c, "Requires num > 0: %" PRId64, n);
  DLTensor *y = pf_output_checked(c, 0, &n, 1);
  PF_EXHAUSTED(y);
#define LINSPACE(T) \
  { \
    T a = *PF_DATA(T, c->in[0]), b = *PF_DATA(T, c->in[1]), \
      step = n > 1 ? (b - a) / (T)(n - 1) : 0; \
    for (int64_t i = 0; i < n; i++) PF_DATA(T, y)[i] = a + step * (T)i; \
    if (n > 1) PF_DATA(T, y)[n - 1] = b; \
  }
  if (pf_is_half(c->out_type[0])) return lin_space_half(c, y, n);
  if (c->out_type[0] == PF_FLOAT32) LINSPACE(float) else LINSPACE(double) return PF_OK;
}

/* ---------------------------------------------------------------- CheckNumerics */
typedef struct { pf_str message; } check_state;
static pf_status check_numerics(pf_ctx *c, const void *state) {
  const pf_str m = ((const check_state *)state)->message;
  const DLTensor *x = c->in[0];
  int64_t n = pf_numel(x);
  int32_t nan = 0, inf = 0, type = c->in_type[0];
  if (type == PF_FLOAT32) {
    const float *v = PF_DATA(const float, x);
    for (int64_t i = 0; i < n; i++) nan |= v[i] != v[i], inf |= fabsf(v[i]) == INFINITY;
  } else if (type == PF_FLOAT64) {
    const double *v = PF_DATA(const double, x);
    for (int64_t i = 0; i < n; i++) nan |= v[i] != v[i], inf |= fabs(v[i]) == INFINITY;
  } else {
    const uint16_t *v = PF_DATA(const uint16_t, x);
    uint16_t top = type == PF_FLOAT16 ? 0x7c00 : 0x7f80;
    for (int64_t i = 0; i < n; i++) nan |= (v[i] & 0x7fff) > top, inf |= (v[i] & 0x7fff) == top;
  }
  if (nan || inf)
    return PF_INVALID(c, "%.*s : Tensor had %s values", (int)PF_MIN(m.len, 800),
                      m.len ? m.data : "",
                      nan && inf ? "Inf and NaN"
                      : nan      ? "NaN"
                                 : "Inf");
  return same(c, state);
}

const pf_kernel *const shape_kernels[] = {
  PF_CPU("Shape", NULL, .compute = shape),
  PF_CPU("ShapeN", NULL, .compute = shape),
  PF_CPU("Rank", NULL, .compute = rank),
  PF_CPU("Size", NULL, .compute = size),
  PF_CPU("Reshape", NULL, .compute = reshape, .args = PF_ALIASES("output")),
  PF_CPU("ExpandDims", NULL, .compute = expand_dims, .args = PF_ALIASES("output")),
  PF_CPU("Squeeze", NULL, .state_size = sizeof(squeeze_state), .compute = squeeze,
         .args = PF_ALIASES("output"),
         .attrs = PF_ATTRS(PF_ATTR(squeeze_state, PF_ATTR_LIST | PF_ATTR_INT, squeeze_dims))),
  PF_CPU("EnsureShape", NULL, .state_size = sizeof(ensure_state), .compute = ensure_shape,
         .args = PF_ALIASES("output"),
         .attrs = PF_ATTRS(PF_ATTR(ensure_state, PF_ATTR_SHAPE, shape))),
  PF_CPU("PlaceholderWithDefault", NULL, .compute = same),
  PF_CPU("BroadcastArgs", NULL, .compute = broadcast_args),
  PF_CPU("BroadcastGradientArgs", NULL, .compute = broadcast_gradient_args),
  PF_CPU("ConcatOffset", NULL, .compute = concat_offset),
  PF_CPU("InvertPermutation", NULL, .compute = invert_permutation),
  PF_CPU("Fill", NULL, .compute = fill),
  PF_CPU("ZerosLike", NULL, .compute = zeros_like),
  PF_CPU("OnesLike", NULL, .compute = ones_like),
  PF_CPU("Empty", NULL, .state_size = sizeof(empty_state), .compute = empty,
         .args = PF_ARGS(PF_FLAGGED_ARG("output", PF_ARG_UNSET, 0)),
         .attrs = PF_ATTRS(PF_ATTR(empty_state, PF_ATTR_BOOL, init))),
  PF_CPU("Range", "Tidx=" PF_FLOATS "|" PF_SIGNED, .compute = range),
  PF_CPU("LinSpace", "T=" PF_FLOATS, .compute = lin_space),
  PF_CPU("CheckNumerics", "T=" PF_FLOATS, .state_size = sizeof(check_state),
         .compute = check_numerics, .args = PF_ALIASES("output"),
         .attrs = PF_ATTRS(PF_ATTR(check_state, PF_ATTR_STRING, message))),
  NULL};
