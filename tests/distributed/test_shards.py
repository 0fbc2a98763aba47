"""Steps in shards, dealt to whoever is there: gates, and trainings whose workers come and go."""
import hashlib
import pathlib
import sys
import threading
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.distributed.train import training
from pyflow.lib.queue import step_gate

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import between_graph  # noqa: E402 - beside this file

SHARDS = 4


class Gate:
    """A gate, and a session to ask it."""

    def __init__(self, shards, name="gate"):
        self.graph = tf.Graph()
        with self.graph.as_default():
            gate = step_gate.StepGate(name, shards)
            self.label, self.source, self.owner = (tf.placeholder(tf.int64, []) for _ in range(3))
            self.step = tf.placeholder(tf.int64, [])
            self._next = gate.next(self.label, self.source, self.owner)
            self._begin, self._open = gate.begin(self.step, self.owner), gate.open(self.label)
        self.sess = tf.Session(graph=self.graph)

    def begin(self, step, generation=-1):
        return int(self.sess.run(self._begin, {self.step: step, self.owner: generation}))

    def open(self, label):
        self.sess.run(self._open, {self.label: label})

    def next(self, owner, label=-1, source=-1, seconds=10):
        return tuple(int(n) for n in self.sess.run(
            self._next, {self.label: label, self.source: source, self.owner: owner},
            options=tf.RunOptions(timeout_in_ms=int(1000 * seconds))))


def test_a_gate_without_shards_lets_each_replica_through_once_a_step():
    gate = Gate(0)
    first = gate.begin(7)
    with pytest.raises(tf.errors.DeadlineExceededError):
        gate.next(3, seconds=0.05)                      # it is shut
    gate.open(first)
    assert gate.next(3) == (first, 3) and first == 1 << 40 | 7
    with pytest.raises(tf.errors.DeadlineExceededError):
        gate.next(3, first, 3, seconds=0.05)
    found = []
    waiting = threading.Thread(target=lambda: found.append(gate.next(3, first, 3)))
    waiting.start()
    gate.open(first + 1)
    waiting.join()
    assert found == [(first + 1, 3)]
    again = gate.begin(5)                               # back to a checkpoint: labels grow
    assert again == 2 << 40 | 5 and again > first
    with pytest.raises(tf.errors.AbortedError, match="generation 1 .* was replaced by 2"):
        gate.open(first + 2)
    assert gate.begin(5, generation=9) == 9 << 40 | 5


def test_a_gate_deals_each_shard_to_one_and_what_is_late_to_another():
    gate = Gate(SHARDS)
    label = gate.begin(0)
    gate.open(label)
    assert gate.next(2) == (label, 2)                   # its own
    assert gate.next(2) == (label, 2)                   # who was restarted gets what it had
    assert gate.next(7) == (label, 0)                   # of nobody's own, the first
    assert gate.next(2, label, 2) == (label, 1)
    assert gate.next(7, label, 0) == (label, 3)
    assert gate.next(2, label, 1)[1] == 3               # 7 is late: as long as three others took
    with pytest.raises(tf.errors.DeadlineExceededError):
        gate.next(2, label, 3, seconds=0.05)            # all are there: the next step
    gate.open(label + 1)
    assert gate.next(7, label, 3)[0] == label + 1


def test_replicas_agree_about_the_number_of_shards():
    with tf.Graph().as_default(), tf.Session() as sess:
        sess.run(step_gate.StepGate("same", 4).begin(0, -1))
        with pytest.raises(tf.errors.InvalidArgumentError, match="has 4 shards, this node asks"):
            sess.run(step_gate.StepGate("same", 2).begin(0, -1))
    with pytest.raises(ValueError, match="aggregates as many gradients"):
        tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2, shards=4)


class Values:
    """The sha256 of all variables after each step."""

    def __init__(self):
        self.found = {}

    def __call__(self, session, step):
        variables = sorted(session.graph.get_collection("variables"), key=lambda v: v.name)
        whole = b"".join(value.tobytes() for value in session.run(variables))
        self.found[step] = hashlib.sha256(whole).hexdigest()


