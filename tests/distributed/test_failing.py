"""A kernel fails on one of four tasks while the others block: the cause is raised, all are idle."""
import subprocess
import sys

import pytest

import failing


LONG = pytest.mark.long     # `long.py chaos-failing` runs 200 of each
WAYS = [pytest.param(False, id="process"), pytest.param(True, id="processes", marks=LONG)]


@pytest.mark.parametrize("apart", WAYS)
def test_the_cause_is_raised_and_every_task_is_idle(apart):
    command = [sys.executable, failing.__file__, "--count", "20"] + ["--processes"] * apart
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "20 raised the cause" in done.stdout
