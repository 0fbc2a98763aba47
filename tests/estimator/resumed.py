"""A training with dropout on a shuffled dataset, for test_estimator: --logdir FOLDER."""
import sys

import numpy as np

import pyflow as tf


def model_fn(features, labels, mode):
    net = tf.layers.dense(features["x"], 8, tf.nn.relu)
    net = tf.layers.dropout(net, 0.3, training=mode == tf.estimator.ModeKeys.TRAIN)
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(net, 1)[:, 0])
    train_op = tf.train.AdamOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    x = np.random.RandomState(0).rand(200, 3).astype("f")
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, x.sum(1)))
    return data.shuffle(200, seed=5).repeat().batch(16)


config = tf.estimator.RunConfig(sys.argv[sys.argv.index("--logdir") + 1], tf_random_seed=2,
                                save_checkpoints_steps=10)
estimator = tf.estimator.Estimator(model_fn, config=config)
estimator.train(input_fn, max_steps=100,
                hooks=[tf.data.experimental.CheckpointInputPipelineHook(estimator)])
