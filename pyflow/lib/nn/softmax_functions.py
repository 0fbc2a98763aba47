"""Softmax along any axis, cross entropies and their like: the loss functions of tf.nn.

Invariant: the ops work on the last dimension; functions move any other axis there.

Example:  `tf.nn.softmax([[0.0, 0.0]])` -> [[0.5, 0.5]].
"""
import numpy as np

from pyflow.framework import errors, graph
from pyflow.lib.array import identity_functions
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, int32s, normal_axis, one_of
from pyflow.ops.elementwise import activation_ops, binary_ops, logic_ops, unary_ops
from pyflow.ops.move import array_ops
from pyflow.ops.norm.softmax_ops import (LogSoftmax, Softmax, SoftmaxCrossEntropyWithLogits,
                                         SparseSoftmaxCrossEntropyWithLogits)


def _along_last(x, axis, apply, name):
    """`apply` along `axis` of x, by moving that axis to the end and back."""
    n = x.shape.ndims
    if axis in (-1, None) or n is not None and axis == n - 1:
        return apply(x, name)
    if n is None:
        raise ValueError("softmax along an axis other than the last needs a tensor of known rank")
    if not -n <= axis < n:
        raise errors.InvalidArgumentError(None, None, (
            f"softmax: dim must be in the range [{-n}, {n}), where {n} is the number of dimensions "
            f"in the input, got {axis}"))
    order = list(range(n))
    order[axis], order[-1] = order[-1], order[axis]
    return tensors.transpose(apply(tensors.transpose(x, order), None), order, name=name)


def _softmax_function(opdef, default, summary, example):
    def function(logits, axis=None, name=None, dim=None):
        axis = one_of(axis, dim, "axis", "dim", -1)
        if not isinstance(logits, graph.Tensor):
            logits = graph.convert_to_tensor(logits)
        return _along_last(logits, axis, lambda x, name: opdef(x, name=name), name)
    function.__name__ = function.__qualname__ = default
    function.__doc__ = f"""{summary}

    logits: floats of rank 1 or more; no overflow however large they are.
    Dtypes, shapes, errors: as op {opdef.name}.

        >>> tf.Session().run(tf.nn.{default}([0., 0., 1000.]))
        {example}
    """
    return function


softmax = _softmax_function(Softmax, "softmax",
                            "exp(x) / sum(exp(x)) along `axis` (default last; `dim` is its "
                            "older name). TF: nn.softmax.", "array([0., 0., 1.], dtype=float32)")
log_softmax = _softmax_function(LogSoftmax, "log_softmax",
                                "x - log(sum(exp(x))) along `axis` (default last). "
                                "`dim` is axis's older name. TF: nn.log_softmax.",
                                "array([-1000., -1000.,     0.], dtype=float32)")


def _need_names(sentinel, labels, logits, who):
    if sentinel is not None:
        raise ValueError(f"Only call `{who}` with named arguments (labels=..., logits=..., ...)")
    if labels is None or logits is None:
        raise ValueError(f"{who}: both labels and logits must be provided")


def _float_pair(labels, logits):
    logits = graph.convert_to_tensor(logits, name="logits")
    labels = graph.convert_to_tensor(labels, name="labels",
                                     dtype=None if isinstance(labels, graph.Tensor)
                                     else logits.dtype.base_dtype)
    if labels.dtype.base_dtype != logits.dtype.base_dtype:
        labels = tensors.cast(labels, logits.dtype)
    return labels, logits


def _flat(x):
    """`x` as a matrix, all dimensions but the last in one."""
    if x.shape.ndims == 2:
        return x
    dims = dims_of(x.shape)
    last = dims[-1] if dims else None
    if dims and None not in dims:
        return array_ops.Reshape(x, int32s([np.prod(dims[:-1], dtype=np.int64), last]))
    if last:
        return array_ops.Reshape(x, int32s([-1, last]))
    shape = tensors.shape(x)      # -1 says nothing where there may be no classes
    rows = reductions.reduce_prod(shape[:-1], keepdims=True)
    return array_ops.Reshape(x, tensors.concat([rows, shape[-1:]], 0))


