"""prettytensor: a chained net on scikit-learn's digits."""
import numpy as np
import prettytensor as pt
import tensorflow as tf
from sklearn.datasets import load_digits

tf.set_random_seed(0)
digits = load_digits()
data = (digits.images / 16).astype(np.float32)[..., None]
answers = np.eye(10, dtype=np.float32)[digits.target]
x = tf.placeholder(tf.float32, [None, 8, 8, 1])
y = tf.placeholder(tf.float32, [None, 10])
net = pt.wrap(x).conv2d(3, 12, activation_fn=tf.nn.relu).max_pool(2, 2).flatten()
softmax, loss = net.fully_connected(32, activation_fn=tf.nn.relu).softmax_classifier(10, y)
train = pt.apply_optimizer(tf.train.AdamOptimizer(0.01), losses=[loss])
right = softmax.evaluate_classifier(y)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    r = np.random.RandomState(0)
    for _ in range(200):
        rows = r.randint(0, 1400, 64)
        session.run(train, {x: data[rows], y: answers[rows]})
    print("value accuracy", session.run(right, {x: data[1400:], y: answers[1400:]}))
