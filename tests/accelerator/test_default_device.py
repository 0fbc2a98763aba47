"""Programs with FAKE:0 as the default device of everything, placed softly: they compute what they
compute on the CPU, wherever their parts end up.

Each program is built twice; a variable is where all of its users can be, also in plans that use
only some of them, and stays there when ops are added later.
"""

import numpy as np
import pytest

import pyflow as tf

SOFT = tf.ConfigProto(allow_soft_placement=True)
FAKE = "/device:FAKE:0"
DATA = np.random.default_rng(3).standard_normal((8, 4)).astype(np.float32)


def program(build, device, steps=3):
    """[fetched values of each step] of `build(x) -> fetches`, all on `device`."""
    with tf.Graph().as_default(), tf.device(device):
        tf.set_random_seed(5)
        x = tf.placeholder(tf.float32, [None, 4])
        fetches = build(x)
        with tf.Session(config=SOFT) as session:
            session.run(tf.global_variables_initializer())
            return [session.run(fetches, {x: DATA * (k + 1)}) for k in range(steps)]


def check(build):
    """Equal values on the device and on the CPU."""
    for here, there in zip(program(build, FAKE), program(build, "/cpu:0")):
        for a, b in zip(here, there):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


# ---------------------------------------------------------------- training

OPTIMIZERS = {
    "sgd": lambda: tf.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.05),
    "centered": lambda: tf.train.RMSPropOptimizer(0.05, centered=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.05),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.05),
}


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_training(fake, optimizer, use_resource):
    def build(x):
        w = tf.get_variable(
            "w", initializer=np.full((4, 2), 0.3, np.float32), use_resource=use_resource
        )
        b = tf.get_variable("b", initializer=np.zeros(2, np.float32), use_resource=use_resource)
        loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(x, w) + b) - 0.5))
        train = OPTIMIZERS[optimizer]().minimize(loss)
        with tf.control_dependencies([train]):
            return [tf.identity(loss), w.read_value(), b.read_value()]

    check(build)


# ---------------------------------------------------------------- programs with state


def scatters(x):
    w = tf.get_variable("w", initializer=np.ones((5, 4), np.float32), use_resource=True)
    update = tf.scatter_add(w, [1, 3], x[:2])
    with tf.control_dependencies([update]):
        return [w.read_value(), tf.gather(w, [3, 0])]


def embeddings(x):
    w = tf.get_variable("w", initializer=DATA, use_resource=True)
    rows = tf.nn.embedding_lookup(w, tf.constant([0, 2, 2, 7]))
    train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows * x[:4]))
    with tf.control_dependencies([train]):
        return [w.read_value()]


def slices(x):
    w = tf.get_variable("w", initializer=np.zeros((3, 4), np.float32), use_resource=False)
    with tf.control_dependencies([w[1:, 2].assign([5.0, 6.0])]):
        return [tf.identity(w) + x[:3]]


def counters(x):
    n = tf.get_variable("n", initializer=np.int64(0), trainable=False)
    with tf.control_dependencies([tf.assign_add(n, 1)]):
        return [tf.identity(n), tf.cast(n, tf.float32) * x]


def averages(x):
    w = tf.get_variable("w", initializer=np.ones(4, np.float32), use_resource=True)
    ema = tf.train.ExponentialMovingAverage(0.5)
    with tf.control_dependencies([tf.assign_add(w, tf.reduce_mean(x, 0))]):
        with tf.control_dependencies([ema.apply([w])]):
            return [tf.identity(ema.average(w))]


def references_in_a_cond(x):
    w = tf.get_variable("w", initializer=np.zeros(4, np.float32), use_resource=False)
    even = tf.cond(
        tf.reduce_sum(x) > 0,
        lambda: tf.assign_add(w, tf.ones([4])),
        lambda: tf.assign_sub(w, tf.ones([4])),
    )
    return [even]


def loops_with_state(x):
    w = tf.get_variable("w", initializer=np.ones(4, np.float32), use_resource=True)

    def body(i, t):
        with tf.control_dependencies([tf.assign_add(w, t[0])]):
            return i + 1, t + w.read_value()

    return tf.while_loop(lambda i, t: i < 4, body, [0, x])


# ---------------------------------------------------------------- programs without


def strings(x):
    words = tf.as_string(tf.cast(x[:2, :2] * 10, tf.int32))
    return [tf.string_to_number(words), tf.cast(tf.equal(words, "3"), tf.int32)]


