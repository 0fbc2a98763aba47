/* walk.h - from an index of a result to offsets in its operands: broadcasting, slices, transposes,
 * padding.
 *
 *     walk<2> w;                                       two operands
 *     const int64_t *strides[2] = {sa, sb};
 *     if (!walk_plan(&w, shape, nd, strides)) ...      too many dimensions that do not merge
 *     int64_t at[2]; w.offsets(i, at);                 on the device
 *
 * Neighbouring dimensions which every operand walks evenly are merged; sizes of one vanish.
 * Division is in 32 bits when the result is smaller than 2^31.
 */
#ifndef PF_CUDA_WALK_H
#define PF_CUDA_WALK_H
#include "launch.h"

enum { WALK_DIMS = 12 };
template <int K> struct walk {
  int32_t nd, small;
  int64_t shape[WALK_DIMS], stride[K][WALK_DIMS];
  PF_BOTH void offsets(int64_t i, int64_t *at) const {
    for (int k = 0; k < K; k++) at[k] = 0;
    if (small) {
      uint32_t rest = (uint32_t)i;
      PF_ROLLED for (int d = nd - 1; d >= 0; d--) {
        uint32_t n = (uint32_t)shape[d], q = rest / n, r = rest - q * n;
        for (int k = 0; k < K; k++) at[k] += (int64_t)r * stride[k][d];
        rest = q;
      }
      return;
    }
    PF_ROLLED for (int d = nd - 1; d >= 0; d--) {
      int64_t q = i / shape[d], r = i - q * shape[d];
      for (int k = 0; k < K; k++) at[k] += r * stride[k][d];
      i = q;
    }
  }
};
/* false: more than WALK_DIMS dimensions are left after merging */
template <int K>
bool walk_plan(walk<K> *w, const int64_t *shape, int32_t nd, const int64_t *const *stride) {
  int64_t total = 1;
  w->nd = 0;
  for (int32_t d = 0; d < nd; d++) {
    total *= shape[d];
    if (shape[d] == 1) continue;
    bool merge = w->nd > 0;
    for (int k = 0; k < K && merge; k++) merge = w->stride[k][w->nd - 1] == stride[k][d] * shape[d];
    if (!merge && w->nd == WALK_DIMS) return false;
    int at = merge ? w->nd - 1 : w->nd++;
    w->shape[at] = merge ? w->shape[at] * shape[d] : shape[d];
    for (int k = 0; k < K; k++) w->stride[k][at] = stride[k][d];
  }
  w->small = total < INT32_MAX;
  return true;
}

/* ---------------------------------------------------------------- broadcasting */
static inline pf_status broadcast_shape(pf_ctx *c, const DLTensor *a, const DLTensor *b,
                                        int64_t *shape, int32_t *ndim) {
  int32_t nd = most(a->ndim, b->ndim);
  if (nd > MAX_DIMS)
    return failf(c, PF_UNIMPLEMENTED, "Broadcast of rank %d; at most %d is supported", nd,
                 MAX_DIMS);
  for (int32_t i = 1; i <= nd; i++) {
    int64_t da = i <= a->ndim ? a->shape[a->ndim - i] : 1,
            db = i <= b->ndim ? b->shape[b->ndim - i] : 1;
    if (da != db && da != 1 && db != 1)
      return INVALID(c, "Incompatible shapes: %s vs. %s", SHAPE(a), SHAPE(b));
    shape[nd - i] = da == 1 ? db : da;
  }
  *ndim = nd;
  return PF_OK;
}
/* element strides with which a tensor of this shape walks a result of rank nd */
static inline void broadcast_strides(const int64_t *shape, int32_t ndim, int32_t nd,
                                     int64_t *stride) {
  int64_t step = 1;
  for (int32_t d = 1; d <= nd; d++) {
    int64_t n = d <= ndim ? shape[ndim - d] : 1;
    stride[nd - d] = n == 1 ? 0 : step;
    step *= n;
  }
}
#define TOO_TANGLED(c) \
  failf(c, PF_UNIMPLEMENTED, "more than %d dimensions that do not merge", WALK_DIMS)

/* ------------------------------------------------------ boxes: copies between two strided views */
typedef struct {
  int64_t esize;
  int32_t nd = 0;
  int64_t dst_at, src_at; /* first element */
  int64_t shape[2 * MAX_DIMS], dst_stride[2 * MAX_DIMS], src_stride[2 * MAX_DIMS];
} box;
static inline box box_of(int64_t esize, const int64_t *shape, int32_t nd) {
  box b;
  b.esize = esize, b.nd = nd, b.dst_at = b.src_at = 0;
  for (int32_t i = 0; i < nd; i++) b.shape[i] = shape[i];
  row_major(shape, nd, b.dst_stride);
  row_major(shape, nd, b.src_stride);
  return b;
}
/* elements inside the box are in range and dst's are distinct: the caller's promise.  host: both
 * lie in host memory */
pf_status box_copy(pf_ctx *c, const box *b, void *dst, const void *src, bool host);
/* dst[i] = *src for n elements; src in device memory, or zero bytes when NULL */
pf_status fill_with(pf_ctx *c, void *dst, const void *src, int64_t n, int64_t esize, bool host);
#endif
