/* conv_winograd.c - 3x3 convolution of stride 1 with constant float filters, by Winograd's minimal
 * filtering F(4x4, 3x3): a quarter of the products.
 *
 *     y = A' [ (G f G') . (B' d B) ] A        for a tile of 4x4 outputs from 6x6 inputs d
 *
 * summed over input channels, which makes 36 matrix products [tiles, in] x [in, out].  The points
 * of interpolation are 0, +-5/8, +-3/2 and infinity: exact in binary, and with them the error of a
 * sum over 256 channels is 1.7 times that of the plain sum (root of mean squares; with the usual 0,
 * +-1, +-2 it is 3.7 times).
 *
 * Invariants
 *   1. Sizes alone choose this form (pf_winograd_pays); how threads share the work changes no sum.
 *   2. Filters are transformed once, in double, and packed [panel][36][in][panel width].
 *   3. What lies outside the image reads as zero; outputs outside are not written.
 * Threads: parallel_for over tiles (input transform), then over blocks of tiles times panels.
 *
 * Sources: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015); Toom-Cook
 * interpolation with other points as in Alam et al., Winograd Convolution for Deep Neural Networks:
 * Efficient Point Selection (2022).
 *
 * Fast path: resnet50, vgg19 (docs/paths.md).
 */
#include "base/machine.h"
#include "conv/conv.h"
#include "gemm/tile_types.h"

#define TILE_F32
#include "gemm/tile_begin.h"
#include "conv/conv_tile.h"

/* OUT, IN: outputs and inputs of a tile along one side; SPOTS: products */
enum { OUT = 4, IN = 6, SPOTS = 36, BLOCK = 28, LEAST_TILES = 12, MOST_PARTS = 4 };
enum { SHARED_BYTES = PF_L3_BYTES };
/* in * out of filters that are transformed: for any image, for MANY_TILES */
enum { MOST_PRODUCTS = 256 * 256, MOST_OF_MANY = 512 * 512, MANY_TILES = 40, LEAST_CHANNELS = 16 };
static const double PA = 0.625, PB = 1.5;
#define A1 0.625f
#define B1 1.5f
#define A2 (A1 * A1)
#define B2 (B1 * B1)

static int64_t tiles_along(int64_t n) { return (n + OUT - 1) / OUT; }

/* Products saved against work added: elements of transforms cost about 250 (inputs) and 220
 * (outputs) vector operations a tile; many tiles must share the filters, which are four times as
 * large. */
int PF_ISA_NAME(pf_winograd_pays)(const pf_conv *g) {
  int64_t tiles = g->n * tiles_along(g->oh) * tiles_along(g->ow), in = g->c, out = g->oc;
  if (g->kh != 3 || g->kw != 3 || g->sh != 1 || g->sw != 1 || g->dh != 1 || g->dw != 1) return 0;
  if (g->groups != 1 || tiles < LEAST_TILES || !pf_conv_compact(g)) return 0;
  if (in < LEAST_CHANNELS || out < LEAST_CHANNELS) return 0;
  if (in * out > (tiles >= MANY_TILES ? MOST_OF_MANY : MOST_PRODUCTS)) return 0;
  double plain = 9.0 * (double)(g->n * g->oh * g->ow) * (double)in * (double)out;
  double here =
      (double)tiles * (40.0 * (double)in * (double)out + 250.0 * (double)in + 220.0 * (double)out);
  return plain > 1.3 * here;
}

/* ---------------------------------------------------------------- filters */
/* G times three values: six. */
static void filter_line(const double *f, int64_t step, double *to, int64_t to_step) {
  const double f0 = f[0], f1 = f[step], f2 = f[2 * step];
  const double na = 2 * PA * PA * (PA * PA - PB * PB), nb = 2 * PB * PB * (PB * PB - PA * PA);
  to[0] = f0 / (PA * PA * PB * PB);
  to[to_step] = (f0 + PA * f1 + PA * PA * f2) / na;
  to[2 * to_step] = (f0 - PA * f1 + PA * PA * f2) / na;
  to[3 * to_step] = (f0 + PB * f1 + PB * PB * f2) / nb;
  to[4 * to_step] = (f0 - PB * f1 + PB * PB * f2) / nb;
  to[5 * to_step] = f2;
}

