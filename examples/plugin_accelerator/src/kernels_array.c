/* kernels_array.c - elements moved, none computed: Transpose, Slice, Split, Unpack, Tile, Concat,
 * Pack, Gather, GatherV2.
 *
 * Two loops do it all.  run_view: y[i] = x[base + sum of coordinate * step], coordinates taken
 * modulo x's sizes (Tile).  run_join: inputs side by side along one axis.
 */
#include "launch.h"

/* params: i[0] base, i[1 + d] step, i[1 + RANK + d] modulus of the coordinate (0: none) */
static pf_status run_view(fake_call *c) {
  const int64_t *step = c->p.i + 1, *wrap = c->p.i + 1 + FAKE_RANK;
  fake_array *y = &c->y[0];
  for (int64_t i = 0; i < y->n; i++) {
    int64_t rest = i, at = c->p.i[0];
    for (int32_t d = y->ndim - 1; d >= 0; d--) {
      int64_t k = rest % y->shape[d];
      at += (wrap[d] ? k % wrap[d] : k) * step[d];
      rest /= y->shape[d];
    }
    put_element(y, i, &c->x[0], at);
  }
  return PF_OK;
}
static void steps(const DLTensor *t, int64_t *step) {
  int64_t at = 1;
  for (int32_t d = t->ndim - 1; d >= 0; d--) {
    step[d] = at;
    at *= t->shape[d];
  }
}
/* Output `out` of `shape`, a view of input `in`. */
static pf_status view(pf_ctx *c, int32_t in, int32_t out, const int64_t *shape, int32_t ndim,
                      const fake_params *p) {
  DLTensor *y = c->host->output(c, out, shape, ndim);
  fake_tensors t = {.x = {c->in[in]}, .y = {y}, .n_x = 1, .n_y = 1};
  return y ? launch_on(c, run_view, p, &t) : PF_RESOURCE_EXHAUSTED;
}
static pf_status check_rank(pf_ctx *c, int32_t in) {
  return c->in[in]->ndim <= FAKE_RANK
             ? PF_OK
             : failf(c, PF_UNIMPLEMENTED, "FAKE takes up to %d dimensions", FAKE_RANK);
}

static pf_status transpose(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  int64_t perm[MAX_HOST_VALUES], step[FAKE_RANK], shape[FAKE_RANK], axis;
  fake_params p = {.i = {0}};
  uint32_t seen = 0;
  (void)s;
  pf_status status = check_rank(c, 0);
  if (status) return status;
  if (host_ints(c, 1, perm) != x->ndim)
    return failf(c, PF_INVALID_ARGUMENT, "perm must have %d values", x->ndim);
  steps(x, step);
  for (int32_t d = 0; d < x->ndim; d++) {
    if ((status = one_axis(c, perm[d], x->ndim, &axis))) return status;
    if (seen >> axis & 1)
      return failf(c, PF_INVALID_ARGUMENT, "perm repeats %lld", (long long)axis);
    seen |= 1u << axis;
    shape[d] = x->shape[axis];
    p.i[1 + d] = step[axis];
  }
  return view(c, 0, 0, shape, x->ndim, &p);
}

static pf_status slice(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  int64_t begin[MAX_HOST_VALUES], size[MAX_HOST_VALUES];
  fake_params p = {.i = {0}};
  (void)s;
  pf_status status = check_rank(c, 0);
  if (status) return status;
  if (host_ints(c, 1, begin) != x->ndim || host_ints(c, 2, size) != x->ndim)
    return failf(c, PF_INVALID_ARGUMENT, "begin and size must have %d values", x->ndim);
  steps(x, p.i + 1);
  for (int32_t d = 0; d < x->ndim; d++) {
    if (size[d] == -1) size[d] = x->shape[d] - begin[d];
    if (begin[d] < 0 || size[d] < 0 || begin[d] + size[d] > x->shape[d])
      return failf(c, PF_INVALID_ARGUMENT, "Expected begin[%d] + size[%d] in [0, %lld]", d, d,
                   (long long)x->shape[d]);
    p.i[0] += begin[d] * p.i[1 + d];
  }
  return view(c, 0, 0, size, x->ndim, &p);
}

static pf_status tile(pf_ctx *c, const void *s) {
  const DLTensor *x = c->in[0];
  int64_t times[MAX_HOST_VALUES];
  fake_params p = {.i = {0}};
  (void)s;
  pf_status status = check_rank(c, 0);
  if (status) return status;
  if (host_ints(c, 1, times) != x->ndim)
    return failf(c, PF_INVALID_ARGUMENT, "multiples must have %d values", x->ndim);
  steps(x, p.i + 1);
  for (int32_t d = 0; d < x->ndim; d++) {
    p.i[1 + FAKE_RANK + d] = x->shape[d];
    times[d] *= x->shape[d];
    if (times[d] < 0) return failf(c, PF_INVALID_ARGUMENT, "multiples must not be negative");
  }
  return view(c, 0, 0, times, x->ndim, &p);
}

