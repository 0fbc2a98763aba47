"""Softmax, cross entropies, half a sum of squares.

Invariants
  1. The ops work on the last dimension of a matrix of logits.
  2. Cross-entropy ops compute their own gradient as a second output; it is not summed twice.
  3. All forms subtract the maximum: large logits do not overflow.

Example:  `Softmax([[0.0, 0.0]])` -> [[0.5, 0.5]].
"""
import numpy as np

from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, ints, lit, op, pos, raw_ops
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape
from pyflow.ops.base.common import at_least_rank, dims_of, int32s, stretched_axes, sum_static

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
        total = raw_ops.Sum(dy * y, int32s([-1]), keep_dims=True)
        return (dy - total) * y

    def reference(logits): return _softmax(logits)
    samples = LOGITS


@op("LogSoftmax", inputs="logits: T", outputs="logsoftmax: T", T=FLOATS)
class LogSoftmax:
    """x - log(sum(exp(x))) along the last dimension. TF: LogSoftmax."""
    shape = _vectors

    def gradient(op, dy):
        total = raw_ops.Sum(dy, int32s([-1]), keep_dims=True)
        return dy - total * raw_ops.Exp(op.outputs[0])

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
    return raw_ops.ExpandDims(dloss, -1) * rows


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
    inner = raw_ops.Sum(dbackprop * softmax, int32s([1]), keep_dims=True)
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
        labels = _scaled(dloss, raw_ops.Neg(LogSoftmax(op.inputs[0])))
        if not _is_zero(dbackprop):             # backprop is softmax - labels
            labels = labels - dbackprop
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
    """sum(t * t) / 2, a scalar. TF: L2Loss.

        >>> tf.Session().run(tf.nn.l2_loss([3., 4.]))
        np.float32(12.5)
    """
    def shape(op): return TensorShape([])

    def gradient(op, dy):
        return op.inputs[0] * dy

    def reference(t): return np.sum(t * t) / 2
    samples = [S((2, 3)), S(()), S((0, 3))]


PUBLIC = {"nn.l2_loss": L2Loss}
