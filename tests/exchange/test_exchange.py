"""MetaGraphDefs that TensorFlow 1.15.5 wrote, run here with gradients made after the import
(record.py), and what pyflow's own say: contexts of loops, ops, defaults, scopes, frozen updates."""
import gzip
import json
import logging
import pathlib
import sys
import threading

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import loop_graphs  # noqa: E402
import read  # noqa: E402
import record  # noqa: E402

import pyflow as tf  # noqa: E402
from pyflow.framework import protos  # noqa: E402

RECORDED = record.back(json.loads(gzip.decompress(record.RECORDED.read_bytes())))["programs"]
KNOWN = read.known_ops("pyflow", tf)


@pytest.mark.parametrize("name", RECORDED)
def test_meta_graph_of_tensorflow(name):
    """It is imported, run, and differentiated through its loops and branches."""
    kept = RECORDED[name]
    if name == "case:fractional_max_plain":     # random regions: imported, shapes agree
        meta = tf.MetaGraphDef.FromString(kept["meta"])
        with tf.Graph().as_default():
            tf.train.import_meta_graph(meta)
        return
    assert read.answer(tf, KNOWN, kept)["why"] == ""


@pytest.mark.parametrize("make", [f for f in loop_graphs.LOOPS
                                  if f.__name__ not in loop_graphs.UPDATING],
                         ids=lambda f: f.__name__)
def test_gradients_after_import_are_those_before(make):
    """Of our own MetaGraphDefs, imported below a scope, too."""
    with tf.Graph().as_default(), tf.Session() as session:
        (y, *_), feeds = make(tf)
        x = list(feeds)[0]
        meta = tf.train.export_meta_graph()
        session.run(tf.global_variables_initializer())
        wanted = session.run(tf.convert_to_tensor(tf.gradients(y, x)[0]), feeds)
        feeds = {x.name: value for x, value in feeds.items()}
        values = session.run(tf.global_variables())
    for scope in ("", "below/"):
        with tf.Graph().as_default() as graph, tf.Session() as session:
            tf.train.import_meta_graph(meta, import_scope=scope.rstrip("/") or None)
            y2, x2 = (graph.get_tensor_by_name(scope + t.name) for t in (y, x))
            for variable, value in zip(tf.global_variables(), values):
                variable.load(value, session)
            found = session.run(tf.convert_to_tensor(tf.gradients(y2, x2)[0]),
                                {scope + name: value for name, value in feeds.items()})
            again = tf.train.export_meta_graph()
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        for key in ("while_context", "cond_context"):
            assert len(again.collection_def[key].bytes_list.value) == len(
                meta.collection_def[key].bytes_list.value)


def test_contexts_are_written_as_tensorflow_s():
    with tf.Graph().as_default() as graph:
        loop_graphs.branch_in_loop(tf)
        loop, = tf.get_collection(tf.GraphKeys.WHILE_CONTEXT)
        message = loop.to_proto()
        assert not tf.get_collection(tf.GraphKeys.COND_CONTEXT)     # they are nested
        names = {t.name for op in graph.get_operations() for t in op.outputs}
    assert message.context_name == "while/while_context"
    assert message.maximum_iterations_name == "while/maximum_iterations:0"
    assert list(message.loop_exit_names) == ["while/Exit:0", "while/Exit_1:0", "while/Exit_2:0"]
    assert [n.cond_ctxt.branch for n in message.nested_contexts] == [1, 0]
    assert names >= {*message.values_def.values, *message.values_def.external_values.values()}


def test_a_loop_that_was_not_finished_is_left_out():
    with tf.Graph().as_default():
        def body(i):
            try:
                tf.while_loop(lambda j: j < 2, lambda j: 1 / 0, (0,))
            except ZeroDivisionError:
                return i + 1
        tf.while_loop(lambda i: i < 3, body, (0,))
        loop, = tf.get_collection("while_context")
        assert not loop.to_proto().nested_contexts
        assert len(tf.train.export_meta_graph().collection_def["while_context"]
                   .bytes_list.value) == 1


def test_a_context_that_does_not_fit_changes_nothing(caplog):
    caplog.set_level(logging.WARNING, "pyflow")
    with tf.Graph().as_default():
        loop_graphs.nested_loops(tf)
        meta = tf.train.export_meta_graph()
    data = meta.collection_def["while_context"].bytes_list.value
    for wrong in (b"\xff", data[0].replace(b"LoopCond", b"Loopcond"),
                  data[0].replace(b"while/Exit:0", b"while/Less:0")):
        del data[:]
        data.append(wrong)
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(meta)
            assert not graph.get_collection("while_context")
            assert all(op._get_control_flow_context() is None for op in graph.get_operations())
    assert "while_context" in caplog.text


