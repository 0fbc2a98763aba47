"""Reading a dataset whole."""
import numpy as np

import pyflow as tf

RANGE = tf.data.Dataset.range


def elements(dataset, most=1000):
    """All elements, as the session gives them."""
    got = []
    with tf.Session(graph=dataset._variant_tensor.graph) as sess:
        with sess.graph.as_default():
            iterator = dataset.make_initializable_iterator()
            following = iterator.get_next()
        sess.run(iterator.initializer)
        for _ in range(most):
            try:
                got.append(sess.run(following))
            except tf.errors.OutOfRangeError:
                break
    return got


def listed(dataset):
    return [np.asarray(x).tolist() for x in elements(dataset)]
