"""Slices: Slice, StridedSlice and its gradient, Reverse, Roll.

Invariants
  1. StridedSlice follows NumPy's basic indexing; its five masks are TF's bit sets over the index
     list.
  2. A slice whose begin, end and strides are constants has a static shape.

Example:  `tf.constant([[1, 2, 3], [4, 5, 6]])[:, 1]` -> [2, 5].
"""
import numpy as np

from pyflow.framework.op import S, bools, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import at_least_rank, dims_of, int32s, normal_axis, static, static_shape
from pyflow.ops.base.shape_rules import match

MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
MASK_ATTRS = ", ".join(f"{m}: int = 0" for m in MASKS)


# ------------------------------------------------------------------------------------- plain slices
def _partly_known(vector, length):
    """The numbers a vector is known to hold, None for those that are not."""
    value = static(vector)
    if value is not None:
        return value.tolist()
    return dims_of(static_shape(vector)) or [None] * length


def _slice_shape(op):
    dims = dims_of(op.inputs[0].shape)
    rank = match(op, None, "n", "n").size("n")
    if dims is not None:
        if rank not in (None, len(dims)):
            raise ValueError(f"Slice: begin and size have {rank} entries, the tensor has rank "
                             f"{len(dims)}")
        rank = len(dims)
    if rank is None:
        return unknown_shape()
    begin, size = (_partly_known(x, rank) for x in op.inputs[1:])
    result = []
    for i, s in enumerate(size):
        b, d = begin[i], None if dims is None else dims[i]
        if s == -1:
            s = d if b == 0 else None if b is None or d is None else d - b
        if s is None:
            result.append(None)
            continue
        if b is not None and d is not None and not (0 <= b <= d and 0 <= b + s <= d):
            raise ValueError(f"Slice: begin {b} and size {s} of dimension {i} do not fit in {d}")
        result.append(s)
    return TensorShape(result)


@op("Slice", inputs="input: T, begin: Index, size: Index", outputs="output: T",
    attrs="T: type, Index: {int32, int64}")
class Slice:
    """The block of `size` from `begin`; a size of -1 takes the rest. TF: Slice."""
    shape = _slice_shape

    def gradient(op, dy):
        x, begin = op.inputs[0], op.inputs[1]
        dims, at, out = dims_of(x.shape), static(begin), dims_of(op.outputs[0].shape)
        if dims is not None and at is not None and None not in dims and None not in out:
            paddings = int32s([[int(b), d - int(b) - o] for b, d, o in zip(at, dims, out)])
            return [raw_ops.Pad(dy, paddings.reshape(-1, 2)), None, None]
        whole = raw_ops.Shape(x, out_type=begin.dtype)
        after = whole - raw_ops.Shape(op.outputs[0], out_type=begin.dtype) - begin
        return [raw_ops.Pad(dy, tensors.stack([begin, after], axis=1)), None, None]

    def reference(input, begin, size):
        return input[tuple(slice(int(b), None if s == -1 else int(b + s)) for b,
                           s in zip(begin, size))]
    samples = [S((4, 3), lit([1, 0]), lit([2, 2])), S((4, 3), lit([1, 1]), lit([-1, 1])),
               S((5,), lit([2]), lit([0])), S((0, 3), lit([0, 1]), lit([0, 2])),
               S((), lit(np.zeros(0, np.int32)), lit(np.zeros(0, np.int32))),
               S((2, 3, 4), lit([0, 1, 2]), lit([2, -1, 2]))]


# ----------------------------------------------------------------------------------- strided slices
def index_of(begin, end, strides, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,
             shrink_axis_mask=0):
    """The NumPy index that a StridedSlice with these values stands for."""
    index = []
    for i in range(len(strides)):
        bit = 1 << i
        if ellipsis_mask & bit:
            index.append(Ellipsis)
        elif new_axis_mask & bit:
            index.append(None)
        elif shrink_axis_mask & bit:
            index.append(int(begin[i]))
        else:
            b = None if begin_mask & bit else int(begin[i])
            e = None if end_mask & bit else int(end[i])
            index.append(slice(b, e, int(strides[i])))
    return tuple(index)


def _masks(op):
    return {m: op.attr(m) for m in MASKS}


def _strided_dims(dims, begin, end, strides, masks):
    """Static dimensions of a strided slice; entries of begin and end that are unknown are None."""
    n = len(strides) if strides is not None else None
    ellipsis = [i for i in range(n) if masks["ellipsis_mask"] >> i & 1]
    if len(ellipsis) > 1:
        raise ValueError("StridedSlice: only one ellipsis is allowed in an index")
    new = masks["new_axis_mask"]
    if ellipsis:
        new &= ~(1 << ellipsis[0])
    used = sum(1 for i in range(n) if i not in ellipsis and not new >> i & 1)
    if used > len(dims):
        raise ValueError(f"StridedSlice: {used} indices for a tensor of rank {len(dims)}")
    result, at = [], 0
    for i in range(n):
        if i in ellipsis:
            skip = len(dims) - used
            result += dims[at:at + skip]
            at += skip
        elif new >> i & 1:
            result.append(1)
        else:
            item = _sliced_dim(dims[at], i, begin, end, strides, masks, at)
            at += 1
            if item != "gone":
                result.append(item)
    return result + dims[at:]


