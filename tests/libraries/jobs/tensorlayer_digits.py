"""tensorlayer: a dropout net on scikit-learn's digits by its own training loop, saved and loaded."""
import os
import tempfile

import numpy as np
import tensorflow as tf
import tensorlayer as tl
from sklearn.datasets import load_digits

tf.set_random_seed(0)
np.random.seed(0)
digits = load_digits()
data, target = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
session = tf.InteractiveSession()
x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
net = tl.layers.InputLayer(x)
net = tl.layers.DropoutLayer(net, keep=0.8, name="drop")
net = tl.layers.DenseLayer(net, 64, tf.nn.relu, name="hidden")
net = tl.layers.DenseLayer(net, 10, name="out")
cost = tl.cost.cross_entropy(net.outputs, y, "cost")
acc = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(net.outputs, 1), y), tf.float32))
train = tf.train.AdamOptimizer(0.005).minimize(cost, var_list=net.all_params)
tl.layers.initialize_global_variables(session)


def accuracy():
    return session.run(acc, {x: data[1400:], y: target[1400:],
                             **tl.utils.dict_to_one(net.all_drop)})


print("value accuracy_untrained", accuracy())
tl.utils.fit(session, net, train, cost, data[:1400], target[:1400], x, y, acc=acc, batch_size=50,
             n_epoch=12, print_freq=6, X_val=data[1400:], y_val=target[1400:], eval_train=False)
trained = accuracy()
with tempfile.TemporaryDirectory() as folder:
    name = os.path.join(folder, "net.npz")
    tl.files.save_npz_dict(net.all_params, name=name, sess=session)
    tl.layers.initialize_global_variables(session)
    tl.files.load_and_assign_npz_dict(name=name, sess=session)
print("value accuracy", trained)
print("value loaded_differs", abs(accuracy() - trained))
