"""Lists with tensors inside, and IndexedSlices, where a tensor is wanted.

Invariants
  1. Importing this module loads no ops; a conversion loads those it needs.
  2. A list without tensors is left to the next conversion, which makes a constant of it.

`install()` is called once by pyflow.lib.

    tf.reshape(x, [tf.shape(x)[0], -1])         # the list becomes a Pack
"""
from pyflow.framework import dtypes
from pyflow.framework.convert import (convert_to_tensor, is_dense_tensor_like,
                                      register_tensor_conversion_function)
from pyflow.framework.op import raw_ops
from pyflow.framework.sparse_values import IndexedSlices
from pyflow.framework.tensor_util import constant_value_as_shape


def _first_tensor(values):
    """Some Tensor (or what converts to one, such as a variable) inside nested lists, or None."""
    for value in values:
        if isinstance(value, (list, tuple)):
            value = _first_tensor(value)
        if is_dense_tensor_like(value):
            return value
    return None


def _packed(values, dtype, name=None):
    """Nested lists with tensors inside as one tensor of `dtype`."""
    parts = [_packed(v, dtype) if isinstance(v, (list, tuple)) and _first_tensor(v) is not None
             else convert_to_tensor(v, dtype=dtype) for v in values]
    return raw_ops.Pack(parts, name=name)


def _autopack(values, dtype=None, name=None, as_ref=False):
    """Lists that hold tensors convert by Pack, as `tf.reshape(x, [tf.shape(x)[0], -1])` needs."""
    first = _first_tensor(values)
    if first is None:
        return NotImplemented
    own = first.dtype.base_dtype
    if dtype is not None and dtype.base_dtype != own:
        return NotImplemented
    return _packed(values, own, name=name or "packed")


def _dense(value, dtype=None, name=None, as_ref=False):
    """IndexedSlices as a tensor: repeated rows are added."""
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(f"IndexedSlices of {value.dtype.name} do not convert to {dtype.name}")
    if value.dense_shape is None:
        raise ValueError(f"IndexedSlices without dense_shape cannot become a tensor: {value}")
    size = value.dense_shape
    if size.dtype.base_dtype != dtypes.int32:
        size = raw_ops.Cast(size, DstT=dtypes.int32)
    rows = size[0]
    known = constant_value_as_shape(value.dense_shape)
    if known.is_fully_defined():
        rows = known.as_list()[0]
    return raw_ops.UnsortedSegmentSum(value.values, value.indices, rows, name=name)


def install():
    """Registers both conversions."""
    register_tensor_conversion_function((list, tuple), _autopack, 99)
    register_tensor_conversion_function(IndexedSlices, _dense)
