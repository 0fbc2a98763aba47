"""One list of cases, asked of every place where a session may run (pyflow/session/contract.py).

    process   tf.Session() of this process
    server    a server of this process, all on its task
    cluster   the same server, half of each graph on a task of another process
    master    a server of another process, asked as a client, all on its task
    far       the same server, half of each graph on a task of a third process

A case that answers otherwise at one place has found a defect there.  What has to be equal to the word
is compared with what this process says, without the names of tasks and devices.
"""
import gc
import inspect
import pathlib
import re
import sys
import threading
import time
import types

import numpy as np
import pytest

import pyflow as tf
from pyflow.core.protobuf import config_pb2
from pyflow.session import contract, runtime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "distributed"))
import processes  # noqa: E402

PLACES = ("process", "server", "cluster", "master", "far")
ANYWHERE = pytest.mark.parametrize("place", PLACES, indirect=True)


# ---------------------------------------------------------------- the places

@pytest.fixture(scope="module")
def servers():
    """Of this process: a of {a, b}, c alone.  Of others: m of {m, b}, b."""
    pytest.importorskip("grpc")
    with processes.Cluster({"m": 1, "b": 1}) as others:
        b = others.addresses["b", 0]
        here = tf.train.Server({"a": ["localhost:0"], "b": [b]}, "a", 0)
        with here:
            yield types.SimpleNamespace(here=here, master=others.target("m", 0))


@pytest.fixture
def place(request):
    """target: of its sessions; device: where what does not lie on the usual task lies."""
    name, target = request.param, ""
    if name != "process":
        servers = request.getfixturevalue("servers")
        target = servers.here.target if name in ("server", "cluster") else servers.master
    device = "/job:b/task:0" if name in ("cluster", "far") else ""
    usual = {"server": "/job:a", "cluster": "/job:a", "master": "/job:m", "far": "/job:m"}
    with tf.Graph().as_default(), tf.device(usual.get(name, "")):
        yield types.SimpleNamespace(name=name, target=target, device=device,
                                    session=lambda **how: tf.Session(target, **how))


def plan_of(session, fetches, feeds=()):
    """The contract's Plan of a signature, and the values of its feeds."""
    step, values = session._step_for(fetches, dict(feeds))
    return step.compiled.plan, [feed.convert(v) for feed, v in zip(step.feeds, values)]


def doubled(place, shape=(2,), dtype=tf.float32):
    """x here, x + x there, 1 more here again."""
    x = tf.placeholder(dtype, shape, name="x")
    with tf.device(place.device):
        twice = tf.add(x, x, name="twice")
    return x, tf.add(twice, tf.ones(shape, dtype), name="y")


def blocked(place):
    """What waits for ever, there; and the queue."""
    with tf.device(place.device):
        queue = tf.FIFOQueue(1, [tf.float32], shapes=[[]], name=f"never_{time.monotonic_ns()}")
        return queue.dequeue(name="waits"), queue


def raised(call, *args, **how):
    """(class, text without tasks, devices, addresses and lines) of what a call raises."""
    with pytest.raises(Exception) as caught:
        call(*args, **how)
    text = re.sub(r"^From /job:\S*:\n", "", str(caught.value))
    text = re.sub(r"/(?:job:\w+/replica:0/task:0/)?device:CPU:0", "DEVICE", text)
    text = re.sub(r"(, device=/job:\w+|0x[0-9a-f]+|(?<=\.py):\d+|\d+ operations)", "", text)
    return type(caught.value), text.partition("\n\nNode ")[0]


# ---------------------------------------------------------------- values

@ANYWHERE
def test_runs(place):
    x, y = doubled(place)
    with place.session() as sess:
        np.testing.assert_array_equal(sess.run(y, {x: [1, 2]}), [3, 5])
        found = sess.run({"y": y, "both": (y, [x]), "op": y.op}, {x: [1, 2]})
        np.testing.assert_array_equal(found["both"][0], [3, 5])
        np.testing.assert_array_equal(found["both"][1][0], [1, 2])
        assert found["op"] is None
        assert sess.run([], {x: [1, 2]}) == [] and sess.run({}) == {} and sess.run(()) == ()
        assert sess.run(y.op, {x: [1, 2]}) is None


