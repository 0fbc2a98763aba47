"""Searches, sorts, gathers and samplings at the lengths where their kernels change ways (blocks,
tables that grow, sorts by digits), with ties, NaN, infinities and negative zeros, against NumPy.
`make test` runs this file on every instruction set of the machine.
"""
import ml_dtypes
import numpy as np
import pytest

import pyflow as tf

FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
INTS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def run(make, *arrays):
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(tf.as_dtype(a.dtype), a.shape) for a in arrays]
        return session.run(make(*inputs), dict(zip(inputs, arrays)))


def numbers(dtype, shape, seed=0):
    """Few distinct values and the whole range, half and half; floats with all that is special."""
    random = np.random.default_rng(seed)
    if dtype in INTS:
        ends = np.iinfo(dtype)
        wide = random.integers(ends.min, ends.max, shape, dtype=dtype, endpoint=True)
        few = random.integers(0, 4, shape)
        return np.where(random.random(shape) < 0.5, wide, few).astype(dtype)
    x = np.round(random.standard_normal(shape) * 3)
    for value in (np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-3):
        x = np.where(random.random(shape) < 0.05, value, x)
    return x.astype(dtype)


def best(row, k):
    """Places of the best k: NaN last, of equals the first."""
    values = [v.item() if v.dtype != ml_dtypes.bfloat16 else float(v) for v in row]
    return sorted(range(len(row)), key=lambda i: (
        values[i] != values[i], -values[i] if values[i] == values[i] else 0, i))[:k]


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_top_k(dtype):
    for n in (1, 17, 255, 256, 513, 1500):
        x = numbers(dtype, (2, n), n)
        for k in sorted({1, min(n, 48), min(n, 49), n // 2, n - 1, n} - {0}):
            values, places = run(lambda x, k=k: tf.nn.top_k(x, k), x)
            wanted = np.array([best(row, k) for row in x])
            np.testing.assert_array_equal(places, wanted)
            assert values.tobytes() == np.take_along_axis(x, wanted, 1).tobytes()


@pytest.mark.parametrize("dtype", (np.float32, np.float64, np.int32, np.uint8))
def test_sort(dtype):
    x = numbers(dtype, (3, 700))
    rising, places = run(lambda x: (tf.sort(x), tf.argsort(x)), x)
    np.testing.assert_array_equal(rising, np.sort(x, 1))
    np.testing.assert_array_equal(places, np.argsort(x, 1, kind="stable"))
    falling = run(lambda x: tf.sort(x, direction="DESCENDING"), x)
    np.testing.assert_array_equal(falling, np.take_along_axis(
        x, np.array([best(row, 700) for row in x]), 1))


@pytest.mark.parametrize("dtype", (np.float32, np.float64, *INTS))
@pytest.mark.parametrize("n", (0, 1, 600, 30000))
def test_unique(n, dtype):
    x = np.random.default_rng(n).integers(0, max(n // 3, 1), n).astype(dtype)
    if dtype in FLOATS:
        x[::3] *= -1                                        # both zeros are one
    distinct, first, places, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    rank = np.argsort(order)
    for out_idx in (tf.int32, tf.int64):
        found = run(lambda x, t=out_idx: tf.unique_with_counts(x, t), x)
        np.testing.assert_array_equal(found[0], distinct[order])
        np.testing.assert_array_equal(found[1], rank[places.reshape(-1)] if n else places)
        np.testing.assert_array_equal(found[2], counts[order])


@pytest.mark.parametrize("columns", (1, 63, 64, 65, 300))
def test_in_top_k(columns):
    x = np.round(numbers(np.float64, (60, columns), columns)).astype(np.float32)
    x[:40] = np.where(np.isfinite(x[:40]), x[:40], 1)
    targets = np.random.default_rng(1).integers(-1, columns + 1, 60).astype(np.int32)
    known = (targets >= 0) & (targets < columns)
    own = x[np.arange(60), np.where(known, targets, 0)][:, None]
    for k in (0, 1, 5, columns):
        wanted = known & np.isfinite(x).all(1) & ((x > own).sum(1) < k)
        np.testing.assert_array_equal(run(lambda x, t, k=k: tf.nn.in_top_k(x, t, k), x, targets),
                                      wanted)


@pytest.mark.parametrize("shape", [(511,), (513,), (3, 15), (40, 16), (3, 700), (3, 4, 50),
                                   (300, 3, 2), (2, 0, 4)])
@pytest.mark.parametrize("dtype", (np.bool_, np.int16, np.float16, np.float32, np.complex64))
def test_where(dtype, shape):
    random = np.random.default_rng(3)
    x = ((random.random(shape) < 0.4) * random.integers(1, 5, shape)).astype(dtype)
    if dtype in FLOATS:
        x = np.where(x == 0, dtype(-0.0), np.where(x == 1, dtype(np.nan), x))
    np.testing.assert_array_equal(run(lambda x: tf.raw_ops.Where(condition=x), x), np.argwhere(x))


def test_gather_nd_in_blocks():
    random = np.random.default_rng(4)
    x = random.integers(0, 99, (5, 6, 2)).astype(np.int32)
    for depth in (1, 2, 3):
        at = np.stack([random.integers(0, size, 2500) for size in x.shape[:depth]], 1)
        np.testing.assert_array_equal(run(tf.gather_nd, x, at), x[tuple(at.T)])
    at[2345] = 4, 6, 0
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[2345\] = \[4,6,0\]"):
        run(tf.gather_nd, x, at)


@pytest.mark.parametrize("dtype", FLOATS[:1] + FLOATS[2:] + INTS)
def test_bounds(dtype):
    for n, m in ((0, 3), (1, 8), (2, 9), (1000, 300)):
        rows = np.sort(np.nan_to_num(numbers(dtype, (2, n), n)), 1)
        values = np.nan_to_num(numbers(dtype, (2, m), m + 1))
        for op, side in ((tf.raw_ops.LowerBound, "left"), (tf.raw_ops.UpperBound, "right")):
            found = run(lambda s, v, op=op: op(sorted_inputs=s, values=v), rows, values)
            wanted = [np.searchsorted(s, v, side) for s, v in zip(rows, values)]
            np.testing.assert_array_equal(found, np.array(wanted).reshape(2, m))


@pytest.mark.parametrize("dtype", (np.float32, np.float64, np.int32, np.int64))
@pytest.mark.parametrize("n", (0, 255, 257, 20000))
def test_histogram(n, dtype):
    x = (np.random.default_rng(n).standard_normal(n) * 10).astype(dtype)
    if n and dtype in FLOATS:
        x[:2] = np.inf, -np.inf
    low, high = np.array([-12, 15], dtype)
    for bins in (1, 7, 5000):
        at = (np.maximum(x, low) - low).astype(float) / (float(high - low) / bins)
        wanted = np.bincount(np.minimum(at, bins - 1).astype(int), minlength=bins)
        np.testing.assert_array_equal(
            run(lambda x, b=bins: tf.histogram_fixed_width(x, [low, high], b), x), wanted)
    if n and dtype in FLOATS:
        x[-1] = np.nan
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"values\[{n - 1}\] is NaN"):
            run(lambda x: tf.histogram_fixed_width(x, [low, high], 7), x)


@pytest.mark.parametrize("width", (1, 15, 16, 17, 67))
def test_sparse_segments(width):
    random = np.random.default_rng(width)
    x = random.standard_normal((20, width)).astype(np.float32)
    at, ids = random.integers(0, 20, 300), np.sort(random.integers(0, 40, 300))
    counts = np.bincount(ids, minlength=50)[:, None]
    sums = np.zeros((50, width))
    np.add.at(sums, ids, x[at].astype(float))
    for f, share in ((tf.sparse_segment_sum, 1), (tf.sparse_segment_mean, counts),
                     (tf.sparse_segment_sqrt_n, np.sqrt(counts))):
        found = run(lambda x, a, i, f=f: f(x, a, i, num_segments=50), x, at, ids)
        np.testing.assert_allclose(found, sums / np.maximum(share, 1), 1e-6, 1e-6)


@pytest.mark.parametrize("sizes", [(7,), (50, 60), (5, 6, 7), (2**30, 2**28)])
@pytest.mark.parametrize("n", (0, 255, 2000))
def test_sparse_reorder(n, sizes):
    random = np.random.default_rng(n)
    at = np.stack([random.integers(0, size, n) for size in sizes], 1)
    at[n // 2:] = at[:n - n // 2]                          # repeated places keep their order
    order = np.lexsort(at.T[::-1]) if n else np.zeros(0, int)
    for dtype in (np.float32, np.int64):
        y = run(lambda a, v: tf.sparse.reorder(tf.SparseTensor(a, v, sizes)), at,
                np.arange(n, dtype=dtype))
        np.testing.assert_array_equal(y.indices, at[order])
        np.testing.assert_array_equal(y.values, order)


def test_fake_quant():
    x = (np.random.default_rng(5).standard_normal(1003) * 6).astype(np.float32)
    x[:5] = np.nan, np.inf, -np.inf, -0.0, 1e-42
    for n in (0, 7, 8, 9, 1003):
        for low, high in ((-6, 6), (0, 6)):
            step = np.float32(np.float32(high - low) / np.float32(255))
            zero = np.float32(np.round(-low / step))
            least, most = -zero * step, (np.float32(255) - zero) * step
            inverse = np.float32(1) / step
            whole = np.floor((np.clip(x[:n], least, most) - least) * inverse + np.float32(0.5))
            np.testing.assert_array_equal(
                run(lambda x, a=low, b=high: tf.quantization.fake_quant_with_min_max_args(x, a, b),
                    x[:n]), whole * step + least)


@pytest.mark.parametrize("channels", (1, 2, 3, 5, 20))
def test_contrast(channels):
    for size in ((1, 1), (3, 5), (7, 16), (40, 33)):
        x = np.random.default_rng(6).random((2, *size, channels)).astype(np.float32)
        mean = x.astype(float).mean((1, 2), keepdims=True)
        np.testing.assert_allclose(run(lambda x: tf.image.adjust_contrast(x, 1.5), x),
                                   (x - mean) * 1.5 + mean, 1e-5, 1e-6)


@pytest.mark.parametrize("channels", (1, 3, 5))
def test_area(channels):
    """Shrunk by whole numbers: means of blocks, of bytes too."""
    for dtype in (np.float32, np.uint8):
        x = np.random.default_rng(7).integers(0, 255, (2, 24, 60, channels)).astype(dtype)
        blocks = x.reshape(2, 8, 3, 12, 5, channels).astype(float).mean((2, 4))
        np.testing.assert_allclose(run(lambda x: tf.image.resize_area(x, [8, 12]), x), blocks, 1e-5)


def test_unique_of_keys_made_to_collide():
    """Multiples of the inverses of the tables' multipliers all want the first place."""
    for dtype, multiplier in ((np.uint32, 2654435769), (np.uint64, 11400714819323198485)):
        size = 2 ** (8 * dtype().itemsize)
        inverse = pow(multiplier, -1, size)
        keys = np.array([i * inverse % size for i in range(150_000)], dtype)
        keys = np.concatenate([keys, keys[::-7]]).view(np.dtype(dtype).str.replace("u", "i"))
        values, places, counts = run(tf.unique_with_counts, keys)
        np.testing.assert_array_equal(values, keys[:150_000])
        np.testing.assert_array_equal(values[places], keys)
        np.testing.assert_array_equal(counts, np.bincount(places))


@pytest.mark.parametrize("dtype", FLOATS + (np.complex64, np.complex128))
def test_edit_distance_of_floats(dtype):
    """-0 is 0, NaN equals nothing: as TensorFlow compares."""
    hypothesis = np.array([0, 1, np.nan, 2, -0.0], dtype)
    for length in (5, 70):                              # rows up to 64 are compared by bits
        truth = np.resize(np.array([-0.0, 1, np.nan, 2, 0], dtype), length)
        found = run(lambda h, t: tf.edit_distance(*[
            tf.SparseTensor([[0, i] for i in range(n)], v, [1, n])
            for v, n in ((h, 5), (t, length))], normalize=False), hypothesis, truth)
        np.testing.assert_array_equal(found, [1 + length - 5])


@pytest.mark.parametrize("dtype", (tf.float16, tf.bfloat16, tf.int8))
def test_histogram_of_narrow_types_with_a_tensor_for_its_range(dtype):
    with tf.Graph().as_default(), tf.Session() as session:
        values, span = tf.constant([1, 2, 3, 9], dtype), tf.constant([0, 4], dtype)
        np.testing.assert_array_equal(
            session.run(tf.histogram_fixed_width(values, span, 2)), [1, 3])


@pytest.mark.parametrize("dtype", FLOATS + INTS + (np.bool_, np.complex64))
def test_where_takes_numbers(dtype):
    for shape in ((), (0,), (513,), (3, 0, 4), (3, 700), (2, 3, 17), (40, 15)):
        x = np.asarray(np.random.default_rng(1).integers(0, 3, shape)).astype(dtype)
        x = np.negative(x) if dtype in FLOATS else x    # -0, too
        np.testing.assert_array_equal(run(tf.where, x), np.argwhere(x))
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(tf.where([0, 3])).tolist() == [[1]]


@pytest.mark.parametrize("count", (0, 1, 31, 32, 33, 600, 3000))
def test_distinct_strings_of_every_length(count):
    """Strings of 0 to 20 bytes, some in one byte different: keys of themselves and of hashes."""
    random = np.random.default_rng(count)
    base = bytes(random.integers(0, 256, 20, dtype=np.uint8))
    words = [base[:random.integers(0, 21)] for _ in range(count)]
    for k in range(0, count, 2):
        at = random.integers(0, 20)
        byte = bytes(random.integers(0, 3, 1, dtype=np.uint8))
        words[k] = words[k][:at] + byte + words[k][at + 1:]
    first = {}
    ranks = [first.setdefault(w, len(first)) for w in words]
    x = np.array(words, object)
    y, index, counts = run(tf.unique_with_counts, x)
    assert list(y) == list(first)
    np.testing.assert_array_equal(index, ranks)
    np.testing.assert_array_equal(counts, np.bincount(np.array(ranks, int), minlength=len(first)))
    kept, places = run(tf.setdiff1d, x, np.array(words[::3], object))
    wanted = [k for k, w in enumerate(words) if w not in set(words[::3])]
    np.testing.assert_array_equal(places, wanted)
    assert list(kept) == [words[k] for k in wanted]
