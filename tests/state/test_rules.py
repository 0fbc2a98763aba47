"""The rules of reading and updating variables (docs/state.md), under many threads and
steps at once.

Counts are integers, or floats that are exact, so a lost update shows.  Torn reads show in arrays
whose elements must all be equal.
"""
import threading
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow.session import contract

THREADS, STEPS = 8, 150
FAMILIES = ["ref", "resource"]
POOLS = {"one pool": dict(threads=4), "alone": dict(threads=1)}


@pytest.fixture(params=FAMILIES)
def variable(request):
    """variable(name, value): of the family under test."""
    resource = request.param == "resource"
    return lambda name, value: tf.get_variable(name, initializer=value, use_resource=resource)


@pytest.fixture(params=POOLS)
def pool(request):
    return POOLS[request.param]


def repeated(function, times=STEPS):
    def work():
        for _ in range(times):
            function()
    return work


# ---------------------------------------------------------------- no update is lost
def test_adds_of_many_threads_are_all_counted(variable, pool, together):
    """Every update is atomic whatever `use_locking` says."""
    a, b = variable("a", np.zeros(3, np.int64)), variable("b", np.zeros((), np.int32))
    x = tf.placeholder(tf.int64, [3])
    add, sub = tf.assign_add(a, x), tf.assign_sub(b, 1)
    with tf.Session(**pool) as session:
        session.run(tf.global_variables_initializer())
        together(*[repeated(lambda k=k: session.run([add.op, sub.op], {x: np.full(3, k)}))
                   for k in range(THREADS)])
        assert session.run(a).tolist() == [STEPS * sum(range(THREADS))] * 3
        assert session.run(b) == -STEPS * THREADS


@pytest.mark.parametrize("locking", [False, True])
def test_asynchronous_sgd_loses_no_update(variable, pool, together, locking):
    """Eight threads, each with minibatches of its own, on one set of weights: gradients of -1 at a
    rate of 1/4, so exact."""
    w, b = variable("w", np.zeros([64, 33], np.float32)), variable("b", np.zeros(33, np.float32))
    x = tf.placeholder(tf.float32, [64])
    loss = -tf.reduce_sum(tf.matmul(tf.expand_dims(x, 0), w) + b)
    train = tf.train.GradientDescentOptimizer(0.25, use_locking=locking).minimize(loss)
    with tf.Session(**pool) as session:
        session.run(tf.global_variables_initializer())
        together(*[repeated(lambda: session.run(train, {x: np.ones(64)})) for _ in range(THREADS)])
        for value in session.run([w, b]):
            np.testing.assert_array_equal(value, 0.25 * STEPS * THREADS)


def test_momentum_and_its_slot_move_together(variable, pool, together):
    """One call locks both: with momentum 1 and gradients of -1, after n updates the slot is -n and
    the weight n(n+1)/2."""
    w = variable("w", np.zeros(1000, np.float64))
    train = tf.train.MomentumOptimizer(1.0, 1.0).apply_gradients([(tf.constant(-np.ones(1000)), w)])
    [slot] = [v for v in tf.global_variables() if "Momentum" in v.name]
    n = THREADS * 60
    with tf.Session(**pool) as session:
        session.run(tf.global_variables_initializer())
        together(*[repeated(lambda: session.run(train), 60) for _ in range(THREADS)])
        weight, moved = session.run([w, slot])
        assert set(moved) == {-n} and set(weight) == {n * (n + 1) / 2}


@pytest.mark.parametrize("kind", ["add", "sub", "sparse"])
def test_rows_updated_by_many_threads(variable, pool, together, kind):
    w = variable("w", np.zeros([20, 7], np.float32))
    rows, update = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None, 7])
    if kind == "sparse":
        grad = tf.IndexedSlices(-update, rows)
        step = tf.train.GradientDescentOptimizer(1.0).apply_gradients([(grad, w)])
    else:
        scatter, sign = (tf.scatter_add, 1.0) if kind == "add" else (tf.scatter_sub, -1.0)
        step = scatter(w, rows, sign * update)
        step = getattr(step, "op", step)
    rng = np.random.RandomState(3)
    chosen = [rng.randint(0, 20, [STEPS, 5]) for _ in range(THREADS)]

    def work(mine):
        for picked in mine:
            session.run(step, {rows: picked, update: np.ones([5, 7])})
    with tf.Session(**pool) as session:
        session.run(tf.global_variables_initializer())
        together(*[lambda mine=mine: work(mine) for mine in chosen])
        counts = np.bincount(np.concatenate(chosen).ravel(), minlength=20)
        np.testing.assert_array_equal(session.run(w), np.repeat(counts[:, None], 7, 1))


def test_count_up_to_gives_every_number_once(together):
    counter = tf.Variable(0, use_resource=False)
    step = tf.count_up_to(counter, THREADS * STEPS)
    with tf.Session(threads=2) as session:
        session.run(tf.global_variables_initializer())
        got = together(*[lambda: [session.run(step) for _ in range(STEPS)] for _ in range(THREADS)])
        assert sorted(np.ravel(got)) == list(range(THREADS * STEPS))
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(step)


