"""Tensors in chunks on a stream of gRPC's: their bytes, and frames that are none."""
import struct

import numpy as np
import pytest

import pyflow as tf
from pyflow.distributed import chunks, messages, outgoing
from pyflow.session import runtime


def sent(value, number=7):
    """(the message that goes ahead, [frames]) of an array."""
    kept = runtime.executor().Kept.of(value, tf.as_dtype(value.dtype).as_datatype_enum)
    sending, frames = chunks.Sending(number, kept.data()), []
    while not sending.over:
        frames.append(sending.next()[0])
    return messages.TensorMessage(dtype=kept.type, shape=kept.shape), frames


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "bool", "float16"])
def test_they_are_what_was_sent(dtype):
    value = np.random.RandomState(1).randint(0, 2, [3, 1_000_003]).astype(dtype)
    head, frames = sent(value)
    got, incoming = [], chunks.Incoming()
    incoming.begin(7, head, got.append)
    assert len(frames) == -(-value.nbytes // chunks.CHUNK)
    for frame in frames:
        assert chunks.is_chunk(frame) and not got
        incoming.take(frame)
    np.testing.assert_array_equal(got[0].array(), value)


@pytest.mark.parametrize("change, why", [
    (lambda f: b"\0", "empty"), (lambda f: f[:17], "empty"),
    (lambda f: struct.pack("<BQQ", 0, 8, 0) + f[17:], "transfer 8"),
    (lambda f: struct.pack("<BQQ", 0, 7, 1) + f[17:], "at 1 of"),
    (lambda f: struct.pack("<BQQ", 0, 7, 2**64 - 1) + f[17:], "of transfer 7"),
    (lambda f: f + b"x" * 100_000, "of transfer 7")])
def test_wrong_frames_are_errors(change, why):
    head, frames = sent(np.ones(30_000, np.float32))
    incoming = chunks.Incoming()
    incoming.begin(7, head, lambda kept: pytest.fail("it arrived"))
    with pytest.raises(tf.errors.InvalidArgumentError, match=why):
        incoming.take(change(frames[0]))


def test_promises_are_checked_and_bounded():
    incoming = chunks.Incoming()
    for wrong in (dict(dtype=1, shape=[-1]), dict(dtype=7, shape=[3]), dict(dtype=1, shape=[0]),
                  dict(dtype=1, shape=[4], content=b"\0" * 16), dict(dtype=99, shape=[3])):
        with pytest.raises(tf.errors.InvalidArgumentError):
            incoming.begin(1, messages.TensorMessage(**wrong), print)
    with pytest.raises(tf.errors.ResourceExhaustedError, match="too much"):
        incoming.begin(2, messages.TensorMessage(dtype=1, shape=[1 << 40]), print)
    incoming.take(struct.pack("<BQQ", 0, 2, 0) + b"x" * 100)        # dropped
    head, frames = sent(np.full(3, True), 3)
    incoming.begin(3, head, print)
    with pytest.raises(tf.errors.InvalidArgumentError, match="already|begins"):
        incoming.begin(3, head, print)
    with pytest.raises(tf.errors.InvalidArgumentError, match="truth value"):
        incoming.take(frames[0][:17] + b"\1\2\1")


def test_other_messages_go_between_chunks_and_nobody_waits_for_room():
    """Who sends beyond the bound is told later; what ends the stream ends that, too."""
    class Later:
        told = None

        def begin(self):
            return True

        def end(self, code=0):
            self.told = code

    queue, value = outgoing.Outgoing(), np.zeros(outgoing.OUTGOING + 3 * chunks.CHUNK, np.uint8)
    later, other = Later(), messages.ConnectMessage(number=5)
    queue.put(messages.ConnectMessage(number=1), len(value), sending=chunks.Sending(1, value))
    queue.put(other)
    queue.put(messages.ConnectMessage(number=2), 100, later=later)
    queue.finish()
    assert next(queue).number == 1 and chunks.is_chunk(next(queue)) and next(queue) is other
    assert next(queue).number == 2 and later.told is None
    assert all(chunks.is_chunk(frame) for frame in queue)
    assert later.told == 0
    queue.put(messages.ConnectMessage(number=1), outgoing.OUTGOING + 1)
    another = Later()
    queue.put(messages.ConnectMessage(number=2), 100, later=another)
    queue.close()
    assert another.told == tf.errors.UNAVAILABLE and not queue.put(other)
