"""python -m pyflow verify-resume: what it compares, and what it names."""
import subprocess
import sys

import pytest

import pyflow as tf
from pyflow.tools.resume_child import unsaved_state

SCRIPT = """
import sys, numpy as np
import tensorflow as tf
tf.set_random_seed(1)
step = tf.train.get_or_create_global_step()
v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
noise = {noise}
train = tf.group(v.assign_add(noise), step.assign_add(1))
with tf.train.MonitoredTrainingSession(checkpoint_dir=sys.argv[1], save_checkpoint_steps=20,
        hooks=[tf.train.StopAtStepHook(last_step=300)]) as sess:
    while not sess.should_stop():
        sess.run(train)
"""
KEPT = "tf.random_normal([2])"
LOST = "tf.py_func(lambda: np.random.rand(2).astype(np.float32), [], tf.float32)"


def verify(tmp_path, noise, kills):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(noise=noise), encoding="utf-8")
    folder = str(tmp_path / "checkpoints")
    return subprocess.run(
        [sys.executable, "-m", "pyflow", "verify-resume", "--dir", folder, "--kills", str(kills),
         str(script), folder], capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.long
def test_a_script_whose_state_is_saved_agrees(tmp_path):
    done = verify(tmp_path, KEPT, 3)
    assert done.returncode == 0 and "equal: all variables" in done.stdout, done.stdout + done.stderr


def test_a_script_with_numbers_of_its_own_differs_and_they_are_named(tmp_path):
    done = verify(tmp_path, LOST, 1)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 variables differ: v" in done.stdout and "Python function 'PyFunc'" in done.stdout


ENDED = """
import os, sys, time
import tensorflow as tf
if {once} and not os.path.exists(sys.argv[2]):
    open(sys.argv[2], "w").close()
    time.sleep({once})
step = tf.train.get_or_create_global_step()
v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
train = tf.group(v.assign_add([1., 2.]), step.assign_add(1))
saved = tf.train.latest_checkpoint(sys.argv[1])
if saved is None or not saved.endswith("-5"):
    with tf.train.MonitoredTrainingSession(checkpoint_dir=sys.argv[1], save_checkpoint_steps=1,
            hooks=[tf.train.StopAtStepHook(last_step=5)]) as sess:
        while not sess.should_stop():
            sess.run(train)
        time.sleep({before})
    time.sleep({after})
"""


@pytest.mark.long
@pytest.mark.parametrize("before, after, once", [(4, 0, 0), (0, 4, 0), (0, 0, 4)])
def test_killed_after_its_last_step_there_is_nothing_to_train(tmp_path, before, after, once):
    """As Estimator.train(max_steps=) does; killed before its session ended, and after it; and one
    that takes less time than it took undisturbed is killed all the same."""
    script = tmp_path / "train.py"
    script.write_text(ENDED.format(before=before, after=after, once=once), encoding="utf-8")
    folder = str(tmp_path / "checkpoints")
    done = subprocess.run(
        [sys.executable, "-m", "pyflow", "verify-resume", "--dir", folder, "--kills", "1",
         "--seed", "6", str(script), folder, str(tmp_path / "ran")],    # at 0.79 of the undisturbed run
        capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0 and "killed 1 times" in done.stdout, done.stdout + done.stderr
    assert "equal: all variables" in done.stdout, done.stdout


def test_what_no_checkpoint_has_is_named():
    with tf.Graph().as_default() as graph:
        tf.get_variable("kept", [])
        tf.get_local_variable("local", [], initializer=tf.zeros_initializer())
        tf.data.Dataset.range(3).make_one_shot_iterator()
        saved = tf.data.Dataset.range(3).make_one_shot_iterator()
        tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS,
                             tf.data.experimental.make_saveable_from_iterator(saved))
        tf.FIFOQueue(3, tf.float32, name="queue")
        texts = unsaved_state(graph, None)
    kinds = sorted(text.split()[0] for text in texts)
    assert kinds == ["iterator", "local", "queue"], texts


def test_a_script_that_fails_is_told(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit('no data')", encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "pyflow", "verify-resume", "--dir",
                           str(tmp_path / "c"), str(script)], capture_output=True, text=True,
                          check=False, timeout=120)
    assert done.returncode == 2 and "no data" in done.stderr
