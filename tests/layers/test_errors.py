"""What tf.layers refuses, with TensorFlow's error types and what is wrong in the message."""
import re

import numpy as np
import pytest

import pyflow as tf


def floats(*shape):
    return tf.placeholder(tf.float32, shape)


WRONG = {
    "a vector": (lambda: tf.layers.dense(floats(4), 3), ValueError, "min_ndim=2, found ndim=1"),
    "unknown channels": (lambda: tf.layers.dense(floats(2, None), 3), ValueError,
                         "channel dimension (axis -1)"),
    "integers": (lambda: tf.layers.dense(tf.constant([[1, 2]]), 3), TypeError, "int32"),
    "twice": (lambda: [tf.layers.dense(floats(2, 3), 3, name="a") for _ in range(2)], ValueError,
              "Variable a/kernel already exists"),
    "nothing to reuse": (lambda: tf.layers.dense(floats(2, 3), 3, name="b", reuse=True),
                         ValueError, "Variable b/kernel does not exist"),
    "another shape": (lambda: [tf.layers.dense(floats(2, n), 3, name="c", reuse=tf.AUTO_REUSE)
                               for n in (3, 4)], ValueError, "shape (4, 3)"),
    "rank": (lambda: tf.layers.conv2d(floats(2, 3), 3, 3), ValueError, "expected ndim=4"),
    "padding": (lambda: tf.layers.conv2d(floats(1, 3, 3, 1), 3, 3, padding="full"), ValueError,
                "full"),
    "kernel_size": (lambda: tf.layers.conv2d(floats(1, 3, 3, 1), 3, (3, 3, 3)), ValueError,
                    "`kernel_size` argument must be a tuple of 2"),
    "data_format": (lambda: tf.layers.conv2d(floats(1, 3, 3, 1), 3, 3, data_format="NHWC"),
                    ValueError, "channels_first"),
    "strides and rates": (lambda: tf.layers.conv2d(floats(1, 9, 9, 1), 3, 3, 2, "valid",
                                                   "channels_last", 2), ValueError, "dilation"),
    "pool_size": (lambda: tf.layers.max_pooling2d(floats(1, 3, 3, 1), "x", 1), ValueError,
                  "`pool_size`"),
    "predicate": (lambda: tf.layers.dropout(floats(2, 3), 0.5, training="yes"), TypeError,
                  "`pred`"),
    "axis": (lambda: tf.layers.batch_normalization(floats(2, 3), axis=4), ValueError,
             "invalid axis 4"),
    "clipping": (lambda: tf.layers.batch_normalization(floats(2, 3), renorm=True,
                                                       renorm_clipping={"a": 1}), ValueError,
                 "renorm_clipping"),
    "argument": (lambda: tf.layers.Dense(3, colour=1), TypeError, "colour"),
    "too early": (lambda: tf.layers.Dense(3).scope_name, ValueError, "has not been used yet"),
    "no call": (lambda: tf.layers.Dense(3).output, AttributeError, "no inbound nodes"),
    "not built": (lambda: tf.layers.Dense(3).count_params(), ValueError, "isn't built"),
    "two inputs": (lambda: tf.layers.dense([floats(2, 3), floats(2, 3)], 3), ValueError,
                   "expects 1 inputs"),
}


@pytest.mark.parametrize("what", WRONG)
def test_refused(what):
    function, error, text = WRONG[what]
    with tf.Graph().as_default(), pytest.raises(error, match=re.escape(text)):
        function()


def test_updates_are_made_once_per_call_and_run_with_the_step():
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.constant(np.float32([[1, 2], [3, 6]]))
        layer = tf.layers.BatchNormalization(momentum=0.5)
        y = layer(x, training=True)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        assert updates == layer.updates and len(updates) == 2
        layer(x, training=False)
        assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == updates
        sess.run(tf.global_variables_initializer())
        with tf.control_dependencies(updates):
            step = tf.identity(y)
        sess.run(step)
        np.testing.assert_allclose(sess.run(layer.moving_mean), [1, 2])
        np.testing.assert_allclose(sess.run(layer.moving_variance), [1.0, 2.5])


def test_layers_train_a_network():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (256, 2)).astype(np.float32)
    inside = np.int32(np.hypot(*points.T) < 0.6)
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.set_random_seed(3)
        training = tf.placeholder_with_default(False, [])
        hidden = tf.layers.dense(points, 32, activation=tf.nn.relu)
        hidden = tf.layers.batch_normalization(hidden, training=training, momentum=0.9)
        logits = tf.layers.dense(tf.layers.dropout(hidden, 0.1, training=training), 2)
        loss = tf.losses.sparse_softmax_cross_entropy(inside, logits)
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            step = tf.train.AdamOptimizer(0.02).minimize(loss)
        sess.run(tf.global_variables_initializer())
        for _ in range(150):
            sess.run(step, {training: True})
        right = np.mean(sess.run(tf.argmax(logits, 1)) == inside)
        assert right > 0.95, right
