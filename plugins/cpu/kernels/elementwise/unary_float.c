/* unary_float.c - ops of one float, double, half or bfloat16 tensor.
 *
 * The functions of floats come from vmath.h, vmath_arc.h and vmath_gamma.h and are vectorised by
 * the compiler; of doubles they come from vmath.h and vmath_f64.h, or are libm's where no fused
 * multiply-add is.  half and bfloat16 are computed as float (elementwise.c).  Compiled once per
 * instruction set.
 */
#define _DEFAULT_SOURCE 1                       /* lgamma_r: lgamma writes a global */
#include "elementwise/elementwise.h"
#include "elementwise/elementwise_exprs.h"
#include "vec/vmath_arc.h"
#include "vec/vmath_f64.h"
#include "vec/vmath_gamma.h"

enum { SIN_BLOCK = 256 };
#define SIN_LIMIT 8192.0f

/* sin and cos: the vector path holds up to SIN_LIMIT; larger arguments take libm's, others near
 * them the same expression one by one */
#define SINCOS(NAME, VECTOR, LIBM) \
  static void NAME##_f32(const void *px, void *py, int64_t n, double p) { \
    const float *xs = (const float *)px; float *ys = (float *)py; (void)p; \
    for (int64_t i = 0; i < n; i += SIN_BLOCK) { \
      int64_t hi = PF_MIN(n, i + SIN_BLOCK); \
      int32_t large = 0; \
      for (int64_t j = i; j < hi; j++) large |= !(fabsf(xs[j]) < SIN_LIMIT); \
      if (large) for (int64_t j = i; j < hi; j++) \
        ys[j] = fabsf(xs[j]) < SIN_LIMIT ? VECTOR(xs[j]) : LIBM(xs[j]); \
      else PF_IVDEP for (int64_t j = i; j < hi; j++) ys[j] = VECTOR(xs[j]); \
    } \
  }
SINCOS(Sin, pf_sin_f32, sinf)
SINCOS(Cos, pf_cos_f32, cosf)

/* reflection; the fraction keeps tan exact */
static double digamma_rest(double x) {
  if (x == floor(x) || x != x) return x > 0 ? x : NAN;
  double r = x - floor(x);
  return pf_digamma_positive(1.0 - x) - 3.141592653589793 / tan(3.141592653589793 * r);
}
static double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

/* Loops of BLOCK elements by way of a buffer: vectors only, so that long expressions have one copy
 * and an element's bits do not depend on its place.  BAD says which elements take OTHER. */
enum { BLOCK = 16 };
#define BLOCKS(NAME, T, TAG, EXPR, BAD, OTHER) \
  static void NAME##_##TAG(const void *px, void *py, int64_t n, double p) { \
    const T *xs = (const T *)px; T *ys = (T *)py; (void)p; \
    for (; n > 0; n -= BLOCK, xs += BLOCK, ys += BLOCK) { \
      T in[BLOCK], out[BLOCK]; \
      __typeof__(_Generic((T)0, float: (int32_t)0, default: (int64_t)0)) bad = 0; /* as wide */ \
      if (n < BLOCK) pf_copy_some(memset(in, 0, sizeof in), xs, sizeof(T) * (size_t)n); \
      else memcpy(in, xs, sizeof in); \
      PF_ROLLED for (int i = 0; i < BLOCK; i++) { \
        T x = in[i]; \
        out[i] = (T)(EXPR); \
        bad |= (BAD); \
      } \
      if (bad) PF_ROLLED for (int i = 0; i < BLOCK; i++) { \
        T x = in[i]; \
        if (BAD) out[i] = (T)(OTHER); \
      } \
      if (n < BLOCK) pf_copy_some(ys, out, sizeof(T) * (size_t)n); \
      else memcpy(ys, out, sizeof out); \
    } \
  }
BLOCKS(Atan, float, f32, pf_atan_f32(x), 0, x)
BLOCKS(Asin, float, f32, pf_asin_f32(x), 0, x)
BLOCKS(Acos, float, f32, pf_acos_f32(x), 0, x)
BLOCKS(Tan, float, f32, pf_tan_f32(x), !(fabsf(x) < SIN_LIMIT), tanf(x))
BLOCKS(Sinh, float, f32, pf_sinh_f32(x), 0, x)
BLOCKS(Cosh, float, f32, pf_cosh_f32(x), 0, x)
BLOCKS(Asinh, float, f32, pf_asinh_f32(x), 0, x)
BLOCKS(Acosh, float, f32, pf_acosh_f32(x), 0, x)
BLOCKS(Atanh, float, f32, pf_atanh_f32(x), 0, x)
BLOCKS(Digamma, double, f64, pf_digamma_positive(x), !((x > 0) & (x < INFINITY)), digamma_rest(x))
BLOCKS(LgammaRough, double, f64, pf_log_gamma_float(x), !((x > 0x1p-126) & (x < INFINITY)),
       log_gamma(x))
