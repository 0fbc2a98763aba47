"""Control flow, gradients, variables and optimizers give TensorFlow's values (answers.npz, by
record.py)."""
import os
import sys

import numpy as np
import pytest

import pyflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from value_programs import PROGRAMS  # noqa: E402

ANSWERS = np.load(os.path.join(HERE, "answers.npz"))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_same_values_as_tensorflow(name):
    with tf.Graph().as_default():
        fetches, feeds = PROGRAMS[name](tf)
        fetches = {key: tensor for key, tensor in fetches.items() if tensor is not None}
        compared = 0
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for i, feed in enumerate(feeds):
                for key, value in session.run(fetches, feed).items():
                    np.testing.assert_allclose(value, ANSWERS[f"{name}/{i}/{key}"], rtol=1e-5,
                                               atol=1e-6, err_msg=f"{key}, feed {i}")
                    compared += 1
        assert compared == sum(key.startswith(name + "/") for key in ANSWERS.files)
