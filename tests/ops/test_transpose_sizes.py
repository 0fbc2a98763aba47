"""Transposes of sizes that fill no tile, and of results that are stored past the caches."""
import numpy as np
import pytest
from exact import assert_same

import pyflow as tf

SHAPES = (((1031, 2049), (1, 0)), ((1024, 4096), (1, 0)), ((7, 131, 53), (2, 0, 1)),
          ((33, 129, 257), (0, 2, 1)), ((64, 1024, 64), (1, 0, 2)), ((1500001, 3), (1, 0)),
          ((3, 1500001), (1, 0)), ((2047, 1025), (1, 0)), ((1025, 4100), (1, 0)),
          ((129, 65536), (1, 0)), ((3, 2049, 517), (2, 1, 0)))


BEGIN_INSIDE_LINES = (((2047, 4099), (1, 0)), ((4096, 2049), (1, 0)), ((2049, 4096), (1, 0)),
                      ((259, 33001), (1, 0)), ((15, 600001), (1, 0)), ((33001, 259), (1, 0)),
                      ((3, 2053, 1409), (0, 2, 1)), ((1089, 7777), (1, 0)))
# along whole rows: more than are kept at a time, several pieces, batches
LONG_ROWS = (((333, 17001), (1, 0)), ((8301, 701), (1, 0)), ((8304, 704), (1, 0)),
             ((3, 1037, 1301), (0, 2, 1)), ((2, 1024, 2048), (0, 2, 1)), ((128, 16385), (1, 0)))
SMALL = (np.uint8, np.float16, np.float32)
CASES = [(*case, dtype) for case in SHAPES for dtype in (*SMALL, np.float64, np.complex128)]
CASES += [(*case, dtype) for case in BEGIN_INSIDE_LINES for dtype in SMALL]
CASES += [(*case, dtype) for case in LONG_ROWS for dtype in (np.float32, np.float64)]


@pytest.mark.parametrize("shape, order, dtype", CASES)
def test_transpose(shape, order, dtype):
    data = np.resize(np.arange(251).astype(dtype), shape)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(data.dtype, shape)
        found = session.run(tf.transpose(x, order), {x: data})
    assert_same(found, data.transpose(order))
