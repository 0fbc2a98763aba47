/* emulation/cublas.cpp - a cuBLAS of loops, written from its documentation: column-major C = alpha
 * op(A) op(B) + beta C. It checks what the library would check, so that a swapped operand or
 * leading dimension shows. */
#include <stdint.h>
#include <string.h>
#include "../source/numbers.h"

static float alpha_f(const void *p) { return *(const float *)p; }

template <class T, class S>
static void multiply(int ta, int tb, int m, int n, int k, S alpha, const T *a, int lda, const T *b,
                     int ldb, S beta, T *c, int ldc) {
  for (int j = 0; j < n; j++)
    for (int i = 0; i < m; i++) {
      S sum = 0;
      for (int l = 0; l < k; l++) {
        int64_t at = ta ? (int64_t)i * lda + l : (int64_t)l * lda + i,
                bt = tb ? (int64_t)l * ldb + j : (int64_t)j * ldb + l;
        sum += (S)up(a[at]) * (S)up(b[bt]);
      }
      T *out = &c[(int64_t)j * ldc + i];
      *out = down<T>(alpha * sum + (beta != 0 ? beta * (S)up(*out) : 0));
    }
}
enum { INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
static int checked(int ta, int tb, int m, int n, int k, int at, int bt, int ct, int lda, int ldb,
                   int ldc, int compute) {
  if (m < 0 || n < 0 || k < 0) return INVALID_VALUE;
  if (lda < most(1, ta ? k : m) || ldb < most(1, tb ? n : k) || ldc < most(1, m))
    return INVALID_VALUE;
  if (at != bt || bt != ct) return NOT_SUPPORTED;
  bool wide64 = at == 1;
  if (wide64 ? compute != 70 : compute != 68 && !(compute == 77 && at == 0)) return NOT_SUPPORTED;
  return 0;
}
extern "C" {
int cublasCreate_v2(void **h) {
  *h = calloc(1, sizeof(void *));
  return 0;
}
int cublasDestroy_v2(void *h) {
  free(h);
  return 0;
}
int cublasSetStream_v2(void *, cudaStream_t) { return 0; }
const char *cublasGetStatusName(int s) {
  return s ? "CUBLAS_STATUS_EMULATED_FAILURE" : "CUBLAS_STATUS_SUCCESS";
}
int cublasGemmStridedBatchedEx(void *, int ta, int tb, int m, int n, int k, const void *alpha,
                               const void *a, int at, int lda, long long sa, const void *b, int bt,
                               int ldb, long long sb, const void *beta, void *c, int ct, int ldc,
                               long long sc, int batch, int compute, int) {
  int e = checked(ta, tb, m, n, k, at, bt, ct, lda, ldb, ldc, compute);
  if (e) return e;
  for (int i = 0; i < batch; i++) {
    if (at == 1)
      multiply(ta, tb, m, n, k, *(const double *)alpha, (const double *)a + i * sa, lda,
               (const double *)b + i * sb, ldb, *(const double *)beta, (double *)c + i * sc, ldc);
    else if (at == 2)
      multiply(ta, tb, m, n, k, alpha_f(alpha), (const f16 *)a + i * sa, lda,
               (const f16 *)b + i * sb, ldb, alpha_f(beta), (f16 *)c + i * sc, ldc);
    else if (at == 14)
      multiply(ta, tb, m, n, k, alpha_f(alpha), (const bf16 *)a + i * sa, lda,
               (const bf16 *)b + i * sb, ldb, alpha_f(beta), (bf16 *)c + i * sc, ldc);
    else
      multiply(ta, tb, m, n, k, alpha_f(alpha), (const float *)a + i * sa, lda,
               (const float *)b + i * sb, ldb, alpha_f(beta), (float *)c + i * sc, ldc);
  }
  return 0;
}
int cublasGemmEx(void *h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                 int at, int lda, const void *b, int bt, int ldb, const void *beta, void *c, int ct,
                 int ldc, int compute, int algo) {
  return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta,
                                    c, ct, ldc, 0, 1, compute, algo);
}
}
