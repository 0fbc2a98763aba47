"""Steps of tasks: by their keys in a table whose rendezvous outlives them; pyflow.transport/2 (transport/transport.c); errors that
carry task and cause."""

import gc
import itertools
import random
import threading
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor, plugins
from pyflow.session import contract

FLOAT = 1
CANCELLED, INVALID, NOT_FOUND, EXHAUSTED, ABORTED, DATA_LOSS = 1, 3, 5, 8, 10, 15
THREADS = (1, 2)
numbers = itertools.count(1)


@pytest.fixture(scope="module")
def library(build_plugin):
    path = build_plugin("transport", "-O1")
    tf.load_op_library(path)
    return path


@pytest.fixture(autouse=True)
def graph(library):
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture
def task():
    task = _executor.Task(f"/job:worker/replica:0/task:{next(numbers)}")
    yield task
    counts = task.counts()
    assert not counts["open"] and not counts["early"] and not counts["early_bytes"], "all is cleaned up"


def op(name, *inputs, **attrs):
    return plugins.op("transport." + name)(*inputs, **attrs)


def started(session, fetch, task, number, feeds=None, step_session=7, **options):
    step, values = session._step_for(fetch, feeds or {})
    return step.compiled.plan.start(
        values, contract.RunOptions(task=task, **options), key=(step_session, number))


class Took:
    """What `take` tells."""

    def __init__(self, task, number, name, session=7):
        self.told, self.event = [], threading.Event()
        task.take(session, number, name, self)

    def __call__(self, code, value):
        self.told.append((code, value))
        self.event.set()

    def result(self):
        assert self.event.wait(20)
        [(code, value)] = self.told
        return value if code == 0 else code


# ---------------------------------------------------------------- early, late, afterwards


@pytest.mark.parametrize("threads", THREADS)
def test_what_comes_before_the_step_waits_for_it(task, threads):
    y = op("Recv") * 2.0
    task.put(7, 1, b"k", np.float32(21), FLOAT)
    assert task.counts() == {"open": 0, "early": 1, "gone": 0, "early_bytes": 4, "ended": 0}
    with tf.Session(threads=threads) as session:
        one = started(session, y, task, 1)
        assert one.result(20)[0] == 42
        assert task.counts()["open"] == 1, "the step is not over before it is cleaned up"
        two = started(session, y, task, 2)
        assert not two.wait(0.02)
        task.put(7, 2, b"k", np.float32(4), FLOAT)
        assert two.result(20)[0] == 8
    task.clean(7, 1)
    task.clean(7, 2)
    assert task.counts() == {"open": 0, "early": 0, "gone": 2, "early_bytes": 0, "ended": 2}


def test_what_a_step_sent_is_there_after_it(task):
    x = tf.placeholder(tf.float32, [])
    early = Took(task, 1, b"k")
    with tf.Session() as session:
        started(session, op("Send", x), task, 1, {x: 3}).result(20)
        started(session, op("Send", x), task, 2, {x: 4}).result(20)
    assert early.result() == 3
    assert Took(task, 2, b"k").result() == 4
    never = Took(task, 2, b"other")
    task.clean(7)
    assert never.result() == CANCELLED
    with pytest.raises(_executor.StepError, match="0007:0+2 is over") as caught:
        task.take(7, 2, b"k", print)
    assert caught.value.code == NOT_FOUND
    with pytest.raises(_executor.StepError, match="is over"):
        task.put(7, 1, b"k", np.float32(1), FLOAT)


def test_a_step_that_is_over_elsewhere_does_not_begin(task):
    x = tf.placeholder(tf.float32, [])
    task.clean(7, 1)
    with tf.Session() as session:
        with pytest.raises(_executor.StepError, match="is over") as caught:
            started(session, op("Send", x), task, 1, {x: 3}).result(20)
    assert caught.value.code == NOT_FOUND and caught.value.derived


def test_cleaning_up_ends_what_still_runs(task):
    with tf.Session(threads=2) as session:
        running = [started(session, op("Recv", key=f"k{k}"), task, 1) for k in range(20)]
        twice = started(session, op("Recv", key="k0"), task, 1)
        with pytest.raises(_executor.StepError, match="somebody waits for key 'k0' of this step already"):
            twice.result(20)
        running = [started(session, op("Recv", key=f"k{k}"), task, 3) for k in range(20)]
        other = started(session, op("Recv"), task, 2)
        task.clean(7, 3)
        for one in running:
            with pytest.raises(_executor.StepError, match="cleaned up") as caught:
                one.result(20)
            assert caught.value.code == CANCELLED and caught.value.derived
        assert not other.wait(0.02)
        task.put(7, 2, b"k", np.float32(1), FLOAT)
        assert other.result(20)[0] == 1
    task.clean(7)


