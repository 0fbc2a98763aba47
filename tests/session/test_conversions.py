"""Registered fetch and feed conversions, and fetches of attrs classes."""
import pytest

import pyflow as tf
from pyflow.session import register_session_run_conversion_functions


class Squared:
    """A pair of a tensor and its square, fetched as the square's value."""

    def __init__(self, tensor):
        self.sq = tf.square(tensor)
        self.eval = tf.negative(tensor)


register_session_run_conversion_functions(
    Squared, lambda s: ([s.sq, s.eval.op], lambda values: values[0]),
    lambda s, value: [(s.sq, value * 10)], lambda s: [s.sq])


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def test_fetch_and_feed():
    a, b = Squared(tf.constant(3.0)), tf.constant(1.0)
    with tf.Session() as sess:
        assert sess.run(a) == 9
        assert sess.run({"k": [a, b]}) == {"k": [9, 1]}
        for _ in range(2):
            assert sess.run(a.sq + b, {a: 2.0}) == 21
            assert sess.run(a, {a: 2.0}) == 20


def test_partial_run():
    a, b = Squared(tf.constant(3.0)), tf.placeholder(tf.float32, [])
    y = a.sq + b
    with tf.Session() as sess:
        h = sess.partial_run_setup([y], [a, b])
        assert sess.partial_run(h, y, {a: 1.0, b: 2.0}) == 12


def test_a_type_is_registered_once():
    with pytest.raises(ValueError, match="already been registered"):
        register_session_run_conversion_functions(Squared, lambda s: ([s.sq], lambda v: v[0]))


def test_attrs_classes():
    attr = _attrs_like()
    a = tf.constant(1.0)
    with tf.Session() as sess:
        got = sess.run(attr(a, [a]))
    assert type(got) is attr and got.x == 1 and got.y == [1]


def _attrs_like():
    """A class as the attrs library makes them: `__attrs_attrs__` lists its fields."""
    class Field:
        def __init__(self, name):
            self.name = name

    class Point:
        __attrs_attrs__ = (Field("x"), Field("y"))

        def __init__(self, x, y):
            self.x, self.y = x, y
    return Point