int64_t PF_ISA_NAME(pf_winograd_size)(const pf_conv *g) {
  return SPOTS * g->c * panels_width_f32(g->oc);
}

/* f [3, 3, in, out] -> [panel][36][in][panel width], zeros beyond `out`. */
void PF_ISA_NAME(pf_winograd_pack)(const pf_conv *g, const float *f, float *to) {
  const int64_t plane = g->c * g->oc;
  for (int64_t j = 0; j < g->oc; j += TILE_NV * VL) {
    const int64_t w = tile_nv_f32(g->oc, j) * VL;
    for (int64_t i = 0; i < g->c; i++)
      for (int64_t o = 0; o < w; o++) {
        double taps[9] = {0}, half[18], all[SPOTS];
        for (int t = 0; t < 9 && j + o < g->oc; t++) taps[t] = f[t * plane + i * g->oc + j + o];
        for (int c = 0; c < 3; c++) filter_line(taps + c, 3, half + c, 3);
        for (int r = 0; r < IN; r++) filter_line(half + 3 * r, 1, all + IN * r, 1);
        for (int p = 0; p < SPOTS; p++) to[(p * g->c + i) * w + o] = (float)all[p];
      }
    to += SPOTS * g->c * w;
  }
}

/* ---------------------------------------------------------------- the work */
typedef struct {
  const pf_conv *g;
  const float *x, *filters;
  float *out;
  const pf_epilogue *after;
  int64_t th, tw, first, tiles; /* tiles of an image; tiles at hand */
  int64_t panels, whole, parts; /* product_tasks */
  float *v;                     /* transformed inputs: [block][36][tiles of it][in] */
  float *sums;                  /* per worker: [36][tiles of a block][panel width] */
} work;

/* B' times six values. */
PF_INLINE void input_line(const V *d, int step, V *to, int to_step) {
  const V s = V_SET(A2 + B2), p = V_SET(A2 * B2), a2 = V_SET(A2), b2 = V_SET(B2);
  const V d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step];
  const V u = d4 - b2 * d2, v = V_SET(A1) * (d3 - b2 * d1);
  const V x = d4 - a2 * d2, y = V_SET(B1) * (d3 - a2 * d1);
  to[0] = V_FMA(p, d[0], d4 - s * d2);
  to[to_step] = u + v;
  to[2 * to_step] = u - v;
  to[3 * to_step] = x + y;
  to[4 * to_step] = x - y;
  to[5 * to_step] = V_FMA(p, d1, d[5 * step] - s * d3);
}

/* A' times six values: four. */
PF_INLINE void output_line(const V *m, int step, V *to, int to_step) {
  const V a = m[step] + m[2 * step], b = m[step] - m[2 * step];
  const V c = m[3 * step] + m[4 * step], d = m[3 * step] - m[4 * step];
  to[0] = m[0] + a + c;
  to[to_step] = V_FMA(V_SET(A1), b, V_SET(B1) * d);
  to[2 * to_step] = V_FMA(V_SET(A2), a, V_SET(B2) * c);
  to[3 * to_step] = V_FMA(V_SET(A1 * A2), b, V_FMA(V_SET(B1 * B2), d, m[5 * step]));
}

/* One vector of channels of a tile; rows and columns [.., ..) of it lie inside the image. */
typedef struct { int64_t r0, r1, c0, c1; } inside;

