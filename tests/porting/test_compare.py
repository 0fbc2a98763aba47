"""python -m pyflow compare: every fault is named by node and op, and right pairs raise no alarm."""
import json
import pathlib
import sys

import numpy as np
import onnx as onnx_package
import pytest

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "frozen"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import faulty  # noqa: E402
import frozen_models  # noqa: E402
import pyflow as tf  # noqa: E402
from frozen_graphs import Answers  # noqa: E402
from pyflow.interop import onnx  # noqa: E402
from pyflow.tools import arrays, command, compare, dump, rounding, sources  # noqa: E402

FROZEN = HERE.parent / "frozen"
ANSWERS = Answers("answers.npz", 0)
TENSORFLOW = arrays.read(HERE / "faulty.npz")       # what TensorFlow computed: record_faulty.py
FEED = {"x": faulty.feed()}


def blamed(a, b, feeds=FEED, **options):
    """(node, op type) of the first difference, or None."""
    found = compare.compare(a, b, feeds, **options).found
    return found and (found.node, found.type)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """a.pb and a.onnx: the network without a fault."""
    made = tmp_path_factory.mktemp("compare")
    graph = faulty.network()
    (made / "a.pb").write_bytes(graph.SerializeToString())
    (made / "a.onnx").write_bytes(onnx.export_graph_def(graph, ["out:0"], None, None, 18))
    np.savez(made / "f.npz", **FEED)
    return made


# ---------------------------------------------------------------- faults
@pytest.mark.parametrize("name", faulty.FAULTS)
def test_a_fault_of_a_graph_is_named(name, folder):
    put, node, op = faulty.FAULTS[name]
    graph = tf.GraphDef.FromString((folder / "a.pb").read_bytes())
    put(graph)
    (folder / "b.pb").write_bytes(graph.SerializeToString())
    assert blamed(folder / "a.pb", folder / "b.pb") == (node, op)


@pytest.mark.parametrize("name", faulty.ONNX_FAULTS)
def test_a_fault_of_an_onnx_model_is_named(name, folder):
    put, node, op = faulty.ONNX_FAULTS[name]
    model = onnx_package.load(folder / "a.onnx")
    put(model)
    onnx_package.save(model, folder / "b.onnx")
    assert blamed(folder / "a.pb", folder / "b.onnx") == (node, op)


def test_a_fault_between_two_onnx_models_is_named_as_they_name_it(folder):
    model = onnx_package.load(folder / "a.onnx")
    faulty.epsilon(model)
    onnx_package.save(model, folder / "b.onnx")
    assert blamed(folder / "a.onnx", folder / "b.onnx") == ("norm", "BatchNormalization")
    assert blamed(folder / "a.onnx", folder / "a.onnx") is None


DUMPED = {
    "a NaN": ("act2", lambda y: faulty.one(y, np.nan), "Tanh"),
    "half precision": ("fc", lambda y: y.astype(np.float16).astype(np.float32), "MatMul"),
    "a part of it": ("conv2", lambda y: y[:, :-1], "Conv2D"),
    "one element": ("largest", lambda y: faulty.one(y, 1e-6), "Max"),
    "a row": ("prob", lambda y: y[::-1], "Softmax"),
}


@pytest.mark.parametrize("name", DUMPED)
def test_a_fault_of_arrays_is_named(name, folder):
    node, change, op = DUMPED[name]
    theirs = dict(TENSORFLOW)
    theirs[node] = np.array(change(theirs[node].copy()))
    assert blamed(folder / "a.pb", theirs) == (node, op)


def test_arrays_with_gaps_name_what_lies_between(folder):
    """B has the input of the norm and the pooled result alone, and forgot the norm's activation."""
    theirs = {"bias1": TENSORFLOW["bias1"]}
    norm = TENSORFLOW["norm"].reshape(8, 4, 2, 4, 2, 8)
    theirs["pool1"] = norm.max(axis=(2, 4))
    report = compare.compare(folder / "a.pb", theirs, FEED)
    assert (report.found.node, report.found.type) == ("act1", "Relu")
    assert report.found.notes == ["it is as if B had no Relu 'act1'"]
    theirs["pool1"] = TENSORFLOW["pool1"]
    assert compare.compare(folder / "a.pb", theirs, FEED).found is None


