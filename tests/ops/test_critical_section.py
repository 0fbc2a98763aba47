"""tf.CriticalSection: executions exclude each other within a step, across steps and threads."""
import threading

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def increment(variable):
    """Reads, then writes: loses updates unless nobody comes in between."""
    value = variable.read_value()
    with tf.control_dependencies([value]):
        return variable.assign(value + 1)


def test_no_update_is_lost():
    variable = tf.Variable(0, use_resource=True)
    section = tf.CriticalSection(name="counter")
    many = [section.execute(lambda: increment(variable)) for _ in range(10)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = [threading.Thread(target=lambda: [session.run(many) for _ in range(20)])
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.run(variable) == 800


def test_a_failed_execution_releases_the_mutex():
    section = tf.CriticalSection()
    x = tf.placeholder(tf.float32, [])
    checked = section.execute(lambda: tf.check_numerics(x, "bad"))
    with tf.Session() as session:
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
                session.run(checked, {x: np.nan})
            assert session.run(checked, {x: 2.0}) == 2.0


def test_two_sections_of_one_name_share_the_mutex():
    one, two = (tf.CriticalSection(shared_name="shared") for _ in range(2))
    first = one.execute(lambda: tf.constant(1))
    with tf.control_dependencies([first]):
        second = two.execute(lambda: tf.constant(2))
    with tf.Session() as session:
        assert session.run([first, second]) == [1, 2]