def worker(servers, spec, task, steps, leave, values, joined, runs):
    """Trains until the last step, or until it is to leave."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        with tf.device(tf.train.replica_device_setter(
                cluster=spec, worker_device=f"/job:worker/task:{task}")):
            step = tf.train.get_or_create_global_step()
            w = tf.get_variable("w", [16, 4])
            x = tf.placeholder(tf.float32, [8, 16])
            noisy = tf.nn.dropout(tf.matmul(x, w), 0.5)
            made = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(0.01), SHARDS,
                                                  shards=SHARDS)
            train = made.minimize(tf.reduce_mean(tf.square(noisy)), global_step=step)

        def feed(step, shard):
            return {x: np.random.default_rng([step, shard]).standard_normal([8, 16])}
        with training.training_session(servers[task], task == 0, made, feed, last_step=steps,
                                       on_step=values) as sess:
            joined.set()
            while not sess.should_stop() and not leave.is_set():
                sess.run(train)
                runs[task] = runs.get(task, 0) + 1


def elastic(plan, steps):
    """({step: sha256}, {task: how many shards it computed}) of a training with so many workers
    from those steps on: plan is {step: workers}."""
    servers, ps, spec = between_graph.local_cluster(tf, max(plan.values()), 1)
    there, runs, values = {}, {}, Values()

    def scale(count):
        for task in sorted(set(range(count)) - set(there)):
            leave, joined = threading.Event(), threading.Event()
            thread = threading.Thread(target=worker, args=(
                servers, spec, task, steps, leave, [values, pace], joined, runs))
            there[task] = thread, leave
            thread.start()
        for task in [t for t in there if t >= count]:
            thread, leave = there.pop(task)
            leave.set()

    def pace(session, step):
        if step in plan:
            changes.append(plan[step])
    changes = [plan[0]]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (there and not there[0][0].is_alive()):
        while changes:
            scale(changes.pop(0))
        time.sleep(0.002)
    for server in servers + ps:
        server.stop()
    return values.found, runs


def test_workers_that_come_and_go_change_no_bit():
    alone, runs = elastic({0: 1}, 40)
    assert runs == {0: 40 * SHARDS} and sorted(alone) == list(range(1, 41))
    together, runs = elastic({0: 1, 8: 2, 16: 4, 24: 2, 32: 1}, 40)
    assert together == alone and len(runs) > 1 and sum(runs.values()) >= 40 * SHARDS


@pytest.mark.long
def test_two_hundred_steps_under_1_2_4_2_1_workers_are_those_of_one():
    alone, _ = elastic({0: 1}, 200)
    together, runs = elastic({0: 1, 40: 2, 80: 4, 120: 2, 160: 1}, 200)
    assert together == alone and set(runs) == {0, 1, 2, 3}


def test_a_chief_that_sees_the_last_step_early_ends_it_first(monkeypatch):
    """Dealt a late worker's shard again, it looks at the global step just as the step is made
    without it.  It closed its session then, and the others waited at the gate for ever."""
    steps, chief, seen, shards = 5, [], [], []
    other_has_one, dealt, made, left = (threading.Event() for _ in range(4))
    after_run = tf.train.StopAtStepHook.after_run

    def late(hook, context, values):
        if threading.current_thread() in chief and len(shards) == SHARDS - 1:
            dealt.set()                         # the other one's, after its own three
            made.wait(20)
        after_run(hook, context, values)
    monkeypatch.setattr(tf.train.StopAtStepHook, "after_run", late)

    def feed(step, shard):
        if step == steps - 1 and threading.current_thread() not in chief:
            other_has_one.set()
            dealt.wait(20)
        elif step == steps - 1:
            other_has_one.wait(20)
            shards.append(shard)
        return {}

    def boundary(session, step):
        if step == steps:
            made.set()
            left.wait(20)
            time.sleep(0.2)                     # the chief closes its session, if it does not wait
        seen.append(step)

    def train(task):
        if task == 0:
            chief.append(threading.current_thread())
        with tf.Graph().as_default():
            with tf.device(tf.train.replica_device_setter(
                    cluster=spec, worker_device=f"/job:worker/task:{task}")):
                w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
                sync = tf.train.SyncReplicasOptimizer(
                    tf.train.GradientDescentOptimizer(0.1), SHARDS, shards=SHARDS)
                train_op = sync.minimize(tf.square(w - 1), tf.train.get_or_create_global_step())
            with training.training_session(workers[task], task == 0, sync, feed, last_step=steps,
                                           on_step=[boundary]) as sess:
                while not sess.should_stop():
                    sess.run(train_op)
                if task == 0:
                    left.set()
    workers, ps, spec = between_graph.local_cluster(tf, 2, 1)
    threads = [threading.Thread(target=train, args=(k,), daemon=True) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads) and seen == list(range(1, steps + 1))
    for server in workers + ps:
        server.stop()
