/* iterator.h - iterators as resources: who waits for an element, one reading, saving and loading.
 *
 * A READING is a chain of stages that is being read. An ITERATOR is a named resource that has one,
 * or none before it is initialised; MakeIterator gives it a new one, and the old one ends with its
 * last request. GetNext calls wait in the order they came:
 *
 *     IDLE -> ASKING [ask]        the first call that finds no answer asks, on its own thread
 *     ASKING -> IDLE [landed]     the answer goes to the first call that waits; kept if none does
 *
 * Invariants
 *   1. One request is under way at a reading; a request and each background stage's work hold it.
 *   2. An element that nobody waits for any more is the next call's: none is lost.
 *   3. A call that is cancelled ends at once; the request goes on, or stops between elements.
 * Threads: any; `lock` guards waiting calls, the answer and what is asked.
 */
#ifndef PF_CPU_DATASET_ITERATOR_H
#define PF_CPU_DATASET_ITERATOR_H
#include "dataset/dataset.h"
#include "dataset/state.h"

typedef struct ds_reading {
  ds_root root;                         /* first: stages know this */
  atomic_int refs;
  dataset *of;
  ds_stage *stage;
} ds_reading;
/* Opens a reading of the dataset; what went wrong is in *error. */
pf_status ds_reading_open(dataset *of, ds_row *error, ds_reading **out);
void ds_reading_ref(ds_reading *r);
void ds_reading_unref(ds_reading *r);
void ds_hold(ds_root *r);               /* by background stages, for as long as they work */
void ds_release(ds_root *r);
#endif
