"""Reductions around the sizes their loops have: vectors, trees of rows, strips, pieces.

Each op and type against NumPy.  Sums and products are of small integers, so that the order they are
taken in shows nowhere; how accurate they are otherwise is a test of its own.
"""
import numpy as np
import pytest

import pyflow as tf

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33, 49, 63, 64, 65, 130, 300, 513)
ROWS = (1, 3, 17, 33)
REAL = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
        "uint16", "uint32", "uint64")


def run(make, *arrays, threads=0):
    config = tf.ConfigProto(intra_op_parallelism_threads=threads)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        inputs = [tf.placeholder(tf.as_dtype(a.dtype), a.shape) for a in arrays]
        return session.run(make(*inputs), dict(zip(inputs, arrays)))


def numbers(shape, dtype, least=-2, most=3):
    kind = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    least = 0 if kind.kind == "u" else least
    return np.random.default_rng(sum(shape)).integers(least, most, shape).astype(kind)


def reductions(x, axis, norm=True):
    found = {"sum": tf.reduce_sum(x, axis), "prod": tf.reduce_prod(x, axis)}
    if not x.dtype.is_complex:
        found |= {"max": tf.reduce_max(x, axis), "min": tf.reduce_min(x, axis)}
    if norm:
        found["norm"] = tf.raw_ops.EuclideanNorm(input=x, axis=axis)
    return found


def wide(x):
    return x.astype(np.float64) if x.dtype.kind in "fV" else x


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("rows", ROWS)
def test_rows_and_columns_of_every_length(rows, dtype):
    arrays = [numbers((rows, n), dtype) for n in LENGTHS]
    found = run(lambda *xs: [(reductions(x, 1), reductions(tf.transpose(x), 0), reductions(x, 0))
                             for x in xs], *arrays)
    for x, results in zip(arrays, found):
        y = wide(x)
        for axis, f in zip((1, 1, 0), results):
            with np.errstate(over="ignore"):
                wanted = {"sum": y.sum(axis, dtype=y.dtype), "prod": y.prod(axis, dtype=y.dtype),
                          "max": y.max(axis), "min": y.min(axis)}
                squares = (y * y).sum(axis, dtype=y.dtype)
            for name, value in wanted.items():
                if name == "prod" and np.abs(value.astype(float)).max() > 2048:
                    continue                             # not exact in halves
                np.testing.assert_array_equal(wide(f[name]), value, f"{name} {x.shape} {axis}")
            if x.dtype.kind == "f" and x.itemsize > 2:
                np.testing.assert_allclose(f["norm"], np.sqrt(squares), rtol=2e-7)


@pytest.mark.parametrize("dtype", ("complex64", "complex128"))
@pytest.mark.parametrize("shape, axis", (((7, 33), 1), ((300, 3), 0), ((5, 16, 3), 1)))
def test_complex_reductions(shape, axis, dtype):
    x = (numbers(shape, "int32") + 1j * numbers(shape[::-1], "int32").reshape(shape)).astype(dtype)
    found = run(lambda a: reductions(a, axis), x)
    np.testing.assert_array_equal(found["sum"], x.sum(axis))
    np.testing.assert_allclose(found["norm"], np.sqrt((np.abs(x) ** 2).sum(axis)), rtol=1e-6)
    np.testing.assert_allclose(run(lambda a: tf.reduce_prod(a, 1), x[:, :3]), x[:, :3].prod(1),
                               rtol=1e-6)


