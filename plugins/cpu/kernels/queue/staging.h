/* staging.h - what staging areas and staging maps share: attributes, sizes, outputs.
 * Threads: pure, or write only through their arguments. */
#ifndef PF_CPU_STAGING_H
#define PF_CPU_STAGING_H
#include "queue/queue.h"

typedef struct {
  int64_t capacity, memory_limit;
  pf_str container, shared_name;
  pf_list dtypes;
} pf_staging_state;
#define PF_STAGING(op_, flags_, compute_) PF_CPU_FLAGS(op_, NULL, flags_, .compute = compute_, \
  .state_size = sizeof(pf_staging_state), .attrs = PF_ATTRS( \
    PF_ATTR(pf_staging_state, PF_ATTR_INT, capacity), PF_ATTR(pf_staging_state, PF_ATTR_INT, \
        memory_limit), \
    PF_ATTR(pf_staging_state, PF_ATTR_STRING, container), PF_ATTR(pf_staging_state, \
        PF_ATTR_STRING, shared_name), \
    PF_ATTR(pf_staging_state, PF_ATTR_TYPE | PF_ATTR_LIST, dtypes)))

/* bytes of a chunk's tensors; a string counts as its descriptor, as in TF */
PF_LOCAL int64_t pf_chunk_bytes(const pf_chunk *k) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < k->n; i++) {
    const DLTensor *t = &k->part[i]->dl_tensor;
    bytes += pf_numel(t) * ((t->dtype.bits * t->dtype.lanes + 7) / 8);
  }
  return bytes;
}
PF_LOCAL pf_status pf_staging_too_large(pf_ctx *c, int64_t bytes, int64_t limit) {
  return pf_failf(c, PF_RESOURCE_EXHAUSTED,
                  "Attempted to insert tensors with combined size of '%" PRId64
                  "' bytes into Staging Area with a memory limit of '%" PRId64 "'.",
                  bytes, limit);
}
PF_LOCAL pf_status pf_staging_failed(pf_ctx *c, const pf_attempt *a) {
  return pf_fail(c, a->status,
                 a->taken == PF_RESET ? "the staging area was reset, or its session "
                                        "closed"
                                      : "no memory for a staging area");
}
/* output i is part p of a chunk: the tensor itself, or a copy of it */
PF_LOCAL pf_status pf_staging_output(pf_ctx *c, int32_t i, pf_chunk *k, int32_t p, int32_t whole) {
  pf_tensor *t = k->part[p];
  int32_t type = c->host->type_of(t);
  if (type != c->out_type[i])
    return PF_INVALID(c, "Mismatch stage/unstage: component %d is %s, expected %s", p,
                      pf_type_name(type), pf_type_name(c->out_type[i]));
  if (whole) {
    k->part[p] = NULL;
    return c->host->set_output(c, i, t);
  }
  DLTensor *y = pf_output_like(c, i, &t->dl_tensor);
  PF_EXHAUSTED(y);
  return pf_copy_run(c, y, 0, &t->dl_tensor, 0, pf_numel(y), pf_type_size(type));
}
#endif