def test_what_another_system_fused_under_a_name_is_no_fault(folder):
    theirs = dict(TENSORFLOW)
    theirs["conv1"] = theirs.pop("bias1")
    theirs["scaled"] = theirs.pop("act3")
    assert blamed(folder / "a.pb", theirs) is None


def sum_in_another_order():
    """A function that sums from the front, then from the back, and so on."""
    calls = []

    def total(x):
        calls.append(1)
        return np.cumsum(x if len(calls) % 2 else x[::-1], dtype=np.float32)[-1]
    return total


def test_two_runs_name_the_op_that_is_not_deterministic():
    with tf.Graph().as_default() as graph:
        x = tf.square(tf.placeholder(tf.float32, [4096], name="x"), name="squares")
        total = tf.py_func(sum_in_another_order(), [x], tf.float32, name="total")
        tf.sqrt(total, name="out")
        feeds = {"x": faulty.numbers(1, 4096)}
        report = compare.compare(graph, graph, feeds, exact=True)
        assert report.found.node == "total" and report.found.type == "PyFunc"
        assert report.found.inputs == [("squares:0", "equal bits")]
        assert compare.compare(graph, graph, feeds).found is None     # within the bound
    with tf.Graph().as_default() as graph:
        tf.add(tf.random_uniform([3], name="noise"), 1.0, name="out")
        found = compare.compare(graph, graph).found
        assert found.type == "RandomUniform" and "draws random numbers" in found.notes[0]


def test_a_variable_and_the_line_that_made_the_node(tmp_path):
    """Of a .meta file, which keeps lines, and of a session with another state."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer(), use_resource=False)
        product = tf.multiply(x, v, name="product")
        init = tf.global_variables_initializer()
        with tf.Session() as one, tf.Session() as other:
            one.run(init), other.run(init)
            other.run(tf.assign_add(v, [0.0, 1e-6]))
            feeds = {"x": np.float32([1, 2])}
            found = compare.compare(one, other, feeds, ["product"]).found
            assert found.node == "v" and found.index == (1,)
            assert str(product.op.user_frame).startswith(__file__) and __file__ in found.line
            one.run(tf.assign(v, v + [0, 1e-6]))
        plain = tf.multiply(x, 2.0, name="plain")
        tf.train.export_meta_graph(str(tmp_path / "m.meta"))
    wrong = {"plain": np.float32([2, 5])}
    found = compare.compare(tmp_path / "m.meta", wrong, feeds, ["plain"]).found
    assert found.node == "plain" and found.line == str(plain.op.user_frame)


# ---------------------------------------------------------------- right pairs
def feeds_of(name):
    return dict(zip(ANSWERS[f"{name}/inputs"].tolist(), frozen_models.feeds(name)))


@pytest.mark.parametrize("name", frozen_models.MODELS)
def test_threads_and_plans_raise_no_alarm(name):
    path, feeds = FROZEN / f"{name}.pb", feeds_of(name)
    report = compare.compare(path, path, feeds, exact=True, options_a=sources.Options(1),
                             options_b=sources.Options(2))
    assert report.found is None and report.compared == report.equal > 8
    report = compare.compare(path, path, feeds, options_b=sources.Options(rewrites=False))
    assert report.found is None


@pytest.mark.parametrize("name", ["lenet", "mobilenet", "lstm", "control_flow", "detection"])
def test_exported_models_raise_no_alarm(name, tmp_path):
    graph = tf.GraphDef.FromString((FROZEN / f"{name}.pb").read_bytes())
    names = [f"out{i}:0" for i in range(ANSWERS.count(name))]
    (tmp_path / "m.onnx").write_bytes(onnx.export_graph_def(graph, names, None, None, 18))
    report = compare.compare(FROZEN / f"{name}.pb", tmp_path / "m.onnx", feeds_of(name))
    assert report.found is None and report.compared >= 8


def test_what_tensorflow_computed_raises_no_alarm(folder):
    report = compare.compare(folder / "a.pb", TENSORFLOW, FEED)
    assert report.found is None and report.compared == len(TENSORFLOW)
    assert 1e-3 < report.worst[0] < 1                # bounds are no empty promise


def test_a_rewrite_that_is_wrong_is_found(folder, monkeypatch):
    """A plan whose fusion forgets an activation: no fetched tensor shows it."""
    from pyflow.passes import fuse
    take = fuse._Chain._take_activation
    monkeypatch.setattr(fuse._Chain, "_take_activation", lambda self, reader, node: take(
        self, reader, node) and setattr(self, "activation", None) is None)
    report = compare.compare(folder / "a.pb", folder / "a.pb", FEED,
                             options_b=sources.Options(rewrites=False))
    assert report.found.node == "act1"
    assert "the rewritten plan" in report.found.notes[0]


# ---------------------------------------------------------------- bounds
def test_bounds_hold_for_float32_beside_float64_and_are_no_more_than_needed():
    """Sums, products and library functions in float32 against NumPy's in float64."""
    rng = np.random.default_rng(0)
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
        cases = {"MatMul": (tf.matmul(x, y), lambda a, b: a @ b),
                 "Sum": (tf.reduce_sum(x, 1), lambda a, b: a.sum(1)),
                 "Exp": (tf.exp(x), lambda a, b: np.exp(a)),
                 "Tanh": (tf.tanh(x), lambda a, b: np.tanh(a)),
                 "Softmax": (tf.nn.softmax(x),
                             lambda a, b: np.exp(a) / np.exp(a).sum(1, keepdims=True))}
    a, b = (rng.standard_normal((300, 300)).astype(np.float32) for _ in range(2))
    source = sources.GraphSource(graph, {x.name: a, y.name: b}, [t.name for t, _ in cases.values()],
                                 sources.Options())
    for kind, (tensor, exact) in cases.items():
        inputs = [a, b] if len(tensor.op.inputs) > 1 and kind == "MatMul" else \
            [source.again([t], source.feeds)[0] for t in tensor.op.inputs]
        [found] = source.run_op(tensor.op, inputs)
        [bound] = rounding.bounds(tensor.op, inputs, [found],
                                  lambda v, wide=False: source.run_op(tensor.op, v, wide))
        ratio = np.abs(found - exact(a.astype(np.float64), b.astype(np.float64))) / bound
        assert 1e-3 < ratio.max() <= 0.5, kind      # half: one side of two
    source.close()


