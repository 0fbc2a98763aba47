"""Models whose sizes only the step knows: one graph, fed with several shapes.

A size that is not declared must not change an answer: each is compared with the same model imported
for that very shape."""
import numpy as np
import pytest
from sweep_model import F, data, graph, model, node

import pyflow as tf
from pyflow.interop import onnx

HALF = np.array([1, 1, 1.5, 0.7], F)
TWICE = np.array([1, 1, 2, 2], F)


def made(op, shape, attributes, arrays=None, opset=19, inputs=None):
    """A model of one node over x, whose sizes have no values."""
    arrays = arrays or {}
    dims = [f"d{i}" if i != 1 else d for i, d in enumerate(shape)]
    return model(graph([node(op, inputs or ["x", *arrays], ["y"], attributes)], [("x", F, dims)],
                       [("y",)],
                       arrays), {"": opset})


def layers():
    """{what: (model, shapes)}."""
    image = [(1, 3, 6, 7), (2, 3, 9, 5), (1, 3, 12, 12)]
    line = [(1, 3, 9), (2, 3, 14), (1, 3, 31)]

    def resized(scales, **how): return made("Resize", image[0], how, {"s": scales},
                                            inputs=["x", "", "s"])
    return {
        "Resize linear": (resized(HALF, mode="linear"), image),
        "Resize nearest": (resized(TWICE, mode="nearest", nearest_mode="floor",
                                   coordinate_transformation_mode="asymmetric"), image),
        "Resize cubic": (resized(HALF, mode="cubic"), image),
        "Resize antialias": (resized(HALF, mode="linear", antialias=1), image),
        "MaxPool 1-D": (made("MaxPool", line[0], {"kernel_shape": [3], "pads": [1, 1],
                                                  "strides": [2]}), line),
        "MaxPool ceil": (made("MaxPool", image[0], {"kernel_shape": [3, 2], "strides": [2, 2],
                                                    "ceil_mode": 1}), image),
        "MaxPool dilated": (made("MaxPool", image[0], {"kernel_shape": [3, 2],
                                                       "dilations": [2, 1]}), image),
        "AveragePool": (made("AveragePool", image[0], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1],
                                                       "strides": [2, 2]}), image),
        "AveragePool include": (made("AveragePool", image[0], {
            "kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 3], "ceil_mode": 1,
            "count_include_pad": 1}), image),
        "AveragePool same": (made("AveragePool", image[0],
                                  {"kernel_shape": [3, 3], "strides": [2, 2],
                                                            "auto_pad": "SAME_UPPER"}), image),
        "AveragePool 1-D": (made("AveragePool", line[0], {"kernel_shape": [3], "pads": [1, 1]}),
                            line),
        "LpPool": (made("LpPool", image[0], {"kernel_shape": [2, 2], "pads": [0, 1, 1, 0]}), image),
        "Conv same": (made("Conv", image[0], {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
                           {"w": data(4, 3, 3, 2)}), image),
        "Conv 3-D": (made("Conv", (1, 3, 4, 4, 4), {"pads": [1, 0, 1, 0, 1, 1],
                                                    "strides": [2, 1, 1]}, {
            "w": data(2, 3, 3, 2, 2)}), [(1, 3, 4, 4, 5), (2, 3, 7, 3, 3)]),
        "ConvTranspose": (made("ConvTranspose", image[0], {
            "strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
            {"w": data(3, 2, 3, 3)}), image),
        "ConvTranspose same": (made("ConvTranspose", image[0],
                                    {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, {
            "w": data(3, 2, 3, 3)}), image),
        "ConvTranspose 1-D": (made("ConvTranspose", line[0], {"strides": [2]},
                                   {"w": data(3, 2, 4)}), line),
        "ConvTranspose 3-D": (made("ConvTranspose", (1, 3, 2, 3, 4), {"strides": [2, 1, 2]}, {
            "w": data(3, 2, 2, 2, 3)}), [(1, 3, 2, 3, 4), (2, 3, 4, 2, 2)]),
        "GroupNormalization": (made("GroupNormalization", image[0], {"num_groups": 3}, {
            "s": data(3), "b": data(3, seed=2)}, 21), image),
    }


@pytest.mark.parametrize("what", layers())
def test_one_graph_for_every_shape(what):
    proto, shapes = layers()[what]
    with tf.Graph().as_default() as whole:
        own = onnx.import_model(proto)
        with tf.Session(graph=whole) as session:
            for shape in shapes:
                x = data(*shape)
                y = session.run(own.outputs["y"], {own.inputs["x"]: x})
                with tf.Graph().as_default() as fixed:
                    known = onnx.import_model(proto, shapes={"x": shape})
                    with tf.Session(graph=fixed) as exact:
                        expected = exact.run(known.outputs["y"], {known.inputs["x"]: x})
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("height", [1, "h"])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (3,), (0, 2), (1, 3), (2, 4), (3, 4), (0, 4)])
def test_axes_of_size_one_come_and_go_without_transposes(height, axes):
    """What lies channels-last stays so."""
    w = data(4, 3, 1, 1, low=-1, high=1)
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Squeeze", ["c", "two"], ["s"]),
             node("Relu", ["s"], ["r"]), node("Unsqueeze", ["r", "axes"], ["y"])]
    arrays = {"w": w, "two": np.array([2]), "axes": np.array(axes)}
    proto = model(graph(nodes, [("x", F, ("n", 3, height, "w"))], [("y",), ("r",)], arrays),
                  {"": 17})
    kept = onnx.prepare(proto)
    for shape in ((2, 3, 1, 5), (1, 3, 1, 4)):
        x = data(*shape, low=-1, high=1)
        wanted = np.maximum(np.einsum("oc,nchw->nohw", w[:, :, 0, 0], x)[:, :, 0], 0)
        expanded = wanted
        for axis in axes:
            expanded = np.expand_dims(expanded, axis)
        for found, want in zip(kept.run([x]), (expanded, wanted)):
            assert found.shape == want.shape
            np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)


