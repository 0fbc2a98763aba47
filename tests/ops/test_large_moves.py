"""Slices, pads, joins, gathers, reversals stored past the caches: runs of any length."""
import numpy as np
import pytest
from exact import assert_same

import pyflow as tf

RNG = np.random.default_rng(5)
ROWS = RNG.integers(0, 60001, 70001)
MOVES = {
    "slice": ((2600, 1001), lambda a: a[3:, 7:984], lambda a: a[3:, 7:984]),
    "short runs": ((70001, 60), lambda a: a[:, 3:38], lambda a: a[:, 3:38]),
    "every third": ((3001, 2600), lambda a: a[:, 1::3], lambda a: a[:, 1::3]),
    "every second": ((4002, 2600), lambda a: a[:, 1::2], lambda a: a[:, 1::2]),
    "every second of some": ((4002, 2601), lambda a: a[:, 3:-2:2], lambda a: a[:, 3:-2:2]),
    "one long run": ((2, 9000001), lambda a: a[1:, ::2], lambda a: a[1:, ::2]),
    "rows reversed": ((2300, 1003), lambda a: tf.reverse(a, [0]), lambda a: a[::-1]),
    "columns reversed": ((2300, 1003), lambda a: tf.reverse(a, [1]), lambda a: a[:, ::-1]),
    "gather": ((60001, 35), lambda a: tf.gather(a, ROWS), lambda a: a[ROWS]),
    "gather along": ((7, 60001, 9), lambda a: tf.gather(a, ROWS, axis=1),
                     lambda a: a[:, ROWS]),
    "pad": ((9, 131, 67, 31), lambda a: tf.pad(a, [[0, 1], [2, 0], [1, 3], [0, 0]]),
            lambda a: np.pad(a, [[0, 1], [2, 0], [1, 3], [0, 0]])),
    "pad inside": ((9, 131, 67, 31), lambda a: tf.pad(a, [[1, 0], [0, 2], [0, 0], [3, 5]],
                                                      constant_values=3),
                   lambda a: np.pad(a, [[1, 0], [0, 2], [0, 0], [3, 5]], constant_values=3)),
    "pad rows": ((2300, 1003), lambda a: tf.pad(a, [[3, 4], [0, 0]]),
                 lambda a: np.pad(a, [[3, 4], [0, 0]])),
    "pad far": ((300, 1003), lambda a: tf.pad(a, [[1000, 1], [7, 6001]]),
                lambda a: np.pad(a, [[1000, 1], [7, 6001]])),
    "concat": ((2300, 1003), lambda a: tf.concat([a, a[:, 5:70], a[:, :0], a[:, ::-1]], 1),
               lambda a: np.concatenate([a, a[:, 5:70], a[:, :0], a[:, ::-1]], 1)),
    "concat of short runs": ((90001, 60), lambda a: tf.concat([a, a[:, 7:], a[:, :31]], 1),
                             lambda a: np.concatenate([a, a[:, 7:], a[:, :31]], 1)),
    "stack": ((4300, 501), lambda a: tf.stack([a, a + 1, a], 1),
              lambda a: np.stack([a, a + 1, a], 1)),
    "heads": ((11, 256, 12, 64), lambda a: tf.transpose(a, [0, 2, 1, 3]),
              lambda a: a.transpose(0, 2, 1, 3)),
    "long runs tiled": ((431, 1003), lambda a: tf.tile(a, [5, 1]), lambda a: np.tile(a, [5, 1])),
    "long runs tiled twice": ((3, 70001), lambda a: tf.tile(a[None, :, None], [3, 1, 4, 1]),
                              lambda a: np.tile(a[None, :, None], [3, 1, 4, 1])),
    "runs in turns": ((160, 130, 101), lambda a: tf.transpose(a, [1, 0, 2]),
                      lambda a: a.transpose(1, 0, 2)),
    "runs in turns of 64 bytes": ((272, 515, 64), lambda a: tf.transpose(a, [1, 0, 2]),
                                  lambda a: a.transpose(1, 0, 2)),
    "tile": ((700, 1003), lambda a: tf.tile(a, [2, 2]), lambda a: np.tile(a, [2, 2])),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", (np.uint8, np.float32, np.complex128))
def test_large_move(name, dtype):
    shape, move, wanted = MOVES[name]
    data = RNG.integers(0, 250, shape).astype(dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.placeholder(tf.as_dtype(dtype), shape)
        found = session.run(move(a), {a: data})
    assert_same(found, wanted(data))


@pytest.mark.parametrize("last", (1, 3, 5, 8, 11, 15, 16, 17, 31, 33, 64, 255, 257))
@pytest.mark.parametrize("dtype", (np.uint8, np.float32, np.complex128))
def test_short_runs(last, dtype):
    data = RNG.integers(0, 250, (5, 40, 3, last)).astype(dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.placeholder(tf.as_dtype(dtype), data.shape)
        turned, reversed_, cut = session.run(
            [tf.transpose(a, [1, 0, 2, 3]), a[:, ::-1], a[1:, ::2, ::-2, last // 3:]], {a: data})
    np.testing.assert_array_equal(turned, data.transpose(1, 0, 2, 3))
    np.testing.assert_array_equal(reversed_, data[:, ::-1])
    np.testing.assert_array_equal(cut, data[1:, ::2, ::-2, last // 3:])


@pytest.mark.parametrize("bad", (-1, 60001, 2**31 - 1))
def test_index_out_of_range(bad):
    rows = ROWS.copy()
    rows[-1] = bad
    with tf.Graph().as_default(), tf.Session() as session:
        for dtype in (np.int32, np.int64):
            y = tf.gather(tf.zeros([60001, 35]), rows.astype(dtype))
            with pytest.raises(tf.errors.InvalidArgumentError, match=rf"= {bad} is not in"):
                session.run(y)


def check_random_move(kind, dtype, rng):
    """A result of over 8 MB, of random sizes: some fill lines of 64 bytes, most do not."""
    size = np.dtype(dtype).itemsize
    near = 4096 // size + int(rng.integers(-3, 4))           # rows that nearly collide
    columns = int(rng.choice([rng.integers(40, 300), rng.integers(1000, 5000), 64 * 33, near]))
    rows = (8 << 20) // (columns * size) + int(rng.integers(1, 200))
    if rng.random() < 0.5:
        rows += -rows % 128
    first = int(rng.integers(0, 9))
    data = rng.integers(0, 256, (rows + first, columns), np.uint8).astype(dtype)[first:]
    pick = rng.integers(0, rows, rows + 3)
    move, wanted = {
        "transpose": (tf.transpose, data.T),
        "rows": (lambda a: tf.reverse(a, [0]), data[::-1]),
        "columns": (lambda a: tf.reverse(a, [1]), data[:, ::-1]),
        "both": (lambda a: tf.reverse(a, [0, 1]), data[::-1, ::-1]),
        "gather": (lambda a: tf.gather(a, pick), data[pick]),
        "concat": (lambda a: tf.concat([a[:, first:], a], 1),
                   np.concatenate([data[:, first:], data], 1)),
        "pad": (lambda a: tf.pad(a, [[first, 1], [2, first]], constant_values=9),
                np.pad(data, [[first, 1], [2, first]], constant_values=9)),
        "second": (lambda a: tf.concat([a, a], 0)[:, first % 3::2],
                   np.concatenate([data, data])[:, first % 3::2]),
    }[kind]
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.placeholder(tf.as_dtype(dtype), data.shape)
        found = session.run(move(a), {a: data})
    assert_same(found, wanted, f"{rows} x {columns}")


@pytest.mark.parametrize("kind", ("transpose", "rows", "columns", "both", "gather", "concat",
                                  "pad", "second"))
@pytest.mark.parametrize("dtype", (np.uint8, np.int16, np.float32, np.float64))
def test_random_sizes(kind, dtype):
    rng = np.random.default_rng([len(kind), np.dtype(dtype).itemsize])
    for _ in range(4):
        check_random_move(kind, dtype, rng)


@pytest.mark.parametrize("dtype", ("uint8", "float16", "float32", "float64"))
def test_pairs_moved_as_one_element_lie_where_one_of_two_may(dtype):
    size = np.dtype(dtype).itemsize
    room = np.zeros(65 * size, np.uint64).view(np.uint8)
    begin = -room.ctypes.data % 64 + size
    x = room[begin:begin + 48 * size].view(dtype).reshape(6, 4, 2)
    x[...] = RNG.integers(0, 100, x.shape)
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.placeholder(dtype, x.shape)
        found = session.run([a[::2, ::3], a[::-1, ::2], tf.tile(a[:, :1], [1, 7, 1]),
                             tf.reverse(a, [1]), tf.transpose(a, [1, 0, 2]),
                             tf.transpose(a[:, :3], [1, 0, 2])], {a: x})
    for y, wanted in zip(found, (x[::2, ::3], x[::-1, ::2], np.tile(x[:, :1], [1, 7, 1]),
                                 x[:, ::-1], x.transpose(1, 0, 2), x[:, :3].transpose(1, 0, 2))):
        assert_same(y, wanted)
