/* conv_grad.c - the arithmetic of Conv2DBackpropFilter (conv_weights.h), one copy per instruction
 * set.
 *
 * Invariants
 *   1. The order of every sum follows from the sizes alone: equal bits for any number of threads.
 *   2. Sizes were checked by conv_layout.c.
 * Threads: parallel_for over tiles of the filter, or over fixed parts of the batch; a worker has
 * its own strips, or all read strips that were prepared before.
 */
#include "base/machine.h"
#include "conv/conv.h"
#include "gemm/tile_types.h"

enum { STRIP_BYTES = PF_L2_BYTES * 3 / 8, SLOT_BYTES = PF_L3_BYTES, MAX_STRIP_ROWS = 256 };
/* TILE_K: rows of a tile of the filter, whole tiles of registers for every number of vectors */
enum { MANY_TILES = 16, MAX_PARTS = 8, TILE_K = 24 };

#define TILE_F32
#include "gemm/tile_begin.h"
#include "conv/conv_weights.h"
#include "gemm/tile_end.h"
#define TILE_F64
#include "gemm/tile_begin.h"
#include "conv/conv_weights.h"
#include "gemm/tile_end.h"
