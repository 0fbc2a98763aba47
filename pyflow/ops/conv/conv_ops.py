"""Convolutions in two dimensions, plain and depthwise, and the ops of their gradients.

Invariants
  1. Images are [batch, height, width, channels] (NHWC) or [batch, channels, height, width] (NCHW);
     filters [height, width, in, out], depthwise [height, width, in, multiplier].
  2. Geometry, padding and gradients are those of windows.py.

Cross-correlation as in TF: y[b, i, j, o] = sum x[b, s i + d u, s j + d v, c] w[u, v, c, o].
Example:  `tf.nn.conv2d(images, kernel, strides=[1, 1, 1, 1], padding="SAME")`.
"""
import numpy as np

from pyflow.framework import dtypes
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