@pytest.mark.parametrize("length", LENGTHS + (5000,))
def test_all_and_any(length):
    x = np.ones((40, length), bool)
    x[::3, length // 2] = False
    x[1::3] = False
    x[2::6, -1] = True
    found = run(lambda a: [f(b, k) for f in (tf.reduce_all, tf.reduce_any)
                           for b, k in ((a, 1), (a, 0), (tf.transpose(a), 0))], x)
    wanted = [f(x, k) for f in (np.all, np.any) for k in (1, 0, 1)]
    for f, w in zip(found, wanted):
        np.testing.assert_array_equal(f, w)


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16", "bfloat16"))
@pytest.mark.parametrize("length", LENGTHS)
def test_extremes_keep_nan_wherever_it_is(length, dtype):
    x = np.tile(numbers((1, length), dtype), (length + 1, 1))
    x[np.arange(length), np.arange(length)] = np.nan
    for at, value in ((-1, np.inf), (-1, -np.inf)):
        x[at, 0] = value
        found = run(lambda a: [f(b, k) for f in (tf.reduce_max, tf.reduce_min)
                               for b, k in ((a, 1), (tf.transpose(a), 0))], x)
        y = x.astype(float)
        for f, w in zip(found, (y.max(1), y.max(1), y.min(1), y.min(1))):
            np.testing.assert_array_equal(f.astype(float), w)


def test_sums_of_infinities_and_nans():
    x = np.ones((20, 21), np.float32)
    x[0, 20], x[1, 3], x[1, 19], x[2, 0] = np.inf, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        wanted = x.sum(1), x.sum(0)
    for found, w in zip(run(lambda a: (tf.reduce_sum(a, 1), tf.reduce_sum(a, 0)), x), wanted):
        np.testing.assert_array_equal(found, w)


@pytest.mark.parametrize("shape, axis", (((0, 5), 0), ((5, 0), 1), ((0, 3, 2), (0, 2)),
                                         ((3, 0, 2), 1)))
def test_reductions_of_nothing(shape, axis):
    found = run(lambda a: reductions(a, axis), np.zeros(shape, np.float32))
    rest = np.zeros(shape).sum(axis).shape
    for name, value in (("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf), ("norm", 0)):
        np.testing.assert_array_equal(found[name], np.full(rest, value, np.float32))
    truth = run(lambda a: [tf.cast(f(a, axis), tf.int32) for f in (tf.reduce_all, tf.reduce_any)],
                np.zeros(shape, bool))
    np.testing.assert_array_equal(truth, [np.ones(rest), np.zeros(rest)])


@pytest.mark.parametrize("shape, axis", (((2000003,), 0), ((3, 700001), 1), ((40000, 37), 0),
                                         ((20000, 49), 1), ((700, 300, 9), (0, 2))))
def test_long_sums_are_accurate_and_the_same_on_every_number_of_threads(shape, axis):
    x = np.random.default_rng(0).random(shape, np.float32)
    one, two = (run(lambda a: tf.reduce_sum(a, axis), x, threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    exact = x.astype(np.float64).sum(axis)
    np.testing.assert_allclose(one, exact, rtol=1e-6)


@pytest.mark.parametrize("dtype", ("float32", "int8", "bfloat16", "uint16", "int64"))
def test_rows_that_begin_anywhere(dtype):
    x = numbers((41, 7), dtype)
    for first in range(4):
        found = run(lambda a, k=first: reductions(a[k:], 1, norm=False), x)
        y = wide(x[first:])
        np.testing.assert_array_equal(wide(found["sum"]), y.sum(1, dtype=y.dtype))
        np.testing.assert_array_equal(wide(found["max"]), y.max(1))


@pytest.mark.parametrize("columns", (1, 2, 3, 8, 15, 31, 32))
@pytest.mark.parametrize("dtype", ("float32", "float64", "bfloat16", "uint8", "int16", "bool"))
def test_arg_max_of_many_short_rows(columns, dtype):
    x = numbers((300, columns), dtype, -3, 4)            # many are equal
    top, low = run(lambda a: (tf.argmax(a, 1), tf.argmin(a, 1, output_type=tf.int32)), x)
    np.testing.assert_array_equal(top, x.astype(float).argmax(1))
    np.testing.assert_array_equal(low, x.astype(float).argmin(1))
    if dtype == "float32":
        x[::2, 0] = np.nan                               # nothing is better than NaN
        x[1::2, -1] = np.nan                             # and it is never better
        y = np.where(np.isnan(x), -np.inf, x)
        y[::2, 0] = np.inf
        np.testing.assert_array_equal(run(lambda a: tf.argmax(a, 1), x), y.argmax(1))


@pytest.mark.parametrize("columns", (33, 47, 64, 100, 257, 1000, 5003))
@pytest.mark.parametrize("dtype", ("float32", "float64", "int16", "int32", "int64", "uint8"))
def test_arg_max_of_long_rows(columns, dtype):
    x = numbers((40, columns), dtype, -100, 101)         # many are equal
    if dtype[0] == "f":
        x[::4, columns // 2] = np.nan                    # never better
        x[1, 0] = x[2] = np.nan                          # nothing is better
        x[3, 1:], x[5, :-1] = np.inf, -np.inf
        x[6] = 0.0
        x[6, ::2] = -0.0                                 # equal
    found = run(lambda a: (tf.argmax(a, 1), tf.argmin(a, 1)), x)
    for at, worst, best in zip(found, (-np.inf, np.inf), (np.argmax, np.argmin)):
        y = np.where(np.isnan(x), worst, x)
        wanted = np.where(np.isnan(x[:, 0]), 0, best(y, 1))
        np.testing.assert_array_equal(at, wanted)


@pytest.mark.parametrize("dtype", ("float64", "int8", "int64", "uint32", "complex64"))
@pytest.mark.parametrize("reverse", (False, True))
@pytest.mark.parametrize("exclusive", (False, True))
def test_long_cumulative_sums_and_products(dtype, exclusive, reverse):
    x = numbers((1003,), dtype)
    factors = x[:7] * 0 + 2                              # powers of two are exact
    sums, products = run(lambda a, b: (tf.cumsum(a, 0, exclusive, reverse),
                                       tf.cumprod(b, 0, exclusive, reverse)), x, factors)
    turned, back = (x[::-1], slice(None, None, -1)) if reverse else (x, slice(None))
    wanted = np.cumsum(turned, dtype=x.dtype) - (turned if exclusive else 0)
    powers = 2 ** (np.arange(7) + (not exclusive))
    np.testing.assert_array_equal(sums, wanted.astype(x.dtype)[back])
    np.testing.assert_array_equal(products, powers.astype(np.int64).astype(x.dtype)[back])


@pytest.mark.parametrize("columns", (1, 2, 3, 4, 5, 6, 7, 8, 9))
@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
def test_cumulative_sums_of_short_rows(columns, dtype):
    x = wide(numbers((20011, columns), dtype, -4, 5))    # exact; two threads, no whole vectors
    x[5], x[6, 0] = np.nan, np.inf                       # no other row has them
    ways = [(exclusive, reverse) for exclusive in (False, True) for reverse in (False, True)]
    found = run(lambda a: [tf.cumsum(a, 1, *way) for way in ways],
                x.astype(tf.as_dtype(dtype).as_numpy_dtype), threads=2)
    for (exclusive, reverse), y in zip(ways, found):
        turned = x[:, ::-1] if reverse else x
        wanted = np.cumsum(turned, 1)
        if exclusive:
            wanted = np.concatenate([np.zeros((len(x), 1)), wanted[:, :-1]], 1)
        np.testing.assert_array_equal(wide(y), wanted[:, ::-1] if reverse else wanted)


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
@pytest.mark.parametrize("n", (32, 80, 1024))
def test_cumulative_sums_of_rows_past_the_caches(n, dtype):
    kind = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    rows = (9 << 20) // (n * kind.itemsize) + 3          # 8 MiB and more
    x = np.resize(np.random.default_rng(1).integers(-3, 4, 9973), (rows, n)).astype(np.float32)
    x[3, 5] = np.nan
    found = run(lambda a: (tf.cumsum(a, 1), tf.cumsum(a, 1, exclusive=True)), x.astype(kind))
    wanted = np.cumsum(x, 1)
    np.testing.assert_array_equal(wide(found[0]), wanted.astype(kind).astype(np.float32))
    np.testing.assert_array_equal(wide(found[1])[:, 1:], wide(found[0])[:, :-1])


@pytest.mark.parametrize("rows", (1, 8, 11))
def test_sums_of_negative_zeros_are_the_same_in_every_row(rows):
    x = np.full((rows, 5), -0.0)
    found = run(lambda a: (tf.cumsum(a, 1), tf.cumsum(a, 1, exclusive=True)), x)
    assert np.signbit(found[0]).all() and not np.signbit(found[1]).any()


@pytest.mark.parametrize("channels", (1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 96, 100,
                                      192))
def test_local_responses_of_five_channels(channels):
    x = np.random.default_rng(0).standard_normal((2, 3, 23, channels)).astype(np.float32)
    near = np.abs(np.subtract.outer(np.arange(channels), np.arange(channels))) <= 2
    for scale in (1e-3, 1.0, 1e4):
        y = x * np.float32(scale)
        found = run(lambda a: tf.nn.lrn(a, 2, 0.5, 30.0, 0.75), y)
        exact = y.astype(np.float64)
        wanted = exact * (0.5 + 30 * exact**2 @ near) ** -0.75
        ulp = np.spacing(np.abs(wanted).astype(np.float32))
        assert (np.abs(found - wanted) <= 5 * ulp).all()         # 3 by reciprocal roots


@pytest.mark.parametrize("channels", (60, 64, 96))
def test_local_responses_of_extremes(channels):
    x = np.zeros((1, 1, 130, channels), np.float32)
    x[:, :, 70, [3, 20, 40]] = 1e20, np.inf, np.nan
    found = run(lambda a: tf.nn.lrn(a, 2, 1.0, 1.0, 0.75), x)
    wanted = np.zeros(x.shape)
    wanted[:, :, 70, [20, 38, 39, 40, 41, 42]] = np.nan  # inf * 0, and all near a NaN
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("value", (1e-19, 1e-20, 3e-21, 8e18))
def test_local_responses_whose_squares_are_hardly_numbers(value):
    """The power's argument is subnormal, or near the largest number."""
    x = np.full((1, 1, 1, 70), value, np.float32)
    found = run(lambda a: tf.nn.lrn(a, 2, 0.0, 1.0, 0.75), x)[..., 2:-2]
    wanted = float(x.flat[0]) * (5 * float(x.flat[0]) ** 2) ** -0.75
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("dtype, n", (("float32", 3), ("float32", 19), ("float64", 5),
                                      ("int32", 10)))
def test_many_results_of_short_rows_from_memory(dtype, n, threads):
    """16 MiB and more: results are stored past the caches."""
    rows = (17 << 20) // (n * np.dtype(dtype).itemsize) + 5
    x = np.resize(np.random.default_rng(n).integers(-9, 9, 10007).astype(dtype), (rows, n))
    found = run(lambda a: (tf.reduce_sum(a, 1), tf.reduce_max(a, 1)), x, threads=threads)
    np.testing.assert_array_equal(found[0], x.sum(1, dtype=x.dtype))
    np.testing.assert_array_equal(found[1], x.max(1))


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize("shape, axis, dtype", (((40, 130, 1024), 1, "float32"),
                                                ((2100, 2003), 0, "float32"),
                                                ((33, 129, 528), 1, "float64"),
                                                ((700, 6001), 0, "int32")))
def test_columns_from_memory(shape, axis, dtype, threads):
    """16 MiB and more: row by row; many results are stored past the caches."""
    x = np.resize(np.random.default_rng(2).integers(-9, 9, 10007).astype(dtype), shape)
    if dtype != "int32":
        x[..., 5, 77] = np.nan
    found = run(lambda a: (tf.reduce_sum(a, axis), tf.reduce_max(a, axis)), x, threads=threads)
    np.testing.assert_array_equal(found[0], x.sum(axis, dtype=x.dtype))
    np.testing.assert_array_equal(found[1], x.max(axis))


@pytest.mark.parametrize("dtype", ("float16", "bfloat16"))
@pytest.mark.parametrize("n", (128, 131, 700))
def test_extremes_of_halves_of_both_signs(n, dtype):
    kind = np.dtype(tf.as_dtype(dtype).as_numpy_dtype)
    x = np.random.default_rng(n).standard_normal((40, n)).astype(np.float32)
    x[::4] = -np.abs(x[::4])
    x[1::4] = np.abs(x[1::4])
    x[4, n // 3], x[5, n - 1], x[6, 0], x[7, 70] = np.nan, -np.nan, np.nan, -np.nan
    x[8, 5], x[9, n - 2], x[10], x[11, :99] = np.inf, -np.inf, -np.inf, np.inf
    x[12], x[13] = -0.0, 0.0
    x[16, 9] = x[17, 9] = -np.nan
    x[20, n - 1] = x[21, 0] = np.nan
    x = x.astype(kind)
    found = run(lambda a: (tf.reduce_max(a, 1), tf.reduce_min(a, 1)), x)
    np.testing.assert_array_equal(wide(found[0]), wide(x).max(1))
    np.testing.assert_array_equal(wide(found[1]), wide(x).min(1))


@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16"))
@pytest.mark.parametrize("shape, axes", (((9, 6100, 49), (2,)), ((9, 64, 1000), (2,)),
                                         ((9, 70, 17, 64), (1, 2)), ((9, 60, 1280), (1,)),
                                         ((9, 2050, 33), (1,)), ((9, 8200, 4, 5), (1, 2))))
def test_large_inputs_give_the_bits_of_their_parts(shape, axes, dtype):
    """From 1 MiB on inputs are prefetched, by loops of their own."""
    x = np.random.default_rng(3).standard_normal(shape, np.float32) + 1
    x = x.astype(tf.as_dtype(dtype).as_numpy_dtype)

    def make(a):
        mean, variance = tf.nn.moments(a, axes)
        return tf.reduce_sum(a, axes), tf.reduce_max(a, axes), mean, variance
    found = run(make, x)
    parts = [run(make, x[i:i + 1, :200] if axes == (2,) else x[i:i + 1]) for i in range(9)]
    for whole, part in zip(found, zip(*parts)):
        if axes == (2,):
            whole = whole[:, :200]
        assert whole.tobytes() == np.concatenate(part).tobytes()


@pytest.mark.parametrize("name", ["sparse_reduce_sum", "sparse_reduce_max",
                                  "sparse_reduce_sum_sparse", "sparse_reduce_max_sparse"])
def test_sparse_axes_out_of_range_are_told_by_the_step(name):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [2, 3])
        for axis in (2, -3):
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"{axis}"):
                session.run(getattr(tf, name)(x, axis=[axis]))
