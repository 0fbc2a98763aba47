"""Graphs on a device with memory and streams of its own, the fake accelerator, through `import
pyflow as tf`: copies, order, host-memory arguments, sizes known late, memory, control flow,
variables, threads.  Failures are in test_failures.py.

The fixture `fake` checks after each test that nothing is left on the devices and that no rule of
kernel.h was violated; random delays on the streams make a missing wait show.
"""

import threading
import time

import numpy as np
import pytest

import pyflow as tf
from pyflow import _executor, plugins

RNG = np.random.default_rng(0)
EVERYWHERE = ("CPU:0", "FAKE:0", "FAKE:1")


def on(name):
    return tf.device("/device:" + name)


def run(fetches, feeds=None, **config):
    with tf.Session(config=tf.ConfigProto(**config)) as session:
        return session.run(fetches, feeds)


# ---------------------------------------------------------------- copies


DTYPES = ["float32", "float64", "int32", "int64", "bool", "uint8", "float16"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_value_travels_everywhere_and_back(fake, dtype):
    feeds, ends = {}, []
    for shape in [(), (3,), (0,), (2, 0, 3), (300, 200)]:
        x = tf.placeholder(dtype, shape)
        feeds[x] = RNG.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
        for name in ("FAKE:0", "CPU:0", "FAKE:1", "FAKE:0", "CPU:0"):
            with on(name):
                x = tf.reshape(x, tf.shape(x)) if name != "CPU:0" else tf.identity(x)
        ends.append(x)
    for value, found in zip(feeds.values(), run(ends, feeds)):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("can_peer", [1, 0])
def test_between_devices(fake, can_peer):
    fake[0].set(can_peer=can_peer)
    fake[1].set(can_peer=can_peer)
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [100])
        a = x + 1
    with on("FAKE:1"):
        b = a * 2
    value = RNG.standard_normal(100).astype(np.float32)
    np.testing.assert_allclose(run(b, {x: value}), (value + 1) * 2)
    assert fake[1]["copies_peer"] == can_peer
    assert fake[0]["copies_out"] == 1 - can_peer


def test_a_value_stays_where_it_is(fake):
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [4])
        y = x
        for _ in range(10):
            y = tf.tanh(tf.identity(y) * 0.5)
        y = tf.reshape(y, [2, 2])
    run(y, {x: np.ones(4, np.float32)})
    assert fake[0]["copies_in"] <= 3, "x, 0.5 and nothing else"
    assert fake[0]["copies_out"] == 1


def test_a_constant_is_uploaded_once(fake):
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [1000])
        y = x + tf.constant(np.arange(1000, dtype=np.float32))
    with tf.Session() as session:
        for i in range(4):
            found = session.run(y, {x: np.full(1000, i, np.float32)})
            np.testing.assert_array_equal(found, np.arange(1000) + i)
        assert fake[0]["copies_in"] == 5, "the constant, and x four times"


def test_what_the_device_says(fake):
    assert [d[:2] for d in _executor.devices() if d[0] == "FAKE"] == [("FAKE", 0), ("FAKE", 1)]
    fake[1].set(flops=3e12, memory=1 << 27)
    assert _executor.device_info("FAKE", 1, "name") == "fake accelerator 1"
    assert float(_executor.device_info("FAKE", 1, "flops")) == 3e12
    assert int(_executor.device_info("FAKE", 1, "memory")) == 1 << 27
    assert _executor.device_info("FAKE", 1, "colour") is None


# ---------------------------------------------------------------- order


def top(a):
    return tf.slice(a, [0, 0], [2, 4])


class Expression:
    """A random expression over all devices, built and evaluated in NumPy side by side."""

    BINARY = ("add", "multiply", "maximum", "subtract")   # tf.x and np.x
    UNARY = ("tanh", "square", "negative", "abs")

    def __init__(self, rng, fed):
        self.rng = rng
        self.values = list(fed)  # (tensor, array)

    def pick(self):
        return self.values[self.rng.integers(len(self.values))]

    def grow(self):
        kind = self.rng.integers(6)
        (a, va), (b, vb) = self.pick(), self.pick()
        with on(EVERYWHERE[self.rng.integers(3)]):
            if kind <= 1:
                name = self.BINARY[self.rng.integers(4)]
                made = getattr(tf, name)(a, b), getattr(np, name)(va, vb)
            elif kind == 2:
                name = self.UNARY[self.rng.integers(4)]
                made = getattr(tf, name)(a), getattr(np, name)(va)
            elif kind == 3:
                made = tf.matmul(a, b), va @ vb
            elif kind == 4:
                made = (
                    tf.concat([top(a), tf.slice(b, [2, 0], [2, 4])], 0),
                    np.concatenate([va[:2], vb[2:]]),
                )
            else:
                made = (
                    a * tf.reduce_mean(b, 1, keepdims=True),
                    va * vb.mean(1, keepdims=True),
                )
            tensor, array = made
            self.values.append((tf.tanh(tensor), np.tanh(array)))


