"""Padding: Pad, PadV2, MirrorPad, and moving blocks between space, batch and depth.

Invariants
  1. `paddings` is [rank, 2], nonnegative: how much before and after each dimension.
  2. Mirror padding is at most the dimension (SYMMETRIC) or one less (REFLECT).
  3. The block ops are permutations of the elements plus padding or cropping; their gradients are
     each other.

Example:  `tf.pad([[1, 2]], [[0, 0], [1, 1]])` -> [[0, 1, 2, 0]].
"""
import numpy as np

from pyflow.framework.dtypes import FLOATS, int32, int64
from pyflow.framework.op import S, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base.common import at_least_rank, dims_of, int32s, only, shape_vector, static, text
from pyflow.ops.base.shape_rules import match

PADDINGS = "T: type, Tpaddings: {int32, int64} = int32"
PADDED = [((2, 3), [[1, 0], [0, 2]]), ((2, 3), [[0, 0], [0, 0]]), ((0, 3), [[1, 1], [0, 0]]),
          ((4,), [[2, 1]]), ((2, 1, 2), [[0, 1], [1, 1], [1, 0]])]
NO_PADDING = S((), lit(np.zeros((0, 2), np.int32)))


def _rank_by_rows(op, dims):
    """The rank of the padded tensor, known from its own or from the rows of paddings."""
    rows = match(op, None, "n 2", "").size("n")
    if dims is None:
        return rows
    if rows not in (None, len(dims)):
        raise ValueError(f"{op.type}: {rows} rows of paddings for a tensor of rank {len(dims)}")
    return len(dims)


def _pad_shape(op):
    dims, paddings = dims_of(op.inputs[0].shape), static(op.inputs[1])
    rank = _rank_by_rows(op, dims)
    if paddings is None:
        return unknown_shape(rank)
    if (paddings < 0).any():
        raise ValueError(f"{op.type}: paddings must not be negative, got {paddings.tolist()}")
    if dims is None:
        return unknown_shape(rank)
    return TensorShape([None if d is None else d + int(p.sum()) for d, p in zip(dims, paddings)])


def _pad_gradient(op, dy):
    x, paddings = op.inputs[0], op.inputs[1]
    known = static(paddings)
    if known is not None:
        begin = int32s([int(p[0]) for p in known])
    else:
        first = raw_ops.Slice(paddings, int32s([0, 0]), int32s([-1, 1]))
        begin = raw_ops.Reshape(first, int32s([-1]))
    size = shape_vector(x)
    if known is None:
        size = raw_ops.Shape(x, out_type=paddings.dtype)
    return [raw_ops.Slice(dy, begin, size), None] + [None] * (len(op.inputs) - 2)


@op("Pad", inputs="input: T, paddings: Tpaddings", outputs="output: T", attrs=PADDINGS)
class Pad:
    """`input` with zeros around it. TF: Pad."""
    shape = _pad_shape
    gradient = _pad_gradient

    def reference(input, paddings): return np.pad(input, paddings) if input.ndim else input
    samples = [S(shape, lit(p)) for shape, p in PADDED] + [NO_PADDING]


@op("PadV2", inputs="input: T, paddings: Tpaddings, constant_values: T", outputs="output: T",
    attrs=PADDINGS)
class PadV2:
    """`input` with the scalar `constant_values` around it; no gradient for that value.
    TF: PadV2."""
    shape = _pad_shape
    gradient = _pad_gradient

    def reference(input, paddings, constant_values):
        return np.pad(input, paddings, constant_values=constant_values) if input.ndim else input
    samples = [S(shape, lit(p), lit(7)) for shape, p in PADDED]


MIRRORS = [S((2, 3), lit([[1, 1], [2, 0]]), mode="REFLECT"),
           S((2, 3), lit([[2, 1], [0, 3]]), mode="SYMMETRIC"),
           S((4,), lit([[3, 2]]), mode="REFLECT"), S((4,), lit([[4, 1]]), mode="SYMMETRIC"),
           S((2, 3), lit([[0, 0], [0, 0]]), mode="SYMMETRIC")]
MIRROR = PADDINGS + ', mode: {"REFLECT", "SYMMETRIC"}'


@op("MirrorPad", inputs="input: T, paddings: Tpaddings", outputs="output: T", attrs=MIRROR)
class MirrorPad:
    """`input` continued by its mirror image, without (REFLECT) or with (SYMMETRIC) the edge.
    TF: MirrorPad."""
    shape = _pad_shape

    def gradient(op, dy):
        return [MirrorPadGrad(dy, op.inputs[1], mode=op.attr("mode")), None]

    def reference(input, paddings, mode):
        return np.pad(input, paddings, mode=text(mode).lower())
    samples = MIRRORS


