"""Pooling layers over one, two and three spatial dimensions.

No variables; layers exist for what is written with them.  Thread: the one building the graph.
Source: TF 1.15 tf.layers.

Example:  `tf.layers.max_pooling2d(images, pool_size=2, strides=2)`.
"""
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.layers import base
from pyflow.lib.layers.convolutional import checked_padding, n_sizes, output_length
from pyflow.lib.layers.core import checked_data_format
from pyflow.lib.nn import pool2d_functions, pool3d_functions
from pyflow.ops.base import tensors

_FORMATS = {2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
_POOLS = {("max", 2): pool2d_functions.max_pool, ("average", 2): pool2d_functions.avg_pool,
          ("max", 3): pool3d_functions.max_pool3d, ("average", 3): pool3d_functions.avg_pool3d}


class _Pooling(base.Layer):
    """What the six layers share: `kind` and `rank` are theirs."""

    kind, rank = "max", 2

    def __init__(self, pool_size, strides, padding="valid", data_format="channels_last", name=None,
                 **kwargs):
        super().__init__(name=name, **kwargs)
        self.pool_size = n_sizes(pool_size, self.rank, "pool_size")
        self.strides = n_sizes(pool_size if strides is None else strides, self.rank, "strides")
        self.padding = checked_padding(padding)
        self.data_format = checked_data_format(data_format)
        self.input_spec = base.InputSpec(ndim=self.rank + 2)

    def call(self, inputs):
        """inputs: floats of rank + 2 dimensions, channels last or second."""
        first = self.data_format == "channels_first"
        sizes, strides, axis = self.pool_size, self.strides, 3 if first else 2
        if self.rank == 1:                      # rows of an image of one column
            inputs = tensors.expand_dims(inputs, axis)
            sizes, strides = (*sizes, 1), (*strides, 1)
        rank = len(sizes)
        outputs = _POOLS[self.kind, rank](
            inputs, _around(sizes, first), _around(strides, first), self.padding.upper(),
            data_format=_FORMATS[rank][first])
        return tensors.squeeze(outputs, [axis]) if self.rank == 1 else outputs

    def compute_output_shape(self, input_shape):
        """The shape of the result."""
        shape = TensorShape(input_shape).with_rank(self.rank + 2).as_list()
        begin = 2 if self.data_format == "channels_first" else 1
        for i in range(self.rank):
            shape[begin + i] = output_length(shape[begin + i], self.pool_size[i], self.padding,
                                             self.strides[i])
        return TensorShape(shape)


def _around(sizes, channels_first):
    return [1, 1, *sizes] if channels_first else [1, *sizes, 1]


def _made(kind, rank):
    """(layer class, function) of one kind and number of spatial dimensions."""
    label = f"{kind}_pooling{rank}d"
    what = "maximum" if kind == "max" else "mean"
    shapes = {1: "[batch, width, channels]", 2: "[batch, height, width, channels]",
              3: "[batch, depth, height, width, channels]"}[rank]

    class Pooling(_Pooling):
        pass

    Pooling.kind, Pooling.rank = kind, rank
    Pooling.__name__ = Pooling.__qualname__ = f"{kind.capitalize()}Pooling{rank}D"
    Pooling.__module__ = __name__
    Pooling.__doc__ = (
        f"The {what} of each window. pool_size, strides: an int, or {rank}; padding \"valid\" or "
        f"\"same\"; data_format \"channels_last\" or \"channels_first\". Inputs: {shapes}.\n"
        f"    TF: tf.layers.{Pooling.__name__}.")

    def function(inputs, pool_size, strides, padding="valid", data_format="channels_last",
                 name=None):
        return Pooling(pool_size, strides, padding, data_format, name).apply(inputs)

    function.__name__ = function.__qualname__ = label
    function.__doc__ = (
        f"The {what} of each window of `inputs`, floats {shapes}.\n\n"
        f"    pool_size, strides: an int, or {rank}. They and padding \"valid\" or \"same\" are as "
        f"nn.{'max' if kind == 'max' else 'avg'}_pool's.\n    data_format: \"channels_last\" or "
        f"\"channels_first\". ValueError for other ranks.\n    TF: tf.layers.{label}.")
    return Pooling, function


_EXAMPLE = """

        >>> image = tf.reshape(tf.range(16.0), [1, 4, 4, 1])
        >>> tf.Session().run(tf.layers.max_pooling2d(image, 2, 2))[0, :, :, 0]
        array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
MaxPooling1D, max_pooling1d = _made("max", 1)
MaxPooling2D, max_pooling2d = _made("max", 2)
max_pooling2d.__doc__ += _EXAMPLE
MaxPooling3D, max_pooling3d = _made("max", 3)
AveragePooling1D, average_pooling1d = _made("average", 1)
AveragePooling2D, average_pooling2d = _made("average", 2)
AveragePooling3D, average_pooling3d = _made("average", 3)

PUBLIC = {f"layers.{made.__name__}": made for made in (
    MaxPooling1D, max_pooling1d, MaxPooling2D, max_pooling2d, MaxPooling3D, max_pooling3d,
    AveragePooling1D, average_pooling1d, AveragePooling2D, average_pooling2d, AveragePooling3D,
    average_pooling3d)}
