"""Convolutions in two dimensions, plain and depthwise, and the ops of their gradients.

Invariants
  1. Images are [batch, height, width, channels] (NHWC) or [batch, channels, height, width] (NCHW);
     filters [height, width, in, out], depthwise [height, width, in, multiplier].
  2. Geometry, padding and gradients are those of windows.py.

Cross-correlation as in TF: y[b, i, j, o] = sum x[b, s i + d u, s j + d v, c] w[u, v, c, o].
Example:  `tf.nn.conv2d(images, kernel, strides=[1, 1, 1, 1], padding="SAME")`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, op
from pyflow.ops.base.windows import (Convolution, backprop_shape, convolution_samples, convolved,
                                     convolved_shape, convolved_to_filter, convolved_to_input,
                                     transposed_shape)

PADDING = 'padding: {"SAME", "VALID", "EXPLICIT"}, explicit_paddings: list(int) = [], '
LAYOUT = 'data_format: {"NHWC", "NCHW"} = "NHWC", dilations: list(int) = [1, 1, 1, 1]'
CONV = "T: type, strides: list(int), use_cudnn_on_gpu: bool = true, " + PADDING + LAYOUT
DEPTHWISE = "T: type, strides: list(int), " + PADDING + LAYOUT
CONVOLVED = FLOATS + (dtypes.int32,)


CONV_NAMES = ("strides", "use_cudnn_on_gpu", "padding", "explicit_paddings", "data_format",
              "dilations")
DEPTH_NAMES = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
PLAIN = Convolution(CONV_NAMES, lambda: (Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter))
DEPTH = Convolution(DEPTH_NAMES, lambda: (
    DepthwiseConv2dNative, DepthwiseConv2dNativeBackpropInput, DepthwiseConv2dNativeBackpropFilter))


# ------------------------------------------------------------------------------------------ oracles
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


TYPES = (dtypes.float32, dtypes.float64, dtypes.float16)


def _samples(part):
    return convolution_samples(part, GEOMETRIES, TYPES)


def _depth_samples(part):
    same = [g for g in GEOMETRIES if g[2]["strides"][1] == g[2]["strides"][2]]
    return convolution_samples(part, same, TYPES, depthwise=True)


# ---------------------------------------------------------------------------------------------- ops
@op("Conv2D", inputs="input: T, filter: T", outputs="output: T", attrs=CONV, T=CONVOLVED)
class Conv2D:
    """Convolution of images with a bank of filters. TF: Conv2D."""
    def shape(op): return convolved_shape(op)
    gradient = PLAIN.gradient

    def reference(input, filter, strides, padding, explicit_paddings, data_format, dilations):
        return convolved(input, filter, data_format, strides=strides, padding=padding,
                         explicit_paddings=explicit_paddings, dilations=dilations)
    samples = _samples("y") + [S(*PLANES[:2], types=FLOATS[2:], **PLANES[2])]


@op("Conv2DBackpropInput", inputs="input_sizes: int32, filter: T, out_backprop: T",
    outputs="output: T", attrs=CONV, T=CONVOLVED)
class Conv2DBackpropInput:
    """Gradient of Conv2D with respect to its input; a transposed convolution.
    TF: Conv2DBackpropInput."""
    def shape(op): return transposed_shape(op)
    gradient = PLAIN.gradient_of_input

    def reference(input_sizes, filter, out_backprop, strides, padding, explicit_paddings,
                  data_format, dilations):
        return convolved_to_input(input_sizes, filter, out_backprop, data_format, strides=strides,
                                  padding=padding, explicit_paddings=explicit_paddings,
                                  dilations=dilations)
    samples = _samples("x")


@op("Conv2DBackpropFilter", inputs="input: T, filter_sizes: int32, out_backprop: T",
    outputs="output: T", attrs=CONV, T=FLOATS)
class Conv2DBackpropFilter:
    """Gradient of Conv2D with respect to its filter. TF: Conv2DBackpropFilter."""
    def shape(op): return backprop_shape(op, 1)
    gradient = PLAIN.gradient_of_filter

    def reference(input, filter_sizes, out_backprop, strides, padding, explicit_paddings,
                  data_format, dilations):
        return convolved_to_filter(input, filter_sizes, out_backprop, data_format, strides=strides,
                                   padding=padding, explicit_paddings=explicit_paddings,
                                   dilations=dilations)
    samples = _samples("w")


@op("DepthwiseConv2dNative", inputs="input: T, filter: T", outputs="output: T", attrs=DEPTHWISE,
    T=FLOATS)
class DepthwiseConv2dNative:
    """Each channel convolved with its own `multiplier` filters. TF: DepthwiseConv2dNative."""
    def shape(op): return convolved_shape(op, depthwise=True)
    gradient = DEPTH.gradient

    def reference(input, filter, strides, padding, explicit_paddings, data_format, dilations):
        return convolved(input, filter, data_format, _depth_forward,
                         filter.shape[2] * filter.shape[3], strides=strides, padding=padding,
                         explicit_paddings=explicit_paddings, dilations=dilations)
    samples = _depth_samples("y")


@op("DepthwiseConv2dNativeBackpropInput", inputs="input_sizes: int32, filter: T, out_backprop: T",
    outputs="output: T", attrs=DEPTHWISE, T=FLOATS)
class DepthwiseConv2dNativeBackpropInput:
    """Gradient of DepthwiseConv2dNative with respect to its input. TF: the same name."""
    def shape(op): return backprop_shape(op, 0)
    gradient = DEPTH.gradient_of_input

    def reference(input_sizes, filter, out_backprop, strides, padding, explicit_paddings,
                  data_format, dilations):
        return convolved_to_input(input_sizes, filter, out_backprop, data_format, _depth_to_input,
                                  strides=strides, padding=padding,
                                  explicit_paddings=explicit_paddings, dilations=dilations)
    samples = _depth_samples("x")


@op("DepthwiseConv2dNativeBackpropFilter", inputs="input: T, filter_sizes: int32, out_backprop: T",
    outputs="output: T", attrs=DEPTHWISE, T=FLOATS)
class DepthwiseConv2dNativeBackpropFilter:
    """Gradient of DepthwiseConv2dNative with respect to its filter. TF: the same name."""
    def shape(op): return backprop_shape(op, 1)
    gradient = DEPTH.gradient_of_filter

    def reference(input, filter_sizes, out_backprop, strides, padding, explicit_paddings,
                  data_format, dilations):
        return convolved_to_filter(input, filter_sizes, out_backprop, data_format,
                                   _depth_to_filter, strides=strides, padding=padding,
                                   explicit_paddings=explicit_paddings, dilations=dilations)
    samples = _depth_samples("w")


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
    from pyflow.ops.reduce.reduction_ops import one_of
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
    from pyflow.ops.reduce.reduction_ops import one_of
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
    from pyflow.ops.reduce.reduction_ops import one_of
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
    from pyflow.lib.nn.conv_functions import over_blocks
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
    from pyflow.lib.nn.conv_functions import convolution
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


def conv1d(value=None, filters=None, stride=None, padding=None, use_cudnn_on_gpu=None,
           data_format=None,
           name=None, input=None, dilations=None):
    """Convolution of sequences [batch, width, channels] with [width, in, out]. TF: nn.conv1d.
    value: floats [batch, width, in]; filters: [fw, in, out]. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    from pyflow.ops.move import array_ops
    from pyflow.ops.reduce.reduction_ops import one_of
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
