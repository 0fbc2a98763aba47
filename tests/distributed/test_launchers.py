"""One file, examples/distributed/digits.py, under four launchers: it ends with the same bits."""
import hashlib
import pathlib
import re

import pytest

import launchers
import ray_nodes

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/distributed/digits.py"
WORDS = ["--softmax", "--steps", "112", "--save-steps", "28"]


def ends(launcher, folder):
    """(sha256 of the file, test accuracy, sha256 of all variables) of a run on two workers."""
    said = launchers.UNDER[launcher](folder, EXAMPLE, [*WORDS, "--folder", str(folder / "run")])
    text = "\n".join(said)
    [accuracy] = re.findall(r"step 112: test accuracy ([0-9.]+)", text)
    [variables] = re.findall(r"sha256 ([0-9a-f]{64})", text)
    file = hashlib.sha256(EXAMPLE.read_bytes()).hexdigest()
    print(f"{launcher:7} {file} ends with accuracy {accuracy}, variables {variables}")
    return file, accuracy, variables


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return ends("local", tmp_path_factory.mktemp("local"))


@pytest.mark.long
@pytest.mark.parametrize("launcher", ["slurm", "jobset", "ray"])
def test_the_same_file_ends_alike_under_each_launcher(launcher, expected, tmp_path):
    """Slurm's and the JobSet's tasks are local processes, from their templates."""
    if launcher == "ray" and (reason := ray_nodes.reason_to_skip()):
        pytest.skip(reason)
    assert ends(launcher, tmp_path) == expected and float(expected[1]) > 0.5
