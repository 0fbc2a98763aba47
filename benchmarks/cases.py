"""The measured work in the TensorFlow 1.x API: the same code runs pyflow and TensorFlow's
`compat.v1`.

Each case is a function of `tf` that returns a Work.  Rewrites that would remove the work are off
(`config`), loop bounds and operands are fed, and `Work.kernels` says how many kernels one run
executes, counted by the system itself, to be compared with `Work.expected`.
"""

import collections

import numpy as np

# run: does the work once.  units: what `per_unit` figures divide by (ops, iterations, steps).
# expected: kernels of one run
# that do the measured work (feeds, fetches and constants come on top).  count() -> {op type:
# executions} of one run, or None.
Work = collections.namedtuple("Work", "run units expected count")
CASES = {}
EXECUTOR = ""  # TensorFlow's experimental.executor_type


def case(function):
    CASES[function.__name__] = function
    return function


def config(tf, threads=1):
    found = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    if "rewrite_options" in found.graph_options.DESCRIPTOR.fields_by_name:
        found.graph_options.rewrite_options.disable_meta_optimizer = True
    found.graph_options.optimizer_options.opt_level = -1
    if EXECUTOR:
        found.experimental.executor_type = EXECUTOR
    return found


def counter(tf, session, fetches, feeds):
    """-> a function that runs once and counts kernels: by op type (TensorFlow's full trace), or
    all (pyflow's plan)."""

    def count_all():
        from pyflow.session import contract
        step, values = session._step_for(fetches, feeds)
        stats = {}
        step.compiled.plan.run(values, contract.RunOptions(stats=stats))
        return {"all": stats["kernels"]}

    def count():
        metadata = tf.RunMetadata()
        session.run(
            fetches,
            feeds,
            options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
            run_metadata=metadata,
        )
        types = {op.name: op.type for op in session.graph.get_operations()}
        found = collections.Counter()
        for device in metadata.step_stats.dev_stats:
            for node in device.node_stats:
                name = node.node_name.split(":")[0]
                found[types.get(name, name)] += 1
        return dict(found)

    return count_all if hasattr(session, "_step_for") else count


def work(tf, fetch, feeds, units, expected, threads=1):
    """A Work that runs `fetch` (an op or tensors) through make_callable."""
    session = tf.Session(config=config(tf, threads))
    order = list(feeds)
    call, values = session.make_callable(fetch, order), [feeds[t] for t in order]
    return Work(lambda: call(*values), units, expected, counter(tf, session, fetch, feeds))


# ------------------------------------------------------------ 10,000 no-ops, and 10,000 scalar adds

N, WIDTH = 10_000, 100


def after(tf, inputs, make):
    with tf.control_dependencies(inputs):
        return make()


@case
def noop_chain(tf):
    with tf.Graph().as_default():
        node = tf.no_op()
        for _ in range(N - 1):
            node = after(tf, [node], tf.no_op)
        return work(tf, node, {}, N, {"NoOp": N})


@case
def noop_fan_out(tf):
    with tf.Graph().as_default():
        root = tf.no_op()
        leaves = [after(tf, [root], tf.no_op) for _ in range(N - 2)]
        return work(tf, after(tf, leaves, tf.no_op), {}, N, {"NoOp": N})


