"""Models as TensorFlow 2 freezes them: Keras's recurrent layers, and tf.functions with loops,
branches, lists and calls.  Their GraphDefs hold TensorLists and, unless TensorFlow lowered them, a
library of functions.

Each of MODELS gives (tf2) -> (callable of tensors, {input: TensorSpec}); weights are seeded.
record.py freezes them; feeds come from `feeds(name)`.  `LOWERED` are frozen with TensorFlow's own
lowering, RAW are GraphDefs of the traced function, with everything in its library.
"""
import zlib

import numpy as np

MODELS, _FEEDS, RAW, LOWERED = {}, {}, [], []


def model(*feeds, raw=False, lowered=False):
    """feeds: functions of a random generator, one for each input."""
    def keep(function):
        name = function.__name__
        MODELS[name], _FEEDS[name] = function, feeds
        (RAW if raw else LOWERED if lowered else []).append(name)
        return function
    return keep


def feeds(name):
    """The arrays fed to a model, always the same ones."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return [make(rng) for make in _FEEDS[name]]


def normal(*shape):
    return lambda rng: rng.standard_normal(shape).astype(np.float32)


def sequential(tf, shape, layers, dtype="float32"):
    """A Keras model as a function, its weights made large enough to matter."""
    import keras
    keras.utils.set_random_seed(7)
    net = keras.Sequential([keras.Input(shape, dtype=dtype)] + layers(keras.layers))
    rng = np.random.default_rng(3)
    net.set_weights([rng.standard_normal(w.shape).astype(w.dtype) * 0.5 for w in net.get_weights()])
    spec = tf.TensorSpec([None] + list(shape), dtype, name="x")
    return net, [spec]


@model(normal(2, 6, 3))
def keras_lstm(tf):
    return sequential(tf, (6, 3), lambda k: [k.LSTM(5, return_sequences=True), k.LSTM(4)])


@model(normal(3, 5, 3))
def keras_gru(tf):
    """A sequence of any length."""
    return sequential(tf, (None, 3), lambda k: [k.GRU(4, return_sequences=True), k.Dense(2)])


@model(normal(2, 4, 3), lowered=True)
def keras_simple_rnn(tf):
    return sequential(tf, (4, 3), lambda k: [k.SimpleRNN(4), k.Dense(2, activation="softmax")])


@model(normal(2, 5, 3))
def keras_bidirectional(tf):
    return sequential(tf, (5, 3), lambda k: [k.Bidirectional(k.LSTM(3)), k.Dense(2)])


@model(lambda rng: np.array([[3, 1, 4, 0, 0], [2, 7, 0, 0, 0], [5, 6, 8, 9, 1]], np.int32),
       lowered=True)
def keras_masked(tf):
    """Words padded with zeros, which the mask leaves out."""
    return sequential(tf, (None,), lambda k: [k.Embedding(10, 4, mask_zero=True), k.LSTM(3),
                                              k.Dense(2, activation="sigmoid")], "int32")


@model(normal(4, 2), raw=True)
def array_in_loop(tf):
    """A TensorArray that grows, its elements of different lengths; read back in another loop."""
    def run(x):
        rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=[None],
                              infer_shape=False, clear_after_read=False)
        i = tf.constant(0)
        while i < tf.shape(x)[0]:
            rows = rows.write(i, tf.tile(x[i] * 2.0, [i + 1]))
            i += 1
        total = tf.constant(0.0)
        for k in tf.range(rows.size()):
            total += tf.reduce_max(rows.read(k))
        return rows.concat(), total, rows.size()
    return run, [tf.TensorSpec([None, 2], tf.float32, name="x")]


@model(lambda rng: np.int32(2), lambda rng: np.float32([1.0, -2.0, 3.0]), raw=True)
def branches(tf):
    """switch_case around cond, on a branch that is not the last."""
    def run(i, x):
        def third():
            return tf.cond(x[0] > 0.0, lambda: x * x, lambda: tf.zeros_like(x))
        return (tf.switch_case(i, [lambda: x + 1.0, lambda: x * 2.0, third, lambda: -x]),
                tf.switch_case(i + 40, [lambda: tf.constant(1), lambda: tf.constant(2)]))
    return run, [tf.TensorSpec([], tf.int32, name="i"), tf.TensorSpec([3], tf.float32, name="x")]


@model(lambda rng: np.int32(1), normal(3), lowered=True)
def branches_lowered(tf):
    """The same through TensorFlow's lowering: _SwitchN."""
    return branches(tf)


@model(normal(6, 3), raw=True)
def cases_in_loops(tf):
    """switch_case in a while loop: around a condition, another one and a loop; two results."""
    def run(x):
        def body(i, y, z):
            row = x[i]

            def condition():
                return tf.cond(tf.reduce_sum(row) > 0.0, lambda: (tf.sin(y) * row, z),
                               lambda: (y, z * row))

            def another():
                return tf.switch_case(i // 3, [lambda: (y * row, tf.exp(-z * z)),
                                               lambda: (tf.tanh(z), y * z)])

            def loop():
                inner = tf.while_loop(lambda k, _: k < i, lambda k, v: (k + 1, v * 0.5 + row),
                                      [tf.constant(0), y])
                return inner[1] * y, z + row
            found = tf.switch_case((3 * i + 1) % 5, [condition, another, loop,
                                                     lambda: (tf.sin(y), tf.ones([3]))])
            return i + 1, found[0] + 0.5 * row, found[1]
        _, y, z = tf.while_loop(lambda i, *_: i < tf.shape(x)[0], body, [0, x[0], x[1]])
        return y, z
    return run, [tf.TensorSpec([None, 3], tf.float32, name="x")]


@model(normal(5, 2), raw=True)
def mapped(tf):
    """map_fn, scan, foldl, and a map in a map."""
    def run(x):
        return (tf.map_fn(lambda r: tf.reduce_sum(r * r) + r[0], x),
                tf.scan(lambda a, b: a + b, x), tf.foldl(lambda a, b: a * b, x),
                tf.map_fn(lambda r: tf.map_fn(lambda v: v * v, r), x))
    return run, [tf.TensorSpec([None, 2], tf.float32, name="x")]


@model(normal(3), lambda rng: np.array([b"one two", b"", b"three"], object), raw=True)
def nested_calls(tf):
    """Functions that call functions; one has an effect that others wait for; a list of strings."""
    @tf.function
    def inner(x):
        return tf.nn.relu(x) * 2.0

    @tf.function
    def middle(x):
        tf.debugging.assert_greater(tf.size(x), 0)
        return inner(x) + inner(x - 1.0), tf.size(x)

    def run(x, words):
        y, n = middle(x)
        lengths = tf.map_fn(tf.strings.length, words, fn_output_signature=tf.int32)
        shouted = tf.map_fn(tf.strings.upper, words)
        return middle(y)[0], y, n, lengths, shouted
    return run, [tf.TensorSpec([3], tf.float32, name="x"),
                 tf.TensorSpec([None], tf.string, name="words")]


@model(normal(4, 3), raw=True)
def gradient_of_a_loop(tf):
    """TensorFlow's own gradient of a loop: lists that are pushed forward and popped backward."""
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.zeros([3])
            for i in tf.range(tf.shape(x)[0]):
                y = tf.tanh(y + x[i]) if tf.reduce_sum(x[i]) > 0.0 else y * tf.sin(x[i])
            loss = tf.reduce_sum(y)
        return loss, tape.gradient(loss, x)
    return run, [tf.TensorSpec([None, 3], tf.float32, name="x")]