PF_INLINE void input_tile(const float *x, int64_t row, int64_t c, const inside *in, int left,
                          float *v, int64_t spot) {
  V d[SPOTS], half[SPOTS];
  const int full = left >= VL;
#pragma GCC unroll 6
  for (int r = 0; r < IN; r++)
#pragma GCC unroll 6
    for (int q = 0; q < IN; q++) {
      const float *at = x + r * row + q * c;
      const int there = r >= in->r0 && r < in->r1 && q >= in->c0 && q < in->c1;
      d[r * IN + q] = !there ? (V){0} : full ? V_LOAD(at) : V_LOAD_PART(at, left);
    }
#pragma GCC unroll 6
  for (int q = 0; q < IN; q++) input_line(d + q, IN, half + q, IN);
#pragma GCC unroll 6
  for (int r = 0; r < IN; r++) input_line(half + r * IN, 1, d + r * IN, 1);
#pragma GCC unroll 36
  for (int p = 0; p < SPOTS; p++) {
    if (full) V_STORE(v + p * spot, d[p]);
    else V_STORE_PART(v + p * spot, d[p], left);
  }
}

/* Tiles [lo, hi) of those at hand. */
static void input_tasks(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const work *w = arg;
  const pf_conv *g = w->g;
  (void)worker;
  for (int64_t t = lo; t < hi; t++) {
    const int64_t tile = w->first + t, image = tile / (w->th * w->tw), at = tile % (w->th * w->tw);
    const int64_t y = at / w->tw * OUT - g->pt, x = at % w->tw * OUT - g->pl;
    const int64_t block = t / BLOCK, count = PF_MIN(BLOCK, w->tiles - block * BLOCK);
    const inside in = {PF_MAX(-y, 0), PF_MIN(g->h - y, IN), PF_MAX(-x, 0), PF_MIN(g->w - x, IN)};
    const float *src = w->x + ((image * g->h + y) * g->w + x) * g->c;
    float *v = w->v + block * BLOCK * SPOTS * g->c + (t - block * BLOCK) * g->c;
    for (int64_t c = 0; c < g->c; c += VL)
      input_tile(src + c, g->w * g->c, g->c, &in, (int)PF_MIN(g->c - c, VL), v + c, count * g->c);
  }
}

/* The outputs of one tile for one vector of channels. */
static void output_tile(const work *w, int64_t tile, int64_t channel, const float *m,
                        int64_t spot) {
  const pf_conv *g = w->g;
  const pf_epilogue *e = w->after;
  const int64_t image = tile / (w->th * w->tw), at = tile % (w->th * w->tw);
  const int64_t y = at / w->tw * OUT, x = at % w->tw * OUT;
  const int64_t rows = PF_MIN(OUT, g->oh - y), cols = PF_MIN(OUT, g->ow - x);
  const int left = (int)PF_MIN(g->oc - channel, VL), clamp = e && e->act && e->act <= PF_ACT_RELU6;
  const V high = V_SET(e && e->act == PF_ACT_RELU6 ? 6 : INFINITY);
  V d[SPOTS], half[OUT * IN], s[OUT * OUT], bias = {0};
#pragma GCC unroll 36
  for (int p = 0; p < SPOTS; p++) d[p] = V_LOAD(m + p * spot);
#pragma GCC unroll 6
  for (int q = 0; q < IN; q++) output_line(d + q, IN, half + q, IN);
#pragma GCC unroll 4
  for (int r = 0; r < OUT; r++) output_line(half + r * IN, 1, s + r * OUT, 1);
  if (e && e->col_bias) bias = V_LOAD_PART((const float *)e->col_bias + channel, left);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t q = 0; q < cols; q++) {
      const int64_t to = ((image * g->oh + y + r) * g->ow + x + q) * g->oc + channel;
      V z = s[r * OUT + q];
      if (e && e->col_bias) z += bias;
      if (e && e->side) z += V_LOAD_PART((const float *)e->side + to, left);
      if (clamp) z = clamp_f32(z, V_SET(0), high);
      if (left == VL) V_STORE(w->out + to, z);
      else V_STORE_PART(w->out + to, z, left);
      if (e && e->act > PF_ACT_RELU6) pf_activate_f32(e->act, (float)e->alpha, w->out + to, left);
    }
}

