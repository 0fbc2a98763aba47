"""Pools over windows."""

from pyflow.interop.onnx.exporter.ops.common import converts, dtypes, np
from pyflow.interop.onnx.exporter.ops.conv import Windows


def windows_of(node):
    """The Windows of a pool; those over channels or the batch are refused."""
    sizes = list(node.attr("ksize"))
    rank = len(sizes)
    data_format = node.attr("data_format", "NHWC" if rank == 4 else "NDHWC")
    if data_format not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise node.unsupported(f"data_format {data_format}")
    first = data_format.startswith("NC")
    outer = sizes[:2] if first else [sizes[0], sizes[-1]]
    if outer != [1, 1]:
        raise node.unsupported(f"windows {sizes} over the batch or the channels")
    return Windows(node, data_format, rank, sizes[2:] if first else sizes[1:-1])


def pooled(node, op, **more):
    windows = windows_of(node)
    attrs = windows.attrs(node.dims(0))
    attrs.pop("dilations")
    name = node.compute(op, node.dtype(), node.value(0).ordered(windows.order), **attrs, **more)
    return node.ordered(name, windows.order)


@converts("MaxPool", "MaxPool3D")
def max_pool(node):
    return pooled(node, "MaxPool")


@converts("AvgPool", "AvgPool3D")
def avg_pool(node):
    return pooled(node, "AveragePool", count_include_pad=0)


@converts("MaxPoolV2")
def max_pool_v2(node):
    node.op = _WithAttrs(node.op, ksize=node.need(1, "ksize").tolist(),
                         strides=node.need(2, "strides").tolist())
    return pooled(node, "MaxPool")


class _WithAttrs:
    """An operation with attributes that were inputs."""

    def __init__(self, op, **attrs):
        self._op, self.attrs = op, {**op.attrs, **attrs}

    def attr(self, name):
        return self.attrs[name]

    def __getattr__(self, name):
        return getattr(self._op, name)


@converts("MaxPoolWithArgmax")
def max_pool_with_argmax(node):
    """ONNX counts (n, c, h, w), pyflow (h, w, c), with n where include_batch_in_index says so."""
    windows = windows_of(node)
    dims = node.shape(0)
    if None in dims[1:]:
        raise node.unsupported(f"the sizes of its input must be known, they are {dims}")
    _, height, width, channels = dims
    attrs = windows.attrs(dims)
    attrs.pop("dilations")
    x = node.value(0).ordered(windows.order)
    if node.dtype() not in (dtypes.float32, dtypes.float16, dtypes.float64):
        x = node.cast(x, dtypes.float32)
    name, index = node.emit("MaxPool", x, outputs=2, **attrs)
    if node.dtype() not in (dtypes.float32, dtypes.float16, dtypes.float64):
        name = node.cast(name, node.dtype())
    area = np.array(height * width, np.int64)
    inside = node.emit("Mul", node.emit("Mod", index, area), np.array(channels, np.int64))
    made = node.emit("Add", inside, np.arange(channels, dtype=np.int64).reshape(-1, 1, 1))
    if node.attr("include_batch_in_index", False):
        whole = np.array(height * width * channels, np.int64)
        batch = node.emit("Mul", node.emit("Div", index, whole), whole)
        made = node.emit("Add", made, batch)
    if node.out_dtype(1) is not dtypes.int64:
        made = node.cast(made, node.out_dtype(1))
    return [node.ordered(name, windows.order), node.ordered(made, windows.order, 1)]
