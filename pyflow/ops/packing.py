"""Lists that hold tensors, used as one tensor: `tf.reshape(x, [n, -1])`, `tf.gather(w, [i, i + 1])`.

Invariant: a list without any tensor is left to constants; its elements take the dtype of the tensors in it.
"""
from pyflow.framework import graph as ops
from pyflow.framework.convert import register_tensor_conversion_function
from pyflow.framework.tensor_shape import Dimension
from pyflow.ops import cast_ops, join_ops


def _tensor_dtype(values):
    """The dtype of the first tensor in a nested list, or None."""
    for value in values:
        if isinstance(value, (list, tuple)):
            found = _tensor_dtype(value)
        else:
            found = _leaf_dtype(value)
        if found is not None:
            return found
    return None


def _leaf_dtype(value):
    if isinstance(value, ops.Tensor) or hasattr(value, "_as_graph_element"):
        return value.dtype.base_dtype
    return None


def _packed(values, dtype, name):
    """Pack of the elements, nested lists first."""
    elements = []
    for i, value in enumerate(values):
        if isinstance(value, (list, tuple)):
            elements.append(_packed(value, dtype, str(i)) if _tensor_dtype(value) is not None
                            else ops.constant(value, dtype=dtype, name=str(i)))
        elif _leaf_dtype(value) is not None:
            tensor = ops.convert_to_tensor(value)
            elements.append(tensor if tensor.dtype.base_dtype == dtype
                            else cast_ops.cast(tensor, dtype))
        else:
            value = value.value if isinstance(value, Dimension) else value
            elements.append(ops.constant(value, dtype=dtype, name=str(i)))
    return join_ops.Pack(elements, name=name)


def _convert(values, dtype=None, name=None, as_ref=False):
    found = _tensor_dtype(values)
    if found is None:
        return NotImplemented
    with ops.name_scope(name or "packed") as scope:
        return _packed(values, found if dtype is None else dtype, scope)


def install():
    """Makes lists with tensors usable as tensors; called once by pyflow.ops."""
    register_tensor_conversion_function((list, tuple), _convert, 99)


PUBLIC = {}