/* Tiles [t0, t1) of a block times the panel at channel j. */
static void product_part(const work *w, int64_t block, int64_t t0, int64_t t1, int64_t j,
                         float *sums) {
  const pf_conv *g = w->g;
  const int64_t all = PF_MIN(BLOCK, w->tiles - block * BLOCK), count = t1 - t0;
  const int nv = tile_nv_f32(g->oc, j), width = nv * VL;
  static const int64_t zero = 0;
  for (int64_t p = 0; p < SPOTS; p++) {
    row_tile_f32 t = {.a = w->v + (block * BLOCK * SPOTS + p * all + t0) * g->c,
                      .a_px = g->c,
                      .off = &zero,
                      .runs = 1,
                      .len = g->c,
                      .b = w->filters + SPOTS * g->c * j + p * g->c * width,
                      .c = sums + p * count * width,
                      .c_px = width,
                      .cols = width};
    row_run_f32(&t, count, nv);
  }
  for (int64_t i = 0; i < count; i++)
    for (int v = 0; v < nv; v++)
      output_tile(w, w->first + block * BLOCK + t0 + i, j + v * VL, sums + i * width + v * VL,
                  count * width);
}

/* Units: a block of tiles times a panel; those behind `whole`, which threads could not share
 * evenly, come in `parts` parts. */
static void product_tasks(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const work *w = arg;
  float *sums = w->sums + worker * SPOTS * BLOCK * TILE_NV * VL;
  for (int64_t task = lo; task < hi; task++) {
    const int64_t split = task - w->whole, parts = split < 0 ? 1 : w->parts;
    const int64_t unit = split < 0 ? task : w->whole + split / parts;
    const int64_t part = split < 0 ? 0 : split % parts;
    const int64_t block = unit / w->panels, tiles = PF_MIN(BLOCK, w->tiles - block * BLOCK);
    product_part(w, block, tiles * part / parts, tiles * (part + 1) / parts,
                 unit % w->panels * (TILE_NV * VL), sums);
  }
}

/* The products of the tiles at hand. */
static pf_status run_products(pf_ctx *c, work *w) {
  const int64_t units = (w->tiles + BLOCK - 1) / BLOCK * w->panels, workers = c->host->workers(c);
  w->parts = PF_MIN(workers, MOST_PARTS);
  w->whole = units - units % workers;
  return pf_parallel(c, w->whole + (units - w->whole) * w->parts, 1, product_tasks, w);
}

pf_status PF_ISA_NAME(pf_winograd_forward)(pf_ctx *c, const pf_conv_call *call,
                                           const float *filters) {
  const pf_conv *g = call->g;
  work w = {.g = g,
            .x = call->x,
            .filters = filters,
            .out = call->out,
            .after = call->after,
            .th = tiles_along(g->oh),
            .tw = tiles_along(g->ow),
            .panels = (g->oc + TILE_NV * VL - 1) / (TILE_NV * VL)};
  const int64_t all = g->n * w.th * w.tw, tile = SPOTS * g->c;
  int64_t most = SHARED_BYTES / (tile * (int64_t)sizeof(float)) / BLOCK * BLOCK;
  most = PF_MIN(PF_MAX(most, BLOCK), all);
  w.v = c->host->scratch(c, (uint64_t)(most * tile) * sizeof(float), 64);
  w.sums = c->host->scratch(
      c, (uint64_t)(c->host->workers(c) * SPOTS * BLOCK * TILE_NV * VL) * sizeof(float), 64);
  if (!w.v || !w.sums) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for transformed images");
  for (w.first = 0; w.first < all; w.first += w.tiles) {
    w.tiles = PF_MIN(most, all - w.first);
    PF_TRY(pf_parallel(c, w.tiles, 4, input_tasks, &w));
    PF_TRY(run_products(c, &w));
  }
  return PF_OK;
}
#include "gemm/tile_end.h"
