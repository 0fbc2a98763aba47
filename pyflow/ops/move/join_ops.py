"""Joining, splitting and repeating tensors: Concat, Pack, Unpack, Split, Tile.

Invariants
  1. Axes are scalars in [-rank, rank); Pack's in [-rank-1, rank].
  2. All inputs of a join have one dtype, and one shape but for the joined axis.
  3. Gradients of joins are slices, of splits are joins; sizes are constants where shapes are known.

Example:  `tf.concat([[[1, 2]], [[3, 4]]], axis=0)` -> [[1, 2], [3, 4]].
"""
import numpy as np

from pyflow.framework import graph
from pyflow.framework.op import S, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, int32s, normal_axis, shape_vector, static, static_shape
from pyflow.ops.base.shape_rules import match


# ------------------------------------------------------------------------------------ concatenation
def _concat_shape(tensors, axis):
    if axis.shape.ndims:
        raise ValueError(f"concat: the axis must be a scalar, got shape {axis.shape}")
    axis = static(axis)
    shapes = [t.shape for t in tensors]
    known = [s for s in shapes if s.ndims is not None]
    if not known:
        return unknown_shape()
    n = known[0].ndims
    if n == 0:
        raise ValueError("concat: the inputs must have at least one dimension, got a scalar; "
                         "use tf.stack to join scalars")
    for s in known:
        if s.ndims != n:
            raise ValueError(f"concat: all inputs must have the same rank, got shapes {shapes}")
    if axis is None:
        return unknown_shape(n)
    at = normal_axis(int(axis), n)
    dims = known[0].as_list()
    for s in known[1:]:
        for i, d in enumerate(s.as_list()):
            if i != at and None not in (d, dims[i]) and d != dims[i]:
                raise ValueError(f"concat along axis {at}: dimension {i} is {dims[i]} in one "
                                 "input and "
                                 f"{d} in another (shapes {[str(x) for x in shapes]})")
            dims[i] = d if dims[i] is None else dims[i]
    sizes = [s.as_list()[at] if s.ndims is not None else None for s in shapes]
    dims[at] = None if None in sizes else sum(sizes)
    return TensorShape(dims)


def _concat_gradient(values, axis, dy):
    """Slices of `dy` for each of `values`; for IndexedSlices along axis 0 of the others only
    dense."""
    sizes = static(axis)
    rank = next((v.shape.ndims for v in values if v.shape.ndims is not None), None)
    if sizes is not None and rank is not None:
        at = normal_axis(int(np.ravel(sizes)[0]), rank)
        widths = [v.shape.as_list()[at] if v.shape.ndims is not None else None for v in values]
        if None not in widths:
            if len(values) == 1:
                return [dy]
            return list(SplitV(dy, int32s(widths), at, num_split=len(values)))
    shapes = raw_ops.ShapeN(list(values)) if len(values) > 1 else [raw_ops.Shape(values[0])]
    axis = axis % raw_ops.Rank(values[0])
    if len(values) == 1:
        return [dy]
    begins = ConcatOffset(axis, shapes)
    return [raw_ops.Slice(dy, b, s) for b, s in zip(begins, shapes)]


JOINED = [((2, 3), (2, 2)), ((0, 3), (0, 1)), ((2, 3), (2, 0), (2, 1))]


@op("Concat", inputs="concat_dim: int32, values: N * T", outputs="output: T",
    attrs="N: int >= 2, T: type")
class Concat:
    """N tensors end to end along `concat_dim`, the older form. TF: Concat."""
    def shape(op): return _concat_shape(op.inputs[1:], op.inputs[0])

    def gradient(op, dy):
        return [None] + _concat_gradient(op.inputs[1:], op.inputs[0], dy)

    def reference(concat_dim, values): return np.concatenate(values, int(concat_dim))
    samples = [S(lit(1), list(shapes)) for shapes in JOINED] + [S(lit(-2), [(2, 3), (1, 3)])]


@op("ConcatV2", inputs="values: N * T, axis: Tidx", outputs="output: T",
    attrs="N: int >= 2, T: type, Tidx: {int32, int64} = int32")
class ConcatV2:
    """N tensors end to end along `axis`. TF: ConcatV2."""
    def shape(op): return _concat_shape(op.inputs[:-1], op.inputs[-1])

    def gradient(op, dy):
        return _concat_gradient(op.inputs[:-1], op.inputs[-1], dy) + [None]

    def reference(values, axis): return np.concatenate(values, int(axis))
    samples = [S(list(shapes), lit(1)) for shapes in JOINED] + [
        S([(2, 3), (1, 3)], lit(0)), S([(2, 3), (1, 3)], lit(-2)),
        S([(2, 1, 2), (2, 3, 2)], lit(-2)),
        S([(3,), (2,)], lit(0))]


@op("ConcatOffset", inputs="concat_dim: int32, shape: N * shape_type",
    outputs="offset: N * shape_type",
    attrs="N: int >= 2, shape_type: {int32, int64} = int32")
