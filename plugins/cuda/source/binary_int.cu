/* binary_int.cu - integer arithmetic and comparison.
 *
 * As in TensorFlow, int32 kernels of device type GPU work in host memory: int32 holds sizes, axes
 * and loop counters, whose readers are on the host.  Division, which may fail, does so for every
 * integer type.  Arithmetic wraps.
 */
#include "elementwise.h"

namespace {

#define BINARY(NAME, EXPR)                                     \
  struct NAME {                                                \
    template <class T> static PF_BOTH T of(T a, T b, double) { \
      typedef wraps<T> U;                                      \
      (void)sizeof(U);                                         \
      return (T)(EXPR);                                        \
    }                                                          \
  };
#define TEST(NAME, EXPR)                                                         \
  struct NAME {                                                                  \
    template <class T> static PF_BOTH bool of(T a, T b, double) { return EXPR; } \
  };
BINARY(Add, (U)a + (U)b)
BINARY(Sub, (U)a - (U)b)
BINARY(Mul, (U)a *(U)b)
BINARY(SquaredDifference, ((U)a - (U)b) * ((U)a - (U)b))
BINARY(Maximum, a > b ? a : b)
BINARY(Minimum, a < b ? a : b)
BINARY(BitwiseAnd, a &b)
BINARY(BitwiseOr, a | b)
BINARY(BitwiseXor, a ^ b)
TEST(Equal, a == b)
TEST(NotEqual, a != b)
TEST(Less, a < b)
TEST(LessEqual, a <= b)
TEST(Greater, a > b)
TEST(GreaterEqual, a >= b)

/* ---------------------------------------------------------------- division; b != 0 was checked */
template <class T> T divide(T a, T b) {
  return b == (T)-1 && (T)-1 < 0 ? (T)((wraps<T>)0 - (wraps<T>)a) : (T)(a / b);
}
template <class T> T modulo(T a, T b) { return b == (T)-1 && (T)-1 < 0 ? (T)0 : (T)(a % b); }
struct Div {
  template <class T> static T of(T a, T b, double) { return divide(a, b); }
};
struct Mod {
  template <class T> static T of(T a, T b, double) { return modulo(a, b); }
};
struct FloorDiv {
  template <class T> static T of(T a, T b, double) {
    T q = divide(a, b);
    return modulo(a, b) != 0 && (a < 0) != (b < 0) ? (T)(q - 1) : q;
  }
};
struct FloorMod {
  template <class T> static T of(T a, T b, double) {
    T r = modulo(a, b);
    return r != 0 && (r < 0) != (b < 0) ? (T)(r + b) : r;
  }
};

template <class T> bool has_zero(const DLTensor *t) {
  int64_t n = pf_numel(t);
  for (int64_t i = 0; i < n; i++)
    if (PF_DATA(const T, t)[i] == 0) return true;
  return false;
}
/* host memory only: the plain loop over broadcast operands */
template <class Op, class T> pf_status run_division(pf_ctx *c) {
  const DLTensor *a = c->in[0], *b = c->in[1];
  int64_t shape[MAX_DIMS], sa[MAX_DIMS], sb[MAX_DIMS], n;
  int32_t nd = 0;
  PF_TRY(broadcast_shape(c, a, b, shape, &nd));
  if (!numel_ok(shape, nd, &n))
    return INVALID(c, "Broadcast of %s and %s has too many elements", SHAPE(a), SHAPE(b));
  DLTensor *y = c->host->output(c, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (n == 0) return PF_OK;
  if (has_zero<T>(b)) return INVALID(c, "Integer division by zero");
  broadcast_strides(a->shape, a->ndim, nd, sa);
  broadcast_strides(b->shape, b->ndim, nd, sb);
  const int64_t *strides[2] = {sa, sb};
  walk<2> w;
  if (!walk_plan(&w, shape, nd, strides)) return TOO_TANGLED(c);
  for (int64_t i = 0; i < n; i++) {
    int64_t at[2];
    w.offsets(i, at);
    PF_DATA(T, y)[i] = Op::of(PF_DATA(const T, a)[at[0]], PF_DATA(const T, b)[at[1]], 0.0);
  }
  return PF_OK;
}

template <class Op> pf_status divisions(pf_ctx *c, const void *) {
  return with_int(c->in_type[0],
                  [&](auto t) { return run_division<Op, typename decltype(t)::type>(c); });
}
template <class Op> pf_status ints(pf_ctx *c, const void *) {
  return run_binary<Op, int64_t>(c, c->in[0], c->in[1], 0);
}
template <class Op, bool unequal> pf_status equality(pf_ctx *c, const void *state) {
  return is_incomparable(c, state) ? all_unequal(c, unequal) : ints<Op>(c, NULL);
}

static constexpr attr_list shape_error({ATTR_OPTIONAL("incompatible_shape_error", compare_state,
                                                      PF_ATTR_BOOL, incompatible_shape_error)});
static constexpr arg_list host_xy({HOST_IN("x"), HOST_IN("y"), HOST_OUT("z")});
#define BOTH(OP, FN)                                \
  GPU(OP, "T=" T_DEVICE_INTS, SAME, .compute = FN), \
      GPU(OP, "T=int32", SAME, .args = host_xy.at, .compute = FN)
#define INTS(NAME) BOTH(#NAME, ints<NAME>)
#define COMPARED(OP, WHERE, FN, ...)                        \
  GPU(OP, WHERE, SAME, .attrs = shape_error.at, __VA_ARGS__ \
      .state_size = sizeof(compare_state), .compute = FN)
#define DIVISION(OP, NAME, TYPES) \
  GPU(OP, TYPES, SAME, .args = host_xy.at, .compute = divisions<NAME>)
#define ALL_INTS "T=" T_DEVICE_INTS "|int32"
static const pf_kernel table[] = {
  BOTH("Add", ints<Add>),
  BOTH("AddV2", ints<Add>),
  INTS(Sub),
  INTS(Mul),
  INTS(SquaredDifference),
  INTS(Maximum),
  INTS(Minimum),
  INTS(BitwiseAnd),
  INTS(BitwiseOr),
  INTS(BitwiseXor),
  COMPARED("Equal", "T=" T_DEVICE_INTS, (equality<Equal, false>)),
  COMPARED("Equal", "T=int32", (equality<Equal, false>), .args = host_xy.at, ),
  COMPARED("NotEqual", "T=" T_DEVICE_INTS, (equality<NotEqual, true>)),
  COMPARED("NotEqual", "T=int32", (equality<NotEqual, true>), .args = host_xy.at, ),
  INTS(Less),
  INTS(LessEqual),
  INTS(Greater),
  INTS(GreaterEqual),
  DIVISION("Div", Div, ALL_INTS),
  DIVISION("TruncateDiv", Div, ALL_INTS),
  DIVISION("FloorDiv", FloorDiv, ALL_INTS),
  DIVISION("FloorMod", FloorMod, ALL_INTS),
  DIVISION("Mod", Mod, "T=int32|int64"),
  DIVISION("TruncateMod", Mod, "T=int32|int64"),
};
} // namespace
KERNELS(binary_int_kernels, table)
