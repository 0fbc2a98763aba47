"""tflearn: a convolutional net on scikit-learn's digits, saved and loaded again."""
import tempfile

import numpy as np
import tensorflow as tf
import tflearn
from sklearn.datasets import load_digits

tf.set_random_seed(0)
np.random.seed(0)
digits = load_digits()
x = (digits.images / 16).astype(np.float32)[..., None]
y = np.eye(10, dtype=np.float32)[digits.target]
net = tflearn.input_data([None, 8, 8, 1])
net = tflearn.conv_2d(net, 16, 3, activation="relu")
net = tflearn.max_pool_2d(net, 2)
net = tflearn.fully_connected(net, 64, activation="relu")
net = tflearn.fully_connected(net, 10, activation="softmax")
net = tflearn.regression(net, optimizer="adam", learning_rate=0.003,
                         loss="categorical_crossentropy")
with tempfile.TemporaryDirectory() as folder:
    model = tflearn.DNN(net, tensorboard_verbose=0, tensorboard_dir=folder)
    model.fit(x[:1400], y[:1400], n_epoch=15, batch_size=64, show_metric=False, run_id="digits")
    trained = model.evaluate(x[1400:], y[1400:])[0]
    model.save(folder + "/model")
    model.session.run(tf.global_variables_initializer())
    fresh = model.evaluate(x[1400:], y[1400:])[0]
    model.load(folder + "/model")
    loaded = model.evaluate(x[1400:], y[1400:])[0]
print("value accuracy", trained)
print("value accuracy_untrained", fresh)
print("value loaded_differs", abs(loaded - trained))