@pytest.mark.parametrize("seed", range(8))
def test_random_expressions_over_three_devices(fake, seed):
    for device in fake:
        device.set(delay_us=(0, 50, 150, 400)[seed % 4], seed=seed)
    rng = np.random.default_rng(seed)
    feeds, wanted = {}, []
    for _ in range(30):
        fed = []
        for name in EVERYWHERE:
            with on(name):
                fed.append((tf.placeholder(tf.float64, [4, 4]), rng.standard_normal((4, 4))))
        feeds.update(fed)
        expression = Expression(rng, fed)
        for _ in range(8):
            expression.grow()
        wanted += expression.values[-2:]
    with tf.Session() as session:
        for _ in range(2):
            for (_, array), found in zip(wanted, session.run([t for t, _ in wanted], feeds)):
                np.testing.assert_allclose(found, array, rtol=1e-9, atol=1e-12)


@pytest.mark.alone
def test_ok_means_enqueued(fake):
    """Ten slow operations on each of two devices, one executor thread: the devices work at the
    same time, so launching does not wait; and the values are right."""
    busy = plugins.op("fake.Busy")
    x = tf.placeholder(tf.float32, [])
    ends = []
    for name in EVERYWHERE[1:]:
        with on(name):
            y = x
            for _ in range(10):
                y = busy(y, micros=20000) + 1
            ends.append(y)
    with tf.Session(config=tf.ConfigProto(inter_op_parallelism_threads=1)) as session:
        session.run(ends, {x: 0})
        begun = time.monotonic()
        session.run(ends[0], {x: 0})
        one = time.monotonic() - begun
        begun = time.monotonic()
        found = session.run(ends, {x: 1})
        both = time.monotonic() - begun
    assert found == [11, 11] and one >= 0.2
    assert both < 1.7 * one, f"one device takes {one:.3f} s, both take {both:.3f} s"


# ---------------------------------------------------------------- host memory


def test_host_memory_arguments(fake):
    """Axes, shapes and permutations that were computed: on the CPU, on the device, on the other."""
    value = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    for device in fake:
        device.set(delay_us=200)
    x = tf.placeholder(tf.float32, [2, 3, 4])
    numbers = tf.placeholder(tf.int32, [3])
    made = []
    for name in EVERYWHERE:
        with on(name):
            axes = numbers - 1  # 1, 0, 2 on any device
        with on("FAKE:0"):
            made.append(
                [
                    tf.transpose(x, axes),
                    tf.reduce_sum(x, tf.slice(axes, [0], [2])),
                    tf.reshape(x, axes * 2 + [4, 4, -5]),
                    tf.fill(numbers, tf.reduce_max(x)),
                ]
            )
    with tf.Session() as session:
        for _ in range(3):
            for found in session.run(made, {x: value, numbers: [2, 1, 3]}):
                np.testing.assert_array_equal(found[0], value.transpose(1, 0, 2))
                np.testing.assert_allclose(found[1], value.sum((1, 0)), 1e-5, 1e-5)
                np.testing.assert_array_equal(found[2], value.reshape(6, 4, 1))
                np.testing.assert_array_equal(found[3], np.full([2, 1, 3], value.max()))


def test_a_host_output_of_the_stream_is_waited_for(fake):
    host_sum, busy = plugins.op("fake.HostSum"), plugins.op("fake.Busy")
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [5])
        total = host_sum(busy(x, micros=20000))
        again = host_sum(tf.fill(tf.cast(tf.reshape(total, [1]), tf.int32), 2.0))
    with on("CPU:0"):
        on_cpu = total * 2
    with on("FAKE:1"):
        elsewhere = total * 3
    with tf.Session() as session:
        for k in range(3):
            found = session.run([total, on_cpu, elsewhere, again], {x: np.full(5, k, np.float32)})
            assert found == [5 * k, 10 * k, 15 * k, 10 * k]


# ---------------------------------------------------------------- sizes known after device work


