"""Optimizers that treat references and handles alike, and step through rows of sparse gradients.

A subclass defines `_step(grad, var)` and `_step_rows(grad, var, indices)`, with unique indices.

Thread: the one building the graph.  Callers: the other modules of pyflow.train.
"""
from pyflow.lib.array import gather_functions
from pyflow.lib.control_flow import grouping
from pyflow.lib.variables import state_functions
from pyflow.lib.variables.resource_variables import is_resource_variable
from pyflow.ops.state import resource_handles
from pyflow.train.optimizer import Optimizer


class RowOptimizer(Optimizer):
    """An Optimizer of two steps instead of four."""

    def _step(self, grad, var):
        raise NotImplementedError(f"{type(self).__name__} must define _step")

    def _step_rows(self, grad, var, indices):
        raise NotImplementedError(f"{type(self).__name__} must define _step_rows")

    def _apply_dense(self, grad, var):
        return self._step(grad, var)

    def _resource_apply_dense(self, grad, handle):
        return self._step(grad, handle)

    def _apply_sparse(self, grad, var):
        return self._step_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._step_rows(grad, handle, indices)


def apply_op(plain, of_handles, var, state, arguments, **options):
    """plain(var, *state, *arguments), or of_handles for a resource variable: an Operation."""
    if is_resource_variable(var):
        return of_handles(var.handle, *(slot.handle for slot in state), *arguments, **options)
    return plain(var, *state, *arguments, **options).op


def put(slot, value):
    """The operation that assigns a value."""
    return grouping.group(slot.assign(value, read_value=False))


def rows(slot, indices):
    """Rows of a variable."""
    return gather_functions.gather(slot, indices)


def put_rows(slot, indices, value):
    """The operation that assigns rows."""
    if is_resource_variable(slot):
        return resource_handles.ResourceScatterUpdate(slot.handle, indices, value)
    return state_functions.scatter_update(slot, indices, value).op


def add_rows(slot, indices, value):
    """The operation that adds to rows."""
    if is_resource_variable(slot):
        return resource_handles.ResourceScatterAdd(slot.handle, indices, value)
    return state_functions.scatter_add(slot, indices, value).op


PUBLIC = {}
