"""Integer quotients and remainders at the lengths and sizes of numbers where the kernel changes
ways (blocks in doubles below 2^50, one by one beyond), against Python's integers.
"""
import numpy as np
import pytest

import pyflow as tf

TYPES = (np.int32, np.uint32, np.int64, np.int8, np.uint64)
LIMITS = (50, 2**20, 2**31 - 1, 2**50 - 1, 2**50 + 3, 2**63 - 1)


def numbers(dtype, limit, count, seed):
    ends = np.iinfo(dtype)
    limit = min(limit, int(ends.max))
    low = 0 if ends.min == 0 else -limit
    return np.random.default_rng(seed).integers(low, limit, count, dtype=dtype, endpoint=True)


def wrapped(values, dtype):
    ends = np.iinfo(dtype)
    return np.array([(v - int(ends.min)) % 2**ends.bits + int(ends.min) for v in values], dtype)


def exact(a, b, dtype):
    """Truncated and floored, quotient and remainder."""
    pairs = [(int(x), int(y)) for x, y in zip(*np.broadcast_arrays(a, b))]
    cut = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    down = [x // y for x, y in pairs]
    return [wrapped(v, dtype) for v in (cut, [x - q * y for q, (x, y) in zip(cut, pairs)],
                                        down, [x - q * y for q, (x, y) in zip(down, pairs)])]


def run(a, b):
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(a.dtype, [None]), tf.placeholder(b.dtype, [None])
        return session.run([tf.truncatediv(x, y), tf.truncatemod(x, y), tf.floordiv(x, y),
                            tf.floormod(x, y)], {x: a, y: b})


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("dtype", TYPES)
def test_division(dtype, limit):
    ends = np.iinfo(dtype)
    for count in (0, 1, 7, 8, 127, 129, 400):
        a, b = numbers(dtype, limit, count, count), numbers(dtype, limit, count, count + 1)
        b[b == 0] = 3
        if count > 5 and limit >= ends.max:
            a[:4] = ends.min, ends.max, 0, ends.min
            b[:4] = -1 if ends.min else 1, 7, 5, ends.max
        middle = slice(count // 2, count // 2 + 1)
        for x, y in ((a, b), (a, b[middle]), (a[middle], b)):
            for found, wanted in zip(run(x, y), exact(x, y, dtype)):
                np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", TYPES)
def test_division_by_zero_is_an_error_wherever_it_is(dtype):
    for count, at in ((1, 0), (9, 8), (300, 200), (300, None)):
        b = np.ones(count, dtype)
        b[at if at is not None else slice(None)] = 0
        for y in (b, b[-1:]) if at is None else (b,):
            with pytest.raises(tf.errors.InvalidArgumentError, match="[Zz]ero"):
                run(np.ones(count, dtype), y)