def _sliced_dim(dim, i, begin, end, strides, masks, axis):
    bit, stride = 1 << i, int(strides[i])
    b = None if begin is None else int(begin[i])
    if masks["shrink_axis_mask"] & bit:
        if dim is not None and b is not None and not -dim <= b < dim:
            raise ValueError(f"slice index {b} of dimension {axis} out of bounds for size {dim}")
        if stride < 1:
            raise ValueError(f"StridedSlice: an index takes one element, strides[{i}] must be "
                             f"positive, got {stride}")
        return "gone"
    if stride == 0:
        raise ValueError(f"StridedSlice: strides[{i}] must be non-zero")
    e = None if end is None else int(end[i])
    whole_begin, whole_end = bool(masks["begin_mask"] & bit), bool(masks["end_mask"] & bit)
    if dim is None:
        same_sign = b is not None and e is not None and not whole_begin and not whole_end
        if same_sign and stride > 0 and b >= 0 and e >= 0 and e <= b:
            return 0
        return None
    if (b is None and not whole_begin) or (e is None and not whole_end):
        return None
    return len(range(dim)[slice(None if whole_begin else b, None if whole_end else e, stride)])


def _strided_shape(op):
    match(op, None, "n", "n", "n")
    dims = dims_of(op.inputs[0].shape)
    begin, end, strides = (static(x) for x in op.inputs[1:4])
    if dims is None:
        return unknown_shape()
    if strides is None:
        return unknown_shape()
    return TensorShape(_strided_dims(dims, begin, end, strides, _masks(op)))


STRIDED = [
    ((4, 3), [1, 0], [3, 2], [1, 1], {}), ((5,), [4], [0], [-2], {}), ((4, 3), [1], [2], [1], {}),
    ((4, 3), [0, 1], [0, 2], [1, 1], {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}),
    ((2, 3, 4), [0, -1], [0, 0], [1, 1], {"ellipsis_mask": 1, "shrink_axis_mask": 2}),
    ((2, 3), [0, 0, 0], [0, 0, 2], [1, 1, 1], {"new_axis_mask": 2, "begin_mask": 1, "end_mask": 1}),
    ((5,), [0], [0], [-1], {"begin_mask": 1, "end_mask": 1}), ((0, 3), [0], [2], [1], {}),
    ((4, 6), [-10, 1], [10, 100], [2, 3], {}), ((3,), [2], [1], [1], {}),
]


@op("StridedSlice", inputs="input: T, begin: Index, end: Index, strides: Index",
    outputs="output: T",
    attrs="T: type, Index: {int16, int32, int64}, " + MASK_ATTRS)
class StridedSlice:
    """NumPy's basic slice input[begin:end:strides], with TF's masks. TF: StridedSlice."""
    shape = _strided_shape

    def gradient(op, dy):
        x, begin, end, strides = op.inputs
        if x.shape.is_fully_defined():
            shape = np.array(x.shape.as_list(), begin.dtype.as_numpy_dtype)
        else:
            shape = raw_ops.Shape(x, out_type=begin.dtype)
        return [StridedSliceGrad(shape, begin, end, strides, dy, **_masks(op)), None, None, None]

    def reference(input, begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                  shrink_axis_mask):
        return input[index_of(begin, end, strides, begin_mask, end_mask, ellipsis_mask,
                              new_axis_mask,
                              shrink_axis_mask)]
    samples = [S(shape, lit(b), lit(e), lit(s), **masks) for shape, b, e, s, masks in STRIDED]


def _grad_samples():
    made = []
    for shape, b, e, s, masks in STRIDED:
        out = np.zeros(shape)[index_of(b, e, s, **masks)].shape
        made.append(S(lit(list(shape)), lit(b), lit(e), lit(s), out, **masks))
    return made


@op("StridedSliceGrad", inputs="shape: Index, begin: Index, end: Index, strides: Index, dy: T",
    outputs="output: T", attrs="T: type, Index: {int32, int64}, " + MASK_ATTRS)
class StridedSliceGrad:
    """Zeros of `shape` with `dy` in the place a StridedSlice would read. TF: StridedSliceGrad."""
    def shape(op):
        match(op, "_", "n", "n", "n")
        return static_shape(op.inputs[0])

    def gradient(op, dz):
        begin, end, strides = op.inputs[1:4]
        return [None] * 4 + [StridedSlice(dz, begin, end, strides, **_masks(op))]

    def reference(shape, begin, end, strides, dy, begin_mask, end_mask, ellipsis_mask,
                  new_axis_mask,
                  shrink_axis_mask):
        result = np.zeros([int(d) for d in shape], dy.dtype)
        result[index_of(begin, end, strides, begin_mask, end_mask, ellipsis_mask, new_axis_mask,
                        shrink_axis_mask)] = dy
        return result
    samples = _grad_samples()


