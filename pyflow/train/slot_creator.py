"""Slots: variables that belong to another variable and have its shape, such as its momentum.

Invariants
  1. A slot of `W` is named "W/<name>" (made unique), in whatever name scope it is made.
  2. It is placed with its variable, not trainable, and of the same kind (reference or resource).

Who calls it: Optimizer, ExponentialMovingAverage.  Thread: the one building the graph.
"""
import contextlib

from pyflow.framework import graph as ops
from pyflow.lib.variables import (initializers, partitioned_variables, variable_scope,
                                  variables)
from pyflow.lib.variables.resource_variables import is_resource_variable
from pyflow.ops.base import tensors


def create_slot(primary, val, name, colocate_with_primary=True):
    """The slot `name` of `primary` with initial value `val`."""
    known = val.shape.is_fully_defined() if isinstance(val, ops.Tensor) else True
    return _scoped(primary, name, colocate_with_primary, initializer=val, validate_shape=known)


def create_slot_with_initializer(primary, initializer, shape, dtype, name,
                                 colocate_with_primary=True):
    """The slot `name` of `primary`, filled by `initializer` (or from a tensor)."""
    if callable(initializer) and not shape.is_fully_defined():
        initializer = _filled(tensors.shape(_started(primary)), initializer, dtype)
    if not callable(initializer):
        return create_slot(primary, initializer, name, colocate_with_primary)
    return _scoped(primary, name, colocate_with_primary, initializer=initializer, shape=shape,
                   dtype=dtype)


def create_zeros_slot(primary, name, dtype=None, colocate_with_primary=True):
    """The slot `name` of `primary`, filled with zeros."""
    dtype = (primary.dtype if dtype is None else dtype).base_dtype
    if primary.shape.is_fully_defined():
        return create_slot_with_initializer(primary, initializers.zeros_initializer(),
                                            primary.shape, dtype, name, colocate_with_primary)
    zeros = tensors.zeros(tensors.shape(_started(primary)), dtype=dtype)
    return create_slot(primary, zeros, name, colocate_with_primary)


def _filled(shape, initializer, dtype):
    """What the initializer gives for a shape that is a tensor."""
    if isinstance(initializer, initializers.Constant):
        return tensors.zeros(shape, dtype) + initializer([], dtype=dtype)
    return initializer(shape, dtype=dtype)


def _started(primary):
    """A value of the size that `primary` will have, also while it is not initialised."""
    return primary.initialized_value() if isinstance(primary, variables.Variable) else primary


def _scoped(primary, name, colocate, **arguments):
    prefix = primary._shared_name if isinstance(primary, variables.Variable) else primary.op.name
    with variable_scope.variable_scope(None, prefix + "/" + name) as scope:
        scope.set_partitioner(None)
        use_resource = None
        if isinstance(primary, variables.Variable):
            use_resource = is_resource_variable(primary)
        arguments.update(trainable=False, use_resource=use_resource)
        with ops.colocate_with(primary.op) if colocate else contextlib.nullcontext():
            slot = variable_scope.get_variable("", **arguments)
    return _cut_like(slot, primary)


def _cut_like(slot, primary):
    """The slot of a part of a partitioned variable is such a part, too."""
    part = primary._get_save_slice_info() if isinstance(primary, variables.Variable) else None
    if part is not None:
        own_name = slot.op.name[len(primary.op.name) + 1:]
        slot._set_save_slice_info(partitioned_variables.SaveSliceInfo(
            f"{part.full_name}/{own_name}", part.full_shape, part.var_offset, part.var_shape))
    return slot


PUBLIC = {}
