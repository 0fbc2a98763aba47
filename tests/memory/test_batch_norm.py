"""FusedBatchNorm, V2, V3 and their gradients against TensorFlow's recorded answers.

record_batch_norm.py wrote batch_norm_tf.npz with TensorFlow 2.21: float32 and halves, training and
inference, NHWC and NCHW.
"""
import pathlib
import sys

import numpy as np
import pytest

import pyflow as tf

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import record_batch_norm  # noqa: E402

RECORDED = np.load(HERE / "batch_norm_tf.npz")
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
NAMES = ("y", "batch_mean", "batch_variance", "dx", "dscale", "doffset")


@pytest.mark.parametrize("number", range(len(record_batch_norm.CASES)))
def test_equals_tensorflow(number):
    case = record_batch_norm.CASES[number]
    got = record_batch_norm.answers(tf, case, number)
    for i, name in enumerate(NAMES):
        want = RECORDED[f"{number}_{i}"]
        scale = max(float(np.abs(want).max()), 1.0)
        np.testing.assert_allclose(got[i] / scale, want / scale, atol=TOLERANCE[case[1]],
                                   err_msg=f"{name} of {case}")