def test_defaults_are_stripped_everywhere(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        v = tf.get_variable("v", initializer=[[1.0], [2.0]])
        y = tf.map_fn(lambda row: tf.matmul([row], v)[0], x)
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(format="tensorflow")
        saver.save(session, str(tmp_path / "c"), strip_default_attrs=True)
        whole = tf.train.export_meta_graph()
        messages = [tf.train.export_meta_graph(strip_default_attrs=True),
                    tf.train.export_meta_graph(str(tmp_path / "m"), strip_default_attrs=True)]
        builder = tf.saved_model.Builder(str(tmp_path / "s"))
        builder.add_meta_graph_and_variables(session, ["serve"], strip_default_attrs=True)
        builder.save()
        value = session.run(y, {x: [[1, 2]]})
    with tf.Graph().as_default(), tf.Session() as session:
        loaded = tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "s"))
    saved = protos.SavedModel.FromString((tmp_path / "s" / "saved_model.pb").read_bytes())
    messages.append(saved.meta_graphs[0])
    assign = next(node for node in loaded.graph_def.node if node.op == "Assign")
    assert assign.attr["validate_shape"].b      # as in TensorFlow, an import gives them back
    messages.append(tf.MetaGraphDef.FromString((tmp_path / "c.meta").read_bytes()))
    for message in messages:
        assert message.meta_info_def.stripped_default_attrs
        for op in message.meta_info_def.stripped_op_list.op:
            defaults = {a.name: a.default_value for a in op.attr if a.HasField("default_value")}
            for node in message.graph_def.node:
                assert node.op != op.name or not [
                    key for key, value in node.attr.items() if defaults.get(key) == value]
        assert "transpose_a" in {a.name for op in message.meta_info_def.stripped_op_list.op
                                 for a in op.attr}
    assert not whole.meta_info_def.stripped_default_attrs
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.import_meta_graph(str(tmp_path / "c.meta"))
        saver.restore(session, str(tmp_path / "c"))
        np.testing.assert_array_equal(session.run(y.name, {"x:0": [[1, 2]]}), value)


def test_ops_are_listed():
    """stripped_op_list: schemas of the ops of nodes and functions, by name."""
    from pyflow.python.framework import function

    @function.Defun(tf.float32)
    def halved(x):
        return tf.multiply(x, 0.5)
    with tf.Graph().as_default():
        halved(tf.placeholder(tf.float32, [2]))
        info = tf.train.export_meta_graph().meta_info_def
    assert [op.name for op in info.stripped_op_list.op] == ["Const", "Mul", "Placeholder"]
    assert [a.name for a in info.stripped_op_list.op[1].input_arg] == ["x", "y"]
    assert info.tensorflow_version == "1.15.0"


def test_an_import_within_a_name_scope_is_there(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=3.0)
        tf.identity(v, name="y")
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "c"))
    with tf.Graph().as_default() as graph, tf.Session() as session:
        with tf.name_scope("foo"):
            saver = tf.train.import_meta_graph(str(tmp_path / "c.meta"))
        assert [x.name for x in tf.global_variables()] == ["foo/v:0"]
        assert all(op.name.startswith("foo/") for op in graph.get_operations())
        saver.restore(session, str(tmp_path / "c"))
        assert session.run("foo/y:0") == 3.0


def test_a_graph_is_written_while_others_build():
    """Every input of every node is there: within loops nodes get theirs after they are made."""
    with tf.Graph().as_default() as graph:
        done = threading.Event()

        def build():
            with graph.as_default():
                while not done.is_set() and graph.version < 20_000:
                    x = tf.constant(1.0)
                    tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, tf.cond(
                        y > x, lambda: y * x, lambda: y - x)), (0, x))

        builders = [threading.Thread(target=build) for _ in range(2)]
        for thread in builders:
            thread.start()
        try:
            for _ in range(6):
                graph_def = graph.as_graph_def()
                names = {node.name for node in graph_def.node}
                inputs = {i.lstrip("^").partition(":")[0] for n in graph_def.node for i in n.input}
                assert inputs <= names
        finally:
            done.set()
            for thread in builders:
                thread.join()


def test_a_function_s_own_gradient_is_imported():
    from pyflow.python.framework import function

    @function.Defun(tf.float32, tf.float32)
    def five(x, dy):
        return dy * 5.0 * x

    @function.Defun(tf.float32, grad_func=five)
    def square(x):
        return x * x
    with tf.Graph().as_default() as graph:
        tf.identity(square(tf.placeholder(tf.float32, [], name="x")), name="y")
        written = graph.as_graph_def()
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.import_graph_def(written, name="", return_elements=["x:0", "y:0"])
        assert session.run([y, tf.gradients(y, x)[0]], {x: 3.0}) == [9.0, 15.0]


