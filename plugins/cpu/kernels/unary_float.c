/* unary_float.c - ops of one float, double, half or bfloat16 tensor.
 *
 * The hot functions come from vmath.h and are vectorised by the compiler; the rest call libm per
 * element.  half and bfloat16 are computed as float (elementwise.c).  Compiled once per instruction
 * set.
 */
#define _DEFAULT_SOURCE 1                       /* lgamma_r: lgamma writes a global */
#include "elementwise.h"
#include "elementwise_exprs.h"

enum { SIN_BLOCK = 256 };
#define SIN_LIMIT 8192.0f

/* sin and cos: the vector path holds up to SIN_LIMIT; a block with a larger argument takes libm's
 * */
#define SINCOS(NAME, VECTOR, LIBM) \
  static void NAME##_f32(const void *px, void *py, int64_t n, double p) { \
    const float *xs = (const float *)px; float *ys = (float *)py; (void)p; \
    for (int64_t i = 0; i < n; i += SIN_BLOCK) { \
      int64_t hi = PF_MIN(n, i + SIN_BLOCK); \
      int32_t large = 0; \
      for (int64_t j = i; j < hi; j++) large |= !(fabsf(xs[j]) < SIN_LIMIT); \
      if (large) for (int64_t j = i; j < hi; j++) ys[j] = LIBM(xs[j]); \
      else PF_IVDEP for (int64_t j = i; j < hi; j++) ys[j] = VECTOR(xs[j]); \
    } \
  }
SINCOS(Sin, pf_sin_f32, sinf)
SINCOS(Cos, pf_cos_f32, cosf)
UNARY(Sin, f64, double, double, sin(x))
UNARY(Cos, f64, double, double, cos(x))
UNARY(Erf, f64, double, double, erf(x))

/* recurrence to x >= 10, then the asymptotic series */
static double digamma(double x) {
  if (x <= 0.0) {
    if (x == floor(x)) return NAN;
    double r = x - floor(x);                    /* reflection; the fraction keeps tan exact */
    return digamma(1.0 - x) - 3.141592653589793 / tan(3.141592653589793 * r);
  }
  if (isinf(x)) return x;
  double y = 0.0;
  for (; x < 10.0; x += 1.0) y -= 1.0 / x;
  double z = 1.0 / (x * x);
  double s = 1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * 691.0 / 32760));
  s = z * (1.0 / 12 - z * (1.0 / 120 - z * s));
  return y + log(x) - 0.5 / x - s;
}
static double log_gamma(double x) { int sign; return lgamma_r(x, &sign); }

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
LOOP_512(TanhHalf, pf_vf_tanh_half)
#define TANH_OF_HALVES , [PF_FLOAT16] = TanhHalf_f32, [PF_BFLOAT16] = TanhHalf_f32
#else
#define TANH_OF_HALVES
PF_UNARY_VECTOR(LOOP, float, f32, f)
UNARY(Erf, f32, float, float, pf_erf_f32(x))
#endif
PF_UNARY_VECTOR(LOOP, double, f64, )
#define LOOPS(T, TAG, F) \
  PF_UNARY_CHEAP(LOOP, T, TAG, F) \
  PF_UNARY_HEAVY(LOOP, T, TAG, F) \
  UNARY(Tan, TAG, T, T, tan##F(x)) \
  UNARY(Asin, TAG, T, T, asin##F(x)) \
  UNARY(Acos, TAG, T, T, acos##F(x)) \
  UNARY(Atan, TAG, T, T, atan##F(x)) \
  UNARY(Sinh, TAG, T, T, sinh##F(x)) \
  UNARY(Cosh, TAG, T, T, cosh##F(x)) \
  UNARY(Asinh, TAG, T, T, asinh##F(x)) \
  UNARY(Acosh, TAG, T, T, acosh##F(x)) \
  UNARY(Atanh, TAG, T, T, atanh##F(x)) \
  UNARY(Erfc, TAG, T, T, erfc##F(x)) \
  UNARY(Lgamma, TAG, T, T, log_gamma(x)) \
  UNARY(Digamma, TAG, T, T, digamma(x)) \
  UNARY(IsNan, TAG, T, uint8_t, x != x) \
  UNARY(IsInf, TAG, T, uint8_t, fabs##F(x) == (T)INFINITY) \
  UNARY(IsFinite, TAG, T, uint8_t, fabs##F(x) < (T)INFINITY)
LOOPS(float, f32, f)
LOOPS(double, f64, )

#define EACH_OP(X) \
  X(Abs) X(Neg) X(Sign) X(Square) X(Sqrt) X(Rsqrt) X(Reciprocal) X(Floor) X(Ceil) X(Round) \
  X(Exp) X(Expm1) \
  X(Log) X(Log1p) X(Sigmoid) X(Softplus) X(Softsign) X(Relu) X(Relu6) X(Elu) X(Selu) \
  X(Sin) X(Cos) \
  X(Tan) X(Asin) X(Acos) X(Atan) X(Sinh) X(Cosh) X(Asinh) X(Acosh) X(Atanh) X(Erf) X(Erfc) \
  X(Lgamma) \
  X(Digamma) X(IsNan) X(IsInf) X(IsFinite)
#define INIT(NAME) UNARY_INIT(NAME, [PF_FLOAT32] = NAME##_f32, [PF_FLOAT64] = NAME##_f64)
#define ENTRY(NAME) UNARY_KERNEL(#NAME, NAME, "T=" PF_FLOATS),
EACH_OP(INIT)
INIT(LeakyRelu)
UNARY_INIT(Tanh, [PF_FLOAT32] = Tanh_f32, [PF_FLOAT64] = Tanh_f64 TANH_OF_HALVES)

static const pf_attr *const leaky_attrs[] = {
  PF_REF(pf_attr, "alpha", PF_ATTR_FLOAT, offsetof(pf_unary_state, p)), NULL};

const pf_kernel *const PF_ISA_NAME(unary_float_kernels)[] = {
  EACH_OP(ENTRY)
  UNARY_KERNEL("Tanh", Tanh, "T=" PF_FLOATS),
  UNARY_KERNEL("Inv", Reciprocal, "T=" PF_FLOATS),
  UNARY_KERNEL("Rint", Round, "T=" PF_FLOATS),
  UNARY_KERNEL("LeakyRelu", LeakyRelu, "T=" PF_FLOATS, .attrs = leaky_attrs),
  NULL};
