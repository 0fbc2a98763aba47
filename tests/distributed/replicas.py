"""Replicas that train, or meet, in step, one of which stops: what `cluster why` has to find.

    replica = Replica(target, task, PLAYS["sync"], "name", "queue")     # a thread of its own
    ...                                 # it trains, and stops; without a state it waits for others
    replica.release()

    python replicas.py CLUSTER JOB TASK         a server that plays what its standard input says

Plays: sync, a SyncReplicasOptimizer; barrier, a Barrier to which each inserts its component;
tokens, a queue from which the chief takes one element of each.  All that is shared lies on
/job:ps/task:0.

States, in the third round, before it gives: idle, between two steps; py_func, in a Python function;
queue, at an empty queue of the parameter server's; kernel, in a long loop; gil, it holds Python's
lock; dead; frozen.  absent: it does not begin at all.
"""
import ctypes
import json
import os
import signal
import sys
import threading
import time

import pyflow as tf
from pyflow.lib.queue import barriers

N, ROUNDS, HELD = 3, 2, 6.0
STATES = ("absent", "idle", "py_func", "queue", "kernel", "gil", "dead", "frozen")
PS = "/job:ps/task:0"


class Play:
    """The graph of one replica.  value: what it computes, on its own task, with states in it."""

    def __init__(self, name, task, gate):
        self.name, self.task, self.gate = name, task, gate
        self.stuck = threading.Event()
        with tf.device(PS):
            feed = tf.FIFOQueue(10, tf.float32, [[]], shared_name=f"{name}/input{task}")
            self.filled = feed.enqueue(1.0)
        with tf.device(f"/job:worker/task:{task}"):
            self.turns = tf.placeholder_with_default(1, [])
            turned = tf.while_loop(lambda k: k < self.turns, lambda k: k + 1, [0])
            waited = tf.py_func(self._wait, [], tf.float32)
            waited.set_shape([])
            self.value = waited + tf.cast(turned, tf.float32) + feed.dequeue()
        self.build()

    def _wait(self):
        if self.stuck.is_set():
            self.gate.wait()
        return 1.0

    def begin(self, sess):
        """Before the first round."""

    def end(self):
        """After the last."""


class Sync(Play):
    """The chief's steps are taken by a thread of its own."""

    def build(self):
        with tf.device(tf.train.replica_device_setter(
                ps_tasks=1, worker_device=f"/job:worker/task:{self.task}")):
            step = tf.Variable(0, trainable=False, name=f"{self.name}_step")
            v = tf.Variable(1.0, name=f"{self.name}_v", use_resource=False)
            w = tf.Variable(1.0, name=f"{self.name}_w", use_resource=False)
            self.init = tf.global_variables_initializer()
            self.missing = tf.report_uninitialized_variables()
            optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(1e-3), N, N, group=self.name)
            self.train = optimizer.minimize(self.value * (v + w), global_step=step)
            self.hook = optimizer.make_session_run_hook(self.task == 0)
            self.hook.begin()
        self.coord = tf.train.Coordinator()

    def begin(self, sess):
        if self.task == 0:
            sess.run(self.init)
        while len(sess.run(self.missing)):
            time.sleep(0.01)
        self.hook.after_create_session(sess, self.coord)

    def round(self, sess, number, feed):
        sess.run(self.train, feed)

    def end(self):
        self.coord.request_stop()


class Meeting(Play):
    """Each gives; the chief takes what all gave, and lets them go on by tokens."""

    def build(self):
        with tf.device(PS):
            self.number = tf.placeholder(tf.string, [])
            self.shared()
            tokens = [tf.FIFOQueue(100, tf.float32, [[]], shared_name=f"{self.name}/go{k}")
                      for k in range(N)]        # who is quick must not take another's
            self.let_go = [queue.enqueue(1.0) for queue in tokens]
            self.token = tokens[self.task].dequeue()

    def round(self, sess, number, feed):
        sess.run(self.given, {self.number: f"round {number}", **feed})
        if self.task == 0:
            sess.run(self.taken)
            sess.run(self.let_go)
        sess.run(self.token)


class Barrier(Meeting):
    def shared(self):
        barrier = barriers.Barrier((tf.float32,) * N, shapes=((),) * N,
                                   shared_name=f"{self.name}/barrier")
        self.given = barrier.insert_many(self.task, [self.number], [self.value])
        self.taken = barrier.take_many(1)[0]


class Tokens(Meeting):
    def shared(self):
        queue = tf.FIFOQueue(100, tf.float32, [[]], shared_name=f"{self.name}/here")
        self.given, self.taken = queue.enqueue(self.value), queue.dequeue_many(N)


PLAYS = {"sync": Sync, "barrier": Barrier, "tokens": Tokens}


class Replica:
    """Plays on a thread, until it is released.  arrived: called where it stops; without a state,
    as it begins."""

    def __init__(self, target, task, kind, name, state="", arrived=lambda: None):
        self.target, self.task, self.kind, self.name = target, task, kind, name
        self.state, self.arrived, self.gate = state, arrived, threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        if self.state in ("", "absent"):
            self.arrived()
        if self.state == "absent":
            self.gate.wait()
            return
        with tf.Graph().as_default() as graph:
            play = PLAYS[self.kind](self.name, self.task, self.gate)
        self.session = tf.Session(self.target, graph=graph)
        try:
            play.begin(self.session)
            for number in range(ROUNDS):
                self.session.run(play.filled)
                play.round(self.session, number, {})
            self._stop(play)
        except (tf.errors.OpError, RuntimeError):
            pass                        # it was released: its session is closed
        finally:
            play.end()

    def _stop(self, play):
        feed = {}
        if self.state:
            self.arrived()
        if self.state != "queue":
            self.session.run(play.filled)
        if self.state == "idle":
            self.gate.wait()
        elif self.state == "py_func":
            play.stuck.set()
        elif self.state == "kernel":
            feed[play.turns] = 1 << 30
        elif self.state == "gil":
            ctypes.PyDLL(None).usleep(int(HELD * 1e6))
        elif self.state == "dead":
            os._exit(1)
        elif self.state == "frozen":
            os.kill(os.getpid(), signal.SIGSTOP)
        if not self.gate.is_set():
            play.round(self.session, ROUNDS, feed)

    def release(self):
        """It ends, wherever it is."""
        self.gate.set()
        if hasattr(self, "session"):
            self.session.close()
        self.thread.join(10)


def main(spec, job, task):
    """Plays what is asked for line by line: "KIND NAME STATE", "release".  Says "done" once that is
    so."""
    server = tf.train.Server(json.loads(spec), job, int(task))
    print("up", flush=True)
    replica = None
    for line in sys.stdin:
        word, *more = line.split(" ")
        if word.strip() == "release":
            replica.release()
            print("done", flush=True)
        else:
            replica = Replica(server.target, int(task), word, more[0], more[1].strip(),
                              lambda: print("done", flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
