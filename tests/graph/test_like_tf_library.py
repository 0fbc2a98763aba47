"""What TensorFlow 1.15.0's own tests of framework, saved_model and tools found; the answers are
TensorFlow 1.15.5's."""
import hashlib
import itertools
import threading

import numpy as np
import pytest

import pyflow as tf
from pyflow.framework import nest
from pyflow.interop.tensorflow import extras, freeze_graph

# SHA-1 of the bytes that make_tensor_proto gives for all of GIVEN, SHAPES and both kinds of value;
# of qint16 and quint16 TensorFlow cannot write all.
PACKED = {
    "float16": "a32ba83fedb3fc1470b60207e88c932186e91b1d",
    "bfloat16": "0078e5ff82d9045403d1728caedfb19ece74dbd7",
    "float32": "846809009ce3f3fc4d49b8722733169b4f3d4df3",
    "float64": "ffee24ab50b858f1e0c7bc034b96955b364bccab",
    "int8": "9d0fd489a013e251e53fc2209025b5b16b48f47a",
    "uint8": "b2f9a659fda84e8a285b778cf4e057728e5383a1",
    "int16": "344f002d8a4652b4f145054370c74112771f7618",
    "uint16": "6aa141d1c966d6b74ab04b0d0f856c87cd3051d1",
    "int32": "fc96a1a054d0a2985e2f1389297a076cc876bb48",
    "uint32": "883d1fa0116bc4d69a347bf5e4c6a7e4e10840cd",
    "int64": "f773ea392d22c0b4e2ed535b593e633e89f00339",
    "uint64": "3ee827e6c9db93a3fabb9e22d23c928a268eb41c",
    "bool": "7649d1c1396238eaac45c27479e9f66b894ab551",
    "complex64": "7fb97d8b5d13bf4884859458703d15ad84d197e3",
    "complex128": "8863e96f038e449c6e77b03341ba2f6a776303b8",
    "string": "abb7986775dba97eeb5d15122267f71571002982",
    "qint8": "641d04ab9dc4decd076ff877a497e7fb283d9bd8",
    "quint8": "3b4ac2347c0e4f12bbaf5e587a5ba26f94eb18c4",
    "qint32": "570029ce056bbc32df757c8b509a1b72552ba74b",
}
GIVEN = 3, [3], [3, 4], [[3], [4]], [], [[], []]
SHAPES = None, [], [1], [2], [2, 1], [4], [0], [2, 3]


def _value(name, given):
    if isinstance(given, list):
        return [_value(name, item) for item in given]
    return {"string": str(given), "bool": given == 3}.get(
        name, (given,) if name[0] == "q" else given + 2j if "complex" in name else given)


def _packed(name):
    """What make_tensor_proto says of every case of a type: its bytes, or the kind of error."""
    dtype = getattr(tf, name)
    for given, shape, is_array in itertools.product(GIVEN, SHAPES, (False, True)):
        if name[0] == "q" and given == 3:           # TensorFlow has no quantized scalars
            continue
        value = _value(name, given)
        try:
            if is_array and name == "string":
                value = np.array(value, object)
                value = np.array([x.encode() for x in value.ravel()], object).reshape(value.shape)
            elif is_array:
                value = np.array(value, dtype.as_numpy_dtype)
            yield tf.make_tensor_proto(value, dtype=dtype, shape=shape).SerializeToString(
                deterministic=True)
        except (TypeError, ValueError) as e:
            yield type(e).__name__.encode()


@pytest.mark.parametrize("name", PACKED)
def test_tensor_protos_have_tensorflows_bytes(name):
    assert hashlib.sha1(b"|".join(_packed(name))).hexdigest() == PACKED[name]


def _graph_def(*nodes, producer=0):
    made = tf.GraphDef()
    for name, more in nodes:
        made.node.add(name=name, op="NoOp", device=more.get("device", ""))
        if "with" in more:
            made.node[-1].attr["_class"].list.s.append(b"loc:@" + more["with"].encode())
    made.versions.producer = producer
    return made


