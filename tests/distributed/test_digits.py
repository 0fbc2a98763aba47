"""examples/distributed/digits.py: one command trains on processes of this machine, and a process
that is killed changes nothing."""
import pathlib
import re
import subprocess
import sys

import pytest

from pyflow.distributed.launch import local

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/distributed/digits.py"
WORDS = ["--softmax", "--steps", "56", "--save-steps", "10"]


def ends(lines):
    """(accuracy, sha256) that the chief said."""
    text = "\n".join(lines)
    return (float(re.search(r"test accuracy ([0-9.]+)", text)[1]),
            re.search(r"sha256 ([0-9a-f]{64})", text)[1])


def first_step(lines):
    """The first step that a worker reported."""
    return min(int(n) for n in re.findall(r"step +([0-9]+) of", "\n".join(lines)))


def one_command(*more):
    """What `python digits.py --workers 2 --ps 1` printed."""
    done = subprocess.run([sys.executable, EXAMPLE, "--workers", "2", "--ps", "1", *WORDS, *more],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.splitlines()


def test_one_command_trains_on_two_workers_and_goes_on_from_its_folder(tmp_path):
    lines = one_command("--folder", str(tmp_path), "--asynchronous", "--steps", "200")
    assert ends(lines)[0] > 0.6 and first_step(lines) < 200
    again = one_command("--folder", str(tmp_path), "--asynchronous", "--steps", "300")
    assert ends(again)[0] > 0.6 and first_step(again) >= 200
    assert re.search(r"step 30[0-2]: test accuracy", "\n".join(again))     # two workers end it


@pytest.mark.parametrize("name", ["workers", "ps"])
def test_a_cluster_that_would_never_train_is_refused(name):
    done = subprocess.run([sys.executable, EXAMPLE, f"--{name}", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f"--{name}: expected at least 1, got 0" in done.stderr


@pytest.mark.long
def test_it_ends_with_the_same_bits_after_its_chief_was_killed(tmp_path):
    plain, lines = one_command(), []
    cluster = local.LocalCluster(
        [sys.executable, str(EXAMPLE), *WORDS, "--folder", str(tmp_path)], {"ps": 1, "worker": 2},
        restarts=5, output=lambda label, line: lines.append(line))
    with cluster:
        while cluster.wait(0.01) is None and not any(".commit" in p.name
                                                     for p in tmp_path.iterdir()):
            pass
        cluster.kill("worker", 0)
        assert cluster.wait(200) == 0, lines
    assert ends(lines) == ends(plain) and ends(plain)[0] > 0.5
