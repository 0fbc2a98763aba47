/* conv_planes.c - 1x1 convolutions of NCHW as matrix products of each image, [channels, pixels]:
 * nothing is turned; and the filter's gradient of NHWC as one product over all pixels.
 *
 *   y = f^T x     dx = f dy     df = sum over images of x dy^T          (f is [c, oc])
 *
 * Invariants: operands and results are compact NCHW (NHWC: ..._filter_pixels) of `type`; halves are
 * summed as float and rounded once.  Threads: inside products.
 */
#include "conv/conv.h"
#include "gemm/gemm_amx.h"
#include "vec/half.h"

enum { MANY_CHANNELS = 256 };

int PF_ISA_NAME(pf_conv_is_planes)(const pf_conv *g) {
  return g->kh * g->kw == 1 && g->sh == 1 && g->sw == 1 && !g->pt && !g->pl && g->groups == 1 &&
         g->oh == g->h && g->ow == g->w;
}

/* f^T (or f) [rows, depth] times each image [depth, pixels]. */
static pf_status times_images(pf_ctx *c, const pf_conv_call *call, int32_t type, const void *x,
                              int turned, int64_t rows, int64_t depth) {
  const pf_conv *g = call->g;
  const int64_t pixels = g->h * g->w, size = pf_type_size(type);
  pf_gemm_room shared = {0};
  for (int64_t i = 0; i < g->n; i++) {
    pf_epilogue e;
    pf_gemm_call p = {.type = type, .batches = 1, .room = &shared};
    shared.next = 0;
    p.g = (pf_gemm){.m = rows,
                    .n = pixels,
                    .k = depth,
                    .a = call->f,
                    .b = (const char *)x + i * depth * pixels * size,
                    .c = (char *)call->out + i * rows * pixels * size};
    pf_gemm_layout(&p.g, turned, 0, turned ? rows : depth, pixels);
    if (call->after) {
      e = *call->after;
      e.ld_side = pixels;
      if (e.side) e.side = (const char *)e.side + i * rows * pixels * size;
      p.g.epilogue = &e;
    }
    PF_TRY(PF_ISA_NAME(pf_gemm_run)(c, &p));
  }
  return PF_OK;
}
pf_status PF_ISA_NAME(pf_conv_forward_planes)(pf_ctx *c, const pf_conv_call *call, int32_t type) {
  return times_images(c, call, type, call->x, 1, call->g->oc, call->g->c);
}
pf_status PF_ISA_NAME(pf_conv_input_planes)(pf_ctx *c, const pf_conv_call *call, int32_t type) {
  return times_images(c, call, type, call->dy, 0, call->g->c, call->g->oc);
}

/* PF_DECLINE: a type that has no sums over several products. */
pf_status PF_ISA_NAME(pf_conv_filter_planes)(pf_ctx *c, const pf_conv_call *call, int32_t type) {
  const pf_conv *g = call->g;
  const int64_t pixels = g->h * g->w, size = pf_type_size(type), sums = g->c * g->oc;
  const int pairs = type == PF_BFLOAT16 && pf_gemm_has_bf16();
  if (pf_is_half(type) && !pairs) return PF_DECLINE;
  void *out = pairs ? c->host->scratch(c, (uint64_t)sums * 4, 64) : call->out;
  if (!out) return pf_fail(c, PF_RESOURCE_EXHAUSTED, "no memory for a filter's gradient");
  pf_gemm_room shared = {0};
  for (int64_t i = 0; i < g->n; i++) {
    pf_gemm_call p = {.type = type, .batches = 1, .room = &shared};
    shared.next = 0;
    p.g = (pf_gemm){.m = g->c,
                    .n = g->oc,
                    .k = pixels,
                    .add = i > 0,
                    .c = out,
                    .a = (const char *)call->x + i * g->c * pixels * size,
                    .b = (const char *)call->dy + i * g->oc * pixels * size};
    pf_gemm_layout(&p.g, 0, 1, pixels, pixels);
    PF_TRY(pairs ? PF_ISA_NAME(pf_gemm_run_pairs)(c, &p) : PF_ISA_NAME(pf_gemm_run)(c, &p));
  }
  if (pairs) halves_write(type, out, call->out, sums);
  return PF_OK;
}

/* x and dy are [pixels of all images, channels]. PF_DECLINE: fewer channels, of which the strips of
 * conv_weights.h see enough at a time. */
pf_status PF_ISA_NAME(pf_conv_filter_pixels)(pf_ctx *c, const pf_conv_call *call, int32_t type) {
  const pf_conv *g = call->g;
  if (pf_is_half(type) || g->c < MANY_CHANNELS) return PF_DECLINE;
  pf_gemm_call p = {.type = type, .batches = 1};
  p.g = (pf_gemm){
    .m = g->c, .n = g->oc, .k = g->n * g->h * g->w, .a = call->x, .b = call->dy, .c = call->out};
  pf_gemm_layout(&p.g, 1, 0, g->c, g->oc);
  return PF_ISA_NAME(pf_gemm_run)(c, &p);
}