def test_sizes_that_follow_another_tensor():
    """Resize to the sizes of a second image, as in feature pyramids; other batches are an error."""
    proto = model(graph([node("Shape", ["like"], ["s"]),
                         node("Resize", ["x", "", "", "s"], ["y"], {"mode": "linear"})],
                        [("x", F, ("n", 2, "h", "w")), ("like", F, ("n", 2, "k", "l"))], [("y",)]),
                        {"": 19})
    with tf.Graph().as_default() as whole:
        own = onnx.import_model(proto)
        with tf.Session(graph=whole) as session:
            for size in ((4, 5), (9, 3)):
                x = data(1, 2, 3, 4)
                y = session.run(own.outputs["y"], {own.inputs["x"]: x,
                                                   own.inputs["like"]: np.zeros((1, 2, *size), F)})
                expected, = onnx.prepare(made("Resize", (1, 2, 3, 4), {"mode": "linear"}, {
                    "s": np.array([1, 2, *size])}, inputs=["x", "", "", "s"])).run([x])
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(own.outputs["y"], {own.inputs["x"]: x,
                                               own.inputs["like"]: np.zeros((2, 2, 4, 4), F)})


def test_a_recurrent_layer_whose_first_state_is_expanded():
    """Its batch follows from the input's shape: the loop's state has a known width all the same."""
    hidden = 3
    arrays = {"w": data(1, 4 * hidden, 2, low=-1, high=1),
              "r": data(1, 4 * hidden, hidden, seed=3, low=-1, high=1),
              "zero": data(1, 1, hidden, seed=5), "one": np.array([1]), "width": np.array([hidden]),
              "at": np.array([1])}
    proto = model(graph([
        node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "at"], ["batch"]),
        node("Concat", ["one", "batch", "width"], ["wanted"], {"axis": 0}),
        node("Expand", ["zero", "wanted"], ["h"]),
        node("LSTM", ["x", "w", "r", "", "", "h", "h"], ["y"], {"hidden_size": hidden})],
        [("x", F, ("t", "b", 2))], [("y",)], arrays), {"": 17})
    with tf.Graph().as_default() as whole:
        own = onnx.import_model(proto)
        with tf.Session(graph=whole) as session:
            for steps, batch in ((7, 1), (5, 3)):
                x = data(steps, batch, 2)
                y = session.run(own.outputs["y"], {own.inputs["x"]: x})
                with tf.Graph().as_default() as fixed:
                    known = onnx.import_model(proto, shapes={"x": x.shape})
                    with tf.Session(graph=fixed) as exact:
                        expected = exact.run(known.outputs["y"], {known.inputs["x"]: x})
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op, attributes, arrays", [
    ("Unsqueeze", {}, {"axes": np.array([0])}), ("Conv", {}, {"w": data(2, 3, 3)}),
    ("MatMul", {}, {"w": data(4, 2)}), ("Softmax", {}, {}), ("Concat", {"axis": 0}, {})])
def test_branches_of_different_ranks(op, attributes, arrays):
    """An exporter's squeeze under If: the rank follows from the shape that is fed, and is asked for
    by the input's name."""
    squeezed = graph([node("Squeeze", ["x", "first"], ["a"])], (), [("a",)])
    kept = graph([node("Identity", ["x"], ["b"])], (), [("b",)])
    inputs = ["c"] if op == "Concat" else ["c", *arrays]
    proto = model(graph([
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"]),
        node("Equal", ["n", "one"], ["flag"]),
        node("If", ["flag"], ["c"], {"then_branch": squeezed, "else_branch": kept}),
        node(op, inputs, ["y"], attributes)],
        [("x", F, ("n", 3, "c"))], [("y",)],
        {"first": np.array([0]), "zero": np.array(0), "one": np.array(1), **arrays}), {"": 17})
    with tf.Graph().as_default(), pytest.raises(onnx.NeedsConstant) as caught:
        onnx.import_model(proto)
    assert caught.value.inputs == ("x",) and caught.value.op == op
    ranks = []
    for shape in ((1, 3, 4), (2, 3, 4)):
        if op == "Conv" and shape[0] == 1:
            continue                # one image without its axis is none
        y, = onnx.prepare(proto).run([data(*shape)])
        ranks.append(y.ndim)
    assert ranks == {"Unsqueeze": [3, 4], "Conv": [3]}.get(op, [2, 3])