def test_a_colocated_node_has_the_others_device():
    given = _graph_def(("A", {}), ("B", {"device": "/device:CPU:0", "with": "A"}))
    with tf.Graph().as_default():
        a, b = tf.import_graph_def(given, return_elements=["A", "B"], name="")
        assert a.device == b.device == ""
        with tf.device(lambda op: "/device:B:0" if "B" in op.name else "/device:A:0"):
            a, b = tf.import_graph_def(given, return_elements=["A", "B"])
        assert a.device == b.device == "/device:A:0"


def test_names_of_scopes_without_operations_are_free_for_imports():
    with tf.Graph().as_default() as graph:
        with tf.name_scope("foo"):
            pass
        for name in ("Foo", "foo", "foo"):
            tf.import_graph_def(_graph_def((name, {})), name="")
        assert [op.name for op in graph.get_operations()] == ["Foo", "foo", "foo_1"]


def test_a_graph_is_as_old_as_what_it_imported():
    for producer, want in ((0, 0), (100, 100), (1000, 134)):
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(_graph_def(("a", {}), producer=producer))
            assert graph.as_graph_def().versions.producer == want
    with tf.Graph().as_default(), pytest.raises(ValueError, match="below min producer 0"):
        tf.import_graph_def(_graph_def(producer=-1))


def test_a_key_of_input_map_must_be_an_output():
    with tf.Graph().as_default():
        x = tf.constant(5.0, name="x")
        given = tf.get_default_graph().as_graph_def()
        tf.import_graph_def(given, {"x:0": x})
        with pytest.raises(ValueError, match=r"not found in graph_def: \[x:2\]"):
            tf.import_graph_def(given, {"x:2": x})


def test_a_tensor_read_twice_by_one_operation_has_it_twice():
    with tf.Graph().as_default():
        x = tf.constant(1)
        y = x + x
        assert x.consumers() == [y.op, y.op]


def test_scopes_left_out_of_order_are_refused():
    graph = tf.Graph()
    outer = graph.device("/device:CPU:1")
    outer.__enter__()
    with graph.device("/device:CPU:2"), pytest.raises(RuntimeError, match="nesting"):
        outer.__exit__(None, None, None)
    with pytest.raises(TypeError, match="`default_name`"):
        tf.name_scope("name", [tf.constant(1)])
    with tf.name_scope("foo"), tf.name_scope("/") as scope:
        assert scope == "/"


def test_init_scope_keeps_the_devices_of_a_function():
    graph = tf.Graph()
    with graph.as_default(), tf.device("/device:CPU:1"):
        @tf.function
        def made():
            with tf.device("/device:CPU:2"), tf.init_scope():
                tf.constant(1.0, name="inner")
            with tf.device("/device:CPU:3"):
                return tf.constant(2.0)
        made()
        with tf.init_scope():
            assert tf.constant(1.0).device == "/device:CPU:1"
    assert graph.get_tensor_by_name("inner:0").device == "/device:CPU:2"


def test_a_functions_nodes_are_placed_where_it_is_defined():
    from pyflow.lib.function import defun
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        @defun.Defun(tf.float32)
        def double(x):
            return x * 2.0
        with tf.device("/cpu:1"):
            double(1.0)
    function, = graph.as_graph_def().library.function
    assert {node.device for node in function.node_def} == {"/device:CPU:0"}


def test_switch_to_thread_local():
    graph, inside, go_on = tf.Graph(), threading.Event(), threading.Event()
    graph.switch_to_thread_local()

    def place():
        with graph.device("/device:CPU:1"):
            inside.set()
            go_on.wait(10)
    thread = threading.Thread(target=place)
    thread.start()
    inside.wait(10)
    with graph.as_default():
        assert tf.constant(1.0).device == ""
    go_on.set()
    thread.join()


