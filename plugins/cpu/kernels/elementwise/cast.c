/* cast.c - Cast between all numeric types, and Bitcast.
 *
 * A cast is a chain of at most three loops over one block: into a hub type (half -> float, complex
 * -> real), from hub to hub, out of it (float -> bfloat16, real -> complex).  One loop needs no
 * block.  Float to integer truncates; what does not fit gives the smallest integer, as x86 and TF
 * do, never undefined behaviour.  Compiled once per instruction set.
 */
#include "base/machine.h"
#include "elementwise/elementwise.h"
#include "vec/half.h"
#include "move/transpose.h"
#include "vec/vfloat.h"

enum { CAST_BLOCK = 512, STREAM_BLOCK = 1024, FETCHED = 4096, MAX_CHAIN = 3 };
typedef struct {
  int32_t from, to; /* attributes SrcT, DstT */
  int32_t length;
  pf_unary_loop loop[MAX_CHAIN];
  int32_t size[MAX_CHAIN + 1]; /* element sizes before, between and after the loops */
} cast_state;

PF_INLINE int32_t float_i32(float x) {
  return x >= -0x1p31f && x < 0x1p31f ? (int32_t)x : INT32_MIN;
}
PF_INLINE int32_t double_i32(double x) {
  return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}
PF_INLINE int64_t float_i64(float x) {
  return x >= -0x1p63f && x < 0x1p63f ? (int64_t)x : INT64_MIN;
}
PF_INLINE int64_t double_i64(double x) {
  return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}
PF_INLINE uint64_t float_u64(float x) {
  return x >= 0x1p63f ? x < 0x1p64f ? (uint64_t)x : (uint64_t)1 << 63 : (uint64_t)float_i64(x);
}
PF_INLINE uint64_t double_u64(double x) {
  return x >= 0x1p63 ? x < 0x1p64 ? (uint64_t)x : (uint64_t)1 << 63 : (uint64_t)double_i64(x);
}
PF_INLINE int64_t same_i64(int64_t x) { return x; }
#define TO_I32(x) _Generic((x), float: float_i32, double: double_i32, default: same_i64)(x)
#define TO_I64(x) _Generic((x), float: float_i64, double: double_i64, default: same_i64)(x)
#define TO_U64(x) _Generic((x), float: float_u64, double: double_u64, default: same_i64)(x)

