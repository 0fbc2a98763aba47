"""A few of the random graphs of `long.py fuzz-tasks`, in this process and over processes."""
import re
import subprocess
import sys

import pytest

import fuzz_graphs
import graphs
import plugins_of_fuzz


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    plugins_of_fuzz.build(folder, "libfuzz_kernels.so")
    found, end, servers = fuzz_graphs.here(folder, 3)
    yield found, servers, folder
    end()


def test_random_graphs_on_three_tasks_equal_the_interpreter(fuzz):
    found, servers, _ = fuzz
    for seed in range(25):
        found.check_seed(seed)
    assert found.errors > 1 and found.steps > 40
    assert fuzz_graphs.left(servers) is None


def test_the_cause_wins_over_a_send_that_was_refused(fuzz):
    """Its peer's step had failed before it sent: a consequence, whoever hears of it first."""
    found, _, _ = fuzz
    for _ in range(4):
        for seed in (47, 1204, 1342):
            found.check_seed(seed)


def test_a_difference_is_found(fuzz, monkeypatch):
    rules = graphs.interpreter.VALUES
    monkeypatch.setitem(rules, "FloorMod", lambda op, a, b: [a % b + 1])
    with pytest.raises(AssertionError):
        for seed in range(20):
            fuzz[0].check_seed(seed)


@pytest.mark.long           # the same in one process is above
def test_over_processes_and_proxies_that_delay(fuzz):
    command = [sys.executable, fuzz_graphs.__file__, "--processes", "--delay", "0", "0.02",
               "--count", "12", "--jobs", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert re.search(r"12 graphs .*no difference", done.stdout)
