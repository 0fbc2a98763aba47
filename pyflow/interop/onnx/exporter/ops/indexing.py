"""Gathers, scatters, one-hot vectors, diagonals, unique values, boxes."""

from pyflow.interop.onnx.exporter.ops.common import converts, dtypes, np
from pyflow.interop.onnx.exporter.ops.reduce import scattered

_LAST = (1 << 63) - 1


@converts("Gather", "GatherV2", "ResourceGather")
def gather(node):
    value, axis = node.value(0), 0
    if node.op.type == "GatherV2":
        axis = int(np.reshape(node.need(2, "the axis"), ()))
    batch = int(node.attr("batch_dims", 0) or 0)
    indices = node.x(1) if node.dtype(1) in (dtypes.int32, dtypes.int64) else node.ints(1)
    if not batch:
        return node.emit("Gather", value.plain, indices, axis=axis)
    axis = node.axis(axis, node.rank(0))
    batch = node.axis(batch, node.rank(1) + 1)
    return _batched(node, value, node.int64(indices, node.dtype(1)), axis, batch)


def _batched(node, value, indices, axis, batch):
    """GatherND at the axis behind the batch, to which `axis` is moved and back."""
    rank, more = node.rank(0), node.rank(1) - batch
    between = list(range(batch, axis))
    order = [*range(batch), axis, *between, *range(axis + 1, rank)]
    name = node.emit("GatherND", value.ordered(order), node.unsqueeze(indices, -1),
                     batch_dims=batch)
    if not between:
        return name
    n, count = len(between), rank - 1 + more
    perm = [*range(batch), *range(batch + more, batch + more + n), *range(batch, batch + more),
            *range(batch + more + n, count)]
    return node.emit("Transpose", name, perm=perm)


@converts("GatherNd")
def gather_nd(node):
    if node.shape(1)[-1] == 0:
        raise node.unsupported("indices without a number")
    return node.emit("GatherND", node.x(0), node.ints(1))


@converts("ScatterNd")
def scatter_nd(node):
    """Into zeros; what is written twice is added."""
    node.since(16, "ScatterND that adds")
    dtype = node.dtype(1)
    zeros = node.emit("ConstantOfShape", node.vector(2), value=node.const([0], dtype))
    if dtype is dtypes.bool or dtype is dtypes.string:
        raise node.unsupported(f"elements of type {dtype.name}")
    return scattered(node, dtype, zeros, node.ints(0), node.x(1), "add")


_REDUCTIONS = {"TensorScatterUpdate": None, "TensorScatterAdd": "add", "TensorScatterSub": "add",
               "TensorScatterMax": "max", "TensorScatterMin": "min"}


@converts(*_REDUCTIONS)
def tensor_scatter(node):
    reduction, updates = _REDUCTIONS[node.op.type], node.x(2)
    if reduction:
        node.since(18 if reduction in ("max", "min") else 16, f"ScatterND by {reduction}")
    if node.op.type == "TensorScatterSub":
        dtype = node.dtype(2)
        updates = node.compute("Sub", dtype, node.const(0, dtype), updates)
    return scattered(node, node.dtype(0), node.x(0), node.ints(1), updates, reduction)


@converts("SparseToDense")
def sparse_to_dense(node):
    """Indices of rank 2, 1 (of a vector) or 0 into a tensor of the default."""
    indices, rank = node.ints(0), node.rank(0)
    if rank < 2:
        indices = node.reshape(indices, [-1, 1])
    dtype = node.dtype(2)
    filled = node.compute("Expand", dtype, node.x(3), node.vector(1), at=(0,))
    values = node.x(2)
    if rank == 0:
        values = node.reshape(values, [1])
    elif node.rank(2) == 0:
        values = node.compute("Expand", dtype, values, node.size_of(
            node.body.name_of(indices), 0), at=(0,))
    return node.emit("ScatterND", filled, indices, values)


@converts("OneHot")
def one_hot(node):
    """By comparison: indices outside of the depth, negative ones too, give the off value."""
    rank = node.rank(0)
    axis = node.axis(int(node.attr("axis", -1)), rank + 1)
    depth = node.known(1)
    if depth is not None:
        classes = np.arange(int(depth), dtype=np.int64)
    else:
        classes = node.emit("Range", np.array(0, np.int64), node.ints(1), np.array(1, np.int64))
    shape = [-1 if i == axis else 1 for i in range(rank + 1)]
    classes = node.reshape(classes, shape)
    indices = node.unsqueeze(node.int64(node.x(0), node.dtype(0)), axis)
    return node.where(node.emit("Equal", indices, classes), node.x(2), node.x(3), node.dtype(2))


@converts("InvertPermutation")
def invert_permutation(node):
    """The order that sorts it."""
    x = node.ints(0)
    _, order = node.emit("TopK", x, node.size_of(node.body.name_of(x), 0), axis=0, largest=0,
                         outputs=2)
    return order if node.out_dtype() is dtypes.int64 else node.cast(order, node.out_dtype())


# Diagonals

