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
from pyflow.ops.conv.conv3d_ops import conv3d, conv3d_transpose, five_entries
from pyflow.ops.conv.conv_ops import conv1d, conv2d, conv2d_transpose, four_entries
from pyflow.ops.reduce.reduction_ops import one_of


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
    filter: [*window, in, out]; float16, bfloat16, float32 or float64. strides, dilation_rate: an
    int per spatial dimension. Raises ValueError if both are above 1, as TF does.
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


def over_blocks(input, rates, padding, window, planes, convolve, name):
    """`convolve(x, padding, rates, name)` on blocks of the dilation where its sizes are known."""
    rank = len(rates)
    sizes = input.shape[2:] if planes else input.shape[1:-1]
    known = input.shape.ndims and sizes.is_fully_defined() and window.is_fully_defined()
    if max(rates) == 1 or not known or padding not in ("SAME", "VALID"):
        return convolve(input, padding, rates, name)
    return with_space_to_batch(
        input, rates, padding, lambda x, _, padding: convolve(x, padding, [1] * rank, None),
        window.as_list(), data_format="NC" if planes else None)


# -------------------------------------------------------------------------------------- transposed
def conv1d_transpose(input, filters, output_shape, strides, padding="SAME", data_format="NWC",
                     dilations=None, name=None):
    """Gradient of a convolution of sequences as an op of its own. TF: nn.conv1d_transpose.

    input: [batch, width, in], or [batch, in, width] for NCW; filters: [width, out, in];
    output_shape: the three sizes of the result, ints or a tensor. strides, dilations: an int, or a
    list of 1 or 3.
    Dtypes, errors: as op Conv2DBackpropInput.
    """
    from pyflow.ops.move import array_ops, join_ops
    planes = data_format in ("NCW", "NCHW")
    axis, layout = (2, "NCHW") if planes else (1, "NHWC")
    with graph.name_scope(name, "conv1d_transpose", [input, filters, output_shape]) as scope:
        shape = graph.convert_to_tensor(output_shape)
        shape = join_ops.concat([shape[:axis], [1], shape[axis:]], 0)
        result = conv2d_transpose(
            array_ops.expand_dims(input, axis), array_ops.expand_dims(filters, 0), shape,
            _row_entries(strides, planes), padding, layout,
            dilations=_row_entries(dilations, planes))
        return array_ops.squeeze(result, [axis], name=scope)


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

    value: [batch, height, width, in]; filters: [height, width, out, in]; output_shape: four sizes.
    Dtypes, errors: as op Conv2DBackpropInput.
    """
    if padding not in ("SAME", "VALID"):
        raise ValueError(f"padding must be SAME or VALID, got {padding!r}")
    if rate < 1:
        raise ValueError(f"rate must be positive, got {rate}")
    return conv2d_transpose(value, filters, output_shape, [1, 1, 1, 1], padding,
                            dilations=[1, rate, rate, 1], name=name or "atrous_conv2d_transpose")


# --------------------------------------------------------------------------- space in the batch
def with_space_to_batch(input, dilation_rate, padding, op, filter_shape=None, spatial_dims=None,
                        data_format=None):
    """`op(blocks, num_spatial_dims, padding)` on every phase of a dilation, then put together.
    TF: nn.with_space_to_batch.

    dilation_rate: int32 vector, known while the graph is built; padding: SAME (needs the static
    filter_shape) or VALID. With rates of 1 `op` gets the input as it is.
    Dtypes: any that `op` takes. Raises ValueError where a rate is not known.
    """
    from pyflow.ops.base import common
    from pyflow.ops.move import pad_ops
    input = graph.convert_to_tensor(input)
    rates = common.static(graph.convert_to_tensor(dilation_rate))
    if rates is None or rates.ndim != 1 or (rates < 1).any():
        raise ValueError(f"dilation_rate must be a known vector of positive ints, got {rates}")
    rank = len(rates)
    first = 2 if (data_format or "").startswith("NC") else 1
    dims = list(spatial_dims) if spatial_dims is not None else list(range(first, first + rank))
    if len(dims) != rank or min(dims) < 1 or sorted(set(dims)) != dims:
        raise ValueError(f"spatial_dims must be {rank} positive ascending dimensions, got {dims}")
    if (rates == 1).all():
        return op(input, rank, padding)
    block, base = [1] * dims[-1], [[0, 0] for _ in range(dims[-1])]
    for i, dim in enumerate(dims):
        block[dim - 1] = int(rates[i])
        if padding == "SAME":
            reach = (_window(filter_shape, i) - 1) * int(rates[i])
            base[dim - 1] = [reach // 2, reach - reach // 2]
    sizes = [_size(input, d) for d in range(1, dims[-1] + 1)]
    fill = [-(n + sum(b)) % k for n, b, k in zip(sizes, base, block)]
    paddings = _pairs([b[0], b[1] + more] for b, more in zip(base, fill))
    crops = _pairs([0, more] for more in fill)
    blocks = pad_ops.SpaceToBatchND(input, block, paddings)
    return pad_ops.BatchToSpaceND(op(blocks, rank, "VALID"), block, crops)


def _size(x, dim):
    """The size of a dimension: an int where it is known, else a scalar tensor."""
    from pyflow.ops.move import array_ops
    known = x.shape[dim].value if x.shape.ndims else None
    return array_ops.shape(x)[dim] if known is None else known


def _pairs(rows):
    """Pairs of ints and scalar tensors as a matrix."""
    from pyflow.ops.move import join_ops
    rows = list(rows)
    if any(isinstance(v, graph.Tensor) for row in rows for v in row):
        return join_ops.stack([join_ops.stack(row) for row in rows])
    return rows


def _window(filter_shape, i):
    from pyflow.ops.base import common
    shape = None if filter_shape is None else common.static(graph.convert_to_tensor(filter_shape))
    if shape is None:
        raise ValueError("with_space_to_batch: SAME padding needs a known filter_shape")
    return int(shape[i])


PUBLIC = {
    "nn.convolution": convolution, "nn.conv1d_transpose": conv1d_transpose,
    "nn.conv_transpose": conv_transpose, "nn.atrous_conv2d_transpose": atrous_conv2d_transpose,
    "nn.with_space_to_batch": with_space_to_batch,
}
