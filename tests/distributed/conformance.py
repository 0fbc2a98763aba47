"""What every way between two tasks has to do, ours and others': links, pairs of kernels, gRPC.

    python -m pytest tests/distributed/conformance.py                   all that are known here
    CONFORMANCE="link=rdma pair=nccl" python -m pytest ... conformance.py       those of installed plugins

A cluster for each way: a worker in this process, which is also the sessions' master, and a peer in another
process (peer.py), which serves all ways at once.  Only the public interface is used, so the same tests hold for
whatever carries the tensors; the first one makes sure that it is what was meant.
"""
import collections
import os
import re
import signal
import threading
import time

import numpy as np
import pytest

import foreign
import processes
import pyflow as tf
from pyflow.distributed.look import ways
from pyflow.session import runtime

HERE, THERE = "/job:worker/task:0", "/job:peer/task:0"
Way = collections.namedtuple("Way", "name links pair", defaults=(None,))
WAYS = [Way("process", ()), Way("unix", ("unix",)), Way("tcp", ("tcp",)), Way("grpc", ()),
        Way("foreign_link", ("acme",)), Way("foreign_pair", (), "acme")]
SLOW = ("tcp", "grpc")                  # as unix, nearly; other tests go by them, too
DTYPES = [np.float32, np.float64, np.float16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32,
          np.uint64, np.bool_, np.complex64, np.complex128]
SHAPES = ((), (0,), (3, 0, 2), (7,), (2, 3, 5), (1,) * 9, (70_001,))


def chosen():
    """The ways that are asked for: those above, or what CONFORMANCE says of installed plugins."""
    asked = [word.partition("=") for word in os.environ.get("CONFORMANCE", "").split()]
    return [Way(f"{kind}_{name}", (name,) if kind == "link" else (), name if kind == "pair" else None)
            for kind, _, name in asked] or WAYS


class Cluster:
    """Two tasks: ("worker", 0) here and ("peer", 0) in the process, or here too for "process"."""

    def __init__(self, way, process):
        self.way, ports = way, processes.free_ports(2)
        self.spec = {"worker": [f"localhost:{ports[0]}"], "peer": [f"localhost:{ports[1]}"]}
        self.process, self.config = process, tf.ConfigProto()
        if way.pair:
            self.config.send_recv_pairs.append(way.pair)
        self.peer = None
        self.start_peer(process)
        self.server = tf.train.Server(self.spec, "worker", 0, links=way.links)

    def start_peer(self, process):
        self.process = process
        if self.way.name == "process":
            self.peer = tf.train.Server(self.spec, "peer", 0, links=())
        else:
            process.serve(self.spec, self.way.links)

    def session(self, graph, target=None):
        return tf.Session(target or self.server.target, graph=graph, config=self.config)

    def close(self):
        self.server.stop()
        if self.peer is not None:
            self.peer.stop()


@pytest.fixture(scope="module")
def plugins_here():
    """Libraries of the foreign plugins, loaded in this process; [] if they are installed."""
    if os.environ.get("CONFORMANCE"):
        return []
    return [foreign.here(name) for name in ("link", "pair")]


@pytest.fixture(scope="module")
def process(plugins_here):
    with foreign.Peer(plugins_here) as one:
        yield one


@pytest.fixture(scope="module")
def clusters(process):
    made = {}
    yield lambda way: made.get(way.name) or made.setdefault(way.name, Cluster(way, process))
    for one in made.values():
        one.close()


@pytest.fixture(params=[pytest.param(way, marks=[pytest.mark.long] * (way.name in SLOW))
                        for way in chosen()], ids=lambda way: way.name)
def cluster(request, clusters):
    with tf.Graph().as_default():
        yield clusters(request.param)


def there_and_back(x):
    """x by way of the peer, with three more dimensions of 1: each task computes, so that nothing is moved."""
    for device in (HERE, THERE, HERE):
        with tf.device(device):
            x = tf.stack([x])
    return x


def feeds(shape, value=1.0):
    return tf.placeholder(tf.float32, shape), np.full(shape, value, np.float32)


# ---------------------------------------------------------------- what is tested
def test_it_is_the_way_that_was_meant(cluster):
    x = tf.placeholder(tf.float32, [3])
    with tf.device(THERE):
        y = x * 2.0
    with tf.device(HERE):
        z = y + 1.0
    with cluster.session(tf.get_default_graph()) as sess:
        np.testing.assert_array_equal(sess.run(z, {x: [1, 2, 3]}), [3, 5, 7])
        text = ways.explain(sess, z, {x: [1, 2, 3]})
    way = cluster.way
    assert "peer/0 -> worker/0: 1 tensor by" in text, text
    if way.pair:
        assert "_net.Send" not in text, text
    else:
        assert f"_net.Send and _Recv over {way.links[0] if way.links else way.name}" in text, text


