/* elementwise_exprs.h - what the element-wise float ops compute, one expression each, written once.
 *
 * Expressions of x (and p, the op's attribute), or of a, b (and p).  unary_float.c and
 * binary_float.c make a loop over arrays of each, fused_steps.h a step over registers: both give
 * the same bits.
 *
 * X(NAME, T, TAG, EXPR): T is the element type, TAG f32 or f64, F libm's suffix.  In *_CHEAP lists
 * are expressions of a few instructions, in *_HEAVY ones polynomials, in *_LIBM calls per element.
 */
#ifndef PF_CPU_ELEMENTWISE_EXPRS_H
#define PF_CPU_ELEMENTWISE_EXPRS_H
#include "vec/vmath.h"
#include "vec/vmath512.h"

#define PF_SELU_SCALE 1.0507009873554804934
#define PF_SELU_SCALE_ALPHA 1.7580993408473768599

#define PF_UNARY_CHEAP(X, T, TAG, F) \
  X(Abs, T, TAG, fabs##F(x)) \
  X(Neg, T, TAG, -x) \
  X(Sign, T, TAG, x > 0 ? (T)1 : x < 0 ? (T)-1 : x) \
  X(Square, T, TAG, x * x) \
  X(Sqrt, T, TAG, sqrt##F(x)) \
  X(Rsqrt, T, TAG, (T)1 / sqrt##F(x)) \
  X(Reciprocal, T, TAG, (T)1 / x) \
  X(Floor, T, TAG, floor##F(x)) \
  X(Ceil, T, TAG, ceil##F(x)) \
  X(Round, T, TAG, rint##F(x)) \
  X(Softsign, T, TAG, x / ((T)1 + fabs##F(x))) \
  X(Relu, T, TAG, x < 0 ? (T)0 : x) \
  X(Relu6, T, TAG, x < 0 ? (T)0 : x > 6 ? (T)6 : x) \
  X(LeakyRelu, T, TAG, x > 0 ? x : x * (T)p)

/* of float with AVX-512: vmath512.h's vectors instead, by PF_UNARY_512 */
#define PF_UNARY_VECTOR(X, T, TAG, F) \
  X(Exp, T, TAG, pf_exp_##TAG(x)) \
  X(Log, T, TAG, pf_log_##TAG(x)) \
  X(Tanh, T, TAG, pf_tanh_##TAG(x)) \
  X(Sigmoid, T, TAG, pf_sigmoid_##TAG(x))
#define PF_UNARY_512(X) \
  X(Exp, pf_vf_exp) X(Log, pf_vf_log) X(Tanh, pf_vf_tanh) X(Sigmoid, pf_vf_sigmoid) \
  X(Erf, pf_vf_erf)
/* of halves, instead of the floats' ones: right to a small part of a half's rounding */
#define PF_UNARY_HALF_512(X) \
  X(Exp, exp_half, pf_vf_exp_half) X(Tanh, tanh_half, pf_vf_tanh_half) \
  X(Sigmoid, sigmoid_half, pf_vf_sigmoid_half)
#define PF_UNARY_HEAVY(X, T, TAG, F) \
  X(Expm1, T, TAG, pf_expm1_##TAG(x)) \
  X(Log1p, T, TAG, pf_log1p_##TAG(x)) \
  X(Softplus, T, TAG, pf_softplus_##TAG(x)) \
  X(Elu, T, TAG, x < 0 ? pf_expm1_##TAG(x) : x) \
  X(Selu, T, TAG, x < 0 ? (T)PF_SELU_SCALE_ALPHA * pf_expm1_##TAG(x) : (T)PF_SELU_SCALE * x)

#define PF_BINARY_CHEAP(X, T, TAG, F) \
  X(Add, T, TAG, a + b) \
  X(Sub, T, TAG, a - b) \
  X(Mul, T, TAG, a * b) \
  X(Div, T, TAG, a / b) \
  X(FloorDiv, T, TAG, floor##F(a / b)) \
  X(Maximum, T, TAG, a > b || a != a ? a : b) \
  X(Minimum, T, TAG, a < b || a != a ? a : b) \
  X(SquaredDifference, T, TAG, (a - b) * (a - b)) \
  X(DivNoNan, T, TAG, b == 0 ? (T)0 : a / b) \
  X(MulNoNan, T, TAG, b == 0 ? (T)0 : a * b) \
  X(Xdivy, T, TAG, a == 0 ? (T)0 : a / b)

/* gradients: (output, dy) ... and (dy, input or output).  Where the derivative is unbounded a dy of
 * 0 gives 0, as TF's kernels: `where(x > 0, sqrt(x), 0)` would else train to NaN */
#define PF_GRAD_CHEAP(X, T, TAG, F) \
  X(TanhGrad, T, TAG, b * ((T)1 - a * a)) \
  X(SigmoidGrad, T, TAG, b * a * ((T)1 - a)) \
  X(SqrtGrad, T, TAG, b == 0 ? (T)0 : b * (T)0.5 / a) \
  X(RsqrtGrad, T, TAG, b == 0 ? (T)0 : (T)-0.5 * (b * a) * (a * a)) \
  X(ReciprocalGrad, T, TAG, b == 0 ? (T)0 : -a * (b * a)) \
  X(ReluGrad, T, TAG, b > 0 ? a : (T)0) \
  X(Relu6Grad, T, TAG, b > 0 && b < 6 ? a : (T)0) \
  X(LeakyReluGrad, T, TAG, b > 0 ? a : a * (T)p) \
  X(EluGrad, T, TAG, b < 0 ? a * (b + (T)1) : a) \
  X(SeluGrad, T, TAG, b < 0 ? a * (b + (T)PF_SELU_SCALE_ALPHA) : a * (T)PF_SELU_SCALE) \
  X(SoftsignGrad, T, TAG, a / (((T)1 + fabs##F(b)) * ((T)1 + fabs##F(b))))

#define PF_BINARY_HEAVY(X, T, TAG, F) X(Xlogy, T, TAG, a == 0 ? (T)0 : a * pf_log_##TAG(b))
#define PF_GRAD_HEAVY(X, T, TAG, F) X(SoftplusGrad, T, TAG, a * pf_sigmoid_##TAG(b))
#endif
