/* same.c - ModelDataset, OptimizeDataset and others, which TensorFlow's library writes around a
 * dataset for its own tuning: here each is the dataset that it is given.
 *
 * Threads: compute is concurrent.
 */
#include "dataset/dataset.h"

static pf_status same_compute(pf_ctx *c, const void *state) {
  dataset *d;
  (void)state;
  PF_TRY(ds_input(c, 0, &d));
  ds_ref(d);
  return ds_out(c, d, PF_OK);
}
#define SAME(op_) PF_CPU(op_, NULL, .compute = same_compute)
extern const pf_kernel *const same_kernels[];
const pf_kernel *const same_kernels[] = {SAME("ModelDataset"),
                                         SAME("OptimizeDataset"),
                                         SAME("OptimizeDatasetV2"),
                                         SAME("OptionsDataset"),
                                         SAME("RewriteDataset"),
                                         SAME("FinalizeDataset"),
                                         SAME("MaxIntraOpParallelismDataset"),
                                         SAME("PrivateThreadPoolDataset"),
                                         NULL};
