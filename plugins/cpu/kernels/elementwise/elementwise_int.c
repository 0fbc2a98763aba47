/* elementwise_int.c - ops of one or two integer or bool tensors.
 *
 * Arithmetic wraps: it is done in an unsigned type U of at least 32 bits, so nothing overflows in
 * C's sense.  Division by zero, and a negative power, are faults that become InvalidArgument; the
 * smallest integer divided by -1 wraps.
 */
#include "elementwise/elementwise.h"

#define EACH_S(X) X(int8_t, i8, uint32_t) X(int16_t, i16, uint32_t) X(int32_t, i32, uint32_t) \
  X(int64_t, i64, uint64_t)
#define EACH_U(X) X(uint8_t, u8, uint32_t) X(uint16_t, u16, uint32_t) X(uint32_t, u32, uint32_t) \
  X(uint64_t, u64, uint64_t)

#define BOTH_SIGNS(T, TAG, U) \
  UNARY(Copy, TAG, T, T, x) \
  UNARY(Neg, TAG, T, T, (U)0 - (U)x) \
  UNARY(Square, TAG, T, T, (U)x * (U)x) \
  UNARY(Invert, TAG, T, T, ~(U)x) \
  UNARY(Relu, TAG, T, T, x > 0 ? x : 0) \
  UNARY(Relu6, TAG, T, T, x > 6 ? 6 : x > 0 ? x : 0) \
  BINARY(Add, TAG, T, T, (U)a + (U)b) \
  BINARY(Sub, TAG, T, T, (U)a - (U)b) \
  BINARY(Mul, TAG, T, T, (U)a * (U)b) \
  BINARY(SquaredDifference, TAG, T, T, ((U)a - (U)b) * ((U)a - (U)b)) \
  BINARY(Maximum, TAG, T, T, a > b ? a : b) \
  BINARY(Minimum, TAG, T, T, a < b ? a : b) \
  BINARY(BitwiseAnd, TAG, T, T, a & b) \
  BINARY(BitwiseOr, TAG, T, T, a | b) \
  BINARY(BitwiseXor, TAG, T, T, a ^ b) \
  BINARY(Equal, TAG, T, uint8_t, a == b) \
  BINARY(NotEqual, TAG, T, uint8_t, a != b) \
  BINARY(Less, TAG, T, uint8_t, a < b) \
  BINARY(LessEqual, TAG, T, uint8_t, a <= b) \
  BINARY(Greater, TAG, T, uint8_t, a > b) \
  BINARY(GreaterEqual, TAG, T, uint8_t, a >= b) \
  BINARY(ApproximateEqual, TAG, T, uint8_t, (double)(a > b ? (U)a - (U)b : (U)b - (U)a) < p) \
  BINARY(ReluGrad, TAG, T, T, b > 0 ? a : 0) \
  BINARY(Relu6Grad, TAG, T, T, b > 0 && b < 6 ? a : 0) \
  /* a shift outside [0, bits) acts as the nearest one inside */ \
  PF_INLINE uint32_t shift_##TAG(T b) { \
    return b < 0 ? 0 : b > (T)(sizeof(T) * 8 - 1) ? sizeof(T) * 8 - 1 : (uint32_t)b; \
  } \
  BINARY(LeftShift, TAG, T, T, (U)a << shift_##TAG(b)) \
  BINARY(RightShift, TAG, T, T, a >> shift_##TAG(b)) \
  PF_INLINE T power_##TAG(T base, T exponent, int32_t *fault) { \
    if (exponent < 0) return *fault |= PF_FAULT_NEGATIVE_POWER, 0; \
    U r = 1, b = (U)base; \
    for (U e = (U)exponent; e; e >>= 1, b *= b) if (e & 1) r *= b; \
    return (T)r; \
  } \
  BINARY_FAULT(Pow, TAG, T, power_##TAG(a, b, &fault))

#define SIGNED_ONLY(T, TAG, U) \
  UNARY(Abs, TAG, T, T, x < 0 ? (U)0 - (U)x : (U)x) \
  UNARY(Sign, TAG, T, T, (x > 0) - (x < 0)) \
  PF_INLINE T divide_##TAG(T a, T b, int32_t *fault) { \
    if (b == 0) return *fault |= PF_FAULT_DIVIDE, 0; \
    return b == -1 ? (T)((U)0 - (U)a) : (T)(a / b); \
  } \
  PF_INLINE T floor_divide_##TAG(T a, T b, int32_t *fault) { \
    if (b == 0) return *fault |= PF_FAULT_DIVIDE, 0; \
    if (b == -1) return (T)((U)0 - (U)a); \
    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0))); \
  } \
  PF_INLINE T modulo_##TAG(T a, T b, int32_t *fault) { \
    if (b == 0) return *fault |= PF_FAULT_DIVIDE, 0; \
    return b == -1 ? 0 : (T)(a % b); \
  } \
  PF_INLINE T floor_modulo_##TAG(T a, T b, int32_t *fault) { \
    T r = modulo_##TAG(a, b, fault); \
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r; \
  }

