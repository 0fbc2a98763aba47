"""tf.summary's ops give the bytes that TensorFlow recorded (record.py), and errors where it does."""
import base64
import json
import pathlib

import numpy as np
import pytest
from summary_cases import CASES

import pyflow as tf

RECORDED = json.loads(pathlib.Path(__file__).with_name("tensorflow.json").read_text("utf-8"))


def made(case):
    with tf.Graph().as_default() as graph:
        tensor = case(tf)
        with tf.Session(graph=graph) as session:
            return session.run(tensor), tensor


def pixels(summary):
    """The summary without its pictures, and these."""
    found = []
    for value in summary.value:
        data, value.image.encoded_image_string = value.image.encoded_image_string, b""
        with tf.Graph().as_default(), tf.Session() as session:
            found.append(session.run(tf.image.decode_png(data)))
    return summary.SerializeToString(deterministic=True), found


@pytest.mark.parametrize("name", CASES)
def test_summaries_are_tensorflows(name):
    data, tensor = made(CASES[name])
    expected, tensor_name = base64.b85decode(RECORDED[name][0]), RECORDED[name][1]
    assert tensor.name == tensor_name and tensor.shape == [] and tensor.dtype == tf.string
    if name.startswith("image"):
        own, theirs = (pixels(tf.Summary.FromString(d)) for d in (data, expected))
        assert own[0] == theirs[0] and len(own[1]) == len(theirs[1])
        for a, b in zip(own[1], theirs[1]):
            np.testing.assert_array_equal(a, b)
    else:
        assert data == expected


def test_every_case_is_recorded():
    assert set(RECORDED) == set(CASES)


def test_the_older_audio_op():
    """Its rate is an attribute; TensorFlow 2 has it no more."""
    sound = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5)
    old, _ = made(lambda tf: tf.raw_ops.AudioSummary(tag="t", tensor=sound, sample_rate=8000.25,
                                                     max_outputs=2))
    new, _ = made(lambda tf: tf.raw_ops.AudioSummaryV2(tag="t", tensor=sound, sample_rate=8000.25,
                                                       max_outputs=2))
    assert old == new and len(tf.Summary.FromString(old).value) == 2


BIG = np.full([2, 3], 3, np.float32)
WRONG = {
    "Nan in summary histogram for: h": lambda: tf.summary.histogram("h", BIG * np.nan),
    "Infinity in summary histogram for: h": lambda: tf.summary.histogram("h", BIG * np.inf),
    "tags and values not the same shape: [] != [2,3]": lambda: tf.summary.scalar("s", BIG),
    "must be 4-D with last dim 1, 3, or 4, not [2, 3]": lambda: tf.summary.image("i", BIG),
    "have no pixel": lambda: tf.summary.image("i", np.zeros([1, 0, 2, 3], np.float32)),
    "Tensor must be 3-D or 2-D, got: [3]": lambda: tf.summary.audio("a", BIG[0], 8000),
    "sample_rate must be > 0": lambda: tf.summary.audio("a", BIG, -8000),
    "Duplicate tag s found in summary inputs": lambda: tf.summary.merge(
        [tf.raw_ops.ScalarSummary(tags="s", values=1.0),
         tf.raw_ops.ScalarSummary(tags="s", values=2.0)]),
    "Could not parse one of the summary inputs": lambda: tf.summary.merge([tf.constant(b"\x0a\xff")]),
    "serialized_summary_metadata is not": lambda: tf.raw_ops.TensorSummaryV2(
        tag="t", tensor=1.0, serialized_summary_metadata=b"\x0a\x05a"),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_fails_the_step(words):
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(WRONG[words]())
    assert words in str(caught.value)


def test_merge_refuses_any_bytes_that_are_no_message():
    random = np.random.default_rng(3)
    good, _ = made(CASES["merged"])
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.placeholder(tf.string, [])
        merged = tf.summary.merge([given])
        for _ in range(300):
            broken = bytearray(good)
            for _ in range(int(random.integers(1, 6))):
                broken[random.integers(len(broken))] = random.integers(256)
            try:
                assert session.run(merged, {given: bytes(broken)}) == bytes(broken)
            except tf.errors.InvalidArgumentError as error:
                assert "Could not parse" in str(error) or "Duplicate" in str(error)


def test_collections_and_names():
    with tf.Graph().as_default():
        a = tf.summary.scalar("a", 1.0)
        b = tf.summary.histogram("b", [1.0], collections=["mine"])
        c = tf.summary.text("c/d", "words", collections=["mine", tf.GraphKeys.SUMMARIES])
        assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [a, c]
        assert tf.get_collection("mine") == [b, c]
        assert tf.summary.merge_all("none") is None
        assert tf.summary.merge_all(scope="c").op.inputs[0] is c
        with pytest.raises(ValueError, match="dtype string"):
            tf.summary.text("t", tf.constant(1.0))


def test_a_description():
    node = tf.NodeDef(op="TensorSummary")
    node.attr["description"].s = b'{"typeHint": "vector"}'
    assert tf.summary.get_summary_description(node).type_hint == "vector"
    with pytest.raises(ValueError, match="on Add"):
        tf.summary.get_summary_description(tf.NodeDef(op="Add"))


def test_a_bad_color_and_its_default():
    """A graph whose default attributes were left out, as TensorFlow's Saver does it, is read."""
    picture = np.array([[[[np.nan], [1.0]]]], np.float32)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        default = tf.raw_ops.ImageSummary(tag="t", tensor=picture, name="seen")
        green = tf.raw_ops.ImageSummary(tag="t", tensor=picture, bad_color=np.array([7], np.uint8))
        found = [pixels(tf.Summary.FromString(d))[1][0][0, :, 0].tolist()
                 for d in session.run([default, green])]
        data = graph.as_graph_def()
    assert found == [[255, 255], [7, 255]]
    node, = [n for n in data.node if n.name == "seen"]
    assert node.attr["bad_color"].tensor.dtype == tf.uint8.as_datatype_enum
    for name in ("bad_color", "max_images"):
        del node.attr[name]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(data, name="")
        again = pixels(tf.Summary.FromString(session.run("seen:0")))
    assert again[1][0][0, :, 0].tolist() == [255, 255]


def test_a_graph_of_summaries_is_read_again():
    with tf.Graph().as_default() as graph:
        CASES["image broken"](tf)
        tf.identity(CASES["merged"](tf), name="out")
        data = graph.as_graph_def().SerializeToString()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(tf.GraphDef.FromString(data), name="")
        assert session.run("out:0")
