"""Convolutions of images and of sequences: plain, depthwise, separable, dilated, transposed."""
from pyflow.framework import graph
from pyflow.lib.nn.space_to_batch import over_blocks
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of
from pyflow.ops.conv.conv_ops import (Conv2D, Conv2DBackpropFilter, Conv2DBackpropInput,
                                      DepthwiseConv2dNative, DepthwiseConv2dNativeBackpropFilter,
                                      DepthwiseConv2dNativeBackpropInput)


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

    input: floats [batch, height, width, in], or [batch, in, height, width] with data_format "NCHW".
    filter (filters): slides over the image without being flipped; `in` divides the channels, more
    channels are groups. strides: how far a window moves, 4 ints in the input's order, 1 for batch
    and channels; also 1 or 2 ints. padding: "VALID", windows inside the image: (size - filter) //
    stride + 1 of them; "SAME", ceil(size / stride) with zeros around, the odd one behind; or a list
    of [before, after] per dimension. dilations: distance of a filter's elements, as strides.
    use_cudnn_on_gpu: accepted.
    Dtypes, shapes, errors: as op Conv2D.

        >>> image, ones = tf.ones([1, 3, 3, 1]), tf.ones([2, 2, 1, 1])
        >>> tf.Session().run(tf.nn.conv2d(image, ones, [1, 1, 1, 1], "SAME"))[0, :, :, 0]
        array([[4., 4., 2.],
               [4., 4., 2.],
               [2., 2., 1.]], dtype=float32)
    """
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

    input_sizes: the shape of that input, ints or a tensor; filter: the convolution's;
    out_backprop: the gradient of its result. strides, padding, data_format, dilations: the
    convolution's, as nn.conv2d's, four ints each.
    Dtypes, shapes, errors: as op Conv2DBackpropInput."""
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

    input: the convolution's; filter_sizes: the shape of its filter, ints or a tensor;
    out_backprop: the gradient of its result. strides, padding, data_format, dilations: the
    convolution's, as nn.conv2d's, four ints each.
    Dtypes, shapes, errors: as op Conv2DBackpropFilter."""
    padding, explicit = explicit_padding(padding, data_format)
    return Conv2DBackpropFilter(input, filter_sizes, out_backprop, strides=list(strides),
                                padding=padding,
                                use_cudnn_on_gpu=use_cudnn_on_gpu, explicit_paddings=explicit,
                                data_format=data_format, dilations=list(dilations), name=name)


def conv2d_transpose(value=None, filter=None, output_shape=None, strides=None, padding="SAME",
                     data_format="NHWC", name=None, input=None, filters=None, dilations=None):
    """Gradient of a convolution as an op of its own ("deconvolution"). TF: nn.conv2d_transpose.

    value (input): [batch, height, width, in]; filter: [height, width, out, in]; output_shape: the
    shape of the result, ints or a tensor, for one stride fits several. strides: how far the filter
    moves in the result for one step in `value`: 2 makes images twice as large; padding, dilations,
    data_format: of the convolution from the result to `value`; all as nn.conv2d's.
    Dtypes, shapes, errors: as op Conv2DBackpropInput."""
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

    input: [batch, height, width, in], the result has in * multiplier channels. rate (dilations):
    distance of a filter's elements, one or two ints, where strides are 1. strides: four ints; they,
    padding and data_format as nn.conv2d's.
    Dtypes, shapes, errors: as op DepthwiseConv2dNative."""
    data_format = data_format or "NHWC"
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

    strides, dilations: four ints; padding, data_format: as nn.conv2d's.
    Dtypes, shapes, errors: as op DepthwiseConv2dNative."""
    padding, explicit = explicit_padding(padding, data_format)
    return DepthwiseConv2dNative(input, filter, strides=list(strides), padding=padding,
                                 explicit_paddings=explicit, data_format=data_format,
                                 dilations=list(dilations), name=name)


def depthwise_conv2d_backprop_input(input_sizes, filter, out_backprop, strides, padding,
                                    data_format="NHWC", dilations=(1, 1, 1, 1), name=None):
    """Gradient of a depthwise convolution with respect to its input.
    TF: nn.depthwise_conv2d_backprop_input.

    input_sizes: the shape of that input; out_backprop: the gradient of the convolution's result.
    strides, padding, data_format, dilations: the convolution's, as nn.conv2d's, four ints each.
    Dtypes, shapes, errors: as op DepthwiseConv2dNativeBackpropInput."""
    padding, explicit = explicit_padding(padding, data_format)
    return DepthwiseConv2dNativeBackpropInput(
        input_sizes, filter, out_backprop, strides=list(strides), padding=padding,
        explicit_paddings=explicit, data_format=data_format, dilations=list(dilations), name=name)


def depthwise_conv2d_backprop_filter(input, filter_sizes, out_backprop, strides, padding,
                                     data_format="NHWC", dilations=(1, 1, 1, 1), name=None):
    """Gradient of a depthwise convolution with respect to its filter.
    TF: nn.depthwise_conv2d_backprop_filter.

    filter_sizes: the shape of that filter; out_backprop: the gradient of the convolution's result.
    strides, padding, data_format, dilations: the convolution's, as nn.conv2d's, four ints each.
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
    in * m, out]. strides, padding, rate (dilations), data_format: of the depthwise one, as
    nn.depthwise_conv2d's. TypeError for other dtypes, ValueError for shapes that do not fit."""
    with graph.name_scope(name, "separable_conv2d",
                          [input, depthwise_filter, pointwise_filter]) as scope:
        depth = depthwise_conv2d(input, depthwise_filter, strides, padding, rate, "depthwise",
                                 data_format, dilations)
        return conv2d(depth, pointwise_filter, [1, 1, 1, 1], "VALID",
                      data_format=data_format or "NHWC",
                      name=scope)


