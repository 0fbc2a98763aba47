/* libraries.h - cuBLAS and cuDNN, found at run time: the few declarations the plugin uses, and
 * their handles.
 *
 * Declared from the libraries' public API documentation (cuBLAS 12/13, cuDNN 9);
 * tests/cuda/declarations.cpp compares them with the vendors' headers where those are installed.
 */
#ifndef PF_CUDA_LIBRARIES_H
#define PF_CUDA_LIBRARIES_H
#include "device.h"

/* ---------------------------------------------------------------- cuBLAS */
typedef void *blas_handle;
enum { BLAS_PLAIN = 0, BLAS_TRANSPOSED = 1 };                              /* cublasOperation_t */
enum { BLAS_R_32F = 0, BLAS_R_64F = 1, BLAS_R_16F = 2, BLAS_R_16BF = 14 }; /* cudaDataType_t */
enum {
  BLAS_COMPUTE_32F = 68,
  BLAS_COMPUTE_32F_FAST_TF32 = 77,
  BLAS_COMPUTE_64F = 70
}; /* cublasComputeType_t */
enum { BLAS_DEFAULT_ALGO = -1 }; /* cublasGemmAlgo_t */
typedef struct {
  int (*create)(blas_handle *);
  int (*destroy)(blas_handle);
  int (*set_stream)(blas_handle, cudaStream_t);
  int (*gemm)(blas_handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
              int ta_type, int lda, const void *b, int tb_type, int ldb, const void *beta, void *c,
              int tc_type, int ldc, int compute, int algo);
  int (*gemm_batched)(blas_handle, int ta, int tb, int m, int n, int k, const void *alpha,
                      const void *a, int ta_type, int lda, long long stride_a, const void *b,
                      int tb_type, int ldb, long long stride_b, const void *beta, void *c,
                      int tc_type, int ldc, long long stride_c, int batch, int compute, int algo);
  const char *(*status_name)(int); /* may be NULL */
} blas_library;

/* ---------------------------------------------------------------- cuDNN */
typedef void *dnn_handle, *dnn_tensor, *dnn_filter, *dnn_conv;
enum { DNN_FLOAT = 0, DNN_DOUBLE = 1, DNN_HALF = 2, DNN_BFLOAT16 = 9 }; /* cudnnDataType_t */
enum { DNN_NCHW = 0, DNN_NHWC = 1 };                                    /* cudnnTensorFormat_t */
enum { DNN_CROSS_CORRELATION = 1 };                                     /* cudnnConvolutionMode_t */
enum { DNN_DEFAULT_MATH = 0, DNN_TENSOR_OP_MATH = 1, DNN_FMA_MATH = 3 }; /* cudnnMathType_t */
enum { DNN_MAX_ALGOS = 16 };
/* cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t: three equal layouts */
typedef struct {
  int algo, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
} dnn_perf;
typedef struct {
  int (*create)(dnn_handle *);
  int (*destroy)(dnn_handle);
  int (*set_stream)(dnn_handle, cudaStream_t);
  const char *(*error_string)(int);
  int (*tensor_new)(dnn_tensor *);
  int (*tensor_del)(dnn_tensor);
  int (*tensor_4d)(dnn_tensor, int format, int type, int n, int c, int h, int w);
  int (*filter_new)(dnn_filter *);
  int (*filter_del)(dnn_filter);
  int (*filter_4d)(dnn_filter, int type, int format, int k, int c, int h, int w);
  int (*conv_new)(dnn_conv *);
  int (*conv_del)(dnn_conv);
  int (*conv_2d)(dnn_conv, int pad_h, int pad_w, int u, int v, int dilation_h, int dilation_w,
                 int mode, int type);
  int (*conv_groups)(dnn_conv, int groups);
  int (*conv_math)(dnn_conv, int math);
  int (*forward_find)(dnn_handle, dnn_tensor, const void *x, dnn_filter, const void *w, dnn_conv,
                      dnn_tensor, void *y, int wanted, int *found, dnn_perf *, void *workspace,
                      size_t bytes);
  int (*input_find)(dnn_handle, dnn_filter, const void *w, dnn_tensor, const void *dy, dnn_conv,
                    dnn_tensor, void *dx, int wanted, int *found, dnn_perf *, void *workspace,
                    size_t bytes);
  int (*filter_find)(dnn_handle, dnn_tensor, const void *x, dnn_tensor, const void *dy, dnn_conv,
                     dnn_filter, void *dw, int wanted, int *found, dnn_perf *, void *workspace,
                     size_t bytes);
  int (*forward_guess)(dnn_handle, dnn_tensor, dnn_filter, dnn_conv, dnn_tensor, int wanted,
                       int *found, dnn_perf *);
  int (*input_guess)(dnn_handle, dnn_filter, dnn_tensor, dnn_conv, dnn_tensor, int wanted,
                     int *found, dnn_perf *);
  int (*filter_guess)(dnn_handle, dnn_tensor, dnn_tensor, dnn_conv, dnn_filter, int wanted,
                      int *found, dnn_perf *);
  int (*forward)(dnn_handle, const void *alpha, dnn_tensor, const void *x, dnn_filter,
                 const void *w, dnn_conv, int algo, void *workspace, size_t bytes, const void *beta,
                 dnn_tensor, void *y);
  int (*input)(dnn_handle, const void *alpha, dnn_filter, const void *w, dnn_tensor, const void *dy,
               dnn_conv, int algo, void *workspace, size_t bytes, const void *beta, dnn_tensor,
               void *dx);
  int (*filter)(dnn_handle, const void *alpha, dnn_tensor, const void *x, dnn_tensor,
                const void *dy, dnn_conv, int algo, void *workspace, size_t bytes, const void *beta,
                dnn_filter, void *dw);
} dnn_library;

const blas_library *
blas(void); /* NULL: not found; the own, slower kernels are used and one INFO line says so */
const dnn_library *dnn(void);
/* the stream's handle, or NULL; call with s->lock held and the device selected */
blas_handle blas_of(gpu_stream *s);
dnn_handle dnn_of(gpu_stream *s);
bool option(const char *name); /* an environment variable that says 1, on or true */
#endif