def test_where_is_sized_by_the_device(fake):
    fake[0].set(delay_us=300)
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [None, None])
        index = tf.where(x > 0)
        chosen = tf.gather(tf.reshape(x, [-1]), tf.reshape(tf.where(tf.reshape(x, [-1]) > 0), [-1]))
        total = tf.reduce_sum(chosen)
    with tf.Session() as session:
        for shape in [(3, 4), (1, 1), (0, 5), (40, 30)]:
            value = RNG.standard_normal(shape).astype(np.float32)
            found = session.run([index, chosen, total], {x: value})
            np.testing.assert_array_equal(found[0], np.argwhere(value > 0))
            np.testing.assert_array_equal(found[1], value[value > 0])
            np.testing.assert_allclose(found[2], value[value > 0].sum(), rtol=1e-4)


# ---------------------------------------------------------------- memory


def test_frees_are_deferred_in_stream_order(fake):
    """A chain needs two buffers at a time, however slow the device is behind the launches."""
    fake[0].set(delay_us=100, memory=1 << 20)
    with on("FAKE:0"):
        x = y = tf.placeholder(tf.float32, [50000])  # 200 kB
        for _ in range(60):
            y = tf.reshape(y + x, [50000])
    found = run(y, {x: np.ones(50000, np.float32)})
    assert found.tolist() == [61.0] * 50000
    assert fake[0]["bytes_peak"] <= 1 << 20


def test_out_of_memory(fake):
    fake[0].set(memory=1 << 20)
    x = tf.placeholder(tf.int32, [])
    with on("FAKE:0"):
        y = tf.fill(tf.reshape(x, [1]), 1.5, name="huge")
    with tf.Session() as session:
        with pytest.raises(tf.errors.ResourceExhaustedError) as caught:
            session.run(y, {x: 300000})
        for word in ("huge", "[300000]", "float", "FAKE:0"):
            assert word in str(caught.value), f"{word} is not in: {caught.value}"
        assert session.run(y, {x: 3}).tolist() == [1.5] * 3
        for _ in range(20):
            with pytest.raises(tf.errors.ResourceExhaustedError):
                session.run(y, {x: 300000})
        assert session.run(y, {x: 100000}).tolist() == [1.5] * 100000


def test_the_core_keeps_a_limit(fake):
    _executor.device_limit("FAKE", 0, 1 << 20)
    try:
        with on("FAKE:0"):
            y = tf.fill([300000], tf.constant(1.5), name="huge")
        with pytest.raises(tf.errors.ResourceExhaustedError, match="300000"):
            run(y)
    finally:
        _executor.device_limit("FAKE", 0, 0)
    assert run(y)[7] == 1.5
    assert fake[0]["failed_allocs"] == 0


def test_memory_that_is_only_pending_is_waited_for(fake):
    """Room for three buffers: the second half must wait for frees that the stream has yet to do."""
    fake[0].set(memory=900_000, delay_us=500)
    busy = plugins.op("fake.Busy")
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [50000])
        y = x
        for _ in range(8):
            y = tf.negative(busy(y, micros=3000))
    with tf.Session() as session:
        for _ in range(3):
            assert session.run(y, {x: np.ones(50000, np.float32)}).sum() == 50000
    assert fake[0]["bytes_peak"] <= 900_000


# ---------------------------------------------------------------- control flow


@pytest.mark.parametrize("delay", [0, 100])
def test_while_loops(fake, delay):
    for device in fake:
        device.set(delay_us=delay)
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [3])
        _, total = tf.while_loop(lambda i, t: i < 20, lambda i, t: (i + 1, t * 0.5 + x), [0, x])
        slope = tf.gradients(total, x)[0]

    def nested(i, t):
        with on("FAKE:1"):
            _, t = tf.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u + 1), [0, t])
        return i + 1, t

    with on("FAKE:0"):
        _, counted = tf.while_loop(lambda i, t: i < 6, nested, [0, tf.constant(0.0)])
    found = run([total, slope, counted], {x: [1, 2, 3]})
    wanted = np.float32([1, 2, 3])
    for _ in range(20):
        wanted = wanted * 0.5 + np.float32([1, 2, 3])
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
    np.testing.assert_allclose(found[1], [2 - 0.5**20] * 3, rtol=1e-5)
    assert found[2] == 15


def test_conds(fake):
    x = tf.placeholder(tf.float32, [2])
    made = []
    for name in EVERYWHERE:
        with on(name):
            wanted = tf.reduce_sum(x) > 0
        with on("FAKE:0"):
            made.append(tf.cond(wanted, lambda: x * 2, lambda: -x))
        with on("FAKE:1"):
            made.append(tf.cond(wanted, lambda: tf.constant(5.0), lambda: tf.reduce_max(x)))
    with tf.Session() as session:
        for _ in range(3):
            for value in ([1, 2], [-1, -2]):
                found = session.run(made, {x: value})
                for k in range(0, 6, 2):
                    assert found[k].tolist() == ([2, 4] if value[0] > 0 else [1, 2])
                    assert found[k + 1] == (5 if value[0] > 0 else -1)


