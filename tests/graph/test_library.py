"""What programs take for granted: lists that are other iterables, sizes beyond 2^31, constants of
few bytes, name=None, help(), versions, hints for what is not here.  Literals are TF 2.21's."""
import collections
import importlib
import inspect
import pydoc

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


# -------------------------------------------------------------------------------------- iterables

def test_views_of_dicts_are_lists():
    v, w = tf.Variable(1.0), tf.Variable(2.0)
    loss, d = v * v + w, {"a": v, "b": w}
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    assert optimizer.minimize(loss, var_list=d.values()).type == "NoOp"
    assert [x for _, x in optimizer.compute_gradients(loss, {v: 1, w: 2}.keys())] == [v, w]
    assert len(tf.gradients(loss, list(d.values()))) == 2
    assert len(tf.gradients(d.values(), v)) == 1
    assert tf.group(d.values()).type == "NoOp"
    assert len(tf.while_loop(lambda *a: a[0] < 1.0, lambda *a: a, d.values())) == 2
    assert len(tf.cond(v > 1.0, lambda: d.values(), lambda: d.values())) == 2


@pytest.mark.parametrize("make", [
    lambda a, b: {"a": a, "b": b}.values(), lambda a, b: (x for x in (a, b)),
    lambda a, b: map(lambda x: x, [a, b]), lambda a, b: collections.deque([a, b]),
    lambda a, b: {a, b}], ids=["view", "generator", "map", "deque", "set"])
def test_sums_and_arguments_of_any_iterable(make):
    a, b = tf.constant(1.0), tf.constant(2.0)
    added = tf.add_n(make(a, b))
    called = tf.py_func(lambda x, y: x + y, make(a, b), tf.float32)
    with tf.Session() as sess:
        assert sess.run([added, called]) == [3.0, 3.0]


def test_what_is_no_list_of_tensors():
    assert len(tf.clip_by_global_norm(collections.deque([tf.constant(1.0)]), 1.0)[0]) == 1
    for bad in ("ab", tf.constant([1.0]), {}, [], None):
        with pytest.raises(ValueError):
            tf.add_n(bad)
    for good in ([1], (1,), {1}, {1: 2}, iter([1]), {}.values()):
        assert tf.assert_proper_iterable(good) is None
    for bad in ("a", b"a", np.ones(2), tf.constant([1.0]), 5, None, tf.Variable(1.0)):
        if isinstance(bad, tf.Variable):
            continue                        # it has __iter__, which raises
        with pytest.raises(TypeError):
            tf.assert_proper_iterable(bad)


# -------------------------------------------------------------------------------------- large sizes

def test_sizes_beyond_31_bits():
    n = 2**31 + 6
    for make in (lambda: tf.ones([n], tf.int8), lambda: tf.zeros([n], tf.int8),
                 lambda: tf.zeros(n), lambda: tf.zeros(tf.TensorShape([n])),
                 lambda: tf.ones_like(tf.placeholder(tf.int8, [n])),
                 lambda: tf.zeros_like(tf.placeholder(tf.int8, [n]), dtype=tf.float32)):
        filled = make()
        assert filled.shape.as_list() == [n] and filled.op.type == "Fill"
        assert filled.op.inputs[0].dtype == tf.int64
    for make in (tf.random_uniform, tf.random_normal, tf.truncated_normal):
        assert make([n]).shape.as_list() == [n]
    assert tf.get_variable("v", [n]).shape.as_list() == [n]
    with pytest.raises(ValueError):
        tf.zeros([-1])


# -------------------------------------------------------------------------------------- constants

@pytest.mark.parametrize("value, dtype, size", [
    (0.0, "float32", 1000000), ([1.0, 2.0], "float32", 1000), (-1, "int32", 500), (1, "int64", 500),
    (True, "bool", 5000), (1.5, "float16", 5000), (1.5, "bfloat16", 5000), (3, "uint8", 5000),
    (1 + 2j, "complex64", 5000), (1 + 2j, "complex128", 5000), (2**64 - 1, "uint64", 400),
    (float("nan"), "float32", 1000), (-0.0, "float64", 1000)])
