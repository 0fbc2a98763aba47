/* conv_cost.h - the cost functions of convolution kernels (conv_cost.c).  Threads: pure. */
#ifndef PF_CPU_CONV_COST_H
#define PF_CPU_CONV_COST_H
#include <pyflow/kernel.h>

pf_status pf_conv_cost(pf_infer *f, double *flops, double *bytes);
pf_status pf_depthwise_cost(pf_infer *f, double *flops, double *bytes);
pf_status pf_input_cost(pf_infer *f, double *flops, double *bytes);
pf_status pf_filter_cost(pf_infer *f, double *flops, double *bytes);
#endif
