"""examples/distributed/digits.py: one command trains on processes of this machine, and a process
that is killed changes nothing."""
import pathlib
import re
import subprocess
import sys

from pyflow.distributed.launch import local

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/distributed/digits.py"
WORDS = ["--softmax", "--steps", "56", "--save-steps", "10"]


def ends(lines):
    """(accuracy, sha256) that the chief said."""
    text = "\n".join(lines)
    return (float(re.search(r"test accuracy ([0-9.]+)", text)[1]),
            re.search(r"sha256 ([0-9a-f]{64})", text)[1])


def test_one_command_trains_on_two_workers_and_ends_with_the_same_bits_after_a_kill(tmp_path):
    plain = subprocess.run([sys.executable, EXAMPLE, "--workers", "2", "--ps", "1", *WORDS],
                           capture_output=True, text=True, timeout=120)
    assert plain.returncode == 0, plain.stderr + plain.stdout
    lines = []
    cluster = local.LocalCluster(
        [sys.executable, str(EXAMPLE), *WORDS, "--folder", str(tmp_path)], {"ps": 1, "worker": 2},
        restarts=5, output=lambda label, line: lines.append(line))
    with cluster:
        while cluster.wait(0.01) is None and not any(".commit" in p.name
                                                     for p in tmp_path.iterdir()):
            pass
        cluster.kill("worker", 0)
        assert cluster.wait(100) == 0, lines
    accuracy, sha = ends(lines)
    assert (accuracy, sha) == ends(plain.stdout.splitlines()) and accuracy > 0.5
