/* binary.cu - arithmetic and comparison of two float tensors, with broadcasting as NumPy's; logical
 * ops; BiasAdd; AddN. */
#include "elementwise.h"

namespace {

#define BINARY(NAME, EXPR)                                       \
  struct NAME {                                                  \
    template <class T> static PF_BOTH T of(T a, T b, double p) { \
      (void)p;                                                   \
      return (T)(EXPR);                                          \
    }                                                            \
  };
#define TEST(NAME, EXPR)                                            \
  struct NAME {                                                     \
    template <class T> static PF_BOTH bool of(T a, T b, double p) { \
      (void)p;                                                      \
      return EXPR;                                                  \
    }                                                               \
  };
/* remainder with the divisor's sign, as Python's % */
template <class T> PF_BOTH T floor_mod(T a, T b) {
  T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
BINARY(Add, a + b)
BINARY(Sub, a - b)
BINARY(Mul, a *b)
BINARY(Div, a / b)
BINARY(FloorDiv, floor(a / b))
BINARY(Mod, fmod(a, b))
BINARY(FloorMod, floor_mod(a, b))
BINARY(Pow, pow(a, b))
BINARY(Maximum, a > b || a != a ? a : b)
BINARY(Minimum, a < b || a != a ? a : b)
BINARY(SquaredDifference, (a - b) * (a - b))
BINARY(Atan2, atan2(a, b))
BINARY(DivNoNan, b == 0 ? (T)0 : a / b)
BINARY(MulNoNan, b == 0 ? (T)0 : a * b)
BINARY(Xdivy, a == 0 ? (T)0 : a / b)
BINARY(Xlogy, a == 0 ? (T)0 : a * log(b))
TEST(Equal, a == b)
TEST(NotEqual, a != b)
TEST(Less, a < b)
TEST(LessEqual, a <= b)
TEST(Greater, a > b)
TEST(GreaterEqual, a >= b)
TEST(ApproximateEqual, fabs(a - b) < (T)p)
struct And {
  static PF_BOTH bool of(uint8_t a, uint8_t b, double) { return a & b; }
};
struct Or {
  static PF_BOTH bool of(uint8_t a, uint8_t b, double) { return a | b; }
};
struct SameBool {
  static PF_BOTH bool of(uint8_t a, uint8_t b, double) { return a == b; }
};
struct OtherBool {
  static PF_BOTH bool of(uint8_t a, uint8_t b, double) { return a != b; }
};

template <class Op> pf_status run_floats(pf_ctx *c, const DLTensor *b, double p) {
  return with_wide(c->in_type[0], [&](auto t) {
    return run_binary<Op, typename decltype(t)::type>(c, c->in[0], b, p);
  });
}
template <class Op> pf_status floats(pf_ctx *c, const void *) {
  return run_floats<Op>(c, c->in[1], 0);
}
template <class Op> pf_status bools(pf_ctx *c, const void *) {
  return run_binary<Op, uint8_t>(c, c->in[0], c->in[1], 0);
}
template <class Op, bool unequal> pf_status equality(pf_ctx *c, const void *state) {
  if (is_incomparable(c, state)) return all_unequal(c, unequal);
  if constexpr (__is_same(Op, SameBool) || __is_same(Op, OtherBool)) return bools<Op>(c, NULL);
  else return floats<Op>(c, NULL);
}
static pf_status approximate(pf_ctx *c, const void *state) {
  PF_TRY(same_shapes(c));
  return run_floats<ApproximateEqual>(c, c->in[1], ((const elementwise_state *)state)->p);
}

/* ---------------------------------------------------------- BiasAdd: the bias as [C, 1, 1, ...] */
typedef struct { pf_str data_format; } format_state;
static pf_status bias_add(pf_ctx *c, const void *state) {
  const DLTensor *x = c->in[0], *bias = c->in[1];
  bool nchw = false;
  if (state) {
    pf_str f = ((const format_state *)state)->data_format;
    nchw = f.len >= 2 && !memcmp(f.data, "NC", 2);
  }
  if (x->ndim < 2) return INVALID(c, "Input tensor must be at least 2D: %s", SHAPE(x));
  PF_TRY(check_rank(c, x, "value"));
  if (bias->ndim != 1) return INVALID(c, "Biases must be 1D: %s", SHAPE(bias));
  int32_t channel = nchw ? 1 : x->ndim - 1;
  if (bias->shape[0] != x->shape[channel])
    return INVALID(
        c,
        "Must provide as many biases as the channel dimension of the input tensor: %s vs. %" PRId64
        " in %s",
        SHAPE(bias), x->shape[channel], SHAPE(x));
  int64_t shape[MAX_DIMS];
  DLTensor b = *bias;
  b.ndim = x->ndim - channel, b.shape = shape;
  for (int32_t i = 0; i < b.ndim; i++) shape[i] = i ? 1 : bias->shape[0];
  return run_floats<Add>(c, &b, 0);
}

/* ------------------------------------------------------------ AddN: up to eight operands a pass */
enum { ADDENDS = 8 };
template <class W> struct sum_map {
  typedef elements<W> E;
  typedef W value;
  const void *x[ADDENDS];
  void *y;
  int n;
  int32_t type;
  PF_BOTH W load(int64_t i) const {
    W sum = E::value(E::load(x[0], i, type), type);
    PF_ROLLED for (int k = 1; k < n; k++) sum =
        (W)((wraps<W>)sum + (wraps<W>)E::value(E::load(x[k], i, type), type));
    return sum;
  }
  PF_BOTH void store(int64_t i, W v) const { E::store(y, i, type, v); }
  PF_BOTH void operator()(int64_t i) const { store(i, load(i)); }
};
template <class W> pf_status run_sum(pf_ctx *c, DLTensor *y) {
  sum_map<W> f = {{PF_DATA(const void, c->in[0])}, PF_DATA(void, y), 1, c->in_type[0]};
  for (int32_t i = 1; i < c->n_in; i++) {
    f.x[f.n++] = PF_DATA(const void, c->in[i]);
    if (f.n < ADDENDS && i + 1 < c->n_in) continue;
    PF_TRY(map_wide<W>(c, pf_numel(y), f));
    f.x[0] = PF_DATA(void, y), f.n = 1;
  }
  return PF_OK;
}
static pf_status add_n(pf_ctx *c, const void *) {
  const DLTensor *x = c->in[0];
  for (int32_t i = 1; i < c->n_in; i++)
    if (!same_shape(x, c->in[i]))
      return INVALID(
          c, "Inputs to operation must have the same size and shape.  Input 0: %s != input %d: %s",
          SHAPE(x), i, SHAPE(c->in[i]));
  if (c->n_in == 1) return c->host->alias(c, 0, 0, x->shape, x->ndim);
  DLTensor *y = c->host->forward(c, 0, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  if (c->in_type[0] == PF_FLOAT64) return run_sum<double>(c, y);
  bool is_float = is_half(c->in_type[0]) || c->in_type[0] == PF_FLOAT32;
  return is_float ? run_sum<float>(c, y) : run_sum<int64_t>(c, y);
}

static constexpr attr_list
    tolerance({ATTR_NAMED("tolerance", elementwise_state, PF_ATTR_FLOAT, p)});
static constexpr attr_list format({ATTR(format_state, PF_ATTR_STRING, data_format)});
static constexpr attr_list shape_error({ATTR_OPTIONAL("incompatible_shape_error", compare_state,
                                                      PF_ATTR_BOOL, incompatible_shape_error)});
static constexpr arg_list host_list({HOST_IN("inputs"), HOST_OUT("sum")});
#define FLOATS(OP, NAME) GPU(OP, "T=" T_FLOATS, SAME, .compute = floats<NAME>)
#define COMPARED(OP, WHERE, ...)               \
  GPU(OP, WHERE, SAME, .attrs = shape_error.at, \
      .state_size = sizeof(compare_state), .compute = equality<__VA_ARGS__>)
#define ONE(NAME) FLOATS(#NAME, NAME),
static const pf_kernel table[] = {
  FLOATS("AddV2", Add),
  FLOATS("RealDiv", Div),
  FLOATS("TruncateMod", Mod),
  ONE(Add) ONE(Sub) ONE(Mul) ONE(Div) ONE(FloorDiv) ONE(Mod) ONE(FloorMod) ONE(Pow) ONE(Maximum)
      ONE(Minimum) ONE(SquaredDifference) ONE(Atan2) ONE(DivNoNan) ONE(MulNoNan) ONE(Xdivy)
          ONE(Xlogy) ONE(Less) ONE(LessEqual) ONE(Greater) ONE(GreaterEqual)
              COMPARED("Equal", "T=" T_FLOATS, Equal, false),
  COMPARED("NotEqual", "T=" T_FLOATS, NotEqual, true),
  COMPARED("Equal", "T=bool", SameBool, false),
  COMPARED("NotEqual", "T=bool", OtherBool, true),
  GPU("ApproximateEqual", "T=" T_FLOATS, SAME, .attrs = tolerance.at,
      .state_size = sizeof(elementwise_state), .compute = approximate),
  GPU("LogicalAnd", NULL, SAME, .compute = bools<And>),
  GPU("LogicalOr", NULL, SAME, .compute = bools<Or>),
  GPU("BiasAdd", "T=" T_FLOATS, SAME, .attrs = format.at, .state_size = sizeof(format_state),
      .compute = bias_add),
  GPU("BiasAddV1", "T=" T_FLOATS, SAME, .compute = bias_add),
  GPU("AddN", "T=" T_WIDE, SAME, .compute = add_n),
  GPU("AddN", "T=int32", SAME, .args = host_list.at, .compute = add_n),
};
} // namespace
KERNELS(binary_kernels, table)