# ------------------------------------------------------------------------------------------ frozen
def normalised(training, x):
    return tf.contrib.layers.batch_norm(x, is_training=training, updates_collections=None)


def averaged(training, x):
    w = tf.get_variable("w", initializer=[1.0, 2.0, 3.0])
    average = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([tf.cond(training, lambda: average.apply([w]), tf.no_op)]):
        return x * w


def counted(training, x):
    w = tf.get_variable("w", initializer=[1.0, 2.0, 3.0])

    def step():
        with tf.control_dependencies([tf.assign_add(w, [1.0, 1.0, 1.0])]):
            return tf.constant(2.0)
    return x * tf.cond(training, step, lambda: tf.constant(3.0)) + w


@pytest.mark.parametrize("make", [normalised, averaged, counted], ids=lambda f: f.__name__)
@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_updates_in_branches_are_cut_when_a_graph_is_frozen(make, use_resource):
    fed = {"x:0": np.arange(6.0).reshape(2, 3), "training:0": False}
    with tf.Graph().as_default() as graph, tf.Session() as session, \
            tf.variable_scope("", use_resource=use_resource):
        x = tf.placeholder(tf.float32, [None, 3], name="x")
        training = tf.placeholder(tf.bool, [], name="training")
        y = tf.identity(make(training, x), name="y")
        session.run(tf.global_variables_initializer())
        wanted = session.run(y, fed)
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    assert not [n for n in frozen.node if "Assign" in n.op or "Ref" in n.op or "Var" in n.op]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(frozen, name="")
        np.testing.assert_allclose(session.run("y:0", fed), wanted, rtol=1e-6)
        assert np.isfinite(session.run("y:0", {**fed, "training:0": True})).all()


def test_an_output_that_needs_an_update_cannot_be_frozen():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        w = tf.get_variable("w", initializer=1.0)
        tf.identity(tf.assign_add(w, 1.0), name="y")
        session.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match="'AssignAdd'.*updates the variable 'w'.*outputs y"):
            tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])


def test_check_numerics_is_no_part_of_a_graph_for_inference():
    """Also where others wait for it, or take its value."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2], name="x")
        with tf.control_dependencies([tf.check_numerics(x, "x")]):
            z = tf.exp(x)
        tf.add(tf.check_numerics(z, "z"), x, name="y")
        left = tf.graph_util.remove_training_nodes(graph.as_graph_def(), ["y"])
    assert [(n.op, list(n.input)) for n in left.node] == [
        ("Placeholder", []), ("Exp", ["x"]), ("Add", ["Exp", "x"])]


# ------------------------------------------------------------------------------------------- names
def test_a_variable_in_a_signature_goes_by_its_name():
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name="var_x", use_resource=False)
        assert tf.saved_model.build_tensor_info(v).name == "var_x:0"


def test_a_supervisor_writes_the_meta_graph(tmp_path):
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        tf.get_variable("v", initializer=1.0)
        with tf.train.Supervisor(logdir=str(tmp_path)).managed_session():
            pass
    events = [e for path in tmp_path.glob("events*") for e in tf.train.summary_iterator(str(path))]
    metas = [tf.MetaGraphDef.FromString(e.meta_graph_def) for e in events
             if e.WhichOneof("what") == "meta_graph_def"]
    assert [m.saver_def.save_tensor_name != "" for m in metas] == [True]


def test_collections_of_messages_are_kept(tmp_path):
    """As a SavedModel's assets; those of a model that was loaded are not the next one's."""
    path = tmp_path / "words.txt"
    path.write_text("a\nb\n")
    with tf.Graph().as_default(), tf.Session() as session:
        asset = tf.constant(str(path))
        tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, asset)
        builder = tf.saved_model.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(
            session, ["serve"], assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS))
        builder.save()
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "model"))
        assert [a.type_url for a in graph.get_collection("saved_model_assets")] == [
            "type.googleapis.com/tensorflow.AssetFileDef"]
        again = tf.train.export_meta_graph()
        builder = tf.saved_model.Builder(str(tmp_path / "next"))
        builder.add_meta_graph_and_variables(session, ["serve"])
        builder.save()
    assert len(again.collection_def["saved_model_assets"].any_list.value) == 1
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "next"))
        assert not graph.get_collection("saved_model_assets")
