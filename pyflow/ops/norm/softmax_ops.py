"""Softmax, cross entropies and the loss functions of tf.nn.

Invariants
  1. The ops work on the last dimension of a matrix of logits; the public functions move any other
     axis there.
  2. Cross-entropy ops compute their own gradient as a second output; it is not summed twice.
  3. All forms subtract the maximum: large logits do not overflow.

Example:  `tf.nn.softmax([[0.0, 0.0]])` -> [[0.5, 0.5]].
"""
import numpy as np

from pyflow.framework import errors, graph
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, ints, lit, op, pos
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape
from pyflow.ops.base.common import (at_least_rank, dims_of, int32s, normal_axis, stretched_axes,
                                    sum_static)
from pyflow.ops.elementwise import binary_ops, cast_ops, logic_ops, unary_ops
from pyflow.ops.reduce import reduction_ops
from pyflow.ops.reduce.reduction_ops import one_of

LOGITS = [S((2, 3)), S((1, 1)), S((4,)), S((0, 3)), S((2, 3, 4)),
          S(lit([[1000.0, 0.0], [-1000.0, 0.0]]))]


def _vectors(op):
    return at_least_rank(op.inputs[0].shape, 1, f"{op.type}: logits")


def _softmax(x):
    e = np.exp(x - np.max(x, -1, keepdims=True, initial=-np.inf))
    return e / np.sum(e, -1, keepdims=True)


def _log_softmax(x):
    shifted = x - np.max(x, -1, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), -1, keepdims=True))


@op("Softmax", inputs="logits: T", outputs="softmax: T", T=FLOATS)
class Softmax:
    """exp(x) / sum(exp(x)) along the last dimension. TF: Softmax."""
    shape = _vectors

    def gradient(op, dy):
        y = op.outputs[0]
        total = reduction_ops.Sum(dy * y, int32s([-1]), keep_dims=True)
        return (dy - total) * y

    def reference(logits): return _softmax(logits)
    samples = LOGITS


@op("LogSoftmax", inputs="logits: T", outputs="logsoftmax: T", T=FLOATS)
class LogSoftmax:
    """x - log(sum(exp(x))) along the last dimension. TF: LogSoftmax."""
    shape = _vectors

    def gradient(op, dy):
        total = reduction_ops.Sum(dy, int32s([-1]), keep_dims=True)
        return dy - total * unary_ops.Exp(op.outputs[0])

    def reference(logits): return _log_softmax(logits)
    samples = LOGITS


def _cross_shapes(op):
    shape = broadcast_static_shape(op.inputs[0].shape, op.inputs[1].shape)
    if shape.ndims not in (None, 2):
        raise ValueError(f"{op.type}: logits and labels must be matrices, got "
                         f"{op.inputs[0].shape} and "
                         f"{op.inputs[1].shape}")
    if shape.ndims is None:
        shape = _known_cross_shape(*(x.shape.as_tuple() for x in op.inputs))
    return [TensorShape(shape.as_list()[:1]), shape]


def _known_cross_shape(features, labels):
    """What the one matrix of known rank says of both: its sizes, unless they may be stretched."""
    dims = features or labels or (None, None)
    if len(dims) != 2:
        raise ValueError(f"logits and labels must be matrices, got shape {TensorShape(dims)}")
    return TensorShape([None if d == 1 else d for d in dims])


def _scaled(dloss, rows):
    """Each row of a matrix times its entry of the vector `dloss`."""
    from pyflow.ops.move import array_ops
    return array_ops.ExpandDims(dloss, -1) * rows


def _is_zero(grad):
    """Whether a gradient is known to be zero: nothing depends on that output."""
    if grad is None:
        return True
    if grad.op.type in ("ZerosLike", "Zeros"):
        return True
    value = grad.op._const_value if grad.op.type == "Const" else None
    if grad.op.type == "Fill":
        value = grad.op.inputs[1].op._const_value
    return value is not None and value.size > 0 and not np.any(value)


def _second_order(op, dloss_rows, dbackprop):
    """Adds the term through the `backprop` output, where something depends on it."""
    if _is_zero(dbackprop):
        return dloss_rows
    softmax = Softmax(op.inputs[0])
    inner = reduction_ops.Sum(dbackprop * softmax, int32s([1]), keep_dims=True)
    return dloss_rows + (dbackprop - inner) * softmax


def _unbroadcast(grad, operands):
    """`grad` summed where the first operand is known to have been repeated."""
    axes = stretched_axes(operands[0].shape, operands[1].shape)
    return sum_static(grad, axes, operands[0].shape) if axes else grad


def _cross_entropy_reference(features, labels):
    log_p = _log_softmax(features)
    return -np.sum(labels * log_p, -1), np.exp(log_p) - labels


@op("SoftmaxCrossEntropyWithLogits", inputs="features: T, labels: T",
    outputs="loss: T, backprop: T",
    T=FLOATS)
