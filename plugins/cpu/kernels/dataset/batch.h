/* batch.h - rows side by side in a new tensor. */
#ifndef PF_CPU_DATASET_BATCH_H
#define PF_CPU_DATASET_BATCH_H
#include "dataset/dataset.h"
/* what elements of different shapes are brought to */
typedef struct {
  ds_row shapes, values; /* per component: sizes, -1: the largest; a scalar */
} ds_padding;
/* A new tensor of `n` rows of that shape; NULL: no memory, or too many dimensions */
ds_tensor *ds_rows_tensor(const pf_host *h, int32_t type, int64_t n, const int64_t *dims,
                          int32_t ndim);
/* The n rows, n > 0, as one, each component padded */
pf_status ds_stack_padded(const dataset *of, const ds_padding *p, const ds_row *rows, int64_t n,
                          ds_row *out);
/* Batches of a dataset, whose reference it takes; NULL: no memory */
dataset *ds_batched(dataset *in, int64_t size, int32_t drop_remainder);
/* size >= 1 of elements that can be side by side */
pf_status ds_can_batch(pf_ctx *c, int64_t size, const dataset *d);
dataset *ds_batched(dataset *in, int64_t size, int32_t drop); /* takes `in`; NULL: no memory */
pf_status ds_padding_in(pf_ctx *c, const dataset *of, int32_t first, ds_padding *out);
#endif
