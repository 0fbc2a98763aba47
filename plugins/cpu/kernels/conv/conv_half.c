/* conv_half.c - convolutions of bfloat16 as matrix products, where the processor multiplies pairs
 * of them (gemm_half.c): twice the flops of float.
 *
 *   forward   windows of about PIXELS pixels, one behind the other as a matrix, times the filter
 *   input     the forward pass over dy with the filter turned round; stride 1 only
 *   filter    the same matrix of windows, transposed, times dy, summed in float over all pixels
 *
 * 1x1 filters of stride 1 need no matrix of windows: the image is one.
 *
 * Invariants: operands and results are compact NHWC bfloat16; the cut into pixels depends on sizes
 * only; sums are float, rounded once.  Threads: parallel_for over rows, and inside products.
 *
 * Fast path: conv_3x3, conv_1x1 (docs/paths.md).
 */
#include "conv/conv.h"
#include "gemm/gemm_amx.h"
#include "vec/half.h"
#include "move/transpose.h"

enum { PIXELS = 1024, PIXELS_SUMMED = 2048, LEAST_DEPTH = 16, LEAST_CHANNELS = 8 };
/* elements of a matrix of windows: fewer pixels make it from here on; of one row of pixels */
enum { ROOM = 1 << 25, ROOM_MOST = 1 << 27 };

static int pays(int64_t depth, int64_t width, int64_t channels) {
  return depth >= LEAST_DEPTH && channels >= LEAST_CHANNELS && width <= ROOM_MOST / depth;
}
int PF_ISA_NAME(pf_conv_in_pairs)(int32_t type, const pf_conv *g) {
  return type == PF_BFLOAT16 && pf_gemm_has_bf16() && g->groups == 1 &&
         pays(g->kh * g->kw * g->fc, g->ow, g->oc);
}
int PF_ISA_NAME(pf_conv_input_in_pairs)(int32_t type, const pf_conv *g) {
  return PF_ISA_NAME(pf_conv_in_pairs)(type, g) && g->sh == 1 && g->sw == 1 &&
         pays(g->kh * g->kw * g->oc, g->w, g->c);
}

/* ---------------------------------------------------------------- windows as a matrix */
static int64_t depth_of(const pf_conv *g) { return g->kh * g->kw * g->c; }
/* The image is its own matrix of windows. */
static int is_matrix(const pf_conv *g) {
  return g->kh * g->kw == 1 && g->sh == 1 && g->sw == 1 && !g->pt && !g->pl && g->oh == g->h &&
         g->ow == g->w;
}

typedef struct {
  const pf_conv *g;
  const uint16_t *x;
  uint16_t *to; /* windows of output row `first` and on */
  int64_t first;
} unfolding;

/* One row of a window: kw pixels from column z on, of a row of x. */
static void unfold_row(const pf_conv *g, const uint16_t *x, int64_t z, uint16_t *to) {
  const int64_t c = g->c;
  if (g->dw == 1) {
    const int64_t from = PF_MIN(PF_MAX(-z, 0), g->kw), end = PF_MAX(PF_MIN(g->w - z, g->kw), from);
    if (from) memset(to, 0, (size_t)(from * c) * 2);
    memcpy(to + from * c, x + (z + from) * c, (size_t)((end - from) * c) * 2);
    if (end < g->kw) memset(to + end * c, 0, (size_t)((g->kw - end) * c) * 2);
    return;
  }
  for (int64_t k = 0; k < g->kw; k++, z += g->dw, to += c)
    if (z >= 0 && z < g->w) memcpy(to, x + z * c, (size_t)c * 2);
    else memset(to, 0, (size_t)c * 2);
}
static void unfold(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const unfolding *u = arg;
  const pf_conv *g = u->g;
  const int64_t depth = depth_of(g), row = g->kw * g->c;
  (void)worker;
  for (int64_t i = lo; i < hi; i++) {
    const int64_t image = (u->first + i) / g->oh, top = (u->first + i) % g->oh * g->sh - g->pt;
    for (int64_t o = 0; o < g->ow; o++) {
      uint16_t *to = u->to + (i * g->ow + o) * depth;
      for (int64_t k = 0, y = top; k < g->kh; k++, y += g->dh, to += row)
        if (y >= 0 && y < g->h)
          unfold_row(g, u->x + (image * g->h + y) * g->w * g->c, o * g->sw - g->pl, to);
        else memset(to, 0, (size_t)row * 2);
    }
  }
}

