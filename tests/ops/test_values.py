"""Every block's kernel against its reference: all samples, all element types, through a Session."""
import numpy as np
import pytest
from derive import cases, fetched, own_ops
from kernel_table import has_kernel, table

import pyflow as tf
from pyflow.framework import dtypes
from pyflow.framework.op import registered_ops
from pyflow.session import runtime

# As in TF, the schema may allow a type that no kernel takes (test_every_op_has_a_kernel, below).
RUNNABLE = [c for c in cases() if has_kernel(c)]
CASES = [c for c in RUNNABLE if c.op.reference is not None]
# Outputs TF leaves unspecified: reserve spaces of the fused batch norm gradients.
UNSPECIFIED = {"FusedBatchNormGrad": 3, "FusedBatchNormGradV2": 3, "FusedBatchNormGradV3": 3,
               "FusedBatchNormV3": 5}


def run_case(case):
    """The kernel's outputs, with the inputs fed."""
    feeds = {}

    def make(array):
        dtype = dtypes.as_dtype(array.dtype) if array.dtype.kind != "O" else dtypes.string
        tensor = tf.placeholder(dtype, array.shape)
        feeds[tensor] = array
        return tensor
    with tf.Graph().as_default():
        node = case.node(make)
        with tf.Session() as session:
            return node.outputs, session.run(list(node.outputs), feeds)


def check_close(found, wanted, tensor, tolerance):
    """Equal dtype and shape; equal values, up to `tolerance` for floats."""
    found, wanted = fetched(found), np.asarray(wanted)
    dtype = tensor.dtype.base_dtype
    assert found.dtype == dtype.as_numpy_dtype, f"dtype {found.dtype}, declared {dtype.name}"
    assert found.shape == wanted.shape, f"shape {found.shape}, reference {wanted.shape}"
    fits = tensor.shape.is_compatible_with(found.shape)
    assert fits, f"shape {found.shape}, static {tensor.shape}"
    if dtype.is_floating or dtype.is_complex:
        wide = np.complex128 if dtype.is_complex else np.float64
        if dtype in (dtypes.float32, dtypes.complex64):     # also where the inputs are float64
            tolerance = {name: max(limit, 3e-5) for name, limit in tolerance.items()}
        np.testing.assert_allclose(found.astype(wide), wanted.astype(wide), **tolerance)
    else:
        np.testing.assert_array_equal(found, wanted.astype(found.dtype))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_value(case):
    outputs, found = run_case(case)
    last = UNSPECIFIED.get(case.op.name)
    for tensor, got, wanted in list(zip(outputs, found, case.expected()))[:last]:
        check_close(got, wanted, tensor, case.tolerance())


NO_REFERENCE = [c for c in RUNNABLE if c.op.reference is None]


@pytest.mark.parametrize("case", NO_REFERENCE, ids=lambda c: c.id)
def test_runs_with_the_declared_shape(case):
    outputs, found = run_case(case)
    for tensor, got in zip(outputs, found):
        assert fetched(got).dtype == tensor.dtype.base_dtype.as_numpy_dtype
        assert tensor.shape.is_compatible_with(np.shape(got))


def test_every_op_has_a_kernel():
    runnable = {c.op.name for c in RUNNABLE}
    left = {name for name, op in own_ops().items() if op.samples} - runnable
    assert not left, f"no kernel takes any type of: {sorted(left)}"


def test_every_kernel_has_a_schema():
    known = set(registered_ops()) | set(plugin_op_names())
    left = {name for name in table() if not name.startswith("_")} - known
    assert not left, f"kernels of ops nobody declares: {sorted(left)}"


def plugin_op_names():
    """Ops that plugins declare in C."""
    return [entry[0] for entry in runtime.start().plugin_ops()]