# ---------------------------------------------------------------- values
def test_every_type_and_size_arrives_equal(cluster):
    random = np.random.RandomState(1)
    fed = {tf.placeholder(t, s): np.asarray((random.standard_normal(s) * 50).astype(t))
           for t in DTYPES for s in SHAPES}
    back = [there_and_back(x) for x in fed]
    with cluster.session(tf.get_default_graph()) as sess:
        for got, value in zip(sess.run(back, fed), fed.values()):
            assert got.dtype == value.dtype and got.shape == (1, 1, 1, *value.shape)
            np.testing.assert_array_equal(got[0, 0, 0], value)
        text = ways.explain(sess, back, fed)
    for way in ("worker/0 -> peer/0", "peer/0 -> worker/0"):     # a pair's kernels may leave types out: those go by net
        assert sum(map(int, re.findall(rf"{way}: (\d+) tensor", text))) == len(back), text


def test_strings_and_large_tensors_arrive_equal(cluster):
    text = np.array([b"", b"a" * 100_000, "\u00e4".encode(), b"\0b"], object)
    large = np.random.RandomState(2).standard_normal(2_000_000).astype(np.float32)
    s, x = tf.placeholder(tf.string, [4]), tf.placeholder(tf.float32, [None])
    echoed, back = there_and_back(s), there_and_back(x)
    with cluster.session(tf.get_default_graph()) as sess:
        for _ in range(2):
            got = sess.run([echoed, back], {s: text, x: large})
            assert list(got[0][0, 0, 0]) == list(text)
            np.testing.assert_array_equal(got[1][0, 0, 0], large)


def test_bfloat16_arrives_equal(cluster):
    x = tf.placeholder(tf.float32, [50])
    back = tf.cast(there_and_back(tf.cast(x, tf.bfloat16)), tf.float32)
    value = np.arange(50, dtype=np.float32) * 0.5
    with cluster.session(tf.get_default_graph()) as sess:
        np.testing.assert_array_equal(sess.run(back, {x: value})[0, 0, 0], value)


# ---------------------------------------------------------------- branches and loops
def test_dead_tensors(cluster):
    p, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [4])

    def on(device, fn):
        def branch():
            with tf.device(device):
                return fn()
        return branch
    with tf.device(HERE):
        y = tf.cond(p, on(THERE, lambda: x * 2.0), on(THERE, lambda: tf.cond(
            x[0] > 0, on(HERE, lambda: x + 1.0), on(THERE, lambda: x - 1.0))))
    with cluster.session(tf.get_default_graph()) as sess:
        for _ in range(3):
            assert list(sess.run(y, {p: True, x: [1, 2, 3, 4]})) == [2, 4, 6, 8]
            assert list(sess.run(y, {p: False, x: [1, 2, 3, 4]})) == [2, 3, 4, 5]
            assert list(sess.run(y, {p: False, x: [-1, 2, 3, 4]})) == [-2, 1, 2, 3]


def test_loops_and_their_gradients(cluster):
    x = tf.placeholder(tf.float32, [2])

    def body(i, a):
        with tf.device(THERE):
            b = a * 2.0
        with tf.device(HERE):
            return i + 1, tf.cond(i > 2, lambda: b + 1.0, lambda: b)
    with tf.device(HERE):
        _, y = tf.while_loop(lambda i, a: i < 6, body, [0, x])
        slope = tf.gradients(y, x)[0]
    with cluster.session(tf.get_default_graph()) as sess:
        value, grad = sess.run([y, slope], {x: [1, 2]})
    np.testing.assert_array_equal(value, [71, 135])
    np.testing.assert_array_equal(grad, [64, 64])


def test_order(cluster):
    """Each turn's tensor meets that turn's receiver."""
    def body(i, a):
        with tf.device(THERE):
            b = a * 3 + tf.cast(i, tf.int64)
        with tf.device(HERE):
            return i + 1, tf.mod(b, 1_000_003)
    with tf.device(HERE):
        _, y = tf.while_loop(lambda i, a: i < 200, body, [0, tf.constant(1, tf.int64)])
    expected = 1
    for k in range(200):
        expected = (expected * 3 + k) % 1_000_003
    with cluster.session(tf.get_default_graph()) as sess:
        assert sess.run(y) == expected


# ---------------------------------------------------------------- failures
@pytest.mark.parametrize("at", (HERE, THERE))
def test_an_error_on_either_side_is_the_cause(cluster, at):
    other = HERE if at == THERE else THERE
    x = tf.placeholder(tf.float32, [2])
    with tf.device(at):
        bad = tf.check_numerics(tf.identity(x), "no number")
    with tf.device(other):
        y = tf.add(bad, 1.0)
    with cluster.session(tf.get_default_graph()) as sess:
        for _ in range(2):
            begun = time.monotonic()
            with pytest.raises(tf.errors.InvalidArgumentError, match="no number") as failed:
                sess.run(y, {x: [1, np.nan]})
            assert time.monotonic() - begun < 3 and failed.value.op is bad.op
            np.testing.assert_array_equal(sess.run(y, {x: [1, 2]}), [2, 3])


def blocked():
    """A number that never comes, made there and awaited here; a function of a session that gets one
    which does."""
    with tf.device(THERE):
        never = tf.FIFOQueue(1, tf.float32, [[]]).dequeue()
        x = tf.placeholder(tf.float32, [])
        soon = x * 2.0
    with tf.device(HERE):
        y, z = never + 1.0, soon + 1.0
    return y, lambda sess: sess.run(z, {x: 1.5})


