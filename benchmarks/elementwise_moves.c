/* elementwise_moves.c - bounds other than memory's of element-wise kernels, transposes and moves
 * (benchmarks/elementwise.py, column "bound"): each the best loop known for the job, never part of
 * pyflow.  Signature: elementwise_loops.h.
 */
#include "elementwise_loops.h"
