"""What many op blocks share: shape functions, gradient algebra, sample lists, NumPy oracles.

Invariants
  1. Nothing here defines an op; the blocks of the other modules use these functions.
  2. A shape function takes the `Operation` and returns one TensorShape (or a list, one per output).
  3. Gradient functions emit as few nodes as the static shapes allow: where both operand shapes are
     known no Shape, BroadcastGradientArgs or Reshape node is built.

Pure functions; any thread that may build the graph may call them.

Example:  `shape = broadcast` in a binary block;  `return sum_to_operands(op, dy, -dy)` in its
gradient.
"""
import numpy as np

from pyflow.framework import tensor_util
from pyflow.framework.op import S, pos, raw_ops, unit
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape, unknown_shape

_INT32_MAX = 2**31 - 1


# ------------------------------------------------------------------------------------------ samples
ELEMENTWISE = [S((2, 3)), S(()), S((0, 3))]
POSITIVE = [S(pos((2, 3))), S(pos(())), S(pos((0, 3)))]
WITHIN_ONE = [S(unit((2, 3))), S(unit(())), S(unit((0, 3)))]
PAIRS = [S((2, 3), (2, 3)), S((2, 3), (3,)), S((), (2, 1)), S((0, 3), (1, 3)), S((2, 1, 3), (4, 1))]
SAME_PAIRS = [S((2, 3), (2, 3)), S((), ()), S((0, 3), (0, 3))]


def only(types, samples):
    """The same samples, for element types `types` alone."""
    return [S(*s.inputs, types=types, **s.attrs) for s in samples]


# ------------------------------------------------------------------------------------ static values
def static(tensor):
    """The ndarray a tensor is known to hold while the graph is built, or None."""
    return tensor_util.constant_value(tensor)


def static_shape(tensor):
    """The TensorShape a 1-D integer tensor holds, partly known dimensions as None."""
    return tensor_util.constant_value_as_shape(tensor)


def dims_of(shape):
    """Dimensions as a list of int or None; None for an unknown rank."""
    shape = TensorShape(shape) if not isinstance(shape, TensorShape) else shape
    return None if shape.ndims is None else list(shape.as_list())


def int32s(values):
    """A value list as int32, so that an empty list is not taken for float."""
    return np.array(values, np.int32)


def sizes(values):
    """Dimensions as int32, as int64 where one of them does not fit."""
    wide = any(int(value) > _INT32_MAX for value in values)
    return np.array(values, np.int64 if wide else np.int32)


def shape_vector(tensor):
    """The shape of `tensor`: `sizes` of it where it is known, else a Shape node (int32)."""
    if tensor.shape.is_fully_defined():
        return sizes(tensor.shape.as_list())
    return raw_ops.Shape(tensor)


def rank_of(tensor):
    """The rank of `tensor`: an int where it is known, else a Rank node."""
    if tensor.shape.ndims is not None:
        return tensor.shape.ndims
    return raw_ops.Rank(tensor)


# ---------------------------------------------------------------------------------- shape functions
def unchanged(op):
    """The first input's shape."""
    return op.inputs[0].shape


def merged(op):
    """All inputs have one shape."""
    shape = op.inputs[0].shape
    for other in op.inputs[1:]:
        shape = shape.merge_with(other.shape)
    return shape


def broadcast(op):
    """The shape two operands broadcast to."""
    a, b = op.inputs[0].shape, op.inputs[1].shape
    if a == b and a.is_fully_defined():
        return a
    return broadcast_static_shape(a, b)


def given_by(rank):
    """The shape that the first input holds, a vector of `rank` sizes."""
    def shape(op):
        given = static_shape(op.inputs[0])
        return given.merge_with(unknown_shape(rank))
    return shape


def scalar(op):
    """A scalar."""
    return TensorShape([])


def unknown(op):
    """Nothing is known before the step."""
    return unknown_shape()


def text(value):
    """A string attribute as str, whether it came as str or bytes."""
    return value.decode() if isinstance(value, bytes) else value


def normal_axis(axis, rank, what="axis"):
    """`axis` counted from the front; ValueError outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise ValueError(f"{what} {axis} is out of range for a tensor of rank {rank}: "
                         f"expected a value in [{-rank}, {rank})")
    return axis + rank if axis < 0 else axis


def at_least_rank(shape, rank, what="input"):
    """`shape`, checked to have at least `rank` dimensions where its rank is known."""
    if shape.ndims is not None and shape.ndims < rank:
        raise ValueError(f"{what} must have rank at least {rank}, got shape {shape}")
    return shape


# ---------------------------------------------------------------------------------------- gradients
def conj(x):
    """The complex conjugate; real tensors come back as they are, without a node."""
    if not x.dtype.is_complex:
        return x
    return raw_ops.Conj(x)


def sum_to_operands(op, gx, gy):
    """Gradients of a broadcasting op's operands, summed over the dimensions each was stretched
    in."""
    x, y = op.inputs[0], op.inputs[1]
    xs, ys = x.shape, y.shape
    if xs.is_fully_defined() and xs == ys:
        return [gx, gy]
    rx, ry = stretched_axes(xs, ys), stretched_axes(ys, xs)
    if rx is None or ry is None:
        dynamic = raw_ops.BroadcastGradientArgs(shape_vector(x), shape_vector(y))
        dx = gx if rx == [] and gx is not None else sum_over(gx, dynamic[0], x)
        dy = gy if ry == [] and gy is not None else sum_over(gy, dynamic[1], y)
        return [dx, dy]
    return [sum_static(gx, rx, xs), sum_static(gy, ry, ys)]


def stretched_axes(shape, other):
    """Axes of the broadcast result in which an operand of `shape` was stretched; None if not known
    yet."""
    a, b = dims_of(shape), dims_of(other)
    if a is None or b is None:
        return [] if b == [] else None
    extra = max(len(b) - len(a), 0)
    axes = list(range(extra))
    for i, dim in enumerate(a):
        j = i + len(b) - len(a)
        if j < 0 or b[j] == 1:
            continue
        if dim is None:
            return None
        if dim == 1:
            axes.append(i + extra)
    return axes


def sum_static(grad, axes, shape):
    """`grad` summed over `axes` and brought to `shape`, all known while the graph is built."""
    if grad is None or not axes:
        return grad
    extra = grad.shape.ndims - shape.ndims
    kept = [a for a in axes if a >= extra]
    if not kept:
        return raw_ops.Sum(grad, int32s(axes))
    if extra and shape.is_fully_defined():
        return raw_ops.Reshape(raw_ops.Sum(grad, int32s(axes)), int32s(shape.as_list()))
    total = raw_ops.Sum(grad, int32s(kept), keep_dims=True)
    return raw_ops.Sum(total, int32s(list(range(extra)))) if extra else total


def sum_over(grad, axes, like):
    """`grad` summed over a tensor of axes and brought to the shape of `like`."""
    if grad is None:
        return None
    return raw_ops.Reshape(raw_ops.Sum(grad, axes), shape_vector(like))


# ------------------------------------------------------------------------------------------ oracles
def vectorized(function):
    """A scalar function of `math` as one over arrays, computed in float64."""
    apply = np.vectorize(function, otypes=[np.float64])

    def over(x):
        x = np.asarray(x)
        return apply(x.astype(np.float64)).astype(x.dtype)
    return over


# --------------------------------------------------------------------------------- public functions
def one_of(value, old, name, old_name, default=None):
    """The argument given under its new or its deprecated name; ValueError if both were."""
    if old is not None:
        if value is not None:
            raise ValueError(f"give either '{name}' or its deprecated name '{old_name}', not both")
        return old
    return default if value is None else value