# ---------------------------------------------------------------------------- reversing and rolling
def _axis_checked(op):
    shape, axes = op.inputs[0].shape, static(op.inputs[1])
    match(op, None, "_")
    if axes is not None and shape.ndims is not None:
        found = [normal_axis(int(a), shape.ndims) for a in axes]
        if len(set(found)) != len(found):
            raise ValueError(f"ReverseV2: axis {axes.tolist()} names a dimension twice")
    return shape


@op("ReverseV2", inputs="tensor: T, axis: Tidx", outputs="output: T",
    attrs="Tidx: {int32, int64} = int32, T: type")
class ReverseV2:
    """`tensor` with its order along each of `axis` turned round. TF: ReverseV2."""
    shape = _axis_checked

    def gradient(op, dy):
        return [ReverseV2(dy, op.inputs[1]), None]

    def reference(tensor, axis): return np.flip(tensor, tuple(int(a) for a in axis))
    samples = [S((2, 3), lit([1])), S((2, 3), lit([-2])), S((2, 3), lit([0, 1])),
               S((0, 3), lit([1])),
               S((2, 3), lit(np.zeros(0, np.int32)))]


@op("Reverse", inputs="tensor: T, dims: bool", outputs="output: T", attrs="T: type")
class Reverse:
    """`tensor` turned round along each dimension whose entry of `dims` is true. TF: Reverse."""
    def shape(op):
        shape, count = op.inputs[0].shape, match(op, None, "n").size("n")
        if count is not None and shape.ndims not in (None, count):
            raise ValueError(f"Reverse: {count} entries of dims for a tensor of shape {shape}")
        return shape if shape.ndims is not None else unknown_shape(count)

    def gradient(op, dy):
        return [Reverse(dy, op.inputs[1]), None]

    def reference(tensor, dims): return np.flip(tensor, tuple(int(i) for i in np.flatnonzero(dims)))
    samples = [S((2, 3), lit([False, True])), S((2, 3), lit([False, False])),
               S((0, 3), bools((2,)))]


def _reverse_sequence(x, lengths, seq, batch):
    y = np.moveaxis(x.copy(), (batch, seq), (0, 1))
    for row, n in zip(y, lengths):
        row[:n] = row[:n][::-1].copy()
    return np.moveaxis(y, (0, 1), (batch, seq))


@op("ReverseSequence", inputs="input: T, seq_lengths: Tlen", outputs="output: T",
    attrs="seq_dim: int, batch_dim: int = 0, T: type, Tlen: {int32, int64} = int64")
class ReverseSequence:
    """The first seq_lengths[b] entries along `seq_dim` of each batch entry b turned round.
    TF: ReverseSequence."""
    def shape(op):
        shape = op.inputs[0].shape
        if shape.ndims is not None:
            for key in ("seq_dim", "batch_dim"):
                if not 0 <= op.attr(key) < shape.ndims:
                    raise ValueError(f"ReverseSequence: {key} = {op.attr(key)} is outside "
                                     f"rank {shape.ndims}")
        batch = match(op, None, "n").size("n")
        if batch is None or shape.ndims is None:
            return shape
        dims = dims_of(shape)
        if dims[op.attr("batch_dim")] not in (None, batch):
            raise ValueError(f"ReverseSequence: {batch} seq_lengths for a batch of "
                             f"{dims[op.attr('batch_dim')]} (shape {shape})")
        dims[op.attr("batch_dim")] = batch
        return TensorShape(dims)

    def gradient(op, dy):
        return [ReverseSequence(dy, op.inputs[1], seq_dim=op.attr("seq_dim"),
                                batch_dim=op.attr("batch_dim")), None]

    def reference(input, seq_lengths, seq_dim, batch_dim):
        return _reverse_sequence(input, seq_lengths, seq_dim, batch_dim)
    samples = [S((2, 4), lit([3, 1]), seq_dim=1), S((4, 2, 3), lit([0, 4]), seq_dim=0, batch_dim=1)]


@op("Roll", inputs="input: T, shift: Tshift, axis: Taxis", outputs="output: T",
    attrs="T: type, Tshift: {int32, int64}, Taxis: {int32, int64}")
class Roll:
    """`input` shifted round along axes; what leaves one end enters at the other. TF: Roll."""
    def shape(op):
        shape = at_least_rank(op.inputs[0].shape, 1, "Roll: input")
        for tensor in op.inputs[1:]:
            if (tensor.shape.ndims or 0) > 1:
                raise ValueError(f"Roll: shift and axis must be scalars or vectors, got shape "
                                 f"{tensor.shape}")
        op.inputs[1].shape.assert_is_compatible_with(op.inputs[2].shape)
        return shape

    def gradient(op, dy):
        return [Roll(dy, -op.inputs[1], op.inputs[2]), None, None]

    def reference(input, shift, axis):
        return np.roll(input, np.ravel(shift).tolist(), np.ravel(axis).tolist())
    samples = [S((5,), lit(2), lit(0)), S((2, 3), lit([1, -2]), lit([0, 1])),
               S((2, 3), lit(-7), lit(1)),
               S((0, 3), lit(1), lit(0))]
