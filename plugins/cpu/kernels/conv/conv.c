/* conv.c - the arithmetic of Conv2D and Conv2DBackpropInput (conv_slide.h), one copy per
 * instruction set.
 *
 * Invariants
 *   1. Every output pixel is summed in the order of filter rows, columns and channels, whatever the
 *      tasks.
 *   2. Sizes were checked by conv_layout.c: nothing here can overflow or read outside its arrays.
 * Threads: parallel_for over (image, rows, panels); a worker has its own strip.
 */
#include "base/machine.h"
#include "conv/conv.h"
#include "gemm/tile_types.h"

enum {
  STRIP_BYTES = PF_L2_BYTES * 3 / 16,
  PANEL_BYTES = PF_L2_BYTES / 4,
  MIN_TASKS = 16,
  MIN_PIXELS = 96
};
enum { PACK_BYTES = 2 * PF_L2_BYTES, PADDED_BYTES = PF_L3_BYTES, L2_SHARE = PF_L2_BYTES / 2 };
/* MAX_RUN: elements of the source added without a look at the next block of filters */
enum { MAX_RUN = 512, PANEL_TASKS = 8, BAND_ROWS = 8 };
enum { TASKS_EACH = 4, MIN_PATCH = 14 }; /* tasks a thread should find; pixels of one, at least */
enum { DOTS = 8, MAX_DOTS = 4 }; /* pixels side by side; most output channels for that form */

static int64_t forward_row0(const pf_conv *g, int64_t row) { return row * g->sh - g->pt; }
static int64_t forward_row1(const pf_conv *g, int64_t row) {
  return row * g->sh - g->pt + (g->kh - 1) * g->dh;
}
static int64_t input_row0(const pf_conv *g, int64_t row) {
  return pf_floor_div(row + g->pt - (g->kh - 1) * g->dh, g->sh);
}
static int64_t input_column0(const pf_conv *g) {
  return pf_floor_div(g->pl - (g->kw - 1) * g->dw, g->sw);
}
static int64_t input_row1(const pf_conv *g, int64_t row) {
  return pf_floor_div(row + g->pt, g->sh);
}

#define TILE_F32
#include "gemm/tile_begin.h"
#include "conv/conv_tile.h"
#include "conv/conv_slide.h"
#include "conv/conv_pass.h"
#include "gemm/tile_end.h"
#define TILE_F64
#include "gemm/tile_begin.h"
#include "conv/conv_tile.h"
#include "conv/conv_slide.h"
#include "conv/conv_pass.h"
#include "gemm/tile_end.h"
