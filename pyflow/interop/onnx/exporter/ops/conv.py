"""Convolutions: ONNX's, channels first; filters are turned round while the model is written."""

from pyflow.interop.onnx.exporter.ops.common import channels_first, converts, dtypes, np


class Windows:
    """How windows lie: strides, dilations and pads over the spatial axes, order of the axes."""

    def __init__(self, node, data_format, rank, kernel):
        self.first = data_format.startswith("NC")
        self.order = tuple(range(rank)) if self.first else channels_first(rank)
        self.kernel = list(kernel)
        self.strides = self._spatial(node.attr("strides"))
        self.dilations = self._spatial(node.attr("dilations", None) or [1] * rank)
        self.padding = node.attr("padding")
        self._explicit = node.attr("explicit_paddings", None) or []

    def _spatial(self, values):
        values = list(values)
        outer = values[:2] if self.first else [values[0], values[-1]]
        self.outer = outer
        return values[2:] if self.first else values[1:-1]

    def sizes(self, dims):
        """The spatial sizes among pyflow's dims, or None."""
        return None if dims is None else list(dims[2:] if self.first else dims[1:-1])

    @property
    def reach(self):
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations)]

    def pads(self, dims):
        """ONNX's attributes that say the pads of an input of `dims`."""
        if self.padding == "VALID":
            return {}
        n = len(self.kernel)
        if self.padding == "EXPLICIT":
            pairs = np.reshape(self._explicit, [-1, 2])[2:] if self.first else \
                np.reshape(self._explicit, [-1, 2])[1:-1]
            return {"pads": [int(p) for p in [*pairs[:, 0], *pairs[:, 1]]]}
        sizes = self.sizes(dims)
        if sizes is None or None in sizes:
            if self.strides == [1] * n:
                sizes = [1 << 20] * n               # the pads are the same of every size
            else:
                return {"auto_pad": "SAME_UPPER"}
        pairs = [halves(max((-(-s // stride) - 1) * stride + far - s, 0))
                 for s, stride, far in zip(sizes, self.strides, self.reach)]
        made = [p[0] for p in pairs] + [p[1] for p in pairs]
        return {"pads": made} if any(made) else {}

    def attrs(self, dims):
        """Attributes of a convolution."""
        return {"kernel_shape": self.kernel, "strides": self.strides, "dilations": self.dilations,
                **self.pads(dims)}


def halves(total):
    """(before, after): TF puts the odd one behind."""
    return total // 2, total - total // 2


@converts("Conv2D", "Conv3D")
def conv(node):
    rank = 4 if node.op.type == "Conv2D" else 5
    filters = node.shape(1)
    if None in filters:
        raise node.unsupported(f"the filters' shape {filters} must be known")
    windows = Windows(node, node.attr("data_format", "NHWC"), rank, filters[:-2])
    channels = node.shape(0)[1 if windows.first else -1]
    group = 1 if channels is None else channels // filters[-2]
    weights = node.value(1).ordered((rank - 1, rank - 2, *range(rank - 2)))
    return _made(node, windows, weights, group)


def _made(node, windows, weights, group):
    name = node.compute("Conv", node.dtype(), node.value(0).ordered(windows.order), weights,
                        group=group, **windows.attrs(node.dims(0)))
    return node.ordered(name, windows.order)


@converts("DepthwiseConv2dNative")
def depthwise(node):
    filters = node.shape(1)
    if None in filters:
        raise node.unsupported(f"the filters' shape {filters} must be known")
    windows = Windows(node, node.attr("data_format", "NHWC"), 4, filters[:2])
    return _made(node, windows, depthwise_filters(node, 1, filters), filters[2])


def depthwise_filters(node, i, filters):
    """[H, W, C, M] as [C * M, 1, H, W]."""
    height, width, channels, more = filters
    value = node.value(i)
    if value.array is not None:
        array = value.array.transpose(2, 3, 0, 1).reshape(channels * more, 1, height, width)
        return node.body.name_of(array, value.wanted)
    return node.reshape(value.ordered((2, 3, 0, 1)), [channels * more, 1, height, width])


@converts("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def transposed(node):
    """ConvTranspose: of known sizes with the pads of the convolution whose gradient it is, else
    without pads, and cut."""
    filters = node.shape(1)
    if None in filters:
        raise node.unsupported(f"the filters' shape {filters} must be known")
    rank = len(filters)
    windows = Windows(node, node.attr("data_format", "NHWC"), rank, filters[:-2])
    if node.op.type.startswith("Depthwise"):
        weights, group = depthwise_filters(node, 1, filters), filters[2]
    else:
        weights = node.value(1).ordered((rank - 1, rank - 2, *range(rank - 2)))
        channels = node.out_dims()[1 if windows.first else -1] if node.out_dims() else None
        group = 1 if channels is None else channels // filters[-2]
    sizes, given = node.known(0), windows.sizes(node.dims(2))
    asked = windows.sizes(sizes.tolist() if sizes is not None and sizes.size == rank else
                          node.out_dims())
    attrs = {"kernel_shape": windows.kernel, "strides": windows.strides,
             "dilations": windows.dilations, "group": group}
    x = node.value(2).ordered(windows.order)
    if asked is None or given is None or None in asked or None in given:
        name = _cut(node, windows, attrs, x, weights)
    else:
        name = node.compute("ConvTranspose", node.dtype(2), x, weights, **attrs,
                            **_transposed_pads(node, windows, asked, given))
    return node.ordered(name, windows.order)


def _transposed_pads(node, windows, asked, given):
    before, after, more = [], [], []
    explicit = windows.pads(node.dims(0)).get("pads") if windows.padding == "EXPLICIT" else None
    for i, (size, small, stride, far) in enumerate(zip(asked, given, windows.strides,
                                                       windows.reach)):
        whole = (small - 1) * stride + far
        low, high = halves(max(whole - size, 0)) if windows.padding == "SAME" else (0, 0)
        if explicit is not None:
            low, high = explicit[i], explicit[i + len(asked)]
        before.append(low)
        after.append(high)
        more.append(size - (whole - low - high))
    after = [a - min(m, 0) for a, m in zip(after, more)]
    more = [max(m, 0) for m in more]
    return {"pads": before + after, "output_padding": more if any(more) else None}


def _cut(node, windows, attrs, x, weights):
    if windows.padding == "EXPLICIT":
        raise node.unsupported("explicit pads where sizes are not known")
    n = len(windows.kernel)
    more = [max(s - far, 0) for s, far in zip(windows.strides, windows.reach)]
    if windows.padding == "VALID":
        more = [max(m, s - 1) for m, s in zip(more, windows.strides)]
    whole = node.compute("ConvTranspose", node.dtype(2), x, weights, **attrs,
                         output_padding=more if any(more) else None)
    vector = node.vector(0)
    if node.dims(0) is not None and node.dims(0) != (n + 2,):
        asked = vector                          # the spatial sizes alone
    else:
        asked = node.slice(vector, [2 if windows.first else 1], [n + 2 if windows.first else n + 1],
                           [0])
    if windows.padding == "VALID":
        return node.slice(whole, [0] * n, asked, list(range(2, n + 2)))
    reached = node.emit("Sub", node.emit("Shape", whole, start=2), np.array(more, np.int64))
    over = node.emit("Max", node.emit("Sub", reached, asked), np.zeros(n, np.int64))
    low = node.emit("Div", over, np.array([2], np.int64))
    return node.slice(whole, low, node.emit("Add", low, asked), list(range(2, n + 2)))


__all__ = ["Windows", "depthwise_filters", "dtypes", "halves"]
