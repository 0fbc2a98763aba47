/* Buffers of a step: where the planner put the outputs of known size (buffers.pyx), and the memory
 * they lie in.
 *
 * A PLACE is what was decided for one output when its plan was compiled.  An EXTENT is the memory
 * of one running step: pages with a bit each.  The bits alone decide who may write where, so a
 * place is only a hint: if its pages are taken, the output goes into another gap, or to the heap.
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
#endif
