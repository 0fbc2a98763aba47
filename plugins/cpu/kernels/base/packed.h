/* packed.h - memory for what kernels make of constant weights, and the host's way of sharing it.
 *
 * Invariants
 *   1. Such memory is 64-aligned; large blocks are mappings of their own, in huge pages where the
 *      system gives some, and go back to the system when they are freed.
 *   2. What is shared does not change once it is made.
 * Threads: any.
 */
#ifndef PF_CPU_PACKED_H
#define PF_CPU_PACKED_H
#include <stdlib.h>
#include "base/common.h"
#if defined(__linux__)
#include <sys/mman.h>
#endif

enum { PF_MAPPED_BYTES = 1 << 20, PF_HUGE_PAGE = 2 << 20 };

typedef struct {
  void *at;
  uint64_t bytes;
} pf_packed;

PF_LOCAL void pf_packed_free(pf_packed *p) {
#if defined(__linux__)
  if (p->at && p->bytes >= PF_MAPPED_BYTES) {
    munmap(p->at, (size_t)p->bytes);
    p->at = NULL;
  }
#endif
  free(p->at);
  p->at = NULL;
}

/* 0: no memory. */
PF_LOCAL int pf_packed_new(pf_packed *p, uint64_t bytes) {
  p->bytes = (bytes + 63) / 64 * 64;
#if defined(__linux__)
  if (bytes >= PF_MAPPED_BYTES) {
    p->at =
        mmap(NULL, (size_t)p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p->at == MAP_FAILED) p->at = NULL;
#if defined(MADV_HUGEPAGE)
    if (p->at && bytes >= PF_HUGE_PAGE) madvise(p->at, (size_t)p->bytes, MADV_HUGEPAGE);
#endif
    return p->at != NULL;
  }
#endif
  p->at = aligned_alloc(64, (size_t)PF_MAX(p->bytes, 64));
  return p->at != NULL;
}

typedef pf_status (*pf_share_fn)(pf_ctx *c, void *arg, void **obj);

/* In init: what `make` makes of constant input `in`, or what some other node made.  PF_DECLINE:
 * it is not to be had, the constant is read where it is. */
PF_LOCAL pf_status pf_share(pf_ctx *c, int32_t in, const char *form, const pf_type *type,
                            pf_share_fn make, void *arg, void **obj) {
  const pf_str key = {form, (int64_t)strlen(form)};
  if (!PF_HAS(c->host, pf_host, shared)) return PF_DECLINE;
  const pf_status st = c->host->shared(c, in, key, type, make, arg, obj);
  return st == PF_RESOURCE_EXHAUSTED || st == PF_NOT_FOUND ? PF_DECLINE : st;
}
#endif
