"""Programs of element-wise ops as files may hold them, which the optimiser does not write."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import op as op_lib


def run_program(arrays, program, results):
    """Inputs are made in the step, so that nobody else needs their buffers."""
    make = op_lib.get_op("_FusedElementwise")
    with tf.Graph().as_default(), tf.Session() as session:
        fed = [tf.placeholder(tf.float32, (2,) + a.shape) for a in arrays]
        made = make([tf.reduce_sum(x, 0) for x in fed], program=program, results=results,
                    T=tf.float32, Tout=[tf.float32] * len(results))
        return session.run(list(made), {x: np.stack([a, 0 * a])
                                          for x, a in zip(fed, arrays)})


@pytest.mark.parametrize("rows", (1, 3, 300))
def test_results_of_unequal_shapes_read_the_inputs_again(rows):
    x, y = np.random.default_rng(rows).random((2, rows, 7), np.float32)
    row, all_ = run_program([x, y[0]], "Square 1;Add 2 1;Mul 0 3", [3, 4])
    np.testing.assert_array_equal(row, y[0] * y[0] + y[0])
    np.testing.assert_array_equal(all_, x * (y[0] * y[0] + y[0]))


@pytest.mark.parametrize("program, result", (("Square 1", 2), ("Mul 0 0;Square 1", 3)))
def test_an_input_that_no_result_needs_gives_no_shape(program, result):
    x, y = np.ones((50, 7), np.float32), np.arange(7, dtype=np.float32)
    (found,) = run_program([x, y], program, [result])
    np.testing.assert_array_equal(found, y * y)
