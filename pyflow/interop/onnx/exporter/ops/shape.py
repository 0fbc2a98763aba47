"""Ops that move elements without computing: reshapes, joins, pieces, pads, blocks."""

from pyflow.interop.onnx.exporter.ops.common import Value, converts, dtypes, lying, np
from pyflow.interop.onnx.ops.shape import groups_of, together

_UNKNOWN = 1_000_003        # a prime in place of a size that is not known, before and after
_LAST = (1 << 63) - 1       # an end beyond every axis
_FIRST = -_LAST             # before every axis, where steps go backwards


@converts("Reshape")
def reshape(node):
    sizes = node.known(1)
    if sizes is None:
        sizes = _told(node.out_dims())
    if sizes is None:
        return node.emit("Reshape", node.x(0), node.vector(1),
                         allowzero=1 if node.opset >= 14 else None)
    sizes = np.asarray(sizes, np.int64).reshape(-1)
    if not sizes.size and node.dims(0) == ():
        return node.value(0)
    made = _regrouped(node, node.value(0), node.out_dims())
    if made is not None:
        return made
    return node.emit("Reshape", node.x(0), sizes,
                     allowzero=1 if 0 in sizes and node.opset >= 14 else None)


def _regrouped(node, value, wanted):
    """The value in the order it lies in where its axes are only split and joined, else None."""
    have = value.shape
    if value.order is None or have is None or wanted is None or have.count(None) > 1 \
            or wanted.count(None) != have.count(None) or 0 in have or 0 in wanted:
        return None
    have = [_UNKNOWN if d is None else d for d in have]
    wanted = [_UNKNOWN if d is None else d for d in wanted]
    groups = groups_of(have, wanted) if np.prod(have, dtype=object) == np.prod(
        wanted, dtype=object) else None
    if groups is None:
        return None
    order = together(value.order, have, [old for old, _ in groups])
    if order == tuple(range(len(have))):
        return None
    first = {old[0]: new for old, new in groups if old}
    new_order = [axis for old in order if old in first for axis in first[old]]
    new_order += [axis for old, new in groups if not old for axis in new]
    sizes = [-1 if wanted[a] == _UNKNOWN else wanted[a] for a in new_order]
    return node.ordered(node.reshape(value.ordered(order), sizes), new_order)


def _told(dims):
    """Sizes that say a shape with one unknown size, or None."""
    if dims is None or dims.count(None) > 1 or 0 in dims:
        return None
    return [-1 if d is None else d for d in dims]


@converts("Squeeze")
def squeeze(node):
    value, asked = node.value(0), list(node.attr("squeeze_dims", None) or [])
    if not asked:
        dims = node.dims(0)
        if dims is None or None in dims:
            return node.emit("Squeeze", value.plain)        # the step knows which are 1
        asked = [i for i, d in enumerate(dims) if d == 1]
    if not asked:
        return value
    if value.rank is not None:
        asked = [node.axis(a, value.rank) for a in asked]
    if value.order is None:
        return node.squeeze(value.named(), *asked)
    order = value.order
    left = [a for a in order if a not in asked]
    name = node.squeeze(value.named(), *sorted(order.index(a) for a in asked))
    return node.ordered(name, [sorted(left).index(a) for a in left])


@converts("ExpandDims")
def expand_dims(node):
    value, axis = node.value(0), int(np.reshape(node.need(1, "the axis"), ()))
    if value.order is None:
        return node.unsqueeze(value.plain, axis)
    rank = value.rank
    axis = node.axis(axis, rank + 1)
    order = [a if a < axis else a + 1 for a in value.order]
    order.insert(axis, axis)
    return node.ordered(node.unsqueeze(value.named(), axis), order)


@converts("Transpose", "ConjugateTranspose")
def transpose(node):
    perm = [int(p) for p in node.need(1, "perm")]
    return node.value(0).transposed(perm) if node.rank(0) == len(perm) else node.value(0)


# Joins and pieces

