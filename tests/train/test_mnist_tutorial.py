"""examples/mnist_tutorial.py: killed again and again it ends with the undisturbed run's weights."""
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time

import pytest

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "mnist_tutorial.py"
STEPS = ["--steps", "120", "--save-steps", "20"]


def start(folder):
    return subprocess.Popen(
        [sys.executable, str(EXAMPLE), "--logdir", str(folder), *STEPS], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"})


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return re.search(r"sha256 of all variables (\w+)", out)[1], float(
        re.search(r"test accuracy ([\d.]+)", out)[1])


def saved(folder):
    """The names of the checkpoints that are there."""
    return set(folder.glob("model.ckpt-*.index"))


def killed(folder, kills, seed):
    """The end of a training that is killed `kills` times, each soon after it has saved something new."""
    rng, count = random.Random(seed), 0
    while count < kills:
        before, process = saved(folder), start(folder)
        while process.poll() is None and saved(folder) <= before:
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.05))
        if process.poll() is not None:
            return finish(process), count
        process.send_signal(signal.SIGKILL)
        process.communicate()
        count += 1
    return finish(start(folder)), count


@pytest.mark.long
def test_killed_trainings_end_with_the_same_bits(tmp_path):
    whole = finish(start(tmp_path / "whole"))
    assert whole[1] > 0.9
    found, kills = killed(tmp_path / "killed", 6, 1)
    assert found == whole and kills > 0


def test_it_trains_and_goes_on(tmp_path):
    whole, accuracy = finish(start(tmp_path / "whole"))
    assert accuracy > 0.9
    again, _ = finish(start(tmp_path / "whole"))        # nothing is left to do
    assert again == whole
