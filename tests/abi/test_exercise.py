"""Every function of kernel.h, called by a C plugin (exercise/) that is built here and loaded by
path.

One test per group of functions; what each kernel does is told beside it in exercise/*.c.
"""

import contextlib
import os
import pathlib
import subprocess
import threading

import numpy as np
import pytest
from quiet import clock

import pyflow as tf
from pyflow import plugins
from pyflow.passes import partition

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    target = tmp_path_factory.mktemp("exercise") / "libexercise.so"
    command = [
        "cc",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unused-parameter",
        "-Wno-missing-field-initializers",
        "-g",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-I",
        os.environ.get("PYFLOW_TEST_INCLUDE", HERE.parents[1] / "include"),
        *sorted((HERE / "exercise").glob("*.c")),
        "-o",
        target,
        "-pthread",
    ]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    undefined = subprocess.check_output(["nm", "-D", "--undefined-only", str(target)], text=True)
    assert " pf_" not in undefined, "a plugin needs nothing of the host's symbols"
    tf.load_op_library(str(target))
    return target


@pytest.fixture(autouse=True)
def graph(library):
    with tf.Graph().as_default() as graph:
        yield graph


def op(name):
    return plugins.op("exercise." + name)


def run(fetches, feeds=None, **config):
    with tf.Session(config=tf.ConfigProto(**config)) as session:
        return session.run(fetches, feeds)


def floats(*values):
    return tf.placeholder_with_default(np.float32(values if len(values) != 1 else values[0]), None)


# ---------------------------------------------------------------- basics.c


def test_output_and_scratch():
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    np.testing.assert_array_equal(run(op("Copy")(tf.constant(x))), x)


def test_forward_reuses_what_nobody_else_sees():
    x, again = tf.placeholder(tf.float32, [1000]), tf.placeholder(tf.float32, [1000])
    fed = np.ones(1000, np.float32)
    private = op("Twice")(op("Copy")(x))
    shared = op("Copy")(again)
    of_shared, of_fed = op("Twice")(shared), op("Twice")(x)
    found = run(
        [private.y, private.in_place, of_shared.y, shared, of_fed.y, of_fed.in_place],
        {x: fed, again: fed},
    )
    assert found[1] == 1
    assert found[5] == 0, "a fed buffer is never written"
    np.testing.assert_array_equal(found[0], 2 * fed)
    np.testing.assert_array_equal(found[2], 2 * fed)
    np.testing.assert_array_equal(found[3], np.ones(1000))
    np.testing.assert_array_equal(fed, np.ones(1000))


def test_alias():
    found = run(
        [op("Flatten")(tf.constant([[1.0, 2.0], [3.0, 4.0]])), op("Flatten")(tf.zeros([2, 0, 3]))]
    )
    assert found[0].tolist() == [1, 2, 3, 4] and found[1].shape == (0,)


def test_set_output_and_retain():
    y, same = run(op("Publish")(tf.constant([5.0, 6.0])))
    assert y.tolist() == [[0, 1, 4], [9, 16, 25]] and same.tolist() == [5, 6]


def test_a_failure_names_op_node_and_line():
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="exercise refuses on purpose"
    ) as caught:
        run(op("Refuse")(tf.constant(1.0), name="mine"))
    assert (
        "mine" in str(caught.value)
        and "exercise.Refuse" in str(caught.value)
        and "test_exercise.py" in str(caught.value)
    )


def test_attributes_of_every_kind():
    text = run(
        op("Describe")(
            i=-7,
            f=0.5,
            b=True,
            s="s p",
            t=tf.int64,
            sh=[2, None],
            te=np.float32([1, 2.5, 3]),
            fn="my_function",
            li=[1, -2],
            lf=[0.25],
            lb=[True, False],
            ls=["a", "", "bc"],
            lt=[tf.float32, tf.string],
            lsh=[[1], [], None],
        )
    )
    assert text.decode() == (
        "i=-7 f=0.5 b=1 s=s p t=9 sh=[2,-1] te=1:3:2.5 fn=my_function li=1,-2, lf=0.25, lb=1,0, ls=a,,bc, "
        "lt=1,7, lsh=[1][][?] d=42"
    )


def test_lists_of_arguments():
    ys, types = op("Reversed")(
        [tf.constant(1.0), tf.constant([2.0]), tf.constant([[3.0]])],
        [tf.constant(1), tf.constant("s")],
    )
    found = run([*ys, types])
    assert [v.tolist() for v in found[:3]] == [[[3]], [2], 1] and found[3] == 3 * 100 + 7


