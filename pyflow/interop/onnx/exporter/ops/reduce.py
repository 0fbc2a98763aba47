"""Reductions, running sums, the largest."""

from pyflow.interop.onnx.exporter.ops.common import Value, converts, dtypes, np

_OPS = {"Sum": "ReduceSum", "Mean": "ReduceMean", "Prod": "ReduceProd", "Max": "ReduceMax",
        "Min": "ReduceMin", "EuclideanNorm": "ReduceL2"}


def reduced(node, value, reduce):
    """A reduction of a Value over the axes of input 1; it stays in its order where it can.

    reduce: (name, axes, keepdims) -> name."""
    axes, keep = node.known(1), bool(node.attr("keep_dims", False))
    if axes is None:
        return reduce(value.plain, node.vector(1), keep)
    if value.order is None:
        axes = [int(a) for a in np.reshape(axes, -1)]
        if value.rank is not None:
            axes = [node.axis(a, value.rank) for a in axes]
        return _over(node, value.named(), axes, keep, reduce)
    order = value.order
    axes = {node.axis(int(a), len(order)) for a in np.reshape(axes, -1)}
    name = _over(node, value.named(), sorted(order.index(a) for a in axes), keep, reduce)
    if keep:
        return node.ordered(name, order)
    left = [a for a in order if a not in axes]
    return node.ordered(name, [sorted(left).index(a) for a in left])


def _over(node, name, axes, keep, reduce):
    """No axes: the value itself, not ONNX's reduction over all."""
    return reduce(name, sorted(axes), keep) if len(axes) else name


@converts(*_OPS)
def reduce_op(node):
    op, dtype = _OPS[node.op.type], node.dtype()
    if op == "ReduceL2" and not len(np.reshape(node.need(1, "the axes"), -1)):
        return node.compute("Abs", dtype, node.x(0))
    if op == "ReduceL2" and not dtype.is_floating:
        return reduced(node, node.value(0), lambda name, axes, keep: node.cast(node.reduce(
            op, node.cast(name, dtypes.float32), axes, keep), dtype))
    return reduced(node, node.value(0), lambda name, axes, keep: node.reduce(
        op, name, axes, keep, dtype))


@converts("All", "Any")
def all_any(node):
    """The smallest or largest of 0 and 1."""
    value = node.value(0)
    op = "ReduceMin" if node.op.type == "All" else "ReduceMax"
    number = Value(node.cast(value.named(), dtypes.uint8), value.order, value.shape, dtypes.uint8,
                   node.body)
    made = reduced(node, number, lambda name, axes, keep: node.reduce(op, name, axes, keep))
    if isinstance(made, Value):
        return node.ordered(node.cast(made.named(), dtypes.bool), made.order)
    return node.cast(made, dtypes.bool)


@converts("ArgMax", "ArgMin")
def arg_max(node):
    value, axis = node.value(0), int(node.need(1, "the axis"))
    rank = value.rank
    if value.order is not None:
        axis = value.order.index(node.axis(axis, rank))
    dtype = node.dtype()
    name = value.named()
    if dtype is dtypes.bool:
        name, dtype = node.cast(name, dtypes.uint8), dtypes.uint8
    made = node.compute(node.op.type, dtype, name, axis=axis, keepdims=0, result=False)
    if node.out_dtype() is not dtypes.int64:
        made = node.cast(made, node.out_dtype())
    if value.order is None:
        return made
    left = [a for i, a in enumerate(value.order) if i != axis]
    return node.ordered(made, [sorted(left).index(a) for a in left])


@converts("TopK", "TopKV2")
def top_k(node):
    dtype = node.dtype()
    count = np.array([node.attr("k")], np.int64) if node.op.type == "TopK" else node.vector(1)
    from pyflow.interop.onnx.exporter.kernel_types import wider
    wide = wider("TopK", dtype)
    x = node.x(0) if wide is None else node.cast(node.x(0), wide)
    values, indices = node.emit("TopK", x, count, axis=-1, largest=1, sorted=1, outputs=2)
    if wide is not None:
        values = node.cast(values, dtype)
    return [values, node.cast(indices, node.out_dtype(1))]


