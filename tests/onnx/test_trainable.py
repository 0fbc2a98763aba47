"""import_model(trainable=): which arrays become variables, what they hold, and gradients of every
converter beside differences of its values."""
import numpy as np
import pytest
from gradient_cases import wrong
from sweep_cases import cases
from sweep_model import F, data, graph, model, node, texts

import pyflow as tf
from pyflow.interop import onnx

WEIGHTS = {"conv.w": data(4, 3, 3, 3), "conv.b": data(4), "scale": abs(data(4)) + 0.5,
           "shift": data(4), "mean": data(4), "var": abs(data(4)) + 0.5,
           "fc": data(4, 2), "mask": np.array([[0, -np.inf]], F), "two": np.array(2, F),
           "low": np.array(-5, F), "sizes": np.array([1, 1, 2, 2], F), "axis": np.array([2, 3])}


def network():
    """Convolution, batch norm, Clip, Resize, mean, a product, a mask, a factor, softmax."""
    return model(graph([
        node("Conv", ["x", "conv.w", "conv.b"], ["c"], {"pads": [1, 1, 1, 1]}),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["n"]),
        node("Clip", ["n", "low"], ["r"]), node("Resize", ["r", "", "sizes"], ["big"]),
        node("ReduceMean", ["big", "axis"], ["m"], {"keepdims": 0}),
        node("MatMul", ["m", "fc"], ["p"]), node("Add", ["p", "mask"], ["q"]),
        node("Mul", ["q", "two"], ["y"])], [("x", F, ("n", 3, 5, 5))], [("y",)], WEIGHTS),
        {"": 18})


