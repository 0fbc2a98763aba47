"""Random nested control flow and its gradients give TensorFlow's values, on one thread and on
several."""
import os
import sys

import numpy as np
import pytest

import pyflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import random_programs  # noqa: E402

ANSWERS = np.load(os.path.join(HERE, "random_answers.npz"))


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("seed", sorted(map(int, ANSWERS.files)))
def test_same_values_as_tensorflow(seed, threads):
    with tf.Graph().as_default():
        fetches, feeds = random_programs.build(tf, seed)
        with tf.Session(threads=threads) as session:
            session.run(tf.global_variables_initializer())
            options = tf.RunOptions(timeout_in_ms=20000)
            results = [session.run(fetches, feed, options=options) for feed in feeds]
    np.testing.assert_allclose(random_programs.flat(results), ANSWERS[str(seed)], rtol=1e-3,
                               atol=1e-4)
