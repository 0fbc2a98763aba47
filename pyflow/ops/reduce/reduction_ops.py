"""Reductions over axes, running sums and products, arg-extrema.

Invariants
  1. `reduction_indices` is an int32 or int64 scalar or vector; negative axes count from the end; []
     reduces nothing.  Of an empty range: Sum 0, Prod 1, Mean NaN, Max the lowest and Min the highest
     value.
  2. Gradients use the static shape where it is known and emit Shape nodes only where it is not.

Example:  `tf.reduce_mean([[1.0, 2.0], [3.0, 4.0]], axis=0)` -> [2, 3].
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import NUMBERS, REAL
from pyflow.framework.op import S, UNREGISTERED, bools, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import conj, dims_of, int32s, normal_axis, shape_vector, static
from pyflow.ops.base.shape_rules import match

KEEP = "keep_dims: bool = false, "
TIDX = "Tidx: {int32, int64} = int32"
AXES = [S((2, 3, 4), lit([0, 2])), S((2, 3), lit(1)), S((2, 3), lit(-1), keep_dims=True),
        S((2, 3), lit(np.zeros(0, np.int32))), S((), lit(np.zeros(0, np.int32))),
        S((2, 3), lit([0, 1])), S((0, 3), lit(1)), S((2, 3, 2), lit([1]), keep_dims=True),
        S((5,), lit(0), Tidx=dtypes.int64)]
EMPTY = [S((0, 3), lit(0)), S((2, 0), lit([0, 1]), keep_dims=True)]
TRUTH_AXES = [S(bools((2, 3)), lit(1)), S(bools((2, 3)), lit([0, 1])), S(bools((0, 3)), lit(0)),
              S(bools((2, 3)), lit(-1), keep_dims=True), S(bools(()), lit(np.zeros(0, np.int32)))]


# ----------------------------------------------------------------------------- shapes and gradients
def static_axes(op):
    """Sorted axes from the front that a reduction node sums over; None where they are not known."""
    axes, rank = static(op.inputs[1]), op.inputs[0].shape.ndims
    if (op.inputs[1].shape.ndims or 0) > 1:
        raise ValueError(f"{op.type}: the axes must be a scalar or a vector, got shape "
                         f"{op.inputs[1].shape}")
    if axes is None or rank is None:
        return None
    return sorted({normal_axis(int(a), rank, "reduction axis") for a in np.ravel(axes)})


def reduced(op):
    """Static shape of a reduction node."""
    dims, axes = dims_of(op.inputs[0].shape), static_axes(op)
    keep = op.attr("keep_dims")
    if dims is None:
        return unknown_shape()
    if axes is None:
        return unknown_shape(len(dims)) if keep else unknown_shape()
    if keep:
        return TensorShape([1 if i in axes else d for i, d in enumerate(dims)])
    return TensorShape([d for i, d in enumerate(dims) if i not in axes])


def with_kept_dims(op, tensor):
    """A tensor of the reduction's output shape, with the reduced dimensions put back as 1."""
    if op.attr("keep_dims"):
        return tensor
    x, axes = op.inputs[0], static_axes(op)
    if axes is None:
        return raw_ops.Reshape(tensor, _kept_shape(x, op.inputs[1]))
    dims = x.shape.as_list()
    if len(axes) == len(dims) or all(d is not None for i, d in enumerate(dims) if i not in axes):
        return raw_ops.Reshape(tensor, int32s([1 if i in axes else d for i,
                                               d in enumerate(dims)]))
    for axis in axes:
        tensor = raw_ops.ExpandDims(tensor, axis)
    return tensor


def _kept_shape(x, axes):
    """Shape of `x` with ones at `axes`, computed in the step."""
    rank = raw_ops.Rank(x)
    axes = raw_ops.FloorMod(tensors.cast(axes, dtypes.int32) + rank, rank)
    axes = raw_ops.Reshape(axes, int32s([-1]))
    return raw_ops.DynamicStitch([raw_ops.Range(0, rank, 1), axes],
                                 [raw_ops.Shape(x), tensors.ones_like(axes)])