def _axis_last(axis, logits):
    """The dimensions of `logits`, `axis` moved to the end; the others keep their order."""
    rank = logits.shape.ndims
    if rank is not None:
        at = normal_axis(axis, rank, "dim")
        return [i for i in range(rank) if i != at] + [at]
    rank = array_ops.Rank(logits)
    at = axis if axis >= 0 else rank + axis
    return tensors.concat([tensors.range_(at), tensors.range_(at + 1, rank), [at]], 0)


def softmax_cross_entropy_with_logits_v2(labels, logits, axis=None, name=None, dim=None):
    """-sum(labels * log softmax(logits)) along `axis`; gradients to both. TF:
    nn.softmax_cross_entropy_with_logits_v2.

    labels: distributions, same shape as logits (float). Returns logits' shape without `axis` (the
    last one; `dim` is its older name).
    Dtypes, shapes, errors: as op SoftmaxCrossEntropyWithLogits.

        >>> loss = tf.nn.softmax_cross_entropy_with_logits_v2(labels=[[0., 1.]], logits=[[2., 2.]])
        >>> tf.Session().run(loss).round(4)
        array([0.6931], dtype=float32)
    """
    axis = one_of(axis, dim, "axis", "dim", -1)
    with graph.name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        labels, logits = _float_pair(labels, logits)
        n = logits.shape.ndims
        if axis not in (-1, None) and axis != (n or 0) - 1:
            order = _axis_last(axis, logits)
            labels, logits = tensors.transpose(labels, order), tensors.transpose(logits, order)
        if n == 2 and labels.shape.ndims == 2:
            return SoftmaxCrossEntropyWithLogits(logits, labels, name=scope)[0]
        loss = SoftmaxCrossEntropyWithLogits(_flat(logits), _flat(labels), name=scope)[0]
        if logits.shape.is_fully_defined():
            return array_ops.Reshape(loss, int32s(logits.shape.as_list()[:-1]))
        result = array_ops.Reshape(loss, tensors.shape(logits)[:-1])
        if n is not None:
            result.set_shape(logits.shape.as_list()[:-1])
        return result


def softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, dim=-1, name=None,
                                      axis=None):
    """As the _v2 form, with no gradient to `labels`. TF: nn.softmax_cross_entropy_with_logits.
    labels,
    logits: floats of one shape; result: without the class dimension, which is the last one or `dim`
    (`axis` is its other name). TypeError for other dtypes, ValueError for shapes that do not fit.

        >>> loss = tf.nn.softmax_cross_entropy_with_logits(labels=[[0., 1.]], logits=[[2., 2.]])
        >>> tf.Session().run(loss).round(4)
        array([0.6931], dtype=float32)
    """
    _need_names(_sentinel, labels, logits, "softmax_cross_entropy_with_logits")
    with graph.name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        labels = identity_functions.stop_gradient(labels, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name=scope,
                                                    axis=dim if axis is None else axis)


def sparse_softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """Cross entropy with one true class each. TF: nn.sparse_softmax_cross_entropy_with_logits.

    labels: int32 or int64 [d0, ...]; logits: float [d0, ..., classes]; returns the shape of labels.
    ValueError for mismatched ranks or scalar logits; a label outside [0, classes) fails the step.

        >>> loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[2., 2.]])
        >>> tf.Session().run(loss).round(4)
        array([0.6931], dtype=float32)
    """
    _need_names(_sentinel, labels, logits, "sparse_softmax_cross_entropy_with_logits")
    with graph.name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels, logits = graph.convert_to_tensor(labels), graph.convert_to_tensor(logits)
        a, b = labels.shape.ndims, logits.shape.ndims
        if b == 0:
            raise ValueError(f"Logits cannot be scalars - received shape {logits.shape}.")
        if None not in (a, b) and a != b - 1:
            raise ValueError(f"Rank mismatch: Rank of labels (received {a}) should equal rank of "
                             "logits minus 1 "
                             f"(received {b}).")
        if b == 2:
            return SparseSoftmaxCrossEntropyWithLogits(logits, labels)[0]
        flat = tensors.reshape(labels, int32s([-1]))
        loss = SparseSoftmaxCrossEntropyWithLogits(_flat(logits), flat)[0]
        result = tensors.reshape(loss, tensors.shape(labels))
        result.set_shape(labels.shape)
        return result


