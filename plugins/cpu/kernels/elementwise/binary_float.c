/* binary_float.c - ops of two float, double, half or bfloat16 tensors: arithmetic, comparison,
 * gradients.
 *
 * Arithmetic and comparison broadcast as NumPy does; the *Grad ops need equal shapes.  half and
 * bfloat16 are computed as float (elementwise.c).  Compiled once per instruction set.
 */
#include "elementwise/elementwise.h"
#include "elementwise/elementwise_exprs.h"
#include "vec/vmath_arc.h"

/* remainder with the divisor's sign, as Python's % */
#define FLOOR_MOD(TAG, T, F) \
  static T floor_mod_##TAG(T a, T b) { \
    T r = fmod##F(a, b); \
    return r != 0 && (r < 0) != (b < 0) ? r + b : r; \
  }
FLOOR_MOD(f32, float, f)
FLOOR_MOD(f64, double, )
/* remainder of floats by doubles: exact where |a / b| < 2^29, elsewhere NaN */
PF_INLINE float mod_by_double(float a, float b) {
  double q = trunc((double)a / b), r = (double)a - q * b;
  uint32_t out = -(uint32_t)!(fabs(q) < 0x1p29);
  return pf_bits_float(pf_float_bits(copysignf((float)r, a)) | out);
}
PF_INLINE float floor_mod_by_double(float a, float b) {
  float r = mod_by_double(a, b);
  uint32_t other = (pf_float_bits(r) ^ pf_float_bits(b)) >> 31, add = -(other & (r != 0));
  return r + pf_bits_float((pf_float_bits(b) & add) | (0x80000000u & ~add)); /* r + -0 is r */
}

/* Blocks of two operands, as unary_float.c's; what comes out as NaN takes OTHER */
enum { BLOCK = 16 };
#define BLOCKS(NAME, EXPR, OTHER) \
  static int32_t NAME##_f32(const void *pa, const void *pb, void *pz, int64_t n, int32_t mode, \
                            double p) { \
    const float *as = (const float *)pa, *bs = (const float *)pb; \
    float *zs = (float *)pz, u[BLOCK], v[BLOCK], out[BLOCK]; \
    (void)p; \
    for (int i = 0; i < BLOCK; i++) \
      u[i] = mode == PF_SV ? *as : 1, v[i] = mode == PF_VS ? *bs : 1; \
    for (int64_t at = 0; at < n; at += BLOCK) { \
      int32_t bad = 0; \
      if (n - at < BLOCK) { \
        if (mode != PF_SV) pf_copy_some(u, as + at, sizeof(float) * (size_t)(n - at)); \
        if (mode != PF_VS) pf_copy_some(v, bs + at, sizeof(float) * (size_t)(n - at)); \
      } else { \
        if (mode != PF_SV) memcpy(u, as + at, sizeof u); \
        if (mode != PF_VS) memcpy(v, bs + at, sizeof v); \
      } \
      PF_ROLLED for (int i = 0; i < BLOCK; i++) { \
        float a = u[i], b = v[i]; \
        out[i] = EXPR; \
        bad |= out[i] != out[i]; \
      } \
      if (bad) PF_ROLLED for (int i = 0; i < BLOCK; i++) { \
        float a = u[i], b = v[i]; \
        if (out[i] != out[i]) out[i] = OTHER; \
      } \
      if (n - at < BLOCK) pf_copy_some(zs + at, out, sizeof(float) * (size_t)(n - at)); \
      else memcpy(zs + at, out, sizeof out); \
    } \
    return 0; \
  }
BLOCKS(Atan2, pf_atan2_f32(a, b), a + b)
BLOCKS(Mod, mod_by_double(a, b), fmodf(a, b))
BLOCKS(FloorMod, floor_mod_by_double(a, b), floor_mod_f32(a, b))

