/* Buffers of a step: where the planner put the outputs of known size (buffers.pyx), and the memory they lie in.
 *
 * A PLACE is what was decided for one output when its plan was compiled.  An EXTENT is the memory of one running step: pages
 * with a bit each.  The bits alone decide who may write where, so a place is only a hint: if its pages are taken, the output
 * goes into another gap, or to the heap.
 */
#ifndef PF_BUFFERS_H
#define PF_BUFFERS_H
#include "pf_core.h"
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

enum {
  PF_PAGE = 4096,
  PF_PLACE_BYTES = 65536,       /* smaller outputs stay on the heap: their blocks are cached per thread */
  PF_SCRATCH_BYTES = 65536,     /* scratch memory from here on goes into gaps */
  PF_EXTENT_BYTES = 1 << 20,    /* plans that need less have no extent */
  PF_CACHED_EXTENTS = 8,
  PF_MAX_PLACED = 4000          /* the largest buffers of a plan are placed; the rest use gaps and the heap */
};
enum { PF_PUT_HEAP, PF_PUT_PLACE, PF_PUT_REUSE, PF_PUT_ALIAS };
typedef struct pf_place {
  int64_t offset, bytes;        /* bytes: 0 if not known while planning */
  int32_t how, input;           /* REUSE, ALIAS: of this input */
  int32_t buffer, first, last;  /* its buffer's number, or -1: alive from the instruction `first` to `last` */
} pf_place;

typedef struct pf_extent {
  pf_a32 refs;                  /* the step, and every tensor and scratch buffer in it */
  pf_a32 lock;                  /* guards used and free_from */
  char *base;
  int64_t bytes, pages, free_from;  /* no free page below free_from */
  int32_t whole;                /* 1: counted as in use as a whole; 0: its taken pages are */
  uint64_t *used;
  struct pf_extent *next;
} pf_extent;

typedef struct pf_held {        /* behind the header of a tensor in an extent */
  void (*release_owner)(void *);
  pf_extent *extent;
  int64_t page, pages;
} pf_held;

static inline void *pf_map(int64_t bytes) {
#if defined(__linux__)
  void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
  if (bytes >= 8 << 20) madvise(p, (size_t)bytes, MADV_HUGEPAGE);
#endif
  return p;
#else
  return aligned_alloc(PF_PAGE, (size_t)bytes);
#endif
}
static inline void pf_unmap(void *p, int64_t bytes) {
#if defined(__linux__)
  munmap(p, (size_t)bytes);
#else
  (void)bytes;
  free(p);
#endif
}

/* The first taken page in [from, to), or -1. */
static inline int64_t pf_pages_taken(const uint64_t *used, int64_t from, int64_t to) {
  while (from < to) {
    int64_t in = from & 63, n = 64 - in < to - from ? 64 - in : to - from;
    uint64_t mask = (n == 64 ? ~(uint64_t)0 : (((uint64_t)1 << n) - 1)) << in, hit = used[from >> 6] & mask;
    if (hit) return (from & ~(int64_t)63) + __builtin_ctzll(hit);
    from += n;
  }
  return -1;
}
static inline void pf_pages_set(uint64_t *used, int64_t from, int64_t to, int taken) {
  while (from < to) {
    int64_t in = from & 63, n = 64 - in < to - from ? 64 - in : to - from;
    uint64_t mask = (n == 64 ? ~(uint64_t)0 : (((uint64_t)1 << n) - 1)) << in;
    if (taken) used[from >> 6] |= mask; else used[from >> 6] &= ~mask;
    from += n;
  }
}
/* The first free page at or after `from`; `pages` if there is none. */
static inline int64_t pf_pages_free(const uint64_t *used, int64_t from, int64_t pages) {
  while (from < pages) {
    uint64_t gap = ~used[from >> 6] >> (from & 63);
    if (gap) { from += __builtin_ctzll(gap); break; }
    from = (from | 63) + 1;
  }
  return from < pages ? from : pages;
}
static inline int64_t pf_pages_of(int64_t bytes) { return (bytes + PF_PAGE - 1) / PF_PAGE; }
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

/* Ops whose CPU kernels write their result over an input of equal size when nobody else needs it: bit i for input i; all
 * bits only count when the op has one output.  A prediction for the planner: one that does not come true costs a gap or a
 * heap block.  Plugins say it with pf_arg.reuse. */
static const struct { const char *op; int32_t inputs; } pf_reusing_ops[] = {
  {"Relu", 1}, {"Relu6", 1}, {"Elu", 1}, {"Selu", 1}, {"Tanh", 1}, {"Sigmoid", 1}, {"Softplus", 1}, {"Softsign", 1},
  {"Neg", 1}, {"Abs", 1}, {"Sqrt", 1}, {"Rsqrt", 1}, {"Square", 1}, {"Exp", 1}, {"Log", 1}, {"Log1p", 1}, {"Reciprocal", 1},
  {"Sign", 1}, {"Floor", 1}, {"Ceil", 1}, {"Round", 1}, {"Sin", 1}, {"Cos", 1}, {"Erf", 1}, {"LeakyRelu", 1},
  {"Add", 3}, {"AddV2", 3}, {"Sub", 3}, {"Mul", 3}, {"Div", 3}, {"RealDiv", 3}, {"Maximum", 3}, {"Minimum", 3}, {"Pow", 3},
  {"SquaredDifference", 3}, {"ReluGrad", 3}, {"Relu6Grad", 3}, {"EluGrad", 3}, {"TanhGrad", 3}, {"SigmoidGrad", 3},
  {"SqrtGrad", 3}, {"RsqrtGrad", 3}, {"SoftplusGrad", 3}, {"LeakyReluGrad", 3}, {"DivNoNan", 3}, {"MulNoNan", 3},
  {"_FusedElementwise", 0x7fffffff}, {"AddN", 1}, {"BiasAdd", 1}, {"FusedBatchNormGrad", 1}, {"FusedBatchNormGradV2", 1}, {"FusedBatchNormGradV3", 1},
  {NULL, 0}
};
/* Ops whose result is input 0's buffer under another shape. */
static const char *const pf_aliasing_ops[] = {"Reshape", "ExpandDims", "Squeeze", "EnsureShape", NULL};
/* Ops whose outputs are, one by one, their inputs' buffers, as in TensorFlow: what reads them after an update of the variable
 * behind sees it (reads.pyx). */
static const char *const pf_passing_ops[] = {"Reshape", "ExpandDims", "Squeeze", "EnsureShape", "Bitcast", "CheckNumerics", "Print",
                                             "IdentityN", NULL};
#endif
