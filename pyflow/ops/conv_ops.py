"""Convolutions in two dimensions, plain and depthwise, and the ops of their gradients.

Invariants
  1. Images are [batch, height, width, channels] (NHWC) or [batch, channels, height, width] (NCHW);
     filters [height, width, in, out], depthwise [height, width, in, multiplier].
  2. SAME pads so that out = ceil(in / stride), the odd pixel after; VALID pads nothing; EXPLICIT as
     given.
  3. A convolution and its two backprop ops are each other's gradients.

Cross-correlation as in TF: y[b, i, j, o] = sum x[b, s i + d u, s j + d v, c] w[u, v, c, o].
Example:  `tf.nn.conv2d(images, kernel, strides=[1, 1, 1, 1], padding="SAME")`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.common import dims_of, shape_vector, static_shape, text

PADDING = 'padding: {"SAME", "VALID", "EXPLICIT"}, explicit_paddings: list(int) = [], '
LAYOUT = 'data_format: {"NHWC", "NCHW"} = "NHWC", dilations: list(int) = [1, 1, 1, 1]'
CONV = "T: type, strides: list(int), use_cudnn_on_gpu: bool = true, " + PADDING + LAYOUT
DEPTHWISE = "T: type, strides: list(int), " + PADDING + LAYOUT
CONVOLVED = FLOATS + (dtypes.int32,)


# ---------------------------------------------------------------------------------------- geometry
def spatial(data_format):
    """Indices of height, width and channels in an image shape."""
    return (2, 3, 1) if text(data_format) == "NCHW" else (1, 2, 3)


def margins(size, window, stride, dilation, padding, explicit=(0, 0)):
    """(out, before, after) of one dimension; of an unknown `size`, None what depends on it."""
    reach = (window - 1) * dilation + 1
    if padding == "SAME":
        if size is None:
            return None, None, None
        out = -(-size // stride)
        total = max((out - 1) * stride + reach - size, 0)
        return out, total // 2, total - total // 2
    before, after = explicit if padding == "EXPLICIT" else (0, 0)
    if size is None:
        return None, before, after
    if size + before + after < reach:
        raise ValueError(f"a window of {reach} does not fit into {size} with padding {padding}: "
                         "negative output size")
    return (size + before + after - reach) // stride + 1, before, after


def _check_four(op, values, what):
    if len(values) != 4:
        raise ValueError(f"{op.type}: {what} must have 4 entries, one per dimension, got {values}")
    n, c = 0, spatial(op.attr("data_format"))[2]
    if values[n] != 1 or values[c] != 1:
        raise ValueError(f"{op.type}: {what} over the batch and channel dimensions must be 1, got "
                         f"{values}")
    if any(v < 1 for v in values):
        raise ValueError(f"{op.type}: {what} must be positive, got {values}")


def _image(op, shape, what):
    if shape.ndims not in (None, 4):
        raise ValueError(f"{op.type}: {what} must have rank 4, got shape {shape}")
    return dims_of(shape) or [None] * 4


def _explicit(attr):
    pairs = list(attr("explicit_paddings"))
    return [tuple(pairs[2 * i:2 * i + 2]) for i in range(4)] if len(pairs) == 8 else [(0, 0)] * 4


def _out_sizes(op, image, window):
    """Static output height and width of a window op."""
    strides, dilations = op.attr("strides"), op.attr("dilations")
    _check_four(op, strides, "strides")
    _check_four(op, dilations, "dilations")
    padding = text(op.attr("padding"))
    pairs = _explicit(op.attr) if padding == "EXPLICIT" else [(0, 0)] * 4
    if padding == "EXPLICIT" and len(op.attr("explicit_paddings")) != 8:
        raise ValueError(f"{op.type}: padding EXPLICIT needs 8 explicit_paddings")
    sizes = []
    for axis, k in zip(spatial(op.attr("data_format"))[:2], window):
        sizes.append(None if k is None else
                     margins(image[axis], k, strides[axis], dilations[axis], padding,
                             pairs[axis])[0])
    return sizes


def _conv_shape(op, depthwise=False):
    image = _image(op, op.inputs[0].shape, "input")
    kernel = _image(op, op.inputs[1].shape, "filter")
    h, w, c = spatial(op.attr("data_format"))
    if None not in (image[c], kernel[2]):
        wrong = image[c] != kernel[2] if depthwise else not kernel[2] or image[c] % kernel[2]
        if wrong:
            raise ValueError(f"{op.type}: the input has {image[c]} channels (shape "
                             f"{op.inputs[0].shape}), the "
                             f"filter {op.inputs[1].shape} expects {kernel[2]}")
    result = [image[0], None, None, None]
    result[h], result[w] = _out_sizes(op, image, kernel[:2])
    result[c] = kernel[3]
    if depthwise:
        result[c] = None if None in kernel[2:] else kernel[2] * kernel[3]
    return TensorShape(result)


def _settings(op, names):
    return {name: op.attr(name) for name in names}


CONV_NAMES = ("strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format",
              "dilations")
DEPTH_NAMES = ("strides", "padding", "explicit_paddings", "data_format", "dilations")


# ------------------------------------------------------------------------------------------ oracles
class _Windows:
    """The windows of one image size, for the NumPy oracles; all in NHWC."""

    def __init__(self, size, kernel, strides, padding, explicit_paddings, data_format, dilations):
        axes = spatial(data_format)[:2]
        attrs = {"explicit_paddings": explicit_paddings}
        pairs = _explicit(attrs.__getitem__)
        self.size, self.kernel = size, kernel
        self.stride = [strides[a] for a in axes]
        self.step = [dilations[a] for a in axes]
        found = [margins(n, k, s, d, text(padding), pairs[a])
                 for n, k, s, d, a in zip(size, kernel, self.stride, self.step, axes)]
        self.out = [f[0] for f in found]
        self.pad = [(f[1], f[2]) for f in found]

    def padded(self, x):
        return np.pad(x, [(0, 0), *self.pad, (0, 0)])

    def taps(self):
        """(u, v, index into the padded image) of every filter position."""
        for u in range(self.kernel[0]):
            for v in range(self.kernel[1]):
                rows, columns = (slice(k * d, k * d + (n - 1) * s + 1, s) if n else slice(0, 0)
                                 for k, d, n, s in zip((u, v), self.step, self.out, self.stride))
                yield u, v, (slice(None), rows, columns)

    def cropped(self, x):
        (top, _), (left, _) = self.pad
        return x[:, top:top + self.size[0], left:left + self.size[1]]


def nchw_to_nhwc(x, data_format):
    return np.transpose(x, (0, 2, 3, 1)) if text(data_format) == "NCHW" else x


def restore_layout(x, data_format):
    return np.transpose(x, (0, 3, 1, 2)) if text(data_format) == "NCHW" else x


def _forward(x, w, multiply, channels, data_format, **geometry):
    x = nchw_to_nhwc(x, data_format)
    windows = _Windows(x.shape[1:3], w.shape[:2], data_format=data_format, **geometry)
    padded = windows.padded(x)
    y = np.zeros((len(x), *windows.out, channels), x.dtype)
    for u, v, at in windows.taps():
        y += multiply(padded[at], w[u, v])
    return restore_layout(y, data_format)


def _to_input(sizes, w, dy, multiply, data_format, **geometry):
    n, *rest = [int(s) for s in sizes]
    h, wide, c = spatial(data_format)
    size = (int(sizes[h]), int(sizes[wide]))
    windows = _Windows(size, w.shape[:2], data_format=data_format, **geometry)
    dy = nchw_to_nhwc(dy, data_format)
    dx = windows.padded(np.zeros((n, *size, int(sizes[c])), dy.dtype))
    for u, v, at in windows.taps():
        dx[at] += multiply(dy, w[u, v])
    return restore_layout(windows.cropped(dx), data_format)


def _to_filter(x, sizes, dy, multiply, data_format, **geometry):
    x, dy = nchw_to_nhwc(x, data_format), nchw_to_nhwc(dy, data_format)
    windows = _Windows(x.shape[1:3], [int(s) for s in sizes[:2]], data_format=data_format,
                       **geometry)
    padded = windows.padded(x)
    dw = np.zeros([int(s) for s in sizes], dy.dtype)
    for u, v, at in windows.taps():
        dw[u, v] = multiply(padded[at], dy)
    return dw


def _depth_forward(x, w):
    return (x[..., None] * w).reshape(x.shape[:3] + (w.size,))


def _depth_to_input(dy, w):
    return np.sum(dy.reshape(dy.shape[:3] + w.shape) * w, -1)


def _depth_to_filter(x, dy):
    return np.einsum("bijc,bijcm->cm", x, dy.reshape(x.shape + (dy.shape[3] // x.shape[3],)))


# ------------------------------------------------------------------------------------------ samples
GEOMETRIES = [   # image, filter, attributes, output image
    ((2, 5, 4, 3), (3, 3, 3, 2), dict(strides=[1, 1, 1, 1], padding="SAME")),
    ((1, 5, 6, 2), (3, 2, 2, 4), dict(strides=[1, 2, 2, 1], padding="VALID")),
    ((1, 6, 5, 1), (3, 3, 1, 2), dict(strides=[1, 2, 3, 1], padding="SAME")),
    ((2, 4, 4, 3), (1, 1, 3, 5), dict(strides=[1, 1, 1, 1], padding="VALID")),
    ((1, 7, 7, 2), (3, 3, 2, 1), dict(strides=[1, 1, 1, 1], padding="SAME",
                                      dilations=[1, 2, 2, 1])),
    ((1, 4, 4, 1), (3, 3, 1, 1), dict(strides=[1, 1, 1, 1], padding="EXPLICIT",
                                      explicit_paddings=[0, 0, 1, 0, 2, 1, 0, 0])),
    ((0, 4, 4, 2), (3, 3, 2, 2), dict(strides=[1, 1, 1, 1], padding="SAME")),
    ((1, 8, 8, 16), (5, 5, 16, 8), dict(strides=[1, 1, 1, 1], padding="SAME")),
]
PLANES = ((2, 3, 5, 4), (3, 3, 3, 2), dict(strides=[1, 1, 1, 1], padding="SAME",
                                           data_format="NCHW"))


def _conv_samples(part, depthwise=False):
    made = []
    for image, kernel, attrs in GEOMETRIES:
        if depthwise and attrs["strides"][1] != attrs["strides"][2]:
            continue
        pairs = _explicit({"explicit_paddings": [], **attrs}.__getitem__)
        dilations = attrs.get("dilations", [1] * 4)
        out = [margins(image[a], kernel[a - 1], attrs["strides"][a], dilations[a],
                       attrs["padding"], pairs[a])[0]
               for a in (1, 2)]
        channels = kernel[2] * kernel[3] if depthwise else kernel[3]
        result = (image[0], *out, channels)
        inputs = {"y": (image, kernel), "x": (lit(list(image)), kernel, result),
                  "w": (image, lit(list(kernel)), result)}[part]
        made.append(S(*inputs, types=(dtypes.float32, dtypes.float64, dtypes.float16), **attrs))
    return made


# ---------------------------------------------------------------------------------------------- ops
@op("Conv2D", inputs="input: T, filter: T", outputs="output: T", attrs=CONV, T=CONVOLVED)
class Conv2D:
    """Convolution of images with a bank of filters. TF: Conv2D."""
    def shape(op): return _conv_shape(op)

    def gradient(op, dy):
        x, w = op.inputs
        attrs = _settings(op, CONV_NAMES)
        return [Conv2DBackpropInput(shape_vector(x), w, dy, **attrs),
                Conv2DBackpropFilter(x, shape_vector(w), dy, **attrs)]

    def reference(input, filter, strides, padding, explicit_paddings, data_format, dilations):
        return _forward(input, filter, np.matmul, filter.shape[3], data_format, strides=strides,
                        padding=padding, explicit_paddings=explicit_paddings, dilations=dilations)
    samples = _conv_samples("y") + [S(*PLANES[:2], types=FLOATS[2:], **PLANES[2])]


@op("Conv2DBackpropInput", inputs="input_sizes: int32, filter: T, out_backprop: T",
    outputs="output: T",
    attrs=CONV, T=CONVOLVED)
class Conv2DBackpropInput:
    """Gradient of Conv2D with respect to its input; a transposed convolution.
    TF: Conv2DBackpropInput."""
    def shape(op): return _sizes_shape(op, 0)

    def gradient(op, dz):
        w, dy = op.inputs[1], op.inputs[2]
        attrs = _settings(op, CONV_NAMES)
        return [None, Conv2DBackpropFilter(dz, shape_vector(w), dy, **attrs),
                Conv2D(dz, w, **attrs)]

    def reference(input_sizes, filter, out_backprop, strides, padding, explicit_paddings,
                  data_format,
                  dilations):
        return _to_input(input_sizes, filter, out_backprop, lambda dy, w: dy @ w.T, data_format,
                         strides=strides, padding=padding, explicit_paddings=explicit_paddings,
                         dilations=dilations)
    samples = _conv_samples("x")


@op("Conv2DBackpropFilter", inputs="input: T, filter_sizes: int32, out_backprop: T",
    outputs="output: T",
    attrs=CONV, T=FLOATS)
class Conv2DBackpropFilter:
    """Gradient of Conv2D with respect to its filter. TF: Conv2DBackpropFilter."""
    def shape(op): return _sizes_shape(op, 1)

    def gradient(op, dz):
        x, dy = op.inputs[0], op.inputs[2]
        attrs = _settings(op, CONV_NAMES)
        return [Conv2DBackpropInput(shape_vector(x), dz, dy, **attrs), None, Conv2D(x, dz, **attrs)]

    def reference(input, filter_sizes, out_backprop, strides, padding, explicit_paddings,
                  data_format,
                  dilations):
        return _to_filter(input, filter_sizes, out_backprop, lambda x,
                          dy: np.einsum("bijc,bijo->co", x, dy),
                          data_format, strides=strides, padding=padding,
                          explicit_paddings=explicit_paddings, dilations=dilations)
    samples = _conv_samples("w")


def _sizes_shape(op, which):
    shape = static_shape(op.inputs[which])
    if shape.ndims not in (None, 4):
        raise ValueError(f"{op.type}: {'filter_sizes' if which else 'input_sizes'} must have 4 "
                         "entries")
    _check_four(op, op.attr("strides"), "strides")
    return shape if shape.ndims else TensorShape([None] * 4)


@op("DepthwiseConv2dNative", inputs="input: T, filter: T", outputs="output: T", attrs=DEPTHWISE,
    T=FLOATS)
class DepthwiseConv2dNative:
    """Each channel convolved with its own `multiplier` filters. TF: DepthwiseConv2dNative."""
    def shape(op): return _conv_shape(op, depthwise=True)

    def gradient(op, dy):
        x, w = op.inputs
        attrs = _settings(op, DEPTH_NAMES)
        return [DepthwiseConv2dNativeBackpropInput(shape_vector(x), w, dy, **attrs),
                DepthwiseConv2dNativeBackpropFilter(x, shape_vector(w), dy, **attrs)]

    def reference(input, filter, strides, padding, explicit_paddings, data_format, dilations):
        return _forward(input, filter, _depth_forward, filter.shape[2] * filter.shape[3],
                        data_format,
                        strides=strides, padding=padding, explicit_paddings=explicit_paddings,
                        dilations=dilations)
    samples = _conv_samples("y", depthwise=True)


@op("DepthwiseConv2dNativeBackpropInput", inputs="input_sizes: int32, filter: T, out_backprop: T",
    outputs="output: T", attrs=DEPTHWISE, T=FLOATS)
class DepthwiseConv2dNativeBackpropInput:
    """Gradient of DepthwiseConv2dNative with respect to its input. TF: the same name."""
    def shape(op): return _sizes_shape(op, 0)

    def gradient(op, dz):
        w, dy = op.inputs[1], op.inputs[2]
        attrs = _settings(op, DEPTH_NAMES)
        return [None, DepthwiseConv2dNativeBackpropFilter(dz, shape_vector(w), dy, **attrs),
                DepthwiseConv2dNative(dz, w, **attrs)]

    def reference(input_sizes, filter, out_backprop, strides, padding, explicit_paddings,
                  data_format,
                  dilations):
        return _to_input(input_sizes, filter, out_backprop, _depth_to_input, data_format,
                         strides=strides,
                         padding=padding, explicit_paddings=explicit_paddings, dilations=dilations)
    samples = _conv_samples("x", depthwise=True)


@op("DepthwiseConv2dNativeBackpropFilter", inputs="input: T, filter_sizes: int32, out_backprop: T",
    outputs="output: T", attrs=DEPTHWISE, T=FLOATS)
class DepthwiseConv2dNativeBackpropFilter:
    """Gradient of DepthwiseConv2dNative with respect to its filter. TF: the same name."""
    def shape(op): return _sizes_shape(op, 1)

    def gradient(op, dz):
        x, dy = op.inputs[0], op.inputs[2]
        attrs = _settings(op, DEPTH_NAMES)
        return [DepthwiseConv2dNativeBackpropInput(shape_vector(x), dz, dy, **attrs), None,
                DepthwiseConv2dNative(x, dz, **attrs)]

    def reference(input, filter_sizes, out_backprop, strides, padding, explicit_paddings,
                  data_format,
                  dilations):
        return _to_filter(input, filter_sizes, out_backprop, _depth_to_filter, data_format,
                          strides=strides, padding=padding, explicit_paddings=explicit_paddings,
                          dilations=dilations)
    samples = _conv_samples("w", depthwise=True)


# --------------------------------------------------------------------------------- public functions
def explicit_padding(padding, data_format):
    """(padding, explicit_paddings) of an argument that is a name or a list of pairs."""
    if isinstance(padding, (list, tuple)):
        flat = [int(p) for pair in padding for p in pair]
        if len(flat) != 8:
            raise ValueError(f"explicit padding must be four pairs in the order of {data_format}, "
                             f"got {padding}")
        return "EXPLICIT", flat
    return padding, []


def four_entries(values, data_format, what):
    values = [1] if values is None else values
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(values) == 1:
        values = values * 2
    if len(values) == 2:
        values = [1, 1, *values] if data_format == "NCHW" else [1, *values, 1]
    if len(values) != 4:
        raise ValueError(f"{what} must have 1, 2 or 4 entries, got {values}")
    return [int(v) for v in values]


def conv2d(input, filter=None, strides=None, padding=None, use_cudnn_on_gpu=True,
           data_format="NHWC",
           dilations=(1, 1, 1, 1), name=None, filters=None):
    """Convolution of images with filters [height, width, in, out]. TF: nn.conv2d.
    Dtypes, shapes, errors: as op Conv2D."""
    from pyflow.ops.reduction_ops import one_of
    filter = one_of(filter, filters, "filter", "filters")
    padding, explicit = explicit_padding(padding, data_format)
    return Conv2D(input, filter, strides=four_entries(strides, data_format, "strides"),
                  padding=padding,
                  use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit,
                  data_format=data_format,
                  dilations=four_entries(dilations, data_format, "dilations"), name=name)


def conv2d_backprop_input(input_sizes, filter=None, out_backprop=None, strides=None, padding=None,
                          use_cudnn_on_gpu=True, data_format="NHWC", dilations=(1, 1, 1, 1),
                          name=None, filters=None):
    """Gradient of a convolution with respect to its input. TF: nn.conv2d_backprop_input.
    Dtypes, shapes, errors: as op Conv2DBackpropInput."""
    from pyflow.ops.reduction_ops import one_of
    filter = one_of(filter, filters, "filter", "filters")
    padding, explicit = explicit_padding(padding, data_format)
    return Conv2DBackpropInput(input_sizes, filter, out_backprop, strides=list(strides),
                               padding=padding,
                               use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit,
                               data_format=data_format, dilations=list(dilations), name=name)


def conv2d_backprop_filter(input, filter_sizes, out_backprop, strides=None, padding=None,
                           use_cudnn_on_gpu=True, data_format="NHWC", dilations=(1, 1, 1, 1),
                           name=None):
    """Gradient of a convolution with respect to its filter. TF: nn.conv2d_backprop_filter.
    Dtypes, shapes, errors: as op Conv2DBackpropFilter."""
    padding, explicit = explicit_padding(padding, data_format)
    return Conv2DBackpropFilter(input, filter_sizes, out_backprop, strides=list(strides),
                                padding=padding,
                                use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit,
                                data_format=data_format, dilations=list(dilations), name=name)


def conv2d_transpose(value=None, filter=None, output_shape=None, strides=None, padding="SAME",
                     data_format="NHWC", name=None, input=None, filters=None, dilations=None):
    """Gradient of a convolution as an op of its own ("deconvolution"). TF: nn.conv2d_transpose.

    filter: [height, width, out, in]; output_shape: the shape of the result, ints or a tensor.
    Dtypes, shapes, errors: as op Conv2DBackpropInput."""
    from pyflow.ops.reduction_ops import one_of
    value, filter = one_of(value, input, "value", "input"), one_of(filter, filters, "filter",
                                                                   "filters")
    with graph.name_scope(name, "conv2d_transpose", [value, filter, output_shape]) as scope:
        return Conv2DBackpropInput(output_shape, filter, value,
                                   strides=four_entries(strides, data_format, "strides"),
                                   padding=padding, data_format=data_format,
                                   dilations=four_entries(dilations, data_format, "dilations"),
                                   name=scope)


def depthwise_conv2d(input, filter, strides, padding, rate=None, name=None, data_format=None,
                     dilations=None):
    """Each channel with its own filters [height, width, in, multiplier].
    TF: nn.depthwise_conv2d.
    Dtypes, shapes, errors: as op DepthwiseConv2dNative."""
    data_format = data_format or "NHWC"
    from pyflow.ops.conv_functions import over_blocks
    rates = four_entries(dilations if dilations is not None else rate, data_format, "rate")
    planes = data_format == "NCHW"
    with graph.name_scope(name, "depthwise", [input, filter]) as scope:
        input, filter = graph.convert_to_tensor(input), graph.convert_to_tensor(filter)

        def convolve(x, padding, rates, name):
            padding, explicit = explicit_padding(padding, data_format)
            return DepthwiseConv2dNative(
                x, filter, strides=list(strides), padding=padding, explicit_paddings=explicit,
                data_format=data_format, dilations=four_entries(rates, data_format, "rate"),
                name=name)

        rates = rates[2:] if planes else rates[1:3]
        return over_blocks(input, rates, padding, filter.shape[:2], planes, convolve, scope)


def depthwise_conv2d_native(input, filter, strides, padding, data_format="NHWC",
                            dilations=(1, 1, 1, 1),
                            name=None):
    """The op behind `nn.depthwise_conv2d`. TF: nn.depthwise_conv2d_native.
    Dtypes, shapes, errors: as op DepthwiseConv2dNative."""
    padding, explicit = explicit_padding(padding, data_format)
    return DepthwiseConv2dNative(input, filter, strides=list(strides), padding=padding,
                                 explicit_paddings=explicit, data_format=data_format,
                                 dilations=list(dilations), name=name)


def depthwise_conv2d_backprop_input(input_sizes, filter, out_backprop, strides, padding,
                                    data_format="NHWC", dilations=(1, 1, 1, 1), name=None):
    """Gradient of a depthwise convolution with respect to its input.
    TF: nn.depthwise_conv2d_backprop_input.
    Dtypes, shapes, errors: as op DepthwiseConv2dNativeBackpropInput."""
    padding, explicit = explicit_padding(padding, data_format)
    return DepthwiseConv2dNativeBackpropInput(
        input_sizes, filter, out_backprop, strides=list(strides), padding=padding,
        explicit_paddings=explicit, data_format=data_format, dilations=list(dilations), name=name)


def depthwise_conv2d_backprop_filter(input, filter_sizes, out_backprop, strides, padding,
                                     data_format="NHWC", dilations=(1, 1, 1, 1), name=None):
    """Gradient of a depthwise convolution with respect to its filter.
    TF: nn.depthwise_conv2d_backprop_filter.
    Dtypes, shapes, errors: as op DepthwiseConv2dNativeBackpropFilter."""
    padding, explicit = explicit_padding(padding, data_format)
    return DepthwiseConv2dNativeBackpropFilter(
        input, filter_sizes, out_backprop, strides=list(strides), padding=padding,
        explicit_paddings=explicit, data_format=data_format, dilations=list(dilations), name=name)


def separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, rate=None,
                     name=None,
                     data_format=None, dilations=None):
    """A depthwise convolution, then a 1x1 one across channels. TF: nn.separable_conv2d.
    input: floats [batch, h, w, in]; depthwise_filter: [fh, fw, in, m]; pointwise_filter: [1, 1,
    in * m, out]. TypeError for other dtypes, ValueError for shapes that do not fit."""
    with graph.name_scope(name, "separable_conv2d",
                          [input, depthwise_filter, pointwise_filter]) as scope:
        depth = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, "depthwise",
                                 data_format, dilations)
        return conv2d(depth, pointwise_filter, [1, 1, 1, 1], "VALID",
                      data_format=data_format or "NHWC",
                      name=scope)


def atrous_conv2d(value, filters, rate, padding, name=None):
    """Convolution with holes: dilation `rate` in both dimensions. TF: nn.atrous_conv2d.
    value: floats [batch, h, w, in]; filters: [fh, fw, in, out]. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    from pyflow.ops.conv_functions import convolution
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


