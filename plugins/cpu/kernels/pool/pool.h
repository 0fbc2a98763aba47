/* pool.h - windows that slide over up to three dimensions: what pool.c and pool3d.c ask of
 * pool_forward.c and pool_gradient.c.
 *
 * A tensor is n images [in[0], in[1], in[2], c]; pictures have in[0] = 1, channels-first tensors
 * are n * c images of one channel.  x, y, dy and dx are contiguous and of one element type.
 *
 * Invariants
 *   1. Pooling never mixes channels.
 *   2. Padding takes no part: it is never the maximum and does not count in an average.  Every
 *      window holds at least one place of the image.
 *   3. A maximum is a NaN if there is one.  Gradients go to the first maximum in row-major order;
 *      as in TF a NaN takes them only where it is a window's first place.
 *   4. Equal inputs give equal bits on any number of threads: no sum depends on the cut.
 * Threads: parallel_for over rows of the result.
 */
#ifndef PF_CPU_POOL_H
#define PF_CPU_POOL_H
#include "base/common.h"
#include "base/isa.h"
#include "move/transpose.h"

typedef struct { int64_t n, c, in[3], out[3], k[3], stride[3], before[3]; } pf_pool;

/* y: the maxima (`max`; any real type) or averages (floats, halves) of x. */
pf_status PF_ISA_NAME(pf_pool_forward)(pf_ctx *c, const pf_pool *p, int32_t type, int max,
                                       const void *x, void *y);
/* dx: dy, added up at the first maxima of x's windows.  Floats and halves, as the following. */
pf_status PF_ISA_NAME(pf_pool_max_gradient)(pf_ctx *c, const pf_pool *p, int32_t type,
                                            const void *x, const void *dy, void *dx);
/* dx: each dy in equal shares on its window. */
pf_status PF_ISA_NAME(pf_pool_average_gradient)(pf_ctx *c, const pf_pool *p, int32_t type,
                                                const void *dy, void *dx);
/* at: the element of its image, in [0, in[0] * in[1] * in[2] * c), of each first maximum; y, unless
 * NULL: those elements. */
pf_status PF_ISA_NAME(pf_pool_first_maxima)(pf_ctx *c, const pf_pool *p, int32_t type,
                                            const void *x, void *y, int64_t *at);

typedef struct { int64_t lo, hi; } pf_span;
/* What window o of dimension d covers. */
PF_INLINE pf_span pf_pool_window(const pf_pool *p, int d, int64_t o) {
  const int64_t start = o * p->stride[d] - p->before[d];
  return (pf_span){PF_MAX(start, 0), PF_MIN(start + p->k[d], p->in[d])};
}
/* The windows of dimension d that lie whole within the image. */
PF_INLINE pf_span pf_pool_inside(const pf_pool *p, int d) {
  const int64_t s = p->stride[d], room = p->in[d] + p->before[d] - p->k[d];
  const int64_t lo = PF_MIN((p->before[d] + s - 1) / s, p->out[d]);
  const int64_t hi = room < 0 ? 0 : PF_MIN(room / s + 1, p->out[d]);
  return (pf_span){lo, PF_MAX(lo, hi)};
}
/* The windows of dimension d that cover place i. */
PF_INLINE pf_span pf_pool_covering(const pf_pool *p, int d, int64_t i) {
  const int64_t s = p->stride[d], last = i + p->before[d], first = last - p->k[d] + 1;
  return (pf_span){first <= 0 ? 0 : (first + s - 1) / s, PF_MIN(last / s + 1, p->out[d])};
}
PF_INLINE int64_t pf_pool_volume(const int64_t *size) { return size[0] * size[1] * size[2]; }
/* n elements of a tile to y, past the caches and in whole lines but for `all`; those that stay move
 * to its front.  Returns how many stay. */
__attribute__((noinline, unused)) static int64_t pf_pool_flushed(void *tile, void *y, int64_t n,
                                                                 int64_t size, int all) {
  const int64_t rest = all ? 0 : (int64_t)(((uintptr_t)y + (uintptr_t)(n * size)) % 64);
  const int64_t bytes = n * size - rest;
  if (bytes <= 0) return n;
  PF_ISA_NAME(pf_mover).copy(tile, y, bytes);
  memmove(tile, (char *)tile + bytes, (size_t)rest);
  return rest / size;
}
#endif
