"""The tutorials' MNIST network: two hidden layers, softmax, gradient descent.

    logits = mnist.inference(images, 128, 32)
    train_op = mnist.training(mnist.loss(logits, labels), 0.01)

Names of scopes and variables are those of tensorflow.examples.tutorials.mnist.mnist, so that its
checkpoints fit.
"""
import math

import pyflow as tf

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _layer(scope, inputs, width):
    """inputs * weights + biases, [batch, width]."""
    with tf.name_scope(scope):
        rows = int(inputs.shape[1])
        start = tf.truncated_normal([rows, width], stddev=1.0 / math.sqrt(rows))
        weights = tf.Variable(start, name="weights")
        biases = tf.Variable(tf.zeros([width]), name="biases")
        return tf.matmul(inputs, weights) + biases


def inference(images, hidden1_units, hidden2_units):
    """Logits [batch, 10] of images [batch, 784], through two layers of rectified units."""
    hidden1 = tf.nn.relu(_layer("hidden1", images, hidden1_units))
    hidden2 = tf.nn.relu(_layer("hidden2", hidden1, hidden2_units))
    return _layer("softmax_linear", hidden2, NUM_CLASSES)


def loss(logits, labels):
    """The mean cross entropy of logits [batch, 10] with labels [batch] of any integer type."""
    return tf.losses.sparse_softmax_cross_entropy(labels=tf.to_int64(labels), logits=logits)


def training(loss, learning_rate):
    """The op of one step of gradient descent; it counts in a variable global_step, and the loss gets
    a summary."""
    tf.summary.scalar("loss", loss)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    return tf.train.GradientDescentOptimizer(learning_rate).minimize(loss, global_step=global_step)


def evaluation(logits, labels):
    """How many of the batch are right, int32: labels [batch] of int32 or int64."""
    return tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