def test_a_step_that_waits_is_cancelled_and_late(cluster):
    y, z = blocked()
    with cluster.session(tf.get_default_graph()) as sess:
        assert z(sess) == 4
        begun = time.monotonic()
        with pytest.raises(tf.errors.DeadlineExceededError, match="fifo_queue"):  # who waits for what
            sess.run(y, options=tf.RunOptions(timeout_in_ms=150))
        assert time.monotonic() - begun < 3
        assert z(sess) == 4
        failed = []

        def wait():
            try:
                sess.run(y)
            except tf.OpError as failure:
                failed.append(failure)
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        begun = time.monotonic()
    sess.close()
    thread.join(10)
    assert not thread.is_alive() and time.monotonic() - begun < 3
    assert isinstance(failed[0], tf.errors.CancelledError), failed


def test_who_is_not_meant_is_refused(cluster):
    """A link to another incarnation of a task: no connection."""
    for kind in cluster.way.links:
        executor = runtime.executor()
        one, other = (executor.Net(executor.Task(f"/job:{kind}/task:{k}")) for k in (0, 1))
        address = other.listen(kind)
        with pytest.raises(executor.StepError, match="not of the incarnation") as failed:
            one.connect(other.name, other.incarnation ^ 1, kind, address)
        assert failed.value.code == tf.errors.ABORTED
        assert not any(peer["state"] == "open" for peer in one.peers())
        one.connect(other.name, other.incarnation, kind, address)
        for net in (one, other):
            net.close()


def test_a_killed_peer_and_its_successor(clusters, plugins_here):
    """All ways at once: who waits hears it, old sessions do, new ones find the successor."""
    several = [way for way in chosen() if way.name not in ("process", *SLOW)]
    process, made = foreign.Peer(plugins_here), []
    try:
        for way in several:
            with tf.Graph().as_default() as graph:
                made.append((Cluster(way, process), graph, *blocked()))
        sessions = [one.session(graph) for one, graph, _, _ in made]
        for sess, (_, _, _, z) in zip(sessions, made):
            assert z(sess) == 4
        failed = {}

        def wait(name, sess, y):
            try:
                sess.run(y)
            except tf.OpError as failure:
                failed[name] = failure, time.monotonic()
        threads = [threading.Thread(target=wait, args=(one.way.name, sess, y))
                   for sess, (one, _, y, _) in zip(sessions, made)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        killed = time.monotonic()
        process.kill()
        for thread in threads:
            thread.join(10)
        for way in several:
            failure, at = failed[way.name]
            assert isinstance(failure, tf.errors.UnavailableError), (way.name, failure)
            assert at - killed < 3, way.name
        process.close()
        process = foreign.Peer(plugins_here)
        for sess, (one, graph, _, z) in zip(sessions, made):
            one.start_peer(process)
            with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)):
                z(sess)
            sess.close()
            with one.session(graph) as again:
                assert z(again) == 4, one.way.name
    finally:
        for one, *_ in made:
            one.close()
        process.close()


# ---------------------------------------------------------------- much of it
def test_many_at_once(cluster):
    x = tf.placeholder(tf.float32, [])
    y = there_and_back(x) * 2.0
    many = [there_and_back(x + float(k)) for k in range(60)]
    wrong = []
    with cluster.session(tf.get_default_graph()) as sess:
        assert sess.run(many, {x: 1}) == [1 + k for k in range(60)]
        run = sess.make_callable(y, [x])

        def ask(k):
            for j in range(20):
                if run(100 * k + j) != 2 * (100 * k + j):
                    wrong.append((k, j))
        threads = [threading.Thread(target=ask, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong and not any(t.is_alive() for t in threads)


def test_a_reader_that_sleeps_is_waited_for(cluster):
    """Back pressure: 24 MB for a process that is stopped; all arrives once it goes on, and who sends has no
    copies of it beside the tensors themselves."""
    if cluster.way.name == "process":
        pytest.skip("the reader is this process")
    n, size = 24, 250_000
    x = tf.placeholder(tf.float32, [size])
    with tf.device(HERE):
        made = [x + float(k) for k in range(n)]
    with tf.device(THERE):
        y = tf.stack([tf.reduce_max(m) for m in made])
    value = np.zeros(size, np.float32)
    with cluster.session(tf.get_default_graph()) as sess:
        assert list(sess.run(y, {x: value})) == list(range(n))
        before = runtime.executor().memory_stats()["in_use"]
        os.kill(cluster.process.pid, signal.SIGSTOP)
        try:
            found = []
            thread = threading.Thread(target=lambda: found.extend(sess.run(y, {x: value})))
            thread.start()
            time.sleep(0.4)
            more = runtime.executor().memory_stats()["in_use"] - before
        finally:
            os.kill(cluster.process.pid, signal.SIGCONT)
        thread.join(20)
    assert found == list(range(n)) and more < 2.2 * n * size * 4
