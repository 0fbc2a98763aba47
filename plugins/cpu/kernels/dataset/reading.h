/* reading.h - a dataset that is being read: a chain of stages, counted, and what works for it
 * meanwhile.
 *
 * Invariant: a request and each background stage's work hold the reading.
 * Threads: any.
 */
#ifndef PF_CPU_DATASET_READING_H
#define PF_CPU_DATASET_READING_H
#include "dataset/dataset.h"

typedef struct ds_reading {
  ds_root root; /* first: stages know this */
  atomic_int refs;
  dataset *of;
  ds_stage *stage;
} ds_reading;
/* Opens a reading of the dataset; what went wrong is in *error. */
pf_status ds_reading_open(dataset *of, ds_row *error, ds_reading **out);
void ds_reading_ref(ds_reading *r);
void ds_reading_unref(ds_reading *r);
void ds_hold(ds_root *r); /* by background stages, for as long as they work */
void ds_release(ds_root *r);
/* The call on whose stack requests of this thread run from now on; which it was. */
pf_ctx *ds_asks(pf_ctx *c);
#endif
