/* binary_grad.cu - the XGrad ops of activations and functions: two tensors of one shape. */
#include "elementwise.h"

namespace {

#define BINARY(NAME, EXPR)                                       \
  struct NAME {                                                  \
    template <class T> static PF_BOTH T of(T a, T b, double p) { \
      (void)p;                                                   \
      return (T)(EXPR);                                          \
    }                                                            \
  };
template <class T> PF_BOTH T sigmoid(T x) {
  return x >= 0 ? (T)1 / ((T)1 + exp(-x)) : exp(x) / ((T)1 + exp(x));
}
/* (output, dy); an unbounded derivative times a dy of 0 is 0, as on the CPU ... */
BINARY(TanhGrad, b *((T)1 - a * a))
BINARY(SigmoidGrad, b * a * ((T)1 - a))
BINARY(SqrtGrad, b == 0 ? (T)0 : b * (T)0.5 / a)
BINARY(RsqrtGrad, b == 0 ? (T)0 : (T)-0.5 * (b * a) * (a * a))
BINARY(ReciprocalGrad, b == 0 ? (T)0 : -a * (b * a))
/* ... and (dy, input or output) */
BINARY(ReluGrad, b > 0 ? a : (T)0)
BINARY(Relu6Grad, b > 0 && b < 6 ? a : (T)0)
BINARY(LeakyReluGrad, b > 0 ? a : a * (T)p)
BINARY(EluGrad, b < 0 ? a * (b + (T)1) : a)
BINARY(SeluGrad, b < 0 ? a * (b + (T)1.7580993408473768599) : a * (T)1.0507009873554804934)
BINARY(SoftplusGrad, a *sigmoid(b))
BINARY(SoftsignGrad, a / (((T)1 + fabs(b)) * ((T)1 + fabs(b))))

template <class Op> pf_status grads(pf_ctx *c, const void *state) {
  double p = state ? ((const elementwise_state *)state)->p : 0;
  PF_TRY(same_shapes(c));
  return with_wide(c->in_type[0], [&](auto t) {
    return run_binary<Op, typename decltype(t)::type>(c, c->in[0], c->in[1], p);
  });
}
static constexpr attr_list alpha({ATTR_NAMED("alpha", elementwise_state, PF_ATTR_FLOAT, p)});
#define FLOATS(OP, NAME) GPU(OP, "T=" T_FLOATS, SAME, .compute = grads<NAME>)
#define ONE(NAME) FLOATS(#NAME, NAME),
static const pf_kernel table[] = {
  ONE(TanhGrad) ONE(SigmoidGrad) ONE(SqrtGrad) ONE(RsqrtGrad) ONE(ReciprocalGrad) ONE(ReluGrad)
      ONE(Relu6Grad) ONE(EluGrad) ONE(SeluGrad) ONE(SoftplusGrad) ONE(SoftsignGrad)
          FLOATS("InvGrad", ReciprocalGrad),
  GPU("LeakyReluGrad", "T=" T_FLOATS, SAME, .attrs = alpha.at,
      .state_size = sizeof(elementwise_state), .compute = grads<LeakyReluGrad>),
};
} // namespace
KERNELS(binary_grad_kernels, table)