#define LOOP(NAME, T, TAG, EXPR) BINARY(NAME, TAG, T, T, EXPR)
#define LOOPS(T, TAG, F) \
  PF_BINARY_CHEAP(LOOP, T, TAG, F) \
  PF_BINARY_HEAVY(LOOP, T, TAG, F) \
  PF_GRAD_CHEAP(LOOP, T, TAG, F) \
  PF_GRAD_HEAVY(LOOP, T, TAG, F) \
  BINARY(TruncateDiv, TAG, T, T, trunc##F(a / b)) \
  BINARY(RawPow, TAG, T, T, pow##F(a, b)) \
  BINARY(Equal, TAG, T, uint8_t, a == b) \
  BINARY(NotEqual, TAG, T, uint8_t, a != b) \
  BINARY(Less, TAG, T, uint8_t, a < b) \
  BINARY(LessEqual, TAG, T, uint8_t, a <= b) \
  BINARY(Greater, TAG, T, uint8_t, a > b) \
  BINARY(GreaterEqual, TAG, T, uint8_t, a >= b) \
  BINARY(ApproximateEqual, TAG, T, uint8_t, fabs##F(a - b) < (T)p)
LOOPS(float, f32, f)
LOOPS(double, f64, )
BINARY(Mod, f64, double, double, fmod(a, b))
BINARY(FloorMod, f64, double, double, floor_mod_f64(a, b))
BINARY(Atan2, f64, double, double, atan2(a, b))

/* a scalar exponent of 2, 1, 0.5 or -1 needs no pow */
#define POW(T, TAG, F) \
  static int32_t Pow_##TAG(const void *pa, const void *pb, void *pz, int64_t n, int32_t mode, \
                           double p) { \
    const T *as = (const T *)pa; T *zs = (T *)pz; T e = *(const T *)pb; \
    if (mode == PF_VS && e == 2) { \
      PF_IVDEP for (int64_t i = 0; i < n; i++) zs[i] = as[i] * as[i]; \
    } \
    else if (mode == PF_VS && e == 1) { PF_IVDEP for (int64_t i = 0; i < n; i++) zs[i] = as[i]; } \
    else if (mode == PF_VS && e == -1) { \
      PF_IVDEP for (int64_t i = 0; i < n; i++) zs[i] = (T)1 / as[i]; \
    } \
    else if (mode == PF_VS && e == (T)0.5) { /* pow(-0, .5) is +0 and pow(-inf, .5) is inf */ \
      PF_IVDEP for (int64_t i = 0; i < n; i++) \
        zs[i] = as[i] == (T)-INFINITY ? (T)INFINITY : sqrt##F(as[i]) + (T)0; \
    } else return RawPow_##TAG(pa, pb, pz, n, mode, p); \
    return 0; \
  }
POW(float, f32, f)
POW(double, f64, )

#define INIT(NAME) BINARY_INIT(NAME, [PF_FLOAT32] = NAME##_f32, [PF_FLOAT64] = NAME##_f64)
#define EACH_BROADCAST(X) \
  X(FloorDiv) X(TruncateDiv) X(Mod) X(FloorMod) X(Pow) X(Maximum) X(Minimum) \
  X(SquaredDifference) \
  X(Atan2) X(DivNoNan) X(MulNoNan) X(Xdivy) X(Xlogy) X(Less) X(LessEqual) X(Greater) X(GreaterEqual)
#define EACH_GRAD(X) X(TanhGrad) X(SigmoidGrad) X(SqrtGrad) X(RsqrtGrad) X(ReciprocalGrad)
#define EACH_ACTIVATION_GRAD(X) \
  X(ReluGrad) X(Relu6Grad) X(EluGrad) X(SeluGrad) X(SoftplusGrad) X(SoftsignGrad)
#define ENTRY(NAME) BINARY_KERNEL(#NAME, NAME, "T=" PF_FLOATS),
#define STRICT(NAME) INIT(NAME) STRICT_INIT(NAME)
#define STRICT_ENTRY(NAME) BINARY_KERNEL(#NAME, NAME##Strict, "T=" PF_FLOATS),
#define ACTIVATION_GRAD(NAME) \
  BINARY_KERNEL_TO("backprops", #NAME, NAME##Strict, "T=" PF_FLOATS),
INIT(Add)
INIT(Sub)
INIT(Mul)
INIT(Div)
EACH_BROADCAST(INIT)
EACH_GRAD(STRICT)
EACH_ACTIVATION_GRAD(STRICT)
STRICT(LeakyReluGrad)
STRICT(ApproximateEqual)
#define EQUALITY(NAME, UNEQUAL) INIT(NAME) EQUALITY_INIT(NAME, UNEQUAL)
EQUALITY(Equal, 1)
EQUALITY(NotEqual, 2)

/* ---------------------------------------------------------------- rows past the caches */
#if defined(__AVX512F__)
PF_INLINE __m512 past_row(const float *y, int number) {
  return number ? _mm512_set1_ps(*y) : _mm512_loadu_ps(y);
}
/* 2 kB ahead near; 4 kB ahead to the second cache: where the third one is far, near alone is too
 * few lines under way (0.95 of what both give; the nearest cache at 4 kB, 0.97) */
PF_INLINE void past_fetch(const float *x) {
  __builtin_prefetch(x + 512);
  __builtin_prefetch(x + 1024, 0, 2);
}
#define PAST(NAME, OP) \
  PF_INLINE void NAME##_run(const float *x, const float *y, float *z, int64_t n, const int number, \
                            const int second) { \
    int64_t i = 0; \
    for (; i + 64 <= n; i += 64) {     /* loads before the stores ahead of them */ \
      __m512 v[4]; \
      _Pragma("GCC unroll 4") for (int u = 0; u < 4; u++) { \
        const __m512 w = past_row(number ? y : y + i + 16 * u, number); \
        v[u] = _mm512_loadu_ps(x + i + 16 * u); \
        v[u] = second ? w OP v[u] : v[u] OP w; \
        past_fetch(x + i + 16 * u); \
      } \
      _Pragma("GCC unroll 4") for (int u = 0; u < 4; u++) _mm512_stream_ps(z + i + 16 * u, v[u]); \
    } \
    for (; i < n; i += 16) { \
      const __m512 v = _mm512_loadu_ps(x + i), w = past_row(number ? y : y + i, number); \
      past_fetch(x + i); \
      _mm512_stream_ps(z + i, second ? w OP v : v OP w); \
    } \
  } \
  static void NAME##_lines(const float *x, const float *y, float *z, int64_t n, int32_t how) { \
    switch (how) { \
      case 0: NAME##_run(x, y, z, n, 0, 0); break; \
      case PF_PAST_NUMBER: NAME##_run(x, y, z, n, 1, 0); break; \
      case PF_PAST_SECOND: NAME##_run(x, y, z, n, 0, 1); break; \
      default: NAME##_run(x, y, z, n, 1, 1); break; \
    } \
  } \
  static void NAME##_joint(const float *x, const float *y, const float *next, float *z, \
                           int32_t left, int32_t how) { \
    const __mmask16 first = (__mmask16)((1u << left) - 1), rest = (__mmask16)~first; \
    const __m512 v = _mm512_loadu_ps(x); \
    past_fetch(x); \
    const __m512 w = how & PF_PAST_NUMBER \
        ? _mm512_mask_mov_ps(_mm512_set1_ps(*next), first, _mm512_set1_ps(*y)) \
        : _mm512_mask_loadu_ps(_mm512_maskz_loadu_ps(first, y), rest, next - left); \
    _mm512_stream_ps(z, how & PF_PAST_SECOND ? w OP v : v OP w); \
  } \
  static const pf_past NAME##_past = {NAME##_lines, NAME##_joint};