def sigmoid_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """max(x, 0) - x z + log(1 + exp(-|x|)) for logits x, labels z.
    TF: nn.sigmoid_cross_entropy_with_logits.
    labels, logits: floats of one shape, which the result has. TypeError for other dtypes,
    ValueError for shapes that do not fit.

        >>> loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=[1., 0.], logits=[0., -100.])
        >>> tf.Session().run(loss).round(4)
        array([0.6931, 0.    ], dtype=float32)
    """
    _need_names(_sentinel, labels, logits, "sigmoid_cross_entropy_with_logits")
    with graph.name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = graph.convert_to_tensor(logits, name="logits")
        labels = graph.convert_to_tensor(labels, name="labels", dtype=logits.dtype.base_dtype)
        _same_shape(labels, logits)
        zeros = tensors.zeros_like(logits, dtype=logits.dtype)
        positive = logits >= zeros
        above = logic_ops.Select(positive, logits, zeros)
        minus = logic_ops.Select(positive, unary_ops.Neg(logits), logits)
        return binary_ops.Add(above - logits * labels, unary_ops.Log1p(unary_ops.Exp(minus)),
                              name=scope)


def _same_shape(labels, logits):
    try:
        labels.shape.merge_with(logits.shape)
    except ValueError:
        raise ValueError(f"logits and labels must have the same shape ({logits.shape} vs "
                         f"{labels.shape})") from None


def weighted_cross_entropy_with_logits(labels=None, logits=None, pos_weight=None, name=None,
                                       targets=None):
    """Sigmoid cross entropy, positive examples weighted.
    TF: nn.weighted_cross_entropy_with_logits.
    targets, logits: floats of one shape, which the result has; pos_weight broadcasts. TypeError
    for other dtypes, ValueError for shapes that do not fit."""
    labels = one_of(labels, targets, "labels", "targets")
    with graph.name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = graph.convert_to_tensor(logits, name="logits")
        labels = graph.convert_to_tensor(labels, name="labels", dtype=logits.dtype.base_dtype)
        _same_shape(labels, logits)
        weight = 1 + (pos_weight - 1) * labels
        tail = unary_ops.Log1p(unary_ops.Exp(-unary_ops.Abs(logits))) + activation_ops.Relu(-logits)
        return binary_ops.Add((1 - labels) * logits, weight * tail, name=scope)


def log_poisson_loss(targets, log_input, compute_full_loss=False, name=None):
    """exp(c) - z c for log-rates c and counts z (+ Stirling's terms). TF: nn.log_poisson_loss.
    targets, log_input: floats of one shape, which the result has. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    with graph.name_scope(name, "log_poisson_loss", [log_input, targets]):
        c, z = graph.convert_to_tensor(log_input), graph.convert_to_tensor(targets)
        result = unary_ops.Exp(c) - c * z
        if compute_full_loss:
            stirling = z * unary_ops.Log(z) - z + 0.5 * unary_ops.Log(2 * np.pi * z)
            zeros, ones = tensors.zeros_like(z), tensors.ones_like(z)
            inside = logic_ops.LogicalAnd(z >= zeros, z <= ones)
            result = result + logic_ops.Select(inside, zeros, stirling)
        return result


PUBLIC = {
    "nn.softmax": softmax, "math.softmax": softmax, "nn.log_softmax": log_softmax,
    "math.log_softmax": log_softmax,
    "nn.softmax_cross_entropy_with_logits": softmax_cross_entropy_with_logits,
    "nn.softmax_cross_entropy_with_logits_v2": softmax_cross_entropy_with_logits_v2,
    "nn.sparse_softmax_cross_entropy_with_logits": sparse_softmax_cross_entropy_with_logits,
    "nn.sigmoid_cross_entropy_with_logits": sigmoid_cross_entropy_with_logits,
    "nn.weighted_cross_entropy_with_logits": weighted_cross_entropy_with_logits,
    "nn.log_poisson_loss": log_poisson_loss,
}
