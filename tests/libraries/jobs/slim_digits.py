"""tf-slim: a net with an argument scope and batch normalisation by slim's own training loop."""
import tempfile

import numpy as np
import tensorflow as tf
import tf_slim as slim
from sklearn.datasets import load_digits

tf.set_random_seed(0)
digits = load_digits()
data = (digits.images / 16).astype(np.float32)[..., None]


def network(images, training):
    with slim.arg_scope([slim.conv2d, slim.fully_connected], normalizer_fn=slim.batch_norm,
                        normalizer_params={"is_training": training, "decay": 0.9},
                        weights_regularizer=slim.l2_regularizer(1e-4)):
        net = slim.conv2d(images, 16, 3, scope="conv")
        net = slim.max_pool2d(net, 2, scope="pool")
        net = slim.fully_connected(slim.flatten(net), 32, scope="hidden")
    return slim.fully_connected(net, 10, activation_fn=None, scope="out")


with tempfile.TemporaryDirectory() as folder:
    with tf.Graph().as_default():
        tf.set_random_seed(0)
        at = tf.random_uniform([64], maxval=1400, dtype=tf.int32, seed=1)
        logits = network(tf.gather(data, at), True)
        tf.losses.sparse_softmax_cross_entropy(tf.gather(digits.target, at), logits)
        train = slim.learning.create_train_op(tf.losses.get_total_loss(),
                                              tf.train.AdamOptimizer(0.01))
        loss = slim.learning.train(train, folder, number_of_steps=200, save_summaries_secs=0,
                                   log_every_n_steps=100)
    with tf.Graph().as_default():
        logits = network(tf.constant(data[1400:]), False)
        value, update = tf.metrics.accuracy(digits.target[1400:], tf.argmax(logits, 1))
        found = slim.evaluation.evaluate_once("", tf.train.latest_checkpoint(folder), folder,
                                              eval_op=update, final_op=value)
print("value loss", loss)
print("value accuracy", found)
