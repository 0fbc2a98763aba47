"""Large feeds and fetches of a session at another server go over a link, whatever carries it."""
import gc
import threading
import weakref

import ml_dtypes
import numpy as np
import pytest

import processes
import pyflow as tf
from pyflow.distributed.run import client, remote_worker
from pyflow.distributed.wire import exchange, messages, rpc
from pyflow.session import runtime

HERE, THERE = "/job:worker/task:0", "/job:worker/task:1"
N = 40_000                              # elements that are large in each type
KINDS = {"unix": ("unix",), "tcp": ("tcp",), "grpc": ()}


class Cluster:
    """Two tasks of this process, and a target by which they are another one's."""

    def __init__(self, links):
        ports = processes.free_ports(2)
        spec = {"worker": [f"localhost:{port}" for port in ports]}
        self.servers = [tf.train.Server(spec, "worker", k, links=links) for k in (0, 1)]
        self.target = f"grpc://127.0.0.1:{ports[0]}"
        self.task = self.servers[0]._worker.task

    def close(self):
        for server in self.servers:
            server.stop()


@pytest.fixture(scope="module", params=[
    pytest.param(kind, marks=[pytest.mark.long] * (kind == "tcp")) for kind in KINDS])
def cluster(request):
    links = KINDS[request.param]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYFLOW_LINKS", ",".join(links) or "none")
        patch.setattr(client, "_own", None)
        found = Cluster(links)
        found.kind = request.param
        yield found
        found.close()
        client._own.close()


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as found:
        yield found


@pytest.fixture
def sizes(monkeypatch):
    """Bytes of each request and reply of a step, by way of its call."""
    found, real = [], client.Place.call

    def call(self, name, request, *args, **how):
        reply = real(self, name, request, *args, **how)
        if name in ("RunCallable", "PartialRun"):
            found.append(request.ByteSize() + reply.ByteSize())
        return reply
    monkeypatch.setattr(client.Place, "call", call)
    return found


def there_and_back(x):
    for device in (HERE, THERE, HERE):
        with tf.device(device):
            x = tf.stack([x])
    return x


def doubled(n=None):
    """(feed, fetch) of a step on two tasks."""
    x = tf.placeholder(tf.float32, [n])
    with tf.device(THERE):
        y = x * 2.0
    with tf.device(HERE):
        return x, y + 0.0


VALUES = {
    "float32": np.arange(N, dtype=np.float32), "float16": np.arange(N).astype(np.float16),
    "complex128": np.arange(N) * 1j, "bool": np.arange(2 * N) % 3 == 0,
    "int64": np.arange(N).reshape(2, -1, 4), "strided": np.arange(4 * N, dtype=np.int32)[::2],
    "swapped": np.arange(N, dtype=">i4"), "fortran": np.asfortranarray(np.ones((300, 200))),
    "bfloat16": np.arange(2 * N).astype(ml_dtypes.bfloat16),
    "string": np.array([b"x" * k for k in range(700)], object), "scalar": np.float32(3),
    "long scalar string": b"y" * 100_000, "empty": np.zeros((0, N), np.float32)}


@pytest.mark.parametrize("name", VALUES)
def test_values_arrive_equal(cluster, sizes, name):
    value = VALUES[name]
    dtype = tf.string if "string" in name else tf.as_dtype(np.asarray(value).dtype.newbyteorder("="))
    x = tf.placeholder(dtype, np.shape(value))
    with tf.Session(cluster.target) as sess:
        found = sess.run(there_and_back(x), {x: value})
    expected = np.asarray(value, object if dtype == tf.string else None)
    assert found.shape == (1, 1, 1, *expected.shape)
    assert (found == expected).all() and found.dtype == expected.dtype.newbyteorder("=")
    assert sizes[-1] < 2 * exchange.LARGE


