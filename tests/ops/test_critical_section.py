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


def test_a_section_inside_itself_is_refused():
    """It would wait for itself for ever; by another object of the same mutex, too."""
    one, two = (tf.CriticalSection(shared_name="shared") for _ in range(2))
    for inner in (one, two):
        with pytest.raises(ValueError, match="directly access the CriticalSection in which it"):
            one.execute(lambda inner=inner: inner.execute(lambda: tf.constant(1)))


def test_what_was_computed_in_the_section_may_be_read_in_it():
    """The lock is taken after what the function reads from outside."""
    section = tf.CriticalSection()
    x = tf.placeholder(tf.float32, [])
    first = section.execute(lambda: x + 1)
    both = section.execute(lambda: first * 10)
    looped = tf.while_loop(lambda i: i < 3.0, lambda i: section.execute(lambda: i + first), [0.0])
    with tf.Session() as session:
        config = tf.RunOptions(timeout_in_ms=20000)
        assert session.run([both, looped], {x: 1.0}, options=config) == [20.0, 4.0]
    tf.train.export_meta_graph()        # inputs come first in it, still


def test_a_resource_belongs_to_one_section():
    variable = tf.Variable(0.0, use_resource=True)
    one, two = tf.CriticalSection(), tf.CriticalSection()
    for _ in range(2):
        one.execute(lambda: variable + 1)
    for exclusive in (True, False):
        with pytest.raises(ValueError, match="requested exclusive resource access"):
            two.execute(lambda: variable + 1, exclusive_resource_access=exclusive)
    shared = tf.Variable(0.0, use_resource=True)
    for section in (one, two):
        section.execute(lambda: shared + 1, exclusive_resource_access=False)
