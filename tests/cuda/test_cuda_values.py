"""Every GPU kernel on the samples of its op's block, against the CPU kernel.

All cases of an op are built twice in one graph, pinned to /device:GPU:0 and to the CPU, fed with
the same arrays and run in one step.  Placement is strict: a case whose kernel declined fails.
Runs on a real GPU where there is one, else on the emulated plugin (conftest.py).
"""
import numpy as np
import pytest
from gpu_table import cases_by_op

import pyflow as tf
from pyflow.framework import dtypes

# Values that TF leaves open: reserve spaces of fused batch norm.
UNSPECIFIED = {"FusedBatchNormV3": 5, "FusedBatchNormGrad": 3, "FusedBatchNormGradV2": 3,
               "FusedBatchNormGradV3": 3}
# test_cuda_random.py compares these by seed
RANDOM = {"RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal"}
CASES = {op: cases for op, cases in cases_by_op().items() if op not in RANDOM}


def build(case, device, feeds):
    """The case's node on `device`; its inputs are placeholders on the CPU."""
    def make(array):
        tensor = tf.placeholder(dtypes.as_dtype(array.dtype), array.shape)
        feeds[tensor] = array
        return tensor

    with tf.device(device):
        return list(case.node(make).outputs)


def check_close(case, want, got):
    want, got = np.asarray(want), np.asarray(got)
    assert want.dtype == got.dtype and want.shape == got.shape, case.id
    if want.dtype.kind in "fcV":
        np.testing.assert_allclose(got.astype(np.complex128), want.astype(np.complex128),
                                   err_msg=case.id, **case.tolerance())
    else:
        np.testing.assert_array_equal(got, want, err_msg=case.id)


def check_cases(cases):
    feeds = {}
    with tf.Graph().as_default():
        pairs = [(build(case, "/device:CPU:0", feeds), build(case, "/device:GPU:0", feeds))
                 for case in cases]
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=False)) as session:
            found = session.run(pairs, feeds)
    for case, (expected, got) in zip(cases, found):
        for a, b in list(zip(expected, got))[: UNSPECIFIED.get(case.op.name)]:
            check_close(case, a, b)


@pytest.mark.parametrize("op", sorted(CASES))
def test_kernel_equals_the_cpus(gpu, op):
    check_cases(CASES[op])
