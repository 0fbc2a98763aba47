/* fused_steps.h - the steps of fused_program.h for one element type T and block size: NV vectors.
 *
 * fused_machines.c includes it with T, TAG, VEC (a vector of VL elements of T), NV, WIDTH (a
 * suffix) and TYPE_F32, TYPE_F64 or TYPE_I32 set; it leaves fused_TAG_WIDTH, the tables of a
 * fused_machine.
 *
 * Expressions are those of scalars: the compiler turns the loop over one vector's elements into
 * vector instructions, and a step's tail call into a jump.  (Without tail calls the depth is the
 * number of steps.)
 *
 * Fast path: chain_1048576 (docs/paths.md).
 */
#define NAME3_(a, b, c) a##_##b##c
#define NAME3(a, b, c) NAME3_(a, b, c)
#define STEP(name) NAME3(name, TAG, WIDTH)
typedef VEC STEP(unaligned) __attribute__((aligned(1), may_alias));
#if NV == 8
#define REGISTERS VEC v0, VEC v1, VEC v2, VEC v3, VEC v4, VEC v5, VEC v6, VEC v7
#define PASSED v0, v1, v2, v3, v4, v5, v6, v7
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define REGISTERS VEC v0
#define PASSED v0
#define EACH(X) X(0)
#endif
#define AT(p, i) (((const STEP(unaligned) *)(p))[i])
#define PUT(p, i) (((STEP(unaligned) *)(p))[i])
#define SCALAR(slot) (*(const T *)f->at[slot] - (VEC){0}) /* - keeps the sign of zero */
typedef void (*STEP(fused_run))(REGISTERS, const fused_step *, fused_frame *);
#define BEGIN(name) static void STEP(name)(REGISTERS, const fused_step *s, fused_frame *f)
#define NEXT ((STEP(fused_run))s[1].run)(PASSED, s + 1, f)

/* one vector through a scalar expression */
#define VECTOR_OF_ONE(NAME, EXPR) \
  PF_INLINE VEC STEP(NAME##_v)(VEC v, T p) { \
    T xs[VL] __attribute__((aligned(64))); \
    memcpy(xs, &v, sizeof v); \
    (void)p; \
    for (int i = 0; i < VL; i++) { T x = xs[i]; xs[i] = (T)(EXPR); } \
    memcpy(&v, xs, sizeof v); \
    return v; \
  }
#define VECTOR_OF_TWO(NAME, EXPR) \
  PF_INLINE VEC STEP(NAME##_v)(VEC v, VEC w, T p) { \
    T as[VL] __attribute__((aligned(64))), bs[VL] __attribute__((aligned(64))); \
    memcpy(as, &v, sizeof v); \
    memcpy(bs, &w, sizeof w); \
    (void)p; \
    for (int i = 0; i < VL; i++) { T a = as[i], b = bs[i]; as[i] = (T)(EXPR); } \
    memcpy(&v, as, sizeof v); \
    return v; \
  }
