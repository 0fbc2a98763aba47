"""dm-sonnet: an LSTM and shared modules learn to add marked numbers of a sequence."""
import numpy as np
import sonnet as snt
import tensorflow as tf

tf.set_random_seed(0)
r = np.random.RandomState(0)


def batch(count=64, length=8):
    """(sequences of (number, mark), the sum of the two that are marked)."""
    x = np.zeros((count, length, 2), np.float32)
    x[..., 0] = r.rand(count, length)
    marked = np.array([r.permutation(length)[:2] for _ in range(count)])
    for k in range(2):
        x[np.arange(count), marked[:, k], 1] = 1
    return x, (x[..., 0] * x[..., 1]).sum(1, keepdims=True)


x = tf.placeholder(tf.float32, [64, 8, 2])
y = tf.placeholder(tf.float32, [64, 1])
embed = snt.BatchApply(snt.Linear(16, name="embed"))
core = snt.LSTM(24)
head = snt.nets.MLP([16, 1])


def network(sequences):
    outputs, _ = tf.nn.dynamic_rnn(core, embed(sequences), dtype=tf.float32)
    return head(outputs[:, -1])


loss = tf.reduce_mean(tf.square(network(x) - y))
variables = len(tf.trainable_variables())
again = tf.reduce_mean(tf.square(network(x) - y))       # the same variables
print("value variables_shared", float(len(tf.trainable_variables()) == variables == 8))
step = tf.train.AdamOptimizer(0.01).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for _ in range(1000):
        session.run(step, dict(zip((x, y), batch())))
    data = [batch() for _ in range(8)]
    errors = [session.run([loss, again], dict(zip((x, y), d))) for d in data]
print("value error", np.mean(errors))
print("value error_of_mean", np.mean([d[1].var() for d in data]))
print("value sharing_differs", np.ptp(errors, axis=1).max())