/* Output rows [row, row + rows) of the batch as a matrix: *a. */
static pf_status windows(pf_ctx *c, const pf_conv *g, const void *x, int64_t row, int64_t rows,
                         uint16_t *room, const void **a) {
  unfolding u = {g, x, room, row};
  *a = room;
  if (!room) *a = (const uint16_t *)x + row * g->w * g->c;
  return room ? pf_parallel(c, rows, pf_grain(g->ow * depth_of(g)), unfold, &u) : PF_OK;
}
/* Rows of output that make about `pixels`, and room for their windows (NULL: no need). */
static pf_status make_room(pf_ctx *c, const pf_conv *g, int64_t pixels, int64_t *rows,
                           uint16_t **room) {
  int64_t bytes;
  *room = NULL;
  if (!is_matrix(g)) pixels = PF_MAX(PF_MIN(pixels, ROOM / depth_of(g)), 1);
  *rows = PF_MIN((pixels + g->ow - 1) / g->ow, g->n * g->oh);
  if (is_matrix(g)) return PF_OK;
  *room = pf_mul(*rows * g->ow, depth_of(g) * 2, &bytes) ? c->host->scratch(c, (uint64_t)bytes, 64)
                                                         : NULL;
  return *room ? PF_OK : pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for windows");
}

/* ---------------------------------------------------------------- the passes */
pf_status PF_ISA_NAME(pf_conv_forward_pairs)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  const int64_t depth = depth_of(g);
  int64_t rows;
  uint16_t *room;
  pf_gemm_room shared = {0};
  PF_TRY(make_room(c, g, is_matrix(g) ? INT32_MAX : PIXELS, &rows, &room));
  for (int64_t row = 0; row < g->n * g->oh; row += rows) {
    const int64_t some = PF_MIN(rows, g->n * g->oh - row), at = row * g->ow * g->oc;
    pf_epilogue e;
    pf_gemm_call p = {.type = PF_BFLOAT16, .batches = 1, .room = &shared};
    shared.next = 0;
    p.g = (pf_gemm){
      .m = some * g->ow, .n = g->oc, .k = depth, .b = call->f, .c = (uint16_t *)call->out + at};
    pf_gemm_layout(&p.g, 0, 0, depth, g->oc);
    PF_TRY(windows(c, g, call->x, row, some, room, &p.g.a));
    if (call->after) {
      e = *call->after;
      e.ld_side = g->oc;
      if (e.side) e.side = (const uint16_t *)e.side + at;
      p.g.epilogue = &e;
    }
    PF_TRY(PF_ISA_NAME(pf_gemm_run)(c, &p));
  }
  return PF_OK;
}

pf_status PF_ISA_NAME(pf_conv_input_pairs)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  const int64_t taps = g->kh * g->kw, plane = g->c * g->oc;
  pf_conv turned = *g;
  turned.h = g->oh, turned.w = g->ow, turned.oh = g->h, turned.ow = g->w;
  turned.c = turned.fc = g->oc, turned.oc = g->c;
  turned.pt = (g->kh - 1) * g->dh - g->pt, turned.pl = (g->kw - 1) * g->dw - g->pl;
  uint16_t *f = c->host->scratch(c, (uint64_t)(taps * plane) * 2, 64);
  if (!f) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a turned filter");
  for (int64_t k = 0; k < taps; k++)
    pf_movers()->transpose(2, (const uint16_t *)call->f + (taps - 1 - k) * plane, g->oc,
                           f + k * plane, g->c, g->c, g->oc);
  const pf_conv_call forward = {.g = &turned, .x = call->dy, .f = f, .out = call->out};
  return PF_ISA_NAME(pf_conv_forward_pairs)(c, &forward);
}

pf_status PF_ISA_NAME(pf_conv_filter_pairs)(pf_ctx *c, const pf_conv_call *call) {
  const pf_conv *g = call->g;
  const int64_t depth = depth_of(g), sums = depth * g->oc;
  int64_t rows;
  uint16_t *room;
  pf_gemm_room shared = {0};
  float *out = c->host->scratch(c, (uint64_t)sums * 4, 64);
  if (!out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a filter's gradient");
  PF_TRY(make_room(c, g, PIXELS_SUMMED, &rows, &room));
  for (int64_t row = 0; row < g->n * g->oh; row += rows) {
    const int64_t some = PF_MIN(rows, g->n * g->oh - row);
    pf_gemm_call p = {.type = PF_BFLOAT16, .batches = 1, .room = &shared};
    shared.next = 0;
    p.g = (pf_gemm){.m = depth,
                    .n = g->oc,
                    .k = some * g->ow,
                    .add = row > 0,
                    .c = out,
                    .b = (const uint16_t *)call->dy + row * g->ow * g->oc};
    pf_gemm_layout(&p.g, 1, 0, depth, g->oc);
    PF_TRY(windows(c, g, call->x, row, some, room, &p.g.a));
    PF_TRY(PF_ISA_NAME(pf_gemm_run_pairs)(c, &p));
  }
  halves_write(PF_BFLOAT16, out, call->out, sums);
  return PF_OK;
}
