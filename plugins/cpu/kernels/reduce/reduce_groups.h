/* reduce_groups.h - the dimensions of a reduction as groups: neighbours that are all kept or all
 * reduced are one, sizes of 1 are none.
 *
 *     [32, 64, 64, 16] over (1, 2)   ->   {32, 4096, 16}, {0, 1, 0}
 *
 * Threads: pure.
 */
#ifndef PF_CPU_REDUCE_GROUPS_H
#define PF_CPU_REDUCE_GROUPS_H
#include "base/common.h"

/* one more place than dimensions: a reduction over none gets a group of one */
typedef struct {
  int64_t size[PF_MAX_DIMS + 1];
  int32_t reduced[PF_MAX_DIMS + 1], n;
} groups;

PF_LOCAL groups group_dims(const DLTensor *x, const int32_t *reduce) {
  groups g = {.n = 0};
  for (int32_t i = 0; i < x->ndim; i++) {
    if (x->shape[i] == 1) continue;
    if (g.n && g.reduced[g.n - 1] == reduce[i]) g.size[g.n - 1] *= x->shape[i];
    else g.size[g.n] = x->shape[i], g.reduced[g.n++] = reduce[i];
  }
  return g;
}
#endif