def test_strings():
    long = "x" * 1000
    assert run(op("Shout")(tf.constant([["abc", ""], [long, "é"]]))).tolist() == [
        [b"ABC", b""],
        [b"X" * 1000, "é".encode()],
    ]


@pytest.mark.parametrize("times", [0, 1, 300])
def test_strings_are_set_again_and_again(times):
    """By several threads at once; what they replace does not pile up and is all given back."""
    from pyflow import _executor

    rng = np.random.default_rng(times)
    values = [bytes(rng.integers(0, 256, rng.integers(0, 60), np.uint8)) for _ in range(700)]
    x = tf.placeholder(tf.string, [None])
    y = op("Rewrite")(x, times=times)
    config = tf.ConfigProto(intra_op_parallelism_threads=4)
    with tf.Session(config=config) as session:
        session.run(y, {x: values})
        before = _executor.memory_stats()["in_use"]
        _executor.reset_peak()
        found = session.run(y, {x: values})
        stats = _executor.memory_stats()
    assert found.tolist() == [v[1:] if len(v) > 1 else v for v in values]
    assert stats["in_use"] == before
    assert stats["peak"] - before < 700 * 6000 + (1 << 20), "the values of one moment, no more"


def test_constants_are_seen_in_init_and_dropped():
    fed = tf.placeholder(tf.float32, [])
    known, unknown = op("Scale")(fed, tf.constant(4.0)), op("Scale")(fed, fed)
    before = run(op("Finished")())
    found = run([known.y, known.dropped, unknown.y, unknown.dropped], {fed: 3.0})
    assert [float(v) for v in found] == [12, 1, 9, 0]
    assert run(op("Finished")()) >= before + 2, "fini runs when the plan goes"


def test_selection_declines_and_needs():
    assert run([op("Choice")(rank=0), op("Choice")(rank=1)]) == [b"first", b"second"]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_parallel_for(threads):
    x = np.ones(100_000, np.float32)
    assert (
        run(
            op("ParallelSum")(tf.constant(x)),
            intra_op_parallelism_threads=threads,
            inter_op_parallelism_threads=threads,
        )
        == 1e5
    )
    assert run(op("ParallelSum")(tf.zeros([0]))) == 0