def test_an_unknown_op_has_the_stated_bound():
    y = np.float32([1, -4])
    [bound] = rounding.default([], [y], lambda *_: None)
    assert bound == 1024 * 2**-24 * 4


# ---------------------------------------------------------------- the commands
def run(capsys, *words):
    status = command.main([str(word) for word in words])
    return status, capsys.readouterr()


def test_the_command_and_dump(folder, capsys):
    status, said = run(capsys, "dump", folder / "a.pb", "--feeds", folder / "f.npz", "-o",
                       folder / "out.npz")
    assert status == 0 and "arrays" in said.out
    named = arrays.read(folder / "out.npz")
    np.testing.assert_array_equal(named["act1:0"], np.maximum(named["norm:0"], 0))
    words = ["compare", folder / "a.pb", folder / "out.npz", "--feeds", folder / "f.npz"]
    status, said = run(capsys, *words)
    assert status == 0 and "no difference beyond rounding" in said.out
    named["act1:0"] = named["act1:0"] * 2
    arrays.write(folder / "out.npz", named)
    status, said = run(capsys, *words)
    assert status == 1 and said.out.startswith("first difference: Relu 'act1'  (act1:0)\n")
    assert "its inputs agree: norm:0 (equal bits)" in said.out
    status, said = run(capsys, "compare", folder / "a.pb", folder / "a.pb", "--feeds",
                       folder / "f.npz", "--device-b", "/device:CPU:0", "--exact")
    assert status == 0
    status, said = run(capsys, *words, "--json")
    assert status == 1 and json.loads(said.out)["found"]["node"] == "act1"


