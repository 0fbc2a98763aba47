/* conv_depthwise.c - the arithmetic of DepthwiseConv2dNative and its gradients (depthwise.h), per
 * instruction set.
 *
 * Invariants: every number is one sum in a fixed order, for any number of threads.  Sizes were
 * checked by conv_layout.c.  Threads: parallel_for over rows, or over filter taps.
 */
#include "base/machine.h"
#include "conv/conv.h"
#include "vec/half.h"
#include "gemm/tile_types.h"
#include "move/transpose.h"

enum { RUN_BYTES = PF_L1_BYTES / 2 }; /* of the image that a run of output pixels sees */

#define TILE_F32
#include "gemm/tile_begin.h"
#include "conv/depthwise.h"
#include "gemm/tile_end.h"
#define TILE_F64
#include "gemm/tile_begin.h"
#include "conv/depthwise.h"
#include "gemm/tile_end.h"

/* ---------------------------------------------------------------- halves */
/* With AVX-512, vectors of halves are widened as they are loaded, where the filter allows it. */
#if defined(__AVX512F__)
#define AFTER(d, row) (void)0
#define TILE_F16
#include "gemm/tile_begin.h"
#include "conv/depthwise_halves.h"
#include "gemm/tile_end.h"
#define TILE_BF16
#include "gemm/tile_begin.h"
#include "conv/depthwise_halves.h"
#include "gemm/tile_end.h"
#undef AFTER
static pf_status roll_halves(pf_ctx *c, const pf_conv_call *call, int32_t type) {
  return type == PF_FLOAT16 ? roll_halves_f16(c, call) : roll_halves_bf16(c, call);
}
#else
static pf_status roll_halves(pf_ctx *c, const pf_conv_call *call, int32_t type) {
  (void)c, (void)call, (void)type;
  return PF_DECLINE;
}
#endif

/* Elsewhere a few rows of output at a time: the rows they see are widened into the nearest caches,
 * and the results are rounded from there. */
enum { STRIP_BYTES = PF_L2_BYTES * 3 / 16 };
typedef struct {
  const pf_conv_call *call; /* x and out are halves, the rest is float */
  int32_t type;
  int64_t rows, strips; /* of output in a strip; strips of an image */
  int64_t in, all;      /* floats of a strip's input; with its output */
  float *work;
} depth_strips;

static void run_strips(void *arg, int64_t lo, int64_t hi, int32_t worker) {
  const depth_strips *s = arg;
  const pf_conv *g = s->call->g;
  const int64_t x_row = g->w * g->c, out_row = g->ow * g->c;
  float *in = s->work + worker * s->all, *out = in + s->in;
  for (int64_t i = lo; i < hi; i++) {
    const int64_t image = i / s->strips, y = i % s->strips * s->rows, top = y * g->sh - g->pt;
    pf_conv strip = *g;
    pf_epilogue after;
    strip.n = 1, strip.oh = PF_MIN(s->rows, g->oh - y);
    const int64_t from = PF_MIN(PF_MAX(top, 0), g->h),
                  end = PF_MIN(top + (strip.oh - 1) * g->sh + (g->kh - 1) * g->dh + 1, g->h);
    strip.h = PF_MAX(end - from, 0), strip.pt = from - top;
    halves_read(s->type, (const uint16_t *)s->call->x + (image * g->h + from) * x_row, in,
                strip.h * x_row);
    const int64_t at = (image * g->oh + y) * out_row;
    depth_f32 d = {&strip, in, s->call->f, out, NULL};
    if (s->call->after) {
      after = *s->call->after, d.after = &after;
      if (after.side) after.side = (const float *)after.side + at;
    }
    if (rolls_f32(g)) roll_pairs_f32(&d, 0, (strip.oh + 1) / 2, worker);
    else depth_forward_f32(&d, 0, strip.oh, worker);
    halves_write(s->type, out, (uint16_t *)s->call->out + at, strip.oh * out_row);
  }
}

pf_status PF_ISA_NAME(pf_depth_forward_halves)(pf_ctx *c, const pf_conv_call *call, int32_t type) {
  const pf_status rolled = roll_halves(c, call, type);
  if (rolled != PF_DECLINE) return rolled;
  const pf_conv *g = call->g;
  const int64_t row = (PF_MIN(g->sh, g->h) * g->w + g->ow) * g->c * 4;
  depth_strips s = {.call = call, .type = type};
  s.rows = PF_MIN(PF_MAX(STRIP_BYTES / row / 2 * 2, 2), (g->oh + 1) / 2 * 2);
  s.strips = (g->oh + s.rows - 1) / s.rows;
  s.in = ((s.rows - 1) * g->sh + (g->kh - 1) * g->dh + 1) * g->w * g->c;
  s.in = (PF_MIN(s.in, g->h * g->w * g->c) + 15) / 16 * 16;
  s.all = (s.in + s.rows * g->ow * g->c + 15) / 16 * 16;
  s.work = c->host->scratch(c, (uint64_t)(s.all * c->host->workers(c)) * 4, 64);
  if (!s.work) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for rows in float");
  return pf_parallel(c, g->n * s.strips, pf_grain(s.rows * g->ow * g->c * g->kh * g->kw),
                     run_strips, &s);
}

/* PF_DECLINE: not of stride 1. */
pf_status PF_ISA_NAME(pf_depth_input_halves)(pf_ctx *c, const pf_conv_call *call, int32_t type) {
  pf_conv g;
  pf_conv_call forward = {.g = &g, .x = call->dy, .out = call->out};
  if (!turned_sizes_f32(call->g, &g)) return PF_DECLINE;
  PF_TRY(turned_filter_f32(c, call, &forward.f));
  return PF_ISA_NAME(pf_depth_forward_halves)(c, &forward, type);
}
