"""Parts of steps that last: what a task may do for a while, and is healthy meanwhile.

    turns = calibrated(1.0, folder)                     # {kind: how many take a second}
    part = Part("loop", "/job:ps/task:0", folder, "a", 1.0, turns)      # in the open graph
    part.run(session)                                   # blocks so long
"""
import ctypes
import os
import threading
import time

import numpy as np

import pyflow as tf
from pyflow.lib.function.defun import Defun

COMPUTING = ("loop", "matmuls", "random", "save", "function")   # their length is a number of turns
CALLING = ("sleep", "hold")             # functions of Python's: at the client's own task alone
WAITING = ("queue", "file")             # for what another thread brings
KINDS = (*COMPUTING, *CALLING, *WAITING)
FIRST = {"loop": 20_000, "matmuls": 60, "random": 50_000, "save": 20, "function": 20_000}
POWER = {"matmuls": 3}                  # of its turns, in its seconds; others 1


def _loop(turns):
    return tf.while_loop(lambda i, x: i < turns, lambda i, x: (i + 1, x * 1.0000001),
                         [0, tf.constant(1.0)])[1]


def _matmuls(size):
    y = x = tf.random_uniform(tf.stack([size, size]))
    for _ in range(40):
        y = tf.matmul(x, y) * 1e-3
    return tf.reduce_sum(y)


def _random(n):
    return tf.reduce_sum(tf.random_gamma(tf.stack([n]), 0.7))


def _save(turns, path):
    raw = tf.raw_ops

    def body(i, x):
        saved = raw.SaveV2(prefix=path, tensor_names=["x"], shape_and_slices=[""], tensors=[x])
        with tf.control_dependencies([saved]):
            restored = raw.RestoreV2(prefix=path, tensor_names=["x"], shape_and_slices=[""],
                                     dtypes=[tf.float32])[0]
        return i + 1, tf.reshape(restored, [1000])
    return tf.while_loop(lambda i, x: i < turns, body, [0, tf.zeros([1000])])[1][0]


@Defun(tf.int32)
def called_loop(turns):
    return _loop(turns)


class Part:
    """A part of a step, at a device, that takes so many seconds.  turns: {kind: number of them}.
    fetch: what to run, 4 bytes."""

    def __init__(self, kind, device, folder, name, seconds, turns):
        self.kind, self._path = kind, os.path.join(folder, name)
        self.turns, self._seconds = turns.get(kind, 1), seconds
        with tf.device(device):
            self.fed = tf.placeholder(tf.int32, [])
            self.init = tf.no_op()
            self.fetch = getattr(self, "_" + kind)(name)

    def _loop(self, name):
        return _loop(self.fed)

    def _matmuls(self, name):
        return _matmuls(self.fed)

    def _random(self, name):
        return _random(self.fed)

    def _save(self, name):
        return _save(self.fed, self._path)

    def _function(self, name):
        return called_loop(self.fed)

    def _sleep(self, name):
        return tf.py_func(lambda: (time.sleep(self._seconds), np.float32(1))[1], [], tf.float32)

    def _hold(self, name):
        def hold():
            ctypes.PyDLL(None).usleep(int(self._seconds * 1e6))     # as C that forgets the GIL
            return np.float32(1)
        return tf.py_func(hold, [], tf.float32)

    def _queue(self, name):
        queue = tf.FIFOQueue(10, [tf.float32], [[]], shared_name=name)
        self.fill = queue.enqueue([1.0])
        return queue.dequeue()

    def _file(self, name):
        os.mkfifo(self._path)
        lines = tf.data.TextLineDataset(self._path).make_initializable_iterator()
        self.init = lines.initializer
        return tf.string_to_number(lines.get_next())

    def run(self, session, fetch=None):
        """The seconds that it took."""
        began = time.monotonic()
        ends = threading.Timer(self._seconds, self._end, [session])
        if self.kind in WAITING:
            ends.start()
        if self.kind == "file":
            session.run(self.init)
        session.run(self.fetch if fetch is None else fetch, {self.fed: self.turns})
        return time.monotonic() - began

    def _end(self, session):
        if self.kind == "queue":
            session.run(self.fill)
        else:
            with open(self._path, "w", encoding="ascii") as pipe:
                pipe.write("1\n")


def calibrated(seconds, folder):
    """{kind: how many turns take so long in a session of this process, or a little longer}."""
    found = {}
    for kind in COMPUTING:
        turns, power = FIRST[kind], POWER.get(kind, 1)
        with tf.Graph().as_default(), tf.Session() as session:
            part = Part(kind, None, folder, f"calibrated-{kind}", seconds, {})
            for _ in range(8):
                part.turns = turns
                took = max(part.run(session), 1e-4)
                if took > seconds / 30:
                    break
                turns = int(turns * min(10.0, seconds / 15 / took) ** (1 / power)) + 1
        found[kind] = int(turns * (1.2 * seconds / took) ** (1 / power)) + 1
    return found