FED = {
    "list": (tf.float32, [1, 2], [2, 4]), "array": (tf.float64, np.array([1.5, 2]), [3, 4]),
    "strided": (tf.int64, np.arange(4)[::2], [0, 4]),
    "swapped": (tf.int32, np.array([1, 2], ">i4"), [2, 4]),
    "complex": (tf.complex64, [1j, 2], [2j, 4]), "half": (tf.float16, np.ones(2, np.float16), [2, 2]),
    "bfloat16": (tf.bfloat16, [1, 2], [2, 4]), "small": (tf.int8, [1, -2], [2, -4]),
    "strings": (tf.string, ["a", b"b"], [b"aa", b"bb"]),
}


@ANYWHERE
def test_feeds_of_every_kind(place):
    with place.session() as sess:
        for dtype, value, expected in FED.values():
            x = tf.placeholder(dtype, [None])
            with tf.device(place.device):
                y = tf.strings.join([x, x]) if dtype == tf.string else tf.add(x, x)
            got = sess.run(y, {x: value})
            assert got.tolist() == np.asarray(expected, got.dtype).tolist(), dtype
            assert got.dtype == (object if dtype == tf.string else dtype.as_numpy_dtype)
            assert sess.run(y, {x: []} if dtype != tf.string else {x: np.zeros(0, object)}).shape == (0,)
        x, y = doubled(place)
        assert sess.run(y, {y.op.inputs[0]: [5, 6]}).tolist() == [6, 7]      # in the middle
        a = tf.placeholder(tf.float32, [])
        assert sess.run(a + 1.0, {a: 1.0}) == 2 and type(sess.run(a + 1.0, {a: 1})) is np.float32
        kept = sess.run(tf.get_session_handle(y), {x: [1, 1]})
        assert kept.eval().tolist() == [3, 3]
        assert sess.run(y, {x: kept}).tolist() == [7, 7]
        kept.delete()


def wrong_feeds(sess, x, y):
    """{what is wrong: what is raised}."""
    elsewhere = tf.Graph()
    with elsewhere.as_default():
        other = tf.placeholder(tf.float32, [2], name="other")
    return {
        "shape": raised(sess.run, y, {x: [1, 2, 3]}), "type": raised(sess.run, y, {x: ["a", "b"]}),
        "lost values": raised(sess.run, y, {x: [1j, 2]}), "none": raised(sess.run, y, {x: None}),
        "tensor": raised(sess.run, y, {x: x}), "another graph": raised(sess.run, y, {other: [1, 2]}),
        "no tensor": raised(sess.run, y, {3: [1, 2]}), "not fed": raised(sess.run, y),
        "unknown": raised(sess.run, "nothing:0"), "another's": raised(sess.run, other),
        "callable": raised(sess.make_callable(y, [x])), "list": raised(sess.make_callable, y, x),
        "callable's shape": raised(sess.make_callable(y, [x]), np.ones(3, np.float32)),
    }


@pytest.fixture(scope="module")
def said_here():
    """wrong_feeds of this process."""
    here = types.SimpleNamespace(device="")
    with tf.Graph().as_default():
        x, y = doubled(here)
        with tf.Session() as sess:
            return wrong_feeds(sess, x, y)


@ANYWHERE
def test_wrong_feeds_and_fetches(place, said_here):
    x, y = doubled(place)
    with place.session() as sess:
        found = wrong_feeds(sess, x, y)
        for what, (kind, text) in said_here.items():
            assert found[what] == (kind, text), what
        assert sess.run(y, {x: [1, 2]}).tolist() == [3, 5]


# ---------------------------------------------------------------- how a step runs

