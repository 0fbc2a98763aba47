/* gemm_tile.h - micro-kernels of matrix products, for the element type of tile_begin.h.
 *
 *     c[r, j] (+)= sum over p < k:  a(r, p) * b[p * ldb + j]        r < mr, j < cols
 *
 * A micro-kernel is compiled for every number of vectors and rows there is, so that no row is
 * computed twice. Its last vector is masked where it is not whole and the instruction set has
 * masks, so b may lie where it is or in panels padded with zeros. Where half a vector takes half
 * the time (GEMM_HALVES) and holds the last columns, it is VH, half a vector; narrow tiles are of
 * half vectors only: in a mixture the whole ones crowd one of the two multipliers (8 rows of 10
 * doubles take 13.6 cycles a step, and 12 of half vectors). One, two or four columns behind one or
 * two whole halves are tails: one half vector holds those of several rows (11 cycles; 10 floats 6.2
 * instead of 8).
 *
 * Where b comes from the second cache, rows of it are fetched FETCH_ROWS ahead and the tile of c
 * before its sums are ready; and the panel that is read after this one, a part of it in each tile,
 * from the third cache into the second (`next`).
 *
 * Invariant: an element of c is one chain of fused multiply-adds in the order of p, whatever the
 * tile: results do not depend on blocking.
 * Threads: pure; writes only c.
 */
typedef struct {
  const T *a;
  int64_t a_row, a_col, k; /* element (r, p) at a[r * a_row + p * a_col] */
  const T *b;
  int64_t ldb;
  T *c;
  int64_t ldc;
  int cols, add, stream;        /* stream: c goes past the caches; whole lines */
  const char *next;             /* NULL: b is near, nothing is fetched */
  int64_t next_step, next_part; /* bytes of it fetched in a step of k, in a tile */
} TILE(micro);

PF_INLINE void TILE(micro_store)(const TILE(micro) * t, V acc[][GEMM_WIDE], VH *halves,
                                 const int nv, const int mr, const int half) {
  const int left = t->cols - (nv - 1) * VL;
  const int64_t ldc = t->ldc;
  T *c = t->c;
  if (t->add) {
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
      const T *from = c + r * ldc;
#pragma GCC unroll 8
      for (int v = 0; v < nv - 1; v++) acc[r][v] += V_LOAD(from + v * VL);
      if (half) halves[r] += VH_LOAD_PART(from + (nv - 1) * VL, left);
      else acc[r][nv - 1] += V_LOAD_PART(from + (nv - 1) * VL, left);
    }
  }
  if (nv == GEMM_NV && !half && t->stream) {
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++, c += ldc)
#pragma GCC unroll 8
      for (int v = 0; v < nv; v++) V_STREAM(c + v * VL, acc[r][v]);
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < mr; r++, c += ldc) {
#pragma GCC unroll 8
    for (int v = 0; v < nv - 1; v++) V_STORE(c + v * VL, acc[r][v]);
    if (half) VH_STORE_PART(c + (nv - 1) * VL, halves[r], left);
    else V_STORE_PART(c + (nv - 1) * VL, acc[r][nv - 1], left);
  }
}

/* c[j * ldc + r] = acc[r][j], TURNED rows of nv vectors */
PF_INLINE void TILE(store_turned)(const TILE(micro) * t, V acc[][GEMM_WIDE], const int nv) {
#if GEMM_TURNED
#pragma GCC unroll 4
  for (int v = 0; v < nv; v++) {
    V x[GEMM_TURNED];
#pragma GCC unroll 8
    for (int r = 0; r < GEMM_TURNED; r++) x[r] = acc[r][v];
    if (v < nv - 1) V_TURN(x, t->c + v * VL * t->ldc, t->ldc, VL);
    else V_TURN(x, t->c + v * VL * t->ldc, t->ldc, t->cols - v * VL);
  }
#endif
}

PF_INLINE T TILE(a_at)(const a_rows *a, const int r) {
  const char *at = a->third[r / 3];
  return *(const T *)(r % 3 == 0 ? at : r % 3 == 1 ? at + a->row : at + a->row_2);
}

PF_INLINE a_rows TILE(rows_of)(const TILE(micro) * t) {
  return a_rows_of(t->a, t->a_row * (int64_t)sizeof(T), t->a_col * (int64_t)sizeof(T));
}

