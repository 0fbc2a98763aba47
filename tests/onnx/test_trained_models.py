"""Classes of layers that trained models of published packages have (tests/models): each answers as
NumPy does, and runs as the one op it is meant to be."""
import numpy as np
import pytest
from sweep_model import F, graph, model, node

import pyflow as tf
from pyflow.interop import onnx
from pyflow.interop.onnxruntime import InferenceSession


def drawn(seed, *shape, scale=0.5):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def made(nodes, inputs, outputs, arrays, opset=17, **domains):
    outputs = [(name,) if isinstance(name, str) else name for name in outputs]
    return model(graph(nodes, inputs, outputs, arrays),
                 {"": opset, **domains})


def op_types(session):
    """Types of the ops of a session's graph for all shapes."""
    return [op.type for op in session._variants.general.model.graph.get_operations()]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


# ------------------------------------------------------------------------------------- recurrent
def lstm_in_numpy(x, w, r, b, h, c, p=None):
    """One direction, gates i, o, f, c; (outputs, h, c)."""
    n, found = h.shape[1], []
    p = np.zeros(3 * n) if p is None else p
    bias = b[:4 * n] + b[4 * n:]
    for step in x:
        gates = step @ w.T + h @ r.T + bias
        i, o, f, g = (gates[:, k * n:(k + 1) * n] for k in range(4))
        i, f = sigmoid(i + p[:n] * c), sigmoid(f + p[2 * n:] * c)
        c = f * c + i * np.tanh(g)
        h = sigmoid(o + p[n:2 * n] * c) * np.tanh(c)
        found.append(h)
    return np.array(found).reshape(len(x), *h.shape), h, c


@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 9])
def test_an_lstm_is_one_op_per_direction(steps, peepholes):
    batch, inputs, n = 3, 4, 5
    arrays = {"w": drawn(1, 2, 4 * n, inputs), "r": drawn(2, 2, 4 * n, n), "b": drawn(3, 2, 8 * n),
              "h0": drawn(4, 2, batch, n), "c0": drawn(5, 2, batch, n)}
    names = ["x", "w", "r", "b", "", "h0", "c0"]
    if peepholes:
        arrays["p"] = drawn(6, 2, 3 * n)
        names.append("p")
    session = InferenceSession(made(
        [node("LSTM", names, ["y", "h", "c"], {"hidden_size": n, "direction": "bidirectional"})],
        [("x", F, ["t", batch, inputs])], ["y", "h", "c"], arrays))
    assert op_types(session).count("BlockLSTM") == 2
    assert not {"Enter", "Merge"} & set(op_types(session))
    x = drawn(7, steps, batch, inputs)
    y, h, c = session.run(None, {"x": x})
    for d, turn in enumerate((slice(None), slice(None, None, -1))):
        parts = [arrays[k][d].astype(float) for k in ("w", "r", "b", "h0", "c0")]
        peep = arrays["p"][d].astype(float) if peepholes else None
        wanted = lstm_in_numpy(x[turn], *parts, p=peep)
        np.testing.assert_allclose(y[:, d], wanted[0][turn], atol=2e-6)
        np.testing.assert_allclose(h[d], wanted[1], atol=2e-6)
        np.testing.assert_allclose(c[d], wanted[2], atol=2e-6)


@pytest.mark.parametrize("after", [0, 1])
def test_a_gru_that_is_only_run_is_one_op_per_direction(after):
    batch, inputs, n = 2, 4, 6
    arrays = {"w": drawn(1, 2, 3 * n, inputs), "r": drawn(2, 2, 3 * n, n), "b": drawn(3, 2, 6 * n)}
    data = made([node("GRU", ["x", "w", "r", "b"], ["y", "h"], {
        "hidden_size": n, "direction": "bidirectional", "linear_before_reset": after})],
        [("x", F, ["t", batch, inputs])], ["y", "h"], arrays)
    session = InferenceSession(data)
    assert op_types(session).count("_GRU") == 2
    x = drawn(7, 8, batch, inputs)
    y, last = session.run(None, {"x": x})
    with tf.Graph().as_default() as g:      # the loop, which has gradients
        loop = onnx.import_model(data)
        assert "_GRU" not in [op.type for op in g.get_operations()]
        slope = tf.gradients(loop.outputs["y"], loop.inputs["x"])[0]
        with tf.Session() as sess:
            wanted, same, slope = sess.run([loop.outputs["y"], loop.outputs["h"], slope],
                                           {loop.inputs["x"]: x})
    np.testing.assert_allclose(y, wanted, atol=2e-6)
    np.testing.assert_allclose(last, same, atol=2e-6)
    assert np.isfinite(slope).all() and slope.any()