@ANYWHERE
def test_deadlines(place):
    wait, queue = blocked(place)
    x, y = doubled(place)
    with place.session() as sess:
        for session, how in ((sess, {"options": tf.RunOptions(timeout_in_ms=60)}),
                             (place.session(config=tf.ConfigProto(operation_timeout_in_ms=60)), {})):
            kind, text = raised(session.run, wait, **how)
            assert kind is tf.errors.DeadlineExceededError, text
            assert "60 ms" in text or "in the time" in text, text
            assert session.run(y, {x: [1, 2]}, **how).tolist() == [3, 5]
        session.close()
        negative = tf.RunOptions(timeout_in_ms=-5)              # TF: none
        assert sess.run(y, {x: [1, 2]}, options=negative).tolist() == [3, 5]
        huge = tf.RunOptions(timeout_in_ms=2**62)
        assert sess.run(y, {x: [1, 2]}, options=huge).tolist() == [3, 5]


@ANYWHERE
def test_a_step_that_is_begun(place):
    """Running: done, wait, result, cancel; the callback."""
    x, y = doubled(place)
    wait, _ = blocked(place)
    executor = runtime.executor()
    with place.session() as sess:
        plan, values = plan_of(sess, y, {x: [1, 2]})
        assert isinstance(plan, (contract.Plan, executor.Runnable))
        assert isinstance(plan.explain(), str) and plan.arg_names
        for by in (contract.BY_POOL, contract.BY_STARTER, contract.BY_WAITER):
            running = plan.start(values, by=by)
            assert running.wait(20) and running.done()
            assert running.result()[0].tolist() == [3, 5]
            with pytest.raises(RuntimeError, match="taken already"):
                running.result()
        told, heard = [], threading.Event()

        def done(running):
            told.append(running.result()[0].tolist())
            heard.set()
        running = plan.start(values, None, done)                # nobody waits for it
        assert heard.wait(20) and told == [[3, 5]]
        running = plan.start(values)                            # somebody looks
        until = time.monotonic() + 20
        while not running.done() and time.monotonic() < until:
            time.sleep(0.001)
        assert running.done() and running.result(0)[0].tolist() == [3, 5]

        never, _ = plan_of(sess, wait)
        running = never.start()
        assert not running.wait(0.03) and not running.done()
        with pytest.raises(TimeoutError, match="still running"):
            running.result(0.01)
        threading.Timer(0.03, running.cancel, ["enough of it"]).start()
        with pytest.raises(executor.StepError) as caught:
            running.result(20)
        assert caught.value.code == tf.errors.CANCELLED
        running.cancel()                                        # twice is once
        running = never.start(options=contract.RunOptions(timeout_ms=60))
        with pytest.raises(executor.StepError) as caught:
            running.result(20)
        assert caught.value.code == tf.errors.DEADLINE_EXCEEDED
        del running
        assert sess.run(y, {x: [1, 2]}).tolist() == [3, 5]


@ANYWHERE
def test_options(place):
    """Of a plan: what it does with each, and wrong ones."""
    x, y = doubled(place)
    executor = runtime.executor()
    with place.session() as sess:
        plan, values = plan_of(sess, y, {x: [1, 2]})
        kept, = plan.run(values, contract.RunOptions(keep=True))
        assert isinstance(kept, executor.Kept) and kept.array().tolist() == [3, 5]
        kept, = plan.start(values, contract.RunOptions(keep=True)).result()
        assert isinstance(kept, executor.Kept) and kept.array().tolist() == [3, 5]
        trace = executor.Trace(3)
        plan.run(values, contract.RunOptions(trace=trace))
        for begin in (plan.run, plan.start):
            for wrong in ([], [values[0]] * 2):
                with pytest.raises(ValueError, match="takes 1 arguments, got"):
                    begin(wrong)
        for wrong in ({"keep": True}, 5, contract.PlanOptions()):
            for begin in (plan.run, plan.start):
                with pytest.raises(TypeError, match="RunOptions"):
                    begin(values, wrong)
        assert sess.run(y, {x: [1, 2]}).tolist() == [3, 5]


@ANYWHERE
def test_metadata(place):
    x, y = doubled(place)
    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    with place.session() as sess:
        for run in (lambda m: sess.run(y, {x: [1, 2]}, full, m),
                    lambda m: sess.make_callable(y, [x], accept_options=True)(
                        np.array([1, 2], np.float32), options=full, run_metadata=m)):
            metadata = tf.RunMetadata()
            assert run(metadata).tolist() == [3, 5]
            nodes = {n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats}
            assert {"twice", "y"} <= nodes
            graphs = {n.name for g in metadata.partition_graphs for n in g.node}
            assert {"twice", "y"} <= graphs
            at = {d.device for d in metadata.step_stats.dev_stats for n in d.node_stats
                  if n.node_name == "twice"}
            assert not place.device or all("/job:b/" in device for device in at), at
        said = {d.name for d in sess.list_devices()}
        assert any(name.endswith("device:CPU:0") for name in said)
        assert not place.device or any("/job:b/" in name for name in said)


