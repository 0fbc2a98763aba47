"""Models that exist and were refused, or answered wrongly; onnxruntime 1.32 gave the values, where
it takes the model."""
import numpy as np
import pytest
from sweep_model import F, data, graph, model, node, texts

import pyflow as tf
from pyflow.interop import onnx

ML = "ai.onnx.ml"


def answers(nodes, inputs, arrays=None, feeds=(), opset=18):
    made = model(graph(nodes, inputs, [("y",)], arrays or {}), {"": opset, ML: 3})
    return onnx.prepare(made).run(list(feeds))[0]


# the order of nodes
def chain(count):
    return [node("Add", [f"v{k}", "x"], [f"v{k + 1}"]) for k in range(count)] + [
        node("Identity", ["x"], ["v0"]), node("Identity", [f"v{count}"], ["y"])]


@pytest.mark.parametrize("order", ["as they are", "reversed", "shuffled"])
def test_nodes_in_any_order(order):
    nodes = chain(40)
    if order == "reversed":
        nodes.reverse()
    elif order == "shuffled":
        nodes = [nodes[k] for k in np.random.default_rng(0).permutation(len(nodes))]
    found = answers(nodes, [("x", F, (2,))], feeds=[np.array([1, 2], F)])
    np.testing.assert_array_equal(found, [41, 82])


def test_what_a_body_reads_comes_before_it():
    """A body's own nodes may be out of order, too, and a name in it may hide one outside."""
    then = graph([node("Add", ["a", "own"], ["out"]), node("Mul", ["x", "b"], ["own"])], (),
                 [("out",)])
    other = graph([node("Identity", ["c"], ["out"]), node("Neg", ["x"], ["c"])], (), [("out",)])
    nodes = [node("If", ["flag"], ["y"], {"then_branch": then, "else_branch": other}),
             node("Neg", ["y"], ["c"]), node("Mul", ["a", "x"], ["b"]),
             node("Add", ["x", "x"], ["a"])]
    for flag, wanted in ((True, 4 + 2 * 8), (False, -2)):
        found = answers(nodes, [("x", F, (1,)), ("flag", bool, ())],
                        feeds=[np.array([2], F), np.array(flag)])
        np.testing.assert_array_equal(found, [wanted])


def test_a_circle_is_named():
    nodes = [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["y"])]
    with pytest.raises(onnx.OnnxError, match=r"2 of the graph's nodes wait for each other's "
                                             r"outputs: 'node' \(Add\) reads 'node' \(Neg\)"):
        answers(nodes, [("x", F, (1,))], feeds=[np.ones(1, F)])


# loops
def growing(first, turns=None):
    """A loop whose state is replaced in the first turn by one of another rank."""
    then = graph([node("Identity", ["row"], ["r"])], (), [("r",)])
    other = graph([node("Concat", ["s", "row"], ["r"], {"axis": 0})], (), [("r",)])
    body = graph([node("Equal", ["i", "zero"], ["begins"]),
                  node("If", ["begins"], ["next"], {"then_branch": then, "else_branch": other}),
                  node("ReduceSum", ["next"], ["sum"], {"keepdims": 0}),
                  node("Identity", ["go"], ["on"])],
                 [("i", np.int64, ()), ("go", bool, ()), ("s", F, None)],
                 [("on",), ("next",), ("sum",)], {"zero": np.array(0), "row": data(1, 2)})
    loop = node("Loop", ["turns", "", "first"], ["state", "y"], {"body": body})
    last = node("Loop", ["turns", "", "first"], ["y", "sums"], {"body": body})
    made = []
    for nodes in ([loop], [last]):
        inputs = [("turns", np.int64, ())] if turns is None else []
        arrays = {"first": first} | ({} if turns is None else {"turns": turns})
        made.append(lambda *feeds, nodes=nodes, inputs=inputs, arrays=arrays: answers(
            nodes, inputs, arrays, feeds))
    return made


@pytest.mark.parametrize("first", [np.zeros(0, F), np.zeros((), F)])
def test_a_state_of_another_rank_than_it_gets(first):
    row = data(1, 2)
    for known in (False, True):
        sums, state = growing(first, np.array(3) if known else None)
        feeds = [] if known else [np.array(3)]
        np.testing.assert_allclose(state(*feeds), np.repeat(row, 3, 0))
        np.testing.assert_allclose(sums(*feeds), row.sum() * np.arange(1, 4), rtol=1e-6)
    sums, state = growing(first)
    np.testing.assert_array_equal(state(np.array(0)), first)
    assert sums(np.array(0)).shape == (0,)