def test_updates_that_lock_two_variables_in_both_orders_do_not_deadlock(pool, together):
    """Momentum locks (weight, slot); with the roles exchanged in other threads the host's order is
    still one order."""
    a, b = (tf.Variable(np.zeros(64, np.float32), use_resource=True, name=n) for n in "ab")
    apply = tf.raw_ops.ResourceApplyMomentum
    one = np.ones(64, np.float32)
    forth = apply(var=a.handle, accum=b.handle, lr=0.0, grad=one, momentum=1.0)
    back = apply(var=b.handle, accum=a.handle, lr=0.0, grad=one, momentum=1.0)
    with tf.Session(**pool) as session:
        session.run(tf.global_variables_initializer())
        together(*[repeated(lambda op=op: session.run(op))
                   for op in (forth, back) * (THREADS // 2)])
        np.testing.assert_array_equal(session.run([a, b]), STEPS * THREADS / 2)


# ---------------------------------------------------------------- a read is one value
WIDE = 300_000                          # elements: an update is divided among threads


def is_whole(value):
    return (value == value.flat[0]).all()


@pytest.mark.parametrize("update", ["assign", "add", "momentum"])
def test_a_read_beside_updates_sees_one_whole_value(variable, together, update):
    w = variable("w", np.zeros(WIDE, np.float32))
    x = tf.placeholder(tf.float32, ())
    if update == "assign":
        step = tf.assign(w, tf.fill([WIDE], x)).op
    elif update == "add":
        step = tf.assign_add(w, tf.fill([WIDE], x)).op
    else:
        step = tf.train.MomentumOptimizer(1.0, 0.5).apply_gradients([(tf.fill([WIDE], x), w)])
    seen = tf.identity(w), tf.reduce_min(w), tf.reduce_max(w)
    stop = threading.Event()

    def write(k):
        n = 0
        while not stop.is_set():
            session.run(step, {x: float(n % 7 + k)})
            n += 1
        return n

    def read():
        kept = []
        for _ in range(30):
            value, low, high = session.run(seen)
            assert is_whole(value)
            kept.append(value)
        assert all(map(is_whole, kept))

    def read_all():
        try:
            together(read, read)
        finally:
            stop.set()
    with tf.Session(threads=3) as session:
        session.run(tf.global_variables_initializer())
        _, *written = together(read_all, *[lambda k=k: write(k) for k in range(3)])
        assert min(written) > 0


def test_reads_through_control_dependencies_see_what_came_before(variable, pool, together):
    """read_value under control_dependencies([update]) holds this step's update at least."""
    w = variable("w", np.zeros((), np.int64))
    before = w.read_value() + 0
    with tf.control_dependencies([before]):
        add = tf.assign_add(w, 1).op
    with tf.control_dependencies([add]):
        after = w.read_value() + 0

    def work():
        last = 0
        for _ in range(STEPS):
            a, b = session.run([before, after])
            assert last <= a < b, (last, a, b)
            last = b
    with tf.Session(**pool) as session:
        session.run(tf.global_variables_initializer())
        together(*[work] * THREADS)
        assert session.run(w) == STEPS * THREADS


# ---------------------------------------------------------------- what was fetched, what is fed
@pytest.mark.parametrize("size", [3, 5000])
def test_a_fetched_value_never_changes(variable, together, size):
    """Neither by later steps, nor by those that run meanwhile; nor does writing into it change
    anything else."""
    w = variable("w", np.zeros(size, np.float32))
    add = tf.assign_add(w, tf.ones([size])).op
    fetches = [w, tf.identity(w), tf.reshape(w, [size, 1])]
    with tf.Session(threads=2) as session:
        session.run(tf.global_variables_initializer())

        def work():
            kept = []
            for _ in range(40):
                values = session.run(fetches)
                kept += [(value, value.copy()) for value in values]
                session.run(add)
            return kept
        kept = sum(together(*[work] * 4), [])
        for value, copy in kept:
            np.testing.assert_array_equal(value, copy)
            assert is_whole(value)
        for value in session.run(fetches):
            value[:] = -1
        again = session.run(fetches)
        np.testing.assert_array_equal(again[0], 160)
        again[0][:], again[1][:] = 1, 2
        assert set(again[0]) == {1} and set(again[1]) == {2} and set(again[2].ravel()) == {160}


def test_constants_and_feeds_stay_the_users_own(variable):
    size = 5000
    c, x = tf.constant(np.ones(size, np.float32)), tf.placeholder(tf.float32, [size])
    w = variable("w", np.zeros(size, np.float32))
    keep, add = tf.assign(w, x).op, tf.assign_add(w, c).op
    fed = np.full(size, 3, np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for value in session.run([c, tf.identity(c)]):
            value[:] = 9
        session.run(keep, {x: fed})
        fed[:] = 5
        session.run(add)
        assert set(session.run(w)) == {4} and set(fed) == {5} and set(session.run(c)) == {1}
        fetched, same = session.run([tf.identity(x), x], {x: fed})
        fetched[:] = 7
        assert set(fed) == {5}
        fed.flags.writeable = False
        np.testing.assert_array_equal(session.run(tf.square(x) + x, {x: fed}), 30)


def test_two_variables_made_from_one_value_are_two(variable):
    start = tf.ones([2000])
    a, b = variable("a", start), variable("b", start)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.assign_add(a, start).op)
        session.run(tf.assign(b, a).op)
        session.run(tf.assign_add(a, a).op)
        assert [set(v) for v in session.run([a, b])] == [{4}, {2}]


# ---------------------------------------------------------------- initialisation, sessions
def test_readers_race_with_the_initializer(variable, together):
    """A reader finds no value, with an error that says so, or the whole first value."""
    w = variable("w", np.full(WIDE, 7, np.float32))
    ready = tf.is_variable_initialized(w)

    def read():
        for _ in range(2000):
            try:
                value = session.run(w)
            except tf.errors.FailedPreconditionError as error:
                assert "uninitialized" in str(error)
                continue
            assert is_whole(value) and value[0] == 7 and session.run(ready)
            return True
        return False
    for _ in range(3):
        with tf.Session(threads=2) as session:
            init = tf.group(w.initializer)
            assert all(together(read, read, *[lambda: session.run(init) is None] * 2))


def test_sessions_share_a_named_container(variable, together):
    with tf.container("shared_by_tests"):
        w = variable("w", np.zeros(100, np.int64))
    own = variable("own", np.zeros((), np.int64))
    step = tf.group(tf.assign_add(w, tf.ones([100], tf.int64)).op, tf.assign_add(own, 1).op)
    try:
        with tf.Session(threads=1) as a, tf.Session(threads=3) as b:
            a.run(w.initializer)
            together(lambda: a.run(own.initializer), lambda: b.run(own.initializer))
            together(*[repeated(lambda s=s: s.run(step)) for s in (a, b) * 4])
            for session in (a, b):
                assert set(session.run(w)) == {STEPS * 8} and session.run(own) == STEPS * 4
        with tf.Session() as c:
            assert set(c.run(w)) == {STEPS * 8}
            tf.Session.reset("", ["shared_by_tests"])
        with tf.Session() as d, pytest.raises(tf.errors.FailedPreconditionError):
            d.run(w)
    finally:
        tf.Session.reset("", ["shared_by_tests"])


def test_one_session_on_several_pools(variable, together):
    config = tf.ConfigProto()
    for threads in (1, 2, 3):
        config.session_inter_op_thread_pool.add(num_threads=threads)
    w = variable("w", np.zeros(WIDE, np.int32))
    step = tf.assign_add(w, tf.ones([WIDE], tf.int32)).op
    with tf.Session(config=config) as session:
        session.run(tf.global_variables_initializer())

        def work(k):
            for _ in range(20):
                session.run(step, options=tf.RunOptions(inter_op_thread_pool=k))
        together(*[lambda k=k: work(k) for k in (0, 1, 2, -1, 0, 1, 2, -1)])
        assert set(session.run(w)) == {160}


def test_random_numbers_of_concurrent_steps_are_all_different(pool, together):
    """One op, one stream: concurrent steps draw consecutive parts of it."""
    tf.set_random_seed(5)
    draw = tf.random_uniform([50], maxval=2 ** 62, dtype=tf.int64)
    with tf.Session(**pool) as session:
        drawn = together(*[lambda: [session.run(draw) for _ in range(40)]] * THREADS)
        got = np.concatenate(sum(drawn, []))
    with tf.Session(threads=1) as session:
        want = np.concatenate([session.run(draw) for _ in range(40 * THREADS)])
    assert len(set(got)) == len(got) and set(got) == set(want)


# ---------------------------------------------------------------- cancelled steps
@pytest.mark.alone
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("update", ["add", "sgd"])
def test_a_cancelled_step_updates_a_variable_whole_or_not_at_all(variable, update, threads):
    """Cancelled while one of several updates runs: it is finished, or has not begun."""
    from pyflow import _executor
    wide = 3_000_000
    w = variable("w", np.zeros(wide, np.float32))
    one = tf.constant(np.ones(wide, np.float32))
    step = tf.no_op()
    for _ in range(8):
        with tf.control_dependencies([step]):
            step = (tf.assign_add(w, one).op if update == "add" else
                    tf.train.GradientDescentOptimizer(1.0).apply_gradients([(-one, w)]))
    low, high = tf.reduce_min(w), tf.reduce_max(w)
    with tf.Session(threads=threads) as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        start = time.perf_counter()
        session.run(step)
        lasts = time.perf_counter() - start
        plan = session._compiler.compile([], [step], []).plan
        cancelled = tries = 0
        while cancelled < 8 and tries < 200:
            tries += 1
            token = _executor.CancelToken()
            timer = threading.Timer(lasts * (tries % 20) / 25, token.cancel)
            timer.start()
            try:
                plan.run((), contract.RunOptions(cancel=token))
            except _executor.StepError:
                cancelled += 1
            timer.join()
            a, b = session.run([low, high])
            assert a == b, f"a mix of {a} and {b} after {tries} steps"
    assert cancelled == 8
