"""Control flow as single expressions, so that graphs with it travel between TensorFlow and pyflow
in both directions."""

import numpy as np

from cases import normal, op, value


def loop(tf, x, w, steps=4):
    return tf.while_loop(
        lambda i, y: i < steps, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))), [0, x]
    )[1]


def nested(tf, x):
    def outer(i, y):
        return (
            i + 1,
            tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, tf.sin(z) + y), [0, y])[1],
        )

    return tf.while_loop(lambda i, y: i < 4, outer, [0, x])[1]


def reversed_rows(tf, x):
    array = tf.TensorArray(tf.float32, 4).unstack(x)
    write = lambda i, a: (
        i + 1,
        a.write(i, array.read(3 - i) * tf.cast(i, tf.float32)),
    )  # noqa: E731
    return tf.while_loop(lambda i, a: i < 4, write, [0, tf.TensorArray(tf.float32, 4)])[1].stack()


def collatz(tf, n):
    step = lambda n, k: (
        tf.cond(tf.equal(n % 2, 0), lambda: n // 2, lambda: 3 * n + 1),
        k + 1,
    )  # noqa: E731
    return tf.while_loop(lambda n, k: n > 1, step, [n, 0])[1]


op(
    "flow_cond",
    lambda tf, x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * 2, lambda: tf.square(x)),
    normal(3),
)
op(
    "flow_cond_other",
    lambda tf, x: tf.cond(tf.reduce_sum(x) < 100, lambda: x * 2, lambda: tf.square(x)),
    normal(3),
)
op(
    "flow_cond_nested",
    lambda tf, x: tf.cond(
        x[0] > 0, lambda: tf.cond(x[1] > 0, lambda: x, lambda: 2 * x), lambda: 3 * x
    ),
    value([1.0, -1.0]),
)
op("flow_while", loop, normal(4, 3), normal(3, 3))
op("flow_while_zero_steps", lambda tf, x, w: loop(tf, x, w, 0), normal(4, 3), normal(3, 3))
op("flow_while_nested", nested, value([0.1, 0.5, -0.7]))
op("flow_while_cond", collatz, value(27, np.int32))
op("flow_tensor_array", reversed_rows, normal(4, 3))
op("flow_map_fn", lambda tf, x: tf.map_fn(lambda r: tf.reduce_sum(r * r), x), normal(4, 3))
op("flow_scan", lambda tf, x: tf.scan(lambda a, r: a * 0.5 + r, x), normal(4, 3))
