/* layout.c - the same elements in another order or more than once: Transpose, Tile, BroadcastTo,
 * SpaceToDepth, SpaceToBatchND, Diag, MatrixDiag, ... and their inverses.  The copying is
 * strided.c's. */
#include "move/strided.h"

/* y = x seen as `dims`, permuted: dimension i of y is dimension perm[i] of x */
static pf_status permute(pf_ctx *c, DLTensor *y, const int64_t *dims, const int32_t *perm,
                         int32_t nd) {
  int64_t stride[PF_MAX_DIMS], shape[PF_MAX_DIMS];
  for (int32_t i = 0; i < nd; i++) shape[i] = dims[perm[i]];
  pf_box b = pf_box_of(pf_type_size(c->in_type[0]), shape, nd);
  pf_row_major(dims, nd, stride);
  for (int32_t i = 0; i < nd; i++) b.src_stride[i] = stride[perm[i]];
  return pf_box_copy(c, &b, y, c->in[0]);
}
static pf_status transpose(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t perm[PF_MAX_DIMS], shape[PF_MAX_DIMS];
  int32_t n, p[PF_MAX_DIMS], seen[PF_MAX_DIMS] = {0}, next = 0, in_order = 1;
  (void)state;
  PF_TRY(pf_check_rank(c, x, "x"));
  PF_TRY(pf_in_vector(c, 1, "perm", perm, &n));
  if (n != x->ndim)
    return PF_INVALID(c,
                      "transpose expects a vector of size %d. But input(1) is a vector of size %d",
                      x->ndim, n);
  for (int32_t i = 0; i < n; i++) {
    int64_t a = perm[i] < 0 ? perm[i] + n : perm[i];
    if (a < 0 || a >= n) return PF_INVALID(c, "%" PRId64 " is out of range [0 .. %d)", perm[i], n);
    if (seen[a])
      return PF_INVALID(c, "%" PRId64 " is missing from or repeated in perm %s", a,
                        pf_shape_text(perm, n).s);
    seen[a] = 1, p[i] = (int32_t)a, shape[i] = x->shape[a];
    if (shape[i] != 1) in_order &= p[i] >= next, next = p[i];
  }
  if (in_order) return c->host->alias(c, 0, 0, shape, n);
  DLTensor *y = c->host->output(c, 0, shape, n);
  PF_EXHAUSTED(y);
  return permute(c, y, x->shape, p, n);
}
static pf_status conjugate_transpose(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int32_t type = c->in_type[0], n, p[PF_MAX_DIMS], seen[PF_MAX_DIMS] = {0};
  int64_t perm[PF_MAX_DIMS], shape[PF_MAX_DIMS];
  if (type != PF_COMPLEX64 && type != PF_COMPLEX128) return transpose(c, state);
  PF_TRY(pf_check_rank(c, x, "x"));
  PF_TRY(pf_in_vector(c, 1, "perm", perm, &n));
  if (n != x->ndim)
    return PF_INVALID(c,
                      "transpose expects a vector of size %d. But input(1) is a vector of size %d",
                      x->ndim, n);
  for (int32_t i = 0; i < n; i++) {
    if (perm[i] < 0 || perm[i] >= n || seen[perm[i]])
      return PF_INVALID(c, "%" PRId64 " is out of range [0 .. %d) or repeated in perm", perm[i], n);
    seen[perm[i]] = 1, p[i] = (int32_t)perm[i], shape[i] = x->shape[p[i]];
  }
  DLTensor *y = c->host->output(c, 0, shape, n);
  PF_EXHAUSTED(y);
  PF_TRY(permute(c, y, x->shape, p, n));
  int64_t m = 2 * pf_numel(y);
  for (int64_t i = 1; i < m; i += 2)
    if (type == PF_COMPLEX64) PF_DATA(float, y)[i] = -PF_DATA(float, y)[i];
    else PF_DATA(double, y)[i] = -PF_DATA(double, y)[i];
  return PF_OK;
}