#define UNSIGNED_ONLY(T, TAG, U) \
  UNARY(Sign, TAG, T, T, x > 0) \
  PF_INLINE T divide_##TAG(T a, T b, int32_t *fault) { \
    return b ? a / b : (*fault |= PF_FAULT_DIVIDE, 0); \
  } \
  PF_INLINE T modulo_##TAG(T a, T b, int32_t *fault) { \
    return b ? a % b : (*fault |= PF_FAULT_DIVIDE, 0); \
  }

/* one by one: of 1 and 2 bytes, and what division_TAG leaves of 4 and 8 */
#define DIVISIONS(END, TAG, T) \
  BINARY_FAULT(Div##END, TAG, T, divide_##TAG(a, b, &fault)) \
  BINARY_FAULT(Mod##END, TAG, T, modulo_##TAG(a, b, &fault))
#define FLOOR_DIVISIONS(END, TAG, T) \
  BINARY_FAULT(FloorDiv##END, TAG, T, floor_divide_##TAG(a, b, &fault)) \
  BINARY_FAULT(FloorMod##END, TAG, T, floor_modulo_##TAG(a, b, &fault))

#pragma GCC diagnostic ignored "-Wtype-limits" /* x < 0 of an unsigned T is always false: meant */
EACH_S(BOTH_SIGNS)
EACH_U(BOTH_SIGNS)
EACH_S(SIGNED_ONLY)
EACH_U(UNSIGNED_ONLY)
DIVISIONS(, i8, int8_t)
DIVISIONS(, i16, int16_t)
DIVISIONS(, u8, uint8_t)
DIVISIONS(, u16, uint16_t)
DIVISIONS(, u64, uint64_t)
DIVISIONS(Each, i32, int32_t)
DIVISIONS(Each, i64, int64_t)
DIVISIONS(Each, u32, uint32_t)
FLOOR_DIVISIONS(, i8, int8_t)
FLOOR_DIVISIONS(, i16, int16_t)
FLOOR_DIVISIONS(Each, i32, int32_t)
FLOOR_DIVISIONS(Each, i64, int64_t)

/* ---------------------------------------------------------------- division of 4 and 8 bytes
 * By blocks in doubles, two or more at a time, which is exact below 2^50: the quotient is rounded
 * to the nearest integer, what remains of the dividend is exact and says whether to go back one.
 * A block that holds zeros or larger numbers goes element by element, the 15 after it unseen. */
enum { DIVIDE_BLOCK = 128, FLOOR_DIV = 1, REMAINDER = 2, LEAST_DIVIDED = 8 };
#define ROUND_MAGIC 0x1.8p52                    /* adding it rounds to an integer */
PF_INLINE double as_double(int64_t x) { /* |x| <= 2^50 */
  return pf_bits_double((uint64_t)x + pf_double_bits(ROUND_MAGIC)) - ROUND_MAGIC;
}
#define AS_INTEGER(x) (pf_double_bits((x) + ROUND_MAGIC) - pf_double_bits(ROUND_MAGIC))
/* x <- the quotient or the remainder; `inverse` of all of y, or 0 */
PF_INLINE void divide_doubles(double *x, const double *y, double inverse, int floors, int rest) {
  PF_IVDEP for (int i = 0; i < DIVIDE_BLOCK; i++) {
    double a = x[i], b = y[i];
    double q = ((inverse != 0 ? a * inverse : a / b) + ROUND_MAGIC) - ROUND_MAGIC, r = a - q * b;
    double back = floors ? 1.0 : (a < 0) != (b < 0) ? -1.0 : 1.0;
    back = (((r < 0) != ((floors ? b : a) < 0)) & (r != 0)) ? back : 0.0;
    x[i] = rest ? r + back * b : q - back;
  }
}
#define DIVIDE(FLOORS, REST) \
  if (inverse != 0) divide_doubles(x, y, inverse, FLOORS, REST); \
  else divide_doubles(x, y, 0, FLOORS, REST)
static void divide_block(double *x, const double *y, double inverse, int how) {
  switch (how) {
    case 0: DIVIDE(0, 0); break;
    case FLOOR_DIV: DIVIDE(1, 0); break;
    case REMAINDER: DIVIDE(0, 1); break;
    default: DIVIDE(1, 1); break;
  }
}
/* TO_DOUBLE(v): exact; TOO_LARGE(v): not zero if v is beyond that; U: T without sign */
#define IS_ZERO(U, v) ((((U)(v) - 1) & ~(U)(v)) >> (8 * sizeof(U) - 1))
#define DIVISION(T, TAG, U, TO_DOUBLE, TOO_LARGE) \
  static int32_t division_##TAG(const T *as, const T *bs, T *zs, int64_t n, int32_t mode, \
                                pf_binary_loop one_by_one, int how) { \
    double x[DIVIDE_BLOCK], y[DIVIDE_BLOCK], inverse = 0; \
    int32_t fault = 0; \
    int64_t sa = mode != PF_SV, sb = mode != PF_VS, unseen = 0; \
    if (mode == PF_VS && n >= LEAST_DIVIDED && *bs && !TOO_LARGE(*bs)) \
      inverse = 1.0 / TO_DOUBLE(*bs); \
    for (int i = 0; i < DIVIDE_BLOCK; i++) x[i] = 0, y[i] = 1; \
    for (int64_t k = 0, m; k < n; k += m) { \
      const T *a = as + k * sa, *b = bs + k * sb; \
      U bad = (n < LEAST_DIVIDED) | (unseen > 0) | (!sb && inverse == 0); \
      m = PF_MIN(DIVIDE_BLOCK, n - k); \
      if (!bad) { \
        for (int64_t i = 0; i < (sa ? m : 1); i++) bad |= TOO_LARGE(a[i]); \
        for (int64_t i = 0; sb && i < m; i++) bad |= TOO_LARGE(b[i]) | IS_ZERO(U, b[i]); \
      } \
      unseen = bad ? (unseen + 15) % 16 : 0; \
      if (bad) { fault |= one_by_one(a, b, zs + k, m, mode, 0); continue; } \
      for (int64_t i = 0; sa && i < m; i++) x[i] = TO_DOUBLE(a[i]); \
      for (int64_t i = 0; !sa && i < m; i++) x[i] = TO_DOUBLE(*a); \
      for (int64_t i = 0; sb && i < m; i++) y[i] = TO_DOUBLE(b[i]); \
      for (int64_t i = 0; !sb && i < m; i++) y[i] = TO_DOUBLE(*b); \
      divide_block(x, y, inverse, how); \
      for (int64_t i = 0; i < m; i++) zs[k + i] = (T)AS_INTEGER(x[i]); \
    } \
    return fault; \
  }
#define NEVER(v) 0
#define BEYOND(v) (((uint64_t)(v) + (1ull << 50)) >> 51)
DIVISION(int32_t, i32, uint32_t, (double), NEVER)
DIVISION(uint32_t, u32, uint32_t, (double), NEVER)
DIVISION(int64_t, i64, uint64_t, as_double, BEYOND)
#define BY_BLOCKS(NAME, TAG, T, HOW) \
  static int32_t NAME##_##TAG(const void *a, const void *b, void *z, int64_t n, int32_t mode, \
                              double p) { \
    (void)p; \
    return division_##TAG((const T *)a, (const T *)b, (T *)z, n, mode, NAME##Each_##TAG, HOW); \
  }
BY_BLOCKS(Div, i32, int32_t, 0)
BY_BLOCKS(Mod, i32, int32_t, REMAINDER)
BY_BLOCKS(Div, u32, uint32_t, 0)
BY_BLOCKS(Mod, u32, uint32_t, REMAINDER)
BY_BLOCKS(Div, i64, int64_t, 0)
BY_BLOCKS(Mod, i64, int64_t, REMAINDER)
BY_BLOCKS(FloorDiv, i32, int32_t, FLOOR_DIV)
BY_BLOCKS(FloorMod, i32, int32_t, FLOOR_DIV | REMAINDER)
BY_BLOCKS(FloorDiv, i64, int64_t, FLOOR_DIV)
BY_BLOCKS(FloorMod, i64, int64_t, FLOOR_DIV | REMAINDER)

UNARY(LogicalNot, bool, uint8_t, uint8_t, !x)
BINARY(LogicalAnd, bool, uint8_t, uint8_t, a &b)
BINARY(LogicalOr, bool, uint8_t, uint8_t, a | b)

#define S(NAME) [PF_INT8] = NAME##_i8, [PF_INT16] = NAME##_i16, [PF_INT32] = NAME##_i32, \
  [PF_INT64] = NAME##_i64
#define U(NAME) [PF_UINT8] = NAME##_u8, [PF_UINT16] = NAME##_u16, [PF_UINT32] = NAME##_u32, \
  [PF_UINT64] = NAME##_u64
#define SU(NAME) S(NAME), U(NAME)
#define B(NAME) [PF_BOOL] = NAME##_bool

UNARY_INIT(Abs, S(Abs), U(Copy))
UNARY_INIT(Neg, SU(Neg))
UNARY_INIT(Sign, SU(Sign))
UNARY_INIT(Round, SU(Copy))
UNARY_INIT(LogicalNot, B(LogicalNot))
BINARY_INIT(LogicalAnd, B(LogicalAnd))
BINARY_INIT(LogicalOr, B(LogicalOr))
BINARY_INIT(Equal, SU(Equal), [PF_BOOL] = Equal_u8)
BINARY_INIT(NotEqual, SU(NotEqual), [PF_BOOL] = NotEqual_u8)
EQUALITY_INIT(Equal, 1)
EQUALITY_INIT(NotEqual, 2)
BINARY_INIT(FloorDiv, S(FloorDiv), U(Div))
BINARY_INIT(FloorMod, S(FloorMod), U(Mod))
#define EACH_UNARY(X) X(Square) X(Invert)
#define EACH_ACTIVATION(X) X(Relu) X(Relu6)
#define EACH_BINARY(X) \
  X(Sub) X(Mul) X(Div) X(Mod) X(SquaredDifference) X(Maximum) X(Minimum) X(BitwiseAnd) \
  X(BitwiseOr) \
  X(BitwiseXor) X(Less) X(LessEqual) X(Greater) X(GreaterEqual) X(LeftShift) X(RightShift) X(Pow)
#define EACH_STRICT(X) X(ApproximateEqual) X(ReluGrad) X(Relu6Grad)
#define UNARY_INIT_SU(NAME) UNARY_INIT(NAME, SU(NAME))
#define BINARY_INIT_SU(NAME) BINARY_INIT(NAME, SU(NAME))
#define STRICT_INIT_SU(NAME) BINARY_INIT(NAME, SU(NAME)) STRICT_INIT(NAME)
EACH_UNARY(UNARY_INIT_SU)
EACH_ACTIVATION(UNARY_INIT_SU)
BINARY_INIT_SU(Add)
EACH_BINARY(BINARY_INIT_SU)
EACH_STRICT(STRICT_INIT_SU)

#define T_INTS "T=" PF_INTS
#define UNARY_ENTRY(NAME) UNARY_KERNEL(#NAME, NAME, T_INTS),
#define BINARY_ENTRY(NAME) BINARY_KERNEL(#NAME, NAME, T_INTS),
#define ACTIVATION(NAME) UNARY_KERNEL_TO("activations", #NAME, NAME, T_INTS),
#define ACTIVATION_GRAD(NAME) BINARY_KERNEL_TO("backprops", #NAME, NAME##Strict, T_INTS),

const pf_kernel *const elementwise_int_kernels[] = {
  EACH_UNARY(UNARY_ENTRY) EACH_ACTIVATION(ACTIVATION) EACH_BINARY(BINARY_ENTRY)
      UNARY_KERNEL("Abs", Abs, T_INTS),
  UNARY_KERNEL("Neg", Neg, T_INTS),
  UNARY_KERNEL("Sign", Sign, T_INTS),
  UNARY_KERNEL("Round", Round, T_INTS),
  UNARY_KERNEL("Rint", Round, T_INTS),
  UNARY_KERNEL("LogicalNot", LogicalNot, NULL),
  BINARY_KERNEL("LogicalAnd", LogicalAnd, NULL),
  BINARY_KERNEL("LogicalOr", LogicalOr, NULL),
  BINARY_KERNEL("Equal", EqualLoose, T_INTS "|bool", .attrs = PF_EQUALITY_ATTRS),
  BINARY_KERNEL("NotEqual", NotEqualLoose, T_INTS "|bool", .attrs = PF_EQUALITY_ATTRS),
  ADD_FAMILY(T_INTS, Add),
  BINARY_KERNEL("TruncateDiv", Div, T_INTS),
  BINARY_KERNEL("TruncateMod", Mod, T_INTS),
  BINARY_KERNEL("FloorDiv", FloorDiv, T_INTS),
  BINARY_KERNEL("FloorMod", FloorMod, T_INTS),
  BINARY_KERNEL("ApproximateEqual", ApproximateEqualStrict, T_INTS, .attrs = PF_TOLERANCE),
  ACTIVATION_GRAD(ReluGrad) ACTIVATION_GRAD(Relu6Grad) NULL};