@pytest.mark.parametrize("op, gates", [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("lengths", [False, True])
def test_a_sequence_of_no_steps(op, gates, lengths):
    names = ["x", "w", "r", "", "n"] if lengths else ["x", "w", "r"]
    found = answers([node(op, names, ["y"], {"hidden_size": 3})],
                    [("x", F, ("t", "b", 5))],
                    {"w": data(1, 3 * gates, 5), "r": data(1, 3 * gates, 3),
                     "n": np.zeros(2, np.int32)}, [np.zeros([0, 2, 5], F)])
    assert found.shape == (0, 1, 2, 3)


def test_a_weight_that_a_loop_hands_on_is_trainable():
    """A state that a turn gives back as it was is a weight; what turns begin with is none."""
    body = graph([node("MatMul", ["h", "w"], ["next"]), node("Identity", ["w"], ["w_"]),
                  node("Identity", ["w_"], ["same"]), node("Identity", ["go"], ["on"])],
                 [("i", np.int64, ()), ("go", bool, ()), ("h", F, (1, 3)), ("w", F, (3, 3))],
                 [("on",), ("next",), ("same",)])
    proto = model(graph([node("Loop", ["turns", "", "start", "weights"], ["h_out", "w_out"],
                              {"body": body}), node("Add", ["h_out", "x"], ["y"])],
                        [("x", F, (1, 3))], [("y",)],
                        {"weights": data(3, 3), "start": data(1, 3), "turns": np.array(2)}),
                  {"": 18})
    with tf.Graph().as_default():
        made = onnx.import_model(proto, trainable=True)
        assert list(made.variables) == ["weights"]
        slope, = tf.gradients(made.outputs["y"], [made.variables["weights"]])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            slope = session.run(slope, {made.inputs["x"]: np.zeros([1, 3], F)})
    w, h, ones = data(3, 3), data(1, 3), np.ones([1, 3], F)
    np.testing.assert_allclose(slope, h.T @ (ones @ w.T) + (h @ w).T @ ones, rtol=1e-4)


# single ops
@pytest.mark.parametrize("given", [("step", "window"), ("step", "", "length")])
def test_a_signal_without_an_axis_of_parts(given):
    arrays = {"step": np.array(4), "window": data(8), "length": np.array(8)}
    x = data(2, 16)
    flat, deep = (answers([node("STFT", ["x", *given], ["y"])], [("x", F, v.shape)], arrays, [v])
                  for v in (x, x[..., None]))
    assert flat.shape == (2, 3, 5, 2)
    np.testing.assert_array_equal(flat, deep)


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("step", [1, 2])
def test_slices_by_scalars(fed, step):
    bounds = {"s": np.array(1), "e": np.array(7), "a": np.array(1), "p": np.array(step)}
    inputs = [("x", F, (2, 9))] + [(name, np.int64, ()) for name in "sep" if fed]
    x = data(2, 9)
    found = answers([node("Slice", ["x", "s", "e", "a", "p"], ["y"])], inputs,
                    {k: v for k, v in bounds.items() if not fed or k == "a"},
                    [x, *(bounds[k] for k in "sep" if fed)])
    np.testing.assert_array_equal(found, x[:, 1:7:step])


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization_by_groups_or_channels(opset):
    x = data(2, 6, 4)
    grouped = x.reshape(2, 2, 12)
    unit = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-5)
    for count in (2, 6):
        scale, bias = data(count, seed=3), data(count, seed=4)
        found = answers([node("GroupNormalization", ["x", "s", "b"], ["y"], {"num_groups": 2})],
                        [("x", F, (2, 6, 4))], {"s": scale, "b": bias}, [x], opset)
        wide = [np.repeat(v, 6 // count)[:, None] for v in (scale, bias)]
        np.testing.assert_allclose(found, unit.reshape(x.shape) * wide[0] + wide[1], rtol=1e-4,
                                   atol=1e-5)
    with pytest.raises(onnx.OnnxError, match=r"the scale has shape \(3,\), expected \(2,\), a "
                                             r"number a group, or \(6,\)"):
        answers([node("GroupNormalization", ["x", "s", "b"], ["y"], {"num_groups": 2})],
                [("x", F, (2, 6, 4))], {"s": data(3), "b": data(3)}, [x], opset)


@pytest.mark.parametrize("sizes", [("n", 4), ("n", "f")])
def test_linear_weights_wider_than_samples(sizes):
    """Rows are as long as a sample; the numbers behind the last are not used."""
    x, weights = data(3, 4), data(15, seed=5)
    found = answers([node("LinearRegressor", ["x"], ["y"], {
        "coefficients": weights, "targets": 3}, domain=ML)], [("x", F, sizes)], {}, [x])
    np.testing.assert_allclose(found, x @ weights[:12].reshape(3, 4).T, rtol=1e-5, atol=1e-5)


def test_too_few_linear_weights():
    with pytest.raises(onnx.OnnxError, match="4 features and there are 3 results; expected 12 "):
        answers([node("LinearRegressor", ["x"], ["y"], {
            "coefficients": data(9), "targets": 3}, domain=ML)], [("x", F, (2, 4))], {},
            [data(2, 4)])


@pytest.mark.parametrize("action, wanted", [
    ("UPPER", ["STRAßE", "Ǆ", "İX", "ﬁNE", "ΑΣ", "ŉ", "ᾼ"]),
    ("LOWER", ["straße", "ǆ", "ix", "ﬁne", "ας"[:1] + "σ", "ŉ", "ᾳ"])])
def test_letters_change_one_by_one(action, wanted):
    x = texts("straße", "ǆ", "İx", "ﬁne", "ΑΣ", "ŉ", "ᾳ", "MASSE")
    found = answers([node("StringNormalizer", ["x"], ["y"], {
        "case_change_action": action, "is_case_sensitive": 0, "stopwords": ["masse"]})],
        [("x", object, (8,))], {}, [x])
    assert list(found) == wanted