def values(made, x, feeds=()):
    """The outputs, with fresh variables."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(made.outputs, {made.inputs["x"]: x, **dict(feeds)})


def test_weights_become_variables():
    x = data(2, 3, 5, 5)
    expected, = onnx.prepare(network()).run([x])
    with tf.Graph().as_default():
        made = onnx.import_model(network(), name="net", trainable=True)
        assert list(made.variables) == ["conv.w", "conv.b", "scale", "shift", "fc"]
        assert [v.op.name for v in tf.trainable_variables()] == [
            "net/conv.w", "net/conv.b", "net/scale", "net/shift", "net/fc"]
        assert made.variables["conv.w"].shape.as_list() == [4, 3, 3, 3]
        norm, = [op for op in tf.get_default_graph().get_operations()
                 if op.type == "FusedBatchNormV3"]
        assert not norm.get_attr("is_training")
        np.testing.assert_allclose(values(made, x)["y"], expected, rtol=1e-5, atol=1e-5)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for name, variable in made.variables.items():
                np.testing.assert_array_equal(session.run(variable), WEIGHTS[name])


def test_training_moves_what_was_asked_for():
    """Names, or a function of a name; the rest stay constants."""
    x, labels = data(6, 3, 5, 5), np.array([1, 1, 0, 1, 0, 0])
    for trainable in (["fc", "mean"], lambda name: name in ("fc", "mean", "axis")):
        with tf.Graph().as_default():
            made = onnx.import_model(network(), trainable=trainable)
            assert sorted(made.variables) == ["fc", "mean"]
            logits = tf.where(tf.is_finite(made.outputs["y"]), made.outputs["y"],
                              tf.zeros_like(made.outputs["y"]))
            loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
            step = tf.train.AdamOptimizer(0.1).minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                feeds = {made.inputs["x"]: x}
                before = session.run(loss, feeds)
                for _ in range(40):
                    session.run(step, feeds)
                assert session.run(loss, feeds) < 0.75 * before
                assert (session.run(made.variables["mean"]) != WEIGHTS["mean"]).any()


@pytest.mark.parametrize("trainable, error, words", [
    (["fc2"], onnx.OnnxError, "holds no 'fc2'; it holds 'conv.w'"),
    (["axis"], onnx.OnnxError, "'axis' is int64; expected floating point"),
    ([3], TypeError, "expected names"), (7, TypeError, "got int"), ("fc", TypeError, "got str")])
def test_what_cannot_be_chosen(trainable, error, words):
    with tf.Graph().as_default(), pytest.raises(error, match=words):
        onnx.import_model(network(), trainable=trainable)


def test_an_op_that_has_to_know_a_variable():
    proto = model(graph([node("MelWeightMatrix", ["bins", "length", "rate", "low", "high"], ["y"])],
                        [], [("y",)],
                        {"bins": np.array(8), "length": np.array(16), "rate": np.array(8000),
                         "low": np.array(0, F), "high": np.array(4000, F)}), {"": 17})
    with tf.Graph().as_default(), pytest.raises(onnx.UnsupportedError) as caught:
        onnx.import_model(proto, trainable=["low", "high"])
    assert "depends on 'low'" in str(caught.value) and "leave it out" in str(caught.value)
    assert not isinstance(caught.value, onnx.NeedsConstant) and caught.value.op == "MelWeightMatrix"
    with tf.Graph().as_default():
        assert not onnx.import_model(proto, trainable=True).variables


def test_a_rank_that_follows_from_an_input_is_not_a_variable_s_fault():
    branch = graph([node("Squeeze", ["x", "first"], ["a"])], (), [("a",)])
    other = graph([node("Identity", ["x"], ["b"])], (), [("b",)])
    proto = model(graph([node("If", ["flag"], ["c"], {"then_branch": branch, "else_branch": other}),
                         node("Mul", ["c", "w"], ["d"]), node("Unsqueeze", ["d", "first"], ["y"])],
                        [("flag", bool, ()), ("x", F, (1, 3))], [("y",)],
                        {"first": np.array([0]), "w": data(3)}), {"": 17})
    with tf.Graph().as_default(), pytest.raises(onnx.NeedsConstant) as caught:
        onnx.import_model(proto, trainable=True)
    assert "flag" in caught.value.inputs
    with tf.Graph().as_default():
        made = onnx.import_model(proto, trainable=True, constants={"flag": np.array(True)})
        assert list(made.variables) == ["w"]


def test_constant_nodes_and_bodies():
    """Weights in Constant nodes, behind ops that move them, and in the body of a loop."""
    body = graph([node("Constant", [], ["w"], {"value": data(3, 3, low=-1, high=1)}),
                  node("MatMul", ["h", "w"], ["next"]), node("Identity", ["go"], ["on"])],
                 [("i", np.int64, ()), ("go", bool, ()), ("h", F, (1, 3))],
                 [("on",), ("next",)], {"unused": data(3)})
    proto = model(graph([
        node("Constant", [], ["v"], {"value": data(3, seed=4)}),
        node("Unsqueeze", ["v", "first"], ["row"]), node("Mul", ["x", "row"], ["start"]),
        node("Loop", ["turns", "", "start"], ["y"], {"body": body})],
        [("x", F, (1, 3)), ("turns", np.int64, ())], [("y",)], {"first": np.array([0])}), {"": 17})
    x, turns = data(1, 3, seed=9), np.array(4)
    expected, = onnx.prepare(proto).run([x, turns])
    w, v = data(3, 3, low=-1, high=1), data(3, seed=4)
    np.testing.assert_allclose(expected, (x * v) @ np.linalg.matrix_power(w, 4), rtol=1e-4)
    with tf.Graph().as_default():
        made = onnx.import_model(proto, name="net", trainable=True)
        assert sorted(made.variables) == ["v", "w"]
        assert made.variables["w"].op.name == "net/w"
        slope, = tf.gradients(made.outputs["y"], [made.variables["v"]])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            y, slope = session.run([made.outputs["y"], slope],
                                   {made.inputs["x"]: x, made.inputs["turns"]: turns})
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    np.testing.assert_allclose(slope, (np.linalg.matrix_power(w, 4) @ np.ones((3, 1)))[:, 0] * x[0],
                               rtol=1e-4)


def test_settings_are_no_weights():
    """First states of a recurrent layer, a scale of quantised numbers, what only moves them."""
    arrays = {"w": data(1, 12, 2), "r": data(1, 12, 3), "h0": data(1, 3), "axes": np.array([1]),
              "step": np.array([0.1, 0.2, 0.3], F), "names": texts("a", "b")}
    proto = model(graph([
        node("Unsqueeze", ["h0", "axes"], ["state"]),
        node("LSTM", ["x", "w", "r", "", "", "state", "state"], ["", "h"], {"hidden_size": 3}),
        node("QuantizeLinear", ["h", "step"], ["q"], {"axis": 2}),
        node("DequantizeLinear", ["q", "step"], ["y"], {"axis": 2})],
        [("x", F, (4, 1, 2))], [("y",), ("h",)], arrays), {"": 17})
    with tf.Graph().as_default():
        made = onnx.import_model(proto, trainable=True)
        assert list(made.variables) == ["w", "r"]


def test_statistics_of_a_batch_norm_have_gradients():
    def total(mean):
        with tf.Graph().as_default():
            made = onnx.import_model(network(), trainable=["mean"])
            feeds = {made.variables["mean"].value(): mean}
            return values(made, data(2, 3, 5, 5), feeds)["y"][:, 0].sum(dtype=np.float64)
    with tf.Graph().as_default():
        made = onnx.import_model(network(), trainable=["mean"])
        slope, = tf.gradients(made.outputs["y"][:, 0], [made.variables["mean"]])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            slope = session.run(slope, {made.inputs["x"]: data(2, 3, 5, 5)})
    step = np.array([0, 0.05, 0, 0], F)
    found = (total(WEIGHTS["mean"] + step) - total(WEIGHTS["mean"] - step)) / 0.1
    assert abs(found) > 0.1 and abs(slope[1] - found) < 0.02 * abs(found)


@pytest.mark.parametrize("op, attributes", [
    ("Elu", {"alpha": 0.3}), ("Celu", {"alpha": 0.3}), ("Selu", {}), ("Gelu", {}), ("Mish", {}),
    ("Softplus", {}), ("HardSwish", {}), ("Swish", {}), ("LogSoftmax", {})])
def test_gradients_of_large_numbers_are_finite(op, attributes):
    """The branch of a choice that is not taken must not bring 0 times infinity."""
    x = np.array([[-1e20, -1e4, -100, 100, 1e4, 1e20]], F)
    with tf.Graph().as_default():
        made = onnx.import_model(model(graph([node(op, ["x"], ["y"], attributes)],
                                             [("x", F, x.shape)], [("y",)]), {"": 24}))
        slope, = tf.gradients(made.outputs["y"], list(made.inputs.values()))
        with tf.Session() as session:
            assert np.isfinite(session.run(slope, {made.inputs["x"]: x})).all()


# What has no gradient here, as in TensorFlow: a pattern -> why.
WITHOUT = {
    "Det": "of a singular matrix", "Mod": "TensorFlow's Mod has none", "Range": "TensorFlow's has none",
    "Scatter": "of places written twice; the last one stays", "Unique": "TensorFlow's has none"}


def chosen():
    """The first case of each op that has numbers, as (name, op, model, feeds); gradient_cases.py,
    run as a program, takes all 16,000."""
    ops, made = set(), []
    for case in cases():
        numbers = any(a is not None and a.dtype == F for a in case.inputs)
        if numbers and case.op not in ops:
            ops.add(case.op)
            made.append((case.name, case.op, case.model(), case.feeds()))
    return made


def test_gradients_of_every_converter():
    swept = chosen()
    bad, left = wrong(swept)
    bad = {name: text for name, text in bad.items()
           if not any(name.startswith(op) for op in WITHOUT)}
    assert not bad, "\n".join(f"{name}: {text}" for name, text in bad.items())
    assert len(swept) - len(left) > 100