@case
def noop_layered(tf):
    """100 layers of 100; each node after three of the layer before."""
    with tf.Graph().as_default():
        layer = [tf.no_op() for _ in range(WIDTH)]
        for _ in range(N // WIDTH - 1):
            layer = [
                after(tf, [layer[j], layer[(j + 1) % WIDTH], layer[(j + 7) % WIDTH]], tf.no_op)
                for j in range(WIDTH)
            ]
        return work(tf, after(tf, layer, tf.no_op), {}, N, {"NoOp": N + 1})


@case
def add_chain(tf):
    with tf.Graph().as_default():
        x = y = tf.placeholder(tf.float32, [])
        one = tf.placeholder(tf.float32, [])
        for _ in range(N):
            y = y + one
        return work(tf, y, {x: np.float32(0), one: np.float32(1)}, N, {"Add": N})


@case
def add_fan_out(tf):
    with tf.Graph().as_default():
        x, one = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        leaves = [(x + one).op for _ in range(N)]
        return work(
            tf, after(tf, leaves, tf.no_op), {x: np.float32(0), one: np.float32(1)}, N, {"Add": N}
        )


@case
def add_layered(tf):
    """100 layers of 100; each node adds two of the layer before."""
    with tf.Graph().as_default():
        x, one = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        layer = [x + one for _ in range(WIDTH)]
        for _ in range(N // WIDTH - 1):
            layer = [layer[j] + layer[(j + 7) % WIDTH] for j in range(WIDTH)]
        return work(
            tf,
            after(tf, [y.op for y in layer], tf.no_op),
            {x: np.float32(0), one: np.float32(0)},
            N,
            {"Add": N},
        )


# ---------------------------------------------------------------- one op

TEN = np.arange(10, dtype=np.float32)


def repeated(call, times=200):
    """One call is too short to time alone."""

    def run():
        for _ in range(times):
            call()

    return run


@case
def one_add_callable(tf):
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [10]), tf.placeholder(tf.float32, [10])
        session = tf.Session(config=config(tf))
        call = session.make_callable(x + y, [x, y])
        return Work(repeated(lambda: call(TEN, TEN)), 200, None, None)


@case
def one_add_run(tf):
    with tf.Graph().as_default():
        x, y = tf.placeholder(tf.float32, [10]), tf.placeholder(tf.float32, [10])
        z = x + y
        session = tf.Session(config=config(tf))
        return Work(repeated(lambda: session.run(z, {x: TEN, y: TEN})), 200, None, None)


@case
def null_callable(tf):
    with tf.Graph().as_default():
        session = tf.Session(config=config(tf))
        return Work(repeated(session.make_callable(tf.no_op())), 200, None, None)


# ---------------------------------------------------------------- loops


@case
def while_counter(tf, steps=10_000):
    with tf.Graph().as_default():
        n = tf.placeholder(tf.int32, [])
        i = tf.while_loop(lambda i: i < n, lambda i: i + 1, [tf.constant(0)])
        return work(tf, i, {n: np.int32(steps)}, steps, {"Add": steps, "Less": steps + 1})


@case
def while_matmul(tf, steps=5_000):
    with tf.Graph().as_default():
        n, x, w = (
            tf.placeholder(tf.int32, []),
            tf.placeholder(tf.float32, [10, 10]),
            tf.placeholder(tf.float32, [10, 10]),
        )
        _, y = tf.while_loop(
            lambda i, y: i < n, lambda i, y: (i + 1, tf.matmul(y, w)), [tf.constant(0), x]
        )
        feeds = {
            n: np.int32(steps),
            x: np.eye(10, dtype=np.float32),
            w: np.eye(10, dtype=np.float32),
        }
        return work(tf, y, feeds, steps, {"MatMul": steps, "Add": steps})


@case
def while_gradient(tf, steps=1_000):
    with tf.Graph().as_default():
        n, x, w = (
            tf.placeholder(tf.int32, []),
            tf.placeholder(tf.float32, []),
            tf.placeholder(tf.float32, []),
        )
        _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * w), [tf.constant(0), x])
        g = tf.gradients(y, [x, w])
        feeds = {n: np.int32(steps), x: np.float32(1), w: np.float32(1.0001)}
        return work(tf, [y] + g, feeds, steps, {"Mul": 3 * steps})


# ---------------------------------------------------------------- training steps, one thread


def training(tf, build, batch, rate=0.01):
    rng = np.random.default_rng(0)
    images, labels = rng.random((batch, 784)).astype(np.float32), rng.integers(0, 10, batch)
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        x, y = tf.placeholder(tf.float32, [batch, 784]), tf.placeholder(tf.int64, [batch])
        loss, step = descent(tf, build(tf, x), y, rate)
        session = tf.Session(config=config(tf))
        session.run(tf.global_variables_initializer())
        call = session.make_callable([loss, step], [x, y])
        return Work(
            lambda: call(images, labels),
            1,
            None,
            counter(tf, session, [loss, step], {x: images, y: labels}),
        )


def descent(tf, logits, labels, rate=0.01):
    """(loss, training step) of a classifier."""
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    return loss, tf.train.GradientDescentOptimizer(rate).minimize(loss)


def weights(tf, *shape):
    return (
        tf.Variable(tf.truncated_normal(shape, stddev=(2 / np.prod(shape[:-1])) ** 0.5)),
        tf.Variable(tf.zeros(shape[-1:])),
    )