def test_filled_constants_are_written_in_few_bytes(graph, value, dtype, size):
    c = tf.constant(value, dtype, [size])
    definition = graph.as_graph_def()
    assert definition.ByteSize() < 120
    with tf.Session() as sess:
        want = sess.run(c)
    read = tf.make_ndarray(definition.node[0].attr["value"].tensor)
    assert read.tobytes() == want.tobytes() and read.dtype == want.dtype
    with tf.Graph().as_default() as other, tf.Session() as sess:
        again, = tf.import_graph_def(definition, return_elements=["Const:0"])
        assert sess.run(again).tobytes() == want.tobytes()
        assert other.as_graph_def().ByteSize() < 120


def test_an_array_whose_end_repeats_keeps_what_is_before():
    array = np.zeros(5000, np.float32)
    array[:3] = [1.0, 0.0, 2.0]
    for value in (array, array[::-1].copy(), np.arange(5000, dtype=np.int64)):
        proto = tf.make_tensor_proto(value)
        assert np.array_equal(tf.make_ndarray(proto), value)
    node = tf.constant(array, name="short").op.node_def
    assert node.attr["value"].tensor.ByteSize() < 60
    assert tf.make_tensor_proto(array).tensor_content == array.tobytes()    # as TensorFlow writes it


def test_no_name_is_the_default_name():
    assert tf.constant(1.0, name=None).name == "Const:0"
    x = tf.constant([[1.0, 2.0]], name=None)
    for call in (tf.concat, tf.stack, tf.unstack, tf.split, tf.transpose, tf.to_float, tf.range,
                 tf.boolean_mask, tf.matrix_transpose):
        assert "name" in inspect.signature(call).parameters
    made = [tf.concat([x, x], 0, name=None), tf.stack([x, x], name=None),
            tf.unstack(x, name=None)[0], tf.split(x, 1, name=None)[0], tf.range(3, name=None),
            tf.transpose(x, name=None), tf.to_float(x, name=None), tf.no_op(name=None),
            tf.boolean_mask(x, [True], name=None), tf.group(x, name=None),
            tf.variables_initializer([], name=None), tf.cond(x[0, 0] > 0, lambda: x, lambda: x,
                                                             name=None)]
    assert all(m.name for m in made)


# -------------------------------------------------------------------------------------- the package

def test_help_shows_the_package():
    assert "GraphDef" in pydoc.render_doc(tf)
    for name in dir(tf):
        value = getattr(tf, name)
        if isinstance(value, type):
            assert isinstance(value.__module__, str), name


def test_versions():
    assert tf.__version__ == tf.VERSION == tf.version.VERSION == "1.15.0"
    assert tf.pyflow_version == tf.version.PYFLOW_VERSION != tf.VERSION
    assert tf.GRAPH_DEF_VERSION == tf.Graph().graph_def_versions.producer
    assert (tf.GRAPH_DEF_VERSION_MIN_CONSUMER, tf.GRAPH_DEF_VERSION_MIN_PRODUCER) == (0, 0)


@pytest.mark.parametrize("name, hint", [
    ("train.SummaryWriter", "tf.summary"), ("scalar_summary", "tf.summary"),
    ("merge_all_summaries", "tf.summary"), ("LMDBReader", "TFRecords"),
    ("contrib.timeseries", "tf.get_variable"),
    ("contrib.layers.not_there", "tf.get_variable")])
def test_names_that_are_not_here_say_what_to_do(name, hint):
    outer, _, last = name.rpartition(".")
    module = importlib.import_module("pyflow" + ("." + outer if outer else ""))
    if hasattr(module, last):
        pytest.fail(f"tf.{name} is here now: take it out of _names.NOT_HERE and of this test")
    with pytest.raises(AttributeError, match=hint):
        getattr(module, last)
    with pytest.raises(ImportError, match=hint):
        exec(f"from {module.__name__} import {last}")


def test_imports_that_fail_do_so_as_ever():
    for statement in ("import pyflow.nope", "from pyflow.nn import nope", "import pyflow.nn.relu"):
        with pytest.raises(ImportError):
            exec(statement)
    assert not hasattr(tf.contrib, "timeseries") and importlib.import_module("pyflow.nn")
    with pytest.raises(TypeError, match=r"since TF 1.0\): tf.split\(value, 2, 0\)"):
        tf.split(0, 2, tf.constant([1.0, 2.0]))
