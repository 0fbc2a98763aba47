/* slices.h - rows of tensors as elements: what stages that pass indices end at.
 *
 * Invariant: a stage with next_index stands, through datasets of one input each, on one
 * TensorSliceDataset, whose rows its indices are.
 */
#ifndef PF_CPU_DATASET_SLICES_H
#define PF_CPU_DATASET_SLICES_H
#include "dataset/dataset.h"

typedef struct {
  dataset d;
  ds_row whole;
  int64_t n;
} ds_slices;
const ds_slices *ds_slices_of(const ds_stage *s);
pf_status ds_slice_row(const ds_slices *d, int64_t index, ds_row *out);
/* n elements of `from` at `row` become those of `to` at `at`; PF_RESOURCE_EXHAUSTED: no memory for
 * a string */
pf_status ds_copy_rows(const pf_host *h, int32_t type, const DLTensor *from, int64_t row,
                       DLTensor *to, int64_t at, int64_t n);
/* `next` of a stage that gives indices */
pf_status ds_next_of_index(ds_stage *s, ds_row *out, ds_waiter *w);
#endif