class SoftmaxCrossEntropyWithLogits:
    """-sum(labels * log softmax(features)) by row, and softmax - labels.
    TF: SoftmaxCrossEntropyWithLogits."""
    shape = _cross_shapes

    def gradient(op, dloss, dbackprop):
        rows = _second_order(op, _scaled(dloss, op.outputs[1]), dbackprop)
        labels = _scaled(dloss, unary_ops.Neg(LogSoftmax(op.inputs[0])))
        return [_unbroadcast(rows, op.inputs), _unbroadcast(labels, op.inputs[::-1])]

    def reference(features, labels): return _cross_entropy_reference(features, labels)
    samples = [S((2, 3), pos((2, 3))), S((0, 3), pos((0, 3))),
               S((2, 3), lit([[0, 1, 0], [0.5, 0.25, 0.25]])),
               S((1, 3), pos((4, 3)))]


def _sparse_shapes(op):
    features, labels = op.inputs[0].shape, op.inputs[1].shape
    if features.ndims not in (None, 2) or labels.ndims not in (None, 1):
        raise ValueError(f"{op.type}: logits must be a matrix and labels a vector, got {features} "
                         f"and {labels}")
    dims = dims_of(features) or [None, None]
    rows = TensorShape([dims[0]]).merge_with(labels)
    return [rows, rows.concatenate(TensorShape([dims[1]]))]


def _sparse_reference(features, labels):
    hot = np.eye(features.shape[1], dtype=features.dtype)[labels]
    return _cross_entropy_reference(features, hot)


@op("SparseSoftmaxCrossEntropyWithLogits", inputs="features: T, labels: Tlabels",
    outputs="loss: T, backprop: T", T=FLOATS, attrs="T: type, Tlabels: {int32, int64} = int64")
class SparseSoftmaxCrossEntropyWithLogits:
    """Cross entropy of each row with one true class. TF: SparseSoftmaxCrossEntropyWithLogits."""
    shape = _sparse_shapes

    def gradient(op, dloss, dbackprop):
        return [_second_order(op, _scaled(dloss, op.outputs[1]), dbackprop), None]

    def reference(features, labels): return _sparse_reference(features, labels)
    samples = [S((3, 4), ints((3,), 0, 4)), S((0, 4), ints((0,), 0, 4)), S((1, 2), lit([1]))]


@op("L2Loss", inputs="t: T", outputs="output: T", T=FLOATS)
class L2Loss:
    """sum(t * t) / 2, a scalar. TF: L2Loss."""
    def shape(op): return TensorShape([])

    def gradient(op, dy):
        return op.inputs[0] * dy

    def reference(t): return np.sum(t * t) / 2
    samples = [S((2, 3)), S(()), S((0, 3))]


# --------------------------------------------------------------------------------- public functions
def _along_last(x, axis, apply, name):
    """`apply` along `axis` of x, by moving that axis to the end and back."""
    from pyflow.ops.move import array_ops
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
    return array_ops.transpose(apply(array_ops.transpose(x, order), None), order, name=name)


def _softmax_function(opdef, default, summary):
    def function(logits, axis=None, name=None, dim=None):
        axis = one_of(axis, dim, "axis", "dim", -1)
        if not isinstance(logits, graph.Tensor):
            logits = graph.convert_to_tensor(logits)
        return _along_last(logits, axis, lambda x, name: opdef(x, name=name), name)
    function.__name__ = function.__qualname__ = default
    function.__doc__ = f"{summary}\nDtypes, shapes, errors: as op {opdef.name}."
    return function


softmax = _softmax_function(Softmax, "softmax",
                            "exp(x) / sum(exp(x)) along `axis` (default last; `dim` is its "
                            "older name). TF: nn.softmax.")
log_softmax = _softmax_function(LogSoftmax, "log_softmax",
                                "x - log(sum(exp(x))) along `axis` (default last). "
                                "TF: nn.log_softmax.")


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
        labels = cast_ops.cast(labels, logits.dtype)
    return labels, logits


def _flat(x):
    """`x` as a matrix, all dimensions but the last in one."""
    from pyflow.ops.move import array_ops, join_ops
    if x.shape.ndims == 2:
        return x
    dims = dims_of(x.shape)
    last = dims[-1] if dims else None
    if dims and None not in dims:
        return array_ops.Reshape(x, int32s([np.prod(dims[:-1], dtype=np.int64), last]))
    if last:
        return array_ops.Reshape(x, int32s([-1, last]))
    shape = array_ops.shape(x)      # -1 says nothing where there may be no classes
    rows = reduction_ops.reduce_prod(shape[:-1], keepdims=True)
    return array_ops.Reshape(x, join_ops.concat([rows, shape[-1:]], 0))


def _axis_last(axis, logits):
    """The dimensions of `logits`, `axis` moved to the end; the others keep their order."""
    from pyflow.ops.move import array_ops, join_ops
    rank = logits.shape.ndims
    if rank is not None:
        at = normal_axis(axis, rank, "dim")
        return [i for i in range(rank) if i != at] + [at]
    rank = array_ops.Rank(logits)
    at = axis if axis >= 0 else rank + axis
    return join_ops.concat([array_ops.range_(at), array_ops.range_(at + 1, rank), [at]], 0)


