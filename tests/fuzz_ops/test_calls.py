"""A few bad calls of every op; `long.py fuzz-ops` makes 10^4 of each, also under sanitizers."""
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


def fuzz(folder, *arguments):
    return subprocess.run([sys.executable, HERE / "run.py", "--keep", folder, *arguments],
                          capture_output=True, text=True, timeout=600)


def test_bad_calls_are_errors_or_answers(tmp_path):
    done = fuzz(tmp_path, "--count", "10", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    places, _, calls = [int(word) for word in done.stdout.split() if word.isdigit()][:3]
    assert places > 400 and calls > 3000, done.stdout


@pytest.mark.parametrize("what, words", [
    ("crash", "crashes (-"), pytest.param("hang", "hangs", marks=pytest.mark.long)])
def test_a_fatal_call_is_found_and_the_rest_goes_on(tmp_path, what, words):
    """The watcher itself: a child that kills itself, or sleeps, in one call of Neg."""
    code = f"""
import os, pathlib, signal, sys, time
sys.path.insert(0, {str(HERE)!r})
import child, calls
def fatal(self, call, plain=calls.Group.feeds):
    if self.op.name == "Neg" and call == 3:
        os.kill(os.getpid(), signal.SIGSEGV) if {what == "crash"} else time.sleep(1000)
    return plain(self, call)
calls.Group.feeds = fatal
child.main(*sys.argv[1:])
"""
    (tmp_path / "child.py").write_text(code)
    driver = f"""
import pathlib, sys
sys.path.insert(0, {str(HERE)!r})
import run
run.HERE, run.HANG = pathlib.Path({str(tmp_path)!r}), 0.5   # so 5 s of the clock
sys.exit(run.main(8, 0, "Neg,Abs", False, {str(tmp_path)!r}, None, "0/1", 1))
"""
    done = subprocess.run([sys.executable, "-c", driver], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 1 and f"Neg 0 3: {words}" in done.stdout, done.stdout + done.stderr
    assert "2 of 2 ops" in done.stdout and "1 findings" in done.stdout