def test_strangers_are_bounded_and_swept(task):
    task.limit(3, 100)
    for k in range(3):
        task.put(7, k, b"k", np.zeros(5, np.float32), FLOAT)
    with pytest.raises(_executor.StepError, match="3 others wait for their beginning with 60 bytes") as caught:
        task.put(7, 3, b"k", np.float32(1), FLOAT)
    assert caught.value.code == EXHAUSTED
    with pytest.raises(_executor.StepError, match="of 3 and 100 allowed .* 80 bytes more"):
        task.put(7, 0, b"l", np.zeros(20, np.float32), FLOAT)
    waits = Took(task, 0, b"never")
    assert task.sweep(60) == 0 and task.sweep(0) == 3
    assert waits.result() == 4, "the deadline"
    with pytest.raises(_executor.StepError, match="over"):
        task.put(7, 0, b"k", np.float32(1), FLOAT)


def test_gone_steps_are_forgotten_at_last(task):
    for k in range(20000):
        task.clean(7, k)
    assert task.counts()["gone"] == 8192
    task.put(7, 0, b"k", np.float32(1), FLOAT)      # nobody knows any more that it was there
    task.clean(7)


def test_a_session_of_many_steps_is_cleaned_up_in_time_that_grows_as_they_do(task):
    task.limit(1 << 20, 1 << 30)
    seconds = []
    for session, count in ((8, 4000), (9, 64000)):
        for k in range(count):
            task.put(session, k, b"k", np.float32(1), FLOAT)
        begun = time.process_time()
        task.clean(session)
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 5 * 16 * seconds[0] + 0.1, seconds      # of squares it was 256


def test_a_task_that_ends_frees_what_it_holds():
    before = _executor.memory_stats()["in_use"]
    task = _executor.Task("/job:gone/task:0")
    told = []
    for k in range(100):
        task.put(1, k, b"k", np.zeros(1000, np.float32), FLOAT)
        task.take(1, k, b"never", lambda code, value: told.append(code))
    del task
    gc.collect()
    assert told == [CANCELLED] * 100
    assert _executor.memory_stats()["in_use"] - before < 100000


@pytest.mark.parametrize("name", ["", "x" * 128, 7, b"/job:a"])
def test_names_of_tasks(name):
    with pytest.raises(ValueError, match="a task's name is a string of 1 to 127 bytes"):
        _executor.Task(name)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("order", ["derived first", "cause first", "cause only"])
@pytest.mark.parametrize("when", ["before", "while"])
def test_the_cause_wins_over_its_consequences(task, order, when):
    """Wherever the step is: before it begins, or while it waits for what does not come any more."""
    reports = {"derived": (CANCELLED, "somebody else failed", "/job:b/task:1", True),
               "cause": (DATA_LOSS, "a disk is broken", "/job:a/task:0", False)}
    first = order.split()[0]
    told = [reports[first]] + ([] if "only" in order else [r for k, r in reports.items() if k != first])
    with tf.Session(threads=2) as session:
        if when == "while":
            slow = op("Put", tf.constant(0.0), session=7, step=99)      # its end is waited for: errors come meanwhile
            running = started(session, [op("Recv"), slow], task, 1)
        for report in told:
            task.fail(7, 1, *report)
        if when == "before":
            running = started(session, op("Recv"), task, 1)
        with pytest.raises(_executor.StepError) as caught:
            running.result(20)
        if when == "before" or first == "cause":
            assert (caught.value.code, caught.value.message, caught.value.task, caught.value.derived) == reports["cause"]
        with pytest.raises(_executor.StepError, match="a disk is broken"):
            started(session, op("Recv"), task, 1).result(20)
        with pytest.raises(_executor.StepError, match="a disk is broken"):
            task.take(7, 1, b"k", print)
    task.clean(7)


def test_a_kernels_own_failure_wins_over_a_derived_one(task):
    """Errors reach a step while it runs in any order: 60 of them, of either kind first."""
    x = tf.placeholder(tf.float32, [])
    bad = tf.check_numerics(tf.log(x), "not a number here")
    with tf.Session(threads=2) as session:
        for k in range(60):
            running = started(session, [op("Recv"), bad], task, k, {x: -1.0})
            task.fail(7, k, CANCELLED, "somebody else failed", "/job:b/task:1", True)
            with pytest.raises(_executor.StepError) as caught:
                running.result(20)
            text = caught.value.message
            assert "not a number here" in text or caught.value.derived and "somebody else failed" in text
    task.clean(7)