def softmax_cross_entropy_with_logits_v2(_sentinel=None, labels=None, logits=None, axis=None,
                                         name=None,
                                         dim=None):
    """-sum(labels * log softmax(logits)) along `axis`; gradients to both. TF:
    nn.softmax_cross_entropy_with_logits_v2.

    labels: distributions, same shape as logits (float). Returns logits' shape without `axis`.
    Dtypes, shapes, errors: as op SoftmaxCrossEntropyWithLogits."""
    from pyflow.ops.move import array_ops
    _need_names(_sentinel, labels, logits, "softmax_cross_entropy_with_logits")
    axis = one_of(axis, dim, "axis", "dim", -1)
    with graph.name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        labels, logits = _float_pair(labels, logits)
        n = logits.shape.ndims
        if axis not in (-1, None) and axis != (n or 0) - 1:
            order = _axis_last(axis, logits)
            labels, logits = array_ops.transpose(labels, order), array_ops.transpose(logits, order)
        if n == 2:
            return SoftmaxCrossEntropyWithLogits(logits, labels, name=scope)[0]
        loss = SoftmaxCrossEntropyWithLogits(_flat(logits), _flat(labels), name=scope)[0]
        if logits.shape.is_fully_defined():
            return array_ops.Reshape(loss, int32s(logits.shape.as_list()[:-1]))
        result = array_ops.Reshape(loss, array_ops.shape(logits)[:-1])
        if n is not None:
            result.set_shape(logits.shape.as_list()[:-1])
        return result


def softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, dim=-1, name=None,
                                      axis=None):
    """As the _v2 form, with no gradient to `labels`. TF: nn.softmax_cross_entropy_with_logits.
    labels, logits: floats of one shape; result: without the class dimension. TypeError for other
    dtypes, ValueError for shapes that do not fit."""
    from pyflow.ops.control import identity_ops
    _need_names(_sentinel, labels, logits, "softmax_cross_entropy_with_logits")
    with graph.name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        labels = identity_ops.stop_gradient(labels, name="labels_stop_gradient")
        return softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, name=scope,
                                                    axis=dim if axis is None else axis)


def sparse_softmax_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """Cross entropy with one true class each. TF: nn.sparse_softmax_cross_entropy_with_logits.

    labels: int32 or int64 [d0, ...]; logits: float [d0, ..., classes]; returns the shape of labels.
    ValueError for mismatched ranks or scalar logits; a label outside [0, classes) fails the step.
    """
    from pyflow.ops.move import array_ops
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
        flat = array_ops.reshape(labels, int32s([-1]))
        loss = SparseSoftmaxCrossEntropyWithLogits(_flat(logits), flat)[0]
        result = array_ops.reshape(loss, array_ops.shape(labels))
        result.set_shape(labels.shape)
        return result


def sigmoid_cross_entropy_with_logits(_sentinel=None, labels=None, logits=None, name=None):
    """max(x, 0) - x z + log(1 + exp(-|x|)) for logits x, labels z.
    TF: nn.sigmoid_cross_entropy_with_logits.
    labels, logits: floats of one shape, which the result has. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    from pyflow.ops.move import array_ops
    _need_names(_sentinel, labels, logits, "sigmoid_cross_entropy_with_logits")
    with graph.name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = graph.convert_to_tensor(logits, name="logits")
        labels = graph.convert_to_tensor(labels, name="labels", dtype=logits.dtype.base_dtype)
        _same_shape(labels, logits)
        zeros = array_ops.zeros_like(logits, dtype=logits.dtype)
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
    from pyflow.ops.elementwise import activation_ops
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
    from pyflow.ops.move import array_ops
    with graph.name_scope(name, "log_poisson_loss", [log_input, targets]):
        c, z = graph.convert_to_tensor(log_input), graph.convert_to_tensor(targets)
        result = unary_ops.Exp(c) - c * z
        if compute_full_loss:
            stirling = z * unary_ops.Log(z) - z + 0.5 * unary_ops.Log(2 * np.pi * z)
            zeros, ones = array_ops.zeros_like(z), array_ops.ones_like(z)
            inside = logic_ops.LogicalAnd(z >= zeros, z <= ones)
            result = result + logic_ops.Select(inside, zeros, stirling)
        return result


PUBLIC = {
    "nn.softmax": softmax, "math.softmax": softmax, "nn.log_softmax": log_softmax,
    "math.log_softmax": log_softmax, "nn.l2_loss": L2Loss,
    "nn.softmax_cross_entropy_with_logits": softmax_cross_entropy_with_logits,
    "nn.softmax_cross_entropy_with_logits_v2": softmax_cross_entropy_with_logits_v2,
    "nn.sparse_softmax_cross_entropy_with_logits": sparse_softmax_cross_entropy_with_logits,
    "nn.sigmoid_cross_entropy_with_logits": sigmoid_cross_entropy_with_logits,
    "nn.weighted_cross_entropy_with_logits": weighted_cross_entropy_with_logits,
    "nn.log_poisson_loss": log_poisson_loss,
}
