"""Enter with is_constant=False that begins no loop variable: its value exists in the first iteration, as
in TensorFlow, whose answers (2.21, compat.v1) these are."""
import pytest

import pyflow as tf

raw = tf.raw_ops


def enter(value, constant=False):
    return raw.Enter(data=value, frame_name="frame", is_constant=constant)


def leave(tensor):
    return raw.Exit(data=tensor)


def run(*tensors):
    with tf.Session() as sess:
        return sess.run(list(tensors), options=tf.RunOptions(timeout_in_ms=5000))


@pytest.fixture(autouse=True)
def _graph_of_its_own():
    with tf.Graph().as_default():
        yield


def loop(turns, use):
    """for k in range(turns): a += (`use` of the loop); returns what leaves it."""
    once = enter(tf.constant(5.0))
    k, a = (raw.Merge(inputs=[e, e])[0] for e in (enter(tf.constant(0)), enter(tf.constant(0.0))))
    go = raw.LoopCond(input=tf.less(k, enter(tf.constant(turns), True)))
    k_out, k_in = raw.Switch(data=k, pred=go)
    a_out, a_in = raw.Switch(data=a, pred=go)
    more = once if use == "body" else enter(tf.constant(1.0), True)
    k.op._update_input(1, raw.NextIteration(data=k_in + enter(tf.constant(1), True)))
    a.op._update_input(1, raw.NextIteration(data=a_in + more))
    if use == "exit":
        return [leave(k_out), leave(a_out), leave(once)]
    if use == "exit of a product":
        return [leave(k_out), leave(a_out), leave(once * enter(tf.constant(2.0)))]
    return [leave(k_out), leave(a_out)]


@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("use, left", [("exit", 5), ("exit of a product", 10)])
def test_a_loop_whose_entered_value_only_leaves(turns, use, left):
    assert run(*loop(turns, use)) == [turns, turns, left]


def test_a_frame_without_iterations():
    five, seven = enter(tf.constant(5.0)), enter(tf.constant(7.0))
    assert run(leave(five), leave(five * seven)) == [5, 35]


def test_a_frame_in_a_frame():
    outer = enter(tf.constant(5.0)) + enter(tf.constant(2.0))
    inner = raw.Enter(data=outer, frame_name="inner")
    assert run(leave(raw.Exit(data=inner))) == [7]


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_in_a_frame(taken):
    value, pred = enter(tf.constant(5.0)), enter(tf.constant(taken))
    no, yes = raw.Switch(data=value, pred=pred)
    assert run(leave(raw.Merge(inputs=[no, yes * yes])[0])) == [25 if taken else 5]


def test_a_value_that_later_iterations_lack_is_an_error():
    """TensorFlow runs a loop of at most one iteration; of one with more it says that a result has no
    value."""
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="'Enter'.*is_constant=false feeds a node that runs in later iterations"):
        run(*loop(3, "body"))