/* erf, or erfc if `complement`.  A block of small numbers is spared the exponential. */
#define ERF_LOOP(T, TAG) \
  static void erf_loop_##TAG(const T *xs, T *ys, int64_t n, int complement) { \
    for (; n > 0; n -= BLOCK, xs += BLOCK, ys += BLOCK) { \
      T in[BLOCK], out[BLOCK]; \
      __typeof__(_Generic((T)0, float: (int32_t)0, default: (int64_t)0)) large = 0; \
      if (n < BLOCK) pf_copy_some(memset(in, 0, sizeof in), xs, sizeof(T) * (size_t)n); \
      else memcpy(in, xs, sizeof in); \
      PF_ROLLED for (int i = 0; i < BLOCK; i++) { \
        T x = in[i], s = pf_erf_rest_##TAG(x); \
        out[i] = complement ? PF_FMA(-x, s, 1 - x) : PF_FMA(s, x, x); \
        large |= !((x < 1) & (x > -1)); \
      } \
      if (large) PF_ROLLED for (int i = 0; i < BLOCK; i++) { \
        T x = in[i], a = x < 0 ? -x : x, p = pf_erfc_tail_##TAG(a); \
        T far = complement ? (x < 0 ? 2 - p : p) : x < 0 ? p - 1 : 1 - p; \
        out[i] = a < 1 ? out[i] : far; \
      } \
      if (n < BLOCK) pf_copy_some(ys, out, sizeof(T) * (size_t)n); \
      else memcpy(ys, out, sizeof out); \
    } \
  }
ERF_LOOP(float, f32)
static void Erfc_f32(const void *x, void *y, int64_t n, double p) {
  (void)p;
  erf_loop_f32((const float *)x, (float *)y, n, 1);
}
#define BY_DOUBLE(NAME, LOOP_OF_DOUBLES) \
  static void NAME##_f32(const void *px, void *py, int64_t n, double p) { \
    const float *xs = (const float *)px; float *ys = (float *)py; \
    for (; n > 0; n -= BLOCK, xs += BLOCK, ys += BLOCK) { \
      float v[BLOCK]; \
      double w[BLOCK]; \
      if (n < BLOCK) pf_copy_some(memset(v, 0, sizeof v), xs, sizeof(float) * (size_t)n); \
      else memcpy(v, xs, sizeof v); \
      PF_ROLLED for (int i = 0; i < BLOCK; i++) w[i] = v[i]; \
      LOOP_OF_DOUBLES(w, w, BLOCK, p); \
      PF_ROLLED for (int i = 0; i < BLOCK; i++) v[i] = (float)w[i]; \
      if (n < BLOCK) pf_copy_some(ys, v, sizeof(float) * (size_t)n); \
      else memcpy(ys, v, sizeof v); \
    } \
  }
BY_DOUBLE(Digamma, Digamma_f64)
BY_DOUBLE(Lgamma, LgammaRough_f64)

/* T: the element type, TAG: f32 or f64, F: libm's suffix */
#define LOOP(NAME, T, TAG, EXPR) UNARY(NAME, TAG, T, T, EXPR)
#if defined(__AVX512F__)
#define LOOP_512(NAME, OF_VECTOR) \
  static void NAME##_f32(const void *px, void *py, int64_t n, double p) { \
    const float *x = (const float *)px; float *y = (float *)py; (void)p; \
    int64_t i = 0; \
    for (; i + PF_VF <= n; i += PF_VF) pf_vf_store(y + i, OF_VECTOR(pf_vf_load(x + i))); \
    int rest = (int)(n - i); \
    if (rest) pf_vf_store_part(y + i, OF_VECTOR(pf_vf_load_part(x + i, rest)), rest); \
  }
