/* switch_n.c - _SwitchN: one output of many is alive, the others are dead.  What TensorFlow lowers
 * Case to.  RefSelect: one reference of many.
 *
 * Invariant of _SwitchN: exactly one output is alive, the last one where the index is out of range;
 * all are dead if an input is.  Threads: compute is concurrent.
 */
#include "base/common.h"

static pf_status switch_n(pf_ctx *c, const void *state) {
  (void)state;
  if (c->host->is_dead(c, -1)) return c->host->set_dead(c, -1);
  int64_t k;
  PF_TRY(pf_in_scalar(c, 1, "output_index", &k));
  if (k < 0 || k >= c->n_out) k = c->n_out - 1;
  PF_TRY(c->host->alias(c, 0, (int32_t)k, c->in[0]->shape, c->in[0]->ndim));
  for (int32_t i = 0; i < c->n_out; i++)
    if (i != k) PF_TRY(c->host->set_dead(c, i));
  return PF_OK;
}

static pf_status ref_select(pf_ctx *c, const void *state) {
  (void)state;
  int64_t k;
  PF_TRY(pf_in_scalar(c, 0, "index", &k));
  if (k < 0 || k >= c->n_in - 1)
    return PF_INVALID(c, "Index must be in the range [0, %d) but got %" PRId64, c->n_in - 1, k);
  return c->host->alias(c, (int32_t)k + 1, 0, NULL, 0);
}

const pf_kernel *const switch_n_kernels[] = {
  PF_CPU_FLAGS("_SwitchN", NULL, PF_KERNEL_DETERMINISTIC | PF_KERNEL_DEAD, .compute = switch_n),
  PF_CPU("RefSelect", NULL, .compute = ref_select), NULL};
