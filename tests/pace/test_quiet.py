"""The clock that tests of speed read: other work of the machine does not count, sleep does."""
import subprocess
import sys
import time

from quiet import clock

BUSY = "import time; end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"


def test_sleep_counts():
    began = clock()
    time.sleep(0.2)
    assert 0.15 < clock() - began


def test_what_waits_for_a_processor_does_not_count():
    """Beside ten busy processes a turn of 0.1 s takes several."""
    others = [subprocess.Popen([sys.executable, "-S", "-c", BUSY]) for _ in range(10)]
    try:
        began, wall, spent = clock(), time.monotonic(), time.thread_time()
        while time.thread_time() - spent < 0.1:
            pass
        took, walls = clock() - began, time.monotonic() - wall
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert took < 0.5 * walls or walls < 0.15