/* ---------------------------------------------------------------- repeated elements */
static pf_status broadcast_to(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS], stride[PF_MAX_DIMS];
  int32_t n;
  (void)state;
  PF_TRY(pf_in_vector(c, 1, "shape", shape, &n));
  if (x->ndim > n)
    return PF_INVALID(c, "Rank of input (%d) must be no greater than rank of output shape (%d).",
                      x->ndim, n);
  for (int32_t i = 1; i <= x->ndim; i++)
    if (shape[n - i] != x->shape[x->ndim - i] && x->shape[x->ndim - i] != 1)
      return PF_INVALID(c, "Incompatible shapes: %s vs. %s", PF_SHAPE(x).s,
                        pf_shape_text(shape, n).s);
  if (pf_same_dims(x->shape, x->ndim, shape, n)) return c->host->alias(c, 0, 0, shape, n);
  DLTensor *y = pf_output_checked(c, 0, shape, n);
  PF_EXHAUSTED(y);
  pf_box b = pf_box_of(pf_type_size(c->in_type[0]), shape, n);
  pf_row_major(x->shape, x->ndim, stride);
  for (int32_t i = 1; i <= n; i++)
    b.src_stride[n - i] = i <= x->ndim && x->shape[x->ndim - i] != 1 ? stride[x->ndim - i] : 0;
  return pf_box_copy(c, &b, y, x);
}
static pf_status tile(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0];
  int64_t by[PF_MAX_DIMS], shape[PF_MAX_DIMS], src[PF_MAX_DIMS], dst[PF_MAX_DIMS];
  int32_t n;
  (void)state;
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(pf_in_vector(c, 1, "multiples", by, &n));
  if (n != x->ndim)
    return PF_INVALID(
        c, "Expected multiples argument to be a vector of length %d but got length %d", x->ndim, n);
  for (int32_t i = 0; i < n; i++) {
    if (by[i] < 0) return PF_INVALID(c, "Expected multiples[%d] >= 0, but got %" PRId64, i, by[i]);
    if (!pf_mul(x->shape[i], by[i], &shape[i]))
      return PF_INVALID(c, "multiples[%d] is too large: %" PRId64, i, by[i]);
  }
  if (pf_same_dims(shape, n, x->shape, n)) return c->host->alias(c, 0, 0, shape, n);
  DLTensor *y = pf_output_checked(c, 0, shape, n);
  PF_EXHAUSTED(y);
  if (pf_numel(y) == 0) return PF_OK;
  pf_row_major(x->shape, n, src);
  pf_row_major(shape, n, dst);
  pf_box b;
  b.esize = pf_type_size(c->in_type[0]), b.nd = 2 * n, b.dst_at = b.src_at = 0;
  for (int32_t i = 0; i < n; i++) { /* each dimension: copies, then elements */
    b.shape[2 * i] = by[i], b.dst_stride[2 * i] = dst[i] * x->shape[i], b.src_stride[2 * i] = 0;
    b.shape[2 * i + 1] = x->shape[i], b.dst_stride[2 * i + 1] = dst[i],
                    b.src_stride[2 * i + 1] = src[i];
  }
  return pf_box_copy(c, &b, y, x);
}

