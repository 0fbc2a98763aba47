"""Saved and restored iterators: exact continuations, refused states."""
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time

import pytest

import pyflow as tf
import random_pipelines
from data_helpers import RANGE
from pipelines import Reading


@pytest.mark.parametrize("seed", range(20))
def test_elements_do_not_depend_on_threads_or_restores(seed):
    one = Reading(seed, 1)
    whole = one.read()
    assert len(whole) > 3
    rng = random.Random(seed)
    for parallel in (2, 8):
        reading, got = Reading(seed, parallel), []
        while True:
            more = reading.read(rng.randint(1, 1 + len(whole) // 2))
            if not more:
                break
            got += more
            state = reading.sess.run(reading.state)
            reading.sess.close()
            reading = Reading(seed, parallel)
            reading.sess.run(reading.load, {reading.given: state})
        assert got == whole


@pytest.mark.parametrize("seed", range(4))
def test_elements_do_not_depend_on_who_reads_them(seed):
    """Several threads at once; sessions that are closed in the midst of a read."""
    assert random_pipelines.check(seed) == ""


def test_a_saver_saves_iterators_beside_variables(tmp_path):
    iterator = RANGE(100).shuffle(10, seed=1).make_initializable_iterator()
    following = iterator.get_next()
    w = tf.Variable(1.0)
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS,
                         tf.contrib.data.make_saveable_from_iterator(iterator))
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run([iterator.initializer, tf.global_variables_initializer()])
        before = [int(sess.run(following)) for _ in range(40)]
        path = saver.save(sess, str(tmp_path / "model"))
        after = [int(sess.run(following)) for _ in range(60)]
        saver.restore(sess, path)
        assert [int(sess.run(following)) for _ in range(60)] == after
    assert sorted(before + after) == list(range(100)) and w is not None
    with tf.Session() as sess:                  # the state waits for the initializer
        saver.restore(sess, path)
        again = saver.save(sess, str(tmp_path / "again"))
        with pytest.raises(tf.errors.FailedPreconditionError, match="not been initialized"):
            sess.run(following)
        sess.run(iterator.initializer)
        assert [int(sess.run(following)) for _ in range(60)] == after
        sess.run(iterator.initializer)          # once: then it begins anew
        assert [int(sess.run(following)) for _ in range(40)] == before
        saver.restore(sess, again)
        assert [int(sess.run(following)) for _ in range(60)] == after


def test_states_of_other_pipelines_are_refused():
    def made(dataset):
        iterator = dataset.make_initializable_iterator()
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        given = tf.placeholder(tf.string, [])
        return iterator, saveable.specs[0].tensor, given, saveable.restore([given], None)
    a = made(RANGE(30).shuffle(5, seed=1).batch(2))
    b = made(RANGE(30).batch(2).shuffle(5, seed=1))
    with tf.Session() as sess:
        sess.run([a[0].initializer, b[0].initializer])
        state = sess.run(a[1])
        with pytest.raises(tf.errors.DataLossError, match="another pipeline|saved state"):
            sess.run(b[3], {b[2]: state})
        with pytest.raises(tf.errors.DataLossError, match="no saved iterator"):
            sess.run(a[3], {a[2]: b"nonsense"})
    with pytest.raises(TypeError, match="takes a tf.data.Iterator"):
        tf.data.experimental.make_saveable_from_iterator(RANGE(3))


@pytest.mark.parametrize("seed", [3, 8, 14])
def test_mutated_states_end_in_typed_errors(seed):
    rng = random.Random(seed)
    reading = Reading(seed, 2)
    reading.read(4)
    state = bytearray(reading.sess.run(reading.state))
    refused = 0
    for _ in range(150):
        bad = bytearray(state)
        for _ in range(rng.randint(1, 3)):
            how, at = rng.randrange(3), rng.randrange(len(bad))
            if how == 0:
                bad[at] ^= 1 << rng.randrange(8)
            elif how == 1:
                del bad[at:at + rng.randint(1, 30)]
            else:
                bad[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
        try:
            reading.sess.run(reading.load, {reading.given: bytes(bad)})
            reading.read(2)
        except tf.errors.OpError:
            refused += 1
    assert refused > 50
    reading.sess.run(reading.load, {reading.given: bytes(state)})
    fresh = Reading(seed, 2)
    fresh.read(4)
    assert reading.read() == fresh.read()


class Processes:
    """Starts processes of pipelines.py, one at a time."""

    def __init__(self):
        script = os.path.join(os.path.dirname(__file__), "pipelines.py")
        self._parent = subprocess.Popen([sys.executable, "-P", script], bufsize=0,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.longest = 0.03             # seconds until one is killed; fitted to how long they live

    def start(self, *arguments):
        self._parent.stdin.write(json.dumps(arguments).encode() + b"\n")
        self.pid = int(self._parent.stdout.readline())

    def runs(self):
        return not select.select([self._parent.stdout], [], [], 0)[0]

    def status(self):
        """As os.waitpid has it."""
        return int(self._parent.stdout.readline())

    def close(self):
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()


def killed_and_gone_on(processes, seed, kills, folder, rng):
    """Reads pipeline `seed` in processes that are killed; the digests, and how many were killed."""
    log, checkpoint = str(folder / f"log{seed}"), str(folder / f"ckpt{seed}")
    killed, digests = 0, {}
    while True:
        processes.start(seed, rng.choice([1, 2, 8]), checkpoint, log)
        if killed < kills:
            size = os.path.getsize(log) if os.path.exists(log) else 0
            while processes.runs() and (not os.path.exists(log) or os.path.getsize(log) <= size):
                time.sleep(0.002)
            time.sleep(rng.random() * processes.longest)
            with contextlib.suppress(ProcessLookupError):       # it has just ended, and its parent knows
                os.kill(processes.pid, signal.SIGKILL)
        status = processes.status()
        assert status in (0, signal.SIGKILL)
        if killed < kills:
            processes.longest *= 1.1 if status == signal.SIGKILL else 0.7
        killed += status == signal.SIGKILL
        with open(log) as f:
            lines = f.read().split("\n")
        for line in lines[:-1]:
            number, digest = line.split()
            if number == "end":
                return [digests[n] for n in sorted(digests)], killed
            assert digests.setdefault(int(number), digest) == digest, (seed, number)


@pytest.mark.long
def test_pipelines_go_on_after_kill_9_at_200_points(tmp_path):
    """How often one reading can be killed depends on the machine: it is read again until ten."""
    rng, processes = random.Random(1), Processes()
    for seed in range(20):
        expected, total = Reading(seed, 1).read(), 0
        for again in range(10):
            folder = tmp_path / f"{seed}-{again}"
            folder.mkdir()
            got, killed = killed_and_gone_on(processes, seed, 10 - total, folder, rng)
            assert got == expected
            total += killed
            if total >= 10:
                break
        assert total == 10
    processes.close()