def _unpadded_shape(op):
    dims, paddings = dims_of(op.inputs[0].shape), static(op.inputs[1])
    rank = _rank_by_rows(op, dims)
    if dims is None or paddings is None:
        return unknown_shape(rank)
    left = [None if d is None else d - int(p.sum()) for d, p in zip(dims, paddings)]
    if (paddings < 0).any() or any(d is not None and d < 0 for d in left):
        raise ValueError(f"{op.type}: paddings {paddings.tolist()} do not fit in shape "
                         f"{op.inputs[0].shape}")
    return TensorShape(left)


def _fold_mirror(input, paddings, mode):
    edge = 0 if text(mode) == "SYMMETRIC" else 1
    for axis, (before, after) in enumerate(paddings):
        x = np.moveaxis(input, axis, 0)
        n = x.shape[0] - before - after
        y = x[before:before + n].copy()
        for i in range(before):
            y[before - 1 - i + edge] += x[i]
        for i in range(after):
            y[n - 1 - i - edge] += x[before + n + i]
        input = np.moveaxis(y, 0, axis)
    return input


@op("MirrorPadGrad", inputs="input: T, paddings: Tpaddings", outputs="output: T", attrs=MIRROR)
class MirrorPadGrad:
    """Gradient of MirrorPad: the mirrored margins folded back and added. TF: MirrorPadGrad."""
    shape = _unpadded_shape

    def gradient(op, dz):
        return [MirrorPad(dz, op.inputs[1], mode=op.attr("mode")), None]

    def reference(input, paddings, mode): return _fold_mirror(input, paddings, mode)
    samples = [S((4, 5), lit([[1, 1], [2, 0]]), mode="REFLECT"),
               S((4, 5), lit([[1, 1], [0, 2]]), mode="SYMMETRIC"),
               S((3,), lit([[0, 0]]), mode="REFLECT")]
    samples = only(FLOATS + (int32, int64), samples)


# ------------------------------------------------------------------- blocks between depth and space
def _channels_last(op):
    if text(op.attr("data_format")) not in ("NHWC", "NCHW"):
        raise ValueError(f"{op.type}: data_format must be NHWC or NCHW, got "
                         f"{op.attr('data_format')}")
    return text(op.attr("data_format")) == "NHWC"


def _rearranged_shape(op, to_depth):
    dims, block = dims_of(op.inputs[0].shape), op.attr("block_size")
    if dims is None:
        return unknown_shape(4)
    if len(dims) != 4:
        raise ValueError(f"{op.type}: expected an image batch of rank 4, got shape "
                         f"{op.inputs[0].shape}")
    c = 3 if _channels_last(op) else 1
    h = 1 if c == 3 else 2
    factors = {h: block, h + 1: block} if to_depth else {c: block * block}
    for i, factor in factors.items():
        if dims[i] is not None and dims[i] % factor:
            raise ValueError(f"{op.type}: dimension {i} of shape {op.inputs[0].shape} must be a "
                             "multiple of "
                             f"{factor} (block_size {block})")
    grow = {c: block * block} if to_depth else {h: block, h + 1: block}
    return TensorShape([None if d is None else d // factors.get(i, 1) * grow.get(i, 1)
                        for i, d in enumerate(dims)])


