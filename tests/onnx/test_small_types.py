"""float8, float4, int4 and the like beside ml_dtypes; sequences and optionals in sessions."""
import numpy as np
import pytest

import pyflow as tf
from pyflow.interop import onnx as pyflow_onnx
from pyflow.interop import onnxruntime as ort
from pyflow.interop.onnx import small_types
from test_variants import C, encoded, info, model, node

ml_dtypes = pytest.importorskip("ml_dtypes", reason="comes with the test extra `onnx`")
FLOATS = [17, 18, 19, 20, 23]


def type_of(number):
    return np.dtype(getattr(ml_dtypes, small_types.FORMATS[number].name))


def one(name, value, kind=2):
    """An AttributeProto of an int."""
    return C["AttributeProto"](name=name, type=kind, i=value)


def cast(source, target, **attributes):
    """A model that casts between element types by number."""
    return model([node("Cast", "x", "y", one("to", target), *(
        one(name, value) for name, value in attributes.items()))],
        [info("x", source, ["n"])], [info("y", target, ["n"])])


def every_half():
    """All float16 numbers."""
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("number", small_types.FORMATS)
def test_every_code_stands_for_what_it_should(number):
    made = small_types.FORMATS[number]
    codes = np.arange(1 << made.bits, dtype=np.uint8)
    held = codes.view(type_of(number)) if not made.whole else \
        small_types.native(codes, number)
    y, = pyflow_onnx.prepare(cast(number, 1)).run([held])
    np.testing.assert_array_equal(y, held.astype(np.float32))
    assert (small_types.codes_of(held) == codes).all()


@pytest.mark.parametrize("number", FLOATS)
def test_every_half_rounds_as_ml_dtypes_rounds(number):
    x = every_half()
    y, = pyflow_onnx.prepare(cast(10, number)).run([x])
    assert y.dtype == type_of(number)
    largest = float(ml_dtypes.finfo(type_of(number)).max)
    with np.errstate(all="ignore"):
        want = np.clip(x.astype(np.float32), -largest, largest).astype(type_of(number))
    if number == 23:            # no NaN: ml_dtypes makes -0 of it
        x, y, want = (a[~np.isnan(every_half())] for a in (x, y, want))
    np.testing.assert_array_equal(y.astype(np.float32), want.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(y.astype(np.float32)[~np.isnan(x)]),
                                  np.signbit(want.astype(np.float32)[~np.isnan(x)]))


@pytest.mark.parametrize("number", [17, 18, 19, 20])
def test_without_saturation_what_is_too_large_is_what_the_type_has_for_it(number):
    x = np.float32([1, 440, 448, 463, 465, 500, 57344, 61439, 61441, 1e9, np.inf, -np.inf, np.nan])
    y, = pyflow_onnx.prepare(cast(1, number, saturate=0)).run([x])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y.astype(np.float32), x.astype(type_of(number)).astype(
            np.float32))


def test_doubles_are_rounded_once():
    x = np.array([1 + 2**-4 + 2**-40, 1 + 2**-4, 1 + 2**-4 - 2**-40])     # about the tie of 1, 1.125
    y, = pyflow_onnx.prepare(cast(11, 17)).run([x])
    assert y.astype(np.float64).tolist() == [1.125, 1.0, 1.0]


def test_weights_below_a_byte_are_unpacked():
    packed = C["TensorProto"](name="w", dims=[5], data_type=22, raw_data=memoryview(
        bytes([0x21, 0x8f, 0x07])))
    made = model([node("Cast", "w", "f", one("to", 1)), node("Add", "f x", "y")],
                 [info("x", 1, [5])], [info("y", 1, [5])], [packed])
    y, = pyflow_onnx.prepare(made).run([np.zeros(5, np.float32)])
    assert y.tolist() == [1, 2, -1, -8, 7]
    packed.raw_data = memoryview(b"\1\2")
    with pytest.raises(pyflow_onnx.OnnxError, match="5 elements of int4 need 3 bytes, 2 are there"):
        pyflow_onnx.prepare(made)