@ANYWHERE
def test_observed(place, monkeypatch):
    """PYFLOW_DEBUG of this process changes no result."""
    monkeypatch.setenv("PYFLOW_DEBUG", "5")
    x, y = doubled(place)
    with place.session() as sess:
        assert sess.run(y, {x: [1, 2]}).tolist() == [3, 5]
        assert sess.run(y, {x: [1, 2]}, tf.RunOptions(timeout_in_ms=60000)).tolist() == [3, 5]
        assert sess.make_callable(y, [x])([1, 2]).tolist() == [3, 5]


@ANYWHERE
def test_callables(place):
    x, y = doubled(place)
    with place.session() as sess:
        call = sess.make_callable(y, [x])
        for _ in range(3):
            assert call(np.array([1, 2], np.float32)).tolist() == [3, 5]
        assert call([1, 2]).tolist() == [3, 5]
        assert sess.make_callable([y, x], [x])([1, 2])[1].tolist() == [1, 2]
        assert sess.make_callable(y.op, [x])([1, 2]) is None
        options = config_pb2.CallableOptions(feed=[x.name], fetch=[y.name])
        assert sess._make_callable_from_options(options)([1, 2])[0].tolist() == [3, 5]
    kind, text = raised(call, [1, 2])
    assert kind is RuntimeError and "closed Session" in text


@ANYWHERE
def test_stages(place):
    a, b = tf.placeholder(tf.float32, [], name="a"), tf.placeholder(tf.float32, [], name="b")
    with tf.device(place.device):
        c = a + 1.0
    d = c * b
    count = tf.get_variable(f"count_{place.name}", initializer=0.0, use_resource=True)
    with tf.control_dependencies([c]):
        counted = count.assign_add(1.0, read_value=False)
    with place.session() as sess:
        sess.run(count.initializer)
        for k in range(2):
            handle = sess.partial_run_setup([c, d, counted], [a, b])
            for what, words in (((d, {b: 1.0}), "Feed a:0 first"), ((d.op.inputs[1], {}), "not specified"),
                                ((c, {d: 1.0}), "feed .* was not specified")):
                with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                    sess.partial_run(handle, *what)
            if k == 0:                      # b came with the first wrong one, or did not: at no place
                assert sess.partial_run(handle, c, {a: 2.0}) == 3
                with pytest.raises(tf.errors.InvalidArgumentError, match="already been fed"):
                    sess.partial_run(handle, d, {a: 2.0})
                with pytest.raises(tf.errors.InvalidArgumentError, match="already been fetched"):
                    sess.partial_run(handle, c)
        handle = sess.partial_run_setup([c, d, counted], [a, b])
        assert sess.partial_run(handle, [c, counted], {a: 2.0}) == [3, None]
        assert sess.partial_run(handle, d, {b: 4.0}) == 12
        with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup'"):
            sess.partial_run(handle, d)             # all of it was fetched
        assert sess.run(count) == 2


# ---------------------------------------------------------------- failures

@ANYWHERE
def test_a_kernel_fails(place):
    """The class, the op, and the line of this file."""
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.device(place.device):
        bad = tf.check_numerics(x, "not a number", name="bad")          # this line
    y = bad + 1.0
    with place.session() as sess:
        for call in (lambda: sess.run(y, {x: [1, np.nan]}), lambda: sess.make_callable(y, [x])([1, np.nan]),
                     lambda: sess.run(y, {x: [1, np.nan]}, tf.RunOptions(timeout_in_ms=60000)),
                     lambda: sess.partial_run(sess.partial_run_setup(y, [x]), y, {x: [1, np.nan]})):
            with pytest.raises(tf.errors.InvalidArgumentError) as caught:
                call()
            assert caught.value.op is bad.op, place.name
            text = str(caught.value)
            assert "not a number" in text and "CheckNumerics node 'bad' made at" in text
            assert "test_contract.py:" in text and "# this line" in text
        assert sess.run(y, {x: [1, 2]}).tolist() == [2, 3]


