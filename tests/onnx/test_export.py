"""Graphs written as ONNX models: read back they give pyflow's numbers; onnxruntime gave the same."""
import collections
import pathlib
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "frozen"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

import export_cases  # noqa: E402
import frozen_models  # noqa: E402
import function_models  # noqa: E402
import pyflow as tf  # noqa: E402
import trained_nets  # noqa: E402
from frozen_graphs import Answers  # noqa: E402
from pyflow.interop import onnx  # noqa: E402
from pyflow.interop.onnx import messages  # noqa: E402
from pyflow.interop.onnx.exporter import registry, writing  # noqa: E402
from pyflow.tools import command  # noqa: E402

RECORDED = np.load(HERE / "export.npz", allow_pickle=False)
ANSWERS = Answers("answers.npz", 2e-5), Answers("answers_functions.npz", 1e-5)
READ_BACK = 6           # one in so many models of single ops is also read back and run
REFUSED = {"strings": "StringLength", "nested_calls": "StringUpper",
           "gradient_of_a_loop": "OptionalGetValue", "array_in_loop": "TensorListConcatV2"}


def ops_of(data):
    """How often each op is in a model, bodies included."""
    counts, stack = collections.Counter(), [messages.read(data).graph]
    while stack:
        for node in stack.pop().node:
            counts[node.op_type] += 1
            stack += [a.g for a in node.attribute if a.g is not None]
    return counts


@pytest.mark.parametrize("net", trained_nets.NETS, ids=lambda net: net.__name__)
def test_a_trained_network(net, tmp_path):
    """Read back it gives the session's numbers; symbolic sizes are fed as they come."""
    made = net()
    assert made.loss[1] < 0.7 * made.loss[0]
    data = onnx.export(made.outputs, made.inputs, session=made.session)
    wanted = made.session.run(made.outputs, {made.inputs[0]: made.feed})
    back = onnx.prepare(data)
    for feed, rows in ((made.feed, 5), (made.feed[:2], 2)):
        if rows == 2 and net is trained_nets.mlp:       # statistics of the batch
            continue
        for found, value in zip(back.run([feed]), wanted):
            np.testing.assert_allclose(found, value[:rows], rtol=1e-5, atol=1e-5)
    graph = messages.read(data).graph
    assert [i.name for i in graph.input] == ["x"]
    assert [o.name for o in graph.output] == [t.op.name for t in made.outputs]
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "x_0"


@pytest.mark.parametrize("answers, name", [(a, n) for a, m in zip(
    ANSWERS, (frozen_models, function_models)) for n in m.MODELS])
def test_a_frozen_graph_of_tensorflow(answers, name):
    """Loops, branches, lists: through ONNX they give TensorFlow's numbers."""
    models = frozen_models if answers is ANSWERS[0] else function_models
    outputs = [f"out{i}:0" for i in range(answers.count(name))] if models is frozen_models else \
        answers[f"{name}/outputs"].tolist()
    inputs = answers[f"{name}/inputs"].tolist()
    data = (HERE.parent / "frozen" / f"{name}.pb").read_bytes()
    if name in REFUSED:
        with pytest.raises(onnx.UnsupportedError, match=REFUSED[name]):
            onnx.export_graph_def(data, outputs, inputs)
        return
    made = onnx.export_graph_def(data, outputs, inputs)
    for index, found in enumerate(onnx.prepare(made).run(models.feeds(name))):
        answers.check(found, name, index)


def test_channels_last_is_written_channels_first():
    """No transposes between layers; a bias becomes the convolution's own."""
    net = trained_nets.convnet()
    ops = ops_of(onnx.export(net.outputs, net.inputs, session=net.session))
    assert (ops["Conv"], ops["Add"]) == (2, 1)          # of the dense layer
    assert ops["Transpose"] == 1                        # before the flattening, as TF flattens


def test_an_imported_model_has_no_more_transposes():
    """ShuffleNet: groups, shuffled channels, pools; channels last inside, first in the file."""
    pytest.importorskip("onnx")
    import onnx_light
    with open(onnx_light.path_of("shufflenet"), "rb") as file:
        data = file.read()
    with tf.Graph().as_default():
        model = onnx.import_model(data)
        made = onnx.export(model.outputs, model.inputs)
    have, now = ops_of(data), ops_of(made)
    assert (have["Transpose"], now["Transpose"]) == (16, 16)
    assert have["Conv"] == now["Conv"]
    graph = messages.read(made).graph
    assert [o.name for o in graph.output] == list(model.outputs)