PAST(Add, +)
PAST(Sub, -)
PAST(Mul, *)
PAST(Div, /)
#define PAST_INIT(NAME) \
  static pf_status NAME##Past_init(pf_ctx *c, void *state) { \
    PF_TRY(NAME##_init(c, state)); \
    if (c->in_type[0] == PF_FLOAT32) ((pf_binary_state *)state)->past = &NAME##_past; \
    return PF_OK; \
  }
#else
#define PAST_INIT(NAME) \
  static pf_status NAME##Past_init(pf_ctx *c, void *state) { return NAME##_init(c, state); }
#endif
PAST_INIT(Add)
PAST_INIT(Sub)
PAST_INIT(Mul)
PAST_INIT(Div)

#define P_ATTR(NAME) ((const pf_attr *const[]){ \
  PF_REF(pf_attr, NAME, PF_ATTR_FLOAT, offsetof(pf_binary_state, p)), NULL})

const pf_kernel *const PF_ISA_NAME(binary_float_kernels)[] = {
  ADD_FAMILY("T=" PF_FLOATS, AddPast),
  BINARY_KERNEL("RealDiv", DivPast, "T=" PF_FLOATS),
  BINARY_KERNEL("TruncateMod", Mod, "T=" PF_FLOATS),
  BINARY_KERNEL("Sub", SubPast, "T=" PF_FLOATS),
  BINARY_KERNEL("Mul", MulPast, "T=" PF_FLOATS),
  BINARY_KERNEL("Div", DivPast, "T=" PF_FLOATS),
  EACH_BROADCAST(ENTRY)
      BINARY_KERNEL("Equal", EqualLoose, "T=" PF_FLOATS, .attrs = PF_EQUALITY_ATTRS),
  BINARY_KERNEL("NotEqual", NotEqualLoose, "T=" PF_FLOATS, .attrs = PF_EQUALITY_ATTRS),
  BINARY_KERNEL("ApproximateEqual", ApproximateEqualStrict, "T=" PF_FLOATS,
                .attrs = P_ATTR("tolerance")),
  BINARY_KERNEL_TO("backprops", "LeakyReluGrad", LeakyReluGradStrict, "T=" PF_FLOATS,
                   .attrs = P_ATTR("alpha")),
  BINARY_KERNEL("InvGrad", ReciprocalGradStrict, "T=" PF_FLOATS),
  EACH_GRAD(STRICT_ENTRY) EACH_ACTIVATION_GRAD(ACTIVATION_GRAD) NULL};
