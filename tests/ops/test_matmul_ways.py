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
          (2, 500, 310), (1, 1000, 1),
          # few rows, b's rows in whole lines and not; b larger than the caches; one row in
          # registers
          (2, 37, 256), (3, 75, 1040), (3, 41, 700), (7, 900, 3600), (1, 90, 100), (1, 13, 128),
          # tiles of c^T turned in registers, dot products by fives, tiles of half vectors only
          (41, 33, 70), (24, 100, 56), (23, 300, 9), (19, 21, 20), (17, 43, 10), (10, 9, 3),
          (4, 4, 4),
          # tails of several rows in one vector, every number of columns that has them
          (11, 37, 5), (9, 20, 6), (8, 5, 9), (21, 30, 12), (12, 700, 17), (18, 9, 18),
          # wide stripes for few rows; b where it lies, deeper than a block; panels that are
          # fetched, c^T of several blocks added up
          (2, 300, 1000), (3, 64, 777), (25, 1100, 60), (90, 1500, 40), (130, 5300, 50),
          (260, 3100, 110), (70, 1500, 1100),
          # one dot product shorter than its four sums, columns behind the last whole vector, c^T of
          # a tall one
          (1, 15, 1), (1, 64, 1), (1, 77, 1), (100, 30, 52), (66, 20, 34), (1000, 20, 20)]
TOLERANCE = {"float32": 1e-5, "float64": 1e-13, "float16": 1e-3, "bfloat16": 8e-3}
BATCHES = [((7, 17, 43), (7, 43, 11)), ((40, 4, 4), (40, 4, 4)), ((3, 1, 33, 20), (1, 5, 20, 18)),
           ((2, 300, 290), (2, 290, 310)), ((6, 1, 65), (6, 65, 40)),
           ((130, 130, 8), (130, 8, 130)),      # its halves go past the caches
           ((300, 120, 3), (300, 3, 120)),      # the others past the caches: whole lines and not
           ((280, 128, 3), (280, 3, 128)),
           # each matrix in a register or two
           ((9, 3, 3), (9, 3, 3)), ((5, 2, 5), (5, 5, 3)), ((6, 1, 16), (6, 16, 1)),
           ((4, 1, 8, 2), (3, 2, 2)), ((7, 5, 1), (7, 1, 3)),
           ((9, 1, 70), (9, 70, 100)), ((5, 32, 33), (5, 33, 31)), ((3, 4, 0), (3, 0, 6))]


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


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("m, k, n", [(2, 33, 5), (2, 40, 256), (2, 21, 100), (20, 33, 20),
                                     (35, 30, 40), (12, 300, 10), (17, 40, 10)])
def test_nan_and_infinity_pass_through(m, k, n, ta, tb):
    a = np.ones((m, k))
    a[0, 1] = np.inf
    a[-1, k - 1] = np.nan
    b = np.ones((k, n))
    b[0, n - 1] = -np.inf
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    found = products(lambda x, y: tf.matmul(x, y, transpose_a=ta, transpose_b=tb), TOLERANCE,
                     a.T if ta else a, b.T if tb else b)
    for name, value in found.items():
        np.testing.assert_array_equal(value.astype(np.float64), wanted, err_msg=name)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("m, k, n", [(1, 60, 300), (2, 60, 256), (3, 50, 512), (2, 31, 330),
                                     (20, 60, 20), (40, 20, 64)])
def test_where_operands_begin_is_no_matter(m, k, n, name):
    """Equal bits, wherever in a line the operands begin; nothing beyond them is read."""
    rng = np.random.default_rng(k)
    x, y = rng.standard_normal((m, k)).astype(name), rng.standard_normal((k, n)).astype(name)

    def moved(value, by):
        room = np.full(value.size + 80, np.nan, value.dtype)
        start = (-room.ctypes.data // value.itemsize) % 16 + by
        room[start:start + value.size] = value.ravel()
        return room[start:start + value.size].reshape(value.shape)

    with tf.Graph().as_default(), tf.Session(threads=1) as session:
        a, b = tf.placeholder(name, x.shape), tf.placeholder(name, y.shape)
        call = session.make_callable(tf.matmul(a, b), [a, b])
        first = call(x, y)
        np.testing.assert_allclose(first, x.astype(np.float64) @ y, atol=1e-4)
        for by in (0, 1, 4, 7, 15):
            again = call(moved(x, 16 - by), moved(y, by))
            assert again.tobytes() == first.tobytes(), by


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("name", TOLERANCE)
def test_fused_epilogue_is_that_of_the_ops(name, ta):
    """Bias, residual sum and activation in one kernel: the bits of four."""
    from pyflow.ops.fused.fused_ops import _FusedMatMul
    rng = np.random.default_rng(5)
    dtype = tf.as_dtype(name)
    x, w, bias, side = (rng.integers(-4, 5, s).astype(dtype.as_numpy_dtype)
                        for s in ((70, 40), (40, 130), (130,), (70, 130)))
    x = np.ascontiguousarray(x.T) if ta else x
    with tf.Graph().as_default():
        fused = _FusedMatMul(x, w, [bias, side], transpose_a=ta,
                             fused_ops=["BiasAdd", "Add", "Relu"])
        plain = tf.nn.relu(tf.matmul(x, w, transpose_a=ta) + bias + side)
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.Session(config=config) as session:
            found, wanted = session.run([fused, plain])
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(np.float64))
