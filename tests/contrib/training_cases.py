"""Training by optimize_loss and create_train_op, for pyflow and for TensorFlow with tf_slim.

Each case gets (tf, slim, loss) and returns a train op; three steps of it are compared.
"""
import numpy as np

CASES = {}
DATA = np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32)


def case(function):
    CASES[function.__name__] = function
    return function


def answers(tf, slim, name):
    """{key: what the train op gave, what variables hold afterwards, names of summaries}."""
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        w = tf.get_variable("w", initializer=np.float32([[1.0], [-2.0], [0.5]]))
        b = tf.get_variable("b", initializer=np.float32([0.25]))
        tf.get_variable("unused", initializer=np.float32(3.0))
        kept = tf.get_variable("kept", initializer=np.float32(0.0), trainable=False)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(kept, 1.0))
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.constant(DATA), w) + b))
        tf.train.get_or_create_global_step()
        train_op = CASES[name](tf, slim, loss)
        said = {"summaries": "\n".join(
            s.op.name for s in tf.get_collection(tf.GraphKeys.SUMMARIES))}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            said["losses"] = np.float32([session.run(train_op) for _ in range(3)])
            for v in tf.global_variables():
                said[v.op.name] = session.run(v)
    return said


def step(tf):
    return tf.train.get_global_step()


@case
def sgd(tf, slim, loss):
    return slim.layers.optimize_loss(loss, None, 0.1, "SGD")


@case
def momentum_clipped(tf, slim, loss):
    return slim.layers.optimize_loss(loss, step(tf), 0.1, "Momentum", clip_gradients=0.5,
                                     summaries=["gradients", "gradient_norm", "loss"])


@case
def adam_class_multiplied(tf, slim, loss):
    return slim.layers.optimize_loss(loss, step(tf), 0.1, tf.train.AdamOptimizer,
                                     gradient_multipliers={"b:0": 0.5}, update_ops=[], name="train",
                                     increment_global_step=False)


@case
def function_decayed(tf, slim, loss):
    return slim.layers.optimize_loss(
        loss, step(tf), 0.1, lambda rate: tf.train.GradientDescentOptimizer(rate * 0.5),
        learning_rate_decay_fn=lambda rate, n: tf.train.exponential_decay(rate, n, 1, 0.5))


@case
def adaptive(tf, slim, loss):
    clip = slim.layers.adaptive_clipping_fn(
        std_factor=0.5, decay=0.5, global_step=step(tf), report_summary=True)
    return slim.layers.optimize_loss(loss, step(tf), 0.1, tf.train.GradientDescentOptimizer(0.2),
                                     clip_gradients=clip, variables=[v for v in
                                                                     tf.trainable_variables()][:2])


@case
def created(tf, slim, loss):
    return slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.1))


@case
def created_changed(tf, slim, loss):
    w, b = tf.trainable_variables()[:2]
    return slim.learning.create_train_op(
        loss, tf.train.MomentumOptimizer(0.1, 0.9), variables_to_train=[w, b],
        clip_gradient_norm=0.3, gradient_multipliers={"b": 2.0, w: 0.5}, summarize_gradients=True,
        check_numerics=False)