/* The `parts` outputs along `axis`; `drop`: the axis goes (Unpack). */
static pf_status cut(pf_ctx *c, int32_t in, int64_t at, int32_t parts, int32_t drop) {
  const DLTensor *x = c->in[in];
  int64_t axis, shape[FAKE_RANK], step[FAKE_RANK];
  int32_t n = 0;
  fake_params p = {.i = {0}};
  pf_status status = check_rank(c, in);
  if (status || (status = one_axis(c, at, x->ndim, &axis))) return status;
  if (parts == 0 || x->shape[axis] % parts || (drop && x->shape[axis] != parts))
    return failf(c, PF_INVALID_ARGUMENT, "dimension %lld of size %lld cannot be cut into %d parts",
                 (long long)axis, (long long)x->shape[axis], parts);
  int64_t each = x->shape[axis] / parts;
  steps(x, step);
  for (int32_t d = 0; d < x->ndim; d++) {
    if (drop && d == axis) continue;
    shape[n] = d == axis ? each : x->shape[d];
    p.i[1 + n++] = step[d];
  }
  for (int32_t k = 0; k < parts && !status; k++) {
    p.i[0] = k * each * step[axis];
    status = view(c, in, k, shape, n, &p);
  }
  return status;
}
static pf_status split(pf_ctx *c, const void *s) {
  int64_t axis[MAX_HOST_VALUES];
  (void)s;
  if (host_ints(c, 0, axis) != 1)
    return failf(c, PF_INVALID_ARGUMENT, "split_dim must be a scalar");
  return cut(c, 1, axis[0], c->n_out, 0);
}
static pf_status unpack(pf_ctx *c, const void *s) {
  return cut(c, 0, ((const fake_state *)s)->axis, c->n_out, 1);
}

/* ---------------------------------------------------------------- Concat, ConcatV2, Pack */
/* params: i[0] how many elements of y lie behind the axis, i[1 + k] how many of input k */
static pf_status run_join(fake_call *c) {
  int64_t row = 0, at = 0, width = c->y[0].width;
  for (int32_t k = 0; k < c->n_x; k++) row += c->p.i[1 + k];
  for (int32_t k = 0; k < c->n_x; k++) {
    int64_t run = c->p.i[1 + k];
    for (int64_t r = 0; run && r < c->x[k].n / run; r++)
      memcpy(c->y[0].data + (r * row + at) * width, c->x[k].data + r * run * width,
             (size_t)(run * width));
    at += run;
  }
  return PF_OK;
}
/* Inputs first .. first + n - 1; `stack`: a new axis (Pack). */
static pf_status join(pf_ctx *c, int32_t first, int32_t n, int64_t at, int32_t stack) {
  const DLTensor *x = c->in[first];
  int64_t axis, shape[FAKE_RANK + 1];
  fake_tensors t = {.n_x = n, .n_y = 1};
  fake_params p = {.i = {0}};
  if (n >= FAKE_PARAMS || x->ndim >= FAKE_RANK)
    return failf(c, PF_UNIMPLEMENTED, "FAKE joins up to %d tensors of fewer than %d dimensions",
                 FAKE_PARAMS - 1, FAKE_RANK);
  pf_status status = one_axis(c, at, x->ndim + stack, &axis);
  if (status) return status;
  for (int32_t d = 0, k = 0; d < x->ndim + stack; d++)
    shape[d] = stack && d == axis ? 0 : x->shape[k++];
  shape[axis] = 0;
  for (int32_t k = 0; k < n; k++) {
    const DLTensor *one = c->in[first + k];
    int64_t run = 1;
    for (int32_t d = 0; d < one->ndim; d++) {
      if (one->ndim != x->ndim || ((stack || d != axis) && one->shape[d] != x->shape[d]))
        return failf(c, PF_INVALID_ARGUMENT, "input %d does not fit beside input 0", k);
      if (d >= axis) run *= one->shape[d];
    }
    t.x[k] = one;
    p.i[1 + k] = run;
    shape[axis] += stack ? 1 : one->shape[axis];
  }
  t.y[0] = c->host->output(c, 0, shape, x->ndim + stack);
  return t.y[0] ? launch_on(c, run_join, &p, &t) : PF_RESOURCE_EXHAUSTED;
}
static pf_status concat_at(pf_ctx *c, int32_t in, int32_t first) {
  int64_t axis[MAX_HOST_VALUES];
  if (host_ints(c, in, axis) != 1) return failf(c, PF_INVALID_ARGUMENT, "axis must be a scalar");
  return join(c, first, c->n_in - 1, axis[0], 0);
}
static pf_status concat(pf_ctx *c, const void *s) { return (void)s, concat_at(c, 0, 1); }
static pf_status concat_v2(pf_ctx *c, const void *s) {
  return (void)s, concat_at(c, c->n_in - 1, 0);
}
static pf_status pack(pf_ctx *c, const void *s) {
  return join(c, 0, c->n_in, ((const fake_state *)s)->axis, 1);
}