def test_an_error_names_the_task_it_left(task):
    x = tf.placeholder(tf.float32, [])
    bad = tf.check_numerics(tf.log(x), "not a number here", name="checked")
    waiting = Took(task, 1, b"k")
    with tf.Session() as session:
        with pytest.raises(_executor.StepError) as caught:
            started(session, bad, task, 1, {x: -1.0}).result(20)
        assert caught.value.task == task.name and caught.value.node == "checked" and not caught.value.derived
        assert waiting.result() == INVALID
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(bad, {x: -1.0})
        assert "From /job" not in str(caught.value), "of no named task"
    task.clean(7)


def test_kernels_abort_with_text_and_kind(task):
    x = tf.constant(1.0)
    with tf.Session() as session:
        for k, derived in enumerate((0, 1)):
            with pytest.raises(_executor.StepError) as caught:
                started(session, op("Abort", x, code=14, derived=derived, text="no way"), task, k).result(20)
            assert (caught.value.code, caught.value.derived) == (14, bool(derived))
            assert caught.value.message.startswith("no way (kernel of plugin 'com.example.transport'")
        with pytest.raises(tf.errors.UnavailableError, match="no way"):
            session.run(op("Abort", x, code=14, text="no way"))
    task.clean(7)


# ---------------------------------------------------------------- pyflow.transport/2


def test_a_step_knows_its_key_task_and_deadline(task):
    y = op("Knows")
    with tf.Session(threads=2) as session:
        key = started(session, y, task, 2**63 + 5, step_session=2**64 - 1).result(20)[0]
        assert list(key.view(np.uint64)[:3]) == [2**64 - 1, 2**63 + 5, task.incarnation] and key[3] == -1
        key = started(session, y, task, 6, timeout_ms=60000).result(20)[0]
        assert 0 < key[3] <= 60 * 10**9
        key = session.run(y)
        assert key[0] == 0 and key[1] > 0 and key.view(np.uint64)[2] == _executor.Task().incarnation
    task.clean(2**64 - 1)
    task.clean(7)


@pytest.mark.parametrize("threads", THREADS)
def test_progress_threads_put_and_take(task, threads):
    x = tf.placeholder(tf.float32, [])
    with tf.Session(threads=threads) as session:
        put, take = op("Put", x, session=7, step=1), op("Take", session=7, step=2)
        got = started(session, put, task, 50, {x: 8}).result(20)[0]
        np.testing.assert_array_equal(got, [0, 0, 1])
        np.testing.assert_array_equal(Took(task, 1, b"k").result(), [8])
        waiting = started(session, take, task, 51)
        started(session, op("Send", x), task, 2, {x: 9}).result(20)
        np.testing.assert_array_equal(waiting.result(20)[0], [0, 9, 0])
        task.clean(7, 1)
        assert started(session, put, task, 52, {x: 8}).result(20)[0][0] == NOT_FOUND
        wrong = op("Put", x, session=7, step=3, code=12345)
        assert started(session, wrong, task, 53, {x: 8}).result(20)[0][0] == ABORTED
    task.clean(7)


def test_a_put_is_written_where_its_reader_is(task):
    x = tf.placeholder(tf.float32, [])
    with tf.Session(threads=2) as session:
        waiting = started(session, op("Recv"), task, 1)
        np.testing.assert_array_equal(started(session, op("Put", x, session=7, step=1), task, 2, {x: 8}).result(20)[0], [0, 0, 1])
        np.testing.assert_array_equal(waiting.result(20)[0], [8])
    task.clean(7)


def test_progress_threads_fail_steps(task):
    with tf.Session(threads=2) as session:
        waiting = started(session, op("Recv"), task, 1)
        started(session, op("Fail", session=7, step=1), task, 2).result(20)
        with pytest.raises(_executor.StepError, match="^told by a link$") as caught:
            waiting.result(20)
        assert caught.value.code == DATA_LOSS and caught.value.task == "/job:peer/task:9"
        np.testing.assert_array_equal(started(session, op("Error", session=7, step=1), task, 3).result(20)[0], [DATA_LOSS, 0, 1])
        np.testing.assert_array_equal(started(session, op("Error", session=7, step=9), task, 3).result(20)[0], [0, 7, 0])
    task.clean(7)


