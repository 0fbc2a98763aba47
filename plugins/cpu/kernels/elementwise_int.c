/* elementwise_int.c - ops of one or two integer or bool tensors.
 *
 * Arithmetic wraps: it is done in an unsigned type U of at least 32 bits, so nothing overflows in
 * C's sense.  Division by zero, and a negative power, are faults that become InvalidArgument; the
 * smallest integer divided by -1 wraps.
 */
#include "elementwise.h"

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
  } \
  BINARY_FAULT(Div, TAG, T, divide_##TAG(a, b, &fault)) \
  BINARY_FAULT(FloorDiv, TAG, T, floor_divide_##TAG(a, b, &fault)) \
  BINARY_FAULT(Mod, TAG, T, modulo_##TAG(a, b, &fault)) \
  BINARY_FAULT(FloorMod, TAG, T, floor_modulo_##TAG(a, b, &fault))

#define UNSIGNED_ONLY(T, TAG, U) \
  UNARY(Sign, TAG, T, T, x > 0) \
  BINARY_FAULT(Div, TAG, T, b ? a / b : (fault |= PF_FAULT_DIVIDE, 0)) \
  BINARY_FAULT(Mod, TAG, T, b ? a % b : (fault |= PF_FAULT_DIVIDE, 0))

#pragma GCC diagnostic ignored "-Wtype-limits"  /* x < 0 of an unsigned T is always false: meant */
EACH_S(BOTH_SIGNS)
EACH_U(BOTH_SIGNS)
EACH_S(SIGNED_ONLY)
EACH_U(UNSIGNED_ONLY)

UNARY(LogicalNot, bool, uint8_t, uint8_t, !x)
BINARY(LogicalAnd, bool, uint8_t, uint8_t, a & b)
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
#define EACH_UNARY(X) X(Square) X(Invert) X(Relu) X(Relu6)
#define EACH_BINARY(X) \
  X(Sub) X(Mul) X(Div) X(Mod) X(SquaredDifference) X(Maximum) X(Minimum) X(BitwiseAnd) \
  X(BitwiseOr) \
  X(BitwiseXor) X(Less) X(LessEqual) X(Greater) X(GreaterEqual) X(LeftShift) X(RightShift) X(Pow)
#define EACH_STRICT(X) X(ApproximateEqual) X(ReluGrad) X(Relu6Grad)
#define UNARY_INIT_SU(NAME) UNARY_INIT(NAME, SU(NAME))
#define BINARY_INIT_SU(NAME) BINARY_INIT(NAME, SU(NAME))
#define STRICT_INIT_SU(NAME) BINARY_INIT(NAME, SU(NAME)) STRICT_INIT(NAME)
EACH_UNARY(UNARY_INIT_SU)
BINARY_INIT_SU(Add)
EACH_BINARY(BINARY_INIT_SU)
EACH_STRICT(STRICT_INIT_SU)

#define T_INTS "T=" PF_INTS
#define UNARY_ENTRY(NAME) UNARY_KERNEL(#NAME, NAME, T_INTS),
#define BINARY_ENTRY(NAME) BINARY_KERNEL(#NAME, NAME, T_INTS),
#define STRICT_ENTRY(NAME) BINARY_KERNEL(#NAME, NAME##Strict, T_INTS),

const pf_kernel *const elementwise_int_kernels[] = {
  EACH_UNARY(UNARY_ENTRY)
  EACH_BINARY(BINARY_ENTRY)
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
  ADD_FAMILY(T_INTS),
  BINARY_KERNEL("TruncateDiv", Div, T_INTS),
  BINARY_KERNEL("TruncateMod", Mod, T_INTS),
  BINARY_KERNEL("FloorDiv", FloorDiv, T_INTS),
  BINARY_KERNEL("FloorMod", FloorMod, T_INTS),
  BINARY_KERNEL("ApproximateEqual", ApproximateEqualStrict, T_INTS, .attrs = PF_TOLERANCE),
  STRICT_ENTRY(ReluGrad)
  STRICT_ENTRY(Relu6Grad)
  NULL};
