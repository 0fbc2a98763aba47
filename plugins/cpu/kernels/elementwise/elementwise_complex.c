/* elementwise_complex.c - ops of complex64 and complex128 tensors, and the string forms of Add and
 * Equal. */
#include <complex.h>
#undef I
#include "elementwise/elementwise.h"

typedef float _Complex c64;
typedef double _Complex c128;
static inline c64 make_c64(float re, float im) {
  float parts[2] = {re, im};
  c64 z;
  memcpy(&z, parts, sizeof z);
  return z;
}
static inline c128 make_c128(double re, double im) {
  double parts[2] = {re, im};
  c128 z;
  memcpy(&z, parts, sizeof z);
  return z;
}

/* C: the complex type, R: its real type, TAG: c64 or c128, F: libm's suffix */
#define LOOPS(C, R, TAG, F) \
  static inline C inverse_##TAG(C x) { return (R)1 / x; } \
  static inline C log1p_##TAG(C x) { \
    R re = creal##F(x), im = cimag##F(x), m = re * ((R)2 + re) + im * im; /* |1+x|^2 - 1 */ \
    R mod = m > (R)-0.5 && m < 1 ? (R)0.5 * log1p##F(m) : log##F(hypot##F((R)1 + re, im)); \
    return make_##TAG(mod, atan2##F(im, (R)1 + re)); \
  } \
  static inline C expm1_##TAG(C x) { \
    R re = creal##F(x), im = cimag##F(x), s = sin##F(im / 2), e = expm1##F(re); \
    return make_##TAG(e * cos##F(im) - 2 * s * s, (e + 1) * sin##F(im)); \
  } \
  UNARY(Neg, TAG, C, C, -x) \
  UNARY(Square, TAG, C, C, x * x) \
  UNARY(Sign, TAG, C, C, x == 0 ? x : x / cabs##F(x)) \
  UNARY(Reciprocal, TAG, C, C, inverse_##TAG(x)) \
  UNARY(Sqrt, TAG, C, C, csqrt##F(x)) \
  UNARY(Rsqrt, TAG, C, C, inverse_##TAG(csqrt##F(x))) \
  UNARY(Exp, TAG, C, C, cexp##F(x)) \
  UNARY(Expm1, TAG, C, C, expm1_##TAG(x)) \
  UNARY(Log, TAG, C, C, clog##F(x)) \
  UNARY(Log1p, TAG, C, C, log1p_##TAG(x)) \
  UNARY(Sigmoid, TAG, C, C, inverse_##TAG((R)1 + cexp##F(-x))) \
  UNARY(Tanh, TAG, C, C, ctanh##F(x)) \
  UNARY(Sin, TAG, C, C, csin##F(x)) \
  UNARY(Cos, TAG, C, C, ccos##F(x)) \
  UNARY(Tan, TAG, C, C, ctan##F(x)) \
  UNARY(Asin, TAG, C, C, casin##F(x)) \
  UNARY(Acos, TAG, C, C, cacos##F(x)) \
  UNARY(Atan, TAG, C, C, catan##F(x)) \
  UNARY(Sinh, TAG, C, C, csinh##F(x)) \
  UNARY(Cosh, TAG, C, C, ccosh##F(x)) \
  UNARY(Asinh, TAG, C, C, casinh##F(x)) \
  UNARY(Acosh, TAG, C, C, cacosh##F(x)) \
  UNARY(Atanh, TAG, C, C, catanh##F(x)) \
  UNARY(Round, TAG, C, C, make_##TAG(rint##F(creal##F(x)), rint##F(cimag##F(x)))) \
  UNARY(Conj, TAG, C, C, conj##F(x)) \
  UNARY(Real, TAG, C, R, creal##F(x)) \
  UNARY(Imag, TAG, C, R, cimag##F(x)) \
  UNARY(ComplexAbs, TAG, C, R, cabs##F(x)) \
  UNARY(Angle, TAG, C, R, carg##F(x)) \
  BINARY(Complex, TAG, R, C, make_##TAG(a, b)) \
  BINARY(Add, TAG, C, C, a + b) \
  BINARY(Sub, TAG, C, C, a - b) \
  BINARY(Mul, TAG, C, C, a * b) \
  BINARY(Div, TAG, C, C, a / b) \
  BINARY(Pow, TAG, C, C, b == 0 ? make_##TAG(1, 0) : a == 0 ? a : cpow##F(a, b)) \
  BINARY(SquaredDifference, TAG, C, C, (a - b) * conj##F(a - b)) \
  BINARY(DivNoNan, TAG, C, C, b == 0 ? make_##TAG(0, 0) : a / b) \
  BINARY(MulNoNan, TAG, C, C, b == 0 ? make_##TAG(0, 0) : a * b) \
  BINARY(Xdivy, TAG, C, C, a == 0 ? make_##TAG(0, 0) : a / b) \
  BINARY(Xlogy, TAG, C, C, a == 0 ? make_##TAG(0, 0) : a * clog##F(b)) \
  BINARY(Equal, TAG, C, uint8_t, a == b) \
  BINARY(NotEqual, TAG, C, uint8_t, a != b) \
  BINARY(ApproximateEqual, TAG, C, uint8_t, cabs##F(a - b) < (R)p) \
  /* as TF's: TanhGrad and SigmoidGrad are given the conjugate of the output, the others take it \
   * themselves and give 0 where dy is 0 */ \
  BINARY(TanhGrad, TAG, C, C, b * ((R)1 - a * a)) \
  BINARY(SigmoidGrad, TAG, C, C, b * ((R)1 - a) * a) \
  BINARY(SqrtGrad, TAG, C, C, b == 0 ? make_##TAG(0, 0) : b * (R)0.5 / conj##F(a)) \
  BINARY(RsqrtGrad, TAG, C, C, \
         b == 0 ? make_##TAG(0, 0) : (R)-0.5 * (b * conj##F(a)) * conj##F(a * a)) \
  BINARY(ReciprocalGrad, TAG, C, C, b == 0 ? make_##TAG(0, 0) : -conj##F(a) * (b * conj##F(a)))
LOOPS(c64, float, c64, f)
LOOPS(c128, double, c128, )

#define EACH_UNARY(X) \
  X(Neg) X(Square) X(Sign) X(Reciprocal) X(Sqrt) X(Rsqrt) X(Exp) X(Expm1) X(Log) X(Log1p) \
  X(Sigmoid) X(Tanh) \
  X(Sin) X(Cos) X(Tan) X(Asin) X(Acos) X(Atan) X(Sinh) X(Cosh) X(Asinh) X(Acosh) X(Atanh) \
  X(Round)
#define EACH_BINARY(X) \
  X(Sub) X(Mul) X(Div) X(Pow) X(SquaredDifference) X(DivNoNan) X(MulNoNan) X(Xdivy) X(Xlogy)
#define EACH_STRICT(X) \
  X(TanhGrad) X(SigmoidGrad) X(SqrtGrad) X(RsqrtGrad) X(ReciprocalGrad) X(ApproximateEqual)
#define UINIT(NAME) UNARY_INIT(NAME, [PF_COMPLEX64] = NAME##_c64, [PF_COMPLEX128] = NAME##_c128)
#define BINIT(NAME) BINARY_INIT(NAME, [PF_COMPLEX64] = NAME##_c64, [PF_COMPLEX128] = NAME##_c128)
#define SINIT(NAME) BINIT(NAME) STRICT_INIT(NAME)
#define EACH_TO_REAL(X) X(Real) X(Imag) X(ComplexAbs) X(Angle)
EACH_UNARY(UINIT)
UINIT(Conj)
EACH_TO_REAL(UINIT)
BINIT(Add)
EACH_BINARY(BINIT)
EACH_STRICT(SINIT)
BINIT(Equal)
BINIT(NotEqual)
EQUALITY_INIT(Equal, 1)
EQUALITY_INIT(NotEqual, 2)
BINARY_INIT(Complex, [PF_FLOAT32] = Complex_c64, [PF_FLOAT64] = Complex_c128)

/* ----------------------------------------------------- strings: Add joins, Equal compares bytes */
typedef struct { int32_t shape_error, equal; } string_state;
static pf_status string_equal_init(pf_ctx *c, void *state) {
  (void)c;
  ((string_state *)state)->equal = 1;
  return PF_OK;
}

/* element of `t` that broadcasts to flat position `i` of `shape` */
static int64_t broadcast_position(const DLTensor *t, const int64_t *shape, int32_t nd, int64_t i) {
  int64_t at = 0, stride = 1;
  for (int32_t d = 1; d <= nd; d++) {
    int64_t x = i % shape[nd - d];
    i /= shape[nd - d];
    if (d > t->ndim) continue;
    int64_t n = t->shape[t->ndim - d];
    if (n != 1) at += x * stride;
    stride *= n;
  }
  return at;
}
static pf_status string_add(pf_ctx *c, const void *state) {
  (void)state;
  int64_t shape[PF_MAX_DIMS], n;
  int32_t nd;
  PF_TRY(pf_broadcast_shape(c, c->in[0], c->in[1], shape, &nd));
  DLTensor *z = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(z);
  n = pf_numel(z);
  char *text = NULL;
  int64_t room = 0;
  for (int64_t i = 0; i < n; i++) {
    pf_str a, b;
    PF_TRY(c->host->str_get(c->in[0], broadcast_position(c->in[0], shape, nd, i), &a));
    PF_TRY(c->host->str_get(c->in[1], broadcast_position(c->in[1], shape, nd, i), &b));
    if (a.len + b.len > room) {
      room = 2 * (a.len + b.len);
      text = (char *)c->host->scratch(c, (uint64_t)room, 1);
      PF_EXHAUSTED(text);
    }
    if (a.len) memcpy(text, a.data, (size_t)a.len);
    if (b.len) memcpy(text + a.len, b.data, (size_t)b.len);
    PF_TRY(c->host->str_set(z, i, (pf_str){text, a.len + b.len}));
  }
  return PF_OK;
}
static pf_status string_equal(pf_ctx *c, const void *state) {
  const string_state *s = (const string_state *)state;
  int64_t shape[PF_MAX_DIMS], n;
  int32_t nd;
  PF_TRY(pf_broadcast_shape(c, c->in[0], c->in[1], shape, &nd));
  DLTensor *z = pf_output_checked(c, 0, shape, nd);
  PF_EXHAUSTED(z);
  n = pf_numel(z);
  for (int64_t i = 0; i < n; i++) {
    pf_str a, b;
    PF_TRY(c->host->str_get(c->in[0], broadcast_position(c->in[0], shape, nd, i), &a));
    PF_TRY(c->host->str_get(c->in[1], broadcast_position(c->in[1], shape, nd, i), &b));
    int same = a.len == b.len && (a.len == 0 || !memcmp(a.data, b.data, (size_t)a.len));
    PF_DATA(uint8_t, z)[i] = (uint8_t)(same == s->equal);
  }
  return PF_OK;
}

#define T_COMPLEX "T=" PF_COMPLEX
#define UNARY_ENTRY(NAME) UNARY_KERNEL(#NAME, NAME, T_COMPLEX),
#define TO_REAL(OP, NAME, WHERE) \
  PF_CPU(OP, WHERE, .state_size = sizeof(pf_unary_state), .init = NAME##_init, \
         .compute = pf_unary_compute)
#define TO_REAL_ENTRY(NAME) \
  TO_REAL(#NAME, NAME, "T=complex64, Tout=float"), \
  TO_REAL(#NAME, NAME, "T=complex128, Tout=double"),
#define BINARY_ENTRY(NAME) BINARY_KERNEL(#NAME, NAME, T_COMPLEX),
#define STRICT_ENTRY(NAME) BINARY_KERNEL(#NAME, NAME##Strict, T_COMPLEX),
#define STRICT_PLAIN(X) X(TanhGrad) X(SigmoidGrad) X(SqrtGrad) X(RsqrtGrad) X(ReciprocalGrad)

const pf_kernel *const elementwise_complex_kernels[] = {
  EACH_UNARY(UNARY_ENTRY) UNARY_KERNEL_TO("output", "Conj", Conj, T_COMPLEX),
  EACH_BINARY(BINARY_ENTRY) STRICT_PLAIN(STRICT_ENTRY) UNARY_KERNEL("Inv", Reciprocal, T_COMPLEX),
  BINARY_KERNEL("InvGrad", ReciprocalGradStrict, T_COMPLEX),
  ADD_FAMILY(T_COMPLEX, Add),
  BINARY_KERNEL("RealDiv", Div, T_COMPLEX),
  EACH_TO_REAL(TO_REAL_ENTRY)
      BINARY_KERNEL_TO("out", "Complex", Complex, "T=float, Tout=complex64"),
  BINARY_KERNEL_TO("out", "Complex", Complex, "T=double, Tout=complex128"),
  BINARY_KERNEL("Equal", EqualLoose, T_COMPLEX, .attrs = PF_EQUALITY_ATTRS),
  BINARY_KERNEL("NotEqual", NotEqualLoose, T_COMPLEX, .attrs = PF_EQUALITY_ATTRS),
  BINARY_KERNEL("ApproximateEqual", ApproximateEqualStrict, T_COMPLEX, .attrs = PF_TOLERANCE),
  PF_CPU("Add", "T=string", .compute = string_add),
  PF_CPU("AddV2", "T=string", .compute = string_add),
  PF_CPU("Equal", "T=string", .state_size = sizeof(string_state), .init = string_equal_init,
         .compute = string_equal),
  PF_CPU("NotEqual", "T=string", .state_size = sizeof(string_state), .compute = string_equal),
  NULL};
