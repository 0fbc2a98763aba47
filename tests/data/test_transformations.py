"""Padded batches, caches, windows, groups, scans, generators, files, and tf.data.experimental."""
import gzip
import struct
import zlib

import numpy as np
import pytest

import pyflow as tf
from data_helpers import RANGE, elements, listed

EXPERIMENTAL = tf.data.experimental


def ragged(x):
    return tf.fill([tf.cast(x, tf.int32)], x)


def test_padded_batches():
    got = listed(RANGE(1, 6).map(ragged).padded_batch(2, [None]))
    assert got == [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4] * 4], [[5] * 5]]
    minus = tf.constant(-1, tf.int64)
    got = listed(RANGE(1, 4).map(ragged).padded_batch(2, [4], minus, drop_remainder=True))
    assert got == [[[1, -1, -1, -1], [2, 2, -1, -1]]]
    pairs = RANGE(1, 4).map(lambda x: {"a": tf.as_string(ragged(x)),
                                       "b": tf.fill([2, tf.cast(x, tf.int32)], 1.5)})
    dataset = pairs.padded_batch(3, {"a": [-1], "b": [3, 4]}, {"a": "-", "b": 9.0})
    assert dataset.output_shapes["b"].as_list() == [None, 3, 4]
    [got] = elements(dataset)
    assert got["a"].tolist() == [[b"1", b"-", b"-"], [b"2", b"2", b"-"], [b"3"] * 3]
    assert got["b"][1].tolist() == [[1.5, 1.5, 9, 9], [1.5, 1.5, 9, 9], [9] * 4]
    with pytest.raises(tf.errors.DataLossError, match="smaller size than the input"):
        listed(RANGE(1, 6).map(ragged).padded_batch(2, [2]))
    with pytest.raises(ValueError, match="not compatible with the corresponding input"):
        RANGE(1, 6).map(ragged).padded_batch(2, [2, None])
    unknown = tf.placeholder_with_default([2, 3], [None])
    with pytest.raises(tf.errors.InvalidArgumentError, match="same rank"):
        listed(RANGE(3).map(lambda x: tf.zeros(unknown)).padded_batch(2, [None]))
    with pytest.raises(ValueError, match="scalar"):
        RANGE(3).padded_batch(2, [], [1, 2])


def test_caches(tmp_path):
    def noisy():
        return RANGE(6).map(lambda x: tf.random_uniform([], seed=1))
    twice = listed(noisy().cache().repeat(2))
    assert twice[:6] == twice[6:] and len(set(twice)) == 6
    path = str(tmp_path / "cache")
    first = listed(noisy().cache(path))
    assert listed(noisy().map(lambda x: x + 1).cache(path)) == first
    with open(path, "r+b") as f:
        f.seek(20)
        f.write(b"\xff")
    with pytest.raises(tf.errors.DataLossError, match="damaged"):
        listed(noisy().cache(path))


