/* gemm_amx.c - products of bfloat16 on the tile unit (gemm_amx.h).
 *
 * A tile has 16 rows of a line each; one instruction adds a tile of a [16][32] times a tile of b
 * [32][16] to 16 x 16 sums. Both operands are packed, tile behind tile, padded with zeros, as pairs
 * along k in 32 bits: a [row][pair], b [pair][column].
 *
 *   strip    32 columns of b: two tiles for each 32 of k, for all k; packed once for all rows
 *   block    rows of a, packed so that PACKED_TILES of k stay in L2, times columns of b, in groups
 *            whose sums are kept as floats
 *   kernel   2 x 2 tiles of sums: BLOCK_TILES of a strip lie in L1, a's rows stream by from L2, and
 *            what comes next of the strips is fetched to there
 *
 * The unit makes 16 x 16 x 32 multiplications in 16 cycles; the kernel reaches 2 TF/s of its 2.3.
 *
 * Invariant: an element of c is one chain of sums along k, in tiles of 32: equal bits wherever c is
 * cut.
 * Threads: parallel_for over strips, then over blocks, or over products; the unit's state is a
 * thread's own and is given back after each part.
 *
 * Fast path: bfloat16_sgemm_512, bfloat16_mlp_forward (docs/paths.md).
 */
#define PF_ALL_INTRINSICS /* amx-tile */
#include "base/machine.h"
#include "gemm/gemm_amx.h"
#include "vec/half.h"

#if PF_GEMM_AMX
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SIDE = 16, PAIRS = 16, TILE_WORDS = SIDE * PAIRS, STRIP = 2 * SIDE };
enum { BLOCK_TILES = 16, PACKED_TILES = 32, PACKED_WORDS = PF_L2_BYTES / 8 };
enum { ROWS_LEAST = 128, ROWS_MOST = 1024, TASKS = 2, LEAST_DEPTH = 16, AHEAD_ROWS = 8 };
/* columns of a group; more where a is packed again for each */
enum { GROUP = 128, GROUP_PACKED = 512 };
enum { OWN_BYTES = PF_L2_BYTES }; /* of b that a thread packs for itself */
#define LEAST_FLOPS 6.0e4
#define SPLIT_FLOPS 3.0e7              /* from here threads are worth theirs */
#define TASK_FLOPS 4.0e6               /* of products in a batch */
#define PACK_FLOPS 16                  /* work of packing one element of b, about */
#define PART_ELEMENTS 1.0e5

/* ---------------------------------------------------------------- the unit */
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

static int asks_for_it(void) {
  return pf_has_tiles() && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

int PF_ISA_NAME(pf_gemm_has_amx)(void) {
  static _Atomic int known; /* 0: not asked, 1: no, 2: yes */
  int has = atomic_load_explicit(&known, memory_order_relaxed);
  if (!has) atomic_store_explicit(&known, has = 1 + asks_for_it(), memory_order_relaxed);
  return has == 2;
}

#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16,avx512bf16")
/* GCC's intrinsics do not say that they read what p points to. */
#define READ_BY_UNIT(p) __asm__ volatile("" ::"r"(p) : "memory")

static void unit_on(void) {
  _Alignas(64) struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {.palette = 1};
  for (int i = 0; i < 8; i++) config.row_bytes[i] = 4 * PAIRS, config.rows[i] = SIDE;
  READ_BY_UNIT(&config);
  _tile_loadconfig(&config);
}
static void unit_off(void) { _tile_release(); }

/* 32 x 32 sums of so many tiles of k; a's lower 16 rows are `next` words on. */
static void sums_32(const uint32_t *a, int64_t next, const uint32_t *b, int64_t tiles, float *c,
                    int64_t ldc, int add) {
  const int64_t row = ldc * 4;
  float *low = c + SIDE * ldc;
  READ_BY_UNIT(a);
  if (add) {
    _tile_loadd(0, c, row);
    _tile_loadd(1, c + SIDE, row);
    _tile_loadd(2, low, row);
    _tile_loadd(3, low + SIDE, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (; tiles > 0; tiles--, a += TILE_WORDS, b += 2 * TILE_WORDS) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + TILE_WORDS, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + next, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, row);
  _tile_stored(1, c + SIDE, row);
  _tile_stored(2, low, row);
  _tile_stored(3, low + SIDE, row);
}

/* 16 x 32 of them. */
static void sums_16(const uint32_t *a, const uint32_t *b, int64_t tiles, float *c, int64_t ldc,
                    int add) {
  const int64_t row = ldc * 4;
  READ_BY_UNIT(a);
  if (add) {
    _tile_loadd(0, c, row);
    _tile_loadd(1, c + SIDE, row);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  for (; tiles > 0; tiles--, a += TILE_WORDS, b += 2 * TILE_WORDS) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + TILE_WORDS, 64);
    _tile_dpbf16ps(1, 4, 7);
  }
  _tile_stored(0, c, row);
  _tile_stored(1, c + SIDE, row);
}

/* Rows of sums, which have no denormals, as bfloat16. */
static void round_sums(const float *x, int64_t ldx, uint16_t *y, int64_t ldy, int64_t m,
                       int64_t n) {
  for (int64_t r = 0; r < m; r++, x += ldx, y += ldy) {
    for (int64_t i = 0; i < n; i += 32) {
      const __mmask32 some = n - i >= 32 ? ~0u : (1u << (n - i)) - 1;
      const __m512bh both =
          _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16), _mm512_loadu_ps(x + i));
      __builtin_prefetch(y + AHEAD_ROWS * ldy + i, 1, 3);
      _mm512_mask_storeu_epi16(y + i, some, (__m512i)both);
    }
  }
}
#pragma GCC pop_options