# ---------------------------------------------------------------- variables and training


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables_live_on_the_device(fake, use_resource):
    for device in fake:
        device.set(delay_us=100)
    with on("FAKE:0"):
        v = tf.get_variable("v", initializer=np.float32([1, 2]), use_resource=use_resource)
        bump = v.assign_add([1.0, 1.0])
        drop = v.assign_sub([0.5, 0.5])
        replace = v.assign(tf.constant([7.0, 8.0]))
    with on("CPU:0"):
        on_cpu = v * 2
    with on("FAKE:1"):
        elsewhere = v + 1
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(v)
        for _ in range(5):
            session.run(bump)
        assert before.tolist() == [1, 2], "a fetched array never changes"
        found = [a.tolist() for a in session.run([v, on_cpu, elsewhere])]
        assert found == [[6, 7], [12, 14], [7, 8]]
        session.run(drop)
        assert session.run(v).tolist() == [5.5, 6.5]
        session.run(replace)
        assert session.run(v).tolist() == [7, 8]
        assert fake[0]["bytes_in_use"] > fake[1]["bytes_in_use"], "constants there, no variable"


def digits(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 5, 64)
    return (rng.standard_normal((64, 12)) + labels[:, None]).astype(np.float32), labels


def mlp(name, optimizer, use_resource):
    """(x, labels, loss, train, weights) of a two-layer network on one device."""
    rng = np.random.default_rng(1)
    with on(name), tf.variable_scope(name.replace(":", ""), use_resource=use_resource):
        x, labels = tf.placeholder(tf.float32, [None, 12]), tf.placeholder(tf.int64, [None])
        hidden = x
        for k, (n, m) in enumerate([(12, 16), (16, 5)]):
            w = tf.get_variable(f"w{k}", initializer=rng.normal(0, 0.3, (n, m)).astype(np.float32))
            b = tf.get_variable(f"b{k}", initializer=np.zeros(m, np.float32))
            hidden = tf.nn.bias_add(tf.matmul(hidden, w), b)
            hidden = tf.nn.relu(hidden) if k == 0 else hidden
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden)
        loss = tf.reduce_mean(losses)
        weights = tf.trainable_variables(tf.get_variable_scope().name)
        return x, labels, loss, optimizer().minimize(loss), weights


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("optimizer", ["descent", "momentum"])
def test_training_equals_the_cpus(fake, optimizer, use_resource):
    make = {
        "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
        "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    }[optimizer]
    fake[0].set(delay_us=30)
    nets = [mlp(name, make, use_resource) for name in ("CPU:0", "FAKE:0")]
    value, labels = digits(0)
    losses = [[], []]
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(15):
            for k, (x, y, loss, train, _) in enumerate(nets):
                losses[k].append(session.run([loss, train], {x: value, y: labels})[0])
        trained = [session.run(net[4]) for net in nets]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5, atol=1e-5)
    assert losses[1][-1] < 0.8 * losses[1][0]
    for a, b in zip(*trained):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- threads and sessions


def test_steps_from_four_threads(fake):
    for device in fake:
        device.set(delay_us=50)
    with on("FAKE:0"):
        x = tf.placeholder(tf.float32, [8])
        y = tf.tanh(x) * 2
        v = tf.get_variable("v", initializer=np.float32(0), use_resource=True)
        bump = v.assign_add(1.0)
    with on("FAKE:1"):
        z = tf.reduce_sum(y) + tf.reduce_max(x)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(25):
            value = rng.standard_normal(8).astype(np.float32)
            got = session.run([y, z, bump], {x: value})
            wanted = np.tanh(value) * 2
            if not np.allclose(got[0], wanted, 1e-5) or not np.allclose(
                got[1], wanted.sum() + value.max(), 1e-4, 1e-4
            ):
                wrong.append((value, got))

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not wrong
        assert session.run(v) == 100


def test_nothing_is_left_when_sessions_close(fake):
    for round_ in range(3):
        with tf.Graph().as_default(), on("FAKE:0"):
            v = tf.get_variable("v", initializer=np.zeros(1000, np.float32), use_resource=True)
            x = tf.placeholder(tf.float32, [1000])
            y = tf.where(v + x + tf.constant(np.ones(1000, np.float32)) > 0)
            with tf.Session() as session:
                session.run(v.initializer)
                session.run([y, v.assign_add(x)], {x: np.ones(1000, np.float32)})
                assert fake[0]["bytes_in_use"] > 4000
        fake[0].settle()
        assert fake[0]["bytes_in_use"] == 0 and fake[0]["events"] == 0, f"round {round_}"
