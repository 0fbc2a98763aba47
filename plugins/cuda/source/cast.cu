/* cast.cu - Cast between all real types and bool, and Bitcast.
 *
 * Float to integer truncates; what does not fit gives the smallest integer (0 for small types), as
 * x86 and TensorFlow's CPU kernels do: equal results on both devices, never undefined behaviour.
 */
#include "walk.h"

namespace {

template <class V> PF_BOTH int64_t to_i64(V x) {
  return x >= (V)-0x1p63 && x < (V)0x1p63 ? (int64_t)x : INT64_MIN;
}
PF_BOTH int32_t to_i32(double x) { return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN; }
template <class V> PF_BOTH uint64_t to_u64(V x) {
  if (!(x >= (V)0x1p63)) return (uint64_t)to_i64(x);
  return x < (V)0x1p64 ? (uint64_t)x : (uint64_t)1 << 63;
}

/* ---------------------------------------------------------------- any type to any: one kernel, two
 * uniform switches A float travels as double, which holds every value of every float type; an
 * integer as int64, or uint64 for uint64. */
struct carrier {
  double real;
  int64_t whole;
};
enum { CARRY_REAL, CARRY_SIGNED, CARRY_UNSIGNED };
PF_BOTH carrier carry_whole(int64_t x) { return carrier{0, x}; }
PF_BOTH float as_float(carrier v, int kind) {
  return kind == CARRY_REAL     ? (float)v.real
         : kind == CARRY_SIGNED ? (float)v.whole
                                : (float)(uint64_t)v.whole;
}
struct cast_any {
  typedef carrier value;
  const void *x;
  void *y;
  int32_t from, to, kind;
  PF_BOTH carrier load(int64_t i) const {
    switch (from) {
      case PF_FLOAT32: return carrier{((const float *)x)[i], 0};
      case PF_FLOAT64: return carrier{((const double *)x)[i], 0};
      case PF_FLOAT16: return carrier{up(((const f16 *)x)[i]), 0};
      case PF_BFLOAT16: return carrier{up(((const bf16 *)x)[i]), 0};
      case PF_INT8: return carry_whole(((const int8_t *)x)[i]);
      case PF_INT16: return carry_whole(((const int16_t *)x)[i]);
      case PF_INT32: return carry_whole(((const int32_t *)x)[i]);
      case PF_UINT16: return carry_whole(((const uint16_t *)x)[i]);
      case PF_UINT32: return carry_whole(((const uint32_t *)x)[i]);
      case PF_INT64:
      case PF_UINT64: return carry_whole(((const int64_t *)x)[i]);
      default: return carry_whole(((const uint8_t *)x)[i]);
    }
  }
  PF_BOTH void store(int64_t i, carrier v) const {
    bool real = kind == CARRY_REAL;
    switch (to) {
      case PF_FLOAT32: ((float *)y)[i] = as_float(v, kind); break;
      case PF_FLOAT64:
        ((double *)y)[i] = real                   ? v.real
                           : kind == CARRY_SIGNED ? (double)v.whole
                                                  : (double)(uint64_t)v.whole;
        break;
      case PF_FLOAT16: ((f16 *)y)[i] = down<f16>(as_float(v, kind)); break;
      case PF_BFLOAT16: ((bf16 *)y)[i] = down<bf16>(as_float(v, kind)); break;
      case PF_INT8:
      case PF_UINT8: ((int8_t *)y)[i] = (int8_t)(real ? to_i32(v.real) : v.whole); break;
      case PF_INT16:
      case PF_UINT16: ((int16_t *)y)[i] = (int16_t)(real ? to_i32(v.real) : v.whole); break;
      case PF_INT32: ((int32_t *)y)[i] = real ? to_i32(v.real) : (int32_t)v.whole; break;
      case PF_UINT32: ((uint32_t *)y)[i] = (uint32_t)(real ? to_i64(v.real) : v.whole); break;
      case PF_INT64: ((int64_t *)y)[i] = real ? to_i64(v.real) : v.whole; break;
      case PF_UINT64: ((uint64_t *)y)[i] = real ? to_u64(v.real) : (uint64_t)v.whole; break;
      default: ((uint8_t *)y)[i] = real ? v.real != 0 : v.whole != 0;
    }
  }
};

/* --------------------------------------------------------- the frequent ones: to and from float */
template <class From, class To> struct cast_map {
  typedef From value;
  const From *x;
  To *y;
  PF_BOTH From load(int64_t i) const { return x[i]; }
  PF_BOTH void store(int64_t i, From v) const { y[i] = down<To>(up(v)); }
};
template <class From, class To> pf_status run_cast(pf_ctx *c, DLTensor *y) {
  return map(c, pf_numel(y), cast_map<From, To>{PF_DATA(const From, c->in[0]), PF_DATA(To, y)});
}
static pf_status frequent(pf_ctx *c, int32_t from, int32_t to, DLTensor *y) {
  if (to == PF_FLOAT32) switch (from) {
      case PF_FLOAT16: return run_cast<f16, float>(c, y);
      case PF_BFLOAT16: return run_cast<bf16, float>(c, y);
      case PF_INT32: return run_cast<int32_t, float>(c, y);
      case PF_BOOL:
      case PF_UINT8: return run_cast<uint8_t, float>(c, y);
    }
  if (from == PF_FLOAT32 && to == PF_FLOAT16) return run_cast<float, f16>(c, y);
  if (from == PF_FLOAT32 && to == PF_BFLOAT16) return run_cast<float, bf16>(c, y);
  return PF_DECLINE;
}

typedef struct { int32_t from, to; } cast_state;
static pf_status cast(pf_ctx *c, const void *state) {
  const cast_state *s = (const cast_state *)state;
  const DLTensor *x = c->in[0];
  if (s->from == s->to) return c->host->alias(c, 0, 0, x->shape, x->ndim);
  DLTensor *y = type_size(s->from) == type_size(s->to)
                    ? c->host->forward(c, 0, 0, x->shape, x->ndim)
                    : c->host->output(c, 0, x->shape, x->ndim);
  PF_EXHAUSTED(y);
  pf_status quick = frequent(c, s->from, s->to, y);
  if (quick != PF_DECLINE) return quick;
  bool real = is_half(s->from) || s->from == PF_FLOAT32 || s->from == PF_FLOAT64;
  int kind = real ? CARRY_REAL : s->from == PF_UINT64 ? CARRY_UNSIGNED : CARRY_SIGNED;
  return map(c, pf_numel(x),
             cast_any{PF_DATA(const void, x), PF_DATA(void, y), s->from, s->to, kind});
}

static pf_status bitcast(pf_ctx *c, const void *state) {
  const cast_state *s = (const cast_state *)state;
  const DLTensor *x = c->in[0];
  int64_t a = type_size(s->from), b = type_size(s->to), shape[MAX_DIMS + 1];
  int32_t nd = x->ndim;
  PF_TRY(check_rank(c, x, "input"));
  if (!a || !b) return INVALID(c, "Cannot bitcast these types");
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)nd);
  if (a > b) shape[nd++] = a / b;
  if (a < b && (nd == 0 || shape[--nd] != b / a))
    return INVALID(c, "Cannot bitcast: the last dimension must be %" PRId64 ", got shape %s", b / a,
                   SHAPE(x));
  DLTensor *y = c->host->forward(c, 0, 0, shape, nd);
  PF_EXHAUSTED(y);
  if (y->data == x->data) return PF_OK;
  int64_t bytes = pf_numel(x) * a;
  box whole = box_of(1, &bytes, 1);
  return box_copy(c, &whole, PF_DATA(void, y), PF_DATA(const void, x), false);
}

#define REAL "float|double|half|bfloat16|int8|int16|int32|int64|uint8|uint16|uint32|uint64|bool"
static constexpr attr_list cast_attrs({ATTR_NAMED("SrcT", cast_state, PF_ATTR_TYPE, from),
                                       ATTR_NAMED("DstT", cast_state, PF_ATTR_TYPE, to)});
static constexpr attr_list bitcast_attrs({ATTR_NAMED("T", cast_state, PF_ATTR_TYPE, from),
                                          ATTR_NAMED("type", cast_state, PF_ATTR_TYPE, to)});
static const pf_kernel table[] = {
  GPU("Cast", "SrcT=" REAL ", DstT=" REAL, SAME, .attrs = cast_attrs.at,
      .state_size = sizeof(cast_state), .compute = cast),
  GPU("Bitcast", NULL, SAME, .attrs = bitcast_attrs.at, .state_size = sizeof(cast_state),
      .compute = bitcast),
};
} // namespace
KERNELS(cast_kernels, table)