/* ---------------------------------------------------------------- packing */
/* An operand [w][k] or [k][w]: element (w, k) at x[w * step_w + k * step_k], one of them 1. */
typedef struct {
  const uint16_t *x;
  int64_t step_w, step_k, w, k;
} operand;

static operand operand_a(const pf_gemm *g) {
  return (operand){g->a, g->a_row, g->a_col, g->m, g->k};
}
static operand operand_b(const pf_gemm *g) {
  return (operand){g->b, g->b_col, g->b_row, g->n, g->k};
}
/* Rows of the tile as they lie in memory are rows of w. */
static int lies_along(const operand *o) { return o->step_k == 1 && (o->k > 1 || o->step_w != 1); }

static __m512i low_of(const uint16_t *x, int count) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), x));
}

/* The 16 x 16 words at w, k: [w][pair], or [pair][w]. */
PF_INLINE void load_tile(const operand *o, int64_t w, int64_t k, const int along, __m512i *r) {
  const int64_t wide = PF_MIN(SIDE, o->w - w), deep = PF_MIN(2 * PAIRS, o->k - k);
  if (along) {
    const __mmask32 some = deep == 32 ? ~0u : (1u << deep) - 1;
#pragma GCC unroll 16
    for (int64_t i = 0; i < SIDE; i++)
      r[i] = i < wide ? _mm512_maskz_loadu_epi16(some, o->x + (w + i) * o->step_w + k)
                      : _mm512_setzero_si512();
    return;
  }
  const uint16_t *x = o->x + k * o->step_k + w;
#pragma GCC unroll 16
  for (int64_t i = 0; i < PAIRS; i++, x += 2 * o->step_k) {
    r[i] = 2 * i < deep ? low_of(x, (int)wide) : _mm512_setzero_si512();
    if (2 * i + 1 < deep)
      r[i] = _mm512_or_si512(r[i], _mm512_slli_epi32(low_of(x + o->step_k, (int)wide), 16));
  }
}