@ANYWHERE
def test_closed_while_it_runs(place):
    wait, queue = blocked(place)
    sess = place.session()
    sess.run(queue.size())
    plan, _ = plan_of(sess, wait)
    running, found = plan.start(), []
    thread = threading.Thread(target=lambda: found.append(raised(sess.run, wait)))
    thread.start()
    time.sleep(0.05)
    sess.close()
    thread.join(30)
    assert found[0][0] is tf.errors.CancelledError, found
    with pytest.raises(runtime.executor().StepError) as caught:
        running.result(20)
    assert caught.value.code == tf.errors.CANCELLED
    sess.close()
    for call in (lambda: sess.run(wait), lambda: sess.make_callable(wait), sess.list_devices,
                 sess.random_state, lambda: sess.partial_run_setup([wait])):
        kind, text = raised(call)
        assert kind is RuntimeError and "closed Session" in text and "test_contract.py" in text


@ANYWHERE
def test_abandoned(place):
    """A session that nobody closed ends: what ran for it, too."""
    wait, _ = blocked(place)
    x, y = doubled(place)
    sess = place.session()
    assert sess.run(y, {x: [1, 2]}).tolist() == [3, 5]
    running = plan_of(sess, wait)[0].start()
    del sess
    gc.collect()
    with pytest.raises(runtime.executor().StepError) as caught:
        running.result(20)
    assert caught.value.code in (tf.errors.CANCELLED, tf.errors.ABORTED)


# ---------------------------------------------------------------- state

@ANYWHERE
def test_state_between_steps(place):
    with tf.device(place.device):
        v = tf.get_variable(f"v_{place.name}", initializer=np.float32(1), use_resource=True)
        noise = tf.random_uniform([2], seed=5, name="noise")
    with tf.container("contract"):
        w = tf.get_variable(f"w_{place.name}", initializer=np.float32(1), use_resource=True)
    grow = v.assign_add(w)
    with place.session() as sess:
        kind, text = raised(sess.run, v)
        assert kind is tf.errors.FailedPreconditionError and f"v_{place.name}" in text
        sess.run(tf.global_variables_initializer())
        assert [sess.run(grow) for _ in range(3)] == [2, 3, 4]
        first = sess.run(noise)
        kept = sess.random_state()
        assert list(kept) == ["noise/RandomUniform"]
        second = sess.run(noise)
        sess.set_random_state(kept)
        assert sess.run(noise).tolist() == second.tolist() != first.tolist()
        sess._state.seek(7, 1, everywhere=True)
        there = sess.run(noise)
        sess.run(noise)
        sess._state.seek(7, 1, everywhere=True)
        assert sess.run(noise).tolist() == there.tolist()
        with pytest.raises(ValueError):
            sess.set_random_state({"nothing": next(iter(kept.values()))})


@ANYWHERE
def test_the_graph_grows_and_changes(place):
    x, y = doubled(place)
    with place.session() as sess:
        assert sess.run(y, {x: [1, 2]}).tolist() == [3, 5]
        with tf.device(place.device):
            z = y * 10.0
        assert sess.run(z, {x: [1, 2]}).tolist() == [30, 50]
        y.op._update_input(1, tf.constant([5.0, 5.0]))
        assert sess.run(y, {x: [1, 2]}).tolist() == [7, 9]
        assert sess.run(z, {x: [1, 2]}).tolist() == [70, 90]


@ANYWHERE
def test_many_at_once(place):
    x, y = doubled(place)
    wrong = []

    def work(k):
        for i in range(20):
            got = sess.run(y, {x: [k, i]}).tolist()
            if got != [2 * k + 1, 2 * i + 1]:
                wrong.append((k, i, got))
    with place.session() as sess:
        plan, _ = plan_of(sess, y, {x: [1, 2]})
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        begun = [plan.start([np.full(2, k, np.float32)]) for k in range(20)]
        assert [r.result(30)[0][0] for r in begun] == [2 * k + 1 for k in range(20)]
        for thread in threads:
            thread.join(30)
        assert not wrong