def test_local_steps_are_reached_while_they_run():
    """By {0, their number} in the process's own task."""
    with tf.Session(threads=2) as session:
        step, values = session._step_for([op("Recv"), op("Knows")], {})
        told, knows = [], session._step_for(op("Knows"), {})[0].compiled.plan
        number = int(knows.run([])[0][1])
        running = step.compiled.plan.start(values)
        statuses = [session.run(op("Put", tf.constant(5.0), session=0, step=number + k))[0] for k in range(1, 4)]
        told = running.result(20)
        assert told[0] == 5 and 0 in statuses


def test_misuse_is_refused(task):
    with tf.Session() as session:
        assert session.run(op("Misuse")) == 17
        assert started(session, op("Misuse"), task, 1).result(20)[0] == 17
    task.clean(7)


# ---------------------------------------------------------------- tasks of one process


def test_partitions_of_two_tasks_meet_through_whoever_carries_tensors():
    """Two servers of one process: each runs its partition of a graph; what the one's Recv waits for is taken from the other."""
    tasks = [_executor.Task(f"/job:w/task:{k}") for k in (100, 101)]
    x = tf.placeholder(tf.float32, [])
    ends = [op("Send", x * 2.0, key="there"), op("Recv", key="there") + 1.0]
    with tf.Session(threads=2) as session:
        for k in range(50):
            first, second = (started(session, end, task, k, {x: k} if end is ends[0] else {}) for end, task in zip(ends, tasks))

            def carry(code, value, k=k):
                tasks[1].put(7, k, b"there", value, FLOAT)
            tasks[0].take(7, k, b"there", carry)
            first.result(20)
            assert second.result(20)[0] == 2 * k + 1
            for task in tasks:
                task.clean(7, k)
    assert [task.counts()["open"] for task in tasks] == [0, 0]
    assert tasks[0].incarnation != tasks[1].incarnation


def test_named_containers_belong_to_a_task():
    """Two servers of one process do not share variables; two sessions of one server do."""
    with tf.container("shared"):
        v = tf.get_variable("v", initializer=1.0)
        grow = tf.assign_add(v, 1.0)
    tasks = [_executor.Task(f"/job:c/task:{k}") for k in range(2)] + [None]
    wire = tf.get_default_graph().as_graph_def()
    values = {}
    for k, task in enumerate(tasks):
        for _ in range(2):
            session = tf.Session(threads=1)
            session._state = session._compiler.state = _executor.State("s", task)
            if k not in values:
                session.run(v.initializer)
            session.run(grow)
            values[k] = session.run(v)
            session.close()
    assert list(values.values()) == [3.0] * 3
    assert wire.node
    tasks[0].reset_containers(["shared"])
    for task, there in zip(tasks, (False, True, True)):
        session = tf.Session(threads=1)
        session._state = session._compiler.state = _executor.State("s", task)
        assert session.run(tf.is_variable_initialized(v)) == there
        session.close()
    tf.Session.reset("", ["shared"])


# ---------------------------------------------------------------- random orders


def test_random_orders_leave_nothing(task):
    """Of arrival, begin, failure and clean-up, by four threads (step_orders.c does this 10^5 times under ThreadSanitizer)."""
    x = tf.placeholder(tf.float32, [])
    rng, steps = random.Random(5), 150
    told, begun = [], []
    with tf.Session(threads=2) as session:
        plans = [session._step_for(fetch, feeds) for fetch, feeds in ((op("Recv"), {}), (op("Send", x, key="out"), {x: 2}))]

        def start(k, which):
            step, values = plans[which]
            begun.append(step.compiled.plan.start(values, contract.RunOptions(task=task), key=(7, k)))
        actions = []
        for k in range(steps):
            actions += [lambda k=k: task.put(7, k, b"k", np.float32(k), FLOAT),
                        lambda k=k: task.take(7, k, b"out", lambda code, value: told.append(code)),
                        lambda k=k: start(k, 0), lambda k=k: start(k, 1)]
            if k % 3 == 0:
                actions.append(lambda k=k: task.fail(7, k, ABORTED, "chance"))
            if k % 2 == 0:
                actions.append(lambda k=k: task.clean(7, k))
        rng.shuffle(actions)
        refused = []

        def work(part):
            for action in part:
                try:
                    action()
                except _executor.StepError as e:
                    refused.append(e.code)
        workers = [threading.Thread(target=work, args=(actions[k::4],)) for k in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        task.clean(7)
        codes = set()
        for one in begun:
            try:
                one.result(20)
            except _executor.StepError as e:
                codes.add(e.code)
        assert len(begun) == 2 * steps and codes <= {CANCELLED, NOT_FOUND, ABORTED}
        assert len(told) + len([c for c in refused]) >= steps
        assert set(told) <= {0, CANCELLED, ABORTED} and set(refused) <= {NOT_FOUND, ABORTED, CANCELLED}
