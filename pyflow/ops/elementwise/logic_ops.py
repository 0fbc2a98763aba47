"""Comparisons, logic and selection: Equal ... Less, LogicalAnd ..., Select, Where.

Invariants
  1. Comparisons broadcast and give bool; they have no gradient.
  2. Select wants one shape (or a vector condition over rows); SelectV2 broadcasts.

Example:  `tf.where(x > 0, x, tf.zeros_like(x))`.
"""
import numpy as np

from pyflow.framework.dtypes import ALL, NUMBERS, REAL
from pyflow.framework.op import S, UNREGISTERED, bools, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import (PAIRS, SAME_PAIRS, broadcast, merged, shape_vector,
                                    stretched_axes, sum_over, sum_static, unchanged)

COMPARABLE = [S(lit([1, 2, 3, 3]), lit([3, 2, 1, 3]))]
TRUTHS = [S(bools((2, 3)), bools((2, 3))), S(bools((2, 3)), bools((3,))),
          S(bools(()), bools((2, 1))),
          S(bools((0, 3)), bools((1, 3)))]


# -------------------------------------------------------------------------------------- comparisons
def _equality_shape(op):
    if op.attr("incompatible_shape_error"):
        return broadcast(op)
    try:
        return broadcast(op)
    except ValueError:
        return TensorShape([])


@op("Equal", inputs="x: T, y: T", outputs="z: bool",
    attrs="incompatible_shape_error: bool = true", T=ALL)
class Equal:
    """x == y element by element, broadcast. TF: Equal."""
    shape = _equality_shape
    gradient = None

    def reference(x, y): return np.equal(x, y)
    samples = PAIRS + COMPARABLE


@op("NotEqual", inputs="x: T, y: T", outputs="z: bool",
    attrs="incompatible_shape_error: bool = true", T=ALL)
class NotEqual:
    """x != y element by element, broadcast. TF: NotEqual."""
    shape = _equality_shape
    gradient = None

    def reference(x, y): return np.not_equal(x, y)
    samples = PAIRS + COMPARABLE


@op("Less", inputs="x: T, y: T", outputs="z: bool", T=REAL)
class Less:
    """x < y element by element, broadcast. TF: Less.

        >>> tf.Session().run(tf.less([1, 2, 3], 2))
        array([ True, False, False])
    """
    shape = broadcast
    gradient = None

    def reference(x, y): return np.less(x, y)
    samples = PAIRS + COMPARABLE


@op("LessEqual", inputs="x: T, y: T", outputs="z: bool", T=REAL)
class LessEqual:
    """x <= y element by element, broadcast. TF: LessEqual."""
    shape = broadcast
    gradient = None

    def reference(x, y): return np.less_equal(x, y)
    samples = PAIRS + COMPARABLE


@op("Greater", inputs="x: T, y: T", outputs="z: bool", T=REAL)
class Greater:
    """x > y element by element, broadcast. TF: Greater.

        >>> tf.Session().run(tf.greater([1, 2, 3], 2))
        array([False, False,  True])
    """
    shape = broadcast
    gradient = None

    def reference(x, y): return np.greater(x, y)
    samples = PAIRS + COMPARABLE


@op("GreaterEqual", inputs="x: T, y: T", outputs="z: bool", T=REAL)
class GreaterEqual:
    """x >= y element by element, broadcast. TF: GreaterEqual."""
    shape = broadcast
    gradient = None

    def reference(x, y): return np.greater_equal(x, y)
    samples = PAIRS + COMPARABLE


@op("ApproximateEqual", inputs="x: T, y: T", outputs="z: bool", attrs="tolerance: float = 1e-05",
    T=NUMBERS)
class ApproximateEqual:
    """|x - y| < tolerance, for tensors of one shape. TF: ApproximateEqual."""
    shape = merged
    gradient = None

    def reference(x, y, tolerance):
        return np.abs(x.astype(np.complex128) - y) < tolerance
    samples = SAME_PAIRS + [S(lit([1, 2, 3]), lit([1, 2, 5]), tolerance=0.5)]


# -------------------------------------------------------------------------------------------- logic
@op("LogicalAnd", inputs="x: bool, y: bool", outputs="z: bool")
class LogicalAnd:
    """x and y, broadcast. TF: LogicalAnd."""
    shape = broadcast
    gradient = None

    def reference(x, y): return x & y
    samples = TRUTHS


@op("LogicalOr", inputs="x: bool, y: bool", outputs="z: bool")
class LogicalOr:
    """x or y, broadcast. TF: LogicalOr."""
    shape = broadcast
    gradient = None

    def reference(x, y): return x | y
    samples = TRUTHS