/* loops cast_FROM_TO and the row [FROM] of the table */
#define FROM(TYPE, T, TAG) \
  UNARY(cast_##TAG, i8, T, int8_t, TO_I32(x)) \
  UNARY(cast_##TAG, i16, T, int16_t, TO_I32(x)) \
  UNARY(cast_##TAG, i32, T, int32_t, TO_I32(x)) \
  UNARY(cast_##TAG, i64, T, int64_t, TO_I64(x)) \
  UNARY(cast_##TAG, u8, T, uint8_t, TO_I32(x)) \
  UNARY(cast_##TAG, u16, T, uint16_t, TO_I32(x)) \
  UNARY(cast_##TAG, u32, T, uint32_t, TO_I64(x)) \
  UNARY(cast_##TAG, u64, T, uint64_t, TO_U64(x)) \
  UNARY(cast_##TAG, f32, T, float, x) \
  UNARY(cast_##TAG, f64, T, double, x) \
  UNARY(cast_##TAG, bool, T, uint8_t, x != 0)
#define ROW(TYPE, T, TAG) \
  [TYPE] = {[PF_INT8] = cast_##TAG##_i8,     [PF_INT16] = cast_##TAG##_i16, \
            [PF_INT32] = cast_##TAG##_i32,   [PF_INT64] = cast_##TAG##_i64, \
            [PF_UINT8] = cast_##TAG##_u8,    [PF_UINT16] = cast_##TAG##_u16, \
            [PF_UINT32] = cast_##TAG##_u32,  [PF_UINT64] = cast_##TAG##_u64, \
            [PF_FLOAT32] = cast_##TAG##_f32, [PF_FLOAT64] = cast_##TAG##_f64, \
            [PF_BOOL] = cast_##TAG##_bool},
PF_EACH_REAL(FROM)
typedef struct { float re, im; } c64;
typedef struct { double re, im; } c128;
static void half_f32(const void *x, void *y, int64_t n, double p) {
  (void)p;
  half_read((const uint16_t *)x, (float *)y, n);
}
static void bf16_f32(const void *x, void *y, int64_t n, double p) {
  (void)p;
  bfloat16_read((const uint16_t *)x, (float *)y, n);
}
static void f32_half(const void *x, void *y, int64_t n, double p) {
  (void)p;
  half_write((const float *)x, (uint16_t *)y, n);
}
static void f32_bf16(const void *x, void *y, int64_t n, double p) {
  (void)p;
  bfloat16_write((const float *)x, (uint16_t *)y, n);
}
UNARY(c64, f32, c64, float, x.re)
UNARY(c128, f64, c128, double, x.re)
#define COMPLEX_LOOP(NAME, TX, TY, RE, IM) \
  static void NAME(const void *px, void *py, int64_t n, double p) { \
    const TX *xs = (const TX *)px; TY *ys = (TY *)py; (void)p; \
    for (int64_t i = 0; i < n; i++) { TX x = xs[i]; ys[i] = (TY){RE, IM}; } \
  }
COMPLEX_LOOP(f32_c64, float, c64, x, 0)
COMPLEX_LOOP(f64_c128, double, c128, x, 0)
COMPLEX_LOOP(c64_c128, c64, c128, x.re, x.im)
COMPLEX_LOOP(c128_c64, c128, c64, (float)x.re, (float)x.im)

static const pf_unary_loop loops[PF_TYPE_COUNT][PF_TYPE_COUNT] = {
  PF_EACH_REAL(ROW) ROW(PF_BOOL, uint8_t, u8)[PF_FLOAT16] = {[PF_FLOAT32] = half_f32},
  [PF_BFLOAT16] = {[PF_FLOAT32] = bf16_f32},
  [PF_COMPLEX64] = {[PF_FLOAT32] = c64_f32, [PF_COMPLEX128] = c64_c128},
  [PF_COMPLEX128] = {[PF_FLOAT64] = c128_f64, [PF_COMPLEX64] = c128_c64}};
static pf_unary_loop from_hub(int32_t to) {
  return to == PF_FLOAT16      ? f32_half
         : to == PF_BFLOAT16   ? f32_bf16
         : to == PF_COMPLEX64  ? f32_c64
         : to == PF_COMPLEX128 ? f64_c128
                               : NULL;
}
static int32_t hub(int32_t type) {
  return pf_is_half(type) || type == PF_COMPLEX64 ? PF_FLOAT32
         : type == PF_COMPLEX128                  ? PF_FLOAT64
                                                  : type;
}
static void append(cast_state *s, pf_unary_loop loop, int32_t to) {
  s->loop[s->length++] = loop;
  s->size[s->length] = (int32_t)pf_type_size(to);
}

static pf_status cast_init(pf_ctx *c, void *state) {
  cast_state *s = (cast_state *)state;
  int32_t from = s->from, to = s->to, mid = hub(to);
  s->size[0] = (int32_t)pf_type_size(from);
  if (from == to) return PF_OK;
  if (loops[from][to]) {
    append(s, loops[from][to], to);
    return PF_OK;
  }
  if (hub(from) != from) append(s, loops[from][hub(from)], hub(from)), from = hub(from);
  if (from != mid && loops[from][mid]) append(s, loops[from][mid], mid), from = mid;
  if (mid != to && from == mid) append(s, from_hub(to), to), from = to;
  if (from == to) return PF_OK;
  return pf_failf(c, PF_UNIMPLEMENTED, "Cast %s to %s is not supported", pf_type_name(s->from),
                  pf_type_name(to));
}

typedef struct {
  const cast_state *s;
  const char *x;
  char *y;
} cast_task;
static void run_loops(const cast_state *s, const void *x, void *result, int64_t n) {
  _Alignas(64) char block[2][CAST_BLOCK * 16];
  for (int32_t k = 0; k < s->length; k++) {
    void *y = k == s->length - 1 ? result : block[k & 1];
    s->loop[k](x, y, n, 0);
    x = y;
  }
}
static void cast_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const cast_task *t = (const cast_task *)arg;
  const cast_state *s = t->s;
  (void)worker;
  int64_t step = s->length == 1 ? hi - lo : CAST_BLOCK;
  for (int64_t i = lo; i < hi; i += step)
    run_loops(s, t->x + i * s->size[0], t->y + i * s->size[s->length], PF_MIN(hi - i, step));
}
#if defined(__AVX512F__)
/* floats to halves past the caches, LINES whole lines of y at a time: as fast as memory, which
 * blocks stored near and copied are not.  16, or one where buffers for lines are few (16 have
 * 0.9 of one's speed there; elsewhere one is slower).  What is read 4 kB later is fetched to the
 * second cache (6 % where the third one is far).  Returns how many are done */
#define FLOATS_PAST(NAME, TYPE, LINES) \
  static int64_t NAME(const float *x, uint16_t *y, int64_t n) { \
    int64_t i = 0; \
    for (; i + 32 * LINES <= n; i += 32 * LINES) { \
      __m512i v[LINES]; \
      _Pragma("GCC unroll 16") for (int u = 0; u < LINES; u++) { \
        v[u] = pf_vf_halves(TYPE, pf_vf_load(x + i + 32 * u), pf_vf_load(x + i + 32 * u + 16)); \
        const char *far = (const char *)(x + i + 32 * u) + FETCHED; \
        __builtin_prefetch(far, 0, 2); \
        __builtin_prefetch(far + 64, 0, 2); \
      } \
      _Pragma("GCC unroll 16") for (int u = 0; u < LINES; u++) \
        _mm512_stream_si512((__m512i *)(y + i + 32 * u), v[u]); \
    } \
    return i; \
  }
FLOATS_PAST(halves_past, PF_FLOAT16, 16)
FLOATS_PAST(halves_line_by_line, PF_FLOAT16, 1)
FLOATS_PAST(bfloat16s_past, PF_BFLOAT16, 16)
FLOATS_PAST(bfloat16s_line_by_line, PF_BFLOAT16, 1)
static int64_t lines_past(const cast_state *s, const char *x, char *y, int64_t n) {
  static int64_t (*const ways[2][2])(const float *, uint16_t *, int64_t) = {
    {halves_past, halves_line_by_line}, {bfloat16s_past, bfloat16s_line_by_line}};
  if (s->length != 1 || s->from != PF_FLOAT32 || !pf_is_half(s->to) || (uintptr_t)y % 64) return 0;
  return ways[s->to == PF_BFLOAT16][pf_has_few_line_buffers()]((const float *)x, (uint16_t *)y, n);
}
#else
static int64_t lines_past(const cast_state *s, const char *x, char *y, int64_t n) {
  (void)s, (void)x, (void)y, (void)n;
  return 0;
}
#endif
/* large results: in blocks that the nearest cache holds, stored past the caches; fetched too */
static void stream_range(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const cast_task *t = (const cast_task *)arg;
  const cast_state *s = t->s;
  const pf_mover *move = pf_movers();
  _Alignas(64) char room[STREAM_BLOCK];
  int64_t size = s->size[s->length];
  (void)worker;
  lo += lines_past(s, t->x + lo * s->size[0], t->y + lo * size, hi - lo);
  for (int64_t n = 0; lo < hi; lo += n) {
    char *y = t->y + lo * size;
    int64_t past = (int64_t)((uintptr_t)y % 64);
    n = PF_MIN(PF_MIN(hi - lo, CAST_BLOCK), (STREAM_BLOCK - past) / size);
    const char *x = t->x + lo * s->size[0];
    for (int64_t k = 0; k < n * s->size[0]; k += 64) __builtin_prefetch(x + k + FETCHED, 0, 2);
    run_loops(s, x, room + past, n);
    move->copy(room + past, y, n * size);
  }
  move->fence();
}
static pf_status cast(pf_ctx *c, const void *state) {
  const cast_state *s = (const cast_state *)state;
  const DLTensor *x = c->in[0];
  if (!s->length) return c->host->alias(c, 0, 0, x->shape, x->ndim);
  DLTensor *y = s->length == 1 && s->size[0] == s->size[1]
                    ? c->host->forward(c, 0, 0, x->shape, x->ndim)
                    : pf_output_like(c, 0, x);
  PF_EXHAUSTED(y);
  cast_task t = {s, PF_DATA(const char, x), PF_DATA(char, y)};
  int large = y->data != x->data && pf_numel(x) * s->size[s->length] >= PF_STREAM_BYTES;
  return pf_parallel(c, pf_numel(x), PF_GRAIN, large ? stream_range : cast_range, &t);
}

typedef struct { int32_t from, to; } bitcast_state;
static pf_status bitcast(pf_ctx *c, const void *state) {
  const bitcast_state *s = (const bitcast_state *)state;
  const DLTensor *x = c->in[0];
  int64_t a = pf_type_size(s->from), b = pf_type_size(s->to), shape[PF_MAX_DIMS + 1];
  int32_t nd = x->ndim;
  PF_TRY(pf_check_rank(c, x, "input"));
  if (!a || !b)
    return PF_INVALID(c, "Cannot bitcast from %s to %s", pf_type_name(s->from),
                      pf_type_name(s->to));
  memcpy(shape, x->shape, sizeof(int64_t) * (size_t)nd);
  if (a > b) shape[nd++] = a / b;
  if (a < b && (nd == 0 || shape[--nd] != b / a))
    return PF_INVALID(
        c, "Cannot bitcast from %s to %s: the last dimension must be %" PRId64 ", got shape %s",
        pf_type_name(s->from), pf_type_name(s->to), b / a, PF_SHAPE(x).s);
  return c->host->alias(c, 0, 0, shape, nd); /* the same bytes under another type */
}

const pf_kernel *const PF_ISA_NAME(cast_kernels)[] = {
  PF_CPU("Cast", NULL, .state_size = sizeof(cast_state), .init = cast_init, .compute = cast,
         .attrs = PF_ATTRS(PF_REF(pf_attr, "SrcT", PF_ATTR_TYPE, offsetof(cast_state, from)),
                           PF_REF(pf_attr, "DstT", PF_ATTR_TYPE, offsetof(cast_state, to)))),
  PF_CPU("Bitcast", NULL, .state_size = sizeof(bitcast_state), .compute = bitcast,
         .args = PF_ALIASES("output"),
         .attrs = PF_ATTRS(PF_REF(pf_attr, "T", PF_ATTR_TYPE, offsetof(bitcast_state, from)),
                           PF_REF(pf_attr, "type", PF_ATTR_TYPE, offsetof(bitcast_state, to)))),
  NULL};
