"""A few of the badly delivered calls of `long.py fuzz-calls`, and of the damaged ones of `long.py
fuzz-messages`."""
import queue
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import delivery
import fuzz_messages
import pyflow as tf
from pyflow.distributed.wire import messages, once, rpc, tensors


def test_badly_delivered_calls_have_one_effect():
    command = [sys.executable, delivery.__file__, "--count", "600"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "none wrong, nothing left" in done.stdout


def test_damaged_messages_are_typed_errors():
    command = [sys.executable, fuzz_messages.__file__, "--count", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    refused = re.search(r"'INVALID_ARGUMENT': (\d+)", done.stdout)
    assert int(refused[1]) > 40, done.stdout


def test_who_is_gone_before_its_call_begins_is_not_waited_for():
    """grpc then calls no callback, ever: a thread of the server's would wait until it ends."""
    bed, over = delivery.Bed(), []
    calls = [(bed.wire.service.Follow, messages.Empty()),
             (bed.wire.service.Connect, iter(queue.SimpleQueue().get, None))]

    def call(method, given):
        context = delivery.Context()
        context.end()
        over.append(list(method(given, context)))
    threads = [threading.Thread(target=call, args=pair, daemon=True) for pair in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    bed.close()
    assert over == [[], []]


@pytest.mark.parametrize("values", [0, 2])
def test_as_many_values_as_fed_tensors(values):
    bed = delivery.Bed()
    handle, number = bed.long()
    given = [tensors.encode(np.float32(1), 1)] * values
    refused = delivery.attempt(bed.master, "RunCallable", [messages.RunCallableRequest(
        session=handle, callable=number, feed=given).SerializeToString()])
    assert refused.code == tf.errors.INVALID_ARGUMENT
    assert f"{values} values came for 1 fed" in str(refused)
    refused = delivery.attempt(bed.master, "RunCallable", [messages.RunCallableRequest(
        session=handle, callable=number, feed=[tensors.encode(np.float32(1), 1)],
        timeout_ms=-20).SerializeToString()])
    assert refused.code == tf.errors.INVALID_ARGUMENT and "timeout_ms is -20" in str(refused)
    assert bed.now() == 0
    bed.close()


def test_bytes_that_are_no_message_end_a_stream_with_an_error():
    bed = delivery.Bed()
    connect = rpc._guarded(bed.wire.service.Connect, messages.ConnectMessage, "both", "task")
    (answer,) = connect(iter([b"\xff\xff"]), delivery.Context())
    bed.close()
    assert answer.error.code == tf.errors.INVALID_ARGUMENT and "2 bytes" in answer.error.message


def test_a_call_done_twice_is_found(monkeypatch):
    """The harness notices what runs a second time."""
    monkeypatch.setattr(once.Once, "begin", lambda self, key, told: True)
    bed, wrong = delivery.Bed(), 0
    try:
        for seed in range(400):
            try:
                delivery.check(bed, seed)
            except AssertionError:
                wrong += 1
                bed.value = bed.now()
    finally:
        bed.close()
    assert wrong > 3
