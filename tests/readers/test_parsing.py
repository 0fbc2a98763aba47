"""tf.train.Example and its kin, and what tf.parse_example makes of them: by hand, and beside
protobuf on messages that nobody would write."""
import random

import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import protos
from pyflow.lib.parsing.features import Asked


def run(value, feeds=None):
    with tf.Session() as session:
        return session.run(value, feeds)


def an_example():
    return tf.train.Example(features=tf.train.Features(feature={
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[7, -3])),
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"\x00\xff"])),
        "weight": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5]))}))


def test_messages_are_tensorflow_s_bytes():
    small = tf.train.Example(features=tf.train.Features(feature={
        "a": tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 1, 3]))}))
    assert small.SerializeToString() == bytes.fromhex("0a0e0a0c0a016112071a050a03010103")
    again = tf.train.Example.FromString(an_example().SerializeToString())
    assert again.features.feature["label"].int64_list.value == [7, -3]
    assert again.features.feature["image"].WhichOneof("kind") == "bytes_list"
    lists = tf.train.SequenceExample(
        context=tf.train.Features(feature={"n": tf.train.Feature(
            int64_list=tf.train.Int64List(value=[2]))}),
        feature_lists=tf.train.FeatureLists(feature_list={"w": tf.train.FeatureList(feature=[
            tf.train.Feature(float_list=tf.train.FloatList(value=[1.5]))])}))
    again = tf.train.SequenceExample.FromString(lists.SerializeToString())
    assert again.feature_lists.feature_list["w"].feature[0].float_list.value == [1.5]


def test_one_example():
    parsed = tf.parse_single_example(an_example().SerializeToString(), {
        "label": tf.FixedLenFeature([2], tf.int64), "image": tf.FixedLenFeature([], tf.string),
        "weight": tf.VarLenFeature(tf.float32),
        "gone": tf.FixedLenFeature([1], tf.float32, default_value=[9.0]),
        "blocks": tf.FixedLenSequenceFeature([2], tf.int64, allow_missing=True)}, example_names="first")
    found = run(parsed)
    assert found["label"].tolist() == [7, -3] and found["image"] == b"\x00\xff"
    assert found["weight"].values.tolist() == [0.5] and found["gone"].tolist() == [9.0]
    assert found["blocks"].shape == (0, 2)


def test_a_batch():
    record = an_example().SerializeToString()
    parsed = tf.parse_example([record, b""], {
        "label": tf.FixedLenFeature([2], tf.int64, [0, 1]), "weight": tf.VarLenFeature(tf.float32)},
        name="batch")
    found = run(parsed)
    assert found["label"].tolist() == [[7, -3], [0, 1]]
    assert found["weight"].indices.tolist() == [[0, 0]]
    assert found["weight"].dense_shape.tolist() == [2, 1]


def test_one_sequence():
    record = tf.train.SequenceExample(
        context=an_example().features, feature_lists=tf.train.FeatureLists(feature_list={
            "w": tf.train.FeatureList(feature=[tf.train.Feature(
                int64_list=tf.train.Int64List(value=[i, i])) for i in range(3)])}))
    context, lists = run(tf.parse_single_sequence_example(
        record.SerializeToString(), context_features={"label": tf.FixedLenFeature([2], tf.int64)},
        sequence_features={"w": tf.FixedLenSequenceFeature([2], tf.int64)}))
    assert context["label"].tolist() == [7, -3]
    assert lists["w"].tolist() == [[0, 0], [1, 1], [2, 2]]


def test_an_error_names_the_example_the_feature_and_what_to_do():
    record = an_example().SerializeToString()
    with pytest.raises(tf.errors.InvalidArgumentError, match="second, Feature: label .*int64"):
        run(tf.parse_example([record, b""], {"label": tf.FixedLenFeature([2], tf.int64)},
                             example_names=["first", "second"]))
    with pytest.raises(ValueError, match="allow_missing to be True.*'x'"):
        tf.parse_example([record], {"x": tf.FixedLenSequenceFeature([], tf.int64)})
    with pytest.raises(ValueError, match="Unsupported int 3 for key 'x'"):
        Asked({"x": 3}, [tf.VarLenFeature])


