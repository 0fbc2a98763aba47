"""tf.metrics beside TensorFlow's recorded answers: variables, updates and values of three batches."""
import pathlib
import re

import numpy as np
import pytest

import metric_cases as cases
import pyflow as tf

RECORDED = np.load(pathlib.Path(__file__).parent / "metric_answers.npz")


@pytest.mark.parametrize("key", cases.CASES)
def test_as_tensorflow(key):
    wanted = {name.partition("|")[2]: RECORDED[name] for name in RECORDED.files
              if name.partition("|")[0] == key}
    got = cases.answers(tf, key)
    assert got.keys() == wanted.keys()
    for what, value in wanted.items():
        if value.dtype.kind == "U":             # an op of TensorFlow's took the name "max" before
            assert got[what] == str(value).replace("/max_1:0", "/max:0"), what
        else:
            np.testing.assert_allclose(got[what], value, rtol=1e-5, atol=1e-6, err_msg=what)


@pytest.mark.parametrize("function, error, text", [
    (lambda: tf.metrics.auc([0], [0.5], curve="DET"), ValueError, "curve must be either ROC or PR"),
    (lambda: tf.metrics.auc([0], [0.5], summation_method="simpson"), ValueError, "simpson"),
    (lambda: tf.metrics.accuracy([1, 2], [1, 2, 3]), ValueError, "incompatible"),
    (lambda: tf.metrics.mean([1.0, 2.0, 3.0], weights=[1.0, 2.0]), ValueError,
     "weights can not be broadcast"),
    (lambda: tf.metrics.average_precision_at_k([[1]], [[0.5]], 0), ValueError, "k=0"),
    (lambda: tf.metrics.sensitivity_at_specificity([0], [0.5], 1.5), ValueError, "[0, 1]"),
    (lambda: tf.metrics.precision_at_k(tf.constant([[[1]]], tf.int64), [[0.5]], 1), ValueError,
     "Unexpected labels shape"),
])
def test_refused(function, error, text):
    with tf.Graph().as_default(), pytest.raises(error, match=re.escape(text)):
        function()


def test_predictions_outside_of_the_unit_are_told():
    with tf.Graph().as_default(), tf.Session() as sess:
        given = tf.placeholder_with_default([0.5, 1.5], [2])
        _, update = tf.metrics.auc([0, 1], given)
        sess.run(tf.local_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"predictions must be in \[0, 1\]"):
            sess.run(update)