def recorded_cases():
    """Cases of the sweep by id, those that are recorded."""
    by_id = {case.id: case for case in export_cases.cases()}
    return [(by_id[key], unknown) for key, unknown in (
        text.rsplit("/", 1) for text in RECORDED["cases"].tolist()) if key in by_id]


def test_every_op_beside_onnxruntime():
    """One graph per op: the model is, byte for byte, the one that onnxruntime ran and agreed with
    with pyflow's numbers for; some are read back here."""
    hashes = dict(zip(RECORDED["cases"].tolist(), RECORDED["hashes"].tolist()))
    wrong, count = [], 0
    for case, unknown in recorded_cases():
        count += 1
        made = export_cases.build(case, unknown == "unknown", run=count % READ_BACK == 0)
        if hashes[f"{case.id}/{unknown}"] != export_cases.hash_of(made):
            wrong.append(f"{case.id}/{unknown}: another model than onnxruntime agreed with; run "
                         f"record_export.py")
        difference = export_cases.read_back(made) if made.wanted is not None else ""
        if difference:
            wrong.append(f"{case.id}/{unknown}: {difference}")
    assert not wrong, "\n".join(wrong[:20])
    assert count == len(hashes) > 150


def test_what_cannot_be_written_is_said_at_once():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2], name="x")
        noise = tf.random_normal([2], name="noise")
        y = tf.py_func(lambda a: a, [x + noise], tf.float32, name="python")
        z = tf.strings.length(tf.as_string(y))
        with pytest.raises(onnx.UnsupportedError) as caught:
            onnx.export(z)
    text = str(caught.value)
    for part in ("random numbers", "RandomStandardNormal", "PyFunc", "'python'", "AsString",
                 "StringLength", "test_export.py:"):
        assert part in text


def test_arguments():
    with tf.Graph().as_default():
        x, u = tf.placeholder(tf.float32, [None], name="x"), tf.placeholder(tf.float32, name="u")
        v = tf.Variable(3.0)
        y = tf.add(x, u, name="y")
        with pytest.raises(onnx.OnnxError, match="need the placeholders u"):
            onnx.export(y, [x])
        with pytest.raises(onnx.OnnxError, match="opset 3"):
            onnx.export(y, opset=3)
        with pytest.raises(ValueError, match="give session="):
            onnx.export(y * v)
        with pytest.raises(onnx.OnnxError, match="name of an input and of an output"):
            onnx.export([x])
        with pytest.raises(TypeError, match="expected tensors"):
            onnx.export([3.0])
        data = onnx.export({"sum": y, "same": x}, {"a": x, "b": u}, metadata={"made": "here"})
    model = messages.read(data)
    assert [i.name for i in model.graph.input] == ["a", "b"]
    assert model.metadata_props[0].value == "here"
    found = onnx.prepare(data).run([np.float32([1, 2]), np.float32(3)])
    np.testing.assert_array_equal(found[0], [4, 5])
    np.testing.assert_array_equal(found[1], [1, 2])


def test_a_graph_is_cut_at_its_inputs():
    """An inner tensor as an input: what it was computed from is left out."""
    with tf.Graph().as_default():
        h = tf.multiply(tf.py_func(np.sin, [tf.constant([1.0])], tf.float32), 2.0, name="h")
        h.set_shape([1])
        data = onnx.export(tf.exp(h, name="y"), [h])
    np.testing.assert_allclose(onnx.prepare(data).run([np.float32([0])])[0], [1])
    assert ops_of(data) == {"Exp": 1}


def test_external_data(tmp_path, monkeypatch):
    """Large weights lie beside the model; without a path that is an error."""
    w = np.arange(4096, dtype=np.float32).reshape(64, 64)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [1, 64], name="x")
        y = tf.matmul(x, tf.constant(w), name="y")
        path = tmp_path / "m.onnx"
        onnx.export(y, path=path, external_data=True)
        assert path.stat().st_size < 1000 < (tmp_path / "m.onnx.data").stat().st_size
        found = onnx.prepare(str(path)).run([np.ones([1, 64], np.float32)])[0]
        np.testing.assert_array_equal(found, w.sum(0, keepdims=True))
        monkeypatch.setattr(writing, "MAX_BYTES", 1000)
        with pytest.raises(onnx.OnnxError, match="give path="):
            onnx.export(y)


