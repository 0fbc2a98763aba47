"""Graphs whose memory is measured, in the TensorFlow 1.x API: the same code builds them in pyflow
and in TensorFlow's `compat.v1`.

Each function of `tf` returns the training operation and the loss.  Data come from small constants
and the random generator in the graph's initialisers, so a step has no feeds.
"""

import numpy as np


def _variable(tf, name, shape, stddev):
    """A float32 variable with reproducible values."""
    seed = sum(name.encode())
    return tf.get_variable(
        name, shape, initializer=tf.random_normal_initializer(0.0, stddev, seed=seed)
    )


def _conv(tf, x, channels, size, stride, name):
    fan_in = size * size * int(x.shape[3])
    w = _variable(tf, name + "_w", [size, size, int(x.shape[3]), channels], (2 / fan_in) ** 0.5)
    return tf.nn.conv2d(x, w, strides=[1, stride, stride, 1], padding="SAME", name=name)


def _norm(tf, x, name, relu=True):
    """Fused batch normalisation with moving averages, then relu."""
    channels = [int(x.shape[3])]
    scale = tf.get_variable(name + "_scale", channels, initializer=tf.ones_initializer())
    offset = tf.get_variable(name + "_offset", channels, initializer=tf.zeros_initializer())
    y, mean, variance = tf.nn.fused_batch_norm(x, scale, offset, name=name)
    for kind, now in (("mean", mean), ("variance", variance)):
        average = tf.get_variable(
            f"{name}_{kind}", channels, initializer=tf.zeros_initializer(), trainable=False
        )
        update = tf.assign_sub(average, (average - now) * 0.1)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
    return tf.nn.relu(y) if relu else y


def _bottleneck(tf, x, channels, stride, name):
    y = _norm(tf, _conv(tf, x, channels, 1, 1, name + "_a"), name + "_an")
    y = _norm(tf, _conv(tf, y, channels, 3, stride, name + "_b"), name + "_bn")
    y = _norm(tf, _conv(tf, y, 4 * channels, 1, 1, name + "_c"), name + "_cn", relu=False)
    if stride != 1 or int(x.shape[3]) != 4 * channels:
        x = _norm(tf, _conv(tf, x, 4 * channels, 1, stride, name + "_s"), name + "_sn", relu=False)
    return tf.nn.relu(x + y)


def resnet50(tf, batch=8, size=112, blocks=(3, 4, 6, 3), scope=None):
    """A training step of ResNet-50 (He et al. 2015): momentum, softmax over 1000 classes.

    scope: a function of a name that gives a context for each block.
    """
    images = _variable(tf, "images", [batch, size, size, 3], 1.0)
    labels = tf.constant((np.arange(batch) * 37 % 1000).astype(np.int32))
    x = _norm(tf, _conv(tf, tf.stop_gradient(images), 64, 7, 2, "stem"), "stem_n")
    x = tf.nn.max_pool(x, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
    for stage, count in enumerate(blocks):
        for i in range(count):
            name = f"s{stage}b{i}"
            stride = 2 if i == 0 and stage > 0 else 1
            if scope is None:
                x = _bottleneck(tf, x, 64 << stage, stride, name)
            else:
                with scope(name):
                    x = _bottleneck(tf, x, 64 << stage, stride, name)
    x = tf.reduce_mean(x, [1, 2])
    w = _variable(tf, "dense_w", [int(x.shape[1]), 1000], 0.02)
    b = tf.get_variable("dense_b", [1000], initializer=tf.zeros_initializer())
    logits = tf.nn.bias_add(tf.matmul(x, w), b)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    trained = [v for v in tf.trainable_variables() if v.op.name != "images"]
    train = tf.train.MomentumOptimizer(0.001, 0.9).minimize(loss, var_list=trained)
    return tf.group(train, *tf.get_collection(tf.GraphKeys.UPDATE_OPS)), loss


def lstm(tf, batch=256, units=96, steps=40, layers=4, scope=None):
    """A training step of a deep LSTM, unrolled in time: gradient descent on a squared error.

    scope: a function of a name that gives a context for each group of eight time steps.
    """
    inputs = _variable(tf, "inputs", [steps, batch, units], 1.0)
    weights = [_variable(tf, f"w{k}", [2 * units, 4 * units], 0.05) for k in range(layers)]
    biases = [tf.get_variable(f"b{k}", [4 * units], initializer=tf.zeros_initializer())
              for k in range(layers)]
    zero = tf.zeros([batch, units])
    state = [(zero, zero)] * layers
    outputs = []

    def group(first, state):
        for t in range(first, min(first + 8, steps)):
            x = tf.stop_gradient(inputs)[t]
            for k in range(layers):
                c, h = state[k]
                gates = tf.nn.bias_add(tf.matmul(tf.concat([x, h], 1), weights[k]), biases[k])
                i, j, f, o = tf.split(gates, 4, axis=1)
                c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
                x = tf.tanh(c) * tf.sigmoid(o)
                state = state[:k] + [(c, x)] + state[k + 1:]
        outputs.append(x)
        return state

    for first in range(0, steps, 8):
        if scope is None:
            state = group(first, state)
        else:
            with scope(f"steps{first}"):
                state = group(first, state)
    loss = tf.reduce_mean(tf.square(tf.stack(outputs) - 0.5))
    trained = weights + biases
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=trained), loss


def _recomputed(model):
    """The model with pyflow's recompute scopes."""
    return lambda tf, **sizes: model(tf, scope=tf.recompute_scope, **sizes)


MODELS = {
    "resnet50": resnet50,
    "resnet50_recompute": _recomputed(resnet50),
    "lstm": lstm,
    "lstm_recompute": _recomputed(lstm),
}
