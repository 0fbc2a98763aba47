"""A few of the badly delivered calls of `make fuzz-calls`, and of the damaged ones of `make
fuzz-messages`."""
import re
import subprocess
import sys

import delivery
import fuzz_messages
from pyflow.distributed import once


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
