"""Convolutions of any of one, two or three spatial dimensions, plain and transposed, and
functions of a batch in place of a dilation.

Invariants
  1. The number of spatial dimensions follows from the static rank of the input or filter.
  2. A dilation becomes space_to_batch around a plain convolution, as in TF, so that TF's CPU runs
     the graph and its gradients; where sizes are not known, an attribute of the convolution op.

Functions only; they call the ops of conv_ops and conv3d_ops.
Example:  `tf.nn.convolution(x, kernel, "SAME", dilation_rate=[2, 2])`.
"""
from pyflow.framework import graph
from pyflow.lib.nn.conv2d_functions import conv1d, conv2d, conv2d_transpose, four_entries
from pyflow.lib.nn.conv3d_functions import conv3d, conv3d_transpose, five_entries
from pyflow.lib.nn.space_to_batch import over_blocks
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of


def _spatial_rank(filter, input):
    """1, 2 or 3; ValueError for others or where neither rank is known."""
    for tensor in (filter, input):
        if tensor.shape.ndims is not None:
            rank = tensor.shape.ndims - 2
            if not 1 <= rank <= 3:
                raise ValueError(f"convolution: 1, 2 or 3 spatial dimensions are supported, the "
                                 f"shape {tensor.shape} has {rank}")
            return rank
    raise ValueError("convolution: the rank of the input or of the filter must be known")


def _per_dimension(values, rank, what):
    """`values` as one int per spatial dimension."""
    if values is None:
        return [1] * rank
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(values) == 1:
        values = values * rank
    if len(values) != rank:
        raise ValueError(f"{what} must have one entry or one for each of the {rank} spatial "
                         f"dimensions, got {values}")
    if min(values) < 1:
        raise ValueError(f"all entries of {what} must be positive, got {values}")
    return values


def convolution(input, filter, padding, strides=None, dilation_rate=None, name=None,
                data_format=None, filters=None, dilations=None):
    """Convolution over 1, 2 or 3 spatial dimensions, with strides or dilations per dimension.
    TF: nn.convolution.

    input: [batch, *spatial, in], or [batch, in, *spatial] where data_format begins with "NC";
    filter: [*window, in, out]; float16, bfloat16, float32 or float64. strides, dilation_rate
    (dilations): an int per spatial dimension; padding: "SAME" or "VALID"; all as nn.conv2d's.
    Raises ValueError if both are above 1, as TF does.
    """
    filter = one_of(filter, filters, "filter", "filters")
    rates = one_of(dilations, dilation_rate, "dilations", "dilation_rate")
    with graph.name_scope(name, "convolution", [input, filter]) as scope:
        input, filter = graph.convert_to_tensor(input), graph.convert_to_tensor(filter)
        rank = _spatial_rank(filter, input)
        strides = _per_dimension(strides, rank, "strides")
        rates = _per_dimension(rates, rank, "dilation_rate")
        if max(strides) > 1 and max(rates) > 1:
            raise ValueError(f"strides > 1 ({strides}) do not go with dilation rates > 1 ({rates})")
        planes = (data_format or "").startswith("NC")
        return over_blocks(
            input, rates, padding, filter.shape[:rank], planes,
            lambda *args: _plain(filter, strides, planes, *args), scope)


def _plain(filter, strides, planes, input, padding, rates, name):
    """The convolution as one op (one image row for sequences)."""
    if len(strides) == 1:
        return conv1d(input, filter, strides[0], padding, data_format="NCW" if planes else "NWC",
                      dilations=rates[0], name=name)
    if len(strides) == 2:
        layout = "NCHW" if planes else "NHWC"
        return conv2d(input, filter, four_entries(strides, layout, "strides"), padding,
                      data_format=layout, dilations=four_entries(rates, layout, "dilations"),
                      name=name)
    layout = "NCDHW" if planes else "NDHWC"
    return conv3d(input, filter, five_entries(strides, layout, "strides"), padding,
                  data_format=layout, dilations=five_entries(rates, layout, "dilations"), name=name)