def _has_shape(grad, y):
    """A gradient given by the program may have another shape of equal size."""
    return grad.shape.ndims is not None and grad.shape.is_compatible_with(y.shape)


def spread(op, grad):
    """`grad` of a reduction's output, repeated over the input's shape."""
    x, axes = op.inputs[0], static_axes(op)
    if axes == []:
        return grad
    leading = axes is not None and axes == list(range(len(axes)))
    if not leading or op.attr("keep_dims") or not _has_shape(grad, op.outputs[0]):
        grad = with_kept_dims(op, grad)
    return raw_ops.BroadcastTo(grad, shape_vector(x))


def _count(op):
    """How many elements each output of a reduction node gathers: an int, or an int32 Tensor."""
    x, axes = op.inputs[0], static_axes(op)
    if axes is not None:
        sizes = [x.shape.as_list()[a] for a in axes]
        if all(s is not None for s in sizes):
            return max(int(np.prod(sizes, dtype=np.int64)), 1)
    if op.outputs[0].shape.num_elements() == 1:
        return raw_ops.Size(x)
    return raw_ops.FloorDiv(raw_ops.Size(x),
                            raw_ops.Maximum(raw_ops.Size(op.outputs[0]), 1))


def _extremum_gradient(op, dy):
    """The gradient shared equally by all elements that attain the extremum."""
    x, y = op.inputs[0], with_kept_dims(op, op.outputs[0])
    chosen = tensors.cast(raw_ops.Equal(y, x), dy.dtype)
    count = Sum(chosen, op.inputs[1], keep_dims=True)
    return [chosen / count * with_kept_dims(op, dy), None]


def _axes(indices):
    return tuple(int(a) for a in np.ravel(indices))


# ---------------------------------------------------------------------------------------------- ops
@op("Sum", inputs="input: T, reduction_indices: Tidx", outputs="output: T", attrs=KEEP + TIDX,
    T=NUMBERS)
class Sum:
    """Sum over axes; 0 of none. Integers wrap. TF: Sum."""
    shape = reduced

    def gradient(op, dy):
        return [spread(op, dy), None]

    def reference(input, reduction_indices, keep_dims):
        return np.sum(input, _axes(reduction_indices), keepdims=keep_dims)
    samples = AXES + EMPTY


@op("Mean", inputs="input: T, reduction_indices: Tidx", outputs="output: T", attrs=KEEP + TIDX,
    T=NUMBERS)
class Mean:
    """Arithmetic mean over axes; NaN of none; integers truncate. TF: Mean."""
    shape = reduced

    def gradient(op, dy):
        count = _count(op)
        if isinstance(count, int):
            scaled = dy if count == 1 else dy / float(count)
        else:
            scaled = dy / tensors.cast(count, dy.dtype)
        return [spread(op, scaled), None]

    def reference(input, reduction_indices, keep_dims):
        if np.issubdtype(input.dtype, np.integer):
            axes = _axes(reduction_indices)
            total = np.sum(input, axes, keepdims=keep_dims).astype(input.dtype)
            count = max(int(np.prod([input.shape[a] for a in axes])), 1)
            return np.trunc(total / count)
        return np.mean(input, _axes(reduction_indices), keepdims=keep_dims)
    samples = AXES


def _prod_gradient(op, dy):
    """Products of all the others, by running products from both ends: right with zeros in the input
    too."""
    x = op.inputs[0]
    axes, dy = static_axes(op), with_kept_dims(op, dy)
    if axes is not None and len(axes) == 1:
        left = Cumprod(x, axes[0], exclusive=True)
        right = Cumprod(x, axes[0], exclusive=True, reverse=True)
        return [dy * conj(left) * conj(right), None]
    if axes is not None:
        perm = int32s(axes + [i for i in range(x.shape.ndims) if i not in axes])
        n = len(axes)
    else:
        rank = raw_ops.Rank(x)
        front = raw_ops.Reshape(tensors.cast(op.inputs[1], dtypes.int32), int32s([-1]))
        front = raw_ops.FloorMod(front + rank, rank)
        rest = raw_ops.ListDiff(raw_ops.Range(0, rank, 1), front)[0]
        perm, n = tensors.concat([front, rest], 0), raw_ops.Size(front)
    moved = raw_ops.Transpose(x, perm)
    dims = raw_ops.Shape(moved)
    rows = Prod(dims[:n], int32s([0]))
    flat = raw_ops.Reshape(moved, tensors.stack([rows, Prod(dims[n:], int32s([0]))]))
    others = Cumprod(flat, 0, exclusive=True) * Cumprod(flat, 0, exclusive=True, reverse=True)
    back = raw_ops.Transpose(raw_ops.Reshape(others, dims), raw_ops.InvertPermutation(perm))
    return [dy * conj(back), None]