PF_INLINE void turn_tile(__m512i *r) {
  __m512i s[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    s[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    s[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) { /* r[i + j]: column j of each quarter, rows i .. i + 3 */
    r[i] = _mm512_unpacklo_epi64(s[i], s[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(s[i], s[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(s[i + 1], s[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(s[i + 1], s[i + 3]);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    s[j] = _mm512_shuffle_i32x4(r[j], r[j + 4], 0x88);
    s[j + 4] = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0x88);
    s[j + 8] = _mm512_shuffle_i32x4(r[j], r[j + 4], 0xdd);
    s[j + 12] = _mm512_shuffle_i32x4(r[j + 8], r[j + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) {
    r[j] = _mm512_shuffle_i32x4(s[j], s[j + 4], 0x88);
    r[j + 8] = _mm512_shuffle_i32x4(s[j], s[j + 4], 0xdd);
    r[j + 4] = _mm512_shuffle_i32x4(s[j + 8], s[j + 12], 0x88);
    r[j + 12] = _mm512_shuffle_i32x4(s[j + 8], s[j + 12], 0xdd);
  }
}

PF_INLINE void pack_tile(const operand *o, int64_t w, int64_t k, const int along, const int turned,
                         uint32_t *to) {
  __m512i r[16];
  load_tile(o, w, k, along, r);
  if (turned) turn_tile(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) _mm512_store_si512(to + 16 * i, r[i]);
}

static int64_t tiles_of(int64_t k) { return (k + 2 * PAIRS - 1) / (2 * PAIRS); }
static int64_t strips_of(int64_t n) { return (n + STRIP - 1) / STRIP; }

/* Tile `k` of strip j of b. */
static void pack_b(const operand *b, int64_t j, int64_t k, uint32_t *strips) {
  uint32_t *to = strips + (j * tiles_of(b->k) + k) * 2 * TILE_WORDS;
  const int64_t w = j * STRIP;
  for (int half = 0; half < 2; half++, to += TILE_WORDS)
    if (w + half * SIDE >= b->w) memset(to, 0, 4 * TILE_WORDS);
    else if (lies_along(b)) pack_tile(b, w + half * SIDE, 2 * PAIRS * k, 1, 1, to);
    else pack_tile(b, w + half * SIDE, 2 * PAIRS * k, 0, 0, to);
}

/* Parts of b that are packed one after the other: strips of columns that lie along k; else tiles of
 * k, whose rows are read on and on. */
static int64_t parts_of(const operand *b) {
  return lies_along(b) ? strips_of(b->w) : tiles_of(b->k);
}
static void pack_part(const operand *b, int64_t part, uint32_t *strips) {
  if (lies_along(b))
    for (int64_t k = 0; k < tiles_of(b->k); k++) pack_b(b, part, k, strips);
  else
    for (int64_t j = 0; j < strips_of(b->w); j++) pack_b(b, j, part, strips);
}

/* Rows [i, i + 16 rows) of a, tiles of k [first, first + tiles). */
static void pack_a(const operand *a, int64_t i, int64_t rows, int64_t first, int64_t tiles,
                   uint32_t *to) {
  if (lies_along(a)) {
    for (int64_t r = 0; r < rows; r++)
      for (int64_t k = 0; k < tiles; k++, to += TILE_WORDS)
        pack_tile(a, i + r * SIDE, (first + k) * 2 * PAIRS, 1, 0, to);
    return;
  }
  for (int64_t k = 0; k < tiles; k++)
    for (int64_t r = 0; r < rows; r++)
      pack_tile(a, i + r * SIDE, (first + k) * 2 * PAIRS, 0, 1, to + (r * tiles + k) * TILE_WORDS);
}

/* ---------------------------------------------------------------- a block */
typedef struct {
  const pf_gemm_call *p;
  int floats;
  int64_t rows, columns, across; /* of a block; blocks side by side */
  int64_t strip_words;
  uint32_t *strips; /* of one product; or of each thread */
  char *work;
  uint64_t worker_bytes;
} call;

static int64_t group_of(int64_t k) { return tiles_of(k) <= PACKED_TILES ? GROUP : GROUP_PACKED; }

typedef struct {
  const pf_gemm *g;
  const uint32_t *strips;
  int64_t i, m, j, n; /* of c; j in whole strips */
  float *sums;        /* of a group of columns */
  int64_t ld;
  uint32_t *packed; /* its rows of a: tiles of k [first, first + all) */
  int64_t first, all;
} block;

/* Tiles of k [k, k + deep) of the strip at column j, into the sums at s. */
static void strip_sums(const block *b, int64_t k, int64_t deep, int64_t j, float *s) {
  const int64_t rows = (b->m + SIDE - 1) / SIDE;
  const uint32_t *strip = b->strips + (j / STRIP * tiles_of(b->g->k) + k) * 2 * TILE_WORDS;
  const int add = k > 0 || b->g->add;
  const char *ahead = (const char *)(strip + deep * 2 * TILE_WORDS);
  const int64_t share = deep * 2 * TILE_WORDS * 4 / ((rows + 1) / 2);
  for (int64_t r = 0; r < rows; r += 2, s += STRIP * b->ld) {
    for (const char *end = ahead + share; ahead < end; ahead += 64) __builtin_prefetch(ahead, 0, 2);
    const uint32_t *a = b->packed + (r * b->all + k - b->first) * TILE_WORDS;
    if (r + 1 < rows) sums_32(a, b->all * TILE_WORDS, strip, deep, s, b->ld, add);
    else sums_16(a, strip, deep, s, b->ld, add);
  }
}

static void start(const block *b, int64_t j, int64_t n) {
  for (int64_t r = 0; r < b->m; r++)
    memcpy(b->sums + r * b->ld, (const float *)b->g->c + (b->i + r) * b->g->ldc + j, (size_t)n * 4);
}

static void finish(const block *b, int64_t j, int64_t n, int floats) {
  const pf_gemm *g = b->g;
  const int64_t i = b->i;
  if (g->epilogue) {
    pf_epilogue e = *g->epilogue;
    if (e.row_bias) e.row_bias = (const float *)e.row_bias + i;
    if (e.col_bias) e.col_bias = (const float *)e.col_bias + j;
    if (e.side) e.side = (const float *)e.side + i * e.ld_side + j;
    pf_epilogue_f32(&e, b->sums, b->ld, b->m, n);
  }
  if (!floats && !g->epilogue) {
    round_sums(b->sums, b->ld, (uint16_t *)g->c + i * g->ldc + j, g->ldc, b->m, n);
    return;
  }
  for (int64_t r = 0; r < b->m; r++) {
    const int64_t at = (i + r) * g->ldc + j;
    if (floats) memcpy((float *)g->c + at, b->sums + r * b->ld, (size_t)n * 4);
    else halves_write(PF_BFLOAT16, b->sums + r * b->ld, (uint16_t *)g->c + at, n);
  }
}

/* Groups of columns: fewer where all of a's rows are packed at once. */
static void run_block(block *b, int floats) {
  const operand a = operand_a(b->g);
  const int64_t tiles = tiles_of(b->g->k), group = b->ld;
  for (int64_t j = b->j, end = b->j + b->n; j < end; j += group) {
    const int64_t n = PF_MIN(group, end - j);
    if (b->g->add) start(b, j, n);
    for (b->first = 0; b->first < tiles; b->first += b->all) {
      b->all = PF_MIN(PACKED_TILES, tiles - b->first);
      if (b->all < tiles || j == b->j)
        pack_a(&a, b->i, (b->m + SIDE - 1) / SIDE, b->first, b->all, b->packed);
      const int64_t behind = b->first + b->all;
      for (int64_t q = 0; q < n; q += STRIP)
        for (int64_t k = b->first; k < behind; k += BLOCK_TILES)
          strip_sums(b, k, PF_MIN(BLOCK_TILES, behind - k), j + q, b->sums + q);
    }
    finish(b, j, n, floats);
  }
}

static block block_of(const call *t, const pf_gemm *g, const uint32_t *strips, int32_t worker) {
  const int64_t ld = group_of(g->k);
  float *sums = (float *)(t->work + t->worker_bytes * (uint64_t)worker);
  return (block){
    .g = g, .strips = strips, .sums = sums, .ld = ld, .packed = (uint32_t *)(sums + t->rows * ld)};
}

/* ---------------------------------------------------------------- one product, a batch */
static void pack_parts(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const call *t = arg;
  const operand b = operand_b(&t->p->g);
  (void)worker;
  for (int64_t i = lo; i < hi; i++) pack_part(&b, i, t->strips);
}

static void run_blocks(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const call *t = arg;
  const pf_gemm *g = &t->p->g;
  block b = block_of(t, g, t->strips, worker);
  unit_on();
  for (int64_t at = lo; at < hi; at++) {
    b.i = at / t->across * t->rows, b.m = PF_MIN(t->rows, g->m - b.i);
    b.j = at % t->across * t->columns, b.n = PF_MIN(t->columns, g->n - b.j);
    run_block(&b, t->floats);
  }
  unit_off();
}

static void run_products(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const call *t = arg;
  const pf_gemm_call *p = t->p;
  uint32_t *strips = t->strips + t->strip_words * worker;
  pf_gemm g = p->g;
  block b = block_of(t, &g, strips, worker);
  unit_on();
  for (int64_t at = lo; at < hi; at++) {
    g.a = (const uint16_t *)p->g.a + p->a_at[at];
    g.b = (const uint16_t *)p->g.b + p->b_at[at];
    g.c = (char *)p->g.c + at * g.m * g.n * (t->floats ? 4 : 2);
    const operand o = operand_b(&g);
    for (int64_t i = 0; i < parts_of(&o); i++) pack_part(&o, i, strips);
    b.n = g.n;
    for (b.i = 0; b.i < g.m; b.i += t->rows) {
      b.m = PF_MIN(t->rows, g.m - b.i);
      run_block(&b, t->floats);
    }
  }
  unit_off();
}

/* Rows and columns of a block: what is packed of a stays in L2, and each thread has its blocks. */
static void cut(call *t, int64_t workers, double flops) {
  const pf_gemm *g = &t->p->g;
  const double cost = flops + PACK_FLOPS * (double)g->n * (double)g->k;
  const int64_t wanted = cost < SPLIT_FLOPS || workers == 1 ? 1 : TASKS * workers;
  const int64_t deep = PF_MIN(tiles_of(g->k), PACKED_TILES);
  int64_t rows = PF_MIN(PACKED_WORDS / (deep * TILE_WORDS) * SIDE, ROWS_MOST);
  rows = PF_MIN(rows, PF_MAX((g->m + wanted - 1) / wanted, ROWS_LEAST));
  t->rows = (PF_MIN(rows, g->m) + STRIP - 1) / STRIP * STRIP;
  const int64_t down = (g->m + t->rows - 1) / t->rows, across = (wanted + down - 1) / down;
  t->columns = strips_of((g->n + across - 1) / across) * STRIP;
  t->across = (g->n + t->columns - 1) / t->columns;
}

static pf_status no_memory(pf_ctx *c) {
  return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for packing matrices");
}

static pf_status take_work(pf_ctx *c, call *t, int64_t workers) {
  const int64_t deep = PF_MIN(tiles_of(t->p->g.k), PACKED_TILES);
  const int64_t words = t->rows * group_of(t->p->g.k) + t->rows / SIDE * deep * TILE_WORDS;
  t->worker_bytes = (uint64_t)words * 4;
  t->work = pf_gemm_scratch(c, t->p->room, t->worker_bytes * (uint64_t)workers);
  return t->work ? PF_OK : no_memory(c);
}

static pf_status run_one(pf_ctx *c, call *t, int64_t workers, double flops) {
  const pf_gemm *g = &t->p->g;
  const operand b = operand_b(g);
  const int64_t parts = parts_of(&b);
  cut(t, workers, flops);
  PF_TRY(take_work(c, t, workers));
  t->strips = pf_gemm_scratch(c, t->p->room, (uint64_t)t->strip_words * 4);
  if (!t->strips) return no_memory(c);
  const double each = (double)g->n * (double)g->k / (double)parts;
  PF_TRY(c->host->parallel_for(c, parts, 1 + (int64_t)(PART_ELEMENTS / each), pack_parts, t));
  return c->host->parallel_for(c, (g->m + t->rows - 1) / t->rows * t->across, 1, run_blocks, t);
}

pf_status PF_ISA_NAME(pf_gemm_run_amx)(pf_ctx *c, const pf_gemm_call *p, int floats) {
  const pf_gemm *g = &p->g;
  const double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k;
  const int64_t workers = c->host->workers(c);
  int64_t words = tiles_of(g->k) * 2 * TILE_WORDS, bytes;
  if (flops < LEAST_FLOPS || g->k < LEAST_DEPTH) return PF_DECLINE;
  if (p->batches > 1 && g->epilogue) return PF_DECLINE;
  if (!pf_mul(words, strips_of(g->n), &words) || !pf_mul(words, 4, &bytes)) return no_memory(c);
  call t = {.p = p, .floats = floats, .strip_words = words};
  if (p->batches <= 1) return run_one(c, &t, workers, flops);
  if (bytes <= OWN_BYTES) {
    cut(&t, 1, flops);
    PF_TRY(take_work(c, &t, workers));
    t.strips = pf_gemm_scratch(c, p->room, (uint64_t)bytes * (uint64_t)workers);
    if (!t.strips) return no_memory(c);
    return c->host->parallel_for(c, p->batches, 1 + (int64_t)(TASK_FLOPS / flops), run_products,
                                 &t);
  }
  pf_gemm_room room = {0};
  for (int64_t i = 0; i < p->batches; i++) { /* large: one after the other */
    pf_gemm_call one = *p;
    call u = t;
    one.g.a = (const uint16_t *)g->a + p->a_at[i];
    one.g.b = (const uint16_t *)g->b + p->b_at[i];
    one.g.c = (char *)g->c + i * g->m * g->n * (floats ? 4 : 2);
    one.room = &room;
    room.next = 0;
    u.p = &one;
    PF_TRY(run_one(c, &u, workers, flops));
  }
  return PF_OK;
}
#endif