/* The sums of all k. fetch: rows of b and shares of `next` are fetched. */
PF_INLINE void TILE(micro_sums)(const TILE(micro) * t, V acc[][GEMM_WIDE], VH *halves, const int nv,
                                const int mr, const int masked, const int half, const int fetch) {
  a_rows a = TILE(rows_of)(t);
  const int64_t ldb = t->ldb, next_step = t->next_step;
  const T *b = t->b, *ahead = b + FETCH_ROWS * ldb;
  const char *next = t->next;
  const int left = t->cols - (nv - 1) * VL, full = nv - half;
  GEMM_HIDE(ahead);
  for (int64_t p = t->k; p > 0; p--, b += ldb, ahead += ldb, next += next_step) {
    V bv[GEMM_WIDE];
    VH bh = {0};
#pragma GCC unroll 8
    for (int v = 0; v < full; v++) {
      bv[v] = masked && v == nv - 1 ? V_LOAD_PART(b + v * VL, left) : V_LOAD(b + v * VL);
      if (mr > 1) GEMM_HOLD(bv[v]);
      if (fetch) GEMM_FETCH(ahead + v * VL, 0, 3);
    }
    if (fetch) GEMM_FETCH(next, 0, 2);
    if (half) bh = VH_LOAD_PART(b + full * VL, left);
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
      V x = V_SET(TILE(a_at)(&a, r));
#pragma GCC unroll 8
      for (int v = 0; v < full; v++) acc[r][v] = V_FMA(x, bv[v], acc[r][v]);
      if (half) halves[r] = VH_FMA(VH_OF(x), bh, halves[r]);
    }
    a_rows_step(&a, mr);
  }
}

/* far: whether b and `next` may be so. Where the last vector is whole it is not masked: Intel's
 * processors take a multiplier's time for a mask. */
PF_INLINE void TILE(micro_body)(const TILE(micro) * t, const int nv, const int mr, const int half,
                                const int turned, const int far) {
  V acc[GEMM_ROWS][GEMM_WIDE];
  VH halves[GEMM_ROWS];
  const int part = half || (GEMM_MASKS && t->cols < nv * VL), fetch = far && t->next;
#pragma GCC unroll 16
  for (int r = 0; r < mr; r++) {
    halves[r] = (VH){0};
#pragma GCC unroll 8
    for (int v = 0; v < nv - half; v++) acc[r][v] = (V){0};
  }
  if (fetch) {
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
      for (int v = 0; v < nv; v++) GEMM_FETCH(t->c + r * t->ldc + v * VL, 1, 3);
    if (part) TILE(micro_sums)(t, acc, halves, nv, mr, GEMM_MASKS, 0, far);
    else TILE(micro_sums)(t, acc, halves, nv, mr, 0, 0, far);
  } else if (part) {
    TILE(micro_sums)(t, acc, halves, nv, mr, GEMM_MASKS, half, 0);
  } else {
    TILE(micro_sums)(t, acc, halves, nv, mr, 0, half, 0);
  }
  if (turned) TILE(store_turned)(t, acc, nv);
  else TILE(micro_store)(t, acc, halves, nv, mr, half);
}

#define GEMM_MICRO(nv, mr) \
  __attribute__((noinline)) static void TILE(micro_##nv##_##mr)(const TILE(micro) *t) { \
    TILE(micro_body)(t, nv, mr, 0, 0, nv >= GEMM_FAR_NV); \
  }
GEMM_EACH_MICRO(GEMM_MICRO)
GEMM_EACH_WIDE(GEMM_MICRO)
#undef GEMM_MICRO

typedef void (*TILE(micro_run))(const TILE(micro) *);
#define GEMM_MICRO(nv, mr) [nv][mr] = TILE(micro_##nv##_##mr),
static const TILE(micro_run) TILE(micros)[GEMM_WIDE + 1][GEMM_ROWS + 1] = {
  GEMM_EACH_MICRO(GEMM_MICRO) GEMM_EACH_WIDE(GEMM_MICRO)};
#undef GEMM_MICRO

#if GEMM_TURNED
/* Tiles of c^T. */
#define GEMM_MICRO(nv, mr) \
  __attribute__((noinline)) static void TILE(turned_##nv)(const TILE(micro) *t) { \
    TILE(micro_body)(t, nv, mr, 0, 1, 0); \
  }
