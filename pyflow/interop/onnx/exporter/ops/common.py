"""What converters share: element-wise nodes that keep the order their inputs lie in."""

import numpy as np

from pyflow.framework import dtypes
from pyflow.interop.onnx.exporter.body import Value
from pyflow.interop.onnx.exporter.registry import converts, refuse

__all__ = ["Value", "aligned", "channels_first", "converts", "dtypes", "lying", "np", "pointwise",
           "refuse"]


def channels_first(rank):
    """The order N, C, spatial... of a channels-last tensor."""
    return (0, rank - 1, *range(1, rank - 1))


def aligned(node, which=None):
    """(names of inputs, one order in which all of them lie): the inputs of an element-wise node
    with broadcasting.  An order other than pyflow's is kept where an input of full rank lies in it."""
    values = [node.value(i) for i in (range(len(node)) if which is None else which)]
    rank = max((v.rank for v in values), default=0) if all(
        v.rank is not None for v in values) else None
    order = next((v.order for v in values if v.order is not None and v.rank == rank), None)
    if order is None:
        return [v.plain for v in values], None
    return [lying(node, v, order) for v in values], order


def lying(node, value, order):
    """The name of a value that is broadcast to the rank of `order`, lying in it."""
    rank = len(order)
    if value.rank == rank:
        return value.ordered(order)
    if value.array is not None:
        if value.array.size == 1:
            return node.body.name_of(value.array.reshape(()), value.wanted)
        array = value.array.reshape((1,) * (rank - value.rank) + value.array.shape)
        return node.body.name_of(array.transpose(order), value.wanted)
    if not value.rank:
        return value.plain
    more = rank - value.rank
    name = node.unsqueeze(value.plain, *range(more))
    return Value(name, None, (1,) * more + tuple(value.shape), value.dtype,
                 node.body).ordered(order)


def pointwise(node, op, *extra, result=True, dtype=None, which=None, **attrs):
    """The Value of an element-wise node of ONNX's over the inputs, then `extra` arrays.

    result: whether its output has the inputs' type; dtype: the inputs' type."""
    names, order = aligned(node, which)
    dtype = dtype or node.dtype(0)
    name = node.compute(op, dtype, *names, *extra, result=result,
                        at=range(len(names) + len(extra)), **attrs)
    return node.ordered(name, order)
