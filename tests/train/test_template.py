"""make_template.  Literals are TF 2.21's answers."""
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def _scaled(x, y=0.0):
    return x * tf.get_variable("w", [2]) + y


def test_calls_share_variables():
    x = tf.constant([1.0, 2.0])
    t = tf.make_template("t", _scaled, y=1.0)
    a, b = t(x), t(x)
    assert (a.name, b.name, t.name, t.variable_scope_name) == ("t/add:0", "t_1/add:0", "t", "t/")
    assert [v.name for v in tf.global_variables()] == ["t/w:0"]
    assert t.variables == t.trainable_variables == tf.global_variables() == t.weights
    other = tf.make_template("t", _scaled)
    other(x)
    assert other.trainable_variables[0].name == "t_1/w:0"


def test_scope_now_and_unique_name():
    x = tf.constant([1.0, 2.0])
    now = tf.make_template("t", _scaled, create_scope_now_=True)
    assert now.variable_scope_name == "t/" and now.variables == []
    now(x), now(x)
    assert [v.name for v in now.variables] == ["t/w:0"]
    named = tf.make_template("q", _scaled, unique_name_="u")
    named(x)
    assert named.variable_scope_name == "u/"
    with pytest.raises(ValueError, match="name cannot be None"):
        tf.make_template(None, _scaled)


def test_variables_that_would_not_be_shared_are_an_error():
    t = tf.make_template("t", lambda x: x * tf.Variable([1.0, 2.0]))
    t(tf.constant([1.0, 2.0]))
    with pytest.raises(ValueError, match="Trainable variable created .* after the first time"):
        t(tf.constant([1.0, 2.0]))
