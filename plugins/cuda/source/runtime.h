/* runtime.h - the CUDA runtime, or its stand-in.
 *
 * With PF_CUDA_EMULATED the sources compile as plain C++ against emulation/cuda_runtime.h: device
 * memory is malloc'ed, streams run at once, kernels are loops.  The plugin built that way runs
 * everywhere and is how its kernels' arithmetic, indexing and argument checks are tested on
 * machines without a GPU (tests/cuda).
 */
#ifndef PF_CUDA_RUNTIME_H
#define PF_CUDA_RUNTIME_H
#ifdef PF_CUDA_EMULATED
#include "../emulation/cuda_runtime.h"
#define PF_BOTH inline
#else
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define PF_BOTH __host__ __device__ inline
#endif
/* before a loop whose body is long and whose count is small: copies of it only cost */
#ifdef __CUDA_ARCH__
#define PF_ROLLED _Pragma("unroll 1")
#else
#define PF_ROLLED
#endif
#endif
