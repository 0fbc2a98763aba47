/* unary.cu - ops of one tensor: floats on the device, int64 and the small integers too, int32 in
 * host memory as in TensorFlow.
 *
 * Op names and values follow TensorFlow's kernels; half and bfloat16 are computed as float and
 * rounded once.
 */
#include "elementwise.h"

namespace {

#define UNARY(NAME, EXPR)                                   \
  struct NAME {                                             \
    template <class T> static PF_BOTH T of(T x, double p) { \
      (void)p;                                              \
      return (T)(EXPR);                                     \
    }                                                       \
  };
#define TEST(NAME, EXPR)                                       \
  struct NAME {                                                \
    template <class T> static PF_BOTH bool of(T x, double p) { \
      (void)p;                                                 \
      return EXPR;                                             \
    }                                                          \
  };
#define SELU_SCALE 1.0507009873554804934
#define SELU_SCALE_ALPHA 1.7580993408473768599

UNARY(Abs, fabs(x))
UNARY(Neg, -x)
UNARY(Sign, x > 0 ? (T)1 : x < 0 ? (T)-1 : x)
UNARY(Square, x *x)
UNARY(Sqrt, sqrt(x))
UNARY(Rsqrt, (T)1 / sqrt(x))
UNARY(Reciprocal, (T)1 / x)
UNARY(Floor, floor(x))
UNARY(Ceil, ceil(x))
UNARY(Round, rint(x))
UNARY(Exp, exp(x))
UNARY(Expm1, expm1(x))
UNARY(Log, log(x))
UNARY(Log1p, log1p(x))
UNARY(Tanh, tanh(x))
UNARY(Sigmoid, x >= 0 ? (T)1 / ((T)1 + exp(-x)) : exp(x) / ((T)1 + exp(x)))
UNARY(Softplus, x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)))
UNARY(Softsign, x / ((T)1 + fabs(x)))
UNARY(Relu, x < 0 ? (T)0 : x)
UNARY(Relu6, x < 0 ? (T)0 : x > 6 ? (T)6 : x)
UNARY(LeakyRelu, x > 0 ? x : x * (T)p)
UNARY(Elu, x < 0 ? expm1(x) : x)
UNARY(Selu, x < 0 ? (T)SELU_SCALE_ALPHA * expm1(x) : (T)SELU_SCALE * x)
UNARY(Sin, sin(x))
UNARY(Cos, cos(x))
UNARY(Tan, tan(x))
UNARY(Asin, asin(x))
UNARY(Acos, acos(x))
UNARY(Atan, atan(x))
UNARY(Sinh, sinh(x))
UNARY(Cosh, cosh(x))
UNARY(Asinh, asinh(x))
UNARY(Acosh, acosh(x))
UNARY(Atanh, atanh(x))
UNARY(Erf, erf(x))
UNARY(Erfc, erfc(x))
UNARY(Lgamma, lgamma(x))
TEST(IsNan, x != x)
TEST(IsInf, fabs(x) == (T)INFINITY)
TEST(IsFinite, fabs(x) < (T)INFINITY)

/* integers wrap */
#define INT_UNARY(NAME, EXPR)                             \
  struct NAME {                                           \
    template <class T> static PF_BOTH T of(T x, double) { \
      typedef wraps<T> U;                                 \
      (void)sizeof(U);                                    \
      return (T)(EXPR);                                   \
    }                                                     \
  };
INT_UNARY(AbsInt, x < 0 ? (U)0 - (U)x : (U)x)
INT_UNARY(NegInt, (U)0 - (U)x)
INT_UNARY(SignInt, (x > 0) - (x < 0))
INT_UNARY(SquareInt, (U)x *(U)x)
INT_UNARY(InvertInt, ~(U)x)
INT_UNARY(ReluInt, x > 0 ? x : 0)
INT_UNARY(Relu6Int, x > 6 ? 6 : x > 0 ? x : 0)
struct Not {
  static PF_BOTH bool of(uint8_t x, double) { return !x; }
};

/* ---------------------------------------------------------------- kernels */
template <class Op> pf_status floats(pf_ctx *c, const void *state) {
  double p = state ? ((const elementwise_state *)state)->p : 0;
  return with_wide(c->in_type[0],
                   [&](auto t) { return run_unary<Op, typename decltype(t)::type>(c, p); });
}
template <class Op> pf_status ints(pf_ctx *c, const void *) { return run_unary<Op, int64_t>(c, 0); }
static pf_status logical_not(pf_ctx *c, const void *) { return run_unary<Not, uint8_t>(c, 0); }
static constexpr attr_list alpha({ATTR_NAMED("alpha", elementwise_state, PF_ATTR_FLOAT, p)});
static constexpr arg_list host_x({HOST_IN("x"), HOST_OUT("y")});
static constexpr arg_list host_features({HOST_IN("features"), HOST_OUT("activations")});

#define FLOATS(OP, NAME) GPU(OP, "T=" T_FLOATS, SAME, .compute = floats<NAME>)
#define ONE(NAME) FLOATS(#NAME, NAME),
#define INTS(OP, NAME, ARGS)                                \
  GPU(OP, "T=" T_DEVICE_INTS, SAME, .compute = ints<NAME>), \
      GPU(OP, "T=int32", SAME, .args = ARGS.at, .compute = ints<NAME>)

static const pf_kernel table[] = {
  ONE(Abs) ONE(Neg) ONE(Sign) ONE(Square) ONE(Sqrt) ONE(Rsqrt) ONE(Reciprocal) ONE(Floor) ONE(Ceil)
      ONE(Round) ONE(Exp) ONE(Expm1) ONE(Log) ONE(Log1p) ONE(Tanh) ONE(Sigmoid) ONE(Softplus)
          ONE(Softsign) ONE(Relu) ONE(Relu6) ONE(Elu) ONE(Selu) ONE(Sin) ONE(Cos) ONE(Tan) ONE(Asin)
              ONE(Acos) ONE(Atan) ONE(Sinh) ONE(Cosh) ONE(Asinh) ONE(Acosh) ONE(Atanh) ONE(Erf)
                  ONE(Erfc) ONE(Lgamma) FLOATS("Inv", Reciprocal),
  FLOATS("Rint", Round),
  GPU("LeakyRelu", "T=" T_FLOATS, SAME, .attrs = alpha.at, .state_size = sizeof(elementwise_state),
      .compute = floats<LeakyRelu>),
  GPU("IsNan", "T=" T_FLOATS, SAME, .compute = floats<IsNan>),
  GPU("IsInf", "T=" T_FLOATS, SAME, .compute = floats<IsInf>),
  GPU("IsFinite", "T=" T_FLOATS, SAME, .compute = floats<IsFinite>),
  INTS("Abs", AbsInt, host_x),
  INTS("Neg", NegInt, host_x),
  INTS("Sign", SignInt, host_x),
  INTS("Square", SquareInt, host_x),
  INTS("Invert", InvertInt, host_x),
  INTS("Relu", ReluInt, host_features),
  INTS("Relu6", Relu6Int, host_features),
  GPU("LogicalNot", NULL, SAME, .compute = logical_not),
};
} // namespace
KERNELS(unary_kernels, table)
