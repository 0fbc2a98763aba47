"""kill -9 at 200 random moments of saving: the last good checkpoint is never lost, and what is
there is whole.

A helper process with the graph built forks one child per kill.  The child saves in a loop, every
third time over the same prefix, and writes the number of each completed save to a pipe.  After each
kill the newest checkpoint must be complete, of one piece, and not older than the last save that was
reported complete.
"""
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np

import pyflow as tf
from pyflow.train import checkpoint

KILLS = 200
SIZES = (1, 300, 20000)
HELPER = """
    import os, sys
    import pyflow as tf
    from pyflow.session import runtime
    folder = sys.argv[1]
    variables = [tf.Variable(tf.zeros([n]), name=f"v{n}") for n in (1, 300, 20000)]
    value = tf.placeholder(tf.float32, [])
    fill = [tf.assign(v, tf.fill([n], value)) for v, n in zip(variables, (1, 300, 20000))]
    saver = tf.train.Saver(max_to_keep=2)
    runtime.start()

    def save_for_ever(n):
        sess = tf.Session(threads=2)
        state = tf.train.get_checkpoint_state(folder)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths if state else [])
        os.write(1, b"ready %d\\n" % os.getpid())
        while True:
            sess.run(fill, {value: n})
            if n % 3 == 0:
                saver.save(sess, folder + "/same", write_meta_graph=False)
            else:
                saver.save(sess, folder + "/model", global_step=n, write_meta_graph=False)
            os.write(1, b"%d\\n" % n)
            n += 1

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                save_for_ever(int(line))
            finally:
                os._exit(1)
        status = os.waitpid(child, 0)[1]
        os.write(1, b"dead %d\\n" % status)
"""


def newest(folder):
    """The number stored in the newest checkpoint; every tensor of it is checked."""
    path = tf.train.latest_checkpoint(folder)
    assert path is not None, "a good checkpoint was lost"
    reader = checkpoint.CheckpointReader(path)
    assert reader.verify() == []
    assert sorted(reader.entries()) == ["v1", "v20000", "v300"]
    values = np.concatenate([np.ravel(reader.get_tensor(f"v{n}")) for n in SIZES])
    assert (values == values[0]).all(), "a mixture of two saves"
    return int(values[0])


def kill_one(helper, first, pause):
    """Starts a child that saves `first`, first + 1, ...; kills it after `pause`; returns the
    completed saves."""
    helper.stdin.write(b"%d\n" % first)
    helper.stdin.flush()
    word, pid = helper.stdout.readline().split()
    assert word == b"ready"
    time.sleep(pause)
    os.kill(int(pid), signal.SIGKILL)
    completed = []
    for line in helper.stdout:
        if line.startswith(b"dead"):
            assert int(line.split()[1]) == signal.SIGKILL, "the child failed by itself"
            return completed
        completed.append(int(line))


def test_kill_while_saving(tmp_path):
    folder, rng = str(tmp_path), random.Random(7)
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HELPER), folder]
    helper = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    done = max(kill_one(helper, 1, 2.0))
    one_save, most_parts, completed = min(2.0 / done, 0.1), 0, 0
    for _ in range(KILLS):
        saves = kill_one(helper, done + 1, rng.random() * 2.5 * one_save)
        completed += len(saves)
        factor = 0.93 ** min(len(saves), 9) if saves else 1.1       # the machine's speed changes
        one_save = min(one_save * factor, 0.5)
        done = max([done] + saves)
        found = newest(folder)
        assert found >= done, f"save {done} was complete, but the newest is {found}"
        done = found
        most_parts = max(most_parts, sum(".tmp-" in name for name in os.listdir(folder)))
    helper.stdin.close()
    helper.wait()
    assert 20 < completed < 4 * KILLS, "kills hit saves at every stage"
    assert most_parts < 10, "what the dead left is cleaned up"
    with tf.Graph().as_default():
        variables = [tf.Variable(tf.zeros([n]), name=f"v{n}") for n in SIZES]
        with tf.Session() as sess:
            tf.train.Saver(variables).restore(sess, tf.train.latest_checkpoint(folder))
            assert (sess.run(variables[2]) == done).all()


def test_a_full_disk_keeps_the_old_checkpoint(tmp_path):
    """Writing stops at a file size limit: an error, the old checkpoint stays, no part files."""
    code = """
        import os, resource, signal, sys
        import numpy as np, pyflow as tf
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        folder = sys.argv[1]
        v = tf.Variable(tf.zeros([100000]))
        saver = tf.train.Saver()
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            path = saver.save(sess, folder + "/m", write_meta_graph=False)
            files = sorted(os.listdir(folder))
            resource.setrlimit(resource.RLIMIT_FSIZE, (200000, resource.RLIM_INFINITY))
            sess.run(tf.assign_add(v, tf.ones([100000])))
            try:
                saver.save(sess, folder + "/m", write_meta_graph=False)
            except tf.errors.OpError as e:
                print(type(e).__name__)
            assert sorted(os.listdir(folder)) == files, os.listdir(folder)
            saver.restore(sess, path)
            assert sess.run(v).sum() == 0
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)], text=True, capture_output=True
    )
    assert done.returncode == 0 and done.stdout.strip().endswith("Error"), done.stderr
