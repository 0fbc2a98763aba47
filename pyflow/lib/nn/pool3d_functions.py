"""tf.nn.max_pool3d and avg_pool3d."""
from pyflow.framework import graph
from pyflow.lib.nn.conv3d_functions import five_entries
from pyflow.ops.pool.pool3d_ops import AvgPool3D, MaxPool3D


def _pooled(block, name, input, ksize, strides, padding, data_format, given_name):
    data_format = data_format or "NDHWC"
    with graph.name_scope(given_name, name, [input]) as scope:
        return block(input, ksize=five_entries(ksize, data_format, "ksize"), padding=padding,
                     strides=five_entries(strides, data_format, "strides"),
                     data_format=data_format, name=scope)


def max_pool3d(input, ksize, strides, padding, data_format="NDHWC", name=None):
    """Largest of each window of volumes [batch, depth, height, width, channels].
    TF: nn.max_pool3d.

    ksize, strides: one int, three, or five; they and padding as nn.max_pool's. Raises
    ValueError for other ranks."""
    return _pooled(MaxPool3D, "MaxPool3D", input, ksize, strides, padding, data_format, name)


def avg_pool3d(input, ksize, strides, padding, data_format="NDHWC", name=None):
    """Mean of each window of volumes [batch, depth, height, width, channels].
    TF: nn.avg_pool3d. ksize, strides, padding, data_format: as nn.max_pool3d's.
    Dtypes, shapes, errors: as op AvgPool3D."""
    return _pooled(AvgPool3D, "AvgPool3D", input, ksize, strides, padding, data_format, name)


PUBLIC = {"nn.max_pool3d": max_pool3d, "nn.avg_pool3d": avg_pool3d}