def test_a_folder_of_arrays_and_names_of_others(folder, tmp_path):
    for name, value in TENSORFLOW.items():
        path = tmp_path / "theirs" / f"{name.upper()}_0.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, value)
    np.save(tmp_path / "theirs" / "act1.npy", TENSORFLOW["act1"] + 1)
    assert blamed(folder / "a.pb", tmp_path / "theirs") == ("act1", "Relu")


def test_a_training_with_its_checkpoint_beside(tmp_path):
    """m.meta is run with the variables of m; another checkpoint is another model."""
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None], name="x")
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        tf.multiply(x, v, name="y")
        saver = tf.train.Saver()
        sess.run(v.initializer)
        saver.save(sess, str(tmp_path / "m"))
        sess.run(v.assign([1.0, 1.5]))
        saver.save(sess, str(tmp_path / "n"))
    feeds = {"x": np.float32([1, 2])}
    assert dump.dump(tmp_path / "n.meta", feeds, ["y"])["y:0"].tolist() == [1, 3]
    assert blamed(tmp_path / "m.meta", tmp_path / "m.meta", feeds, fetches=["y"]) is None
    found = blamed(tmp_path / "m.meta", tmp_path / "n.meta", feeds, fetches=["y"])
    assert found[0] in ("v", "v/read")


def test_a_saved_model(folder, tmp_path):
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None], name="x")
        y = tf.multiply(x, tf.Variable(3.0, name="v"), name="y")
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, str(tmp_path / "m"), {"first": x}, {"last": y})
    feeds = {"first": np.float32([1, 2])}
    assert blamed(tmp_path / "m", tmp_path / "m", feeds) is None
    assert blamed(tmp_path / "m", {"y": np.float32([3, 6.1])}, feeds) == ("y", "Mul")


def test_what_cannot_be_compared_is_a_line(folder, capsys, tmp_path):
    a, feeds = folder / "a.pb", folder / "f.npz"
    for words, text in (
            ((a, "nowhere.npz"), "nowhere.npz: No such file"),
            ((feeds, a), "arrays go second"),
            ((a, a, "--feeds", a), "is no .npz file"),
            ((a, a), "You must feed a value"),
            ((a, a, "--feeds", feeds, "--max-mb", 0), "more than the 0 allowed"),
            ((a, a, "--feeds", feeds, "--device-b", "/device:NPU:0"), "/device:NPU:0: there are"),
            ((a, a, "--feeds", feeds, "--device-b", "nonsense"), "nonsense"),
            ((a, a, "--feeds", feeds, "--fetch", "nothing"), "nothing")):
        status, said = run(capsys, "compare", *words)
        assert status == 2 and text in said.err and "Traceback" not in said.err, words
    np.savez(tmp_path / "other.npz", other=np.ones(3))
    status, said = run(capsys, "compare", a, tmp_path / "other.npz", "--feeds", feeds)
    assert status == 2 and "no tensor of A" in said.err


def test_arrays_are_read_without_pickle_and_within_their_size(tmp_path):
    path = tmp_path / "f.npz"
    np.savez(path, x=np.array([{}], dtype=object))
    with pytest.raises(arrays.UnreadableArrays, match="Python objects"):
        arrays.read(path)
    np.save(tmp_path / "x.npy", np.zeros(4))
    data = (tmp_path / "x.npy").read_bytes().replace(b"(4,)", b"(9,)")
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(arrays.UnreadableArrays, match="ends after 32 of 72 bytes"):
        arrays.read(tmp_path / "x.npy")
    np.savez_compressed(path, x=np.zeros(1 << 17))
    with pytest.raises(arrays.UnreadableArrays, match="more than the 65536 allowed"):
        arrays.read(path, 1 << 16)
    rng = np.random.default_rng(0)
    whole = path.read_bytes()
    for _ in range(100):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), 3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            arrays.read(path, 1 << 22)
        except arrays.UnreadableArrays:
            pass
    arrays.write(path, {"a/b:0": np.float32([1]), "s": np.array([b"x"], object)})
    found = arrays.read(path)
    assert found["a/b:0"] == [1] and found["s"] == ["x"]


def test_dump_of_a_graph():
    with tf.Graph().as_default() as graph:
        tf.add(tf.constant(1.0, name="one"), 1.0, name="two")
        assert dump.dump(graph)["two:0"] == 2