def test_many_examples_on_many_threads():
    """The values are those of each example, wherever the batch is cut."""
    rows = [list(range(i % 7)) for i in range(5000)]
    records = [protos.Example(features=protos.Features(feature={
        "n": protos.Feature(int64_list=protos.Int64List(value=[i])),
        "v": protos.Feature(int64_list=protos.Int64List(value=row)),
        "s": protos.Feature(bytes_list=protos.BytesList(value=[b"%d" % i]))})).SerializeToString()
        for i, row in enumerate(rows)]
    found = run(tf.parse_example(records, {
        "n": tf.FixedLenFeature([], tf.int64), "v": tf.VarLenFeature(tf.int64),
        "s": tf.FixedLenFeature([], tf.string)}))
    assert found["n"].tolist() == list(range(5000))
    assert found["v"].values.tolist() == [v for row in rows for v in row]
    assert found["v"].indices.tolist() == [[i, k] for i, row in enumerate(rows)
                                           for k in range(len(row))]
    assert found["s"].tolist() == [b"%d" % i for i in range(5000)]


# ------------------------------------------------------------------- odd and damaged messages
KINDS = {"i": tf.int64, "f": tf.float32, "s": tf.string}


def seen_by_protobuf(record):
    """{key: (kind, values)} of the three keys, or None where protobuf refuses the message."""
    try:
        feature = protos.Example.FromString(record).features.feature
    except Exception:  # noqa: BLE001  DecodeError's module differs between protobuf's versions
        return None
    found = {}
    for key in KINDS:
        if key in feature:
            kind = feature[key].WhichOneof("kind")
            found[key] = kind and (kind, list(getattr(feature[key], kind).value))
    return found


def mutated(rng, record):
    data = bytearray(record)
    for _ in range(rng.choice((1, 1, 1, 3))):
        how, at = rng.choice((0, 0, 0, 1, 2, 3)), rng.randrange(len(data) + 1)
        if how == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 5)))
        elif how == 2:
            del data[at:at + rng.randint(1, 5)]
        else:
            data = data[:at] + data[rng.randrange(len(data) + 1):]
    return bytes(data)


def odd_records():
    """Whole messages, merged and unpacked ones, and damaged ones."""
    rng = random.Random(5)
    base = protos.Example(features=protos.Features(feature={
        "i": protos.Feature(int64_list=protos.Int64List(value=[1, -1, 300])),
        "f": protos.Feature(float_list=protos.FloatList(value=[0.5, -2.0])),
        "s": protos.Feature(bytes_list=protos.BytesList(value=[b"", b"xyz"]))})).SerializeToString()
    unpacked = b"\n\x11\n\x0f\n\x01i\x12\n\x1a\x08\x08\x01\x08\x02\n\x02\x05\x06"
    two_kinds = b"\n\x11\n\x0f\n\x01i\x12\n\x12\x03\n\x01x\x1a\x03\n\x01\x07"
    yield from (base, b"", base + base, unpacked, base + unpacked, b"\n\x00", two_kinds)
    for _ in range(600):
        yield mutated(rng, base)


def test_what_protobuf_sees():
    """Of each message either both see the same values, or it is refused here too; a message whose
    key is no UTF-8, which protobuf refuses, may be read."""
    record = tf.placeholder(tf.string, [])
    parsed = tf.parse_single_example(record, {k: tf.VarLenFeature(t) for k, t in KINDS.items()})
    accepted = refused = 0
    with tf.Session() as session:
        for data in odd_records():
            expected = seen_by_protobuf(data)
            try:
                found = session.run(parsed, {record: data})
            except tf.errors.InvalidArgumentError:
                kinds = {"i": "int64_list", "f": "float_list", "s": "bytes_list"}
                assert expected is None or any(v and v[0] != kinds[k]
                                               for k, v in expected.items()), data
                refused += 1
                continue
            if expected is None:
                continue
            accepted += 1
            for key, sparse in found.items():
                want = (expected.get(key) or (None, []))[1]
                np.testing.assert_array_equal(sparse.values.tolist(), want, err_msg=str(data))
    assert accepted > 60 and refused > 100, (accepted, refused)
