"""Tensors that stay in the session between runs, named by handles.

    h = sess.run(tf.get_session_handle(c))                     a TensorHandle (session/handles.py)
    p, a = tf.get_session_tensor(h.handle, tf.float32)
    sess.run(a * 10, {p: h.handle})

What a handle is, and how long its tensor lives: ops/transfer/session_ops.py.
"""
from pyflow.framework import device as device_lib
from pyflow.framework import dtypes, graph
from pyflow.lib.array import identity_functions
from pyflow.ops.transfer import session_ops


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
        return session_ops.GetSessionHandle(data, name=name)


def get_session_tensor(handle, dtype, name=None):
    """(placeholder for a handle's text, the tensor of type `dtype` that the handle fed to it names).

    handle: the text of one such handle: its tensor's device is where the new ops go; the
    placeholder is a string of any shape, the tensor of unknown rank.  Running the tensor raises InvalidArgumentError if there is none of that name, InternalError if it has
    another type. TF: tf.get_session_tensor.
    """
    with graph.device(_device_of(handle)):
        holder = identity_functions.placeholder(dtypes.string)
        return holder, session_ops.GetSessionTensor(holder, dtype=dtype, name=name)


def delete_session_tensor(handle, name=None):
    """(placeholder for a handle's text, the operation that deletes what it names).

    handle: a string, as for `get_session_tensor`; the placeholder takes a scalar.  The operation raises InvalidArgumentError if there is
    no tensor of that name. TF: tf.delete_session_tensor.
    """
    with graph.device(_device_of(handle)):
        holder = identity_functions.placeholder(dtypes.string)
        return holder, session_ops.DeleteSessionTensor(holder, name=name)


def _device_of(handle):
    text = handle.decode() if isinstance(handle, bytes) else str(handle)
    return device_lib.canonical_name(text.split(";")[-1])


PUBLIC = {"get_session_handle": get_session_handle, "get_session_tensor": get_session_tensor,
          "delete_session_tensor": delete_session_tensor}
