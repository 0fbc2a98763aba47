"""Weights of a model: read where they lie, in memory once, packed once however often they are used."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pyflow as tf
from pyflow import _executor
from pyflow.interop.onnx import InferenceSession, files, prepare
from pyflow.interop.onnx.variants import Variants

MB = 1 << 20


def save(path, nodes, inputs, outputs, weights):
    """Writes a model; inputs: {name: shape}; weights: {name: array}.  -> its path."""
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in
                     inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    made.ir_version = 8
    path.write_bytes(made.SerializeToString())
    return str(path)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def products(path, uses, matrix, same=True):
    """x, times a matrix `uses` times, as Gemm or MatMul; each use with a node of its own."""
    nodes = [helper.make_node("MatMul", [f"x{i}", "w" if same else f"w{i}"], [f"x{i + 1}"])
             for i in range(uses)]
    weights = {"w": matrix} if same else {f"w{i}": matrix for i in range(uses)}
    return save(path, nodes, {"x0": [1, matrix.shape[0]]}, [f"x{uses}"], weights)


# ------------------------------------------------------------------------------------------- files
@pytest.mark.parametrize("shape, order", [
    ((300, 1000), (1, 0)), ((300, 1000), (0, 1)), ((96, 160, 5, 5), (2, 3, 1, 0)),
    ((1024, 300, 1, 1), (2, 3, 1, 0)), ((7, 5, 3, 3), (2, 3, 1, 0)), ((600, 1, 25, 25), (2, 3, 0, 1)),
    ((0, 3), (1, 0)), ((), ())])
def test_copies_are_compact_and_aligned(shape, order):
    array = numbers(*shape)
    made = files.frozen(array.transpose(order))
    assert np.array_equal(made, array.transpose(order)) and made.dtype == array.dtype
    assert made.flags.c_contiguous and not made.flags.writeable
    assert not made.size or made.__array_interface__["data"][0] % 64 == 0


def test_an_array_over_a_file_reads_the_same_after_its_pages_were_given_back(tmp_path):
    data = np.arange(3 * MB, dtype=np.uint8)
    (tmp_path / "f").write_bytes(data.tobytes())
    file = files.ModelFile(tmp_path / "f", 5000, 2 * MB)
    array = np.frombuffer(file, np.uint8, 2 * MB, file.skip)
    assert files.file_of(array[17:]) is file and files.file_of(data) is None
    assert np.array_equal(array, data[5000:5000 + 2 * MB])
    file.forget(array)
    assert np.array_equal(array, data[5000:5000 + 2 * MB])


def test_a_file_that_changed_is_an_error_not_other_numbers(tmp_path):
    """A new shape needs another graph, and that the weights anew."""
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_shape=[12, 12],
                              strides=[2, 2])]
    w = numbers(64, 64, 9, 9)
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, 64, "h", "v"]}, ["y"], {"w": w})
    session = InferenceSession(path)
    first = session.run(None, {"x": numbers(1, 64, 6, 6)})[0]
    with open(path, "r+b") as file:
        file.truncate(1000)
    assert np.array_equal(session.run(None, {"x": numbers(1, 64, 6, 6)})[0], first)
    with pytest.raises(Exception, match="was changed while the model is in use"):
        session.run(None, {"x": numbers(1, 64, 5, 5)})


# ---------------------------------------------------------------------------------------- sharing
def shared():
    return _executor.memory_stats()["shared"]


@pytest.mark.parametrize("same", [True, False])
def test_a_matrix_is_packed_once_for_all_its_uses(tmp_path, same):
    matrix, before = numbers(200, 200) / 20, shared()
    path = products(tmp_path / "m.onnx", 5, matrix, same)
    sessions = [InferenceSession(path) for _ in range(3)]
    x = numbers(1, 200)
    results = [s.run(None, {"x0": x})[0] for s in sessions]
    assert shared() == before + 1
    want = x.astype(np.float64)
    for _ in range(5):
        want = want @ matrix
    for result in results:
        np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-5)
        assert np.array_equal(result, results[0])
    del sessions
    assert shared() == before


def test_filters_are_packed_once_for_all_shapes_and_sessions(tmp_path):
    before = shared()
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("Resize", ["c", "", "s"], ["y"], mode="cubic")]
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, 16, "h", "v"]}, ["y"],
                {"w": numbers(32, 16, 3, 3), "s": np.array([1, 1, 2, 2], np.float32)})
    kept = prepare(path)
    for size in (8, 9, 10, 9):
        x = numbers(1, 16, size, size)
        y, = kept.run([x])
        assert np.array_equal(y, prepare(path).run([x])[0])
    assert shared() == before + 1
    kept.close()
    del kept
    assert shared() == before


def test_frozen_graphs_share_with_models(tmp_path):
    """The same elements, type and shape, wherever they come from."""
    matrix, before = numbers(100, 100), shared()
    session = InferenceSession(products(tmp_path / "m.onnx", 1, matrix))
    x = numbers(1, 100)
    y, = session.run(None, {"x0": x})
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32, [1, 100])
        with tf.Session() as other:
            assert np.array_equal(other.run(tf.matmul(fed, matrix), {fed: x}), y)
            assert shared() == before + 1
            turned = other.run(tf.matmul(fed, matrix, transpose_b=True), {fed: x})
            np.testing.assert_allclose(turned, x @ matrix.T, rtol=1e-4, atol=1e-4)
            assert shared() == before + 2


# ----------------------------------------------------------------------------------------- memory
def test_large_constants_are_let_go_and_come_back(tmp_path):
    matrix = numbers(200, 200) / 20
    path = products(tmp_path / "m.onnx", 3, matrix)
    model = onnx.load(path)
    model.graph.output.insert(0, helper.make_tensor_value_info("x1", TensorProto.FLOAT, None))
    variants = InferenceSession(model.SerializeToString())._variants
    assert isinstance(variants, Variants)
    variant, feeds = variants.general, {"x0": numbers(1, 200)}

    def held():
        return [op.attrs["value"] is not None for op in variant.model.graph.get_operations()
                if op.type == "Const" and op.outputs[0].shape.num_elements() == matrix.size]
    last, = variant.outputs(feeds, ["x3"])
    assert held() == [False] and not any(w.forms for w in variants._weights.values())
    first, again = variant.outputs(feeds, ["x1", "x3"])
    assert np.array_equal(again, last)
    np.testing.assert_allclose(first, feeds["x0"] @ matrix, rtol=1e-4, atol=1e-5)
    values, events = variant.traced(feeds, ["x1"])
    assert np.array_equal(values[0], first) and events and held() == [False]


MEASURE = """
import json, resource, sys
import numpy as np
from pyflow.interop.onnx import InferenceSession
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
small, path, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
InferenceSession(small).run(None, {"x0": np.ones((1, 64), np.float32)})
before = peak()
session = InferenceSession(path)
y, = session.run(None, {"x0": np.ones((1, n), np.float32)})
with open("/proc/self/statm") as f: now = int(f.read().split()[1]) * resource.getpagesize() / 2**20
print(json.dumps([peak() - before, now - before, float(y.sum())]))
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_of_a_model(tmp_path):
    """A matrix of 36 MB that is used 8 times takes its own size and, while it is packed, as much
    again (before: the file's pages, a copy, the plan's copy and a packed one for each use)."""
    small = products(tmp_path / "small.onnx", 1, numbers(64, 64))
    path = products(tmp_path / "m.onnx", 8, np.full((3000, 3000), 1 / 3000, np.float32))
    done = subprocess.run([sys.executable, "-c", MEASURE, small, path, "3000"], check=True,
                          stdout=subprocess.PIPE, text=True)
    peak, kept, total = json.loads(done.stdout)
    size = 36e6 / MB
    assert total == pytest.approx(3000, rel=1e-3)
    assert peak < 2.3 * size, f"{peak:.0f} MB at most"
    assert kept < 1.4 * size, f"{kept:.0f} MB stay"


