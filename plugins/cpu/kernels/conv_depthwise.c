/* conv_depthwise.c - the arithmetic of DepthwiseConv2dNative and its gradients (depthwise.h), per
 * instruction set.
 *
 * Invariants: every number is one sum in a fixed order, for any number of threads.  Sizes were
 * checked by conv_layout.c.  Threads: parallel_for over rows, or over filter taps.
 */
#include "conv.h"
#include "tile_types.h"
#include "transpose.h"

/* A vector that is a whole line, past the caches. */
#if defined(__AVX512F__)
#define FENCE() _mm_sfence()
PF_INLINE void stream_f32(float *p, pf_vf v) { _mm512_stream_ps(p, v); }
PF_INLINE void stream_f64(double *p, pf_vd v) { _mm512_stream_pd(p, v); }
#else
#define FENCE() (void)0
PF_INLINE void stream_f32(float *p, pf_vf v) { pf_vf_store(p, v); }
PF_INLINE void stream_f64(double *p, pf_vd v) { pf_vd_store(p, v); }
#endif

#define TILE_F32
#include "tile_begin.h"
#include "depthwise.h"
#include "tile_end.h"
#define TILE_F64
#include "tile_begin.h"
#include "depthwise.h"
#include "tile_end.h"
