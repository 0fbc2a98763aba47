"""Normalisation: batch norms, LRN, softmax; losses over logits."""

from pyflow.interop.onnx.exporter.ops.common import channels_first, converts, dtypes, np
from pyflow.interop.onnx.exporter.ops.elementwise import per_channel


@converts("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(node):
    rank = node.rank(0)
    first = node.attr("data_format", "NHWC").startswith("NC")
    order = tuple(range(rank)) if first else channels_first(rank)
    have, x = node.dtype(), node.value(0).ordered(order)
    inner = dtypes.float32 if have in (dtypes.float16, dtypes.bfloat16) else have
    if inner is not have:
        x = node.cast(x, inner)
    epsilon = float(node.attr("epsilon", 1e-4))
    if node.attr("is_training", True):
        made = _of_batch(node, x, inner, rank, epsilon)
    else:
        name = node.emit("BatchNormalization", x, *node.xs(1, 5), epsilon=epsilon)
        made = [name, node.x(3), node.x(4), node.x(3), node.x(4)]
    if inner is not have:
        made[0] = node.cast(made[0], have)
    return [node.ordered(made[0], order), *made[1:], np.zeros(0, np.float32)]


def _of_batch(node, x, dtype, rank, epsilon):
    """Normalised by the batch's own mean and variance."""
    axes = [0, *range(2, rank)]
    mean = node.reduce("ReduceMean", x, axes, True)
    apart = node.emit("Sub", x, mean)
    variance = node.reduce("ReduceMean", node.emit("Mul", apart, apart), axes, True)
    scale = node.emit("Div", per_channel(node, node.value(1), rank), node.emit(
        "Sqrt", node.emit("Add", variance, node.const(epsilon, dtype))))
    y = node.emit("Add", node.emit("Mul", apart, scale), per_channel(node, node.value(2), rank))
    flat_mean, flat = node.reshape(mean, [-1]), node.reshape(variance, [-1])
    total, channels = node.emit("Size", x), node.emit("Size", flat)
    count = node.cast(node.emit("Div", total, channels), dtype)
    less = node.emit("Max", node.emit("Sub", count, node.const(1, dtype)), node.const(1, dtype))
    unbiased = node.emit("Mul", flat, node.emit("Div", count, less))
    return [y, flat_mean, unbiased, flat_mean, flat]


@converts("LRN")
def lrn(node):
    size = 2 * int(node.attr("depth_radius", 5)) + 1
    order = channels_first(4)
    name = node.compute("LRN", node.dtype(), node.value(0).ordered(order), size=size,
                        alpha=float(node.attr("alpha", 1.0)) * size,
                        beta=float(node.attr("beta", 0.5)), bias=float(node.attr("bias", 1.0)))
    return node.ordered(name, order)


@converts("Softmax", "LogSoftmax")
def softmax(node):
    value, rank = node.value(0), node.rank(0)
    axis = (value.order or tuple(range(rank))).index(rank - 1)
    name = node.compute(node.op.type, node.dtype(), value.named(), axis=axis)
    return node.ordered(name, value.order)


@converts("SoftmaxCrossEntropyWithLogits")
def cross_entropy(node):
    """The loss of each row; its gradient is softmax - labels."""
    logits, labels = node.xs()
    dtype = node.dtype()
    logs = node.compute("LogSoftmax", dtype, logits, axis=-1)
    loss = node.compute("Neg", dtype, node.reduce(
        "ReduceSum", node.compute("Mul", dtype, labels, logs), [-1], False, dtype))
    grad = node.compute("Sub", dtype, node.compute("Softmax", dtype, logits, axis=-1), labels)
    return [loss, grad]


@converts("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(node):
    logits, labels = node.x(0), node.int64(node.x(1), node.dtype(1))
    dtype = node.dtype()
    logs = node.compute("LogSoftmax", dtype, logits, axis=-1)
    picked = node.emit("GatherElements", logs, node.unsqueeze(labels, 1), axis=1)
    depth = node.like_scalar(node.size_of(logits, 1))
    hot = node.emit("OneHot", labels, depth, np.array([0, 1], np.float32), axis=-1)
    if dtype is not dtypes.float32:
        hot = node.cast(hot, dtype)
    grad = node.compute("Sub", dtype, node.compute("Softmax", dtype, logits, axis=-1), hot)
    return [node.squeeze(node.compute("Neg", dtype, picked), 1), grad]


@converts("_FusedLayerNorm")
def layer_norm(node):
    raise node.unsupported("export the graph before it is optimized")
