/* conv_depthwise.c - the arithmetic of DepthwiseConv2dNative and its gradients (depthwise.h), per
 * instruction set.
 *
 * Invariants: every number is one sum in a fixed order, for any number of threads.  Sizes were
 * checked by conv_layout.c.  Threads: parallel_for over rows, or over filter taps.
 */
#include "conv.h"
#include "tile_types.h"
#include "transpose.h"

#define TILE_F32
#include "tile_begin.h"
#include "depthwise.h"
#include "tile_end.h"
#define TILE_F64
#include "tile_begin.h"
#include "depthwise.h"
#include "tile_end.h"
