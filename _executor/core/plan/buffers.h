/* Buffers of a step: where the planner put the outputs of known size (buffers.pyx), and the memory they lie in.
 *
 * A PLACE is what was decided for one output when its plan was compiled.  An EXTENT is the memory of one running step: pages
 * with a bit each.  The bits alone decide who may write where, so a place is only a hint: if its pages are taken, the output
 * goes into another gap, or to the heap.
 */
#ifndef PF_BUFFERS_H
#define PF_BUFFERS_H
#include "plan/compile.h"
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

static inline void pf_place_qsort(int32_t *a, int32_t n, int (*less)(const void *, const void *)) {
  qsort(a, (size_t)n, sizeof *a, less);
}

/* a heap of int64, least first */
static inline void pf_longs_push(int64_t *h, int32_t *n, int64_t x) {
  int32_t i = (*n)++;
  while (i > 0 && h[(i - 1) / 2] > x) { h[i] = h[(i - 1) / 2]; i = (i - 1) / 2; }
  h[i] = x;
}
static inline int64_t pf_longs_pop(int64_t *h, int32_t *n) {
  int64_t out = h[0], last = h[--(*n)];
  int32_t i = 0;
  for (;;) {
    int32_t k = 2 * i + 1;
    if (k >= *n) break;
    if (k + 1 < *n && h[k + 1] < h[k]) k++;
    if (h[k] >= last) break;
    h[i] = h[k];
    i = k;
  }
  if (*n) h[i] = last;
  return out;
}
#endif
