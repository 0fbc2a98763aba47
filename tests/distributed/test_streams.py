"""The link whose bytes somebody else carries (plugins/grpc): two nets, and threads in gRPC's place."""
import threading
import time

import numpy as np
import pytest

from pyflow import _executor

FLOAT, UNAVAILABLE = 1, 14


class Carried:
    """Two nets of this process, a and b, connected; `gate` holds what goes from a to b back."""

    def __init__(self, **options):
        self.lost = []
        self.a, self.b = (_executor.Net(_executor.Task(f"/job:{job}/replica:0/task:0"), lease=0.5,
                                        lost=lambda *why: self.lost.append(why), **options)
                          for job in "ab")
        self.gate, self.sent = threading.Event(), 0
        self.gate.set()
        self.ends = _executor.Stream(), _executor.Stream()
        self.threads = [threading.Thread(target=self.carry, args=(k, net), daemon=True)
                        for k, net in enumerate((self.b, self.a))]
        for thread in self.threads:
            thread.start()
        assert self.ends[1].offer(self.b.listen("grpc"))
        self.a.connect(self.b.name, self.b.incarnation, "grpc", self.ends[0].dial())

    def carry(self, k, net):
        source, target = self.ends[k], self.ends[1 - k]
        for data in iter(source.take, None):
            if k == 0:
                self.gate.wait()
                self.sent += len(data)
            if not target.put(data, net):
                break
        target.end("carried no more")

    def send(self, step, value):
        self.a.put(self.b.name, 1, step, b"k", value, FLOAT)

    def take(self, step):
        """What b gets under that step."""
        found = []
        self.b.task.take(1, step, b"k", lambda code, value: found.append((code, value)))
        until(lambda: found)
        assert found[0][0] == 0
        return found[0][1]

    def close(self):
        self.gate.set()
        self.a.close()
        self.b.close()
        for thread in self.threads:
            thread.join(5)
            assert not thread.is_alive()


@pytest.fixture
def pair():
    found = Carried()
    yield found
    found.close()


def until(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.002)


@pytest.mark.parametrize("size", [1, 1000, 16_384, 16_385, 300_000, 3_000_000])
def test_tensors_arrive_equal(pair, size):
    value = np.arange(size, dtype=np.float32)
    pair.send(1, value)
    np.testing.assert_array_equal(pair.take(1), value)


def test_who_does_not_carry_holds_back_what_is_sent(pair):
    """The rest waits at its maker, and goes on when there is room; silence of this link is no loss."""
    values = [np.full(10_000, k, np.float32) for k in range(200)]
    pair.gate.clear()
    for step, value in enumerate(values):
        pair.send(step, value)
    (seen,) = pair.a.peers()
    assert seen["queued"] > 5_000_000 and pair.sent < 2 << 20
    time.sleep(1.2)                         # more than two leases
    assert not pair.lost and pair.a.peers()[0]["state"] == "open"
    pair.gate.set()
    for step, value in enumerate(values):
        np.testing.assert_array_equal(pair.take(step), value)
    until(lambda: pair.a.peers()[0]["queued"] == 0)


@pytest.mark.parametrize("end", [0, 1])
def test_a_stream_that_ends_is_a_loss_on_both_sides(pair, end):
    pair.ends[end].end("the cable was pulled")
    until(lambda: len(pair.lost) == 2)
    assert {code for _, _, code, _ in pair.lost} == {UNAVAILABLE}
    assert any("the cable was pulled" in text for *_, text in pair.lost)
    assert pair.ends[0].take() is None and not pair.ends[1].put(b"x", pair.b)


def test_a_net_that_closes_ends_the_stream(pair):
    pair.b.close()
    until(lambda: not any(thread.is_alive() for thread in pair.threads))
    assert pair.ends[0].take() is None


def test_addresses_of_streams(pair):
    stream = _executor.Stream()
    assert not stream.offer("123456789"), "nobody listens there"
    address = stream.dial()
    with pytest.raises(MemoryError):
        stream.dial()
    stream.undial()
    assert stream.take() is None, "nobody will connect by it"
    for wrong in (address, "", "x", "-1"):
        with pytest.raises(_executor.StepError, match="there is no such stream"):
            pair.a.connect("/job:c/replica:0/task:0", 5, "grpc", wrong)
    with pytest.raises(TypeError):
        stream.put("text", pair.b)
