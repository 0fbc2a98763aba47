"""Tensors that stay in the session between runs, named by handles.

    h = sess.run(tf.get_session_handle(c))                     a TensorHandle (session/handles.py)
    p, a = tf.get_session_tensor(h.handle, tf.float32)
    sess.run(a * 10, {p: h.handle})

Invariants
  1. A handle is text: "name of the GetSessionHandle node;number;device of the node".
  2. The tensor lives in the session's state until it is deleted, its TensorHandle is gone, or the
     session closes.
"""
from pyflow.framework import device as device_lib
from pyflow.framework import dtypes, graph
from pyflow.framework.op import op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.control import identity_ops


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


def get_session_handle(data, name=None):
    """A scalar string tensor; running it keeps `data` in the session and names it.

    Fetched, it is a TensorHandle: `handle` is its text, `eval()` the value, `delete()` frees it; it
    may be fed for `data`'s kind of tensor, or its text for the placeholder of `get_session_tensor`.

        h = sess.run(tf.get_session_handle(tf.matmul(a, b)))
        sess.run(c, {x: h})                       # x was never made an array

    Raises TypeError if `data` is no Tensor. TF: tf.get_session_handle.
    """
    if not isinstance(data, graph.Tensor):
        raise TypeError(f"`data` must be of type Tensor. Got {type(data).__name__}: {data!r}")
    with graph.colocate_with(data.op):
        return GetSessionHandle(data, name=name)


def get_session_tensor(handle, dtype, name=None):
    """(placeholder for a handle's text, the tensor of type `dtype` that the handle fed to it names).

    handle: the text of one such handle: its tensor's device is where the new ops go.  Running the
    tensor raises InvalidArgumentError if there is none of that name, InternalError if it has
    another type. TF: tf.get_session_tensor.
    """
    with graph.device(_device_of(handle)):
        holder = identity_ops.placeholder(dtypes.string)
        return holder, GetSessionTensor(holder, dtype=dtype, name=name)


def delete_session_tensor(handle, name=None):
    """(placeholder for a handle's text, the operation that deletes what it names).

    handle: as for `get_session_tensor`.  The operation raises InvalidArgumentError if there is
    no tensor of that name. TF: tf.delete_session_tensor.
    """
    with graph.device(_device_of(handle)):
        holder = identity_ops.placeholder(dtypes.string)
        return holder, DeleteSessionTensor(holder, name=name)


def _device_of(handle):
    text = handle.decode() if isinstance(handle, bytes) else str(handle)
    return device_lib.canonical_name(text.split(";")[-1])


PUBLIC = {"get_session_handle": get_session_handle, "get_session_tensor": get_session_tensor,
          "delete_session_tensor": delete_session_tensor}