class ConcatOffset:
    """Where each of N tensors of the given shapes starts in their concatenation.
    TF: ConcatOffset."""
    def shape(op): return [x.shape for x in op.inputs[1:]]
    gradient = None

    def reference(concat_dim, shape):
        offsets, at, start = [], int(concat_dim), 0
        for dims in shape:
            offset = np.zeros_like(dims)
            offset[at] = start
            start += dims[at]
            offsets.append(offset)
        return tuple(offsets)
    samples = [S(lit(1), [lit([2, 2, 7]), lit([2, 3, 7]), lit([2, 9, 7])]),
               S(lit(0), [lit([4]), lit([0])])]


# ---------------------------------------------------------------------------- packing and unpacking
def _pack_shape(op):
    shape = op.inputs[0].shape
    for x in op.inputs[1:]:
        shape = shape.merge_with(x.shape)
    dims = dims_of(shape)
    if dims is None:
        return unknown_shape()
    at = normal_axis(op.attr("axis"), len(dims) + 1)
    return TensorShape(dims[:at] + [len(op.inputs)] + dims[at:])


@op("Pack", inputs="values: N * T", outputs="output: T",
    attrs="N: int >= 1, T: type, axis: int = 0")
class Pack:
    """N tensors of one shape as one, with a new dimension N at `axis`. TF: Pack."""
    shape = _pack_shape

    def gradient(op, dy):
        return list(Unpack(dy, num=len(op.inputs), axis=op.attr("axis")))

    def reference(values, axis): return np.stack(values, axis)
    samples = [S([(2, 3), (2, 3)]), S([(2, 3), (2, 3)], axis=1), S([(2, 3)], axis=-1),
               S([(), (), ()]),
               S([(0, 3), (0, 3)], axis=2)]


def _unpack_shape(op):
    dims, num = dims_of(op.inputs[0].shape), op.attr("num")
    if dims is None:
        return [unknown_shape()] * num
    at = normal_axis(op.attr("axis"), len(dims))
    if dims[at] not in (None, num):
        raise ValueError(f"Unpack: axis {at} of shape {op.inputs[0].shape} has {dims[at]} entries, "
                         f"num is {num}")
    return [TensorShape(dims[:at] + dims[at + 1:])] * num


@op("Unpack", inputs="value: T", outputs="output: num * T",
    attrs="num: int >= 0, T: type, axis: int = 0")
class Unpack:
    """The `num` tensors along `axis`, one rank lower. TF: Unpack."""
    shape = _unpack_shape

    def gradient(op, *dys):
        return Pack(_filled(op, dys), axis=op.attr("axis"))

    def reference(value, axis): return tuple(np.moveaxis(value, axis, 0))
    samples = [S((2, 3), num=2), S((2, 3), num=3, axis=1), S((2, 3), num=3, axis=-1),
               S((0, 2), num=2, axis=1)]


def _filled(op, dys):
    """Gradients of all outputs, zeros for those nothing depends on."""
    return [tensors.zeros_like(y) if dy is None else dy for y, dy in zip(op.outputs, dys)]


# ---------------------------------------------------------------------------------------- splitting
def _split_shape(op):
    dims, axis, n = dims_of(op.inputs[1].shape), static(op.inputs[0]), op.attr("num_split")
    if dims is None:
        return [unknown_shape()] * n
    if axis is None:
        return [unknown_shape(len(dims))] * n
    at = normal_axis(int(axis), len(dims), "split_dim")
    if dims[at] is not None:
        if dims[at] % n:
            raise ValueError(f"Split: dimension {at} of shape {op.inputs[1].shape} ({dims[at]}) "
                             "is not a "
                             f"multiple of num_split = {n}")
        dims[at] //= n
    return [TensorShape(dims)] * n


@op("Split", inputs="split_dim: int32, value: T", outputs="output: num_split * T",
    attrs="num_split: int >= 1, T: type")
class Split:
    """`value` cut along `split_dim` into `num_split` equal parts. TF: Split."""
    shape = _split_shape

    def gradient(op, *dys):
        parts = _filled(op, dys)
        return [None, ConcatV2(parts, op.inputs[0]) if len(parts) > 1 else parts[0]]

    def reference(split_dim, value, num_split):
        return tuple(np.split(value, num_split, int(split_dim)))
    samples = [S(lit(0), (4, 3), num_split=2), S(lit(1), (4, 3), num_split=3),
               S(lit(-1), (2, 4), num_split=4), S(lit(0), (4,), num_split=1),
               S(lit(1), (0, 2), num_split=2)]


