/* conv.h - one convolution's sizes, checked, and the two ways to run it. */
#ifndef PF_CUDA_CONV_H
#define PF_CUDA_CONV_H
#include "window.h"

enum { CONV_FORWARD, CONV_INPUT, CONV_FILTER };
typedef struct {
  int64_t n, h, w, c, kh, kw, fc, oc, oh,
      ow; /* fc: input channels of one group; the filter is [kh, kw, fc, oc] */
  int64_t sh, sw, dh, dw, pt, pb, pl, pr, groups;
  int32_t nchw, type, pass, zero; /* zero: no padding bytes, because choices compare as bytes */
} conv;
typedef struct {
  const void *x, *f, *dy;
  void *out;
} conv_data; /* what the pass reads, and where it writes */

pf_status conv_plain(pf_ctx *c, const conv *g, const conv_data *d);
/* PF_DECLINE: cuDNN is absent or has no algorithm for this */
pf_status conv_cudnn(pf_ctx *c, const conv *g, const conv_data *d);
#endif
