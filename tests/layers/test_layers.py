"""tf.layers beside TensorFlow's recorded answers: variables, shapes, values, gradients, updates."""
import pathlib

import numpy as np
import pytest

import pyflow as tf

import layer_cases as cases

RECORDED = np.load(pathlib.Path(__file__).parent / "answers.npz")


@pytest.mark.parametrize("name", cases.CASES)
def test_as_tensorflow(name):
    wanted = {key.partition("|")[2]: RECORDED[key] for key in RECORDED.files
              if key.partition("|")[0] == name}
    got = cases.answers(tf, name)
    assert got.keys() == wanted.keys()
    for key, value in wanted.items():
        if value.dtype.kind == "U":
            assert got[key] == str(value), key
        else:
            low = value.dtype == np.float16
            np.testing.assert_allclose(np.asarray(got[key], value.dtype), value,
                                       rtol=2e-2 if low else 2e-4, atol=2e-2 if low else 2e-5,
                                       err_msg=key)
