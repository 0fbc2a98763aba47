"""Constant folding: what becomes a Const, what never does, and what a Const waits for."""
import numpy as np
import pytest

import pyflow as tf
import rewriting
from pyflow.passes import fold


def folded(fetches, feeds=(), targets=()):
    graph = rewriting.pruned(fetches, feeds, targets)
    count = fold.fold(graph, rewriting.evaluator())
    return graph, count


def golden(name, fetches, feeds=()):
    rewriting.check_golden(name, rewriting.pruned(fetches, feeds),
                           lambda g: fold.fold(g, rewriting.evaluator()))


def test_golden_of_values():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 2], name="x")
        a = tf.matmul(tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.ones([2, 2]), name="a")
        parts = tf.split(tf.constant([1.0, 2.0, 3.0, 4.0]), 2, name="parts")
        text = tf.string_join([tf.constant("a"), tf.constant("b")], name="text")
        y = tf.add(x * parts[1], tf.sqrt(a), name="y")
        golden("fold_values", [y, text], [x])
        found, wanted = rewriting.both([y, text], {x: np.ones((2, 2))})
        np.testing.assert_array_equal(found[0], wanted[0])
        assert found[1] == wanted[1] == b"ab"


def test_golden_of_shapes():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        b = tf.placeholder(tf.float32, [3], name="b")
        unknown = tf.placeholder(tf.float32, [None, 3], name="unknown")
        y = tf.reshape(tf.square(x), tf.shape(x)[::-1], name="y")
        gradient = tf.gradients(tf.multiply(x, b, name="z"), [b], name="g")[0]
        rank, size = tf.rank(unknown, name="rank"), tf.size(b + tf.square(x)[0], name="size")
        hidden = tf.placeholder_with_default(x, None, name="hidden")
        late = tf.shape(hidden, name="late")
        hidden.set_shape([2, 3])
        y = tf.reshape(y, late[::-1] * 2 // 2, name="y_again")
        golden("fold_shapes", [y, gradient, rank, size, tf.shape(unknown, name="open")],
               [x, b, unknown])


def test_golden_in_a_conditional_and_a_loop():
    """Consts stay tied to what they replace: pivots, and the tensor whose shape was read."""
    with tf.Graph().as_default():
        p = tf.placeholder(tf.bool, [], name="p")
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        y = tf.cond(p, lambda: tf.constant(2.0) * 3.0,
                    lambda: tf.cast(tf.size(tf.square(x)), tf.float32))
        _, z = tf.while_loop(lambda i, a: i < 3,
                             lambda i, a: (i + 1, a + tf.constant(2.0) * 4.0),
                             [tf.constant(0), y])
        golden("fold_flow", [z], [p, x])
        for value in (True, False):
            found, wanted = rewriting.both([y, z], {p: value, x: np.zeros((2, 3))})
            assert found == wanted == ([6, 30])


def test_what_is_not_folded():
    with tf.Graph().as_default():
        c = tf.constant([1.0, 2.0])
        kept = [tf.random_uniform([2]), tf.random_shuffle(c), tf.py_func(lambda a: a, [c], [
            tf.float32])[0], tf.Print(c, [c]), tf.zeros([2000, 2000])]
        graph, _ = folded(kept)
        for op in ("RandomUniform", "RandomShuffle", "PyFunc", "Print", "Fill"):
            assert op in rewriting.ops(graph), op


def test_a_failing_node_stays_and_the_others_fold():
    with tf.Graph().as_default():
        bad = tf.floordiv(tf.constant([1, 2]), tf.constant([0, 1]), name="bad")
        after = tf.negative(bad)
        good = tf.negative(tf.square(tf.constant(3.0)))
        graph, count = folded([good, after])
        kinds = rewriting.ops(graph)
        assert "FloorDiv" in kinds and "Square" not in kinds and count == 1
        with rewriting.session() as sess:
            assert sess.run(good) == -9
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                sess.run(after)
            assert caught.value.op is bad.op
            never = tf.cond(tf.placeholder_with_default(False, []),
                            lambda: tf.floordiv(tf.constant(1), tf.constant(0)),
                            lambda: tf.constant(5))
            assert sess.run(never) == 5


def test_control_inputs_are_kept():
    with tf.Graph().as_default():
        v = tf.Variable(0.0)
        with tf.control_dependencies([tf.assign_add(v, 1.0)]):
            c = tf.constant(2.0)
        y = tf.square(c) + 1.0
        with rewriting.session() as sess:
            sess.run(v.initializer)
            for i in range(3):
                assert sess.run(y) == 5 and sess.run(v) == i + 1


def test_effects_behind_a_folded_shape_still_happen():
    calls = []

    def note(a):
        calls.append(1)
        return a
    with tf.Graph().as_default():
        y = tf.square(tf.py_func(note, [tf.constant([1.0, 2.0])], tf.float32))
        n = tf.size(y)
        y.set_shape([2])
        graph, count = folded([n])
        assert count == 1 and "Size" not in rewriting.ops(graph)
        with rewriting.session() as sess:
            for _ in range(3):
                assert sess.run(n) == 2
    assert len(calls) == 3


def test_a_dead_tensors_shape_is_dead():
    """Size(x) in the branch not taken must not reach the Merge, though its value is known."""
    with tf.Graph().as_default():
        p = tf.placeholder(tf.bool, [])
        x = tf.placeholder(tf.float32, [4])

        def late(op, tensor):
            """Size or Rank of a tensor whose shape becomes known only afterwards."""
            hidden = tf.placeholder_with_default(tensor, None)
            found = op(hidden)
            hidden.set_shape([4])
            return found
        y = tf.cond(p, lambda: late(tf.size, tf.negative(x)), lambda: late(tf.rank, tf.square(x)))
        sized = tf.cond(p, lambda: late(tf.size, x), lambda: late(tf.size, x) + 1)
        graph, count = folded([y, sized], [p, x])
        assert count >= 3 and not {"Size", "Rank"} & set(rewriting.ops(graph))
        for value in (True, False):
            found, wanted = rewriting.both([y, sized], {p: value, x: np.ones(4)})
            assert found == wanted == ([4, 4] if value else [1, 5])


def test_results_larger_than_their_inputs_are_left():
    with tf.Graph().as_default():
        small, large = tf.fill([4], 1.0), tf.fill([100_000], 1.0)
        graph, count = folded([small, large])
        assert count == 1 and rewriting.ops(graph).count("Fill") == 1


def test_types_survive():
    with tf.Graph().as_default():
        fetches = [tf.cast(tf.constant([1.5, -2.5]), t) * tf.cast(tf.constant(2), t)
                   for t in (tf.float16, tf.bfloat16, tf.float64, tf.int8, tf.uint8, tf.complex64)]
        fetches += [tf.logical_not(tf.constant(True)), tf.as_string(tf.constant([1, 2]))]
        graph, _ = folded(fetches)
        assert set(rewriting.ops(graph)) == {"Const", "_Retval"}
        for a, b in zip(*rewriting.both(fetches)):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
