"""A user's program, as mypy --strict sees it: tests/typing/test_types.py checks this file."""

import numpy as np
import pyflow as tf


def model(x: tf.Tensor, units: int = 16) -> tf.Tensor:
    w = tf.get_variable("w", [2, units])
    b = tf.get_variable("b", [units], initializer=tf.zeros_initializer())
    return tf.nn.relu(tf.matmul(x, w) + b)


def train(steps: int) -> float:
    x: tf.Tensor = tf.placeholder(tf.float32, [None, 2], name="x")
    loss = tf.reduce_mean(tf.square(model(x)))
    step: tf.Operation = tf.train.AdamOptimizer(0.1).minimize(loss)
    saver = tf.train.Saver()
    with tf.Graph().as_default(), tf.name_scope("unused"):
        pass
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        value = 0.0
        for _ in range(steps):
            try:
                value, _unused = sess.run([loss, step], {x: np.ones((4, 2), np.float32)})
            except tf.errors.InvalidArgumentError as error:
                print(error.message)
        path: str = saver.save(sess, "/tmp/model")
        print(path, [v.name for v in tf.trainable_variables()])
    return value


def accepted(v: tf.Variable, t: tf.Tensor) -> list[tf.Tensor]:
    """Everything that becomes a tensor."""
    rows: list[list[float]] = [[1.0, 2.0], [3.0, 4.0]]
    return [
        tf.add(rows, np.ones((2, 2), np.float32)),
        tf.matmul(v, t, transpose_b=True),
        tf.add(np.float32(1), [t, t]),
        tf.stack([t, 1.0, np.float32(2)]),
        tf.where([True, False], t, v),
        tf.reshape(t, [-1, tf.shape(t)[0]]) * 2 - v,
        tf.zeros((2, 3)) @ tf.zeros(t.shape) + rows,
        tf.gather(v, (0, 1)) / 3,
        1.0 - tf.reduce_sum(t, axis=[0, 1], keepdims=True),
        tf.string_join(["a", b"b"]),
        tf.constant(rows)[0, ..., tf.newaxis],
    ]


shape: tf.TensorShape = tf.constant([1, 2]).shape
kind: tf.DType = tf.constant([1, 2]).dtype
