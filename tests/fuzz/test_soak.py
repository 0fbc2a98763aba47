"""`long.py soak`, shortened: a few thousand steps of all kinds, and nothing is left of them."""
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().with_name("soak.py")
sys.path.insert(0, str(SCRIPT.parent))          # before tests/distributed, which has a soak.py, too

import soak  # noqa: E402


@pytest.mark.long
def test_a_few_thousand_steps_leave_nothing():
    done = subprocess.run([sys.executable, str(SCRIPT), "--steps", "6000", "--from", "3000",
                           "--growth", str(2**20)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "everything else is where it was" in done.stdout


def test_growth_is_noticed():
    before = {"threads": 3, "fds": 6, "objects": 100, "device violations": 0, "rss": 10**8}
    assert soak.compare(before, before, 2**20) == []
    after = dict(before, fds=7, objects=10**5, rss=10**8 + 2**20)
    assert soak.compare(before, after, 2**20) == ["fds", "objects", "rss"]
    assert soak.compare(before, dict(before, **{"device violations": 1}), 2**20)
