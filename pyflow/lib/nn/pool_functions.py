"""Pooling functions of tf.nn for any number of spatial dimensions.

Invariants
  1. One dimension is pooled as images of height 1.
  2. A dilated window is pooled phase by phase (with_space_to_batch).
  3. No op is defined here.

Example:  `tf.nn.pool(x, [3], "MAX", "VALID", dilation_rate=[2])`.
"""
from pyflow.framework import graph
from pyflow.lib.nn import pool2d_functions, pool3d_functions
from pyflow.lib.nn.space_to_batch import with_space_to_batch
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of


def _three_entries(values, data_format, what):
    """A window or stride of one dimension as three numbers; three stay as they are."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if len(values) == 1:
        values = [1, 1, *values] if data_format.startswith("NC") else [1, *values, 1]
    if len(values) != 3:
        raise ValueError(f"{what} must have 1 or 3 entries, got {values}")
    return values


def _pool1d(function, label, input, ksize, strides, padding, data_format, name):
    """[batch, width, channels] as images of height 1."""
    data_format = data_format or "NWC"
    with graph.name_scope(name, label, [input]) as scope:
        axis = 2 if data_format.startswith("NC") else 1
        at = 2 if axis == 2 else 1
        sizes = []
        for values, what in ((ksize, "ksize"), (strides, "strides")):
            values = _three_entries(values, data_format, what)
            sizes.append(values[:at] + [1] + values[at:])
        if isinstance(padding, (list, tuple)):
            padding = [*padding[:at], [0, 0], *padding[at:]]
        images = tensors.expand_dims(graph.convert_to_tensor(input), axis)
        pooled = function(images, ksize=sizes[0], strides=sizes[1], padding=padding,
                          data_format="NCHW" if axis == 2 else "NHWC")
        return tensors.squeeze(pooled, [axis], name=scope)


def max_pool1d(input, ksize, strides, padding, data_format="NWC", name=None):
    """Largest of each window of [batch, width, channels]. TF: nn.max_pool1d.

    ksize, strides: one int or three; they and padding as nn.max_pool's. Raises
    ValueError for other numbers of them."""
    return _pool1d(pool2d_functions.max_pool, "MaxPool1d", input, ksize, strides, padding,
                   data_format, name)


def avg_pool1d(input, ksize, strides, padding, data_format="NWC", name=None):
    """Mean of each window of [batch, width, channels]. TF: nn.avg_pool1d.
    ksize, strides, padding, data_format: as nn.max_pool1d's.
    Floats of any width; ValueError for other ranks or windows that do not fit."""
    return _pool1d(pool2d_functions.avg_pool, "AvgPool1D", input, ksize, strides, padding,
                   data_format, name)


KINDS = {("MAX", 1): max_pool1d, ("MAX", 2): pool2d_functions.max_pool,
         ("MAX", 3): pool3d_functions.max_pool3d,
         ("AVG", 1): avg_pool1d, ("AVG", 2): pool2d_functions.avg_pool,
         ("AVG", 3): pool3d_functions.avg_pool3d}
FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


def _by_rank(kind, input, ksize, strides, padding, data_format, name):
    """Pooling over as many dimensions as the input, or else the data format, has."""
    input = graph.convert_to_tensor(input, name="input")
    rank = input.shape.ndims or (len(data_format) if data_format else None)
    if rank is None or not 3 <= rank <= 5:
        raise ValueError(f"the input must have rank 3, 4 or 5, got shape {input.shape}")
    n = rank - 2
    data_format = FORMATS[n][bool(data_format) and data_format.startswith("NC")]
    return KINDS[kind, n](input, ksize=ksize, strides=strides, padding=padding,
                          data_format=data_format, name=name)


def max_pool_v2(input, ksize, strides, padding, data_format=None, name=None):
    """Largest of each window over 1, 2 or 3 spatial dimensions, by the input's rank.
    TF: nn.max_pool_v2.
    ksize, strides, padding: as nn.max_pool's, the first two an int, or one per (spatial) dimension.
    Floats of any width; ValueError for other ranks or windows that do not fit."""
    return _by_rank("MAX", input, ksize, strides, padding, data_format, name)


def avg_pool_v2(input, ksize, strides, padding, data_format=None, name=None):
    """Mean of each window over 1, 2 or 3 spatial dimensions, by the input's rank.
    TF: nn.avg_pool_v2.
    ksize, strides, padding: as nn.avg_pool's, the first two an int, or one per (spatial) dimension.
    Floats of any width; ValueError for other ranks or windows that do not fit."""
    return _by_rank("AVG", input, ksize, strides, padding, data_format, name)


def pool(input, window_shape, pooling_type, padding, dilation_rate=None, strides=None, name=None,
         data_format=None, dilations=None):
    """Pooling over len(window_shape) spatial dimensions, 1 to 3, perhaps with a dilated window.

    pooling_type: "MAX" or "AVG"; dilation_rate, strides: one number per dimension, default 1, not
    both above 1; padding: "SAME" or "VALID", as nn.max_pool's. Raises
    ValueError for other ranks, for SAME padding of a dilated window, and for strides greater than
    the window. TF: nn.pool."""
    rates = one_of(dilation_rate, dilations, "dilation_rate", "dilations")
    window = [int(w) for w in window_shape]
    n = len(window)
    strides = [1] * n if strides is None else [int(s) for s in strides]
    rates = [1] * n if rates is None else [int(r) for r in rates]
    if (pooling_type, n) not in KINDS:
        raise ValueError(f"nn.pool: {n}-D {pooling_type} pooling is not supported; the window has "
                         "1 to 3 dimensions, the type is MAX or AVG")
    if len(strides) != n or len(rates) != n or min(*strides, *rates) < 1:
        raise ValueError(f"nn.pool: strides {strides} and dilation_rate {rates} must be {n} "
                         "positive numbers")
    if max(strides) > 1 and max(rates) > 1:
        raise ValueError("nn.pool: strides > 1 not supported in conjunction with dilation_rate > 1")
    if padding == "SAME" and max(rates) > 1:
        raise ValueError("nn.pool: pooling with SAME padding is not implemented for "
                         f"dilation_rate {rates}")
    if any(s > w for s, w in zip(strides, window)):
        raise ValueError(f"nn.pool: strides {strides} > window_shape {window} not supported")
    with graph.name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        input = graph.convert_to_tensor(input, name="input")
        input.shape.with_rank(n + 2)
        channels_first = bool(data_format) and data_format.startswith("NC")

        first = 2 if channels_first else 1

        def pooled(blocks, _, padding):     # the pooling has the scope's name, as in TensorFlow
            if n > 1:
                return KINDS[pooling_type, n](blocks, ksize=window, strides=strides, name=scope,
                                              padding=padding,
                                              data_format=FORMATS[n][channels_first])
            images = KINDS[pooling_type, 2](
                tensors.expand_dims(blocks, first), ksize=[1, *window], strides=[1, *strides],
                padding=padding, data_format=FORMATS[2][channels_first], name=scope)
            return tensors.squeeze(images, [first])
        return with_space_to_batch(input, rates, padding, pooled, filter_shape=window,
                                   spatial_dims=list(range(first, first + n)))


PUBLIC = {
    "nn.max_pool1d": max_pool1d, "nn.avg_pool1d": avg_pool1d, "nn.max_pool_v2": max_pool_v2,
    "nn.avg_pool_v2": avg_pool_v2, "nn.pool": pool,
}
