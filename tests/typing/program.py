"""A user's program, as mypy --strict sees it: tests/typing/test_types.py checks this file."""

import numpy as np
import pyflow as tf
import pyflow.compat.v1 as tf1
import pyflow.nn
from pyflow.contrib import rnn
from pyflow.train import Saver


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

flat: tf.Dimension = shape[0] * 2 + 1 - shape[0] // 2
sizes: list[int | None] = [d.value for d in shape]
tail: tf.TensorShape = shape[1:] + [None, 3] if len(shape) > 1 else [1] + shape
known: int = int(shape[0]) + len(range(shape[0]))
larger: bool | None = 2 * flat > 3 and 7 % flat <= 1


def reversed_operators(x: tf.Tensor, v: tf.Variable) -> list[tf.Tensor]:
    return [2.0 ** x, 1 // v, 7 % x, [[1.0]] @ x, True & tf.less(x, 0.0), False | tf.less(x, 0.0),
            True ^ tf.less(x, 0.0), 3.0 - v, 2 / x]


def namespaces_as_modules(x: tf.Tensor) -> tuple[tf.Tensor, Saver]:
    cell = rnn.LSTMCell(4)
    output, _state = cell(x, cell.zero_state(2, tf.float32))
    rows = tf.SparseTensorValue([[0]], [1.0], [3])
    print(output, rows.values, tf.zeros_initializer()([2, 2]))
    return pyflow.nn.relu(tf1.constant([1.0])), tf1.train.Saver()
