"""tf.nn.conv3d, transposed and by its filters."""
from pyflow.framework import graph
from pyflow.ops.base.common import one_of
from pyflow.ops.conv.conv3d_ops import Conv3D, Conv3DBackpropFilterV2, Conv3DBackpropInputV2


def five_entries(values, data_format, what):
    """A size per spatial dimension, or one for all, as five; `values` of five as they are."""
    values = [1] if values is None else values
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(values) == 1:
        values = values * 3
    if len(values) == 3:
        values = [1, 1, *values] if data_format == "NCDHW" else [1, *values, 1]
    if len(values) != 5:
        raise ValueError(f"{what} must have 1, 3 or 5 entries, got {values}")
    return [int(v) for v in values]


def conv3d(input, filter=None, strides=None, padding=None, data_format="NDHWC",
           dilations=(1, 1, 1, 1, 1), name=None, filters=None):
    """Convolution of volumes with filters [depth, height, width, in, out]. TF: nn.conv3d.

    input: [batch, depth, height, width, in], or channels second for NCDHW; float16, bfloat16,
    float32 or float64. strides, dilations: five ints in the input's order; they and padding as
    nn.conv2d's. Raises ValueError for other ranks.
    """
    return Conv3D(input, one_of(filter, filters, "filter", "filters"), strides=list(strides),
                  padding=padding, data_format=data_format, dilations=list(dilations), name=name)


def conv3d_backprop_filter(input, filter_sizes, out_backprop, strides, padding,
                           data_format="NDHWC", dilations=(1, 1, 1, 1, 1), name=None):
    """Gradient of a convolution of volumes with respect to its filter.
    TF: nn.conv3d_backprop_filter_v2.

    filter_sizes: the shape of that filter; out_backprop: the gradient of the convolution's result.
    strides, padding, data_format, dilations: the convolution's, as nn.conv3d's.
    Dtypes, shapes, errors: as op Conv3DBackpropFilterV2."""
    return Conv3DBackpropFilterV2(input, filter_sizes, out_backprop, strides=list(strides),
                                  padding=padding, data_format=data_format,
                                  dilations=list(dilations), name=name)


def conv3d_transpose(value, filter=None, output_shape=None, strides=None, padding="SAME",
                     data_format="NDHWC", name=None, input=None, filters=None, dilations=None):
    """Gradient of a convolution of volumes as an op of its own. TF: nn.conv3d_transpose.

    filter: [depth, height, width, out, in]; output_shape: the result's, ints or a tensor.
    strides, dilations: an int, three or five; they and padding as nn.conv2d_transpose's.
    Dtypes, errors: as op Conv3DBackpropInputV2.
    """
    value, filter = one_of(value, input, "value", "input"), one_of(filter, filters, "filter",
                                                                   "filters")
    with graph.name_scope(name, "conv3d_transpose", [value, filter, output_shape]) as scope:
        return Conv3DBackpropInputV2(output_shape, filter, value,
                                     strides=five_entries(strides, data_format, "strides"),
                                     padding=padding, data_format=data_format,
                                     dilations=five_entries(dilations, data_format, "dilations"),
                                     name=scope)


PUBLIC = {
    "nn.conv3d": conv3d, "nn.conv3d_transpose": conv3d_transpose,
    "nn.conv3d_backprop_filter": conv3d_backprop_filter,
    "nn.conv3d_backprop_filter_v2": conv3d_backprop_filter,
}