/* ---------------------------------------------------------------- space, depth, batch */
typedef struct {
  int64_t block_size;
  pf_str data_format;
  int32_t nchw;
} depth_state;
static pf_status depth_init(pf_ctx *c, void *state) {
  depth_state *s = (depth_state *)state;
  s->nchw = s->data_format.len == 4 && !memcmp(s->data_format.data, "NCHW", 4);
  if (!s->nchw && s->data_format.len &&
      !(s->data_format.len == 4 && !memcmp(s->data_format.data, "NHWC", 4)))
    return pf_failf(c, PF_UNIMPLEMENTED, "data_format must be NHWC or NCHW, not %.*s",
                    (int)PF_MIN(s->data_format.len, 80), s->data_format.data);
  if (s->block_size < 1)
    return PF_INVALID(c, "Block size should be >= 1, got %" PRId64, s->block_size);
  return PF_OK;
}
static pf_status depth_output(pf_ctx *c, const depth_state *s, int64_t h, int64_t w, int64_t depth,
                              const int64_t *dims, const int32_t *perm) {
  int64_t n = c->in[0]->shape[0], nhwc[4] = {n, h, w, depth}, nchw[4] = {n, depth, h, w};
  DLTensor *y = pf_output_checked(c, 0, s->nchw ? nchw : nhwc, 4);
  PF_EXHAUSTED(y);
  return permute(c, y, dims, perm, 6);
}
static pf_status space_to_depth(pf_ctx *c, const void *state) {
  const depth_state *s = (const depth_state *)state;
  const DLTensor *x = c->in[0];
  static const int32_t to_nhwc[6] = {0, 1, 3, 2, 4, 5}, to_nchw[6] = {0, 3, 5, 1, 2, 4};
  if (x->ndim != 4) return PF_INVALID(c, "Input rank should be: 4 instead of: %d", x->ndim);
  int64_t k = s->block_size, h = x->shape[s->nchw ? 2 : 1], w = x->shape[s->nchw ? 3 : 2],
          d = x->shape[s->nchw ? 1 : 3];
  if (h % k || w % k)
    return PF_INVALID(c,
                      "Image width %" PRId64 " and height %" PRId64
                      " should be divisible by block_size: %" PRId64,
                      w, h, k);
  int64_t nhwc[6] = {x->shape[0], h / k, k, w / k, k, d},
          nchw[6] = {x->shape[0], d, h / k, k, w / k, k}, depth = 0;
  if (h && w && (!pf_mul(k, k, &depth) || !pf_mul(depth, d, &depth)))
    return PF_INVALID(c, "Block size %" PRId64 " is too large", k);
  return depth_output(c, s, h / k, w / k, depth, s->nchw ? nchw : nhwc,
                      s->nchw ? to_nchw : to_nhwc);
}
static pf_status depth_to_space(pf_ctx *c, const void *state) {
  const depth_state *s = (const depth_state *)state;
  const DLTensor *x = c->in[0];
  static const int32_t to_nhwc[6] = {0, 1, 3, 2, 4, 5}, to_nchw[6] = {0, 3, 4, 1, 5, 2};
  if (x->ndim != 4) return PF_INVALID(c, "Input rank should be: 4 instead of: %d", x->ndim);
  int64_t k = s->block_size, h = x->shape[s->nchw ? 2 : 1], w = x->shape[s->nchw ? 3 : 2],
          d = x->shape[s->nchw ? 1 : 3];
  int64_t kk, hk, wk;
  if (!pf_mul(k, k, &kk) || !pf_mul(h, k, &hk) || !pf_mul(w, k, &wk))
    return PF_INVALID(c, "Block size %" PRId64 " is too large", k);
  if (d % kk)
    return PF_INVALID(c, "Input depth dimension %" PRId64 " should be divisible by: %" PRId64, d,
                      kk);
  int64_t nhwc[6] = {x->shape[0], h, w, k, k, d / kk}, nchw[6] = {x->shape[0], k, k, d / kk, h, w};
  return depth_output(c, s, hk, wk, d / kk, s->nchw ? nchw : nhwc, s->nchw ? to_nchw : to_nhwc);
}

/* block[], lo[], hi[] of `m` spatial dimensions.  The space side is the one with the small
 * batch. */
