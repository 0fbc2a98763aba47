"""Defun, Declare: TensorFlow's answers, recorded by record_defun.py; and what is refused."""
import json
import pathlib
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

import defun_programs  # noqa: E402
import pyflow as tf  # noqa: E402
from pyflow.python.framework import function  # noqa: E402

ANSWERS = json.loads((HERE / "defun_answers.json").read_text())


def without_captures(signatures):
    """TF names an argument for a capture after the op's scope; ours are all `placeholder...`."""
    return [[name, ["placeholder" if "placeholder" in a else a for a in args], *rest]
            for name, args, *rest in signatures]


@pytest.mark.parametrize("name", defun_programs.PROGRAMS)
def test_tensorflow_s_answers(name, config):
    answer = ANSWERS[name]
    with tf.Graph().as_default() as graph:
        fetches, feeds, *first = defun_programs.PROGRAMS[name](tf, function)
        with tf.Session(config=config) as session:
            for op in first:
                session.run(op)
            values = session.run(fetches, feeds)
        graph_def = graph.as_graph_def()
    assert [v.dtype.name for v in values] == answer["types"]
    for value, wanted in zip(values, answer["values"], strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-7)
    assert without_captures(defun_programs.signatures(graph_def)) == without_captures(
        answer["signatures"])
    data = [[node, op, sum(i[0] != "^" for i in inputs)]
            for node, op, inputs, _ in answer["calls"]]
    assert [[node, op, sum(i[0] != "^" for i in inputs)]
            for node, op, inputs, _ in defun_programs.calls(graph_def)] == data


@pytest.mark.parametrize("name", ["two_results", "nested_and_captured", "call_in_a_loop"])
def test_written_and_read_again(name, config):
    """The GraphDef with its library gives what the program gives."""
    with tf.Graph().as_default() as graph:
        fetches, feeds = defun_programs.PROGRAMS[name](tf, function)
        written, names = graph.as_graph_def(), [t.name for t in fetches]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(written, name="")
        assert graph.as_graph_def().library == written.library
        with tf.Session(config=config) as session:
            values = session.run(names, feeds)
    for value, wanted in zip(values, ANSWERS[name]["values"], strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-7)


@function.Defun(tf.float32, tf.float32, func_name="plus")
def plus(x, y):
    return x + y


def test_wrong_calls():
    a, i = tf.constant(1.), tf.constant(1)
    with pytest.raises(ValueError, match="Expected 2 arguments, got 1"):
        plus(a)
    with pytest.raises(ValueError, match="Input 'y' passed int32 expected float"):
        plus(a, i)
    with pytest.raises(ValueError, match=r"Unknown keyword arguments: \['foo'\]"):
        plus(a, a, foo=1)
    with pytest.raises(ValueError, match="allowed arguments"):
        function.Defun(tf.float32)(lambda x, y: x)
    with pytest.raises(ValueError, match="argument defaults"):
        function.Defun(tf.float32)(lambda x=1: x)
    with pytest.raises(ValueError, match="op with the same name"):
        function.Defun(tf.float32, func_name="MatMul")(lambda x: x)(a)
    with pytest.raises(ValueError, match="can not return None"):
        function.Defun(tf.float32)(lambda x: [x, None])(a)
    with pytest.raises(ValueError, match="by value"):
        v = tf.placeholder(tf.float32)
        function.Defun(tf.float32, capture_by_value=True)(lambda x: x + v)(a)
    with pytest.raises(ValueError, match="unique"):
        function.Declare("f", [("x", tf.int32), ("x", tf.int32)], [])


def test_writes_through_references_are_refused():
    v = tf.Variable(1.)
    with pytest.raises(TypeError, match="mutable tensor"):
        function.Defun(tf.float32)(lambda x: tf.assign_add(v, x))(1.)


def test_two_functions_of_one_name():
    with tf.Graph().as_default():
        function.Defun(tf.float32, func_name="f")(lambda x: x + 1.)(1.)
        function.Defun(tf.float32, func_name="f")(lambda x: x + 1.)(1.)     # an equal one
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="different function with the same name"):
            function.Defun(tf.float32, func_name="f")(lambda x: x + 2.)(1.)


def test_a_function_calls_itself_by_declaration_only():
    def body(x):
        return own(x)
    own = function.Defun(tf.float32)(body)
    with pytest.raises(ValueError, match="calls itself.*Declare"):
        own(1.)


def test_a_declared_function_that_is_never_defined(config):
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        y = function.Declare("nowhere", [("x", tf.float32)], [("y", tf.float32)])(1., name="here")
        with pytest.raises(tf.errors.NotFoundError, match="'here' calls the function 'nowhere'"):
            session.run(y)


def test_a_declaration_of_other_types(config):
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        plus(1., 2.)
        y = function.Declare("plus", [("x", tf.float32)], [("y", tf.int32)])(1., name="here")
        with pytest.raises(tf.errors.InvalidArgumentError, match=(
                r"'here' calls the function 'plus' with arguments of types \[float32\], expected "
                r"\[float32, float32\]")):
            session.run(y)


def test_one_function_in_two_graphs():
    values = []
    for _ in range(2):
        with tf.Graph().as_default() as graph, tf.Session() as session:
            values.append(session.run(plus(1., 2.)))
            assert [f.signature.name for f in graph.as_graph_def().library.function] == ["plus"]
    assert values == [3., 3.]


def test_what_a_function_captures_of_another_graph_is_refused():
    with tf.Graph().as_default():
        k = tf.constant(1.)
        f = function.Defun(tf.float32)(lambda x: x + k)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="not an element of this graph"):
        f(1.)


def test_names_without_func_name_are_digests_of_the_body():
    with tf.Graph().as_default():
        def f(x):
            return x + 1.
        one, two = function.Defun(tf.float32)(f), function.Defun(tf.float32)(f)
        other = function.Defun(tf.float64)(f)
        assert one.name == two.name != other.name and one.name.startswith("f_")


@pytest.mark.parametrize("noinline", [False, True])
def test_an_error_in_a_body_names_its_line(config, noinline):
    @function.Defun(tf.float32, noinline=noinline)
    def f(x):
        return tf.check_numerics(x, "bad", name="look")         # the line
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        y = f(float("nan"), name="call")
        with pytest.raises(tf.errors.InvalidArgumentError, match=(
                r'bad(.|\n)*made at .*test_defun\.py:\d+: '
                if noinline else r"made at .*test_defun\.py:\d+: ") + (
                r'return tf\.check_numerics\(x, "bad", name="look"\) +# the line')):
            session.run(y)


def test_who_waits_for_a_call_waits_for_the_calls_in_it(config):
    """Inside f the last thing done is a call of g, whose effect is seen by whoever waits for f."""
    @function.Defun(tf.resource, tf.float32)
    def g(handle, x):
        tf.raw_ops.AssignAddVariableOp(resource=handle, value=x)
        return x * 2.

    @function.Defun(tf.resource, tf.float32)
    def f(handle, x):
        return g(handle, x + 1.)
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
        y = f(v.handle, 2.)
        with tf.control_dependencies([y.op]):
            after = v.read_value()
        session.run(v.initializer)
        assert [session.run(after) for _ in range(3)] == [3., 6., 9.]
