"""Every way a product is computed (gemm.h), by shapes that choose it: value, and equal bits on any
number of threads."""
import numpy as np
import pytest

import pyflow as tf

# m, k, n: a row, a column, an outer product, few rows, few columns, odd edges of tiles, blocks of k
SHAPES = [(1, 1, 1), (1, 300, 7), (1, 1500, 1100), (1100, 1500, 1), (70, 1, 90), (3, 700, 500),
          (20, 400, 330), (330, 520, 9), (64, 64, 64), (37, 53, 29), (100, 100, 100),
          (450, 600, 380), (30, 0, 5),
          # half vectors at the end, dot products of every width, one dot product
          (68, 68, 68), (9, 21, 52), (32, 784, 10), (50, 300, 7), (7, 300, 51), (5, 260, 3),
          (2, 500, 310), (1, 1000, 1)]
TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3}
BATCHES = [((7, 17, 43), (7, 43, 11)), ((40, 4, 4), (40, 4, 4)), ((3, 1, 33, 20), (1, 5, 20, 18)),
           ((2, 300, 290), (2, 290, 310)), ((6, 1, 65), (6, 65, 40)),
           ((130, 130, 8), (130, 8, 130))]      # its halves go past the caches


def products(build, types, *data):
    """The product of float data in each type, on one and on two threads; equal bits."""
    found = {}
    with tf.Graph().as_default():
        fetched = {}
        for name in types:
            dtype = tf.as_dtype(name)
            arrays = [d.astype(dtype.as_numpy_dtype) for d in data]
            fetched[name] = build(*[tf.constant(a) for a in arrays])
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True  # not folded
        for threads in (1, 2):
            with tf.Session(config=config, threads=threads) as session:
                for name, value in session.run(fetched).items():
                    first = found.setdefault(name, value)
                    assert first.tobytes() == value.tobytes(), f"{name}: threads change bits"
    return found


def check(found, wanted):
    scale = max(1.0, np.abs(wanted).max(initial=0))
    for name, value in found.items():
        error = np.abs(value.astype(np.float64) - wanted).max(initial=0) / scale
        assert error <= TOLERANCE[name], f"{name}: {error}"


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("m, k, n", SHAPES)
def test_product(m, k, n, ta, tb):
    rng = np.random.default_rng(m + k + n)
    # numbers all types hold exactly
    a = rng.integers(-8, 9, (k, m) if ta else (m, k)).astype(np.float64)
    b = rng.integers(-8, 9, (n, k) if tb else (k, n)).astype(np.float64)
    found = products(lambda x, y: tf.matmul(x, y, transpose_a=ta, transpose_b=tb), TOLERANCE, a, b)
    check(found, (a.T if ta else a) @ (b.T if tb else b))


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("a, b", BATCHES)
def test_batch(a, b, ta, tb):
    rng = np.random.default_rng(len(a))
    x, y = (rng.integers(-8, 9, shape).astype(np.float64) for shape in (a, b))
    left = np.ascontiguousarray(np.swapaxes(x, -1, -2)) if ta else x
    right = np.ascontiguousarray(np.swapaxes(y, -1, -2)) if tb else y
    found = products(lambda p, q: tf.matmul(p, q, transpose_a=ta, transpose_b=tb), TOLERANCE, left,
                     right)
    check(found, x @ y)


def test_nan_and_infinity_pass_through():
    a = np.array([[1.0, np.inf, 2.0] + [0.0] * 30, [np.nan] + [1.0] * 32])
    b = np.ones((33, 5))
    found = products(tf.matmul, TOLERANCE, a, b)
    for name, value in found.items():
        assert np.isposinf(value[0].astype(np.float64)).all(), name
        assert np.isnan(value[1].astype(np.float64)).all(), name


@pytest.mark.parametrize("name", TOLERANCE)
def test_fused_epilogue_is_that_of_the_ops(name):
    """Bias, residual sum and activation in one kernel: the bits of four."""
    from pyflow.ops.fused_ops import _FusedMatMul
    rng = np.random.default_rng(5)
    dtype = tf.as_dtype(name)
    x, w, bias, side = (rng.integers(-4, 5, s).astype(dtype.as_numpy_dtype)
                        for s in ((50, 40), (40, 130), (130,), (50, 130)))
    with tf.Graph().as_default():
        fused = _FusedMatMul(x, w, [bias, side], fused_ops=["BiasAdd", "Add", "Relu"])
        plain = tf.nn.relu(tf.matmul(x, w) + bias + side)
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=config) as session:
            found, wanted = session.run([fused, plain])
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