def test_operations_tell_tensorflows_things():
    with tf.Graph().as_default():
        x = tf.constant(1, name="x")
        y = x + x
        assert [len(op.op_def.input_arg) for op in (x.op, y.op)] == [0, 2]
        assert len(x.op.traceback_with_start_lines) == len(x.op.traceback)
        file, line, function, text, first = x.op.traceback_with_start_lines[-1]
        assert file == __file__ and first < line
        with pytest.raises(tf.errors.OutOfRangeError, match=r"Input index \[2\]"):
            y.op._update_input(2, x)
        assert tf.get_static_value("hi") == "hi"
        part = tf.get_static_value(tf.stack([[1, 2], tf.placeholder(tf.int32, [2])]), partial=True)
        assert part[0].tolist() == [1, 2] and part[1] is None
    assert not tf.quint8.is_unsigned and tf.uint8.is_unsigned
    spec = tf.TensorSpec((1, 2), tf.int32, "a")
    assert tf.TensorSpec.from_spec(spec) == spec


def test_names_of_scopes_in_meta_graphs():
    for name, stripped in (("a///a/w", "a/w"), ("^a/a/w", "^a/w"), ("loc:@a/a/w", "loc:@a/w"),
                           ("aa/a/w", "aa/a/w"), ("a", "a")):
        assert extras.strip_name_scope(name, "a") == stripped
    assert extras.prepend_name_scope("loc:@a/w", "b") == "loc:@b/a/w"
    with pytest.raises(TypeError, match="false_fn"):
        extras.smart_cond(True, lambda: 1)


def test_nests_up_to_take_sparse_tensors_apart():
    sparse = tf.SparseTensor([[0, 0]], [1], [1, 1])
    found = nest.map_structure_up_to({"a": sparse}, lambda x: x * 2, {"a": sparse},
                                     expand_composites=True)
    assert found["a"].values.op.inputs[0] is sparse.values
    assert nest.map_structure_up_to({"a": sparse}, lambda x: x, {"a": sparse})["a"] is sparse


def test_training_nodes_behind_checks_go():
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0, name="x")
        with tf.control_dependencies([tf.check_numerics(x, "")]):
            tf.add(tf.identity(x), 1.0, name="y")
    found = tf.graph_util.remove_training_nodes(graph.as_graph_def())
    nodes = {node.name: list(node.input) for node in found.node}
    assert sorted(nodes) == ["x", "y", "y/y"] and "x" in nodes["y"]
    empty = tf.graph_util.remove_training_nodes(tf.GraphDef())
    assert not empty.HasField("library") and not empty.HasField("versions")


def test_a_partitioned_variable_is_frozen(tmp_path):
    for axis, resource in ((0, False), (1, True)):
        with tf.Graph().as_default() as graph, tf.Session() as sess:
            split = tf.fixed_size_partitioner(3, axis=axis)
            v = tf.get_variable("v", initializer=tf.reshape(tf.range(20.0), [5, 4]),
                                partitioner=split, use_resource=resource)
            tf.identity(v, name="out")
            sess.run(tf.global_variables_initializer())
            path = tf.train.Saver().save(sess, str(tmp_path / f"m{axis}"))
        frozen = freeze_graph.freeze_graph_with_def_protos(
            graph.as_graph_def(), None, path, "out", "", "", "", False, "")
        assert not any(node.op.startswith("Var") for node in frozen.node)
        with tf.Graph().as_default(), tf.Session() as sess:
            out, = tf.import_graph_def(frozen, return_elements=["out:0"])
            assert sess.run(out).tolist() == np.arange(20.0).reshape(5, 4).tolist()


def test_signatures_have_no_names_of_loaders(tmp_path):
    from pyflow.saved_model import steps
    with tf.Graph().as_default(), tf.Session() as sess:
        with pytest.raises(KeyError, match="__saved_model_init_op"):
            steps._SavedModelBuilder(str(tmp_path / "m")).add_meta_graph_and_variables(
                sess, ["serve"], {"__saved_model_init_op": tf.MetaGraphDef.SignatureDefEntry().value})


def test_a_second_interactive_session_is_warned_of(recwarn):
    first = tf.InteractiveSession()
    assert not [w for w in recwarn if "interactive session" in str(w.message)]
    second = tf.InteractiveSession()
    assert len([w for w in recwarn if "interactive session" in str(w.message)]) == 1
    second.close()
    first.close()