def test_elements_are_moved_and_nothing_else():
    nodes = [node("Transpose", "x", "t"), node("Reshape", "t s", "y")]
    shape = C["TensorProto"](name="s", dims=[1], data_type=7, int64_data=[6])
    made = model(nodes, [info("x", 17, ["a", "b"])], [info("y", 17, None)], [shape])
    x = np.arange(6, dtype=np.uint8).reshape(2, 3).view(type_of(17))
    y, = pyflow_onnx.prepare(made).run([x])
    assert y.dtype == x.dtype and y.view(np.uint8).tolist() == [0, 3, 1, 4, 2, 5]
    for op in ("Add", "Max", "Where", "MatMul"):
        inputs = "x x" if op != "Where" else "x x x"
        with pytest.raises(pyflow_onnx.UnsupportedError, match=f"op {op}.*float8e4m3fn is only"):
            pyflow_onnx.prepare(model([node(op, inputs, "y")], [info("x", 17, ["a", "a"])],
                                      [info("y", 17, None)]))


def test_a_session_takes_and_gives_small_types():
    session = ort.InferenceSession(encoded(cast(17, 17)))
    assert session.get_inputs()[0].type == "tensor(float8e4m3fn)"
    x = np.arange(8, dtype=np.uint8)
    for fed in (x, x.view(type_of(17))):
        y, = session.run(None, {"x": fed})
        assert y.dtype == type_of(17) and (y.view(np.uint8) == x).all()
    with pytest.raises(ort.InvalidArgument, match="Unexpected input data type"):
        session.run(None, {"x": x.astype(np.float32)})


# ---------------------------------------------------------------- sequences, optionals
def sequence_of(element):
    """A TypeProto of a sequence, or with `optional_of` of an optional."""
    return C["TypeProto"](sequence_type=C["TypeProto.Other"](elem_type=encoded(element)))


def tensor_of(kind, dims):
    return info("t", kind, dims).type


def summed():
    """Concatenates a sequence's elements; its length is the second output, itself the third."""
    axis = one("axis", 0)
    return model([node("ConcatFromSequence", "s", "y", axis), node("SequenceLength", "s", "n"),
                  node("Identity", "s", "t")],
                 [C["ValueInfoProto"](name="s", type=sequence_of(tensor_of(1, ["k"])))],
                 [info("y", 1, None), info("n", 7, []),
                  C["ValueInfoProto"](name="t", type=sequence_of(tensor_of(1, ["k"])))])


def test_sequences_of_any_length():
    kept = pyflow_onnx.prepare(summed())
    for sizes in ([1], [2, 3], [2, 3], [4, 0, 1], [3, 2]):
        fed = [np.arange(n, dtype=np.float32) for n in sizes]
        y, n, t = kept.run([fed])
        np.testing.assert_array_equal(y, np.concatenate(fed))
        assert n == len(fed) and [a.tolist() for a in t] == [a.tolist() for a in fed]
    assert len(kept._variants) == 4


def test_a_session_takes_lists_as_sequences():
    session = ort.InferenceSession(encoded(summed()))
    assert session.get_inputs()[0].type == "seq(tensor(float))"
    y, n, t = session.run(None, {"s": [np.float32([1]), np.float32([2, 3])]})
    assert y.tolist() == [1, 2, 3] and n == 2 and len(t) == 2
    with pytest.raises(RuntimeError, match="Unable to handle object of type"):
        session.run(None, {"s": np.float32([1])})


@pytest.mark.parametrize("nodes, said", [
    ([node("SequenceConstruct", "x x", "s"), node("Relu", "s", "y")], "op Relu.*a sequence where"),
    ([node("SequenceEmpty", "", "s"), node("SequenceAt", "s i", "y")], "the sequence is empty"),
    ([node("SequenceConstruct", "x", "s"), node("SequenceAt", "s i", "y")], "position 3 is out"),
    ([node("SequenceLength", "x", "y")], "input 0 must be a sequence"),
    ([node("Optional", "", "o"), node("OptionalGetElement", "o", "y")], "the optional is empty"),
    ([node("Optional", "", "o"), node("Relu", "o", "y")], "an empty optional where a tensor")])
def test_what_is_wrong_names_the_node(nodes, said):
    three = C["TensorProto"](name="i", dims=[], data_type=7, int64_data=[3])
    with pytest.raises(pyflow_onnx.OnnxError, match=said):
        pyflow_onnx.prepare(model(nodes, [info("x", 1, [2])], [info("y", 1, None)], [three]))


def test_sequences_in_a_graph_of_ones_own():
    with tf.Graph().as_default():
        made = pyflow_onnx.import_model(summed(), shapes={"s": [[2], [None]]})
        with tf.Session() as session:
            got = session.run(made.outputs, dict(zip(made.inputs["s"], [[1, 2], [3, 4, 5]])))
    assert got["y"].tolist() == [1, 2, 3, 4, 5] and [a.tolist() for a in got["t"]] == [
        [1, 2], [3, 4, 5]]