typedef struct {
  int64_t block[PF_MAX_DIMS], lo[PF_MAX_DIMS], hi[PF_MAX_DIMS], blocks;
  int32_t m;
} batch_plan;
static pf_status plan_batch(pf_ctx *c, int32_t pads, const char *name, batch_plan *p) {
  const DLTensor *x = c->in[0], *t = c->in[pads];
  if (x->ndim < p->m + 1)
    return PF_INVALID(c, "input rank should be >= %d instead of %d", p->m + 1, x->ndim);
  if (t->ndim != 2 || t->shape[0] != p->m || t->shape[1] != 2)
    return PF_INVALID(c, "%s should have shape [%d, 2] instead of %s", name, p->m, PF_SHAPE(t).s);
  p->blocks = 1;
  for (int32_t i = 0; i < p->m; i++) {
    if (p->block[i] < 1)
      return PF_INVALID(c, "block_shape values must be positive, got %" PRId64, p->block[i]);
    if (!pf_mul(p->blocks, p->block[i], &p->blocks))
      return PF_INVALID(c, "block_shape is too large");
    p->lo[i] = pf_in_index(c, pads, 2 * i), p->hi[i] = pf_in_index(c, pads, 2 * i + 1);
    if (p->lo[i] < 0 || p->hi[i] < 0 || p->lo[i] > INT32_MAX || p->hi[i] > INT32_MAX)
      return PF_INVALID(c, "%s must be non-negative and fit int32", name);
  }
  return PF_OK;
}
/* for each offset inside the block: the elements of `space` with that offset <-> one run of
 * `batch` */
static pf_status exchange(pf_ctx *c, const batch_plan *p, const int64_t *space,
                          const int64_t *batch, int32_t nd, int to_batch, DLTensor *y) {
  int64_t ss[PF_MAX_DIMS], bs[PF_MAX_DIMS], n = space[0];
  pf_row_major(space, nd, ss);
  pf_row_major(batch, nd, bs);
  for (int64_t k = 0; k < p->blocks; k++) {
    pf_box b;
    b.esize = pf_type_size(c->in_type[0]), b.nd = nd;
    int64_t rest = k, sat = 0, bat = k * n * bs[0];
    for (int32_t i = 0; i < nd; i++)
      b.shape[i] = space[i], b.dst_stride[i] = ss[i], b.src_stride[i] = bs[i];
    for (int32_t i = p->m; i >= 1; i--) {
      int64_t block = p->block[i - 1], off = rest % block - p->lo[i - 1];
      rest /= block;
      int64_t first =
          off < 0 ? (-off + block - 1) / block : 0; /* first and end: batch-side indices */
      int64_t end = PF_MIN(batch[i], off >= space[i] ? 0 : (space[i] - off + block - 1) / block);
      b.shape[i] = PF_MAX(end - first, 0);
      sat += (off + first * block) * ss[i], bat += first * bs[i];
      b.dst_stride[i] = ss[i] * block;
    }
    b.dst_at = sat, b.src_at = bat;
    if (to_batch) {
      pf_box r = b;
      memcpy(r.dst_stride, b.src_stride, sizeof r.dst_stride);
      memcpy(r.src_stride, b.dst_stride, sizeof r.src_stride);
      r.dst_at = b.src_at, r.src_at = b.dst_at;
      b = r;
    }
    PF_TRY(pf_box_copy(c, &b, y, c->in[0]));
  }
  return PF_OK;
}
static pf_status to_batch(pf_ctx *c, batch_plan *p, int32_t pads) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS];
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(plan_batch(c, pads, "paddings", p));
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  if (!pf_mul(x->shape[0], p->blocks, &shape[0])) return PF_INVALID(c, "block_shape is too large");
  for (int32_t i = 1; i <= p->m; i++) {
    int64_t padded = x->shape[i] + p->lo[i - 1] + p->hi[i - 1];
    if (padded % p->block[i - 1])
      return PF_INVALID(c,
                        "padded_shape[%d]=%" PRId64 " is not divisible by block_shape[%d]=%" PRId64,
                        i - 1, padded, i - 1, p->block[i - 1]);
    shape[i] = padded / p->block[i - 1];
  }
  DLTensor *y = pf_output_checked(c, 0, shape, x->ndim);
  PF_EXHAUSTED(y);
  PF_TRY(pf_zero(c, y, 0, pf_numel(y), pf_type_size(c->in_type[0])));
  return pf_numel(y) ? exchange(c, p, x->shape, shape, x->ndim, 1, y) : PF_OK;
}
static pf_status to_space(pf_ctx *c, batch_plan *p, int32_t crops) {
  const DLTensor *x = c->in[0];
  int64_t shape[PF_MAX_DIMS];
  PF_TRY(pf_check_rank(c, x, "input"));
  PF_TRY(plan_batch(c, crops, "crops", p));
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)x->ndim);
  if (x->shape[0] % p->blocks)
    return PF_INVALID(c,
                      "Input batch dimension (%" PRId64
                      ") is not divisible by product of block sizes (%" PRId64 ")",
                      x->shape[0], p->blocks);
  shape[0] = x->shape[0] / p->blocks;
  for (int32_t i = 1; i <= p->m; i++) {
    if (!pf_mul(x->shape[i], p->block[i - 1], &shape[i]))
      return PF_INVALID(c, "block_shape is too large");
    shape[i] -= p->lo[i - 1] + p->hi[i - 1];
    if (shape[i] < 0)
      return PF_INVALID(c, "cropped_shape[%d]=%" PRId64 " must be non-negative", i - 1, shape[i]);
  }
  DLTensor *y = pf_output_checked(c, 0, shape, x->ndim);
  PF_EXHAUSTED(y);
  return pf_numel(y) ? exchange(c, p, shape, x->shape, x->ndim, 0, y) : PF_OK;
}
static pf_status space_to_batch_nd(pf_ctx *c, const void *state) {
  batch_plan p;
  (void)state;
  PF_TRY(pf_in_vector(c, 1, "block_shape", p.block, &p.m));
  return to_batch(c, &p, 2);
}
static pf_status batch_to_space_nd(pf_ctx *c, const void *state) {
  batch_plan p;
  (void)state;
  PF_TRY(pf_in_vector(c, 1, "block_shape", p.block, &p.m));
  return to_space(c, &p, 2);
}
typedef struct { int64_t block_size; } block_state;
static pf_status space_to_batch(pf_ctx *c, const void *state) {
  int64_t k = ((const block_state *)state)->block_size;
  batch_plan p = {.block = {k, k}, .m = 2};
  if (c->in[0]->ndim != 4)
    return PF_INVALID(c, "Input rank should be 4 instead of %d", c->in[0]->ndim);
  return to_batch(c, &p, 1);
}
static pf_status batch_to_space(pf_ctx *c, const void *state) {
  int64_t k = ((const block_state *)state)->block_size;
  batch_plan p = {.block = {k, k}, .m = 2};
  if (c->in[0]->ndim != 4)
    return PF_INVALID(c, "Input rank should be 4 instead of %d", c->in[0]->ndim);
  return to_space(c, &p, 1);
}