@ANYWHERE
def test_watched(place):
    x, y = doubled(place)
    looks = []
    with place.session() as sess:
        assert sess.run_watched(y, {x: [1, 2]}, lambda: looks.append(1), 5.0).tolist() == [3, 5]
        wait, _ = blocked(place)

        def look():
            raise KeyError("enough")
        with pytest.raises(KeyError, match="enough"):
            sess.run_watched(wait, {}, look, 0.02)


def test_options_are_typed():
    for make in (lambda: contract.PlanOptions(threads="2"), lambda: contract.PlanOptions(inline=1),
                 lambda: contract.RunOptions(timeout_ms=1.5), lambda: contract.RunOptions(keep=None),
                 lambda: contract.RunOptions(timeout=5), lambda: contract.PlanOptions(fast=True),
                 lambda: contract.CompileOptions(plan={}), lambda: contract.CompileOptions(debug="1"),
                 lambda: contract.CompileOptions().of_plan(unknown=1)):
        with pytest.raises(TypeError):
            make()
    for make in (lambda: contract.PlanOptions(threads=-1), lambda: contract.RunOptions(timeout_ms=-1),
                 lambda: contract.RunOptions(timeout_ms=2**62),
                 lambda: contract.CompileOptions(partitions="three")):
        with pytest.raises(ValueError):
            make()
    with pytest.raises(AttributeError):
        contract.RunOptions().keep = True
    executor = runtime.start()
    with pytest.raises(TypeError, match="PlanOptions of pyflow.session.contract"):
        executor.compile(b"", {}, executor.State("s"), runtime.pool(1), {"threads": 1})
    x = tf.constant(1.0) + 1.0
    with tf.Session() as sess:
        plan, _ = plan_of(sess, x)
        for wrong in (contract.RunOptions(trace=5), contract.RunOptions(cancel=5),
                      contract.RunOptions(rendezvous="r"), contract.RunOptions(inspect=[])):
            with pytest.raises(TypeError):
                plan.run([], wrong)
        with pytest.raises(ValueError, match="begun"):
            plan.start([], contract.RunOptions(stats={}))
        with pytest.raises(ValueError, match="key"):
            plan.start([], key=(1, 2))
        with pytest.raises(ValueError, match="BY_POOL"):
            plan.start([], by=3)


def test_the_implementations_take_the_contracts_arguments():
    """By name and order, with the contract's defaults; what they take besides has a default."""
    checked = 0
    for base in (contract.Place, contract.State, contract.Compiler, contract.Plan, contract.Running,
                 contract.PartialRun, contract.Worker):
        for kind in base.__subclasses__():
            if not kind.__module__.startswith("pyflow."):
                continue
            for name in base.__abstractmethods__:
                wanted = list(inspect.signature(getattr(base, name)).parameters.values())
                found = list(inspect.signature(getattr(kind, name)).parameters.values())
                checked += 1
                where = f"{kind.__module__}.{kind.__name__}.{name}"
                assert [p.name for p in found[:len(wanted)]] == [p.name for p in wanted], where
                for ours, theirs in zip(wanted, found):
                    assert (theirs.default is inspect.Parameter.empty) == (
                        ours.default is inspect.Parameter.empty), (where, ours.name)
                assert all(p.default is not inspect.Parameter.empty for p in found[len(wanted):]), where
    assert checked > 60


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_reset(place):
    """Last of all: it ends the server's sessions."""
    with tf.container("to be reset"):
        v = tf.get_variable("v", initializer=np.float32(1), use_resource=True)
    sess = place.session()
    sess.run(v.initializer)
    assert sess.run(v) == 1
    tf.Session.reset(place.target, ["to be reset"])
    kind, _ = raised(sess.run, v)
    assert kind in ((RuntimeError,) if place.name == "process" else (tf.errors.AbortedError,))
    with place.session() as again:
        kind, _ = raised(again.run, v)
        assert kind is tf.errors.FailedPreconditionError