def arrays_in_a_loop(x):
    return [tf.map_fn(lambda row: tf.cumsum(row) * 2, x), tf.scan(lambda a, r: a + r, x)]


def gradients_of_a_loop(x):
    y = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.sin(t) * t), [0, x])[1]
    return [tf.gradients(y, x)[0]]


def segments_and_sorts(x):
    ids = tf.constant([0, 0, 1, 1, 1, 2, 3, 3])
    return [tf.segment_sum(x, ids), *tf.nn.top_k(x, 2), tf.unique(ids)[0]]


def images(x):
    picture = tf.reshape(x, [1, 8, 4, 1])
    f = tf.get_variable("f", initializer=np.full((3, 3, 1, 2), 0.1, np.float32))
    y = tf.nn.max_pool(tf.nn.conv2d(picture, f, [1, 1, 1, 1], "SAME"), [1, 2, 2, 1], [1, 2, 2, 1],
                       "VALID")
    return [y, *tf.gradients(y, [x, f])]


def python_functions(x):
    return [tf.py_func(lambda a: np.sort(a, axis=1), [x], tf.float32) + 1]


def doubles(x):
    wide = tf.cast(x, tf.float64)
    return [tf.matrix_inverse(tf.matmul(wide, wide, True) + tf.eye(4, dtype=tf.float64))]


PROGRAMS = [scatters, embeddings, slices, counters, averages, references_in_a_cond,
            loops_with_state, strings, arrays_in_a_loop, gradients_of_a_loop, segments_and_sorts,
            images, python_functions, doubles]


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(fake, build):
    for device in fake:
        device.set(delay_us=50, seed=1)
    check(build)


# ---------------------------------------------------------------- where variables are


def variable(use_resource, name="w"):
    return tf.get_variable(
        name, initializer=np.float32([1, 2]), use_resource=use_resource
    )


@pytest.mark.parametrize("use_resource", [False, True])
def test_ops_that_can_follow_are_added_later(fake, use_resource):
    with tf.device(FAKE), tf.Session(config=SOFT) as session:
        w = variable(use_resource)
        session.run(w.initializer)
        loss = tf.reduce_sum(tf.square(w))
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_allclose(session.run(tf.lgamma(w)), session.run(tf.lgamma([0.8, 1.6])),
                                   rtol=1e-5, err_msg="a read that has no kernel on the device")
        assert fake[0]["bytes_in_use"] > 0, "the variable is there"


@pytest.mark.parametrize("use_resource", [False, True])
def test_an_op_that_cannot_be_where_the_variable_is(fake, use_resource):
    with tf.device(FAKE), tf.Session(config=SOFT) as session:
        w = variable(use_resource)
        session.run(w.initializer)
        late = tf.scatter_add(w, [0], [1.0])
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(late)
        message = str(caught.value)
        for part in ("ScatterAdd", "'w'", "device:FAKE:0", "kernels for CPU only",
                     "test_default_device.py", "before the first run"):
            assert part in message, part
        np.testing.assert_array_equal(session.run(w), [1, 2], "the session goes on")
    with tf.Session(config=SOFT) as session:
        session.run(w.initializer)
        session.run(late)
        np.testing.assert_array_equal(session.run(w), [2, 2], "all users are known: on the CPU")


def test_two_handles_of_one_variable_are_in_one_place(fake):
    with tf.device(FAKE):
        a = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="shared", name="a")
        start = tf.raw_ops.AssignVariableOp(resource=a, value=tf.constant([1.0, 2.0]))
    b = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="shared", name="b")
    with tf.device("/cpu:0"):
        add = tf.raw_ops.ResourceScatterAdd(resource=b, indices=[1], updates=[5.0])
        read = tf.raw_ops.ReadVariableOp(resource=b, dtype=tf.float32)
    with tf.Session(config=SOFT) as session:
        session.run(start)
        session.run(add)
        np.testing.assert_array_equal(session.run(read), [1, 7])


@pytest.mark.parametrize("use_resource", [False, True])
def test_the_status_given_with_the_message_is_the_errors(fake, use_resource):
    """A kernel that sees NULL from var_get returns RESOURCE_EXHAUSTED; that is not what failed."""
    with tf.device(FAKE):
        w = variable(use_resource)
    add = tf.assign_add(w, [1.0, 1.0])
    with tf.Session(config=SOFT) as session:
        session.run(w.initializer)
        session._compiler._pins.at["w"] = 0        # as no session does: a plan that is wrong
        with pytest.raises(tf.errors.FailedPreconditionError, match="holds its value on"):
            session.run(add)
