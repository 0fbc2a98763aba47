"""What padded_batch pads to, and with."""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.static_value import constant_value
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.data import structure


def _shape(given, own):
    """(int64 vector with -1 for the largest of a batch, static TensorShape)."""
    if isinstance(given, ops.Tensor):
        known = constant_value(given)
        if given.dtype not in (dtypes.int32, dtypes.int64):
            raise TypeError(f"Padded shape {given} must be a 1-D tensor of tf.int64 values, but "
                            f"its element type is {given.dtype.name}.")
        if known is None:
            rank = given.shape.with_rank(1)[0].value
            return ops.convert_to_tensor(given), TensorShape(rank and [None] * rank)
        given = [None if size == -1 else int(size) for size in known]
    if not isinstance(given, TensorShape):
        given = TensorShape([None if size == -1 else size for size in given]
                            if isinstance(given, (list, tuple)) else given)
    if given.ndims is None:
        raise ValueError("A padded shape must have a known rank")
    if own.ndims is not None and own.ndims != given.ndims or any(
            mine.value is not None and size.value is not None and mine.value > size.value
            for mine, size in zip(own.dims or (), given.dims)):
        raise ValueError(f"The padded shape {given} is not compatible with the corresponding input "
                         f"component shape {own}.")
    sizes = [-1 if size is None else size for size in given.as_list()]
    return ops.convert_to_tensor(sizes, dtypes.int64, name="padded_shape"), given


def shapes(padded_shapes, types, own):
    """One (vector, TensorShape) for each component.  Lists and TensorShapes are leaves."""
    def walk(given, like, mine):
        if not structure.is_nested(like):
            return [_shape(given, mine)]
        if isinstance(like, dict):
            structure.same(like, given, "padded_shapes and elements")
            keys = sorted(like)
        else:
            if not isinstance(given, (tuple, list)) or len(given) != len(like):
                raise ValueError(f"padded_shapes {padded_shapes} do not have the structure of the "
                                 f"elements, {types}")
            keys = range(len(like))
        return [pair for key in keys for pair in walk(given[key], like[key], mine[key])]
    return walk(padded_shapes, types, own)


def _value(given, dtype):
    if given is None:
        given = "" if dtype == dtypes.string else False if dtype == dtypes.bool else 0
    value = ops.convert_to_tensor(given, name="padding_value")
    if value.dtype != dtype and not isinstance(given, ops.Tensor):
        value = ops.convert_to_tensor(given, dtype, name="padding_value")
    if value.dtype != dtype:
        raise TypeError(f"Padding value type {value.dtype.name} does not match output type "
                        f"{dtype.name}")
    if not value.shape.is_compatible_with([]):
        raise ValueError(f"Padding value should be a scalar, but is {given}")
    return value


def values(padding_values, types):
    """A scalar tensor for each component."""
    flat = structure.flatten(types)
    if any(isinstance(leaf, structure.DatasetSpec) for leaf in flat):
        raise TypeError("Padded batching of datasets is not possible")
    if structure.has_sparse(types):
        raise TypeError("Batching of padded sparse tensors is not currently supported")
    if padding_values is None:
        given = [None] * len(flat)
    else:
        structure.same(types, padding_values, "padding_values and elements")
        given = structure.flatten(padding_values)
    return [_value(value, dtype) for value, dtype in zip(given, flat)]
