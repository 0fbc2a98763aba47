/* The memory of one running step: an EXTENT of pages with a bit each.  The bits alone decide who
 * may write where, so a planned place is only a hint: if its pages are taken, the output goes into
 * another gap, or to the heap (extents.pyx).
 */
#ifndef PF_EXTENTS_H
#define PF_EXTENTS_H
#include "step/step.h"
#include "values/memory.h"

typedef struct pf_extent {
  pf_a32 refs; /* the step, and every tensor and scratch buffer in it */
  pf_a32 lock; /* guards used and free_from */
  char *base;
  int64_t bytes, pages, free_from; /* no free page below free_from */
  int32_t whole;                   /* 1: counted as in use as a whole; 0: its taken pages are */
  uint64_t *used;
  struct pf_extent *next;
} pf_extent;

/* behind the header of a tensor in an extent */
typedef struct pf_held {
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
    uint64_t mask = (n == 64 ? ~(uint64_t)0 : (((uint64_t)1 << n) - 1)) << in,
             hit = used[from >> 6] & mask;
    if (hit) return (from & ~(int64_t)63) + __builtin_ctzll(hit);
    from += n;
  }
  return -1;
}
static inline void pf_pages_set(uint64_t *used, int64_t from, int64_t to, int taken) {
  while (from < to) {
    int64_t in = from & 63, n = 64 - in < to - from ? 64 - in : to - from;
    uint64_t mask = (n == 64 ? ~(uint64_t)0 : (((uint64_t)1 << n) - 1)) << in;
    if (taken) used[from >> 6] |= mask;
    else used[from >> 6] &= ~mask;
    from += n;
  }
}
/* The first free page at or after `from`; `pages` if there is none. */
static inline int64_t pf_pages_free(const uint64_t *used, int64_t from, int64_t pages) {
  while (from < pages) {
    uint64_t gap = ~used[from >> 6] >> (from & 63);
    if (gap) {
      from += __builtin_ctzll(gap);
      break;
    }
    from = (from | 63) + 1;
  }
  return from < pages ? from : pages;
}
#endif
