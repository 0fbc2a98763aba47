"""Names that are not there: near ones are looked for when the error is read, not before."""

import copy
import difflib
import pickle
import traceback

import pytest

import pyflow as tf
from pyflow.framework import late_text

_ASKED = {                              # what was asked for -> the error, a part of its text
    "tensor": (lambda g: g.get_tensor_by_name("scope/nodex:0"), KeyError, "scope/node"),
    "operation": (lambda g: g.get_operation_by_name("scope/nodex"), KeyError, "scope/node"),
    "element": (lambda g: g.as_graph_element("scope/nodex"), KeyError, "scope/node"),
    "no tensor": (lambda g: g.as_graph_element("scope/nodex", allow_operation=False), ValueError,
                  "scope/node"),
    "fetch": (lambda g: tf.Session(graph=g).run("scope/nodex:0"), ValueError, "scope/node"),
    "feed": (lambda g: tf.Session(graph=g).run("scope/node:0", {"scope/nodex:0": 1}), TypeError,
             "scope/node"),
    "callable": (lambda g: tf.Session(graph=g)._make_callable_from_options(
        _callable_options("scope/nodex:0")), tf.errors.InvalidArgumentError, "scope/node"),
    "variable": (lambda g: _reused("weihgts"), ValueError, "weights"),
    "tf": (lambda g: tf.placehodler, AttributeError, "tf.placeholder"),
    "tf.nn": (lambda g: tf.nn.rleu, AttributeError, "tf.nn.relu"),
    "tf.gfile": (lambda g: tf.gfile.Opne, AttributeError, "tf.gfile.Open"),
    "tf.errors": (lambda g: tf.errors.InternalEror, AttributeError, "tf.errors.InternalError"),
    "raw op": (lambda g: tf.raw_ops.MatMull, AttributeError, "MatMul"),
    "op": (lambda g: tf.Graph().create_op("MatMull", [], []), tf.errors.NotFoundError, "MatMul"),
    "plugin": (lambda g: tf.plugins.op("acme.Nothing"), tf.errors.NotFoundError, "acme.Nothing"),
    "type": (lambda g: tf.as_dtype("flot32"), TypeError, "float32"),
    "module": (lambda g: __import__("pyflow.contrib.slmi"), ModuleNotFoundError, "slim"),
    "TensorFlow's module": (lambda g: __import__("pyflow.python.ops.nothing_ops"),
                            ModuleNotFoundError, "nothing_ops"),
}


def _callable_options(fetch):
    from pyflow.core.protobuf import config_pb2
    return config_pb2.CallableOptions(fetch=[fetch])


def _reused(name):
    with tf.Graph().as_default(), tf.variable_scope("net"):
        tf.get_variable("weights", [1])
        tf.get_variable_scope().reuse_variables()
        tf.get_variable(name, [1])


@pytest.mark.parametrize("asked", _ASKED)
def test_near_names_are_looked_for_when_the_message_is_read(asked, monkeypatch):
    call, kind, part = _ASKED[asked]
    graph = tf.Graph()
    with graph.as_default():
        tf.constant(1.0, name="scope/node")
    looked, find = [], difflib.get_close_matches
    monkeypatch.setattr(difflib, "get_close_matches",
                        lambda *args, **kwargs: looked.append(args) or find(*args, **kwargs))
    with pytest.raises(kind) as caught:
        call(graph)
    assert not looked
    error = caught.value
    assert part in str(error) and part in error.args[0] and part in repr(error)
    assert type(error).__name__ == kind.__name__ and type(error).__module__ == kind.__module__
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(other) is kind and str(other) == str(error) and other.args == error.args
    assert len(looked) <= 2                                 # and once, by name and by place


def test_an_error_whose_text_is_late_is_an_error():
    made = []
    error = late_text.error(KeyError, lambda: made.append(1) or "no 'x'")
    error.add_note("while reading")
    assert not made
    assert traceback.format_exception_only(error) == ["KeyError: \"no 'x'\"\n", "while reading\n"]
    assert (str(error), error.args, len(made)) == ("\"no 'x'\"", ("no 'x'",), 1)
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while reading"]
    error.args = ("other", 2)
    assert (error.args, str(error)) == (("other", 2), "('other', 2)")
    unread = late_text.error(ValueError, lambda: "made")
    unread.args = ("told",)
    assert str(unread) == "told"


def test_a_late_error_of_tf_keeps_its_code_and_message():
    error = late_text.error(tf.errors.NotFoundError, lambda: "no op", None, None)
    other = pickle.loads(pickle.dumps(error))
    for e in (error, other):
        assert (e.message, str(e), e.error_code) == ("no op", "no op", tf.errors.NOT_FOUND)
    assert type(other) is tf.errors.NotFoundError


@pytest.mark.alone
def test_an_unknown_name_costs_as_little_in_a_large_graph():
    """Beside a known one's: a search among the names would be thousands of times as dear."""
    import timeit
    graph = tf.Graph()
    with graph.as_default():
        for n in range(3000):
            tf.no_op(name=f"scope/node_{n}")

    def unknown(ask):
        try:
            ask()
        except (KeyError, AttributeError):
            pass

    def cost(call):
        return min(timeit.repeat(call, number=200, repeat=5))
    known = cost(lambda: graph.get_operation_by_name("scope/node_1"))
    for ask in (lambda: graph.get_tensor_by_name("scope/nodex:0"),
                lambda: graph.get_operation_by_name("scope/nodex"),
                lambda: graph.as_graph_element("scope/nodex"),
                lambda: tf.x, lambda: tf.nn.rleu, lambda: tf.raw_ops.MatMull):
        assert cost(lambda: unknown(ask)) < 100 * known