@pytest.mark.parametrize("strides, pads", [([2, 2], [1, 1, 1, 1]), ([2, 1], [1, 1, 1, 1]),
                                           ([1, 1], [1, 1, 1, 1]), ([1, 1], [2, 0, 1, 1])])
def test_depthwise_layers_are_one_node_with_what_follows(tmp_path, strides, pads):
    w = {"w": numbers(6, 1, 3, 3), **{k: np.linspace(0.5, 1.5, 6, dtype=np.float32) for k in "sbmv"}}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], group=6, strides=strides, pads=pads),
             helper.make_node("BatchNormalization", ["c", *"sbmv"], ["n"]),
             helper.make_node("Relu", ["n"], ["y"])]
    session = InferenceSession(save(tmp_path / "m.onnx", nodes, {"x": [1, 6, 8, 10]}, ["y"], w))
    x = numbers(1, 6, 8, 10, seed=1)
    y, = session.run(None, {"x": x})
    padded = np.pad(x[0], [(0, 0), (pads[0], pads[2]), (pads[1], pads[3])]).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    want = np.einsum("chwij,cij->chw", windows[:, ::strides[0], ::strides[1]], w["w"][:, 0])
    s, b, m, v = (w[k].astype(np.float64).reshape(-1, 1, 1) for k in "sbmv")
    want = np.maximum((want - m) / np.sqrt(v + 1e-5) * s + b, 0)
    np.testing.assert_allclose(y[0], want, rtol=1e-4, atol=1e-4)
    _, events = session._variants.general.traced({"x": x}, ["y"])
    ops = {event["args"]["op"] for event in events if "op" in event.get("args", {})}
    assert ops & {"_FusedConv2D", "_FusedDepthwiseConv2dNative"}, ops
    assert not ops & {"FusedBatchNormV3", "Relu", "BiasAdd"}, ops