def test_what_was_fetched_is_the_callers_own(cluster):
    x, y = doubled()
    with tf.Session(cluster.target) as sess:
        first = sess.run(y, {x: np.ones(N, np.float32)})
        first[:] = 7
        second = sess.run(y, {x: np.ones(N, np.float32)})
    assert first[0] == 7 and second[0] == second[-1] == 2


def test_fed_arrays_are_let_go_and_may_change_afterwards(cluster):
    x, y = doubled()
    value = np.ones(10 * N, np.float32)
    with tf.Session(cluster.target) as sess:
        for k in range(3):
            value[:] = k
            assert (sess.run(y, {x: value}) == 2 * k).all()
        gone = weakref.ref(value)
        del value
        sess.run(y, {x: np.ones(N, np.float32)})
        gc.collect()
        assert gone() is None


def test_steps_in_stages(cluster, sizes):
    a, b = tf.placeholder(tf.float32, [N]), tf.placeholder(tf.float32, [N])
    with tf.device(THERE):
        c = a + 1.0
    with tf.device(HERE):
        d = c * b
    value = np.arange(N, dtype=np.float32)
    with tf.Session(cluster.target) as sess:
        handle = sess.partial_run_setup([c, d], [a, b])
        np.testing.assert_array_equal(sess.partial_run(handle, c, {a: value}), value + 1)
        np.testing.assert_array_equal(sess.partial_run(handle, d, {b: value}), (value + 1) * value)
    assert max(sizes) < exchange.LARGE


def test_traced_steps(cluster, sizes):
    x, y = doubled()
    found = tf.RunMetadata()
    with tf.Session(cluster.target) as sess:
        value = np.ones(N, np.float32)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert (sess.run(y, {x: value}, options=options, run_metadata=found) == 2).all()
    assert len(found.step_stats.dev_stats) >= 2 and max(sizes) < exchange.LARGE


def test_nothing_of_a_step_stays(cluster):
    x, y = doubled()
    with tf.Session(cluster.target) as sess:
        sess.run(y, {x: np.ones(N, np.float32)})
        before = cluster.task.counts()["open"]
        for _ in range(5):
            sess.run(y, {x: np.ones(N, np.float32)})
        assert cluster.task.counts()["open"] <= before + 1      # a step's end is heard of later
        assert client._own.net.task.counts()["open"] == 0
    assert not client._own.exchanges._waiting


def test_many_at_once(cluster):
    x, y = doubled()
    wrong = []
    with tf.Session(cluster.target) as sess:
        def run(k):
            for _ in range(4):
                if not (sess.run(y, {x: np.full(N + k, k, np.float32)}) == 2 * k).all():
                    wrong.append(k)
        threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def cut(cluster):
    client._own.net.disconnect(cluster.task.name, "cut by the test")


def test_a_link_lost_before_the_answer(cluster):
    """The step ran: what it gave cannot be brought, and the next one connects again."""
    x, y = doubled()

    def cuts(z):
        cut(cluster)
        return z
    with tf.device(HERE):
        lost = tf.py_func(cuts, [y], tf.float32)
    value = np.ones(N, np.float32)
    with tf.Session(cluster.target) as sess:
        with pytest.raises(tf.errors.UnavailableError):
            sess.run(lost, {x: value})
        assert (sess.run(y, {x: value}) == 2).all()


@pytest.mark.parametrize("at", ["before", "after"])
def test_a_link_lost_while_it_is_fed(cluster, monkeypatch, at):
    x, y = doubled()
    value, real = np.ones(N, np.float32), client.Place.call

    def call(self, name, *args, **how):
        if name == "RunCallable" and at == "before":
            cut(cluster)
        return real(self, name, *args, **how)

    def result(self, name, message):
        cut(cluster)
        return receive(self, name, message)
    with tf.Session(cluster.target) as sess:
        sess.run(y, {x: value})
        receive = exchange.Exchange.receive
        with monkeypatch.context() as patch:
            patch.setattr(client.Place, "call", call)
            if at == "after":
                patch.setattr(exchange.Exchange, "receive", result)
            with pytest.raises(tf.errors.UnavailableError):
                sess.run(y, {x: value})
        with pytest.MonkeyPatch.context():
            assert (sess.run(y, {x: value}) == 2).all()