# -------------------------------------------------------------------------------------- transposed
def conv1d_transpose(input, filters, output_shape, strides, padding="SAME", data_format="NWC",
                     dilations=None, name=None):
    """Gradient of a convolution of sequences as an op of its own. TF: nn.conv1d_transpose.

    input: [batch, width, in], or [batch, in, width] for NCW; filters: [width, out, in];
    output_shape: the three sizes of the result, ints or a tensor. strides, dilations: an int, or a
    list of 1 or 3; they and padding as nn.conv2d_transpose's.
    Dtypes, errors: as op Conv2DBackpropInput.
    """
    planes = data_format in ("NCW", "NCHW")
    axis, layout = (2, "NCHW") if planes else (1, "NHWC")
    with graph.name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        shape = graph.convert_to_tensor(output_shape)
        shape = tensors.concat([shape[:axis], [1], shape[axis:]], 0)
        result = conv2d_transpose(
            tensors.expand_dims(input, axis), tensors.expand_dims(filters, 0), shape,
            _row_entries(strides, planes), padding, layout,
            dilations=_row_entries(dilations, planes))
        return tensors.squeeze(result, [axis], name=scope)


def _row_entries(values, planes):
    """A size along a sequence as the four of an image of one row."""
    values = [1] if values is None else values
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(values) == 3:
        values = [values[2 if planes else 1]]
    if len(values) != 1:
        raise ValueError(f"strides and dilations of a sequence need 1 or 3 entries, got {values}")
    return [1, 1, 1, values[0]] if planes else [1, 1, values[0], 1]


def conv_transpose(input, filters, output_shape, strides, padding="SAME", data_format=None,
                   dilations=None, name=None):
    """Gradient of a convolution over 1, 2 or 3 spatial dimensions. TF: nn.conv_transpose.

    input: [batch, *spatial, in]; filters: [*window, out, in]; output_shape: the result's.
    strides, dilations: an int or one per spatial dimension; they and padding as
    nn.conv2d_transpose's.
    Dtypes: float16, bfloat16, float32, float64. Raises ValueError for other ranks.
    """
    with graph.name_scope(name, "conv_transpose", [input, filters, output_shape]) as scope:
        input, filters = graph.convert_to_tensor(input), graph.convert_to_tensor(filters)
        rank = _spatial_rank(filters, input)
        planes = (data_format or "").startswith("NC")
        layout = ("NCW NCHW NCDHW" if planes else "NWC NHWC NDHWC").split()[rank - 1]
        function = (conv1d_transpose, conv2d_transpose, conv3d_transpose)[rank - 1]
        return function(input, filters, output_shape, strides, padding=padding, data_format=layout,
                        dilations=dilations, name=scope)


def atrous_conv2d_transpose(value, filters, output_shape, rate, padding, name=None):
    """Transposed convolution with holes: dilation `rate` in both dimensions.
    TF: nn.atrous_conv2d_transpose.

    value: [batch, height, width, in]; filters: [height, width, out, in]; output_shape: four sizes;
    padding: "SAME" or "VALID", of the convolution from the result to `value`, as nn.conv2d's.
    Dtypes, errors: as op Conv2DBackpropInput.
    """
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding must be SAME or VALID, got {padding!r}")
    if rate < 1:
        raise ValueError(f"rate must be positive, got {rate}")
    return conv2d_transpose(value, filters, output_shape, [1, 1, 1, 1], padding,
                            dilations=[1, rate, rate, 1], name=name or "atrous_conv2d_transpose")


def atrous_conv2d(value, filters, rate, padding, name=None):
    """Convolution with holes: dilation `rate` in both dimensions. TF: nn.atrous_conv2d.
    value: floats [batch, h, w, in]; filters: [fh, fw, in, out]; padding: "SAME" or
    "VALID", as nn.conv2d's. TypeError for other dtypes, ValueError for shapes that do not fit."""
    return convolution(value, filters, padding, dilation_rate=[rate, rate], name=name)


PUBLIC = {
    "nn.atrous_conv2d": atrous_conv2d, "nn.convolution": convolution,
    "nn.conv1d_transpose": conv1d_transpose, "nn.conv_transpose": conv_transpose,
    "nn.atrous_conv2d_transpose": atrous_conv2d_transpose,
}