def normed(path, uses):
    """Convolutions of one filter, each with a batch norm of its own; the sizes are open."""
    nodes, weights = [], {"w": numbers(320, 320, 3, 3), **{k: np.abs(numbers(320, seed=i)) + 0.1
                                                          for i, k in enumerate("sbmv")}}
    for i in range(uses):
        nodes += [helper.make_node("Conv", [f"x{i}", "w"], [f"y{i}"], pads=[1, 1, 1, 1]),
                  helper.make_node("BatchNormalization", [f"y{i}", *"sbmv"], [f"x{i + 1}"])]
    return save(path, nodes, {"x0": [1, 320, "h", "v"]}, [f"x{uses}", "y0"], weights)


@pytest.mark.parametrize("uses", [1, 2])
def test_a_filter_that_is_scaled_in_place_is_scaled_once(tmp_path, uses, monkeypatch):
    """By each plan that is made from it, and not where two layers have it."""
    from pyflow.passes import fuse_shapes
    own, found = fuse_shapes.own_array, []
    monkeypatch.setattr(fuse_shapes, "own_array", lambda node: found.append(own(node)) or found[-1])
    path = normed(tmp_path / "m.onnx", uses)
    x = numbers(1, 320, 5, 4)
    kept = InferenceSession(path)
    first, = kept.run([f"x{uses}"], {"x0": x})
    assert [array is not None for array in found] == [True] * (uses == 1)
    again, product = kept.run(None, {"x0": x})      # another plan, which needs the filter as it is
    twice, = InferenceSession(path).run([f"x{uses}"], {"x0": x})
    assert np.array_equal(twice, first)
    weights = {t.name: numpy_helper.to_array(t).astype(float)
               for t in onnx.load(path).graph.initializer}
    filters = weights["w"].transpose(2, 3, 1, 0)
    got = x.transpose(0, 2, 3, 1).astype(float)
    for _ in range(uses):
        padded = np.pad(got, [(0, 0), (1, 1), (1, 1), (0, 0)])
        got = sum(padded[:, i:i + 5, j:j + 4] @ filters[i, j] for i in range(3) for j in range(3))
        got = (got - weights["m"]) / np.sqrt(weights["v"] + 1e-5) * weights["s"] + weights["b"]
    for made in (first, again):
        assert np.abs(made.transpose(0, 2, 3, 1) - got).max() < 1e-5 * np.abs(got).max()
    assert np.abs(product).max() > 0