def test_a_step_that_is_late(cluster):
    x = tf.placeholder(tf.float32, [None])
    with tf.device(THERE):
        waits = tf.FIFOQueue(1, tf.float32, [[]]).dequeue() + x
    with tf.device(HERE):
        waits += 1.0
    x2, y = doubled()
    value = np.ones(N, np.float32)
    with tf.Session(cluster.target) as sess:
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(waits, {x: value}, options=tf.RunOptions(timeout_in_ms=200))
        assert (sess.run(y, {x2: value}) == 2).all()


# ---------------------------------------------------------------- what is not believed
WRONG = {
    "another task's name": (dict(client="/job:worker/replica:0/task:1"), {},
                            tf.errors.InvalidArgumentError, "is no client's"),
    "a step of the master's": (dict(step=1), {}, tf.errors.InvalidArgumentError, "is no client's"),
    "nobody's name": (dict(client="/client:1"), {},
                      tf.errors.UnavailableError, "the link to .* was lost"),
    "no exchange": (dict(step=0), {}, tf.errors.UnavailableError, "there is none any more"),
    "another shape": ({}, dict(shape=[N - 1]), tf.errors.InvalidArgumentError, "by the link came"),
    "another type": ({}, dict(dtype=2), tf.errors.InvalidArgumentError, "by the link came")}


@pytest.mark.parametrize("what", WRONG)
def test_messages_that_are_wrong(cluster, what):
    given, changed, error, words = WRONG[what]
    x, y = doubled(N)
    value = np.ones(N, np.float32)
    with tf.Session(cluster.target) as sess:
        sess.run(y, {x: value})
        link = sess._step_for(y, {x: value})[0].compiled.plan._link
        number = link.call("MakeCallable", messages.MakeCallableRequest(
            feed=[x.name], fetch=[y.name], call=remote_worker.new_call(),
            client=given.get("client", client.own_links().task))).callable
        with link.way.exchange(int(link.handle, 16)) as way:
            fed = way.send("feed 0", value, 1)
            for field, other in changed.items():
                fed.ClearField(field)
                fed.MergeFrom(messages.TensorMessage(**{field: other}))
            with pytest.raises(runtime.executor().StepError, match=words) as wrong:
                link.call("RunCallable", messages.RunCallableRequest(
                    call=remote_worker.new_call(), callable=number, feed=[fed],
                    step=given.get("step", way.step)))
        assert isinstance(rpc.of_message(rpc.error_message(wrong.value)), error)
        sess.run(y + 0.0, {x: value})       # says its name again
        assert (sess.run(y, {x: value}) == 2).all()


# ---------------------------------------------------------------- over 2 GB
@pytest.mark.long
@pytest.mark.parametrize("links", ["unix", "tcp", "none"])
@pytest.mark.parametrize("device", [HERE, THERE])
def test_more_than_two_gigabytes(links, device, monkeypatch):
    """There and back, in a process that has room for the array, its answer and little more."""
    import subprocess
    import sys
    with processes.Cluster({"worker": 2}, setup=f"os.environ['PYFLOW_LINKS'] = {links!r}") as found:
        code = f"""
import os
os.environ["PYFLOW_LINKS"] = {links!r}
import resource, numpy as np, pyflow as tf
n = 560_000_000
with tf.device({device!r}):
    x = tf.placeholder(tf.float32, [n])
    y = tf.reverse(x, [0])
with tf.Session({found.target("worker", 0)!r}) as sess:
    value = np.zeros(n, np.float32)
    value[0], value[5] = 1, 2
    answer = sess.run(y, {{x: value}})
    assert answer[-1] == 1 and answer[-6] == 2 and answer.sum() == 3
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / value.nbytes)
"""
        done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) < 3.2, "the array, the answer, and room for what is under way"
