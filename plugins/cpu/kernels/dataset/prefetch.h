/* prefetch.h - reading ahead, for stages that open datasets of their own. */
#ifndef PF_CPU_DATASET_PREFETCH_H
#define PF_CPU_DATASET_PREFETCH_H
#include "dataset/dataset.h"
/* `d` with up to `room` elements read ahead.  Takes the reference; NULL: no memory, let go. */
dataset *ds_prefetched(dataset *d, int64_t room);
#endif
