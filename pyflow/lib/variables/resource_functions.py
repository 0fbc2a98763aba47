"""What is known of the variable behind a handle: its dtype and shape."""
from pyflow.framework import dtypes
from pyflow.ops.move import array_ops
from pyflow.ops.state.resource_handles import VariableShape, handle_source


def handle_dtype(handle):
    """Element type of the variable behind `handle`."""
    source = handle_source(handle)
    if "_handle_dtypes" in source.attrs:            # the argument of a function
        return source.attrs["_handle_dtypes"][0]
    if "dtype" not in source.attrs:
        raise TypeError(f"'{handle.name}' (op {source.type}) is not the handle of a variable")
    return source.attrs["dtype"]


def value_shape(value):
    """The run-time shape of a tensor, or of the variable behind a handle."""
    if value.dtype.base_dtype == dtypes.resource:
        return VariableShape(value)
    return array_ops.Shape(value)
