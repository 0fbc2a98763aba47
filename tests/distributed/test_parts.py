"""A task is dead when it is dead: whatever its parts of steps compute, for however long, its links
answer, and steps that are brief go on meanwhile (parts.py has the kinds).

A lease of 0.3 s is shorter than a machine that is overloaded may leave a process waiting: then a
run proves nothing, and is made again, ATTEMPTS times at most.  What fails it every time is no chance.
"""
import os
import signal
import statistics
import threading
import time

import parts
import processes
import pytest

import pyflow as tf
from pyflow.distributed.wire import links as links_lib

LINKS = ("unix", "tcp", "grpc")
TASKS = {"own": "/job:worker/task:0", "other": "/job:ps/task:0"}
WAYS = [(tasks, where) for where in ("other", "own") for tasks in ("one", "two")]
QUICK = (("unix", signal.SIGSTOP), ("tcp", signal.SIGKILL))
ATTEMPTS, LEASE = 3, 0.3
LATE = 0.5                              # seconds that a busy machine may add


def opened(link, lease, monkeypatch=None):
    """A cluster of two tasks, of which one is this process's."""
    setup = ""
    if lease is not None:
        monkeypatch.setattr(links_lib, "LEASE", lease)
        setup = f"from pyflow.distributed.wire import links; links.LEASE = {lease}"
    kinds = [] if link == "grpc" else [link]
    return processes.Cluster({"ps": 1, "worker": 1}, here=("worker", 0), links=kinds, setup=setup)


class Running:
    """A part in a session of its own, on a thread of its own."""

    def __init__(self, cluster, kind, tasks, where, folder, name, seconds, turns):
        self.what = f"{kind} on {tasks} {where}"
        self.took = self.failure = None
        with tf.Graph().as_default() as graph:
            self.part = parts.Part(kind, TASKS[where], folder, name, seconds, turns)
            self.fetch = self.part.fetch
            if tasks == "two":
                with tf.device(TASKS["own" if where == "other" else "other"]):
                    self.fetch = self.fetch + tf.constant(1.0)
        self.session = tf.Session(cluster.server.target, graph=graph)
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            self.took = self.part.run(self.session, self.fetch)
        except tf.errors.OpError as failure:
            self.failure = failure

    def end(self):
        self.thread.join()
        self.session.close()


class Null:
    """Steps of one node at a task, again and again, of a session of its own."""

    def __init__(self, cluster, where):
        with tf.Graph().as_default() as graph, tf.device(TASKS[where]):
            self.fetch = tf.constant(1.0) + tf.constant(2.0, name="two")
        self.session, self.times = tf.Session(cluster.server.target, graph=graph), []
        self.session.run(self.fetch)
        self.over, self.failure = threading.Event(), None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            while not self.over.wait(0.002):
                began = time.perf_counter()
                self.session.run(self.fetch)
                self.times.append(time.perf_counter() - began)
        except tf.errors.OpError as failure:
            self.failure = failure

    def end(self):
        self.over.set()
        self.thread.join()
        self.session.close()

    def p99(self):
        return statistics.quantiles(self.times, n=100)[-1]


def run_all(cluster, what, seconds, turns, folder):
    """(Running parts, Nulls) of [(kind, tasks, where)] at once, after they have ended."""
    nulls = [Null(cluster, where) for where in TASKS]
    running = [Running(cluster, *how, folder, f"{k}-{'-'.join(how)}", seconds, turns)
               for k, how in enumerate(what)]
    for one in running:
        one.thread.start()
    for one in [*running, *nulls]:
        one.end()
    return running, nulls


@pytest.fixture(scope="module")
def turns(tmp_path_factory):
    return parts.calibrated(1.0, str(tmp_path_factory.mktemp("calibrated")))


@pytest.fixture(scope="module")
def few_turns(turns):
    """Of parts that last a second together, as they share the processors: five compute, two of them
    on several."""
    return times(min(1.0, len(os.sched_getaffinity(0)) / 7), turns)


def times(factor, turns):
    """So many turns that it takes `factor` times as long."""
    return {kind: int(factor ** (1 / parts.POWER.get(kind, 1)) * n) + 1 for kind, n in turns.items()}