PF_UNARY_512(LOOP_512)
#define LOOP_HALF_512(NAME, CODE, OF_VECTOR) LOOP_512(NAME##Half, OF_VECTOR)
PF_UNARY_HALF_512(LOOP_HALF_512)
#define OF_HALVES(NAME) , [PF_FLOAT16] = NAME##Half_f32, [PF_BFLOAT16] = NAME##Half_f32
#else
#define OF_HALVES(NAME)
PF_UNARY_VECTOR(LOOP, float, f32, f)
UNARY(Erf, f32, float, float, pf_erf_f32(x))
#endif
PF_UNARY_VECTOR(LOOP, double, f64, )
#define LOOPS(T, TAG, F) \
  PF_UNARY_CHEAP(LOOP, T, TAG, F) \
  PF_UNARY_HEAVY(LOOP, T, TAG, F) \
  UNARY(IsNan, TAG, T, uint8_t, x != x) \
  UNARY(IsInf, TAG, T, uint8_t, fabs##F(x) == (T)INFINITY) \
  UNARY(IsFinite, TAG, T, uint8_t, fabs##F(x) < (T)INFINITY)
LOOPS(float, f32, f)
LOOPS(double, f64, )
#define LIBM(NAME, EXPR) UNARY(NAME, f64, double, double, EXPR)
LIBM(Lgamma, log_gamma(x))
#if defined(PF_VMATH_F64)
#define LIMIT_F64 0x1p20
BLOCKS(Sin, double, f64, pf_sin_f64(x), !(fabs(x) < LIMIT_F64), sin(x))
BLOCKS(Cos, double, f64, pf_cos_f64(x), !(fabs(x) < LIMIT_F64), cos(x))
BLOCKS(Tan, double, f64, pf_tan_f64(x), !(fabs(x) < LIMIT_F64), tan(x))
#define BLOCKS_F64(NAME, EXPR) BLOCKS(NAME, double, f64, EXPR, 0, x)
BLOCKS_F64(Asin, pf_asin_f64(x))
BLOCKS_F64(Acos, pf_acos_f64(x))
BLOCKS_F64(Atan, pf_atan_f64(x))
BLOCKS_F64(Sinh, pf_sinh_f64(x))
BLOCKS_F64(Cosh, pf_cosh_f64(x))
BLOCKS_F64(Asinh, pf_asinh_f64(x))
BLOCKS_F64(Acosh, pf_acosh_f64(x))
BLOCKS_F64(Atanh, pf_atanh_f64(x))
ERF_LOOP(double, f64)
static void Erf_f64(const void *x, void *y, int64_t n, double p) {
  (void)p;
  erf_loop_f64((const double *)x, (double *)y, n, 0);
}
static void Erfc_f64(const void *x, void *y, int64_t n, double p) {
  (void)p;
  erf_loop_f64((const double *)x, (double *)y, n, 1);
}
#else
LIBM(Sin, sin(x))
LIBM(Cos, cos(x))
LIBM(Tan, tan(x))
LIBM(Asin, asin(x))
LIBM(Acos, acos(x))
LIBM(Atan, atan(x))
LIBM(Sinh, sinh(x))
LIBM(Cosh, cosh(x))
LIBM(Asinh, asinh(x))
LIBM(Acosh, acosh(x))
LIBM(Atanh, atanh(x))
LIBM(Erf, erf(x))
LIBM(Erfc, erfc(x))
#endif

#define EACH_OP(X) \
  X(Abs) X(Neg) X(Sign) X(Square) X(Sqrt) X(Rsqrt) X(Reciprocal) X(Floor) X(Ceil) X(Round) \
  X(Expm1) X(Log) X(Log1p) \
  X(Sin) X(Cos) \
  X(Tan) X(Asin) X(Acos) X(Atan) X(Sinh) X(Cosh) X(Asinh) X(Acosh) X(Atanh) X(Erf) X(Erfc) \
  X(Lgamma) \
  X(Digamma) X(IsNan) X(IsInf) X(IsFinite)
#define EACH_ACTIVATION(X) X(Softplus) X(Softsign) X(Relu) X(Relu6) X(Elu) X(Selu)
#define INIT(NAME) UNARY_INIT(NAME, [PF_FLOAT32] = NAME##_f32, [PF_FLOAT64] = NAME##_f64)
#define ENTRY(NAME) UNARY_KERNEL(#NAME, NAME, "T=" PF_FLOATS),
#define ACTIVATION(NAME) UNARY_KERNEL_TO("activations", #NAME, NAME, "T=" PF_FLOATS),
EACH_OP(INIT)
EACH_ACTIVATION(INIT)
INIT(LeakyRelu)
#define INIT_HALVES(NAME) \
  UNARY_INIT(NAME, [PF_FLOAT32] = NAME##_f32, [PF_FLOAT64] = NAME##_f64 OF_HALVES(NAME))
INIT_HALVES(Exp)
INIT_HALVES(Tanh)
INIT_HALVES(Sigmoid)

static const pf_attr *const leaky_attrs[] = {
  PF_REF(pf_attr, "alpha", PF_ATTR_FLOAT, offsetof(pf_unary_state, p)), NULL};

const pf_kernel *const PF_ISA_NAME(unary_float_kernels)[] = {
  EACH_OP(ENTRY) EACH_ACTIVATION(ACTIVATION) ENTRY(Exp) ENTRY(Tanh) ENTRY(Sigmoid)
      UNARY_KERNEL("Inv", Reciprocal, "T=" PF_FLOATS),
  UNARY_KERNEL("Rint", Round, "T=" PF_FLOATS),
  UNARY_KERNEL_TO("activations", "LeakyRelu", LeakyRelu, "T=" PF_FLOATS, .attrs = leaky_attrs),
  NULL};