def _eye(node, rows, columns):
    """Whether row and column are equal: [rows, columns]; arguments: ints or names of scalars."""
    zero, one = np.array(0, np.int64), np.array(1, np.int64)
    if isinstance(rows, int) and isinstance(columns, int):
        return np.eye(rows, columns, dtype=bool)
    ranges = [np.arange(n) if isinstance(n, int) else node.emit("Range", zero, n, one)
              for n in (rows, columns)]
    return node.emit("Equal", node.unsqueeze(ranges[0], 1), ranges[1])


def _size(node, name, dims, axis):
    size = dims[axis]
    return size if size is not None else node.like_scalar(node.size_of(name, axis % len(dims)))


def _main_diagonal(node, at=1):
    """UnsupportedError of the later versions' other diagonals."""
    if len(node) > at and np.any(node.need(at, "k") != 0):
        raise node.unsupported("only the main diagonal (k = 0)")


@converts("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_diag(node):
    _main_diagonal(node)
    if len(node) > 2 and (node.need(2, "num_rows") != -1 or node.need(3, "num_cols") != -1):
        raise node.unsupported("num_rows and num_cols")
    if len(node) > 4 and np.any(node.need(4, "padding_value") != 0):
        raise node.unsupported("a padding_value")
    x, dims = node.x(0), node.shape(0)
    size = _size(node, x, dims, len(dims) - 1)
    zero = node.const(0, node.dtype())
    return node.where(_eye(node, size, size), node.unsqueeze(x, -1), zero, node.dtype())


@converts("Diag")
def diag(node):
    if node.rank(0) != 1:
        raise node.unsupported("a diagonal of more than one axis")
    return matrix_diag(node)


@converts("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", "DiagPart")
def matrix_diag_part(node):
    _main_diagonal(node)
    x, dims = node.x(0), node.shape(0)
    if len(dims) != 2 and node.op.type == "DiagPart":
        raise node.unsupported("a diagonal of more than one axis")
    rank = len(dims)
    rows, columns = (_size(node, x, dims, axis) for axis in (rank - 2, rank - 1))
    if isinstance(rows, int) and isinstance(columns, int):
        count = np.array(min(rows, columns), np.int64)
    else:
        count = node.emit("Min", *[np.array(n, np.int64) if isinstance(n, int) else n
                                   for n in (rows, columns)])
    index = np.arange(int(count)) if isinstance(count, np.ndarray) else node.emit(
        "Range", np.array(0, np.int64), count, np.array(1, np.int64))
    pairs = node.unsqueeze(index, 1)
    pairs = np.concatenate([pairs, pairs], 1).astype(np.int64) if isinstance(pairs, np.ndarray) \
        else node.emit("Concat", pairs, pairs, axis=1)
    if rank == 2:
        return node.emit("GatherND", x, pairs)
    order = [rank - 2, rank - 1, *range(rank - 2)]
    picked = node.emit("GatherND", node.value(0).ordered(order), pairs)
    return node.emit("Transpose", picked, perm=[*range(1, rank - 1), 0])


@converts("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(node):
    _main_diagonal(node, 2)
    x, dims = node.x(0), node.shape(0)
    rank = len(dims)
    rows, columns = (_size(node, x, dims, axis) for axis in (rank - 2, rank - 1))
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise node.unsupported("the sizes of the matrices must be known")
    diagonal = node.x(1)
    if rows > columns:
        pads = np.zeros((2, rank - 1), np.int64)
        pads[1, -1] = rows - columns
        diagonal = node.compute("Pad", node.dtype(), diagonal, pads.reshape(-1), at=(0,))
    return node.where(_eye(node, rows, columns), node.unsqueeze(diagonal, -1), x, node.dtype())


@converts("MatrixBandPart")
def matrix_band_part(node):
    """Trilu from above and below; a negative number keeps that whole side."""
    low, high = node.need(1, "num_lower"), node.need(2, "num_upper")
    name, dtype = node.x(0), node.dtype()
    if high >= 0:
        name = node.compute("Trilu", dtype, name, np.array(int(high), np.int64), at=(0,), upper=0)
    if low >= 0:
        name = node.compute("Trilu", dtype, name, np.array(-int(low), np.int64), at=(0,), upper=1)
    return name


# Sets

@converts("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
def unique(node):
    if len(node) > 1 and node.need(1, "the axis").size and node.rank(0) != 1:
        raise node.unsupported("an axis")
    from pyflow.interop.onnx.exporter.kernel_types import wider
    dtype = node.dtype()
    wide = wider("Unique", dtype)
    x = node.x(0) if wide is None else node.cast(node.x(0), wide)
    made = node.emit("Unique", x, sorted=0, outputs=4)
    y = made[0] if wide is None else node.cast(made[0], dtype)
    found = [y, made[2]] + ([made[3]] if "Counts" in node.op.type else [])
    return [found[0]] + [name if node.out_dtype(i) is dtypes.int64 else
                         node.cast(name, node.out_dtype(i)) for i, name in enumerate(found) if i]


@converts("DynamicPartition")
def dynamic_partition(node):
    """Each part: the rows whose number is the part's."""
    rank = node.rank(1)
    data, parts = node.x(0), node.x(1)
    if rank != 1:
        rest = node.slice(node.sizes_of(data), [rank], [_LAST], [0])
        data = node.reshape(data, node.concat(np.array([-1], np.int64), rest))
        parts = node.reshape(parts, [-1])
    return [node.compute("Compress", node.dtype(), data, node.emit(
        "Equal", parts, np.array(i, np.int32)), axis=0, at=(0,))
            for i in range(int(node.attr("num_partitions")))]


@converts("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(node):
    """All rows, scattered; there are as many as the largest index says."""
    count = len(node) // 2
    flat, rows = [], []
    for i in range(count):
        rank = node.rank(i)
        rest = node.slice(node.sizes_of(node.x(count + i)), [rank], [_LAST], [0])
        flat.append(node.reshape(node.int64(node.x(i), node.dtype(i)), [-1]))
        rows.append(node.reshape(node.x(count + i), node.concat(np.array([-1], np.int64), rest)))
    index = node.emit("Concat", *flat, axis=0) if count > 1 else flat[0]
    data = node.emit("Concat", *rows, axis=0) if count > 1 else rows[0]
    top = node.reduce("ReduceMax", node.emit("Concat", index, np.array([-1], np.int64), axis=0),
                      [0], True)
    sizes = node.emit("Concat", node.emit("Add", top, np.array([1], np.int64)),
                      node.slice(node.sizes_of(data), [1], [_LAST], [0]), axis=0)
    if node.dtype(count) is dtypes.string:
        raise node.unsupported("strings")
    empty = node.emit("ConstantOfShape", sizes, value=node.const([0], node.dtype(count)))
    return node.emit("ScatterND", empty, node.unsqueeze(index, 1), data)


# Boxes

@converts("CropAndResize")
def crop_and_resize(node):
    """A GridSample whose points lie in the boxes; those outside of the image get the value of
    extrapolation."""
    node.since(16, "GridSample")
    if node.attr("method", "bilinear") != "bilinear":
        raise node.unsupported(f"the method {node.attr('method')}")
    height, width = (int(n) for n in node.need(3, "crop_size"))
    image = node.value(0).ordered((0, 3, 1, 2))
    if node.dtype() is not dtypes.float32:
        image = node.cast(image, dtypes.float32)
    images = node.emit("Gather", image, node.x(2), axis=0)
    y1, x1, y2, x2 = node.split(node.unsqueeze(node.x(1), 1), [1] * 4, 2)
    ys = node.squeeze(_points(node, y1, y2, height), 1)             # [boxes, height]
    xs = node.squeeze(_points(node, x1, x2, width), 1)
    ys, xs = node.unsqueeze(ys, 2), node.unsqueeze(xs, 1)
    zeros = np.zeros((1, height, width), np.float32)
    ys, xs = node.emit("Add", ys, zeros), node.emit("Add", xs, zeros)
    grid = node.emit("Concat", node.unsqueeze(xs, 3), node.unsqueeze(ys, 3), axis=3)
    made = node.emit("GridSample", images, grid, align_corners=1,
                     mode="linear" if node.opset >= 20 else "bilinear")
    inside = node.reduce("ReduceMax", node.emit("Abs", grid), [3], False)
    inside = node.unsqueeze(node.emit("LessOrEqual", inside, np.float32(1)), 1)
    value = np.float32(node.attr("extrapolation_value", 0.0))
    return node.ordered(node.emit("Where", inside, made, value), (0, 3, 1, 2))


def _points(node, low, high, count):
    """[boxes, 1, count] between two edges, from -1 to 1 over the image."""
    if count > 1:
        part = (np.arange(count, dtype=np.float32) / np.float32(count - 1)).reshape(1, 1, -1)
    else:
        part = np.full((1, 1, 1), 0.5, np.float32)
    at = node.emit("Add", low, node.emit("Mul", node.emit("Sub", high, low), part))
    return node.emit("Sub", node.emit("Mul", at, np.float32(2)), np.float32(1))


@converts("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4")
def non_max_suppression(node):
    count = node.ints(2)
    if node.op.type == "NonMaxSuppression":
        threshold = np.array([node.attr("iou_threshold", 0.5)], np.float32)
    else:
        threshold = node.reshape(node.cast(node.x(3), dtypes.float32), [1])
    least = node.reshape(node.cast(node.x(4), dtypes.float32), [1]) if len(node) > 4 else None
    if node.attr("pad_to_max_output_size", False):
        raise node.unsupported("pad_to_max_output_size")
    boxes = node.unsqueeze(node.cast(node.x(0), dtypes.float32), 0)
    scores = node.unsqueeze(node.cast(node.x(1), dtypes.float32), 0, 1)
    rows = node.emit("NonMaxSuppression", boxes, scores, node.reshape(count, [1]), threshold, least)
    picked = node.cast(node.squeeze(node.slice(rows, [2], [3], [1]), 1), dtypes.int32)
    if node.op.type != "NonMaxSuppressionV4":
        return picked
    return [picked, node.cast(node.like_scalar(node.size_of(picked, 0)), dtypes.int32)]
