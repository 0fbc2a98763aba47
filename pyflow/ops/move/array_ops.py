"""Shapes of tensors, views of them, tensors made from nothing.

Invariants
  1. Reshape, Squeeze and ExpandDims keep the bytes: kernels forward the buffer.
  2. The shape of a tensor with a fully known static shape is a constant: `tf.shape` builds no Shape
     node.
  3. A shape argument that is constant in the graph gives a static output shape.

Example:  `tf.reshape(tf.range(6), [2, -1])` -> [[0, 1, 2], [3, 4, 5]].
"""
import math

import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import FLOATS, NUMBERS
from pyflow.framework.op import S, lit, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import (dims_of, int32s, normal_axis, shape_vector, sizes, static,
                                    static_shape, unchanged)
from pyflow.ops.base.shape_rules import by_pattern, match

OUT_TYPE = "out_type: {int32, int64} = int32"
ANY = "T: type"
ANY_SHAPE = [S((2, 3)), S(()), S((0, 3)), S((2, 1, 4))]
NO_AXES = np.zeros(0, np.int32)


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
        from pyflow.ops.reduce import reduction_ops
        return [None, reduction_ops.reduce_sum(dy)]

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


# --------------------------------------------------------------------------------- public functions
_SPARSE = (graph.SparseTensor, graph.SparseTensorValue)


def shape(input, name=None, out_type=dtypes.int32):
    """Dimensions of `input` as a vector; a constant where they are known. TF: tf.shape.
    input: any dtype; result: a vector of `out_type`. ValueError for a ragged list."""
    return shape_internal(input, name, out_type=out_type)


def shape_internal(input, name=None, optimize=True, out_type=dtypes.int32):
    """`tf.shape`, which may be told not to fold."""
    with graph.name_scope(name, "Shape", [input]) as scope:
        if isinstance(input, _SPARSE):
            from pyflow.ops.elementwise import cast_ops
            return cast_ops.cast(input.dense_shape, out_type)
        input = graph.convert_to_tensor(input)
        if optimize and input.shape.is_fully_defined():
            return _constant(input.shape.as_list(), out_type, scope)
        return Shape(input, out_type=out_type, name=scope)


def _constant(value, dtype, name):
    from pyflow.framework.constant import constant
    return constant(value, dtypes.as_dtype(dtype), name=name)


def shape_n(input, out_type=dtypes.int32, name=None):
    """Dimensions of each tensor of a list. TF: tf.shape_n.
    Dtypes, shapes, errors: as op ShapeN."""
    return ShapeN(input, out_type=out_type, name=name)


def rank(input, name=None):
    """Number of dimensions, an int32 scalar; a constant where it is known. TF: tf.rank.
    input: any shape and dtype. ValueError for a ragged list."""
    with graph.name_scope(name, "Rank", [input]) as scope:
        if isinstance(input, _SPARSE):
            return Size(graph.convert_to_tensor(input.dense_shape), name=scope)
        input = graph.convert_to_tensor(input)
        if input.shape.ndims is not None:
            return _constant(input.shape.ndims, dtypes.int32, scope)
        return Rank(input, name=scope)


def size(input, name=None, out_type=dtypes.int32):
    """Number of elements, a scalar; a constant where it is known. TF: tf.size.
    input: any shape and dtype; result: `out_type`. ValueError for a ragged list."""
    with graph.name_scope(name, "Size", [input]) as scope:
        if isinstance(input, _SPARSE):
            from pyflow.ops.reduce import reduction_ops
            from pyflow.ops.elementwise import cast_ops
            sizes = cast_ops.cast(input.dense_shape, out_type)
            return reduction_ops.Prod(sizes, 0, name=scope)
        input = graph.convert_to_tensor(input)
        if input.shape.is_fully_defined():
            return _constant(input.shape.num_elements(), out_type, scope)
        return Size(input, out_type=out_type, name=scope)


def reshape(tensor, shape, name=None):
    """The elements of `tensor` in another shape; one dimension may be -1. TF: tf.reshape.
    Dtypes, shapes, errors: as op Reshape."""
    if isinstance(shape, (list, tuple)) and not shape:
        shape = NO_AXES
    return Reshape(tensor, shape, name=name)