#define BLOCK PF_ATTRS(PF_ATTR(block_state, PF_ATTR_INT, block_size))
#define DEPTH .state_size = sizeof(depth_state), .init = depth_init, .attrs = PF_ATTRS( \
  PF_ATTR(depth_state, PF_ATTR_INT, block_size), PF_ATTR(depth_state, PF_ATTR_STRING, data_format))

const pf_kernel *const layout_kernels[] = {
  PF_CPU("Transpose", NULL, .compute = transpose),
  PF_CPU("ConjugateTranspose", NULL, .compute = conjugate_transpose),
  PF_CPU("BroadcastTo", NULL, .compute = broadcast_to),
  PF_CPU("Tile", NULL, .compute = tile),
  PF_CPU("SpaceToDepth", NULL, .compute = space_to_depth, DEPTH),
  PF_CPU("DepthToSpace", NULL, .compute = depth_to_space, DEPTH),
  PF_CPU("SpaceToBatchND", NULL, .compute = space_to_batch_nd),
  PF_CPU("BatchToSpaceND", NULL, .compute = batch_to_space_nd),
  PF_CPU("SpaceToBatch", NULL, .state_size = sizeof(block_state), .compute = space_to_batch,
         .attrs = BLOCK),
  PF_CPU("BatchToSpace", NULL, .state_size = sizeof(block_state), .compute = batch_to_space,
         .attrs = BLOCK),
  NULL};