# ------------------------------------------------------------------------------------- 8 bits
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("per_column", [False, True])
def test_a_product_of_dequantised_tensors_is_formed_of_bytes(kind, per_column):
    rng = np.random.default_rng(3)
    info = np.iinfo(kind)
    k, n = 300, 70
    b = rng.integers(info.min, info.max + 1, (k, n)).astype(kind)
    columns = n if per_column else 1
    scale = (0.01 + 0.01 * rng.random(columns)).astype(np.float32)
    zero = rng.integers(0, 9, columns).astype(kind)
    if not per_column:
        scale, zero = scale[0], zero[0]
    arrays = {"b": b, "sb": scale, "zb": zero, "sa": np.float32(0.05), "za": kind(7)}
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    session = InferenceSession(made(
        [node("DequantizeLinear", ["a", "sa", "za"], ["af"], {}),
         node("DequantizeLinear", ["b", "sb", "zb"], ["bf"], {"axis": 1}),
         node("MatMul", ["af", "bf"], ["y"], {})],
        [("a", kind, ["m", 2, k])], ["y"], arrays))
    assert "_MatMulInteger" in op_types(session)
    a = rng.integers(info.min, info.max + 1, (5, 2, k)).astype(kind)
    wanted = (a.astype(np.int64) - 7) @ (b.astype(np.int64) - zero) * (0.05 * scale.astype(float))
    np.testing.assert_allclose(session.run(None, {"a": a})[0], wanted, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_integer_convolutions_are_exact(size):
    """All products of one sign: sums far beyond where a rounded one would show."""
    rng = np.random.default_rng(size)
    w = rng.integers(100, 128, (32, 64, size, size)).astype(np.int8)
    session = InferenceSession(made([node("ConvInteger", ["x", "w"], ["y"], {})],
                                    [("x", np.uint8, [1, 64, "h", "h2"])], ["y"], {"w": w}))
    x = rng.integers(200, 256, (1, 64, 21, 23)).astype(np.uint8)
    places = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.int64), (size, size), (1, 2))
    wanted = np.einsum("chwij,ocij->ohw", places, w.astype(np.int64))
    np.testing.assert_array_equal(session.run(None, {"x": x})[0][0], wanted)


# ------------------------------------------------------------------------------------- halves
def test_a_session_computes_halves_in_float32():
    """A sum of 1 and 2048 halves of 2^-11 is lost if it is rounded between the nodes."""
    tiny = np.float16(2.0 ** -11)
    session = InferenceSession(made(
        [node("Add", ["x", "c"], ["a"], {}), node("Sub", ["a", "one"], ["b"], {}),
         node("Cast", ["b"], ["d"], {"to": 10}), node("Mul", ["d", "k"], ["y"], {})],
        [("x", np.float16, ["n"])], [("y", np.float16, ["n"])],
        {"c": np.full(1, tiny), "one": np.ones(1, np.float16),
         "k": np.full(1, 1024, np.float16)}))
    [y] = session.run(None, {"x": np.ones(3, np.float16)})
    assert y.dtype == np.float16 and session.get_inputs()[0].type == "tensor(float16)"
    np.testing.assert_array_equal(y, np.full(3, 0.5, np.float16))
    assert session.get_outputs()[0].type == "tensor(float16)"


# ------------------------------------------------------------------------------------- moves
def test_rows_are_scattered_as_rows():
    session = InferenceSession(made(
        [node("Expand", ["i", "wide"], ["e"], {}),
         node("ScatterElements", ["x", "e", "u"], ["y"], {"axis": 0, "reduction": "add"})],
        [("x", F, ["n", 4, 3]), ("i", np.int64, ["k", 1, 1]), ("u", F, ["k", 4, 3]),
         ("wide", np.int64, [3])], ["y"], {}, opset=18))
    x, u, i = drawn(1, 5, 4, 3), drawn(2, 7, 4, 3), np.array([0, -1, 2, 2, 4, 0, 2])
    feeds = {"x": x, "u": u, "i": i.reshape(7, 1, 1), "wide": np.array([7, 4, 3])}
    wanted = x.astype(float)
    np.add.at(wanted, i, u)
    np.testing.assert_allclose(session.run(None, feeds)[0], wanted, atol=1e-6)
    feeds["i"] = np.array([[[3]]])          # stretched over the rows, too
    wanted = x.astype(float)
    wanted[3] += u.astype(float).sum(0)
    np.testing.assert_allclose(session.run(None, feeds)[0], wanted, atol=1e-6)


@pytest.mark.parametrize("starts, ends", [([1, 0], [3, 2]), ([-3, -9], [99, -1]), ([2, 1], [1, 0]),
                                          ([-99, 5], [2**62, 9]), ([0, 0], [-2**62, 4])])
def test_bounds_of_the_step_take_no_indices(starts, ends):
    session = InferenceSession(made(
        [node("Slice", ["x", "s", "e", "axes"], ["y"], {})],
        [("x", F, ["a", 2, "b"]), ("s", np.int64, [2]), ("e", np.int64, [2])], ["y"],
        {"axes": np.array([2, 0])}))
    assert "GatherV2" not in op_types(session)
    x = drawn(1, 4, 2, 6)
    feeds = {"x": x, "s": np.array(starts), "e": np.array(ends)}
    wanted = x[starts[1]:ends[1], :, starts[0]:ends[0]]
    np.testing.assert_array_equal(session.run(None, feeds)[0], wanted)