def _splitv_shape(op):
    dims, sizes, axis = dims_of(op.inputs[0].shape), static(op.inputs[1]), static(op.inputs[2])
    n = op.attr("num_split")
    match(op, None, str(n), "")
    if dims == []:
        raise ValueError("SplitV: value must have at least one dimension, got a scalar")
    if dims is None:
        return [unknown_shape()] * n
    if axis is None and len(dims) > 1:
        return [unknown_shape(len(dims))] * n
    at = 0 if axis is None else normal_axis(int(axis), len(dims), "split_dim")
    if sizes is None:
        return [TensorShape(dims[:at] + [None] + dims[at + 1:])] * n
    sizes = [int(s) for s in sizes]
    if dims[at] is not None:
        known = sum(s for s in sizes if s != -1)
        rest = dims[at] - known
        if sizes.count(-1) > 1 or rest < 0 or (-1 not in sizes and rest):
            raise ValueError(f"SplitV: sizes {sizes} do not add up to {dims[at]}, dimension {at} "
                             "of shape "
                             f"{op.inputs[0].shape}")
        sizes = [rest if s == -1 else s for s in sizes]
    return [TensorShape(dims[:at] + [None if s == -1 else s] + dims[at + 1:]) for s in sizes]


@op("SplitV", inputs="value: T, size_splits: Tlen, split_dim: int32",
    outputs="output: num_split * T",
    attrs="num_split: int >= 1, T: type, Tlen: {int8, int32, int64} = int64")
class SplitV:
    """`value` cut along `split_dim` into parts of the sizes given; one may be -1, the rest.
    TF: SplitV."""
    shape = _splitv_shape

    def gradient(op, *dys):
        parts = _filled(op, dys)
        return [ConcatV2(parts, op.inputs[2]) if len(parts) > 1 else parts[0], None, None]

    def reference(value, size_splits, split_dim):
        sizes = [int(s) for s in size_splits]
        rest = value.shape[int(split_dim)] - sum(s for s in sizes if s != -1)
        ends = np.cumsum([rest if s == -1 else s for s in sizes])[:-1]
        return tuple(np.split(value, ends, int(split_dim)))
    samples = [S((5, 3), lit([2, 3]), lit(0), num_split=2),
               S((2, 6), lit([1, -1, 2]), lit(1), num_split=3),
               S((2, 3), lit([0, 3]), lit(-1), num_split=2), S((3,), lit([3]), lit(0), num_split=1)]


# ---------------------------------------------------------------------------------------- repeating
def _tile_shape(op):
    dims, multiples = dims_of(op.inputs[0].shape), dims_of(static_shape(op.inputs[1]))
    if dims is None:
        return unknown_shape(None if multiples is None else len(multiples))
    if multiples is None:
        return unknown_shape(len(dims))
    if len(multiples) != len(dims):
        raise ValueError(f"Tile: {len(multiples)} multiples for a tensor of rank {len(dims)}")
    value = static(op.inputs[1])
    if value is not None and (value < 0).any():
        raise ValueError(f"Tile: multiples must not be negative, got {value.tolist()}")
    return TensorShape([0 if 0 in (d, m) else None if None in (d, m) else d * m
                        for d, m in zip(dims, multiples)])


def _tile_gradient(op, dy):
    """Fold `dy` to [m0, d0, m1, d1, ...] and sum over the m."""
    x, multiples = op.inputs
    dims, known = dims_of(x.shape), static(multiples)
    if dims is not None and known is not None and None not in dims:
        folded = int32s([v for m, d in zip(known, dims) for v in (int(m), d)])
        axes = int32s(list(range(0, 2 * len(dims), 2)))
        return [raw_ops.Sum(raw_ops.Reshape(dy, folded), axes), None]
    pairs = Pack([multiples, graph.convert_to_tensor(shape_vector(x), dtype=multiples.dtype)
                  if x.shape.is_fully_defined() else raw_ops.Shape(x, out_type=multiples.dtype)])
    folded = raw_ops.Reshape(raw_ops.Transpose(pairs, int32s([1, 0])), int32s([-1]))
    axes = raw_ops.Range(0, raw_ops.Size(folded), 2)
    total = raw_ops.Sum(raw_ops.Reshape(dy, folded), axes)
    total.set_shape(x.shape)
    return [total, None]


@op("Tile", inputs="input: T, multiples: Tmultiples", outputs="output: T",
    attrs="T: type, Tmultiples: {int32, int64} = int32")
class Tile:
    """`input` repeated multiples[i] times along each dimension i. TF: Tile.

    input: any shape; multiples: one int for each of its dimensions.

        >>> tf.Session().run(tf.tile([[1, 2]], [2, 2]))
        array([[1, 2, 1, 2],
               [1, 2, 1, 2]], dtype=int32)
    """
    shape = _tile_shape
    gradient = _tile_gradient

    def reference(input, multiples): return np.tile(input, [int(m) for m in multiples])
    samples = [S((2, 3), lit([2, 1])), S((2, 3), lit([1, 3])), S((), lit(np.zeros(0, np.int32))),
               S((2,), lit([0])), S((0, 2), lit([2, 2])), S((2, 1, 2), lit([1, 2, 2]))]


PUBLIC = {"tile": Tile, "manip.tile": Tile}