def conv1d(value=None, filters=None, stride=None, padding=None, use_cudnn_on_gpu=None,
           data_format=None,
           name=None, input=None, dilations=None):
    """Convolution of sequences [batch, width, channels] with [width, in, out]. TF: nn.conv1d.
    value: floats [batch, width, in]; filters: [fw, in, out]. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    from pyflow.ops import array_ops
    from pyflow.ops.reduction_ops import one_of
    value = one_of(value, input, "value", "input")
    with graph.name_scope(name, "conv1d", [value, filters]):
        planes = data_format in ("NCW", "NCHW")
        axis, layout = (2, "NCHW") if planes else (1, "NHWC")
        step = stride[-1 if planes else -2] if isinstance(stride,
                                                          (list, tuple)) and len(stride) > 1 else \
            stride[0] if isinstance(stride, (list, tuple)) else stride
        rate = dilations[0] if isinstance(dilations, (list, tuple)) else dilations or 1
        result = conv2d(array_ops.expand_dims(value, axis), array_ops.expand_dims(filters, 0),
                        four_entries([1, step], layout, "stride"), padding, data_format=layout,
                        dilations=four_entries([1, rate], layout, "dilations"))
        return array_ops.squeeze(result, [axis])


PUBLIC = {
    "nn.conv2d": conv2d, "nn.conv2d_backprop_input": conv2d_backprop_input,
    "nn.conv2d_backprop_filter": conv2d_backprop_filter, "nn.conv2d_transpose": conv2d_transpose,
    "nn.deconv2d": conv2d_transpose, "nn.depthwise_conv2d": depthwise_conv2d,
    "nn.depthwise_conv2d_native": depthwise_conv2d_native, "nn.separable_conv2d": separable_conv2d,
    "nn.atrous_conv2d": atrous_conv2d, "nn.conv1d": conv1d,
    "nn.depthwise_conv2d_backprop_input": depthwise_conv2d_backprop_input,
    "nn.depthwise_conv2d_native_backprop_input": depthwise_conv2d_backprop_input,
    "nn.depthwise_conv2d_backprop_filter": depthwise_conv2d_backprop_filter,
    "nn.depthwise_conv2d_native_backprop_filter": depthwise_conv2d_backprop_filter,
}
