"""Standby parameter servers: kill -9 of the one that serves costs no step, and the bits are those of
a run that nobody disturbed."""
import logging
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.distributed.run import epochs
from pyflow.distributed.train import layouts, training
from pyflow.distributed.wire import messages
from pyflow.distributed.launch import local

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import between_graph  # noqa: E402 - beside this file
import chaos  # noqa: E402
import processes  # noqa: E402
import standby_task  # noqa: E402

SIDES = "ps", "ps_standby"


def standing(run):
    """How often a standby was ready, so far."""
    return sum("stands by" in line for line in list(run.output))


def wait(until, run, seconds=30):
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "\n".join(run.output[-60:])
        time.sleep(0.005)


def kill(run, victims, number=signal.SIGKILL):
    """The seconds to the next step."""
    at = time.monotonic()
    for job, index in victims:
        run.cluster.kill(job, index, number)
    found = run.wait_for_step(at + 0.002)
    assert found is not None, "\n".join(run.output[-60:])
    return found[0] - at


def assert_as_undisturbed(seen, ps=1):
    """Every step was made once, in order, with the bits of an undisturbed run without standby."""
    steps = [step for _, step, _ in seen]
    assert steps == list(range(steps[0], steps[0] + len(steps)))
    wanted = chaos.reference(steps[-1], ps=ps)
    assert [sha for _, _, sha in seen] == [wanted[step] for step in steps]


class Run(chaos.Training):
    """Two workers, a parameter server and its standby, of standby_task.py."""

    def __init__(self, folder):
        self.folder, self.workers, self.ps, self.output = pathlib.Path(folder), 2, 1, []
        self.cluster = local.LocalCluster(
            [sys.executable, "-P", str(HERE / "standby_task.py"), folder],
            {"ps": 1, "ps_standby": 1, "worker": 2}, restarts=1000, backoff=(0.05, 0.05),
            output=lambda label, line: self.output.append(f"[{label}] {line}"))


def test_a_killed_parameter_server_costs_no_step(tmp_path):
    run = Run(str(tmp_path))
    with run.cluster:
        wait(lambda: standing(run) == 1 and len(run.steps()) > 5, run)
        assert kill(run, [("ps", 0)]) < 20          # a busy machine; docs/distributed.md has figures
        seen = run.steps()
    cluster, values = Cluster(), standby_task.Values()
    assert not cluster.train(tmp_path / "plain", seen[-1][1], on_step=[values], standby=None)
    cluster.stop()
    assert [line[1:] for line in seen] == [line[1:] for line in values.seen]


@pytest.mark.long
@pytest.mark.parametrize("ps", [1, 2])
def test_both_are_killed_in_turn(ps):
    """The one that serves, again and again, then the one that stands by."""
    rng, gaps, turns = random.Random(ps), [], 20 // ps
    with tempfile.TemporaryDirectory() as folder:
        run = chaos.Training(folder, 10**9, ps=ps, standby=True)
        with run.cluster:
            for turn in range(turns):
                wait(lambda: standing(run) > turn, run)     # noqa: B023 - called in this turn
                time.sleep(rng.random() * 0.3)
                gaps.append(kill(run, [(SIDES[turn % 2], rng.randrange(ps))]))
            for turn in range(turns, turns + 3):
                wait(lambda: standing(run) > turn, run)     # noqa: B023
                assert kill(run, [(SIDES[1 - turns % 2], rng.randrange(ps))]) < 5
            seen = run.steps()
    print(f"{ps} parameter servers: seconds from kill to step: median {np.median(gaps):.2f}, "
          f"most {max(gaps):.2f}")
    assert max(gaps) < 5
    assert_as_undisturbed(seen, ps)


@pytest.mark.long
def test_what_was_frozen_and_thaws_writes_nothing():
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as folder:
        run = chaos.Training(folder, 10**9, standby=True)
        with run.cluster:
            wait(lambda: standing(run) == 1, run)
            for _ in range(6):
                victim = rng.choice(SIDES), 0
                assert kill(run, [victim], signal.SIGSTOP) < 10
                time.sleep(rng.random() * 4)
                run.cluster.kill(*victim, signal.SIGCONT)
                time.sleep(rng.random())
            seen = run.steps()
    wanted = chaos.reference(max(step for _, step, _ in seen))
    assert [sha for _, _, sha in seen] == [wanted[step] for _, step, _ in seen]


@pytest.mark.long
def test_anybody_is_killed():
    """Two at once, too: then it goes back to the checkpoint where it must."""
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        run = chaos.Training(folder, 10**9, standby=True)
        with run.cluster:
            wait(lambda: standing(run) == 1, run)
            for _ in range(12):
                time.sleep(rng.random() * 2.5)
                tasks = [*((side, 0) for side in SIDES), ("worker", 0), ("worker", 1)]
                kill(run, rng.sample(tasks, rng.choice([1, 1, 2])))
            seen = run.steps()
    wanted = chaos.reference(max(step for _, step, _ in seen))
    assert [sha for _, _, sha in seen] == [wanted[step] for _, step, _ in seen]


# ---------------------------------------------------------------- in one process