@case
def train_softmax(tf):
    def build(tf, x):
        w, b = weights(tf, 784, 10)
        return tf.matmul(x, w) + b

    return training(tf, build, 100)


def mlp(tf, x):
    """Logits of images [batch, 784]."""
    w, b = weights(tf, 784, 100)
    v, c = weights(tf, 100, 10)
    return tf.matmul(tf.nn.relu(tf.matmul(x, w) + b), v) + c


def lenet(tf, x):
    """Logits of images [batch, 784]."""
    x = tf.reshape(x, [-1, 28, 28, 1])
    for shape in ((5, 5, 1, 32), (5, 5, 32, 64)):
        w, b = weights(tf, *shape)
        x = tf.nn.relu(
            tf.nn.bias_add(tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME"), b)
        )
        x = tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    w, b = weights(tf, 7 * 7 * 64, 1024)
    v, c = weights(tf, 1024, 10)
    return tf.matmul(tf.nn.relu(tf.matmul(tf.reshape(x, [-1, 7 * 7 * 64]), w) + b), v) + c


@case
def train_mlp(tf):
    return training(tf, mlp, 100)


@case
def train_lenet(tf):
    return training(tf, lenet, 64)


def ptb_data(steps=20, batch=20, words=10_000):
    """(words, next words), int32 [batch, steps]."""
    text = np.random.default_rng(0).integers(0, words, (batch, steps + 1)).astype(np.int32)
    return text[:, :-1].copy(), text[:, 1:].copy()


def ptb(tf, x, y, steps=20, batch=20, units=200, layers=2, words=10_000):
    """(loss, step) of PTB-small (Zaremba 2014), unrolled: embedding, two LSTM layers, softmax over
    10,000 words, gradients clipped by their global norm, gradient descent."""

    def variable(*shape):
        return tf.Variable(tf.random_uniform(shape, -0.1, 0.1))

    inputs = tf.unstack(tf.nn.embedding_lookup(variable(words, units), x), axis=1)
    for _ in range(layers):
        kernel, bias = variable(2 * units, 4 * units), tf.Variable(tf.zeros([4 * units]))
        c = h = tf.zeros([batch, units])
        for t in range(steps):
            gates = tf.nn.bias_add(tf.matmul(tf.concat([inputs[t], h], 1), kernel), bias)
            i, j, f, o = tf.split(gates, 4, axis=1)
            c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            inputs[t] = h = tf.tanh(c) * tf.sigmoid(o)
    outputs = tf.reshape(tf.stack(inputs, axis=1), [-1, units])
    logits = tf.matmul(outputs, variable(units, words)) + tf.Variable(tf.zeros([words]))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.reshape(y, [-1]), logits=logits
    )
    loss = tf.reduce_sum(losses) / batch
    trained = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, trained), 5.0)
    return loss, tf.train.GradientDescentOptimizer(1.0).apply_gradients(zip(gradients, trained))


@case
def train_ptb(tf, steps=20, batch=20):
    x_data, y_data = ptb_data(steps, batch)
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        x, y = (tf.placeholder(tf.int32, [batch, steps]) for _ in range(2))
        loss, step = ptb(tf, x, y, steps, batch)
        session = tf.Session(config=config(tf))
        session.run(tf.global_variables_initializer())
        call = session.make_callable([loss, step], [x, y])
        return Work(
            lambda: call(x_data, y_data),
            1,
            None,
            counter(tf, session, [loss, step], {x: x_data, y: y_data}),
        )


# ---------------------------------------------------------------- building


@case
def build_graph(tf):
    """10,000 adds, from nothing, without running them."""

    def run():
        with tf.Graph().as_default():
            y = x = tf.placeholder(tf.float32, [])
            for _ in range(N):
                y = y + x

    return Work(run, N, None, None)


@case
def first_run(tf):
    """The first run of a new session of a 10,000-op graph: prune, optimise, place, compile,
    execute."""
    with tf.Graph().as_default() as graph:
        y = x = tf.placeholder(tf.float32, [])
        for _ in range(N):
            y = y + x

    def run():
        with tf.Session(graph=graph, config=config(tf)) as session:
            session.run(y, {x: np.float32(0)})

    return Work(run, N, None, None)