/* ---------------------------------------------------------------- Gather */
/* params: i[0] rows, i[1] outer, i[2] inner.  A wrong index is known on the stream only: it fails
 * there, and the step with it. */
static pf_status run_gather(fake_call *c) {
  const fake_array *x = &c->x[0], *index = &c->x[1];
  int64_t rows = c->p.i[0], outer = c->p.i[1], inner = c->p.i[2];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < index->n; k++) {
      int64_t row = get_int(index, k);
      if (row < 0 || row >= rows) {
        fake_log(PF_LOG_ERROR, "FAKE:%d: index %lld is not in [0, %lld)", c->dev->ordinal,
                 (long long)row, (long long)rows);
        return PF_INVALID_ARGUMENT;
      }
      memcpy(c->y[0].data + (o * index->n + k) * inner * x->width,
             x->data + (o * rows + row) * inner * x->width, (size_t)(inner * x->width));
    }
  return PF_OK;
}
static pf_status gather_at(pf_ctx *c, int64_t at) {
  const DLTensor *x = c->in[0], *index = c->in[1];
  int64_t axis, shape[2 * FAKE_RANK];
  int32_t n = 0;
  fake_tensors t = {.x = {x, index}, .n_x = 2, .n_y = 1};
  pf_status status = one_axis(c, at, x->ndim, &axis);
  if (status) return status;
  if (x->ndim - 1 + index->ndim > FAKE_RANK)
    return failf(c, PF_UNIMPLEMENTED, "FAKE takes up to %d dimensions", FAKE_RANK);
  fake_params p = {.i = {x->shape[axis], 1, 1}};
  for (int32_t d = 0; d < x->ndim; d++)
    if (d != axis) p.i[d < axis ? 1 : 2] *= x->shape[d];
  for (int32_t d = 0; d < axis; d++) shape[n++] = x->shape[d];
  for (int32_t d = 0; d < index->ndim; d++) shape[n++] = index->shape[d];
  for (int64_t d = axis + 1; d < x->ndim; d++) shape[n++] = x->shape[d];
  t.y[0] = c->host->output(c, 0, shape, n);
  return t.y[0] ? launch_on(c, run_gather, &p, &t) : PF_RESOURCE_EXHAUSTED;
}
static pf_status gather(pf_ctx *c, const void *s) { return (void)s, gather_at(c, 0); }
static pf_status gather_v2(pf_ctx *c, const void *s) {
  int64_t axis[MAX_HOST_VALUES];
  if (((const fake_state *)s)->num)
    return failf(c, PF_UNIMPLEMENTED, "FAKE has no GatherV2 with batch_dims");
  if (host_ints(c, 2, axis) != 1) return failf(c, PF_INVALID_ARGUMENT, "axis must be a scalar");
  return gather_at(c, axis[0]);
}

#define ANY "T=" FAKE_ANY
#define AXIS ATTRS(ATTR(PF_ATTR_INT, axis))
#define BATCH_DIMS ATTRS(PF_REF(pf_attr, "batch_dims", PF_ATTR_INT, offsetof(fake_state, num)))
const pf_kernel *const array_kernels[] = {
  FAKE("Transpose", ANY, transpose, ARGS(ON_HOST("perm"))),
  FAKE("Slice", ANY, slice, ARGS(ON_HOST("begin"), ON_HOST("size"))),
  FAKE("Tile", ANY, tile, ARGS(ON_HOST("multiples"))),
  FAKE("Split", ANY, split, ARGS(ON_HOST("split_dim"))),
  FAKE("Unpack", ANY, unpack, AXIS),
  FAKE("Concat", ANY, concat, ARGS(ON_HOST("concat_dim"))),
  FAKE("ConcatV2", ANY, concat_v2, ARGS(ON_HOST("axis"))),
  FAKE("Pack", ANY, pack, AXIS),
  FAKE("Gather", "Tparams=" FAKE_ANY, gather),
  FAKE("GatherV2", "Tparams=" FAKE_ANY ", Tindices=int32|int64", gather_v2, ARGS(ON_HOST("axis")),
       BATCH_DIMS),
  NULL};
