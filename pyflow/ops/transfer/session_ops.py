"""Ops of tensors that stay in the session between runs, named by handles.

The functions are in lib/variables/session_functions.py.

Invariants
  1. A handle is text: "name of the GetSessionHandle node;number;device of the node".
  2. The tensor lives in the session's state until it is deleted, its TensorHandle is gone, or the
     session closes.
"""
from pyflow.framework.op import op
from pyflow.framework.tensor_shape import TensorShape


def _of_scalar_handle(op):
    op.inputs[0].shape.with_rank(0)


@op("GetSessionHandle", inputs="value: T", outputs="handle: string", attrs="T: type",
    stateful=True)
class GetSessionHandle:
    """Keeps `value` in the session; its handle, a scalar. TF: GetSessionHandle."""
    def shape(op): return TensorShape([])
    gradient = None
    reference = None
    samples = None


@op("GetSessionHandleV2", inputs="value: T", outputs="handle: resource", attrs="T: type",
    stateful=True)
class GetSessionHandleV2:
    """Keeps `value` in the session; its handle as a resource. TF: GetSessionHandleV2."""
    def shape(op): return TensorShape([])
    gradient = None
    reference = None
    samples = None


@op("GetSessionTensor", inputs="handle: string", outputs="value: dtype", attrs="dtype: type",
    stateful=True)
class GetSessionTensor:
    """The tensor that `handle` (a scalar) names. TF: GetSessionTensor."""
    def shape(op):
        _of_scalar_handle(op)
        return TensorShape(None)
    gradient = None
    reference = None
    samples = None


@op("DeleteSessionTensor", inputs="handle: string", stateful=True)
class DeleteSessionTensor:
    """Deletes the tensor that `handle` (a scalar) names. TF: DeleteSessionTensor."""
    def shape(op):
        _of_scalar_handle(op)
        return []
    gradient = None
    reference = None
    samples = None
