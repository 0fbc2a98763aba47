/* strided.h - the one engine behind the array ops: copy an n-dimensional box between two strided
 * views.
 *
 * Transpose, Slice, StridedSlice and its gradient, Reverse, BroadcastTo, Tile, Pad, Split, Concat,
 * Pack, Roll, SpaceToDepth ... are each a choice of offsets and strides:
 *
 *     pf_box b = pf_box_of(esize, x->shape, x->ndim);          both sides row-major of this shape
 *     b.src_stride[0] = -b.src_stride[0]; b.src_at = ...;      reverse dimension 0
 *     return pf_box_copy(c, &b, y, x);
 */
#ifndef PF_CPU_STRIDED_H
#define PF_CPU_STRIDED_H
#include "base/common.h"

enum { PF_BOX_DIMS = 2 * PF_MAX_DIMS };
typedef struct {
  int64_t esize; /* bytes of an element; 0: strings */
  int32_t nd;
  int64_t dst_at, src_at; /* first element */
  int64_t shape[PF_BOX_DIMS];
  int64_t dst_stride[PF_BOX_DIMS],
      src_stride[PF_BOX_DIMS]; /* in elements; src may be 0 or negative */
} pf_box;

PF_LOCAL pf_box pf_box_of(int64_t esize, const int64_t *shape, int32_t nd) {
  pf_box b;
  b.esize = esize, b.nd = nd, b.dst_at = b.src_at = 0;
  for (int32_t i = 0; i < nd; i++) b.shape[i] = shape[i];
  pf_row_major(shape, nd, b.dst_stride);
  pf_row_major(shape, nd, b.src_stride);
  return b;
}
/* elements of dst and src inside the box are in range and dst's are distinct: the caller's
 * promise */
pf_status pf_box_copy(pf_ctx *c, const pf_box *b, DLTensor *dst, const DLTensor *src);
/* n zero elements from `at` on (strings: empty) */
pf_status pf_zero(pf_ctx *c, DLTensor *dst, int64_t at, int64_t n, int64_t esize);
/* n copies of src's element si from dst's element di on */
pf_status pf_fill(pf_ctx *c, DLTensor *dst, int64_t di, int64_t n, const DLTensor *src, int64_t si,
                  int64_t esize);
#endif