GEMM_MICRO(1, GEMM_TURNED)
GEMM_MICRO(2, GEMM_TURNED)
GEMM_MICRO(3, GEMM_TURNED)
#undef GEMM_MICRO
static const TILE(micro_run)
    TILE(turned)[] = {NULL, TILE(turned_1), TILE(turned_2), TILE(turned_3)};
#endif

#if GEMM_HALVES
/* The same of half vectors only, the last of them masked. */
PF_INLINE void TILE(half_body)(const TILE(micro) * t, const int nh, const int mr) {
  VH acc[GEMM_ROWS][2 * GEMM_ALL_HALVES - 1];
  a_rows a = TILE(rows_of)(t);
  const T *b = t->b;
  const int64_t ldb = t->ldb;
  const int left = t->cols - (nh - 1) * VHL;
#pragma GCC unroll 16
  for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
    for (int v = 0; v < nh; v++) acc[r][v] = (VH){0};
  for (int64_t p = t->k; p > 0; p--, b += ldb) {
    VH bv[2 * GEMM_ALL_HALVES - 1];
#pragma GCC unroll 8
    for (int v = 0; v < nh - 1; v++) bv[v] = VH_LOAD(b + v * VHL);
    bv[nh - 1] = VH_LOAD_PART(b + (nh - 1) * VHL, left);
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
      const VH x = VH_SET(TILE(a_at)(&a, r));
#pragma GCC unroll 8
      for (int v = 0; v < nh; v++) acc[r][v] = VH_FMA(x, bv[v], acc[r][v]);
    }
    a_rows_step(&a, mr);
  }
  const int64_t ldc = t->ldc;
  T *c = t->c;
  if (t->add) {
#pragma GCC unroll 16
    for (int r = 0; r < mr; r++) {
      const T *from = c + r * ldc;
#pragma GCC unroll 8
      for (int v = 0; v < nh - 1; v++) acc[r][v] += VH_LOAD(from + v * VHL);
      acc[r][nh - 1] += VH_LOAD_PART(from + (nh - 1) * VHL, left);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < mr; r++, c += ldc) {
#pragma GCC unroll 8
    for (int v = 0; v < nh - 1; v++) VH_STORE(c + v * VHL, acc[r][v]);
    VH_STORE_PART(c + (nh - 1) * VHL, acc[r][nh - 1], left);
  }
}
#define GEMM_MICRO(nv, mr) \
  __attribute__((noinline)) static void TILE(half_##nv##_##mr)(const TILE(micro) *t) { \
    if (nv <= GEMM_ALL_HALVES) TILE(half_body)(t, 2 * nv - 1, mr); \
    else TILE(micro_body)(t, nv, mr, 1, 0, 0); \
  }
GEMM_EACH_MICRO(GEMM_MICRO)
#undef GEMM_MICRO
#define GEMM_MICRO(nv, mr) [nv][mr] = TILE(half_##nv##_##mr),
static const TILE(micro_run)
    TILE(halves)[GEMM_NV + 1][GEMM_ROWS + 1] = {GEMM_EACH_MICRO(GEMM_MICRO)};
#undef GEMM_MICRO
#endif

#if GEMM_HALVES
PF_INLINE void TILE(tails_store)(const TILE(micro) * t, VH acc[][GEMM_ALL_HALVES], VH *tails,
                                 const int full, const int tail) {
  const int64_t ldc = t->ldc;
  T *c = t->c, buf[GEMM_ROWS * (VHL / 2)];
  if (t->add) {
    for (int r = 0; r < GEMM_ROWS; r++)
      memcpy(buf + r * tail, c + r * ldc + full * VHL, sizeof(T) * (size_t)tail);
#pragma GCC unroll 16
    for (int r = 0; r < GEMM_ROWS; r++)
#pragma GCC unroll 8
      for (int v = 0; v < full; v++) acc[r][v] += VH_LOAD(c + r * ldc + v * VHL);
#pragma GCC unroll 8
    for (int i = 0; i < GEMM_ROWS * tail / VHL; i++) tails[i] += VH_LOAD(buf + i * VHL);
  }
#pragma GCC unroll 8
  for (int i = 0; i < GEMM_ROWS * tail / VHL; i++) VH_STORE(buf + i * VHL, tails[i]);
#pragma GCC unroll 16
  for (int r = 0; r < GEMM_ROWS; r++, c += ldc) {
#pragma GCC unroll 8
    for (int v = 0; v < full; v++) VH_STORE(c + v * VHL, acc[r][v]);
    memcpy(c + full * VHL, buf + r * tail, sizeof(T) * (size_t)tail);
  }
}

