/* conv_grad.c - the arithmetic of Conv2DBackpropFilter (conv_weights.h), one copy per instruction
 * set.
 *
 * Invariants
 *   1. The order of every sum follows from the sizes alone: equal bits for any number of threads.
 *   2. Sizes were checked by conv_layout.c.
 * Threads: parallel_for over tiles of the filter, or over fixed parts of the batch; a worker has
 * its own strips.
 */
#include "conv.h"
#include "tile_types.h"

enum { STRIP_BYTES = 256 * 1024, MAX_STRIP_ROWS = 128, MANY_TILES = 16, MAX_PARTS = 8 };

#define TILE_F32
#include "tile_begin.h"
#include "conv_weights.h"
#include "tile_end.h"
#define TILE_F64
#include "tile_begin.h"
#include "conv_weights.h"
#include "tile_end.h"