class Cluster:
    """Servers of this process: ps, its standby, so many workers."""

    def __init__(self, workers=2):
        jobs = {"ps": 1, "ps_standby": 1, "worker": workers}
        ports = processes.free_ports(sum(jobs.values()))
        self.spec = tf.train.ClusterSpec({
            job: [f"localhost:{ports.pop()}" for _ in range(count)] for job, count in jobs.items()})
        self.servers = {(job, k): tf.train.Server(self.spec, job, k)
                        for job, count in jobs.items() for k in range(count)}

    def train(self, folder, steps, on_step=(), **options):
        """The exceptions of all workers; options: of training_session."""
        failures, workers = {}, self.spec.num_tasks("worker")

        def work(k):
            try:
                standby_task.train(self.servers["worker", k], self.spec, k, folder, steps, workers,
                                   on_step=on_step if k == 0 else (), **options)
            except Exception as failure:        # the test looks at it
                failures[k] = failure
        threads = [threading.Thread(target=work, args=(k,)) for k in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return failures

    def stop(self):
        for server in self.servers.values():
            server.stop()


def digest(folder):
    from pyflow.distributed.train import commits
    return training.digest(commits.newest_committed(str(folder)).prefix)


@pytest.fixture
def stands_by(caplog):
    """function() -> whether a standby was ready so far."""
    caplog.set_level(logging.INFO, "pyflow.distributed")
    return lambda: any("stands by" in record.getMessage() for record in caplog.records)


def test_averages_rows_and_both_kinds_of_variables(tmp_path, stands_by):
    cluster, stopped, steps = Cluster(), [], []
    assert not cluster.train(tmp_path / "plain", 60, standby=None)
    cluster.stop()

    def at(session, step):
        steps.append(step)
        if not stopped and stands_by():
            stopped.append(step)
            cluster.servers["ps", 0].stop()
        time.sleep(0.0 if stopped else 0.02)
    cluster = Cluster()
    assert not cluster.train(tmp_path / "stopped", 60, on_step=[at], standby="ps_standby",
                             compare_steps=5)
    assert stopped and steps == list(range(1, 61))
    assert digest(tmp_path / "stopped") == digest(tmp_path / "plain")
    cluster.stop()


def test_what_differs_is_named(tmp_path, stands_by):
    cluster, changed = Cluster(workers=1), []

    def at(session, step):
        if not changed and stands_by():
            with tf.Graph().as_default(), tf.device("/job:ps_standby/task:0"):
                other = tf.get_variable("table", [10, 4])
                with tf.Session(cluster.servers["ps_standby", 0].target) as sess:
                    sess.run(tf.scatter_add(other, [3], [[0.0, 1e-6, 0.0, 0.0]]))
            changed.append(step)
    failures = cluster.train(tmp_path, 10**6, on_step=[at], standby="ps_standby", compare_steps=1)
    cluster.stop()
    assert isinstance(failures[0], tf.errors.DataLossError)
    assert f"after step {changed[0] + 1} the variable table:0 is not the same at " \
        "/job:ps/replica:0/task:0 and /job:ps_standby/replica:0/task:0" in str(failures[0])


def test_a_chief_that_was_replaced_resets_nothing():
    """A frozen chief that thaws takes the side that serves now for its spare one."""
    cluster, ps = Cluster(), {"/job:ps/replica:0/task:0": 0}
    chief = cluster.servers["worker", 0]
    with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=7.0)
        with tf.Session(chief.target) as sess:
            sess.run(v.initializer)
        newer = epochs.Fence.new(2)         # what a session of the new chief's would say there
        cluster.servers["ps", 0]._worker.admit("/job:worker/replica:0/task:0", newer)
        [reply] = chief.reset_tasks(ps).values()
        assert "/job:worker/replica:0/task:0 of epoch 0 was replaced by epoch 2" in reply.reason
        with tf.Session(chief.target) as sess:
            assert sess.run(v) == 7.0
        other = cluster.servers["worker", 1]
        other.reset_tasks(ps, sessions=True)
        with tf.Session(other.target) as sess:
            assert sess.run(v) == 7.0       # sessions have ended, variables are there
        other.reset_tasks(ps)
        with tf.Session(other.target) as sess, pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(v)
    cluster.stop()


def test_arguments():
    workers, ps, spec = between_graph.local_cluster(tf, 1, 1)
    with tf.Graph().as_default():
        train, _, _, step, sync = between_graph.model(
            tf, spec, 0, lambda tf: between_graph.sync(tf, 1))
        with pytest.raises(ValueError, match="only a synchronous training has a time"):
            training.training_session(workers[0], True, standby="ps_standby")
        with pytest.raises(ValueError, match="has tasks .. of the job 'ps_standby', and needs as"):
            training.training_session(workers[0], True, sync, standby="ps_standby")
    for server in workers + ps:
        server.stop()


@pytest.mark.parametrize("asked, meant", [(["/job:ps/task:0"], []), (["ps"], ["ps"]),
                                          (["/job:ps/task:0"], ["/job:ps/task:-1"]),
                                          (["/job:ps/task:0/cpu:0"], ["/job:ps/task:1"])])
def test_a_layout_that_is_none_is_refused(asked, meant):
    with pytest.raises(tf.errors.DataLossError, match="layout"):
        layouts.renames_of(messages.LayoutMessage(number=3, asked=asked, meant=meant))