@converts("Cumsum")
def cumsum(node):
    axis = node.known(1)
    axis = np.array(int(axis), np.int64) if axis is not None else node.ints(1)
    return node.compute("CumSum", node.dtype(), node.x(0), axis, at=(0,),
                        exclusive=int(node.attr("exclusive", False)),
                        reverse=int(node.attr("reverse", False)))


@converts("InTopK", "InTopKV2")
def in_top_k(node):
    """Whether fewer than k of a row's numbers are larger than its target's."""
    x, targets = node.x(0), node.int64(node.x(1), node.dtype(1))
    k = np.array(node.attr("k"), np.int64) if node.op.type == "InTopK" else node.ints(2)
    depth = node.like_scalar(node.size_of(x, 1))
    inside = node.emit("And", node.emit("GreaterOrEqual", targets, np.array(0, np.int64)),
                       node.emit("Less", targets, depth))
    safe = node.emit("Where", inside, targets, np.array(0, np.int64))
    own = node.emit("GatherElements", x, node.unsqueeze(safe, 1), axis=1)
    larger = node.reduce("ReduceSum", node.cast(node.emit("Greater", x, own), dtypes.int64), [1],
                         False)
    zero = node.emit("Sub", own, own)
    finite = node.squeeze(node.emit("Equal", zero, np.array(0, np.float32)), 1)
    return node.emit("And", node.emit("And", node.emit("Less", larger, k), inside), finite)


@converts("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd")
def segment(node):
    raise node.unsupported("how many segments there are is known to the step alone; "
                           "tf.unsorted_segment_* is told")


_SCATTERED = {"UnsortedSegmentSum": ("add", 0), "UnsortedSegmentProd": ("mul", 1),
              "UnsortedSegmentMax": ("max", "lowest"), "UnsortedSegmentMin": ("min", "highest")}


@converts(*_SCATTERED)
def unsorted_segment(node):
    """Rows are scattered into numbers that change nothing; negative segments into a row that is cut
    off."""
    reduction, start = _SCATTERED[node.op.type]
    node.since(18 if reduction in ("max", "min") else 16, f"ScatterND by {reduction}")
    dtype, ids = node.dtype(), node.int64(node.x(1), node.dtype(1))
    index_rank, data = node.rank(1), node.x(0)
    count = node.vector(2)
    if index_rank != 1:
        flat = node.slice(node.sizes_of(data), [index_rank], [1 << 30], [0])
        data = node.reshape(data, node.concat(np.array([-1], np.int64), flat))
        ids = node.reshape(ids, [-1])
    rest = node.slice(node.sizes_of(data), [1], [1 << 30], [0])
    more = count + 1 if isinstance(count, np.ndarray) else node.emit(
        "Add", count, np.array([1], np.int64))
    number = _extreme(dtype, start)
    empty = node.emit("ConstantOfShape", node.concat(more, rest), value=node.const([number], dtype))
    last = count.reshape(()) if isinstance(count, np.ndarray) else node.like_scalar(count)
    ids = node.emit("Where", node.emit("Less", ids, np.array(0, np.int64)), last, ids)
    made = scattered(node, dtype, empty, node.unsqueeze(ids, 1), data, reduction)
    return node.slice(made, [0], count, [0])


def scattered(node, dtype, into, index, updates, reduction):
    """ScatterND, in float32 for the half types, for which onnxruntime has no reduction."""
    if reduction and dtype in (dtypes.float16, dtypes.bfloat16):
        into, updates = node.cast(into, dtypes.float32), node.cast(updates, dtypes.float32)
        return node.cast(node.emit("ScatterND", into, index, updates, reduction=reduction), dtype)
    return node.emit("ScatterND", into, index, updates, reduction=reduction)


def _extreme(dtype, start):
    if start not in ("lowest", "highest"):
        return start
    return dtype.min if start == "lowest" else dtype.max
