"""Random graphs: the executor against the naive interpreter, gradients included.

hypothesis draws a list of steps; each step applies a function to earlier tensors and is dropped
where shapes do not
fit.  A failing graph shrinks to a small one.
"""
import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st
from interpret import evaluate

import pyflow as tf

ONE = [tf.negative, tf.square, tf.tanh, tf.nn.relu, tf.abs, tf.sigmoid, tf.exp, tf.sin,
       tf.nn.softplus, tf.identity,
       tf.zeros_like, tf.ones_like, tf.stop_gradient, tf.transpose,
       lambda x: tf.reshape(x, [-1]), lambda x: tf.expand_dims(x, 0), lambda x: tf.reduce_sum(x, 0),
       lambda x: tf.reduce_mean(x, -1, keepdims=True), lambda x: tf.reduce_max(x),
       lambda x: x[..., ::-1],
       lambda x: x[1:], lambda x: x[0], lambda x: tf.tile(x, [2] + [1] * (x.shape.ndims - 1)),
       lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), lambda x: tf.cumsum(x, 0),
       lambda x: tf.pad(x, [[1, 0]] * x.shape.ndims), lambda x: tf.nn.softmax(x),
       lambda x: tf.split(x, 2, -1)[1], lambda x: tf.unstack(x)[-1],
       lambda x: tf.clip_by_value(x, -0.5, 0.5),
       lambda x: tf.gather(x, [0, 0]), lambda x: tf.squeeze(x),
       lambda x: 1.0 / (1.0 + tf.square(x))]
TWO = [tf.add, tf.subtract, tf.multiply, tf.maximum, tf.minimum, tf.squared_difference, tf.atan2,
       tf.matmul,
       lambda x, y: tf.matmul(x, y, transpose_b=True), lambda x, y: tf.concat([x, y], 0),
       lambda x, y: tf.stack([x, y], 1), lambda x, y: tf.where(x > y, x, y), lambda x,
       y: tf.add_n([x, y, x]),
       lambda x, y: tf.where_v2(x > 0, y, x), lambda x, y: tf.div_no_nan(x, y), lambda x,
       y: tf.tensordot(x, y, 1)]

STEPS = st.lists(st.tuples(st.integers(0, len(ONE) + len(TWO) - 1), st.integers(0, 30),
                           st.integers(0, 30)),
                 min_size=1, max_size=25)
SHAPES = [(2, 3), (3,), (), (3, 2), (1, 3), (4, 2, 2)]
LARGEST = 400


def grow(steps, known):
    """The placeholders and the tensors of the steps that fit."""
    tensors = [tf.placeholder(tf.float32, s if known else [None] * len(s)) for s in SHAPES]
    inputs = list(tensors)
    for which, i, j in steps:
        x, y = tensors[i % len(tensors)], tensors[j % len(tensors)]
        try:
            z = ONE[which](x) if which < len(ONE) else TWO[which - len(ONE)](x, y)
        except (ValueError, TypeError, IndexError):
            continue
        if not known or z.shape.num_elements() <= LARGEST:
            tensors.append(z)
    return inputs, tensors[len(inputs):]


@settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_executor_agrees_with_the_interpreter(steps):
    with tf.Graph().as_default():
        inputs, tensors = grow(steps, known=True)
        floats = [t for t in tensors if t.dtype == tf.float32]
        grads = [g for g in tf.gradients(floats, inputs) if g is not None] if floats else []
        fetched = tensors + [tf.convert_to_tensor(g) for g in grads]
        rng = np.random.default_rng(len(steps))
        feeds = {x: rng.standard_normal(s).astype(np.float32) for x, s in zip(inputs, SHAPES)}
        wanted = evaluate(fetched, feeds)
        with tf.Session() as session:
            found = session.run(fetched, feeds)
    for tensor, got, expected in zip(fetched, found, wanted):
        scale = max(1.0, float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0)))
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5 * scale, err_msg=tensor.name)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_unknown_sizes_give_the_same_values(steps):
    """The same steps with placeholders of unknown dimensions: dynamic shapes, same numbers."""
    rng = np.random.default_rng(len(steps))
    arrays = [rng.standard_normal(s).astype(np.float32) for s in SHAPES]
    with tf.Graph().as_default():
        inputs, tensors = grow(steps, known=False)
        for tensor in tensors:
            feeds = dict(zip(inputs, arrays))
            try:
                wanted, = evaluate([tensor], feeds)
            except (ValueError, IndexError, TypeError):
                continue                    # shapes that do not fit, seen only with values
            if wanted.size > 20 * LARGEST:
                continue
            with tf.Session() as session:
                got = session.run(tensor, feeds)
            assert tensor.shape.is_compatible_with(got.shape)
            scale = max(1.0, float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0)))
            np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5 * scale,
                                       err_msg=tensor.name)
