"""Pooling over images, and local response normalisation."""
from pyflow.framework import dtypes, graph
from pyflow.lib.math import reductions
from pyflow.lib.nn.conv2d_functions import explicit_padding, four_entries
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of
from pyflow.ops.norm.lrn_ops import LRN
from pyflow.ops.pool.pool_ops import AvgPool, MaxPool, MaxPoolWithArgmax


def max_pool_with_argmax(input, ksize, strides, padding, data_format="NHWC", Targmax=None,
                         name=None, output_dtype=None, include_batch_in_index=False):
    """Maxima of windows and their flat indices. TF: nn.max_pool_with_argmax.

    input: [batch, height, width, channels]; ksize, strides: four ints; padding: "SAME" or "VALID",
    all as nn.max_pool's. The indices are ((y * width) + x) * channels + c of each maximum, with
    include_batch_in_index in the whole batch, as Targmax (output_dtype).
    Dtypes, shapes, errors: as op MaxPoolWithArgmax."""
    if data_format != "NHWC":
        raise ValueError(f"nn.max_pool_with_argmax: data_format must be NHWC, got {data_format!r}")
    return MaxPoolWithArgmax(input, ksize=list(ksize), strides=list(strides), padding=padding,
                             Targmax=output_dtype or Targmax or dtypes.int64, name=name,
                             include_batch_in_index=include_batch_in_index)


def _max_over_channels(x, ksize, strides, scope):
    """The largest of each group of ksize[3] channels, [batch, height, width, channels / ksize[3]];
    what TensorFlow's MaxPool does of such windows."""
    group = ksize[-1]
    if ksize[:3] != [1, 1, 1] or strides != ksize:
        raise ValueError("max_pool: windows over channels must be 1 in the other dimensions and "
                         f"as wide as their strides, got ksize {ksize} and strides {strides}")
    channels = x.shape.with_rank(4)[-1].value
    if channels is not None and channels % group:
        raise ValueError(f"max_pool: {channels} channels are not a multiple of {group}, the "
                         "window's")
    rest, front = [None if channels is None else channels // group], tensors.shape(x)[:3]
    shape = tensors.concat([front, [-1, group]], 0)
    grouped = tensors.reshape(x, shape)
    result = reductions.reduce_max(grouped, axis=4, name=scope)
    result.set_shape(x.shape.with_rank(4).as_list()[:3] + rest)
    return result


def max_pool(value=None, ksize=None, strides=None, padding=None, data_format="NHWC", name=None,
             input=None):
    """Largest of each window of images [batch, height, width, channels]. TF: nn.max_pool.

    value (input): numbers, [batch, channels, height, width] with data_format "NCHW". ksize,
    strides: size of a window and how far it moves, 4 ints in the input's order. padding: "VALID",
    windows inside the image; "SAME", ceil(size / stride) windows, what lies outside does not count.
    Windows over channels are as wide as their stride, divide the channels and are 1 in space
    (ValueError otherwise).
    Dtypes, shapes, errors: as op MaxPool.

        >>> image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
        >>> tf.Session().run(tf.nn.max_pool(image, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"))[0, :, :, 0]
        array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    value = one_of(value, input, "value", "input")
    data_format = data_format or "NHWC"
    padding, explicit = explicit_padding(padding, data_format)
    with graph.name_scope(name, "MaxPool", [value]) as scope:
        ksize = four_entries(ksize, data_format, "ksize")
        strides = four_entries(strides, data_format, "strides")
        if ksize[-1] != 1 and data_format == "NHWC":
            return _max_over_channels(graph.convert_to_tensor(value), ksize, strides, scope)
        return MaxPool(value, ksize=ksize, padding=padding, strides=strides,
                       explicit_paddings=explicit,
                       data_format=data_format, name=scope)


def max_pool2d(input, ksize, strides, padding, data_format="NHWC", name=None):
    """Largest of each window of images. TF: nn.max_pool2d.
    ksize, strides, padding, data_format: as nn.max_pool's.
    Dtypes, shapes, errors: as op MaxPool."""
    return max_pool(input, ksize, strides, padding, data_format, name)


def avg_pool(value=None, ksize=None, strides=None, padding=None, data_format="NHWC", name=None,
             input=None):
    """Mean of each window of images [batch, height, width, channels]. TF: nn.avg_pool.

    value (input): floats. ksize, strides, padding, data_format: as nn.max_pool's, but padding is no
    list; at the border the mean is of what lies inside.
    Dtypes, shapes, errors: as op AvgPool."""
    value = one_of(value, input, "value", "input")
    data_format = data_format or "NHWC"
    with graph.name_scope(name, "AvgPool", [value]) as scope:
        return AvgPool(value, ksize=four_entries(ksize, data_format, "ksize"), padding=padding,
                       strides=four_entries(strides, data_format, "strides"),
                       data_format=data_format, name=scope)


def local_response_normalization(input, depth_radius=5, bias=1.0, alpha=1.0, beta=0.5, name=None):
    """Normalisation across neighbouring channels. TF: nn.local_response_normalization.
    Dtypes, shapes, errors: as op LRN."""
    return LRN(input, depth_radius=depth_radius, bias=bias, alpha=alpha, beta=beta, name=name)


PUBLIC = {
    "nn.max_pool_with_argmax": max_pool_with_argmax, "nn.max_pool": max_pool,
    "nn.max_pool2d": max_pool2d, "nn.avg_pool": avg_pool, "nn.avg_pool2d": avg_pool,
    "nn.local_response_normalization": local_response_normalization,
    "nn.lrn": local_response_normalization,
}