/* GEMM_ROWS rows of `full` half vectors and `tail` columns behind them. A vector of tails is of
 * `group` rows: lane l belongs to row l / tail. Its factor is blended by masks: with a constant
 * pattern, vblendps, it would take a multiplier's time. */
PF_INLINE void TILE(tails_body)(const TILE(micro) * t, const int full, const int tail) {
  const int group = VHL / tail;
  VH acc[GEMM_ROWS][GEMM_ALL_HALVES], tails[GEMM_ROWS];
  a_rows a = TILE(rows_of)(t);
  const T *b = t->b;
  const int64_t ldb = t->ldb;
#pragma GCC unroll 16
  for (int r = 0; r < GEMM_ROWS; r++) {
    tails[r / group] = (VH){0};
#pragma GCC unroll 8
    for (int v = 0; v < full; v++) acc[r][v] = (VH){0};
  }
  for (int64_t p = t->k; p > 0; p--, b += ldb) {
    VH bv[GEMM_ALL_HALVES], mixed = {0};
#pragma GCC unroll 8
    for (int v = 0; v < full; v++) bv[v] = VH_LOAD(b + v * VHL);
    const VH bt = VH_REPEAT(b + full * VHL, tail);
#pragma GCC unroll 16
    for (int r = 0; r < GEMM_ROWS; r++) {
      VH x = VH_SET(TILE(a_at)(&a, r));
      GEMM_HOLD(x);
      const int i = r % group;
      mixed = i ? VH_BLEND((1u << VHL) - (1u << i * tail), mixed, x) : x;
#pragma GCC unroll 8
      for (int v = 0; v < full; v++) acc[r][v] = VH_FMA(x, bv[v], acc[r][v]);
      if (i == group - 1) tails[r / group] = VH_FMA(mixed, bt, tails[r / group]);
    }
    a_rows_step(&a, GEMM_ROWS);
  }
  TILE(tails_store)(t, acc, tails, full, tail);
}
#define GEMM_MICRO(full, tail) \
  __attribute__((noinline)) static void TILE(tails_##full##_##tail)(const TILE(micro) *t) { \
    TILE(tails_body)(t, full, tail); \
  }
GEMM_EACH_TAIL(GEMM_MICRO)
#undef GEMM_MICRO
#define GEMM_MICRO(full, tail) [full * VHL + tail] = TILE(tails_##full##_##tail),
static const TILE(micro_run)
    TILE(tails)[(GEMM_ALL_HALVES + 1) * VHL] = {GEMM_EACH_TAIL(GEMM_MICRO)};
#undef GEMM_MICRO
#endif

/* Rows [0, m) of nv vectors' columns, in tiles of nearly equal height. */
static void TILE(micro_rows)(TILE(micro) * t, int nv, int64_t m) {
  const int most = gemm_rows(nv);
  const TILE(micro_run) *runs = TILE(micros)[nv];
#if GEMM_HALVES
  const TILE(micro_run) tails = t->cols < (GEMM_ALL_HALVES + 1) * VHL ? TILE(tails)[t->cols] : NULL;
  for (; tails && m >= GEMM_ROWS; m -= GEMM_ROWS) {
    tails(t);
    t->a += GEMM_ROWS * t->a_row;
    t->c += GEMM_ROWS * t->ldc;
  }
  if (nv <= GEMM_NV && t->cols - (nv - 1) * VL <= VHL) runs = TILE(halves)[nv];
#endif
  for (int64_t tiles = (m + most - 1) / most; tiles > 0; tiles--) {
    int64_t mr = (m + tiles - 1) / tiles;
    runs[mr](t);
    t->a += mr * t->a_row;
    t->c += mr * t->ldc;
    if (t->next) t->next += t->next_part;
    m -= mr;
  }
}