@op("LogicalNot", inputs="x: bool", outputs="y: bool")
class LogicalNot:
    """not x. TF: LogicalNot."""
    shape = unchanged
    gradient = None

    def reference(x): return ~x
    samples = [S(bools((2, 3))), S(bools(())), S(bools((0, 3)))]


# ---------------------------------------------------------------------------------------- selection
def _select_shape(op):
    condition = op.inputs[0].shape
    shape = op.inputs[1].shape.merge_with(op.inputs[2].shape)
    if condition.ndims is None or shape.ndims is None or condition.ndims == 0:
        return shape
    if condition.ndims == shape.ndims:
        return shape.merge_with(condition)
    if condition.ndims == 1 and shape.ndims > 1:
        rows = TensorShape([shape.as_list()[0]]).merge_with(condition)
        return TensorShape(rows.as_list() + shape.as_list()[1:])
    raise ValueError(f"Select: condition of shape {condition} fits neither the shape {shape} of t "
                     "and e "
                     "nor its rows")


def _rows(condition, like):
    if condition.ndim == 1 and like.ndim > 1:
        return condition.reshape(condition.shape + (1,) * (like.ndim - 1))
    return condition


@op("Select", inputs="condition: bool, t: T, e: T", outputs="output: T", attrs="T: type")
class Select:
    """`t` where condition holds, else `e`: one shape, or a scalar or row-wise vector condition.
    TF: Select."""
    shape = _select_shape

    def gradient(op, dy):
        zeros = tensors.zeros_like(dy)
        condition = op.inputs[0]
        return [None, Select(condition, dy, zeros), Select(condition, zeros, dy)]

    def reference(condition, t, e): return np.where(_rows(condition, t), t, e)
    samples = [S(bools((2, 3)), (2, 3), (2, 3)), S(bools((2,)), (2, 3), (2, 3)),
               S(bools(()), (2, 3), (2, 3)), S(bools(()), (), ()), S(bools((0, 3)), (0, 3), (0, 3))]


@op("SelectV2", inputs="condition: bool, t: T, e: T", outputs="output: T", attrs="T: type")
class SelectV2:
    """`t` where condition holds, else `e`, all three broadcast. TF: SelectV2."""
    def shape(op):
        c, t, e = (x.shape for x in op.inputs)
        return broadcast_static_shape(c, broadcast_static_shape(t, e))

    def gradient(op, dy):
        condition, t, e = op.inputs
        zeros = tensors.zeros_like(dy)
        return [None, _sum_back(SelectV2(condition, dy, zeros), t, op.outputs[0]),
                _sum_back(SelectV2(condition, zeros, dy), e, op.outputs[0])]

    def reference(condition, t, e): return np.where(condition, t, e)
    samples = [S(bools((2, 3)), (2, 3), (2, 3)), S(bools((3,)), (2, 1), (2, 3)),
               S(bools((2, 1)), (), (3,)), S(bools((0, 3)), (0, 3), ())]


def _sum_back(grad, like, output):
    axes = stretched_axes(like.shape, output.shape)
    if axes is not None:
        return sum_static(grad, axes, like.shape)
    reduced = raw_ops.BroadcastGradientArgs(shape_vector(like), raw_ops.Shape(output))[0]
    return sum_over(grad, reduced, like)


def _where_shape(op):
    return TensorShape([None, op.inputs[0].shape.ndims])


@op("Where", inputs="input: T", outputs="index: int64",
    attrs="T: {float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, "
          "complex128, half, uint32, uint64, bool} = bool")
class Where:
    """Indices [n, rank] of the elements that are true or nonzero, row-major. TF: Where."""
    shape = _where_shape
    gradient = UNREGISTERED

    def reference(input): return np.argwhere(input).astype(np.int64)
    samples = [S(bools((2, 3))), S(bools((4,))), S(bools((0, 3))), S(lit([[0, 1], [2, 0]])),
               S(bools((2, 2, 2)))]


PUBLIC = {
    "less": Less, "math.less": Less, "less_equal": LessEqual, "math.less_equal": LessEqual,
    "greater": Greater, "math.greater": Greater, "greater_equal": GreaterEqual,
    "math.greater_equal": GreaterEqual, "approximate_equal": ApproximateEqual,
    "math.approximate_equal": ApproximateEqual, "logical_and": LogicalAnd,
    "math.logical_and": LogicalAnd, "logical_or": LogicalOr, "math.logical_or": LogicalOr,
    "logical_not": LogicalNot, "math.logical_not": LogicalNot, "select": Select,
}