#define BINARY_STEPS(NAME, M, S_, RM, RS) \
  BEGIN(NAME##_m) { const void *w = f->at[s->slot]; M NEXT; } \
  BEGIN(NAME##_s) { VEC w = SCALAR(s->slot); S_ NEXT; } \
  BEGIN(NAME##_rm) { const void *w = f->at[s->slot]; RM NEXT; } \
  BEGIN(NAME##_rs) { VEC w = SCALAR(s->slot); RS NEXT; }

#define ONE(NAME, i) v##i = STEP(NAME##_v)(v##i, (T)s->p);
#define TWO_M(NAME, i) v##i = STEP(NAME##_v)(v##i, AT(w, i), (T)s->p);
#define TWO_S(NAME, i) v##i = STEP(NAME##_v)(v##i, w, (T)s->p);
#define TWO_RM(NAME, i) v##i = STEP(NAME##_v)(AT(w, i), v##i, (T)s->p);
#define TWO_RS(NAME, i) v##i = STEP(NAME##_v)(w, v##i, (T)s->p);
#if NV == 8
#define ALL(ONE_, NAME) \
  ONE_(NAME, 0) ONE_(NAME, 1) ONE_(NAME, 2) ONE_(NAME, 3) ONE_(NAME, 4) ONE_(NAME, 5) \
  ONE_(NAME, 6) ONE_(NAME, 7)
#else
#define ALL(ONE_, NAME) ONE_(NAME, 0)
#endif
#define CHEAP_ONE(NAME, T_, TAG_, EXPR) \
  VECTOR_OF_ONE(NAME, EXPR) BEGIN(NAME) { ALL(ONE, NAME) NEXT; }
#define CHEAP_TWO(NAME, T_, TAG_, EXPR) \
  VECTOR_OF_TWO(NAME, EXPR) \
  BINARY_STEPS(NAME, ALL(TWO_M, NAME), ALL(TWO_S, NAME), ALL(TWO_RM, NAME), ALL(TWO_RS, NAME))

/* Long expressions: the block goes through memory and one loop, so that the code stays small. */
#define SPILL(i) PUT(xs, i) = v##i;
#define FILL(i) v##i = AT(xs, i);
#define HEAVY_ONE(NAME, T_, TAG_, EXPR) \
  BEGIN(NAME) { \
    T xs[NV * VL] __attribute__((aligned(64))); \
    EACH(SPILL) \
    { T p = (T)s->p; (void)p; \
      PF_IVDEP for (int i = 0; i < NV * VL; i++) { T x = xs[i]; xs[i] = (T)(EXPR); } } \
    EACH(FILL) \
    NEXT; \
  }
#define HEAVY_LOOP(A, B, EXPR) { \
    T xs[NV * VL] __attribute__((aligned(64))), p = (T)s->p; \
    const T *ws = (const T *)f->at[s->slot]; \
    (void)p; \
    EACH(SPILL) \
    PF_IVDEP for (int i = 0; i < NV * VL; i++) { T a = A, b = B; xs[i] = (T)(EXPR); } \
    EACH(FILL) \
  }
#define HEAVY_TWO(NAME, T_, TAG_, EXPR) \
  BEGIN(NAME##_m) { HEAVY_LOOP(xs[i], ws[i], EXPR) NEXT; } \
  BEGIN(NAME##_s) { HEAVY_LOOP(xs[i], ws[0], EXPR) NEXT; } \
  BEGIN(NAME##_rm) { HEAVY_LOOP(ws[i], xs[i], EXPR) NEXT; } \
  BEGIN(NAME##_rs) { HEAVY_LOOP(ws[0], xs[i], EXPR) NEXT; }

/* Truth values are 1 and 0.  Of each two, as vectors; the other operand first is another of
 * them. */
typedef __typeof__((VEC){0} == (VEC){0}) STEP(lanes);
#define LOGIC(TWO_, ONE_) \
  TWO_(Equal, Equal, v == w) TWO_(NotEqual, NotEqual, v != w) TWO_(Less, Greater, v < w) \
  TWO_(LessEqual, GreaterEqual, v <= w) TWO_(Greater, Less, v > w) \
  TWO_(GreaterEqual, LessEqual, v >= w) \
  TWO_(LogicalAnd, LogicalAnd, (v != (VEC){0}) & (w != (VEC){0})) \
  TWO_(LogicalOr, LogicalOr, (v != (VEC){0}) | (w != (VEC){0})) ONE_(LogicalNot, v == (VEC){0})
#define TRUTH(EXPR) ((VEC)((EXPR) & (STEP(lanes))((VEC){0} + 1)))
#define LOGIC_TWO(NAME, SWAPPED, EXPR) \
  PF_INLINE VEC STEP(NAME##_v)(VEC v, VEC w, T p) { return (void)p, TRUTH(EXPR); } \
  BEGIN(NAME##_m) { const void *w = f->at[s->slot]; ALL(TWO_M, NAME) NEXT; } \
  BEGIN(NAME##_s) { VEC w = SCALAR(s->slot); ALL(TWO_S, NAME) NEXT; }
#define LOGIC_ONE(NAME, EXPR) \
  PF_INLINE VEC STEP(NAME##_v)(VEC v, T p) { return (void)p, TRUTH(EXPR); } \
  BEGIN(NAME) { ALL(ONE, NAME) NEXT; }
LOGIC(LOGIC_TWO, LOGIC_ONE)

#if defined(TYPE_I32)
#define U (uint32_t)
CHEAP_ONE(Abs, T, TAG, x < 0 ? U 0 - U x : U x)
CHEAP_ONE(Neg, T, TAG, U 0 - U x)
CHEAP_ONE(Sign, T, TAG, (x > 0) - (x < 0))
CHEAP_ONE(Square, T, TAG, U x *U x)
CHEAP_ONE(Relu, T, TAG, x > 0 ? x : 0)
CHEAP_ONE(Relu6, T, TAG, x > 6 ? 6 : x > 0 ? x : 0)
CHEAP_TWO(Add, T, TAG, U a + U b)
CHEAP_TWO(Sub, T, TAG, U a - U b)
CHEAP_TWO(Mul, T, TAG, U a *U b)
CHEAP_TWO(Maximum, T, TAG, a > b ? a : b)
CHEAP_TWO(Minimum, T, TAG, a < b ? a : b)
CHEAP_TWO(SquaredDifference, T, TAG, (U a - U b) * (U a - U b))
CHEAP_TWO(ReluGrad, T, TAG, b > 0 ? a : 0)
CHEAP_TWO(Relu6Grad, T, TAG, b > 0 && b < 6 ? a : 0)
#undef U
#else
#ifdef TYPE_F32
#define LIST(X, WHICH) WHICH(X, float, f32, f)
#if defined(__AVX512F__)
#define VECTOR_STEP(NAME, OF_VECTOR) \
  PF_INLINE VEC STEP(NAME##_v)(VEC v, T p) { return (void)p, (VEC)OF_VECTOR((pf_vf)v); } \
  BEGIN(NAME) { ALL(ONE, NAME) NEXT; }
PF_UNARY_512(VECTOR_STEP)
#define HALF_STEP(NAME, CODE, OF_VECTOR) VECTOR_STEP(CODE, OF_VECTOR)
PF_UNARY_HALF_512(HALF_STEP)
#define ENTRY_UNARY_HALVES ENTRY_ONE(exp_half) ENTRY_ONE(tanh_half) ENTRY_ONE(sigmoid_half)
#if NV == 8
#define PAST(NAME, OF_VECTOR) \
  static void past_##NAME(const void *px, const void *unused, void *py, int64_t n) { \
    const float *x = (const float *)px; float *y = (float *)py; (void)unused; \
    int64_t i = 0; \
    for (; i + 8 * VL <= n; i += 8 * VL) { \
      pf_vf v[8]; \
      _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) { \
        __builtin_prefetch(x + i + u * VL + 512);  /* 2 kB: 512 B cost 5 to 10 % */ \
        __builtin_prefetch(x + i + u * VL + 1024, 0, 2); \
        v[u] = OF_VECTOR(pf_vf_load(x + i + u * VL)); \
      } \
      _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) \
        pf_vf_write(PF_FLOAT32, y + i + u * VL, v[u], 1); \
    } \
    for (; i < n; i += VL) { \
      int part = (int)PF_MIN(n - i, VL); \
      pf_vf_store_part(y + i, OF_VECTOR(pf_vf_load_part(x + i, part)), part); \
    } \
    pf_vf_fence(); \
  }
PF_UNARY_512(PAST)
PAST(Sqrt, _mm512_sqrt_ps)
/* Halves: EXPR of a and, TWO operands, b */
#define PAST_HALVES(NAME, TYPE, TWO, EXPR) \
  static void past_##NAME(const void *px, const void *pz, void *py, int64_t n) { \
    const uint16_t *x = (const uint16_t *)px, *z = (const uint16_t *)pz; \
    uint16_t *y = (uint16_t *)py; \
    int64_t i = 0; \
    for (; i + 8 * VL <= n; i += 8 * VL) \
      _Pragma("GCC unroll 4") for (int64_t k = i; k < i + 8 * VL; k += 2 * VL) { \
        pf_vf v[2], w[2] = {pf_vf_set(0), pf_vf_set(0)}; \
        pf_vf_read_pair(TYPE, x + k, v, v + 1); \
        __builtin_prefetch(x + k + 2048, 0, 2); \
        if (TWO) pf_vf_read_pair(TYPE, z + k, w, w + 1); \
        if (TWO) __builtin_prefetch(z + k + 2048, 0, 2); \
        for (int u = 0; u < 2; u++) { pf_vf a = v[u], b = w[u]; (void)b; v[u] = EXPR; } \
        pf_vf_stream_read_pair(TYPE, y + k, v[0], v[1]); \
      } \
    for (; i < n; i += VL) { \
      int64_t part = PF_MIN(n - i, VL); \
      pf_vf a = pf_vf_read_part(TYPE, x + i, part), b = a; (void)b; \
      if (TWO) b = pf_vf_read_part(TYPE, z + i, part); \
      pf_vf_write_part(TYPE, y + i, EXPR, part); \
    } \
    pf_vf_fence(); \
  }
#define PAST_OF_HALVES(NAME, TWO, EXPR) \
  PAST_HALVES(NAME##_float16, PF_FLOAT16, TWO, EXPR) \
  PAST_HALVES(NAME##_bfloat16, PF_BFLOAT16, TWO, EXPR)
#define PAST_FUNCTION(NAME, CODE, OF_VECTOR) PAST_OF_HALVES(NAME, 0, OF_VECTOR(a))
PF_UNARY_HALF_512(PAST_FUNCTION)
PAST_OF_HALVES(Add, 1, a + b)
PAST_OF_HALVES(Sub, 1, a - b)
PAST_OF_HALVES(Mul, 1, a *b)
#define ENTRY_PAST(NAME, OF_VECTOR) [FUSED_##NAME] = past_##NAME,
#define ENTRIES_PAST(TYPE) { \
  [FUSED_Exp] = past_Exp_##TYPE, [FUSED_Tanh] = past_Tanh_##TYPE, \
  [FUSED_Sigmoid] = past_Sigmoid_##TYPE, [FUSED_Add] = past_Add_##TYPE, \
  [FUSED_AddSame] = past_Add_##TYPE, [FUSED_Sub] = past_Sub_##TYPE, \
  [FUSED_Mul] = past_Mul_##TYPE}
static const fused_past past_table[3][FUSED_OPCODES] = {
  {PF_UNARY_512(ENTRY_PAST) ENTRY_PAST(Sqrt, )}, ENTRIES_PAST(float16), ENTRIES_PAST(bfloat16)};
#define PAST_TABLE past_table
#endif
#else
#define ENTRY_UNARY_HALVES
LIST(HEAVY_ONE, PF_UNARY_VECTOR)
HEAVY_ONE(Erf, T, TAG, pf_erf_f32(x))
#endif
#define ROUND_HALF(i) \
  pf_vf_write(PF_FLOAT16, halves, (pf_vf)v##i, 0), v##i = (VEC)pf_vf_read(PF_FLOAT16, halves);
BEGIN(round_half) {
  uint16_t halves[VL];
  EACH(ROUND_HALF) NEXT;
}
#define ROUND_BFLOAT16(i) v##i = (VEC)pf_vf_round_bfloat16((pf_vf)v##i);
BEGIN(round_bfloat16) { EACH(ROUND_BFLOAT16) NEXT; }
#else
#define LIST(X, WHICH) WHICH(X, double, f64, )
LIST(HEAVY_ONE, PF_UNARY_VECTOR)
#endif
LIST(CHEAP_ONE, PF_UNARY_CHEAP)
LIST(HEAVY_ONE, PF_UNARY_HEAVY)
LIST(CHEAP_TWO, PF_BINARY_CHEAP)
LIST(HEAVY_TWO, PF_BINARY_HEAVY)
LIST(CHEAP_TWO, PF_GRAD_CHEAP)
LIST(HEAVY_TWO, PF_GRAD_HEAVY)
/* b is a number other than zero: one instruction, with a's NaN kept */
VECTOR_OF_TWO(MaximumPlain, b > a ? b : a)
VECTOR_OF_TWO(MinimumPlain, b < a ? b : a)
BEGIN(MaximumPlain_s) {
  VEC w = SCALAR(s->slot);
  ALL(TWO_S, MaximumPlain) NEXT;
}
BEGIN(MinimumPlain_s) {
  VEC w = SCALAR(s->slot);
  ALL(TWO_S, MinimumPlain) NEXT;
}
#endif

#if defined(TYPE_F32) && NV == 8
#define TWO_X(NAME, i) v##i = STEP(NAME##_v)(v##i, x, (T)0);
#define PAIR_STEP(A, B) \
  BEGIN(A##_##B) { \
    VEC w = SCALAR(s->slot), x = SCALAR(s->slot2); \
    ALL(TWO_S, A) \
    ALL(TWO_X, B) \
    NEXT; \
  }
FUSED_EACH_PAIR(PAIR_STEP)
#endif

/* the accumulator is the condition */
PF_INLINE VEC STEP(Select_v)(VEC c, VEC a, VEC b) {
  const STEP(lanes) yes = c != (VEC){0};
  return (VEC)(((STEP(lanes))a & yes) | ((STEP(lanes))b & ~yes));
}
#define SELECT_MM(i) v##i = STEP(Select_v)(v##i, AT(x, i), AT(y, i));
#define SELECT_SM(i) v##i = STEP(Select_v)(v##i, xs, AT(y, i));
#define SELECT_MS(i) v##i = STEP(Select_v)(v##i, AT(x, i), ys);
#define SELECT_SS(i) v##i = STEP(Select_v)(v##i, xs, ys);
BEGIN(Select_mm) {
  const void *x = f->at[s->slot], *y = f->at[s->slot2];
  EACH(SELECT_MM) NEXT;
}
BEGIN(Select_sm) {
  VEC xs = SCALAR(s->slot);
  const void *y = f->at[s->slot2];
  EACH(SELECT_SM) NEXT;
}
BEGIN(Select_ms) {
  const void *x = f->at[s->slot];
  VEC ys = SCALAR(s->slot2);
  EACH(SELECT_MS) NEXT;
}
BEGIN(Select_ss) {
  VEC xs = SCALAR(s->slot), ys = SCALAR(s->slot2);
  EACH(SELECT_SS) NEXT;
}

/* ---------------------------------------------------------------- to and from memory */
#define LOAD_M(i) v##i = AT(w, i);
#define LOAD_S(i) v##i = w;
#define STORE_ONE(i) PUT(w, i) = v##i;
BEGIN(load_m) {
  const void *w = f->at[s->slot];
  EACH(LOAD_M) NEXT;
}
BEGIN(load_s) {
  VEC w = SCALAR(s->slot);
  EACH(LOAD_S) NEXT;
}
BEGIN(store) {
  void *w = f->at[s->slot];
  EACH(STORE_ONE) NEXT;
}
#define STREAM_ONE(i) FUSED_STREAM((char *)w + (i) * sizeof(VEC), v##i);
/* the next block near, what lies 4 kB on to the second cache: the third one may be far (0.8 of a
 * copy without) */
#define FUSED_FAR 3584
#define FETCH(p, i) \
  if ((i) * sizeof(VEC) % 64 == 0) { \
    __builtin_prefetch((p) + (i) * sizeof(VEC)); \
    __builtin_prefetch((p) + (i) * sizeof(VEC) + FUSED_FAR, 0, 2); \
  }
#define FETCH_ONE(i) FETCH(x, i) STREAM_ONE(i)
#define FETCH_TWO(i) FETCH(z, i) FETCH_ONE(i)
BEGIN(stream) { /* aligned, past the caches */
  void *w = f->at[s->slot];
  const char *x = (const char *)f->ahead[0], *z = (const char *)f->ahead[1];
  if (z) {
    EACH(FETCH_TWO)
  } else if (x) {
    EACH(FETCH_ONE)
  } else {
    EACH(STREAM_ONE)
  }
  NEXT;
}
#define STORE_AS(NAME, TYPE, EXPR) \
  BEGIN(NAME) { \
    T xs[NV * VL] __attribute__((aligned(64))); \
    TYPE *w = (TYPE *)f->at[s->slot]; \
    EACH(SPILL) \
    for (int i = 0; i < NV * VL; i++) { T x = xs[i]; w[i] = (TYPE)(EXPR); } \
    NEXT; \
  }
STORE_AS(store_bool, uint8_t, x != 0)
#define FETCH_X(i) FETCH(x, i)
#define FETCH_Z(i) FETCH(z, i)
BEGIN(fetch_bool) { /* of large inputs: their next blocks are fetched, as `stream` does */
  const char *x = (const char *)f->ahead[0], *z = (const char *)f->ahead[1];
  if (x) { EACH(FETCH_X) }
  if (z) { EACH(FETCH_Z) }
  STEP(store_bool)(PASSED, s, f);
}
#ifdef TYPE_F32
#define STORE_HALF(i) pf_vf_write(PF_FLOAT16, w + (i) * VL, (pf_vf)v##i, 0);
#define STORE_BFLOAT16(i) pf_vf_write(PF_BFLOAT16, w + (i) * VL, (pf_vf)v##i, 0);
BEGIN(store_half) {
  uint16_t *w = (uint16_t *)f->at[s->slot];
  EACH(STORE_HALF) NEXT;
}
BEGIN(store_bfloat16) {
  uint16_t *w = (uint16_t *)f->at[s->slot];
  EACH(STORE_BFLOAT16) NEXT;
}
#define LOAD_HALF(i) v##i = (VEC)pf_vf_read(PF_FLOAT16, w + (i) * VL);
#define LOAD_BFLOAT16(i) v##i = (VEC)pf_vf_read(PF_BFLOAT16, w + (i) * VL);
#define WIDEN_HALF(i) PUT(y, i) = (VEC)pf_vf_read(PF_FLOAT16, w + (i) * VL);
#define WIDEN_BFLOAT16(i) PUT(y, i) = (VEC)pf_vf_read(PF_BFLOAT16, w + (i) * VL);
#define HALVES const uint16_t *w = (const uint16_t *)f->halves[s->slot];
BEGIN(load_half) { HALVES EACH(LOAD_HALF) NEXT; }
BEGIN(load_bfloat16) { HALVES EACH(LOAD_BFLOAT16) NEXT; }
BEGIN(widen_half) {
  HALVES void *y = f->at[s->slot];
  EACH(WIDEN_HALF) NEXT;
}
BEGIN(widen_bfloat16) {
  HALVES void *y = f->at[s->slot];
  EACH(WIDEN_BFLOAT16) NEXT;
}
#define ENTRY_HALVES \
  ENTRY_ONE(store_half) ENTRY_ONE(store_bfloat16) ENTRY_ONE(load_half) ENTRY_ONE(load_bfloat16) \
  ENTRY_ONE(widen_half) ENTRY_ONE(widen_bfloat16)
#if NV == 8
#define STREAM_HALVES(NAME, TYPE) \
  BEGIN(NAME) { \
    uint16_t *w = (uint16_t *)f->at[s->slot]; \
    for (int k = 0; f->ahead[0] && k < NV * VL * 2; k += 64) \
      __builtin_prefetch((char *)f->ahead[0] + k); \
    for (int k = 0; f->ahead[1] && k < NV * VL * 2; k += 64) \
      __builtin_prefetch((char *)f->ahead[1] + k); \
    pf_vf_stream_pair(TYPE, w, (pf_vf)v0, (pf_vf)v1); \
    pf_vf_stream_pair(TYPE, w + 2 * VL, (pf_vf)v2, (pf_vf)v3); \
    pf_vf_stream_pair(TYPE, w + 4 * VL, (pf_vf)v4, (pf_vf)v5); \
    pf_vf_stream_pair(TYPE, w + 6 * VL, (pf_vf)v6, (pf_vf)v7); \
    NEXT; \
  }
#define TWO_HALF(NAME, i) \
  v##i = STEP(NAME##_v)(v##i, (VEC)pf_vf_read(PF_FLOAT16, w + (i) * VL), (T)0);
#define TWO_BFLOAT16(NAME, i) \
  v##i = STEP(NAME##_v)(v##i, (VEC)pf_vf_read(PF_BFLOAT16, w + (i) * VL), (T)0);
#define OF_HALVES(NAME) \
  BEGIN(NAME##_half) { HALVES ALL(TWO_HALF, NAME) NEXT; } \
  BEGIN(NAME##_bfloat16) { HALVES ALL(TWO_BFLOAT16, NAME) NEXT; }
OF_HALVES(Add)
OF_HALVES(Sub)
OF_HALVES(Mul)
#define HALVES_TABLE {{RUN(Add_half), RUN(Add_bfloat16)}, {RUN(Sub_half), RUN(Sub_bfloat16)}, \
                      {RUN(Mul_half), RUN(Mul_bfloat16)}}
STREAM_HALVES(stream_half, PF_FLOAT16)
STREAM_HALVES(stream_bfloat16, PF_BFLOAT16)
#define ENTRY_STREAMS ENTRY_ONE(stream_half) ENTRY_ONE(stream_bfloat16)
#else
#define ENTRY_STREAMS
#endif
#endif
BEGIN(end) { (void)s, (void)f; }
static void STEP(enter)(const fused_step *s, fused_frame *f) {
  VEC zero = {0};
#if NV == 8
#define MOVE(k) *f->moving[k].at = (char *)*f->moving[k].at + f->moving[k].step;
  for (;;) {
    ((STEP(fused_run))s->run)(zero, zero, zero, zero, zero, zero, zero, zero, s, f);
    if (--f->left <= 0) return;
    MOVE(0)
    MOVE(1)
    MOVE(2)
    MOVE(3)
    MOVE(4)
    MOVE(5)
    for (int64_t k = FUSED_MOVED; k < f->n_moving; k++) MOVE(k)
  }
#undef MOVE
#else
  ((STEP(fused_run))s->run)(zero, s, f);
#endif
}

/* ---------------------------------------------------------------- the table */
#define RUN(step) ((void (*)(void))STEP(step))
#define ENTRY_ONE(NAME, ...) [FUSED_##NAME] = {RUN(NAME)},
#define ENTRY_TWO(NAME, ...) \
  [FUSED_##NAME] = {RUN(NAME##_m), RUN(NAME##_s), RUN(NAME##_rm), RUN(NAME##_rs)},
#define ENTRY_LOGIC(NAME, SWAPPED, ...) \
  [FUSED_##NAME] = {RUN(NAME##_m), RUN(NAME##_s), RUN(SWAPPED##_m), RUN(SWAPPED##_s)},
#define STEP_TABLE { \
  LOGIC(ENTRY_LOGIC, ENTRY_ONE) TYPED_TABLE \
  [FUSED_AddSame] = {RUN(Add_m), RUN(Add_s), RUN(Add_rm), RUN(Add_rs)}, \
  [FUSED_Select] = {RUN(Select_mm), RUN(Select_sm), RUN(Select_ms), RUN(Select_ss)}, \
  [FUSED_load] = {RUN(load_m), RUN(load_s)}, \
  [FUSED_store] = {RUN(store)}, [FUSED_stream] = {RUN(stream)}, \
  [FUSED_store_bool] = {RUN(store_bool)}, [FUSED_fetch_bool] = {RUN(fetch_bool)}, \
  [FUSED_end] = {RUN(end)}}
#if defined(TYPE_I32)
#define TYPED_TABLE \
  ENTRY_ONE(Abs) ENTRY_ONE(Neg) ENTRY_ONE(Sign) ENTRY_ONE(Square) ENTRY_ONE(Relu) \
  ENTRY_ONE(Relu6) ENTRY_TWO(Add) ENTRY_TWO(Sub) ENTRY_TWO(Mul) ENTRY_TWO(Maximum) \
  ENTRY_TWO(Minimum) ENTRY_TWO(SquaredDifference) ENTRY_TWO(ReluGrad) ENTRY_TWO(Relu6Grad)
#else
#define FLOAT_TABLE \
  LIST(ENTRY_ONE, PF_UNARY_CHEAP) LIST(ENTRY_ONE, PF_UNARY_HEAVY) \
  LIST(ENTRY_ONE, PF_UNARY_VECTOR) \
  LIST(ENTRY_TWO, PF_BINARY_CHEAP) LIST(ENTRY_TWO, PF_BINARY_HEAVY) \
  LIST(ENTRY_TWO, PF_GRAD_CHEAP) LIST(ENTRY_TWO, PF_GRAD_HEAVY) \
  [FUSED_MaximumPlain] = {[FUSED_S] = RUN(MaximumPlain_s)}, \
  [FUSED_MinimumPlain] = {[FUSED_S] = RUN(MinimumPlain_s)},
#ifdef TYPE_F32
#define TYPED_TABLE FLOAT_TABLE ENTRY_ONE(Erf) ENTRY_ONE(round_half) ENTRY_ONE(round_bfloat16) \
  ENTRY_HALVES ENTRY_STREAMS ENTRY_UNARY_HALVES
#else
#define TYPED_TABLE FLOAT_TABLE
#endif
#endif
#if defined(TYPE_F32) && NV == 8
#define ENTRY_PAIR(A, B) [PAIRED_##A][PAIRED_##B] = RUN(A##_##B),
#define PAIR_TABLE {FUSED_EACH_PAIR(ENTRY_PAIR)}
#else
#define PAIR_TABLE {{0}}
#endif
#ifndef HALVES_TABLE
#define HALVES_TABLE {{0}}
#endif
#ifndef PAST_TABLE
#define PAST_TABLE NULL
#endif
static const fused_machine STEP(machine) = {NV * VL,      STEP_TABLE,  PAIR_TABLE,
                                            HALVES_TABLE, STEP(enter), PAST_TABLE};
#undef PAIR_TABLE
#undef PAST_TABLE
#undef HALVES_TABLE

#undef T
#undef TAG
#undef VEC
#undef VL
#undef NV
#undef WIDTH
#undef TYPE_F32
#undef TYPE_F64
#undef TYPE_I32
#undef REGISTERS
#undef PASSED
#undef EACH
#undef ALL
#undef LIST
#undef TYPED_TABLE
#undef ENTRY_STREAMS
#undef ENTRY_UNARY_HALVES
#undef ENTRY_HALVES