def test_node_name_and_iteration():
    def body(i, seen):
        here = op("WhereAmI")(tf.cast(i, tf.float32), name="here")
        return i + 1, tf.concat([seen, [here]], 0)

    _, seen = tf.while_loop(
        lambda i, s: i < 3,
        body,
        [0, tf.constant([""])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    found = run([op("WhereAmI")(tf.constant(1.0), name="there"), seen])
    assert found[0].decode().startswith("there|0")
    parts = [v.decode().split("|") for v in found[1][1:]]
    assert [p[1] for p in parts] == ["0", "1", "2"] and all(
        p[0].endswith("here") and p[2] == "1" for p in parts
    )


def test_shape_functions():
    x = tf.placeholder(tf.float32, [3])
    assert op("Repeat")(x, tf.constant(2)).shape.as_list() == [6]
    assert op("Repeat")(x, tf.placeholder(tf.int32, [])).shape.as_list() == [None]
    assert run(op("Repeat")(tf.constant([1.0, 2.0]), tf.constant(2))).tolist() == [1, 2, 1, 2]
    with pytest.raises(ValueError, match="times exceeds limit"):
        op("Repeat")(x, tf.constant(11))
    assert op("Repeat")(x, tf.constant(11), limit=20).shape.as_list() == [33]


# ---------------------------------------------------------------- async.c


def test_pending_kernels():
    x = tf.constant(10.0)
    assert run([op("Later")(x), op("DoneFirst")(x), op("After")(x), op("Post")(x)]) == [
        11,
        12,
        14,
        11,
    ]
    chain = x
    for _ in range(20):
        chain = op("DoneFirst")(op("Later")(chain, ms=0))
    assert run(chain) == 10 + 20 * 3


@pytest.mark.alone
def test_many_pending_at_once_take_the_time_of_one():
    waits = [op("Later")(tf.constant(float(i)), ms=100) for i in range(50)]
    start = clock()
    assert run(tf.add_n(waits), inter_op_parallelism_threads=1) == sum(range(50)) + 50
    assert clock() - start < 2


def test_pending_kernels_in_a_loop():
    any_shape = [tf.TensorShape([]), tf.TensorShape(None)]  # the two ops have no shape function
    _, x = tf.while_loop(
        lambda i, x: i < 30,
        lambda i, x: (i + 1, op("Later")(op("DoneFirst")(x), ms=0)),
        [0, tf.constant(0.0)],
        shape_invariants=any_shape,
    )
    assert run(x) == 90


def test_a_late_failure_and_cancellation():
    before = run(op("CancelledCount")())
    waiting = [
        op("WaitForCancel")(tf.constant(1.0)),
        op("WaitForCancel")(tf.constant(2.0)),
    ]  # built first, so begun first
    with pytest.raises(tf.errors.UnavailableError, match="failed after a while"):
        run([*waiting, op("FailLater")(tf.constant(1.0))])
    assert run(op("CancelledCount")()) == before + 2
    assert run(op("ChangeOfMind")()) == 1


def test_timeout_cancels():
    with tf.Session() as session, pytest.raises(tf.errors.DeadlineExceededError):
        session.run(op("WaitForCancel")(tf.constant(1.0)), options=tf.RunOptions(timeout_in_ms=50))


def test_post_caller_runs_on_the_thread_of_run():
    found = []
    fetch = op("Caller")()
    with tf.Session() as session:

        def work():
            found.append((int(session.run(fetch)) & (2**64 - 1), threading.get_ident()))

        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    assert all(ran == caller for ran, caller in found) and len(found) == 3


def test_dead_tokens():
    p, x = tf.placeholder(tf.bool, []), tf.constant(5.0)
    no, yes = op("Fork")(x, p)
    merged = tf.raw_ops.Merge(inputs=[no * 10, yes * 100])
    asked = [op("WasDead")(no), op("WasDead")(yes), op("WasDead")(op("Die")(x) + 1)]
    with tf.Session() as session:
        for flag in (True, False):
            *dead, value = session.run(asked + [merged.output], {p: flag})
            assert [int(d) for d in dead] == [3 * flag, 3 * (not flag), 3]
            assert value == (500 if flag else 50)
        with pytest.raises(tf.errors.InvalidArgumentError, match="dead"):
            session.run(no, {p: True})


# ---------------------------------------------------------------- state.c


def variable(name, value):
    v = tf.get_variable(name, initializer=np.float32(value), use_resource=True)
    return v, v.handle


def test_variables():
    a, b = variable("a", [1, 2]), variable("b", [10, 20])
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="a"):
            session.run(op("VarBump")(a[1], tf.constant(1.0)))
        assert session.run(op("VarThere")(a[1])) == 0
        session.run(tf.global_variables_initializer())
        assert session.run(op("VarThere")(a[1])) == 1
        before = session.run(a[0])
        session.run(op("VarBump")(a[1], tf.constant(1.0)))
        assert before.tolist() == [1, 2], "a fetched array never changes"
        assert session.run(a[0]).tolist() == [2, 3]
        session.run(op("VarExchange")(a[1], b[1]))
        assert [v.tolist() for v in session.run([a[0], b[0]])] == [[10, 20], [2, 3]]
        session.run(op("VarExchange")(b[1], a[1]))
        session.run(op("VarSet")(a[1], tf.constant([7.0, 8.0])))
        value, there = session.run(op("VarLook")(a[1]))
        assert value.tolist() == [7, 8] and there == 1


def test_a_variable_made_by_a_kernel():
    handle = op("Variable")()
    with tf.Session() as session:
        session.run(op("VarSet")(handle, tf.constant([3.0, 4.0])))
        assert session.run(op("VarLook")(handle))[0].tolist() == [3, 4]


def test_concurrent_updates_of_two_variables():
    a, b = variable("a", [0.0, 0.0]), variable("b", [0.0, 0.0])
    one, two = op("VarExchange")(a[1], b[1]), op("VarExchange")(b[1], a[1])
    bump = tf.group(op("VarBump")(a[1], tf.constant(1.0)), op("VarBump")(b[1], tf.constant(1.0)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = [
            threading.Thread(target=lambda f=f: [session.run(f) for _ in range(50)])
            for f in (one, two, bump, bump)
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sum(v.sum() for v in session.run([a[0], b[0]])) == 400


def test_resources():
    counter, step_counter, missing = op("Counter")(), op("StepCounter")(), op("Missing")()
    with tf.Session() as session:
        assert [int(session.run(counter)) for _ in range(3)] == [1, 2, 3]
        assert [int(session.run(step_counter)) for _ in range(3)] == [101, 101, 101]
        assert sorted(session.run([step_counter, op("StepCounter")()])) == [
            101,
            102,
        ], "one step shares it"
        assert session.run(missing) == tf.errors.NOT_FOUND
        with pytest.raises(tf.errors.InvalidArgumentError, match="exercise.(Box|Other)"):
            session.run(op("WrongType")())
    assert run(op("Counter")()) == 1, "another session, another container"


def test_resource_handles():
    box = op("NewBox")()
    before = int(run(op("Freed")())) // 1000
    first = op("OpenBox")(box)
    with tf.control_dependencies([first]):
        second = op("OpenBox")(box)
    assert [int(v) for v in run([first, second])] == [8, 9]
    assert int(run(op("Freed")())) // 1000 >= before + 1, "a step's resource goes with the step"
    named = op("NamedBox")()
    with tf.Session() as session:
        assert [int(session.run(op("OpenBox")(named))) for _ in range(2)] == [21, 22]
        session.run(op("DeleteBox")(named))
        assert session.run(op("OpenBox")(named)) == 21


def test_reserved_random_counters_never_overlap():
    seeded = op("Reserve")(seed=1, seed2=2)
    _, loop = tf.while_loop(
        lambda i, r: i < 5,
        lambda i, r: (i + 1, tf.concat([r, op("Reserve")(seed=3, seed2=4)[2:3]], 0)),
        [0, tf.zeros([0], tf.uint64)],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )
    with tf.Session() as session:
        rows = [session.run(seeded) for _ in range(3)]
        iterations = session.run(loop)
    assert len({tuple(r[:2]) for r in rows}) == 1
    starts = sorted(int(r[2]) for r in rows)
    assert all(b - a >= 10 for a, b in zip(starts, starts[1:]))
    assert len(set(iterations.tolist())) == 5
    with tf.Session() as session:
        assert (
            session.run(seeded).tolist() == rows[0].tolist()
        ), "the same seeds begin anew in another session"


# ---------------------------------------------------------------- devices.c


@contextlib.contextmanager
def own_transport(*ends):
    """Edges between these types of devices go through exercise.Send and exercise.Recv."""
    old = {
        end: partition.register_transport(*end, "exercise.Send", "exercise.Recv") for end in ends
    }
    try:
        yield
    finally:
        for end, pair in old.items():
            partition.register_transport(*end, *pair)


def test_send_and_recv_are_ordinary_kernels():
    """A pair of kernels written with kernel.h alone, chosen by the partitioner for edges between
    two CPU devices."""
    with own_transport(("CPU", "CPU")):
        with tf.device("/cpu:1"):
            x = tf.placeholder(tf.float32, [3])
            y = x * 2
        with tf.device("/cpu:0"):
            z = y + tf.reduce_sum(y)
        with tf.device("/cpu:1"):
            w = z - y
        before = int(run(op("Transferred")()))
        assert run(w, {x: [1, 2, 3]}, device_count={"CPU": 2}).tolist() == [12, 12, 12]
        moved = int(run(op("Transferred")())) - before
        assert moved >= 2002, "both edges went through the pair"
        dead = tf.cond(
            tf.placeholder_with_default(False, []),
            lambda: two_devices(tf.constant(1.0)),
            lambda: tf.constant(3.0),
        )
        assert run(dead, device_count={"CPU": 2}) == 3, "dead tokens travel too"
        _, v = tf.while_loop(
            lambda i, v: i < 5, lambda i, v: (i + 1, two_devices(v)), [0, tf.constant(1.0)]
        )
        assert run(v, device_count={"CPU": 2}) == 2**5, "a key of its own for each iteration"


def two_devices(x):
    with tf.device("/cpu:1"):
        y = x + x
    with tf.device("/cpu:0"):
        return tf.identity(y)


def test_transport_from_a_progress_thread():
    assert run(op("FromAfar")()) == 77
    with pytest.raises(tf.errors.UnavailableError, match="the peer is gone"):
        run(op("GiveUp")())


def test_a_device_with_host_arguments():
    with tf.device("/device:TOY:1"):
        y, ordinal = op("ToyFill")(tf.constant(2.5), tf.constant(4))
        z = op("ToyNegate")(y)
    with tf.device("/cpu:0"):
        total = tf.reduce_sum(z)
    with own_transport(("CPU", "TOY"), ("TOY", "CPU")):
        found = run([y, ordinal, z, total])
    assert (
        found[0].tolist() == [2.5] * 4
        and found[1] == 1
        and found[2].tolist() == [-2.5] * 4
        and found[3] == -10
    )


def test_an_unknown_device_is_named():
    with tf.device("/device:TOY:7"):
        y = op("ToyNegate")(tf.constant(1.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="TOY:7"):
        run(y)
