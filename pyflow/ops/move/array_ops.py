"""Shapes of tensors, views of them, tensors made from nothing.

Invariants
  1. Reshape, Squeeze and ExpandDims keep the bytes: kernels forward the buffer.
  2. A shape argument that is constant in the graph gives a static output shape.

Example:  `tf.reshape(tf.range(6), [2, -1])` -> [[0, 1, 2], [3, 4, 5]].
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import FLOATS, NUMBERS
from pyflow.framework.op import S, lit, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import (dims_of, normal_axis, shape_vector, static, static_shape,
                                    unchanged)
from pyflow.ops.base.shape_rules import by_pattern, match
from pyflow.ops.base.tensors import NO_AXES

OUT_TYPE = "out_type: {int32, int64} = int32"
ANY = "T: type"
ANY_SHAPE = [S((2, 3)), S(()), S((0, 3)), S((2, 1, 4))]


# -------------------------------------------------------------------------------- asking for shapes
def _rank_vector(op):
    return TensorShape([op.inputs[0].shape.ndims])


@op("Shape", inputs="input: T", outputs="output: out_type", attrs="T: type, " + OUT_TYPE)
class Shape:
    """Dimensions of `input` as a vector. TF: Shape."""
    shape = _rank_vector
    gradient = None

    def reference(input): return np.array(input.shape)
    samples = ANY_SHAPE + [S((2, 3), out_type=dtypes.int64)]


@op("ShapeN", inputs="input: N * T", outputs="output: N * out_type",
    attrs="N: int >= 1, T: type, " + OUT_TYPE)
class ShapeN:
    """Dimensions of each of N tensors. TF: ShapeN."""
    def shape(op): return [TensorShape([x.shape.ndims]) for x in op.inputs]
    gradient = None

    def reference(input): return tuple(np.array(x.shape) for x in input)
    samples = [S([(2, 3), (0,), ()])]


@op("Rank", inputs="input: T", outputs="output: int32", attrs=ANY)
class Rank:
    """Number of dimensions of `input`, an int32 scalar. TF: Rank."""
    def shape(op): return TensorShape([])
    gradient = None

    def reference(input): return np.array(input.ndim)
    samples = ANY_SHAPE


@op("Size", inputs="input: T", outputs="output: out_type", attrs="T: type, " + OUT_TYPE)
class Size:
    """Number of elements of `input`, a scalar. TF: Size."""
    def shape(op): return TensorShape([])
    gradient = None

    def reference(input): return np.array(input.size)
    samples = ANY_SHAPE


# ------------------------------------------------------------------------------- changing the shape
def _left(before, after):
    """The size -1 stands for where both shapes have a 0: what is left without those, as in TF."""
    sizes = [np.prod([d for d in dims if d], dtype=np.int64) for dims in (before, after)]
    return int(sizes[0] // sizes[1])


def _reshape_shape(op):
    before, after = op.inputs[0].shape, static_shape(op.inputs[1])
    dims = dims_of(after)
    if dims is None:
        return unknown_shape()
    value = static(op.inputs[1])
    if value is not None and (value == -1).sum() > 1:
        raise ValueError(f"Reshape: the shape {value.tolist()} may have one -1 and no other "
                         "negative dimension")
    count = before.num_elements()
    known = int(np.prod([d for d in dims if d is not None], dtype=np.int64))
    if count is None:
        return TensorShape(dims)
    if None not in dims and count != known:
        raise ValueError(f"Reshape: cannot reshape a tensor with {count} elements (shape "
                         f"{before}) to shape {dims} ({known} elements)")
    if dims.count(None) == 1:
        if (known and count % known) or (not known and count):
            raise ValueError(f"Reshape: {count} elements (shape {before}) cannot be arranged in "
                             f"shape {after}")
        if known or value is not None:
            dims[dims.index(None)] = count // known if known else _left(before.as_list(), dims)
    return TensorShape(dims)


@op("Reshape", inputs="tensor: T, shape: Tshape", outputs="output: T",
    attrs="T: type, Tshape: {int32, int64} = int32")
class Reshape:
    """The same elements, row-major, in another shape; one dimension may be -1. TF: Reshape."""
    shape = _reshape_shape

    def gradient(op, dy):
        return [Reshape(dy, shape_vector(op.inputs[0])), None]

    def reference(tensor, shape):
        dims = [int(d) for d in shape]
        if -1 in dims and 0 in dims:
            known = [None if d == -1 else d for d in dims]
            dims = [_left(tensor.shape, known) if d == -1 else d for d in dims]
        return tensor.reshape(dims)
    samples = [S((2, 3), lit([3, 2])), S((2, 3), lit([-1])), S((), lit([1, 1])),
               S((1,), lit(NO_AXES)),
               S((0, 3), lit([3, -1])), S((2, 3, 4), lit([2, -1, 2])), S((2, 3, 0), lit([-1, 0])),
               S((0, 4, 3), lit([0, 2, -1]))]


def _squeeze_shape(op):
    dims = dims_of(op.inputs[0].shape)
    if dims is None:
        return unknown_shape()
    axes = [normal_axis(a, len(dims), "squeeze dimension") for a in op.attr("squeeze_dims")]
    for a in axes:
        if dims[a] not in (1, None):
            raise ValueError(f"Squeeze: dimension {a} of shape {op.inputs[0].shape} is {dims[a]}, "
                             "not 1")
    if axes:
        return TensorShape([d for i, d in enumerate(dims) if i not in axes])
    if None in dims:
        return unknown_shape()
    return TensorShape([d for d in dims if d != 1])


@op("Squeeze", inputs="input: T", outputs="output: T",
    attrs="T: type, squeeze_dims: list(int) >= 0 = []")
class Squeeze:
    """`input` without its dimensions of size 1, or without those listed. TF: Squeeze."""
    shape = _squeeze_shape

    def gradient(op, dy):
        return Reshape(dy, shape_vector(op.inputs[0]))

    def reference(input, squeeze_dims): return np.squeeze(input, tuple(squeeze_dims) or None)
    samples = [S((1, 2, 1)), S((1, 2, 1), squeeze_dims=[0]), S((1, 2, 1), squeeze_dims=[-1]), S(()),
               S((0, 1)), S((1, 1))]


def _expand_shape(op):
    dims, axis = dims_of(op.inputs[0].shape), static(op.inputs[1])
    if dims is None:
        return unknown_shape()
    if axis is None:
        return unknown_shape(len(dims) + 1)
    if axis.size != 1:
        raise ValueError(f"ExpandDims: dim must be a single number, got {axis.tolist()}")
    at = normal_axis(int(axis.ravel()[0]), len(dims) + 1, "dim")
    return TensorShape(dims[:at] + [1] + dims[at:])


@op("ExpandDims", inputs="input: T, dim: Tdim", outputs="output: T",
    attrs="T: type, Tdim: {int32, int64} = int32")
class ExpandDims:
    """`input` with a dimension of 1 inserted at `dim`, -rank-1 to rank. TF: ExpandDims."""
    shape = _expand_shape

    def gradient(op, dy):
        return [Reshape(dy, shape_vector(op.inputs[0])), None]

    def reference(input, dim): return np.expand_dims(input, int(dim))
    samples = [S((2, 3), lit(0)), S((2, 3), lit(-1)), S((2, 3), lit(1)), S((), lit(0)),
               S((0,), lit(1))]


def _transpose_shape(op):
    dims, perm = dims_of(op.inputs[0].shape), static(op.inputs[1])
    found = match(op, None, "n")
    if dims is not None and found.size("n") not in (None, len(dims)):
        raise ValueError(f"{op.type}: perm has {found.size('n')} entries, the tensor has rank "
                         f"{len(dims)}")
    if perm is None:
        return unknown_shape(found.size("n") if dims is None else len(dims))
    perm = [int(p) for p in perm]
    if dims is None:
        return unknown_shape(len(perm))
    perm = [normal_axis(p, len(dims), "perm") for p in perm]
    if len(set(perm)) != len(perm):
        raise ValueError(f"Transpose: {perm} is not a permutation")
    return TensorShape([dims[p] for p in perm])


def _inverse(perm):
    value = static(perm)
    return InvertPermutation(perm) if value is None else np.argsort(value).astype(value.dtype)


PERMS = [S((2, 3), lit([1, 0])), S((2, 3, 4), lit([2, 0, 1])), S((), lit(NO_AXES)),
         S((0, 3), lit([1, 0])), S((2, 3, 4, 5), lit([0, 3, 1, 2]))]
PERM_ATTRS = "T: type, Tperm: {int32, int64} = int32"


@op("Transpose", inputs="x: T, perm: Tperm", outputs="y: T", attrs=PERM_ATTRS)
class Transpose:
    """Dimension i of the result is dimension perm[i] of `x`. TF: Transpose."""
    shape = _transpose_shape

    def gradient(op, dy):
        return [Transpose(dy, _inverse(op.inputs[1])), None]

    def reference(x, perm): return np.transpose(x, [int(p) for p in perm])
    samples = PERMS


@op("ConjugateTranspose", inputs="x: T, perm: Tperm", outputs="y: T", attrs=PERM_ATTRS)
class ConjugateTranspose:
    """Transpose and complex conjugate in one. TF: ConjugateTranspose."""
    shape = _transpose_shape

    def gradient(op, dy):
        return [ConjugateTranspose(dy, _inverse(op.inputs[1])), None]

    def reference(x, perm): return np.conj(np.transpose(x, [int(p) for p in perm]))
    samples = [S(*s.inputs, types=NUMBERS) for s in PERMS]


@op("InvertPermutation", inputs="x: T", outputs="y: T", attrs="T: {int32, int64} = int32")
class InvertPermutation:
    """y with y[x[i]] = i, for a permutation x of 0 .. n-1. TF: InvertPermutation."""
    shape = by_pattern("n", "->", "n")
    gradient = None

    def reference(x): return np.argsort(x)
    samples = [S(lit([2, 0, 1])), S(lit([0])), S(lit(NO_AXES))]


# ----------------------------------------------------------------------------- tensors from nothing
@op("Fill", inputs="dims: index_type, value: T", outputs="output: T",
    attrs="T: type, index_type: {int32, int64} = int32")
class Fill:
    """A tensor of shape `dims`, every element the scalar `value`. TF: Fill."""
    def shape(op):
        match(op, None, "")
        return static_shape(op.inputs[0])

    def gradient(op, dy):
        return [None, tensors.sum_of(dy)]

    def reference(dims, value): return np.full([int(d) for d in dims], value)
    samples = [S(lit([2, 3]), ()), S(lit(NO_AXES), ()), S(lit([0, 3]), ())]


@op("ZerosLike", inputs="x: T", outputs="y: T", attrs=ANY)
class ZerosLike:
    """Zeros of the shape and dtype of `x` (false, empty strings). TF: ZerosLike."""
    shape = unchanged
    gradient = None

    def reference(x): return np.zeros_like(x)
    samples = ANY_SHAPE


@op("OnesLike", inputs="x: T", outputs="y: T", T=NUMBERS + (dtypes.bool,))
class OnesLike:
    """Ones of the shape and dtype of `x`. TF: OnesLike."""
    shape = unchanged
    gradient = None

    def reference(x): return np.ones_like(x)
    samples = ANY_SHAPE


def _range_shape(op):
    match(op, "", "", "")
    start, limit, delta = (static(x) for x in op.inputs)
    if start is None or limit is None or delta is None:
        return TensorShape([None])
    start, limit, delta = start.item(), limit.item(), delta.item()
    if delta == 0:
        raise ValueError("Range: delta must not be 0")
    if (limit - start) * delta < 0:
        raise ValueError(f"Range: from {start} to {limit} by {delta} never arrives; "
                         "swap the limits or change the sign of delta")
    if isinstance(delta, int):
        return TensorShape([-(-(limit - start) // delta)])
    return TensorShape([int(np.ceil(abs((limit - start) / delta)))])


@op("Range", inputs="start: Tidx, limit: Tidx, delta: Tidx", outputs="output: Tidx",
    attrs="Tidx: {bfloat16, half, float, double, int8, int16, int32, int64, uint16, uint32, uint64}"
          " = int32")
class Range:
    """start, start + delta, ... below `limit` (above, for a negative delta). TF: Range."""
    shape = _range_shape
    gradient = None

    def reference(start, limit, delta): return np.arange(start.item(), limit.item(), delta.item())
    samples = [S(lit(0), lit(5), lit(1), types=dtypes.INDEX + FLOATS),
               S(lit(10), lit(0), lit(-3), types=dtypes.INDEX + FLOATS),
               S(lit(3), lit(3), lit(1)), S(lit(0.0), lit(1.0), lit(0.3), types=(dtypes.float32,))]


def _linspace_shape(op):
    match(op, "", "", "")
    num = static(op.inputs[2])
    if num is not None and int(num) <= 0:
        raise ValueError(f"LinSpace: num must be positive, got {int(num)}")
    return TensorShape([None if num is None else int(num)])


@op("LinSpace", inputs="start: T, stop: T, num: Tidx", outputs="output: T",
    attrs="T: {bfloat16, half, float, double}, Tidx: {int32, int64} = int32")
class LinSpace:
    """`num` evenly spaced values from start to stop, both included. TF: LinSpace."""
    shape = _linspace_shape
    gradient = None

    def reference(start, stop, num): return np.linspace(start.item(), stop.item(), int(num))
    samples = [S(lit(0.0), lit(1.0), lit(5)), S(lit(2.0), lit(-2.0), lit(3)),
               S(lit(1.5), lit(9.0), lit(1))]


PUBLIC = {"invert_permutation": InvertPermutation, "math.invert_permutation": InvertPermutation}
