"""What has no value yet: the error names the initializer that the program lacks."""
import pytest

import pyflow as tf


def advice(fetches, session):
    session.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.FailedPreconditionError) as caught:
        session.run(fetches)
    return str(caught.value)


LOCAL = {
    "metric": lambda: tf.metrics.mean(tf.constant([1.0]))[1],
    "metric_in_a_loop": lambda: tf.while_loop(
        lambda i: i < 1.0, lambda i: i + tf.metrics.accuracy([1], [1])[1], [0.0]),
    "epochs": lambda: tf.train.limit_epochs(tf.constant([1.0]), 2),
    "resource": lambda: tf.get_variable("v", [], collections=["local_variables"],
                                        use_resource=True),
    "shared_name": lambda: tf.contrib.framework.local_variable(1.0, name="mine"),
}


@pytest.mark.parametrize("name", LOCAL)
def test_local_variables(name):
    with tf.Graph().as_default(), tf.Session() as session:
        text = advice(LOCAL[name](), session)
        assert "Run tf.local_variables_initializer() first" in text
        assert "global_variables_initializer" not in text


@pytest.mark.parametrize("use_resource", [False, True])
def test_global_variables_and_those_of_no_collection(use_resource):
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", [], use_resource=use_resource)
        w = tf.get_variable("w", [], collections=["mine"], use_resource=use_resource)
        assert "Run its own initializer first: it is in no collection" in advice(w, session)
        with tf.Session() as other, pytest.raises(
                tf.errors.FailedPreconditionError,
                match=r"Run tf.global_variables_initializer\(\) first"):
            other.run(v)


def test_tables():
    with tf.Graph().as_default(), tf.Session() as session:
        values = tf.lookup.KeyValueTensorInitializer(["a"], [1])
        table = tf.lookup.StaticHashTable(values, -1)
        assert "Run tf.tables_initializer() first" in advice(table.lookup(tf.constant("a")), session)
        session.run(tf.tables_initializer())
        assert session.run(table.lookup(tf.constant("a"))) == 1