def conv1d(value=None, filters=None, stride=None, padding=None, use_cudnn_on_gpu=None,
           data_format=None,
           name=None, input=None, dilations=None):
    """Convolution of sequences [batch, width, channels] with [width, in, out]. TF: nn.conv1d.
    value (input): floats [batch, width, in], or [batch, in, width] with data_format "NCW";
    filters: [fw, in, out]. stride, dilations: along the width, an int or a list; padding: "SAME" or
    "VALID", as nn.conv2d's. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    value = one_of(value, input, "value", "input")
    with graph.name_scope(name, "conv1d", [value, filters]):
        planes = data_format in ("NCW", "NCHW")
        axis, layout = (2, "NCHW") if planes else (1, "NHWC")
        step = stride[-1 if planes else -2] if isinstance(stride,
                                                          (list, tuple)) and len(stride) > 1 else \
            stride[0] if isinstance(stride, (list, tuple)) else stride
        rate = dilations[0] if isinstance(dilations, (list, tuple)) else dilations or 1
        result = conv2d(tensors.expand_dims(value, axis), tensors.expand_dims(filters, 0),
                        four_entries([1, step], layout, "stride"), padding, data_format=layout,
                        dilations=four_entries([1, rate], layout, "dilations"))
        return tensors.squeeze(result, [axis])


PUBLIC = {
    "nn.conv2d": conv2d, "nn.conv2d_backprop_input": conv2d_backprop_input,
    "nn.conv2d_backprop_filter": conv2d_backprop_filter, "nn.conv2d_transpose": conv2d_transpose,
    "nn.deconv2d": conv2d_transpose, "nn.depthwise_conv2d": depthwise_conv2d,
    "nn.depthwise_conv2d_native": depthwise_conv2d_native, "nn.separable_conv2d": separable_conv2d,
    "nn.conv1d": conv1d, "nn.depthwise_conv2d_backprop_input": depthwise_conv2d_backprop_input,
    "nn.depthwise_conv2d_native_backprop_input": depthwise_conv2d_backprop_input,
    "nn.depthwise_conv2d_backprop_filter": depthwise_conv2d_backprop_filter,
    "nn.depthwise_conv2d_native_backprop_filter": depthwise_conv2d_backprop_filter,
}
