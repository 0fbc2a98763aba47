/* training.cu - ApplyX and ResourceApplyX: one optimiser step on variables in device memory, one
 * launch each.
 *
 * Invariants
 *   1. All slots of a call are locked together, in the host's order, before any is read.
 *   2. Every shape is checked before the kernel starts: a failed call changes nothing.
 *   3. Hyper-parameters are scalars in device memory and are read there: nothing waits for the
 *      device. Halves are updated as float and rounded once.  The formulas are those of the
 *      TensorFlow ops.
 */
#include "launch.h"

namespace {

enum { MAX_SLOTS = 4, MAX_HYPER = 6 };
/* s: an element of the variable and its slots; g: of the gradient; h: hyper-parameters in the order
 * written above the rule */
#define RULE(NAME)                                                                 \
  struct NAME {                                                                    \
    template <class W> static PF_BOTH void step(W *s, W g, const W *h, bool flag); \
  };                                                                               \
  template <class W> PF_BOTH void NAME::step(W *s, W g, const W *h, bool flag)

/* alpha */
RULE(gradient_descent) {
  (void)flag;
  s[0] -= h[0] * g;
}
/* alpha, l1, l2: Duchi & Singer, forward-backward splitting */
RULE(proximal_gradient_descent) {
  W p = s[0] - h[0] * g, q = fabs(p) - h[0] * h[1];
  (void)flag;
  if (h[1] > 0) p = q > 0 ? (p < 0 ? -q : q) : (W)0;
  s[0] = p / (1 + h[0] * h[2]);
}
/* lr, momentum */
RULE(momentum) {
  W a = s[1] * h[1] + g;
  s[1] = a;
  if (flag) s[0] -= g * h[0] + a * h[1] * h[0];
  else s[0] -= a * h[0];
}
/* lr, momentum: the accumulator holds steps, not gradients */
RULE(keras_momentum) {
  W a = s[1] * h[1] - g * h[0];
  s[1] = a;
  s[0] += flag ? a * h[1] - g * h[0] : a;
}
/* beta1_power, beta2_power, lr, beta1, beta2, epsilon: Kingma & Ba, with epsilon outside the
 * correction */
RULE(adam) {
  W alpha = h[2] * sqrt(1 - h[1]) / (1 - h[0]), c1 = 1 - h[3], c2 = 1 - h[4];
  W a = s[1] + (g - s[1]) * c1, b = s[2] + (g * g - s[2]) * c2;
  s[1] = a, s[2] = b;
  s[0] -= (flag ? g * c1 + h[3] * a : a) * alpha / (sqrt(b) + h[5]);
}
/* beta1_power, lr, beta1, beta2, epsilon: Kingma & Ba, section 7.1 */
RULE(ada_max) {
  W a = s[1] + (g - s[1]) * (1 - h[2]), b = h[3] * s[2], c = fabs(g);
  (void)flag;
  b = b > c ? b : c;
  s[1] = a, s[2] = b;
  s[0] -= h[1] / (1 - h[0]) * (a / (b + h[4]));
}
/* lr, rho, momentum, epsilon: Tieleman & Hinton */
RULE(rms_prop) {
  W a = s[1] + (g * g - s[1]) * (1 - h[1]), b = s[2] * h[2] + g * h[0] / sqrt(a + h[3]);
  (void)flag;
  s[1] = a, s[2] = b, s[0] -= b;
}
/* lr, rho, momentum, epsilon: Graves, "Generating sequences", eq. 38-45 */
RULE(centered_rms_prop) {
  W c = 1 - h[1], a = s[2] + (g * g - s[2]) * c, b = s[1] + (g - s[1]) * c;
  W d = s[3] * h[2] + g * h[0] / sqrt(a - b * b + h[3]);
  (void)flag;
  s[2] = a, s[1] = b, s[3] = d, s[0] -= d;
}
/* lr: Duchi, Hazan & Singer; flag: update_slots */
RULE(adagrad) {
  W a = flag ? s[1] + g * g : s[1];
  s[1] = a;
  s[0] -= g * h[0] / sqrt(a);
}
/* lr, epsilon */
RULE(adagrad_v2) {
  W a = flag ? s[1] + g * g : s[1];
  s[1] = a;
  s[0] -= g * h[0] / (sqrt(a) + h[1]);
}
/* lr, l1, l2 */
RULE(proximal_adagrad) {
  W a = s[1] + g * g, rate = h[0] / sqrt(a), p = s[0] - g * rate, q = fabs(p) - rate * h[1];
  (void)flag;
  if (h[1] > 0) p = q > 0 ? (p < 0 ? -q : q) : (W)0;
  s[1] = a, s[0] = p / (1 + rate * h[2]);
}
/* lr, rho, epsilon: Zeiler */
RULE(adadelta) {
  W c = 1 - h[1], a = s[1] * h[1] + g * g * c, d = sqrt(s[2] + h[2]) / sqrt(a + h[2]) * g;
  (void)flag;
  s[1] = a, s[0] -= d * h[0], s[2] = s[2] * h[1] + d * d * c;
}
/* lr, l1, l2, lr_power: McMahan et al., "Ad click prediction"; flag: multiply_linear_by_lr */
RULE(ftrl) {
  W p = -h[3], a = s[1] + g * g, scale = flag ? h[0] : (W)1;
  bool root = p == (W)0.5;
  W rn = root ? sqrt(a) : pow(a, p), ro = root ? sqrt(s[1]) : pow(s[1], p);
  W l = s[2] + (flag ? g * h[0] - (rn - ro) * s[0] : g - (rn - ro) / h[0] * s[0]);
  W bound = h[1] * scale, x = (l < -bound ? -bound : l > bound ? bound : l) - l;
  W y = (flag ? rn : rn / h[0]) + 2 * h[2] * scale;
  s[2] = l, s[1] = a;
  s[0] = fabs(l) > bound ? x / y : (W)0;
}

/* ---------------------------------------------------------------- one launch */
template <class Rule, class T, int SLOTS, int HYPER> struct apply_each {
  T *slot[SLOTS];
  const T *grad, *hyper[HYPER];
  bool flag;
  PF_BOTH void operator()(int64_t i) const {
    wide<T> s[SLOTS], h[HYPER];
    for (int k = 0; k < SLOTS; k++) s[k] = up(slot[k][i]);
    for (int k = 0; k < HYPER; k++) h[k] = up(*hyper[k]);
    Rule::step(s, (wide<T>)up(grad[i]), h, flag);
    for (int k = 0; k < SLOTS; k++) slot[k][i] = down<T>(s[k]);
  }
};

typedef struct { int32_t flag; } apply_state;

static pf_status take_slots(pf_ctx *c, int slots, DLTensor **t) {
  pf_var locks[MAX_SLOTS];
  for (int k = 0; k < slots; k++) locks[k] = pf_var{k, PF_VAR_UPDATE};
  PF_TRY(c->host->var_lock(c, locks, slots));
  for (int k = 0; k < slots; k++) {
    t[k] = c->host->var_get(c, k);
    if (!t[k]) return failf(c, PF_RESOURCE_EXHAUSTED, "no memory to update variable (input %d)", k);
    if (!same_shape(t[0], t[k]))
      return INVALID(c, "var and its slot (input %d) do not have the same shape %s %s", k,
                     SHAPE(t[0]), SHAPE(t[k]));
    for (int j = 0; j < k; j++)
      if (t[j]->data == t[k]->data && pf_numel(t[k]) > 0)
        return INVALID(c, "inputs %d and %d are the same variable", j, k);
  }
  return PF_OK;
}
template <class Rule, int SLOTS, int GRAD, int... HYPER>
pf_status apply(pf_ctx *c, const void *state) {
  enum { N = sizeof...(HYPER) };
  const int inputs[N] = {HYPER...};
  const DLTensor *grad = c->in[GRAD];
  DLTensor *t[MAX_SLOTS];
  for (int k = 0; k < N; k++)
    if (pf_numel(c->in[inputs[k]]) != 1)
      return INVALID(c, "hyper-parameter (input %d) is not a scalar: %s", inputs[k],
                     SHAPE(c->in[inputs[k]]));
  PF_TRY(take_slots(c, SLOTS, t));
  if (!same_shape(t[0], grad))
    return INVALID(c, "var and grad do not have the same shape %s %s", SHAPE(t[0]), SHAPE(grad));
  PF_TRY(with_float(c->in_type[GRAD], [&](auto kind) {
    typedef typename decltype(kind)::type T;
    apply_each<Rule, T, SLOTS, N> f;
    for (int k = 0; k < SLOTS; k++) f.slot[k] = PF_DATA(T, t[k]);
    for (int k = 0; k < N; k++) f.hyper[k] = PF_DATA(const T, c->in[inputs[k]]);
    f.grad = PF_DATA(const T, grad), f.flag = ((const apply_state *)state)->flag != 0;
    return each(c, pf_numel(grad), f);
  }));
  return c->n_out ? c->host->alias(c, 0, 0, NULL, 0) : PF_OK;
}

#define FLAG(name) ATTR_OPTIONAL(name, apply_state, PF_ATTR_BOOL, flag)
static constexpr attr_list nesterov({FLAG("use_nesterov")});
static constexpr attr_list update_slots({FLAG("update_slots")});
static constexpr attr_list linear_by_lr({FLAG("multiply_linear_by_lr")});
#define ENTRY(op, attrs_, ...)                                                     \
  GPU(op, "T=" T_FLOATS, SAME, .attrs = attrs_, .state_size = sizeof(apply_state), \
      .compute = apply<__VA_ARGS__>)
#define PAIR(op, attrs, ...) \
  ENTRY("Apply" op, attrs, __VA_ARGS__), ENTRY("ResourceApply" op, attrs, __VA_ARGS__)
/*   op, attributes, rule, slots, input of the gradient, inputs of the hyper-parameters */
static const pf_kernel table[] = {
  PAIR("GradientDescent", NULL, gradient_descent, 1, 2, 1),
  PAIR("ProximalGradientDescent", NULL, proximal_gradient_descent, 1, 4, 1, 2, 3),
  PAIR("Momentum", nesterov.at, momentum, 2, 3, 2, 4),
  ENTRY("ResourceApplyKerasMomentum", nesterov.at, keras_momentum, 2, 3, 2, 4),
  PAIR("Adam", nesterov.at, adam, 3, 9, 3, 4, 5, 6, 7, 8),
  PAIR("AdaMax", NULL, ada_max, 3, 8, 3, 4, 5, 6, 7),
  PAIR("RMSProp", NULL, rms_prop, 3, 7, 3, 4, 5, 6),
  PAIR("CenteredRMSProp", NULL, centered_rms_prop, 4, 8, 4, 5, 6, 7),
  PAIR("Adagrad", update_slots.at, adagrad, 2, 3, 2),
  PAIR("AdagradV2", update_slots.at, adagrad_v2, 2, 4, 2, 3),
  PAIR("ProximalAdagrad", NULL, proximal_adagrad, 2, 5, 2, 3, 4),
  PAIR("Adadelta", NULL, adadelta, 3, 6, 3, 4, 5),
  PAIR("Ftrl", linear_by_lr.at, ftrl, 3, 3, 4, 5, 6, 7),
};
} // namespace
KERNELS(training_kernels, table)