@converts("Concat", "ConcatV2")
def concat(node):
    last = node.op.type == "ConcatV2"
    which = range(len(node) - 1) if last else range(1, len(node))
    axis = int(np.reshape(node.need(len(node) - 1 if last else 0, "the axis"), ()))
    values = [node.value(i) for i in which]
    if len(values) == 1:
        return values[0]
    if node.out_dims() is not None:
        axis = node.axis(axis, len(node.out_dims()))
    order = next((v.order for v in values if v.order is not None), None)
    if order is None:
        return node.emit("Concat", *[v.plain for v in values], axis=axis)
    names = [v.ordered(order) for v in values]
    return node.ordered(node.emit("Concat", *names, axis=order.index(axis)), order)


@converts("Pack")
def pack(node):
    axis = int(node.attr("axis", 0))
    if axis < 0:
        axis = node.axis(axis, node.rank(0) + 1)
    names = [node.unsqueeze(name, axis) for name in node.xs()]
    return names[0] if len(names) == 1 else node.emit("Concat", *names, axis=axis)


@converts("Unpack")
def unpack(node):
    value, count = node.value(0), int(node.attr("num"))
    axis = node.axis(int(node.attr("axis", 0)), node.rank(0))
    name = value.plain
    parts = node.split(name, [1] * count, axis) if count else []
    return [node.squeeze(part, axis) for part in parts]


@converts("Split", "SplitV")
def split(node):
    if node.op.type == "Split":
        value, at, count = node.value(1), 0, int(node.attr("num_split"))
        sizes = None
    else:
        value, at, count = node.value(0), 2, int(node.attr("num_split"))
        sizes = node.need(1, "size_splits").astype(np.int64).reshape(-1)
    axis = int(np.reshape(node.need(at, "the axis"), ()))
    if value.rank is not None:
        axis = node.axis(axis, value.rank)
    if count == 1:
        return value
    order, where = value.order, axis
    if order is not None:
        where = order.index(axis)
    names = _pieces(node, value, sizes, axis, where, count)
    return [node.ordered(name, order, i) for i, name in enumerate(names)]