def squeeze(input, axis=None, name=None, squeeze_dims=None):
    """`input` without its dimensions of 1, or without those in `axis`. TF: tf.squeeze.
    Dtypes, shapes, errors: as op Squeeze."""
    from pyflow.ops.reduce.reduction_ops import one_of
    axis = one_of(axis, squeeze_dims, "axis", "squeeze_dims", [])
    if not isinstance(axis, (list, tuple, np.ndarray)):
        axis = [axis]
    return Squeeze(input, squeeze_dims=[int(a) for a in axis], name=name)


def expand_dims(input, axis=None, name=None, dim=None):
    """`input` with a dimension of 1 inserted at `axis`. TF: tf.expand_dims.
    Dtypes, shapes, errors: as op ExpandDims."""
    from pyflow.ops.reduce.reduction_ops import one_of
    axis = one_of(axis, dim, "axis", "dim")
    if axis is None:
        raise ValueError("tf.expand_dims: axis must be given")
    return ExpandDims(input, axis, name=name)


def transpose(a, perm=None, name="transpose", conjugate=False):
    """Dimension i of the result is dimension perm[i] of `a`; all reversed without `perm`.
    TF: tf.transpose.
    a: any shape and dtype; perm: int vector, a permutation of its dimensions. ValueError for
    another."""
    with graph.name_scope(name, "transpose", [a]) as scope:
        a = graph.convert_to_tensor(a, name="a")
        build = ConjugateTranspose if conjugate and a.dtype.is_complex else Transpose
        if perm is None:
            if a.shape.ndims is not None:
                perm = int32s(list(range(a.shape.ndims))[::-1])
            else:
                n = Rank(a)
                perm = (n - 1) - Range(0, n, 1)
        elif isinstance(perm, (list, tuple)) and not perm:
            perm = NO_AXES
        return build(a, perm, name=scope)


def matrix_transpose(a, name="matrix_transpose", conjugate=False):
    """The last two dimensions of `a` swapped. ValueError below rank 2. TF: tf.matrix_transpose.
    a: [..., m, n] of any dtype -> [..., n, m]. ValueError for less than two dimensions."""
    with graph.name_scope(name, values=[a]):
        a = graph.convert_to_tensor(a, name="a")
        n = a.shape.ndims
        if n is None:
            from pyflow.ops.move import join_ops
            last = Rank(a) - 1
            perm = join_ops.concat([Range(0, last - 1, 1), join_ops.stack([last, last - 1])], 0)
            return transpose(a, perm, conjugate=conjugate)
        if n < 2:
            raise ValueError(f"tf.matrix_transpose: expected rank at least 2, got shape {a.shape}")
        return transpose(a, list(range(n - 2)) + [n - 1, n - 2], conjugate=conjugate)


def _filled(shape, value, dtype, name, default):
    dtype = dtypes.as_dtype(dtype).base_dtype
    with graph.name_scope(name, default, [shape]) as scope:
        value = {dtypes.bool: bool(value), dtypes.string: "" if not value
                 else str(value)}.get(dtype, value)
        if not isinstance(shape, graph.Tensor):
            known = _known_dims(shape)
            if known is not None and math.prod(known) < 1000:
                return _constant(np.full(known, value, dtype.as_numpy_dtype), dtype, scope)
            shape = (graph.convert_to_tensor(shape, dtype=dtypes.int32, name="shape_as_tensor")
                     if known is None else
                     graph.convert_to_tensor(sizes(known), name="shape_as_tensor"))
        if not shape.shape.ndims:
            shape = Reshape(shape, int32s([-1]))
        return Fill(shape, _constant(value, dtype, "Const"), name=scope)