def test_written_messages_are_read():
    """Every kind of field, through `write` and `read`."""
    made = messages.CLASSES["NodeProto"](op_type="Some", input=["a", ""], output=["b"], attribute=[
        writing.attribute("i", -3, None), writing.attribute("f", 0.5, None),
        writing.attribute("s", "text", None), writing.attribute("ints", [1, -2], None),
        writing.attribute("floats", [1.5, 2.0], None), writing.attribute("n", ["x", "y"], None)])
    back = messages.read(writing.write(made), "NodeProto")
    from pyflow.interop.onnx.node import native
    assert list(back.input) == ["a", ""]
    assert [native(a) for a in back.attribute] == [-3, 0.5, "text", [1, -2], [1.5, 2.0], ["x", "y"]]


def test_command_there_and_back(tmp_path, monkeypatch, capsys):
    """.pb -> .onnx -> .pb -> .onnx, and what check says of each."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        status = command.main([str(a) for a in args])
        out, err = capsys.readouterr()
        assert status == 0, err
        return out
    frozen = HERE.parent / "frozen" / "lstm.pb"
    outputs = "out0,out1,out2"
    assert "inputs x, lengths" in run("convert", frozen, "-o", "a.onnx", "--outputs", outputs)
    run("convert", "a.onnx", "-o", "b.pb")
    run("convert", "b.pb", "-o", "c.onnx", "--inputs", "x,lengths")
    assert "nothing is missing" in run("check", "c.onnx")
    with open("c.onnx", "rb") as file:
        graph = messages.read(file.read()).graph
    assert [o.name for o in graph.output] == ["out0", "out1", "out2"]
    found = onnx.prepare(str(tmp_path / "c.onnx")).run(frozen_models.feeds("lstm"))
    for index, array in enumerate(found):
        ANSWERS[0].check(array, "lstm", index)


@pytest.mark.parametrize("args, said, status", [
    (["nothing.pb", "-o", "x.onnx"], "nothing.pb: No such file", 2),
    ([str(HERE.parent / "frozen" / "strings.pb"), "-o", "x.onnx"], "StringLength: ONNX's strings",
     1),
    ([str(HERE.parent / "frozen" / "lenet.pb"), "-o", "x.onnx", "--outputs", "none"], "none", 1),
    ([str(HERE.parent / "frozen" / "lenet.pb"), "-o", "x.onnx", "--opset", "99"], "opset 99", 1),
])
def test_command_says_what_is_wrong(args, said, status, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert command.main(["convert", *args]) == status
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x.onnx").exists()


def test_all_converters_are_of_ops():
    from pyflow.framework.op import registered_ops
    unknown = [name for name in registry.names() if name not in registered_ops()]
    assert set(unknown) <= {"Const", "ResourceGather", "RefIdentity"}, unknown


def _control_flow():
    """Loops and branches of a program, nested; {name: tensor}, inputs."""
    x, n = tf.placeholder(tf.float32, [None], name="x"), tf.placeholder(tf.int32, [], name="n")
    total = tf.reduce_sum(x)
    scale = tf.constant(2.0)
    grown, shrunk = tf.cond(total > 0, lambda: (x * scale, total), lambda: (x - 1.0, -total))
    case = tf.case([(tf.equal(n, 1), lambda: x + 1), (tf.equal(n, 2), lambda: x + 2)],
                   default=lambda: x + 3)

    def turn(i, a):
        def inner(j, b):
            return j + 1, b + tf.cond(tf.equal(j, 1), lambda: x * 10, lambda: x)
        return i + 1, tf.while_loop(lambda j, b: j < i, inner, [tf.constant(0), a])[1]
    _, looped = tf.while_loop(lambda i, a: i < n, turn, [tf.constant(0), x])
    rows = tf.map_fn(lambda v: v * v + total, x)
    sums = tf.scan(lambda a, v: a + v, x)
    unused = tf.while_loop(lambda i: i < 0, lambda i: i + 1, [n])
    return {"grown": grown, "shrunk": shrunk, "case": case, "looped": looped, "rows": rows,
            "sums": sums, "unused": unused}, [x, n]


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_control_flow_of_a_program(n):
    with tf.Graph().as_default():
        outputs, inputs = _control_flow()
        data = onnx.export(outputs, inputs)
        x = np.float32([1, -2, 3.5] if n % 2 else [-1, -2, 0.5])
        with tf.Session() as session:
            wanted = session.run(list(outputs.values()), dict(zip(inputs, (x, n))))
    ops = ops_of(data)
    assert ops["Loop"] >= 4 and ops["If"] >= 3
    for name, found, want in zip(outputs, onnx.prepare(data).run([x, np.int32(n)]), wanted):
        np.testing.assert_allclose(found, want, rtol=1e-6, err_msg=name)
