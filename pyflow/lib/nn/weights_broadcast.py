"""Weights beside values: a scalar, or of the values' rank with each dimension the same or 1.

That is less than NumPy broadcasts, so that [batch] weights of [batch, n] losses are an error and
not a silent n x n mean. What is known when the graph is built is checked there, the rest by an
Assert in each run.

Thread: the one building the graph.  Source: TF 1.15, python/ops/weights_broadcast_ops.py.

Example:
    with tf.control_dependencies([assert_broadcastable(weights, losses)]):
        weighted = losses * weights
"""
from pyflow.framework import graph
from pyflow.lib.control_flow import logging_functions
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.control import control_flow_ops
from pyflow.ops.control.routing import identity_of
from pyflow.ops.elementwise import binary_ops, logic_ops

_ERROR = "weights can not be broadcast to values."


def assert_broadcastable(weights, values):
    """The operation that fails unless `weights` fit `values`; a NoOp where that is known.

    Both: numbers of any shape. ValueError for shapes known not to fit; the operation raises
    InvalidArgumentError."""
    with graph.name_scope(None, "assert_broadcastable", (weights, values)) as scope:
        weights = graph.convert_to_tensor(weights, name="weights")
        values = graph.convert_to_tensor(values, name="values")
        fits = _known_to_fit(weights.shape, values.shape)
        if fits is False:
            raise ValueError(
                f"{_ERROR} values.rank={values.shape.ndims}. weights.rank={weights.shape.ndims}. "
                f"values.shape={values.shape}. weights.shape={weights.shape}. Make weights a scalar "
                "or of the values' rank, each dimension the same or 1.")
        if fits:
            return control_flow_ops.NoOp(name="static_checks_determined_all_ok")
        shapes = tensors.shape(weights), tensors.shape(values)
        return logging_functions.Assert(_fits(*shapes), [
            _ERROR, "weights.shape=", weights.name, shapes[0],
            "values.shape=", values.name, shapes[1]], name=scope)


def _known_to_fit(weights, values):
    """True, False, or None where the static shapes do not tell."""
    if weights.ndims == 0:
        return True
    if None in (weights.ndims, values.ndims):
        return None
    if weights.ndims != values.ndims:
        return False
    each = [None if w is None or v is None and w != 1 else w in (1, v)
            for w, v in zip(weights.as_list(), values.as_list())]
    return False if False in each else None if None in each else True


def _fits(weights, values):
    """A bool scalar, of two shapes: vectors of ints."""
    def of_one_rank():
        return cond(logic_ops.Equal(tensors.size(weights), tensors.size(values)),
                    lambda: reductions.reduce_all(logic_ops.LogicalOr(
                        logic_ops.Equal(weights, 1), logic_ops.Equal(weights, values))),
                    lambda: graph.convert_to_tensor(False))
    return cond(logic_ops.Equal(tensors.size(weights), 0),
                lambda: graph.convert_to_tensor(True), of_one_rank)


def checked(weights, values):
    """`weights`, which in a run are there only if they fit `values`."""
    check = assert_broadcastable(weights, values)
    if check.type == "NoOp":
        return weights
    with graph.control_dependencies([check]):
        return identity_of(weights)


def broadcast_weights(weights, values):
    """`weights` in the shape of `values`, in its dtype. ValueError, InvalidArgumentError: as
    `assert_broadcastable`."""
    with graph.name_scope(None, "broadcast_weights", (weights, values)) as scope:
        values = graph.convert_to_tensor(values, name="values")
        weights = graph.convert_to_tensor(weights, dtype=values.dtype.base_dtype, name="weights")
        if values.shape.is_fully_defined() and weights.shape.is_fully_defined() and (
                weights.shape.as_list() == values.shape.as_list()):
            return weights
        return binary_ops.Mul(checked(weights, values), tensors.ones_like(values), name=scope)


PUBLIC = {}
