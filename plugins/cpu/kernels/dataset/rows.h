/* rows.h - a dataset of elements that are there: windows, and what state.c reads back. */
#ifndef PF_CPU_DATASET_ROWS_H
#define PF_CPU_DATASET_ROWS_H
#include "dataset/dataset.h"
/* Component k of the n rows, or all where k is -1, as a dataset, whose label is like's; the rows
 * are shared.  NULL: no memory */
dataset *ds_rows_new(const dataset *like, const int32_t *types, int32_t n_types, const ds_row *rows,
                     int64_t n, int32_t k);
/* The rows of such a dataset; NULL: it is another one */
const ds_row *ds_rows_of(const dataset *d, int64_t *n);
#endif
