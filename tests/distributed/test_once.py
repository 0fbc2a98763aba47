"""What is kept of calls that are over: their answers' bytes, within bounds, and nothing else."""
import weakref

import pytest

import pyflow as tf
from pyflow.distributed.wire import messages, once, rpc


def reply(size):
    return messages.PartialRunResponse(fetch=[messages.TensorMessage(content=b"a" * size)])


def again(calls, key):
    """What who delivers the call once more gets."""
    return calls.run(key, lambda: pytest.fail("it was done twice"))


def test_an_answer_comes_again():
    calls = once.Once()
    first = calls.run(1, lambda: reply(100))
    assert again(calls, 1) == first and again(calls, 1) is not first


def test_all_answers_together_have_a_bound():
    calls, size = once.Once(), once.KEPT - 100
    for key in range(1, 101):
        calls.run(key, lambda: reply(size))
    assert again(calls, 100) == reply(size)
    kept = []
    for key in range(1, 101):
        try:
            kept.append(len(again(calls, key).SerializeToString()))
        except tf.errors.AbortedError as problem:
            assert "let go" in problem.message and not kept     # the oldest were let go
    assert once.KEPT_IN_ALL - once.KEPT < sum(kept) <= once.KEPT_IN_ALL


def test_a_large_answer_is_not_kept():
    calls = once.Once()
    calls.run(1, lambda: reply(once.KEPT + 1))
    with pytest.raises(tf.errors.AbortedError, match="let go"):
        again(calls, 1)


def test_the_oldest_calls_are_new_again():
    calls = once.Once(room=3)
    for key in range(1, 6):
        calls.run(key, lambda: reply(1))
    assert calls.run(2, lambda: reply(2)) == reply(2)
    assert again(calls, 5) == reply(1)
    calls.forget(lambda key: key == 5)
    assert calls.run(5, lambda: reply(3)) == reply(3)


def test_a_failure_comes_again_without_what_it_went_through():
    class Feed:
        """A large tensor of the call's."""

    def do():
        feed = Feed()
        fed.append(weakref.ref(feed))
        raise tf.errors.DataLossError(None, None, "it is damaged")
    calls, fed = once.Once(task="/job:w/task:0"), []
    with pytest.raises(tf.errors.DataLossError) as problem:
        calls.run(1, do)
    del problem
    assert fed[0]() is None, "the frames of a failed call are kept"
    for _ in range(2):
        with pytest.raises(rpc.Failure) as problem:
            again(calls, 1)
        message = problem.value.message
        assert (message.code, message.message, message.task) == (
            tf.errors.DATA_LOSS, "it is damaged", "/job:w/task:0")