def _known_dims(shape):
    """Dimensions given as numbers, or None where a tensor is among them."""
    if isinstance(shape, TensorShape):
        return shape.as_list() if shape.is_fully_defined() else None
    if isinstance(shape, np.ndarray):
        return [int(d) for d in shape.ravel()]
    items = shape if isinstance(shape, (list, tuple)) else [shape]
    if any(graph.is_dense_tensor_like(d) for d in items):
        return None
    try:
        return [int(d) for d in items]
    except (TypeError, ValueError):
        return None


def zeros(shape, dtype=dtypes.float32, name=None):
    """Zeros (false, empty strings) of a shape given as ints or an int tensor. TF: tf.zeros.
    Result: the given shape and dtype. ValueError for a negative size."""
    return _filled(shape, 0, dtype, name, "zeros")


def ones(shape, dtype=dtypes.float32, name=None):
    """Ones of a shape given as ints or an int tensor. TF: tf.ones.
    Result: the given shape and dtype. ValueError for a negative size."""
    return _filled(shape, 1, dtype, name, "ones")


def fill(dims, value, name=None):
    """A tensor of shape `dims`, every element the scalar `value`. TF: tf.fill.
    Dtypes, shapes, errors: as op Fill."""
    if isinstance(dims, (list, tuple)) and not dims:
        dims = NO_AXES
    return Fill(dims, value, name=name)


def _like(tensor, dtype, name, optimize, default, same, other):
    with graph.name_scope(name, default, [tensor]) as scope:
        tensor = graph.convert_to_tensor(tensor, name="tensor")
        target = tensor.dtype.base_dtype if dtype is None else dtypes.as_dtype(dtype).base_dtype
        if optimize and tensor.shape.is_fully_defined() and target != dtypes.variant:
            return other(tensor.shape, target, name=scope)
        if target != tensor.dtype.base_dtype:
            return other(shape_internal(tensor, optimize=optimize), target, name=scope)
        return same(tensor, name=scope)


def zeros_like(tensor, dtype=None, name=None, optimize=True):
    """Zeros of the shape of `tensor`, in its dtype or `dtype`. TF: tf.zeros_like.
    Dtypes, shapes, errors: as op ZerosLike."""
    return _like(tensor, dtype, name, optimize, "zeros_like", ZerosLike, zeros)


def ones_like(tensor, dtype=None, name=None, optimize=True):
    """Ones of the shape of `tensor`, in its dtype or `dtype`. TF: tf.ones_like.
    Dtypes, shapes, errors: as op OnesLike."""
    return _like(tensor, dtype, name, optimize, "ones_like", OnesLike, ones)


def range_(start, limit=None, delta=1, dtype=None, name="range"):
    """start, start + delta, ... below `limit`; with one argument from 0. TF: tf.range.
    Dtypes, shapes, errors: as op Range."""
    if limit is None:
        start, limit = 0, start
    with graph.name_scope(name, "Range", [start, limit, delta]) as scope:
        values = [graph.convert_to_tensor(v, dtype=dtype, name=part)
                  for v, part in ((start, "start"), (limit, "limit"), (delta, "delta"))]
        if dtype is None:
            from pyflow.ops.elementwise import cast_ops
            order = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64)
            widest = max((v.dtype.base_dtype for v in values),
                         key=lambda t: order.index(t) if t in order else len(order))
            values = [cast_ops.cast(v, widest) for v in values]
        return Range(*values, name=scope)


def linspace(start, stop, num, name=None):
    """`num` evenly spaced values from start to stop, both included. TF: tf.linspace.
    Dtypes, shapes, errors: as op LinSpace."""
    return LinSpace(start, stop, num, name=name)


PUBLIC = {
    "shape": shape, "shape_n": shape_n, "rank": rank, "size": size, "reshape": reshape,
    "squeeze": squeeze, "expand_dims": expand_dims, "transpose": transpose,
    "matrix_transpose": matrix_transpose, "linalg.transpose": matrix_transpose,
    "linalg.matrix_transpose": matrix_transpose, "invert_permutation": InvertPermutation,
    "math.invert_permutation": InvertPermutation,
    "zeros": zeros, "ones": ones, "fill": fill, "zeros_like": zeros_like, "ones_like": ones_like,
    "range": range_, "linspace": linspace, "lin_space": linspace, 
}