def test_windows():
    def lists(dataset):
        return listed(dataset.flat_map(lambda w: w.batch(10)))
    assert lists(RANGE(7).window(3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert lists(RANGE(7).window(3, 1, 2, True)) == [[0, 2, 4], [1, 3, 5], [2, 4, 6]]
    assert lists(RANGE(7).window(2, 4)) == [[0, 1], [4, 5]]
    pairs = tf.data.Dataset.zip((RANGE(4), RANGE(10, 14))).window(2)
    got = elements(pairs.flat_map(lambda a, b: tf.data.Dataset.zip((a.batch(2), b.batch(2)))))
    assert [(x.tolist(), y.tolist()) for x, y in got] == [([0, 1], [10, 11]), ([2, 3], [12, 13])]


def test_groups():
    got = listed(RANGE(10).apply(EXPERIMENTAL.group_by_window(
        lambda x: x % 2, lambda key, window: window.batch(4).map(lambda b: b * 10 + key), 3)))
    assert got == [[0, 20, 40], [11, 31, 51], [60, 80], [71, 91]]
    sizes = listed(RANGE(12).apply(EXPERIMENTAL.group_by_window(
        lambda x: x % 3, lambda key, window: window.batch(10), window_size_func=lambda k: k + 1)))
    assert sizes == [[0], [3], [1, 4], [6], [2, 5, 8], [9], [7, 10], [11]]
    words = RANGE(1, 9).map(ragged).apply(EXPERIMENTAL.bucket_by_sequence_length(
        lambda x: tf.shape(x)[0], [3, 6], [2, 2, 2]))
    assert [b.shape for b in elements(words)] == [(2, 2), (2, 4), (2, 7), (1, 5), (1, 8)]
    with pytest.raises(ValueError, match="not both"):
        EXPERIMENTAL.group_by_window(lambda x: x, lambda k, w: w)


def test_scans_and_reductions():
    got = listed(RANGE(1, 6).apply(EXPERIMENTAL.scan(
        tf.constant(1, tf.int64), lambda s, x: (s * x, (s * x)))))
    assert got == [1, 2, 6, 24, 120]
    total = RANGE(10).reduce((tf.constant(0, tf.int64), 0), lambda s, x: (s[0] + x, s[1] + 1))
    only = EXPERIMENTAL.get_single_element(RANGE(3).batch(3))
    many = EXPERIMENTAL.get_single_element(RANGE(3))
    with tf.Session() as sess:
        assert sess.run(total) == (45, 10)
        assert sess.run(only).tolist() == [0, 1, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="more than one element"):
            sess.run(many)
    with pytest.raises(TypeError, match="match the initial state"):
        RANGE(3).reduce(0, lambda s, x: x)


def test_small_loops():
    checked = RANGE(6).map(lambda x: tf.check_numerics(1.0 / tf.cast(x % 3, tf.float32), "zero"))
    assert listed(checked.apply(EXPERIMENTAL.ignore_errors())) == [1.0, 0.5] * 2
    assert listed(RANGE(6).batch(4).apply(EXPERIMENTAL.unbatch())) == list(range(6))
    assert [(int(n), int(x)) for n, x in elements(RANGE(10, 13).enumerate(5))] == [
        (5, 10), (6, 11), (7, 12)]
    assert listed(EXPERIMENTAL.Counter(3, -2).take(3)) == [3, 1, -1]
    chosen = EXPERIMENTAL.choose_from_datasets(
        [RANGE(3), RANGE(10, 12)], tf.data.Dataset.from_tensor_slices(
            np.int64([1, 0, 1, 1, 0, 0])))
    assert listed(chosen) == [10, 0, 11, 1, 2]
    sampled = listed(EXPERIMENTAL.sample_from_datasets(
        [RANGE(100), RANGE(1000, 1300)], [0.25, 0.75], seed=1))
    assert sorted(sampled) == [*range(100), *range(1000, 1300)]
    assert 10 < sum(x < 1000 for x in sampled[:100]) < 45
    assert len(listed(RANGE(5).apply(EXPERIMENTAL.shuffle_and_repeat(5, 2, seed=1)))) == 10
    assert listed(RANGE(5).apply(EXPERIMENTAL.map_and_batch(lambda x: x + 1, 2))) == [
        [1, 2], [3, 4], [5]]
    assert listed(RANGE(2).apply(EXPERIMENTAL.parallel_interleave(
        lambda x: RANGE(x, x + 2), 2))) == [0, 1, 1, 2]


def test_generators():
    def numbers(n):
        for i in range(n):
            yield i, [float(i)] * i, f"n{i}"
    dataset = tf.data.Dataset.from_generator(
        numbers, (tf.int32, tf.float32, tf.string), ([], [None], []), args=(4,))
    got = elements(dataset.repeat(2))
    assert [int(x[0]) for x in got] == [0, 1, 2, 3] * 2 and got[3][1].tolist() == [3.0] * 3
    assert got[2][2] == b"n2"
    wrong = tf.data.Dataset.from_generator(lambda: iter([1, "a"]), tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match="could not be converted"):
        elements(wrong)
    with pytest.raises(TypeError, match="callable"):
        tf.data.Dataset.from_generator([1], tf.int64)


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def tfrecord(records):
    return b"".join(struct.pack("<Q", len(r)) + crc32c(struct.pack("<Q", len(r))) + r + crc32c(r)
                    for r in records)


PACK = {"": lambda b: b, "ZLIB": zlib.compress, "GZIP": gzip.compress}


@pytest.mark.parametrize("compression", ["", "ZLIB", "GZIP"])
def test_files(tmp_path, compression):
    def write(name, content):
        (tmp_path / name).write_bytes(PACK[compression](content))
        return str(tmp_path / name)
    a = write("a", b"one\r\ntwo\n\nlast")
    b = write("b", b"")
    read = tf.data.TextLineDataset([a, b, a], compression)
    assert elements(read) == [b"one", b"two", b"", b"last"] * 2
    records = [b"", b"x" * 100_000, b"abc"]
    c = write("c", tfrecord(records))
    assert elements(tf.data.TFRecordDataset(c, compression)) == records
    assert elements(tf.data.TFRecordDataset([c, c], compression, num_parallel_reads=2)) == [
        r for r in records for _ in range(2)]
    d = write("d", b"HEADabcdefTAIL!")
    assert elements(tf.data.FixedLengthRecordDataset(d, 2, 4, 5, None, compression)) == [
        b"ab", b"cd", b"ef"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="another size"):
        elements(tf.data.FixedLengthRecordDataset(d, 4, 4, 5, None, compression))
    with pytest.raises(tf.errors.NotFoundError, match="missing"):
        elements(tf.data.TextLineDataset(str(tmp_path / "missing"), compression))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unsupported compression_type"):
        elements(tf.data.TextLineDataset(a, "LZ"))


def test_damaged_records_and_listed_files(tmp_path):
    whole = tfrecord([b"abc", b"defg"])
    for at in (3, 9, 13, 17):
        (tmp_path / "bad").write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1:])
        with pytest.raises(tf.errors.DataLossError, match="corrupted record at 0"):
            elements(tf.data.TFRecordDataset(str(tmp_path / "bad")))
    (tmp_path / "bad").write_bytes(whole[:-3])
    with pytest.raises(tf.errors.DataLossError, match="truncated record at 19"):
        elements(tf.data.TFRecordDataset(str(tmp_path / "bad")))
    for name in "cab":
        (tmp_path / f"{name}.txt").write_text(name)
    pattern = str(tmp_path / "*.txt")
    sorted_files = elements(tf.data.Dataset.list_files(pattern, shuffle=False))
    assert [f[-5:] for f in sorted_files] == [b"a.txt", b"b.txt", b"c.txt"]
    assert sorted(elements(tf.data.Dataset.list_files(pattern, seed=3))) == sorted_files
    with pytest.raises(tf.errors.InvalidArgumentError, match="No files matched"):
        elements(tf.data.Dataset.list_files(str(tmp_path / "*.none")))


def test_options_and_functions():
    options = tf.data.Options()
    options.experimental_deterministic = False
    dataset = RANGE(3).with_options(options).map(lambda x: x)
    assert dataset.options().experimental_deterministic is False and listed(dataset) == [0, 1, 2]
    with pytest.raises(AttributeError, match="Cannot set the property"):
        options.nonsense = 1
    assert tf.data.get_output_types(dataset) == tf.int64
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as sess:
        assert sess.run(following) == 0
