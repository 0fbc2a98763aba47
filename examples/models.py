"""Models that several examples train: functions from a batch of images to logits."""

import pyflow as tf


def layer(name, shape, fan_in):
    """Weights (initialised as He et al. 2015) and biases of one layer."""
    with tf.variable_scope(name):
        weights = tf.get_variable(
            "w", shape, initializer=tf.truncated_normal_initializer(stddev=(2 / fan_in) ** 0.5)
        )
        return weights, tf.get_variable("b", shape[-1:], initializer=tf.zeros_initializer())


def softmax_regression(x, keep):
    pixels = int(x.shape[1] * x.shape[2])
    weights, biases = layer("linear", [pixels, 10], pixels)
    return tf.matmul(tf.reshape(x, [-1, pixels]), weights) + biases


def convnet(x, keep):
    """Two 3x3 convolutions with pooling, a dense layer with dropout, a linear layer."""
    for name, n_in, n_out in (("conv1", 1, 32), ("conv2", 32, 64)):
        weights, biases = layer(name, [3, 3, n_in, n_out], 9 * n_in)
        x = tf.nn.relu(
            tf.nn.bias_add(tf.nn.conv2d(x, weights, strides=[1, 1, 1, 1], padding="SAME"), biases)
        )
        x = tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    n = int(x.shape[1] * x.shape[2] * x.shape[3])
    weights, biases = layer("dense", [n, 128], n)
    x = tf.nn.dropout(tf.nn.relu(tf.matmul(tf.reshape(x, [-1, n]), weights) + biases), keep)
    weights, biases = layer("logits", [128, 10], 128)
    return tf.matmul(x, weights) + biases