@op("Prod", inputs="input: T, reduction_indices: Tidx", outputs="output: T", attrs=KEEP + TIDX,
    T=NUMBERS)
class Prod:
    """Product over axes; 1 of none. TF: Prod."""
    shape = reduced
    gradient = _prod_gradient

    def reference(input, reduction_indices, keep_dims):
        return np.prod(input, _axes(reduction_indices), keepdims=keep_dims)
    samples = AXES + EMPTY


def _extreme(function, input, indices, keep):
    axes = _axes(indices)
    if not input.size:
        empty = -np.inf if function is np.max else np.inf
        if np.issubdtype(input.dtype, np.integer):
            info = np.iinfo(input.dtype)
            empty = info.min if function is np.max else info.max
        return function(input, axes, keepdims=keep, initial=empty)
    return function(input, axes, keepdims=keep)


@op("Max", inputs="input: T, reduction_indices: Tidx", outputs="output: T", attrs=KEEP + TIDX,
    T=REAL)
class Max:
    """Largest element over axes; the lowest value of none. TF: Max."""
    shape = reduced
    gradient = _extremum_gradient

    def reference(input, reduction_indices, keep_dims):
        return _extreme(np.max, input, reduction_indices, keep_dims)
    samples = AXES + EMPTY


@op("Min", inputs="input: T, reduction_indices: Tidx", outputs="output: T", attrs=KEEP + TIDX,
    T=REAL)
class Min:
    """Smallest element over axes; the highest value of none. TF: Min."""
    shape = reduced
    gradient = _extremum_gradient

    def reference(input, reduction_indices, keep_dims):
        return _extreme(np.min, input, reduction_indices, keep_dims)
    samples = AXES + EMPTY


@op("EuclideanNorm", inputs="input: T, reduction_indices: Tidx", outputs="output: T",
    attrs=KEEP + TIDX, T=NUMBERS)
class EuclideanNorm:
    """sqrt(sum(x * conj(x))) over axes. TF: EuclideanNorm."""
    shape = reduced

    def gradient(op, dy):
        ratio = dy / op.outputs[0]
        return [op.inputs[0] * with_kept_dims(op, ratio), None]

    def reference(input, reduction_indices, keep_dims):
        total = np.sum((input * np.conj(input)), _axes(reduction_indices), keepdims=keep_dims)
        return np.sqrt(total.astype(np.complex128 if np.iscomplexobj(input) else np.float64))
    samples = AXES


@op("All", inputs="input: bool, reduction_indices: Tidx", outputs="output: bool", attrs=KEEP + TIDX)
class All:
    """True where every element over the axes is; true of none. TF: All."""
    shape = reduced
    gradient = UNREGISTERED

    def reference(input, reduction_indices, keep_dims):
        return np.all(input, _axes(reduction_indices), keepdims=keep_dims)
    samples = TRUTH_AXES


@op("Any", inputs="input: bool, reduction_indices: Tidx", outputs="output: bool", attrs=KEEP + TIDX)
class Any:
    """True where some element over the axes is; false of none. TF: Any."""
    shape = reduced
    gradient = UNREGISTERED

    def reference(input, reduction_indices, keep_dims):
        return np.any(input, _axes(reduction_indices), keepdims=keep_dims)
    samples = TRUTH_AXES