def ways_of(link):
    """Each kind in one of the four ways, each kind over another link in another."""
    at = LINKS.index(link)
    for k, kind in enumerate(parts.KINDS):
        tasks, where = WAYS[(k + at) % 4]
        yield kind, tasks, "own" if kind in parts.CALLING else where


def failures(running, nulls):
    return [f"{one.what}: {one.failure}" for one in running if one.failure is not None] + [
        f"null steps: {one.failure}" for one in nulls if one.failure is not None]


def lasting(turns, running, least):
    """Whether all of them took so long; those that did not get twice the turns."""
    brief = {one.part.kind for one in running if one.took < least}
    turns.update({kind: 2 * turns[kind] for kind in brief if kind in turns})
    return not brief


@pytest.mark.parametrize("link", LINKS)
def test_no_task_is_given_up_for_what_it_computes(link, few_turns, tmp_path, monkeypatch):
    """The lease is a third of a part."""
    with opened(link, LEASE, monkeypatch) as cluster:
        for attempt in range(ATTEMPTS):
            folder = tmp_path / str(attempt)
            folder.mkdir()
            running, nulls = run_all(cluster, ways_of(link), 1.0, few_turns, str(folder))
            failed = failures(running, nulls)
            if not failed and lasting(few_turns, running, 2 * LEASE):
                break
    assert not failed, "\n".join(failed)
    assert all(one.took > 2 * LEASE for one in running), "these prove nothing"
    assert all(len(one.times) > 1 for one in nulls)


@pytest.mark.parametrize("link, how", [
    pytest.param(link, how, marks=[] if (link, how) in QUICK else pytest.mark.long)
    for link in LINKS for how in (signal.SIGSTOP, signal.SIGKILL)])
def test_one_that_is_dead_while_it_computes_is_found(link, how, turns, tmp_path):
    """By the usual lease."""
    with opened(link, None) as cluster:
        one = Running(cluster, "loop", "one", "other", str(tmp_path), "a", 1.0,
                      {"loop": 20 * turns["loop"]})
        one.thread.start()
        time.sleep(0.3)
        process = cluster.processes["ps", 0]
        os.kill(process.pid, how)
        began = time.monotonic()
        one.thread.join()
        took = time.monotonic() - began
        os.kill(process.pid, signal.SIGCONT)
        assert isinstance(one.failure, (tf.errors.UnavailableError, tf.errors.AbortedError))
        assert took < (2.5 if how == signal.SIGSTOP else 1.0) + LATE, took


# ---------------------------------------------------------------- long: long.py dist-long
@pytest.fixture(scope="module")
def many_turns(turns):
    return times(8, turns)


@pytest.mark.long
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("tasks, where", WAYS)
def test_nor_at_the_usual_lease(link, tasks, where, many_turns, tmp_path):
    what = [(kind, tasks, where) for kind in parts.KINDS
            if where == "own" or kind not in parts.CALLING]
    with opened(link, None) as cluster:
        for attempt in range(ATTEMPTS):
            folder = tmp_path / str(attempt)
            folder.mkdir()
            running, nulls = run_all(cluster, what, 8.0, many_turns, str(folder))
            assert not failures(running, nulls), "\n".join(failures(running, nulls))
            if lasting(many_turns, running, 5.0):
                break
    assert all(one.took > 5.0 for one in running), "these prove nothing"


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("where", list(TASKS))
@pytest.mark.parametrize("kind", [kind for kind in parts.KINDS if kind != "hold"])
def test_brief_steps_go_on_meanwhile(link, where, kind, turns, tmp_path):
    """The slowest hundredth takes 20 ms at most, or as long as where nothing else runs."""
    if kind in parts.CALLING and where == "other":
        pytest.skip("a function of Python's is in its process")
    with opened(link, None) as cluster:
        idle = [Null(cluster, task) for task in TASKS]
        time.sleep(1.0)
        for one in idle:
            one.end()
        more = {kind: 3 * n for kind, n in turns.items()}
        for attempt in range(ATTEMPTS):
            folder = tmp_path / str(attempt)
            folder.mkdir()
            running, nulls = run_all(cluster, [(kind, "one", where)], 3.0, more, str(folder))
            if lasting(more, running, 1.5):
                break
        usual = max(one.p99() for one in idle)
        assert max(one.p99() for one in nulls) < max(0.020, 3 * usual)