def _to_depth(x, b, channels_last):
    x = x if channels_last else np.transpose(x, (0, 2, 3, 1))
    n, h, w, c = x.shape
    x = x.reshape(n, h // b, b, w // b, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // b,
                                                                                  w // b, b * b * c)
    return x if channels_last else np.transpose(x, (0, 3, 1, 2))


def _to_space(x, b, channels_last):
    x = x if channels_last else np.transpose(x, (0, 2, 3, 1))
    n, h, w, c = x.shape
    c //= b * b
    x = x.reshape(n, h, w, b, b, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, c)
    return x if channels_last else np.transpose(x, (0, 3, 1, 2))


BLOCK = 'T: type, block_size: int >= 2, data_format: {"NHWC", "NCHW", "NCHW_VECT_C"} = "NHWC"'


@op("SpaceToDepth", inputs="input: T", outputs="output: T", attrs=BLOCK)
class SpaceToDepth:
    """Blocks of block_size x block_size pixels as channels. TF: SpaceToDepth."""
    def shape(op): return _rearranged_shape(op, True)

    def gradient(op, dy):
        return DepthToSpace(dy, block_size=op.attr("block_size"),
                            data_format=op.attr("data_format"))

    def reference(input, block_size, data_format):
        return _to_depth(input, block_size, text(data_format) == "NHWC")
    samples = [S((1, 4, 6, 2), block_size=2), S((2, 2, 4, 6), block_size=2, data_format="NCHW"),
               S((0, 3, 3, 1), block_size=3)]


@op("DepthToSpace", inputs="input: T", outputs="output: T", attrs=BLOCK)
class DepthToSpace:
    """Channels as blocks of block_size x block_size pixels. TF: DepthToSpace."""
    def shape(op): return _rearranged_shape(op, False)

    def gradient(op, dy):
        return SpaceToDepth(dy, block_size=op.attr("block_size"),
                            data_format=op.attr("data_format"))

    def reference(input, block_size, data_format):
        return _to_space(input, block_size, text(data_format) == "NHWC")
    samples = [S((1, 2, 3, 8), block_size=2), S((2, 8, 2, 3), block_size=2, data_format="NCHW"),
               S((0, 1, 1, 9), block_size=3)]


# ------------------------------------------------------------------- blocks between batch and space
def _batch_shape(op, to_batch):
    block, margins = static(op.inputs[1]), static(op.inputs[2])
    count = match(op, None, "m", "m 2").size("m")
    if count is None:
        return unknown_shape(op.inputs[0].shape.ndims)
    shape = at_least_rank(op.inputs[0].shape, count + 1, f"{op.type}: input")
    dims = dims_of(shape)
    if dims is None:
        return unknown_shape()
    if block is not None and (block < 1).any():
        raise ValueError(f"{op.type}: block_shape must be positive, got {block.tolist()}")
    if margins is not None and (margins < 0).any():
        raise ValueError(f"{op.type}: margins must not be negative, got {margins.tolist()}")
    batch = _moved_batch(op, dims[0], block, to_batch)
    blocks = [None] * count if block is None else block.tolist()
    edges = [None] * count if margins is None else margins.sum(1).tolist()
    space = [_moved_side(op, i, dims[i], b, m, to_batch)
             for i, (b, m) in enumerate(zip(blocks, edges), 1)]
    return TensorShape([batch, *space, *dims[count + 1:]])


def _moved_batch(op, size, block, to_batch):
    if size is None or block is None:
        return None
    total = int(np.prod(block, dtype=np.int64))
    if to_batch:
        return size * total
    if size % total:
        raise ValueError(f"{op.type}: batch {size} is not a multiple of {total}, the product of "
                         f"block_shape {block.tolist()}")
    return size // total


def _moved_side(op, at, size, block, margin, to_batch):
    if None in (size, block, margin):
        return None
    if not to_batch:
        if size * block < margin:
            raise ValueError(f"{op.type}: crops of {margin} do not fit in dimension {at} of "
                             f"{size * block}")
        return size * block - margin
    if (size + margin) % block:
        raise ValueError(f"{op.type}: padded dimension {at} ({size + margin}) is not a multiple "
                         f"of block {block}")
    return (size + margin) // block


def _space_to_batch(x, block, paddings):
    m = len(block)
    x = np.pad(x, [(0, 0)] + [tuple(p) for p in paddings] + [(0, 0)] * (x.ndim - 1 - m))
    dims = [x.shape[0]]
    for i, b in enumerate(block, 1):
        dims += [x.shape[i] // b, b]
    x = x.reshape(dims + list(x.shape[1 + m:]))
    order = [2 * i + 2 for i in range(m)] + [0] + [2 * i + 1 for i in range(m)]
    x = x.transpose(order + list(range(2 * m + 1, x.ndim)))
    return x.reshape((-1 if x.size else x.shape[m] * int(np.prod(block)),) + x.shape[m + 1:])


def _batch_to_space(x, block, crops):
    m, total = len(block), int(np.prod(block))
    rest = x.shape[1 + m:]
    spatial = x.shape[1:1 + m]
    x = x.reshape(tuple(block) + (x.shape[0] // total,) + spatial + rest)
    order = [m]
    for i in range(m):
        order += [m + 1 + i, i]
    x = x.transpose(order + list(range(2 * m + 1, x.ndim)))
    x = x.reshape((x.shape[0],) + tuple(s * b for s, b in zip(spatial, block)) + rest)
    cut = tuple(slice(int(a), x.shape[i + 1] - int(b)) for i, (a, b) in enumerate(crops))
    return x[(slice(None),) + cut]


@op("SpaceToBatchND", inputs="input: T, block_shape: Tblock_shape, paddings: Tpaddings",
    outputs="output: T",
    attrs="T: type, Tblock_shape: {int32, int64} = int32, Tpaddings: {int32, int64} = int32")
class SpaceToBatchND:
    """Pad, then move blocks of the spatial dimensions 1 .. m into the batch. TF: SpaceToBatchND."""
    def shape(op): return _batch_shape(op, True)

    def gradient(op, dy):
        return [BatchToSpaceND(dy, op.inputs[1], op.inputs[2]), None, None]

    def reference(input, block_shape, paddings):
        return _space_to_batch(input, block_shape, paddings)
    samples = [S((1, 4, 4, 2), lit([2, 2]), lit([[0, 0], [0, 0]])),
               S((2, 3, 4, 1), lit([2, 2]), lit([[1, 0], [0, 2]])),
               S((2, 4), lit([2]), lit([[0, 2]]))]


@op("BatchToSpaceND", inputs="input: T, block_shape: Tblock_shape, crops: Tcrops",
    outputs="output: T",
    attrs="T: type, Tblock_shape: {int32, int64} = int32, Tcrops: {int32, int64} = int32")
class BatchToSpaceND:
    """Move batch entries back into blocks of space, then crop. TF: BatchToSpaceND."""
    def shape(op): return _batch_shape(op, False)

    def gradient(op, dy):
        return [SpaceToBatchND(dy, op.inputs[1], op.inputs[2]), None, None]

    def reference(input, block_shape, crops): return _batch_to_space(input, block_shape, crops)
    samples = [S((4, 2, 2, 1), lit([2, 2]), lit([[0, 0], [0, 0]])),
               S((8, 2, 2, 1), lit([2, 2]), lit([[1, 0], [0, 2]])),
               S((4, 3), lit([2]), lit([[0, 2]]))]


def _square_block_shape(op, to_batch):
    margins, block = static(op.inputs[1]), op.attr("block_size")
    dims = dims_of(match(op, "b h w c", "2 2")("b h w c"))
    if margins is not None and (margins < 0).any():
        raise ValueError(f"{op.type}: margins must not be negative, got {margins.tolist()}")
    batch = _moved_batch(op, dims[0], np.array([block, block]), to_batch)
    edges = [None, None] if margins is None else margins.sum(1).tolist()
    sides = [_moved_side(op, i, dims[i], block, m, to_batch) for i, m in enumerate(edges, 1)]
    return TensorShape([batch, *sides, dims[3]])


@op("SpaceToBatch", inputs="input: T, paddings: Tpaddings", outputs="output: T",
    attrs="T: type, Tpaddings: {int32, int64} = int32, block_size: int >= 2")
class SpaceToBatch:
    """SpaceToBatchND for images and square blocks, the older form. TF: SpaceToBatch."""
    def shape(op): return _square_block_shape(op, True)

    def gradient(op, dy):
        return [BatchToSpace(dy, op.inputs[1], block_size=op.attr("block_size")), None]

    def reference(input, paddings, block_size):
        return _space_to_batch(input, [block_size] * 2, paddings)
    samples = [S((1, 4, 4, 2), lit([[0, 0], [0, 0]]), block_size=2),
               S((2, 3, 4, 1), lit([[1, 0], [0, 2]]), block_size=2)]


@op("BatchToSpace", inputs="input: T, crops: Tidx", outputs="output: T",
    attrs="T: type, block_size: int >= 2, Tidx: {int32, int64} = int32")
class BatchToSpace:
    """BatchToSpaceND for images and square blocks, the older form. TF: BatchToSpace."""
    def shape(op): return _square_block_shape(op, False)

    def gradient(op, dy):
        return [SpaceToBatch(dy, op.inputs[1], block_size=op.attr("block_size")), None]

    def reference(input, crops, block_size): return _batch_to_space(input, [block_size] * 2, crops)
    samples = [S((4, 2, 2, 1), lit([[0, 0], [0, 0]]), block_size=2),
               S((8, 2, 2, 1), lit([[1, 0], [0, 2]]), block_size=2)]


PUBLIC = {
    "space_to_batch_nd": SpaceToBatchND, "batch_to_space_nd": BatchToSpaceND,
    "manip.space_to_batch_nd": SpaceToBatchND, "manip.batch_to_space_nd": BatchToSpaceND,
}
