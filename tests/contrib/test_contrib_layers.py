"""tf.contrib.layers and slim beside tf_slim's recorded answers: variables, values,
gradients, updates."""
import pathlib

import numpy as np
import pytest

import pyflow as tf

import contrib_cases
import training_cases

RECORDED = np.load(pathlib.Path(__file__).parent / "contrib_answers.npz")


@pytest.mark.parametrize("cases, name", [(cases, name) for cases in (contrib_cases, training_cases)
                                         for name in cases.CASES])
def test_as_tf_slim(cases, name):
    wanted = {key.partition("|")[2]: RECORDED[key] for key in RECORDED.files
              if key.partition("|")[0] == name}
    got = cases.answers(tf, tf.contrib.slim, name)
    assert wanted and got.keys() == wanted.keys()
    for key, value in wanted.items():
        if value.dtype.kind == "U":
            assert got[key] == str(value), key
        else:
            np.testing.assert_allclose(got[key], value, rtol=2e-4, atol=2e-5, err_msg=key)
