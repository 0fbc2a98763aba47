/* kernels_shape.c - Reshape and its relatives (no data moves), and the ops whose results are about
 * shapes and therefore live in host memory: Shape, ShapeN, Size, Rank, BroadcastGradientArgs.
 *
 * Their outputs carry PF_ARG_WRITTEN: what a shape is needs no work of the device.
 */
#include "launch.h"

/* ---------------------------------------------------------------- Reshape, ExpandDims, Squeeze */
static pf_status reshape(pf_ctx *c, const void *s) {
  int64_t dims[MAX_HOST_VALUES], known = 1, n = pf_numel(c->in[0]);
  int32_t ndim = host_ints(c, 1, dims), open = -1;
  char text[120];
  (void)s;
  if (ndim < 0) return PF_INVALID_ARGUMENT;
  for (int32_t i = 0; i < ndim; i++) {
    if (dims[i] == -1 && open < 0) open = i;
    else if (dims[i] < 0) return failf(c, PF_INVALID_ARGUMENT, "shape has two or wrong negatives");
    else known *= dims[i];
  }
  if (open >= 0 && known == 0 && n == 0) { /* what is left where both shapes have a 0 */
    int64_t left = 1, rest = 1;
    for (int32_t i = 0; i < c->in[0]->ndim; i++)
      if (c->in[0]->shape[i]) left *= c->in[0]->shape[i];
    for (int32_t i = 0; i < ndim; i++)
      if (i != open && dims[i]) rest *= dims[i];
    dims[open] = left / rest;
    return c->host->alias(c, 0, 0, dims, ndim);
  }
  if (open >= 0 && (known == 0 || n % known))
    return failf(c, PF_INVALID_ARGUMENT, "%lld values do not fit shape %s", (long long)n,
                 shape_text(dims, ndim, text, sizeof text));
  if (open >= 0) dims[open] = n / known;
  else if (known != n)
    return failf(c, PF_INVALID_ARGUMENT,
                 "Input to reshape is a tensor with %lld values, but the requested shape has %lld",
                 (long long)n, (long long)known);
  return c->host->alias(c, 0, 0, dims, ndim);
}

static pf_status expand_dims(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  int64_t dims[FAKE_RANK + 1], axis;
  (void)s;
  if (x->ndim >= FAKE_RANK) return failf(c, PF_UNIMPLEMENTED, "too many dimensions: %d", x->ndim);
  if (host_ints(c, 1, dims) != 1) return failf(c, PF_INVALID_ARGUMENT, "dim must be a scalar");
  pf_status status = one_axis(c, dims[0], x->ndim + 1, &axis);
  if (status) return status;
  for (int32_t i = 0, k = 0; i <= x->ndim; i++) dims[i] = i == axis ? 1 : x->shape[k++];
  return c->host->alias(c, 0, 0, dims, x->ndim + 1);
}

static pf_status squeeze(pf_ctx *c, const void *state) {
  const fake_state *s = state;
  const DLTensor *x = c->in[0];
  int64_t dims[FAKE_RANK], axis;
  uint32_t gone = 0;
  int32_t n = 0;
  if (x->ndim > FAKE_RANK) return failf(c, PF_UNIMPLEMENTED, "too many dimensions: %d", x->ndim);
  for (int64_t i = 0; i < s->squeeze_dims.n; i++) {
    pf_status status = one_axis(c, ((const int64_t *)s->squeeze_dims.items)[i], x->ndim, &axis);
    if (status) return status;
    if (x->shape[axis] != 1)
      return failf(c, PF_INVALID_ARGUMENT, "cannot squeeze dimension %lld of size %lld",
                   (long long)axis, (long long)x->shape[axis]);
    gone |= 1u << axis;
  }
  for (int32_t i = 0; i < x->ndim; i++)
    if (s->squeeze_dims.n ? !(gone >> i & 1) : x->shape[i] != 1) dims[n++] = x->shape[i];
  return c->host->alias(c, 0, 0, dims, n);
}

/* ---------------------------------------------------------------- Shape, Size, Rank */
static pf_status shape(pf_ctx *c, const void *s) {
  (void)s;
  return host_vector(c, 0, c->in[0]->shape, c->in[0]->ndim, 0);
}
static pf_status shape_n(pf_ctx *c, const void *s) {
  pf_status status = PF_OK;
  (void)s;
  for (int32_t i = 0; i < c->n_in && !status; i++)
    status = host_vector(c, i, c->in[i]->shape, c->in[i]->ndim, 0);
  return status;
}
static pf_status size(pf_ctx *c, const void *s) {
  int64_t n = pf_numel(c->in[0]);
  (void)s;
  return host_vector(c, 0, &n, 1, 1);
}
static pf_status rank(pf_ctx *c, const void *s) {
  int64_t n = c->in[0]->ndim;
  (void)s;
  return host_vector(c, 0, &n, 1, 1);
}

/* The axes that each of two broadcast operands was repeated along.  Axes where both are 1 are
 * listed for both, unless the shapes are equal: summing one element changes nothing. */
static pf_status broadcast_gradient_args(pf_ctx *c, const void *s) {
  int64_t shape[2][MAX_HOST_VALUES], axes[2][MAX_HOST_VALUES], d[2];
  int32_t ndim[2], n[2] = {0, 0};
  (void)s;
  for (int32_t k = 0; k < 2; k++)
    if ((ndim[k] = host_ints(c, k, shape[k])) < 0) return PF_INVALID_ARGUMENT;
  int32_t most = ndim[0] > ndim[1] ? ndim[0] : ndim[1];
  int32_t equal =
      ndim[0] == ndim[1] && !memcmp(shape[0], shape[1], sizeof(int64_t) * (size_t)ndim[0]);
  for (int32_t i = 0; i < most && !equal; i++) {
    for (int32_t k = 0; k < 2; k++) {
      int32_t at = i - (most - ndim[k]);
      d[k] = at >= 0 ? shape[k][at] : 1;
    }
    if (d[0] != d[1] && d[0] != 1 && d[1] != 1)
      return failf(c, PF_INVALID_ARGUMENT, "Incompatible shapes in dimension %d", i);
    for (int32_t k = 0; k < 2; k++)
      if (d[k] == 1) axes[k][n[k]++] = i;
  }
  pf_status status = host_vector(c, 0, axes[0], n[0], 0);
  return status ? status : host_vector(c, 1, axes[1], n[1], 0);
}

const pf_kernel *const shape_kernels[] = {
  FAKE("Reshape", "T=" FAKE_ANY, reshape, ARGS(ON_HOST("shape"))),
  FAKE("ExpandDims", "T=" FAKE_ANY, expand_dims, ARGS(ON_HOST("dim"))),
  FAKE("Squeeze", "T=" FAKE_ANY, squeeze, ATTRS(ATTR(PF_ATTR_LIST | PF_ATTR_INT, squeeze_dims))),
  FAKE("Shape", "T=" FAKE_ANY, shape, ARGS(WRITTEN("output"))),
  FAKE("ShapeN", "T=" FAKE_ANY, shape_n, ARGS(WRITTEN("output"))),
  FAKE("Size", "T=" FAKE_ANY, size, ARGS(WRITTEN("output"))),
  FAKE("Rank", "T=" FAKE_ANY, rank, ARGS(WRITTEN("output"))),
  FAKE("BroadcastGradientArgs", NULL, broadcast_gradient_args,
       ARGS(ON_HOST("s0"), ON_HOST("s1"), WRITTEN("r0"), WRITTEN("r1"))),
  NULL};