def _arg_shape(op):
    match(op, None, "")
    dims, axis = dims_of(op.inputs[0].shape), static(op.inputs[1])
    if dims is None:
        return unknown_shape()
    if not dims:
        raise ValueError(f"{op.type}: the input must have at least one dimension, got a scalar")
    if axis is None:
        return unknown_shape(len(dims) - 1)
    at = normal_axis(int(axis), len(dims), "dimension")
    return TensorShape(dims[:at] + dims[at + 1:])


ARG_SAMPLES = [S((2, 3), lit(1)), S((2, 3), lit(0)), S((2, 3, 4), lit(-2)), S((5,), lit(0)),
               S((0, 3), lit(1)), S((2, 3), lit(1), output_type=dtypes.int32),
               S(lit([[1, 3, 3], [2, 2, 0]]), lit(1))]


@op("ArgMax", inputs="input: T, dimension: Tidx", outputs="output: output_type",
    T=REAL + (dtypes.bool,),
    attrs="Tidx: {int16, int32, int64} = int32, "
          "output_type: {int16, uint16, int32, int64} = int64")
class ArgMax:
    """Index of the largest element along one axis; the first of equals. TF: ArgMax."""
    shape = _arg_shape
    gradient = None

    def reference(input, dimension): return np.argmax(input, int(dimension))
    samples = ARG_SAMPLES


@op("ArgMin", inputs="input: T, dimension: Tidx", outputs="output: output_type",
    T=REAL + (dtypes.bool,),
    attrs="Tidx: {int32, int64} = int32, output_type: {int32, int64} = int64")
class ArgMin:
    """Index of the smallest element along one axis; the first of equals. TF: ArgMin."""
    shape = _arg_shape
    gradient = None

    def reference(input, dimension): return np.argmin(input, int(dimension))
    samples = ARG_SAMPLES


def _running_shape(op):
    shape, axis = op.inputs[0].shape, static(op.inputs[1])
    if axis is not None and shape.ndims is not None:
        normal_axis(int(axis), shape.ndims)
    return shape


def running(function, x, axis, exclusive, reverse, first):
    """NumPy oracle of Cumsum and Cumprod."""
    axis = int(axis)
    if reverse:
        x = np.flip(x, axis)
    if exclusive and x.shape[axis]:
        head = np.full_like(np.take(x, [0], axis), first)
        x = np.concatenate([head, np.delete(x, -1, axis)], axis)
    y = function(x, axis=axis, dtype=x.dtype)
    return np.flip(y, axis) if reverse else y


RUNS = [S((2, 3), lit(0)), S((2, 3), lit(-1)), S((4,), lit(0), exclusive=True),
        S((2, 3), lit(1), reverse=True), S((2, 3), lit(1), exclusive=True, reverse=True),
        S((0, 3), lit(1))]
RUN_ATTRS = "exclusive: bool = false, reverse: bool = false, "


@op("Cumsum", inputs="x: T, axis: Tidx", outputs="out: T", attrs=RUN_ATTRS + TIDX, T=NUMBERS)
class Cumsum:
    """Running sum along one axis; `exclusive` starts at 0, `reverse` runs from the end.
    TF: Cumsum."""
    shape = _running_shape

    def gradient(op, dy):
        return [Cumsum(dy, op.inputs[1], exclusive=op.attr("exclusive"),
                       reverse=not op.attr("reverse")), None]

    def reference(x, axis, exclusive, reverse):
        return running(np.cumsum, x, axis, exclusive, reverse, 0)
    samples = RUNS


@op("Cumprod", inputs="x: T, axis: Tidx", outputs="out: T", attrs=RUN_ATTRS + TIDX, T=NUMBERS)
class Cumprod:
    """Running product along one axis; `exclusive` starts at 1. The gradient divides by x and is 0
    where x is, as TF's. TF: Cumprod."""
    shape = _running_shape

    def gradient(op, dy):
        x, axis = conj(op.inputs[0]), op.inputs[1]
        product = conj(op.outputs[0]) * dy
        total = Cumsum(product, axis, exclusive=op.attr("exclusive"),
                       reverse=not op.attr("reverse"))
        return [raw_ops.DivNoNan(total, x), None]

    def reference(x, axis, exclusive, reverse):
        return running(np.cumprod, x, axis, exclusive, reverse, 1)
    samples = RUNS
