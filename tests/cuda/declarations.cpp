/* Compares plugins/cuda/source/libraries.h with the vendors' headers: compiled by
 * test_cuda_declarations.py, never run.  A function of the tables must take as many arguments as
 * the library's, each a pointer, a whole number or a real of the same size, and return alike. */
#include "libraries.h"
#include <cublas_v2.h>
#include <cudnn.h>
#include <type_traits>

template <class A, class B> constexpr bool alike() {
  constexpr bool whole_a = std::is_integral_v<A> || std::is_enum_v<A>;
  constexpr bool whole_b = std::is_integral_v<B> || std::is_enum_v<B>;
  return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
         whole_a == whole_b;
}
template <class Own, class Theirs> struct same_call {
  static constexpr bool value = false;
};
template <class R, class... A, class S, class... B>
struct same_call<R (*)(A...), S (*)(B...)> {
  static constexpr bool same() {
    if constexpr (sizeof...(A) != sizeof...(B)) return false;
    else return alike<R, S>() && (alike<A, B>() && ...);
  }
  static constexpr bool value = same();
};
#define CALL(table, field, function)                                                   \
  static_assert(same_call<decltype(table::field), decltype(&function)>::value, #function)
#define VALUE(own, theirs) static_assert((int)own == (int)theirs, #theirs)

VALUE(BLAS_PLAIN, CUBLAS_OP_N);
VALUE(BLAS_TRANSPOSED, CUBLAS_OP_T);
VALUE(BLAS_R_32F, CUDA_R_32F);
VALUE(BLAS_R_64F, CUDA_R_64F);
VALUE(BLAS_R_16F, CUDA_R_16F);
VALUE(BLAS_R_16BF, CUDA_R_16BF);
VALUE(BLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F);
VALUE(BLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
VALUE(BLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F);
VALUE(BLAS_DEFAULT_ALGO, CUBLAS_GEMM_DEFAULT);
CALL(blas_library, create, cublasCreate_v2);
CALL(blas_library, destroy, cublasDestroy_v2);
CALL(blas_library, set_stream, cublasSetStream_v2);
CALL(blas_library, status_name, cublasGetStatusName);
/* overloaded in C++: the one that takes cublasComputeType_t */
typedef cublasStatus_t (*gemm_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                  int, const void *, const void *, cudaDataType, int, const void *,
                                  cudaDataType, int, const void *, void *, cudaDataType, int,
                                  cublasComputeType_t, cublasGemmAlgo_t);
typedef cublasStatus_t (*gemm_strided_ex)(cublasHandle_t, cublasOperation_t, cublasOperation_t,
                                          int, int, int, const void *, const void *, cudaDataType,
                                          int, long long, const void *, cudaDataType, int,
                                          long long, const void *, void *, cudaDataType, int,
                                          long long, int, cublasComputeType_t, cublasGemmAlgo_t);
[[maybe_unused]] static gemm_ex const their_gemm = &cublasGemmEx;
[[maybe_unused]] static gemm_strided_ex const their_batched = &cublasGemmStridedBatchedEx;
static_assert(same_call<decltype(blas_library::gemm), gemm_ex>::value, "cublasGemmEx");
static_assert(same_call<decltype(blas_library::gemm_batched), gemm_strided_ex>::value,
              "cublasGemmStridedBatchedEx");

VALUE(DNN_FLOAT, CUDNN_DATA_FLOAT);
VALUE(DNN_DOUBLE, CUDNN_DATA_DOUBLE);
VALUE(DNN_HALF, CUDNN_DATA_HALF);
VALUE(DNN_BFLOAT16, CUDNN_DATA_BFLOAT16);
VALUE(DNN_NCHW, CUDNN_TENSOR_NCHW);
VALUE(DNN_NHWC, CUDNN_TENSOR_NHWC);
VALUE(DNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
VALUE(DNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
VALUE(DNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
VALUE(DNN_FMA_MATH, CUDNN_FMA_MATH);
#define PERF(type)                                                                   \
  static_assert(sizeof(dnn_perf) == sizeof(type), #type);                            \
  static_assert(offsetof(dnn_perf, status) == offsetof(type, status), #type);        \
  static_assert(offsetof(dnn_perf, time) == offsetof(type, time), #type);            \
  static_assert(offsetof(dnn_perf, memory) == offsetof(type, memory), #type);        \
  static_assert(offsetof(dnn_perf, determinism) == offsetof(type, determinism), #type); \
  static_assert(offsetof(dnn_perf, math) == offsetof(type, mathType), #type)
PERF(cudnnConvolutionFwdAlgoPerf_t);
PERF(cudnnConvolutionBwdDataAlgoPerf_t);
PERF(cudnnConvolutionBwdFilterAlgoPerf_t);
CALL(dnn_library, create, cudnnCreate);
CALL(dnn_library, destroy, cudnnDestroy);
CALL(dnn_library, set_stream, cudnnSetStream);
CALL(dnn_library, error_string, cudnnGetErrorString);
CALL(dnn_library, tensor_new, cudnnCreateTensorDescriptor);
CALL(dnn_library, tensor_del, cudnnDestroyTensorDescriptor);
CALL(dnn_library, tensor_4d, cudnnSetTensor4dDescriptor);
CALL(dnn_library, filter_new, cudnnCreateFilterDescriptor);
CALL(dnn_library, filter_del, cudnnDestroyFilterDescriptor);
CALL(dnn_library, filter_4d, cudnnSetFilter4dDescriptor);
CALL(dnn_library, conv_new, cudnnCreateConvolutionDescriptor);
CALL(dnn_library, conv_del, cudnnDestroyConvolutionDescriptor);
CALL(dnn_library, conv_2d, cudnnSetConvolution2dDescriptor);
CALL(dnn_library, conv_groups, cudnnSetConvolutionGroupCount);
CALL(dnn_library, conv_math, cudnnSetConvolutionMathType);
CALL(dnn_library, forward_find, cudnnFindConvolutionForwardAlgorithmEx);
CALL(dnn_library, input_find, cudnnFindConvolutionBackwardDataAlgorithmEx);
CALL(dnn_library, filter_find, cudnnFindConvolutionBackwardFilterAlgorithmEx);
CALL(dnn_library, forward_guess, cudnnGetConvolutionForwardAlgorithm_v7);
CALL(dnn_library, input_guess, cudnnGetConvolutionBackwardDataAlgorithm_v7);
CALL(dnn_library, filter_guess, cudnnGetConvolutionBackwardFilterAlgorithm_v7);
CALL(dnn_library, forward, cudnnConvolutionForward);
CALL(dnn_library, input, cudnnConvolutionBackwardData);
CALL(dnn_library, filter, cudnnConvolutionBackwardFilter);