def _pieces(node, value, sizes, axis, where, count):
    size = value.shape[axis] if value.shape is not None else None
    if sizes is not None and (sizes < 0).any():
        if size is None:
            raise node.unsupported("the size of the axis that is split must be known")
        sizes = np.where(sizes < 0, size - sizes[sizes >= 0].sum(), sizes)
    if sizes is None and size is not None:
        sizes = [size // count] * count
    if sizes is not None:
        return node.split(value.named(), sizes, where)
    if node.opset >= 18:
        return node.emit("Split", value.named(), axis=where, num_outputs=count, outputs=count)
    return node.emit("Split", value.named(), axis=where, outputs=count)


@converts("Slice")
def slice_(node):
    value, begin, size = node.value(0), node.ints(1), node.ints(2)
    dims = node.dims(1)
    if dims is None or dims[0] is None:
        raise node.unsupported("how many numbers begin has must be known")
    axes = np.arange(dims[0])
    if value.order is not None:
        axes = np.array([value.order.index(a) for a in axes], np.int64)
    if isinstance(begin, np.ndarray) and isinstance(size, np.ndarray):
        end = np.where(size < 0, _LAST, begin + size)
    elif isinstance(size, np.ndarray) and (size < 0).all():
        end = np.full(len(axes), _LAST)
    else:
        end = node.emit("Add", begin, size)
        if not isinstance(size, np.ndarray) or (size < 0).any():
            less = node.emit("Less", size, np.array(0, np.int64)) if isinstance(size, str) \
                else size < 0
            end = node.emit("Where", less, np.array(_LAST, np.int64), end)
    if not len(axes):
        return value
    return node.ordered(node.slice(value.named(), begin, end, axes), value.order)


class _Index:
    """What one StridedSlice does: which of its numbers are which axes', what shrinks, what is
    new."""

    def __init__(self, node, count):
        mask = {name: int(node.attr(f"{name}_mask", 0)) for name in
                ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
        self.axes, self.picked, self.shrunk, self.new = [], [], [], []
        self.mask = mask
        axis = out = 0
        for i in range(count):
            bit = 1 << i
            if mask["ellipsis"] & bit:
                rest = sum(1 for k in range(i + 1, count) if not mask["new_axis"] & 1 << k)
                skipped = node.rank(0) - axis - rest
                axis, out = axis + skipped, out + skipped
            elif mask["new_axis"] & bit:
                self.new.append(out)
                out += 1
            else:
                self.axes.append(axis)
                self.picked.append(i)
                if mask["shrink_axis"] & bit:
                    self.shrunk.append(axis)
                else:
                    out += 1
                axis += 1

    def has(self, name, i):
        """Whether the bit of a mask is set."""
        return bool(self.mask[name] & 1 << i)


@converts("StridedSlice")
def strided_slice(node):
    steps = node.need(3, "strides").astype(np.int64).reshape(-1)
    index = _Index(node, len(steps))
    value = node.value(0)
    name, order = value.named(), value.order
    if order is not None and (index.shrunk or index.new):
        name, order = value.plain, None
    if index.axes:
        steps = steps[index.picked]
        starts, ends = _bounds(node, index, steps)
        axes = index.axes if order is None else [order.index(a) for a in index.axes]
        if not _takes_all(starts, ends, steps):
            name = node.slice(name, starts, ends, axes, None if (steps == 1).all() else steps)
    if index.shrunk:
        name = node.squeeze(name, *index.shrunk)
    if index.new:
        name = node.unsqueeze(name, *index.new)
    return node.ordered(name, order)


def _takes_all(starts, ends, steps):
    return isinstance(starts, np.ndarray) and isinstance(ends, np.ndarray) and (steps == 1).all() \
        and (starts == 0).all() and (ends == _LAST).all()


def _bounds(node, index, steps):
    """(starts, ends): int64 vectors, arrays where they are known."""
    free = {"begin": np.where(steps > 0, 0, _LAST), "end": np.where(steps > 0, _LAST, _FIRST)}
    made = []
    for at, which in ((1, "begin"), (2, "end")):
        numbers = node.ints(at)
        ignored = np.array([index.has(which, i) and not index.has("shrink_axis", i)
                            for i in index.picked])
        if isinstance(numbers, np.ndarray):
            numbers = np.where(ignored, free[which], numbers.reshape(-1)[index.picked])
        else:
            if len(index.picked) != (node.dims(at) or (None,))[0]:
                numbers = node.emit("Gather", numbers, np.array(index.picked, np.int64), axis=0)
            if ignored.any():
                numbers = node.emit("Where", ignored, free[which], numbers)
        made.append(numbers)
    shrunk = np.array([index.has("shrink_axis", i) for i in index.picked])
    if shrunk.any():
        made[1] = _one_behind(node, made[0], made[1], shrunk)
    return made


def _one_behind(node, starts, ends, shrunk):
    """`ends`, where an axis shrinks the element behind the start."""
    if isinstance(starts, np.ndarray):
        after = np.where(starts == -1, _LAST, starts + 1)
        if isinstance(ends, np.ndarray) or shrunk.all():
            return np.where(shrunk, after, 0 if isinstance(ends, str) else ends)
    else:
        last = node.emit("Equal", starts, np.array(-1, np.int64))
        after = node.emit("Where", last, np.array(_LAST, np.int64),
                          node.emit("Add", starts, np.array(1, np.int64)))
    return after if shrunk.all() else node.emit("Where", shrunk, after, ends)


# Pads and copies

def _pads(node, order):
    """ONNX's pads: all before, then all behind."""
    known = node.known(1)
    if known is not None:
        pairs = np.asarray(known, np.int64).reshape(-1, 2)
        if order is not None:
            pairs = pairs[list(order)]
        return pairs.T.reshape(-1)
    name = node.emit("Transpose", node.ints(1), perm=[1, 0])
    return node.reshape(name, [-1])


@converts("Pad", "PadV2")
def pad(node):
    value = node.value(0)
    if value.rank == 0:
        return value
    order = value.order if node.known(1) is not None else None
    name = value.ordered(order) if order is not None else value.plain
    pads = _pads(node, order)
    number = node.x(2) if node.op.type == "PadV2" else None
    if isinstance(pads, np.ndarray) and not pads.any():
        return value
    return node.ordered(node.compute("Pad", node.dtype(), name, pads, number, at=(0, 2)), order)


@converts("MirrorPad")
def mirror_pad(node):
    value = node.value(0)
    if node.attr("mode") == "REFLECT":
        order = value.order if node.known(1) is not None else None
        name = value.ordered(order) if order is not None else value.plain
        return node.ordered(node.compute("Pad", node.dtype(), name, _pads(node, order), at=(0,),
                                         mode="reflect"), order)
    name = value.plain          # the border itself is repeated, too
    for axis, (before, after) in enumerate(node.need(1, "paddings").tolist()):
        parts = [name]
        if before:
            parts.insert(0, node.slice(name, [before - 1], [_FIRST], [axis], [-1]))
        if after:
            parts.append(node.slice(name, [-1], [-after - 1], [axis], [-1]))
        name = node.emit("Concat", *parts, axis=axis) if len(parts) > 1 else name
    return name


@converts("Tile")
def tile(node):
    return node.compute("Tile", node.dtype(), node.x(0), node.vector(1), at=(0,))


@converts("BroadcastTo")
def broadcast_to(node):
    return node.compute("Expand", node.dtype(), node.x(0), node.vector(1), at=(0,))


@converts("BroadcastArgs")
def broadcast_args(node):
    """The shape of a tensor that is broadcast: ones of one shape expanded to the other."""
    one = np.ones(1, np.int64)
    name = node.emit("Expand", node.emit("ConstantOfShape", node.vector(0), value=one),
                     node.vector(1))
    made = node.sizes_of(name)
    return made if node.out_dtype() is dtypes.int64 else node.cast(made, node.out_dtype())


# Blocks

@converts("SpaceToDepth", "DepthToSpace")
def blocks(node):
    data_format = node.attr("data_format", "NHWC")
    if data_format not in ("NHWC", "NCHW"):
        raise node.unsupported(f"data_format {data_format}")
    order = (0, 3, 1, 2) if data_format == "NHWC" else (0, 1, 2, 3)
    if node.dtype() in _IN_STEPS:
        return _blocks_in_steps(node, order)
    name = node.compute(node.op.type, node.dtype(), node.value(0).ordered(order),
                        blocksize=int(node.attr("block_size")))
    return node.ordered(name, order)


# Types without a kernel of onnxruntime's and without a wider one that has.
_IN_STEPS = (dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64)


def _blocks_in_steps(node, order):
    """A reshape, a transpose and a reshape."""
    b, dims = int(node.attr("block_size")), node.shape(0)
    dims = [dims[a] for a in order]
    name = node.value(0).ordered(order)
    sizes = _Sizes(node, name, dims)
    n, block = sizes.part(0), np.array([b], np.int64)
    if node.op.type == "SpaceToDepth":
        rows, columns, channels = (sizes.scaled(2, b, "Div"), sizes.scaled(3, b, "Div"),
                                   sizes.part(1))
        split = node.concat(n, channels, rows, block, columns, block)
        whole, perm = [n, sizes.scaled(1, b * b, "Mul"), rows, columns], [0, 3, 5, 1, 2, 4]
    else:
        channels = sizes.scaled(1, b * b, "Div")
        split = node.concat(n, block, block, channels, sizes.part(2), sizes.part(3))
        whole, perm = [n, channels, sizes.scaled(2, b, "Mul"), sizes.scaled(3, b, "Mul")], \
            [0, 3, 4, 1, 5, 2]
    turned = node.emit("Transpose", node.reshape(name, split), perm=perm)
    return node.ordered(node.reshape(turned, node.concat(*whole)), order)


class _Sizes:
    """The sizes of a value as parts of a Reshape: numbers where known, else vectors of one."""

    def __init__(self, node, name, dims):
        self.node, self.name, self.dims = node, name, dims

    def part(self, i):
        if self.dims[i] is not None:
            return np.array([self.dims[i]], np.int64)
        return self.node.size_of(self.name, i)

    def scaled(self, i, factor, op):
        part = self.part(i)
        if isinstance(part, np.ndarray):
            return part * factor if op == "Mul" else part // factor
        return self.node.emit(op, part, np.array([factor], np.int64))


@converts("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(node):
    block, pairs = _block(node, "paddings")
    m, dims = len(block), node.shape(0)
    rank = len(dims)
    pads = np.zeros((rank, 2), np.int64)
    pads[1:1 + m] = pairs
    name = node.x(0)
    if pads.any():
        name = node.compute("Pad", node.dtype(), name, pads.T.reshape(-1), at=(0,))
    dims = [None if d is None else d + int(p.sum()) for d, p in zip(dims, pads)]
    sizes = _Sizes(node, name, dims)
    parts = [sizes.part(0)]
    for i, b in enumerate(block):
        parts += [sizes.scaled(i + 1, b, "Div"), np.array([b], np.int64)]
    rest = [sizes.part(i) for i in range(m + 1, rank)]
    split = node.reshape(name, node.concat(*parts, *rest))
    perm = [2 + 2 * i for i in range(m)] + [0] + [1 + 2 * i for i in range(m)]
    perm += list(range(2 * m + 1, rank + m))
    turned = node.emit("Transpose", split, perm=perm)
    whole = [sizes.scaled(0, int(np.prod(block)), "Mul")]
    whole += [sizes.scaled(i + 1, b, "Div") for i, b in enumerate(block)]
    return node.reshape(turned, node.concat(*whole, *rest))


def _block(node, what):
    if node.op.type in ("SpaceToBatch", "BatchToSpace"):
        block = [int(node.attr("block_size"))] * 2
        return block, node.need(1, what).astype(np.int64)
    block = [int(b) for b in node.need(1, "block_shape").reshape(-1)]
    return block, node.need(2, what).astype(np.int64).reshape(-1, 2)


@converts("BatchToSpaceND", "BatchToSpace")
def batch_to_space(node):
    block, pairs = _block(node, "crops")
    m, dims = len(block), node.shape(0)
    rank, name = len(dims), node.x(0)
    sizes, total = _Sizes(node, name, dims), int(np.prod(block))
    rest = [sizes.part(i) for i in range(m + 1, rank)]
    batch = sizes.scaled(0, total, "Div")
    split = node.reshape(name, node.concat(np.array(block, np.int64), batch,
                                           *[sizes.part(i + 1) for i in range(m)], *rest))
    perm = [m]
    for i in range(m):
        perm += [m + 1 + i, i]
    turned = node.emit("Transpose", split, perm=[*perm, *range(2 * m + 1, rank + m)])
    made = node.reshape(turned, node.concat(batch, *[
        sizes.scaled(i + 1, b, "Mul") for i, b in enumerate(block)], *rest))
    if not pairs.any():
        return made
    ends = [-int(p[1]) if p[1] else _LAST for p in pairs]
    return node.slice(made, pairs[:, 0], ends, list(range(1, m + 1)))


# Reversal

@converts("ReverseV2", "Reverse")
def reverse(node):
    value = node.value(0)
    asked = node.need(1, "the axes")
    axes = np.flatnonzero(asked) if node.op.type == "Reverse" else np.reshape(asked, -1)
    if not len(axes):
        return value
    axes = [node.axis(int(a), node.rank(0)) for a in axes]
    if value.order is not None:
        axes = [value.order.index(a) for a in axes]
    n = len(axes)
    return node.ordered(node.slice(value.named(), [-1] * n, [_FIRST] * n, axes, [-1] * n),
                        value.order)


@converts("ReverseSequence")
def reverse_sequence(node):
    """ONNX has it for the first two axes."""
    batch, time = int(node.attr("batch_dim", 0)), int(node.attr("seq_dim"))
    rank = node.rank(0)
    batch, time = node.axis(batch, rank), node.axis(time, rank)
    rest = [a for a in range(rank) if a not in (batch, time)]
    order = (0, 1, *range(2, rank)) if {batch, time} == {0, 1} else (batch, time, *rest)
    name = node.compute("ReverseSequence", node.dtype(), node.value(0).ordered(order), node.ints(1),
                        at=(0,), batch_axis=order.index(batch), time_axis=order.index(time))
    return node.ordered(name, order)


@converts("Roll")
def roll(node):
    """The last `shift` elements come to the front."""
    name = node.x(0)
    shifts = np.reshape(node.need(1, "shift"), -1).tolist()
    for shift, axis in zip(shifts, np.reshape(node.need(2, "axis"), -1).tolist()):
        axis = node.axis(int(axis), node.rank(0))
        size = node.shape(0)[axis]
        if size == 0:
            continue
        if size is not None:
            at = np.array([-shift % size], np.int64)
        else:
            length = node.emit("Max", node.size_of(name, axis), np.array([1], np.int64))
            at = node.emit("Mod", np.array([-shift], np.int64), length)
        tail, head = node.slice(name, at, [_LAST], [axis]), node.slice(name, [0], at, [axis])
        name = node.emit("Concat", tail, head, axis=axis)
    return name


__all__ = ["Value", "dtypes", "lying"]
