"""Convolution layers: plain, separable and transposed.

Invariants
  1. Kernels are [*window, in, out]; transposed ones [*window, out, in]; depthwise ones [*window,
     in, multiplier]; their names are TF's: kernel, bias, depthwise_kernel, pointwise_kernel.
  2. Padding "same" makes ceil(size / stride) results, "valid" those of windows that lie inside.

Thread: the one building the graph.  Source: TF 1.15 tf.layers.

Example:  `tf.layers.conv2d(images, 32, 5, padding="same", activation=tf.nn.relu)`.
"""
from pyflow.framework import graph as ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.layers import base
from pyflow.lib.layers.core import checked_data_format
from pyflow.lib.nn import conv2d_functions, conv3d_functions, conv_functions, norm_functions
from pyflow.lib.variables.initializers import zeros_initializer
from pyflow.ops.base import tensors

_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


# ------------------------------------------------------------------------------------------- sizes
def n_sizes(value, n, what):
    """`value`, an int or n of them, as a tuple of n. ValueError for others."""
    if isinstance(value, int):
        return (value,) * n
    try:
        sizes = tuple(int(size) for size in value)
    except (TypeError, ValueError):
        sizes = ()
    if len(sizes) != n:
        raise ValueError(f"The `{what}` argument must be a tuple of {n} integers. Received: "
                         f"{value}")
    return sizes


def checked_padding(padding):
    """"valid" or "same", in lower case. ValueError for others."""
    low = str(padding).lower()
    if low not in ("valid", "same"):
        raise ValueError('The `padding` argument must be one of "valid", "same". '
                         f"Received: {padding}")
    return low


def output_length(length, window, padding, stride, rate=1):
    """How many windows there are; None where the length is not known."""
    if length is None:
        return None
    if padding == "valid":
        length = length - (window - 1) * rate
    return -(-length // stride)


def transposed_length(length, window, padding, stride):
    """What a transposed convolution makes of `length`, an int or a scalar tensor."""
    if length is None:
        return None
    length = length * stride
    return length + max(window - stride, 0) if padding == "valid" else length


# --------------------------------------------------------------------------------------- the layers
class _Conv(base.Layer):
    """A convolution over `rank` spatial dimensions; what the layers below share."""

    rank = 2

    def __init__(self, filters, kernel_size, strides=1, padding="valid",
                 data_format="channels_last", dilation_rate=1, activation=None, use_bias=True,
                 kernel_initializer=None, bias_initializer=zeros_initializer(),
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, bias_constraint=None, trainable=True, name=None,
                 **kwargs):
        super().__init__(trainable=trainable, name=name,
                         activity_regularizer=activity_regularizer, **kwargs)
        n = self.rank
        self.filters = filters
        self.kernel_size = n_sizes(kernel_size, n, "kernel_size")
        self.strides = n_sizes(strides, n, "strides")
        self.dilation_rate = n_sizes(dilation_rate, n, "dilation_rate")
        self.padding = checked_padding(padding)
        self.data_format = checked_data_format(data_format)
        self.activation, self.use_bias = activation, use_bias
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.input_spec = base.InputSpec(ndim=n + 2)
        self.kernel = self.bias = None

    @property
    def _channels_first(self):
        return self.data_format == "channels_first"

    @property
    def _format(self):
        return _FORMATS[self.rank][self._channels_first]

    def _input_channels(self, input_shape):
        axis = 1 if self._channels_first else -1
        size = base.channel_size(f"Layer {self.name}", input_shape, axis)
        self.input_spec = base.InputSpec(ndim=self.rank + 2, axes={axis: size})
        return size

    def _add_kernel(self, shape, name="kernel", initializer=None, regularizer=None,
                    constraint=None):
        return self.add_weight(name, shape, initializer=initializer or self.kernel_initializer,
                               regularizer=regularizer or self.kernel_regularizer,
                               constraint=constraint or self.kernel_constraint)

    def _add_bias(self):
        if self.use_bias:
            self.bias = self.add_weight("bias", [self.filters],
                                        initializer=self.bias_initializer,
                                        regularizer=self.bias_regularizer,
                                        constraint=self.bias_constraint)

    def build(self, input_shape):
        """Makes kernel and bias for inputs of that shape."""
        channels = self._input_channels(input_shape)
        self.kernel = self._add_kernel([*self.kernel_size, channels, self.filters])
        self._add_bias()
        self.built = True

    def call(self, inputs):
        """inputs: floats, batch, spatial dimensions and channels as data_format says."""
        label = ("conv1d", "Conv2D", "Conv3D")[self.rank - 1]
        outputs = conv_functions.convolution(
            inputs, self.kernel, self.padding.upper(), self.strides, self.dilation_rate,
            name=label if max(self.dilation_rate) == 1 else None, data_format=self._format)
        return self._finished(outputs)

    def _finished(self, outputs):
        if self.use_bias:
            outputs = self._with_bias(outputs)
        return outputs if self.activation is None else self.activation(outputs)

    def _with_bias(self, outputs):
        if not self._channels_first:
            return norm_functions.bias_add(outputs, self.bias)
        if self.rank == 1:
            return outputs + tensors.reshape(self.bias, [1, self.filters, 1])
        return norm_functions.bias_add(outputs, self.bias, data_format="NCHW")

    def _spatial(self, sizes, length_of):
        begin = 2 if self._channels_first else 1
        made = list(sizes)
        for i in range(self.rank):
            made[begin + i] = length_of(i, sizes[begin + i])
        made[1 if self._channels_first else self.rank + 1] = self.filters
        return made

    def compute_output_shape(self, input_shape):
        """The shape of the result."""
        sizes = TensorShape(input_shape).with_rank(self.rank + 2).as_list()
        return TensorShape(self._spatial(sizes, lambda i, size: output_length(
            size, self.kernel_size[i], self.padding, self.strides[i], self.dilation_rate[i])))


_ZEROS = zeros_initializer()
_CONV_DOC = """Convolution over {n} spatial dimension{s}, plus bias and activation.

    filters: how many outputs a place has. kernel_size, strides, dilation_rate: an int, or {n}; not
    both of the last two above 1. padding: "valid" or "same". data_format: "channels_last" or
    "channels_first". activation: a function, None for none. Variables `kernel` [*kernel_size, in,
    filters] and `bias` [filters]; their initializers, regularizers and constraints as
    tf.get_variable's. ValueError for other ranks or unknown channels. TF: tf.layers.{name}."""


class Conv1D(_Conv):
    __doc__ = _CONV_DOC.format(n=1, s="", name="Conv1D")
    rank = 1


class Conv2D(_Conv):
    __doc__ = _CONV_DOC.format(n=2, s="s", name="Conv2D")

    def __init__(self, filters, kernel_size, strides=(1, 1), padding="valid",
                 data_format="channels_last", dilation_rate=(1, 1), activation=None, use_bias=True,
                 kernel_initializer=None, bias_initializer=_ZEROS, kernel_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None, trainable=True, name=None, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate,
                         activation, use_bias, kernel_initializer, bias_initializer,
                         kernel_regularizer, bias_regularizer, activity_regularizer,
                         kernel_constraint, bias_constraint, trainable, name, **kwargs)


class Conv3D(_Conv):
    __doc__ = _CONV_DOC.format(n=3, s="s", name="Conv3D")
    rank = 3

    def __init__(self, filters, kernel_size, strides=(1, 1, 1), padding="valid",
                 data_format="channels_last", dilation_rate=(1, 1, 1), activation=None,
                 use_bias=True, kernel_initializer=None, bias_initializer=_ZEROS,
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, bias_constraint=None, trainable=True, name=None, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate,
                         activation, use_bias, kernel_initializer, bias_initializer,
                         kernel_regularizer, bias_regularizer, activity_regularizer,
                         kernel_constraint, bias_constraint, trainable, name, **kwargs)


# ---------------------------------------------------------------------------------------- separable
class _SeparableConv(_Conv):
    """A depthwise convolution, then one of windows of one across the channels."""

    def __init__(self, filters, kernel_size, strides=1, padding="valid",
                 data_format="channels_last", dilation_rate=1, depth_multiplier=1, activation=None,
                 use_bias=True, depthwise_initializer=None, pointwise_initializer=None,
                 bias_initializer=zeros_initializer(), depthwise_regularizer=None,
                 pointwise_regularizer=None, bias_regularizer=None, activity_regularizer=None,
                 depthwise_constraint=None, pointwise_constraint=None, bias_constraint=None,
                 trainable=True, name=None, **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate,
                         activation, use_bias, None, bias_initializer, None, bias_regularizer,
                         activity_regularizer, None, bias_constraint, trainable, name, **kwargs)
        self.depth_multiplier = depth_multiplier
        self.depthwise_constraint, self.pointwise_constraint = (depthwise_constraint,
                                                                pointwise_constraint)
        self.depthwise = (depthwise_initializer, depthwise_regularizer, depthwise_constraint)
        self.pointwise = (pointwise_initializer, pointwise_regularizer, pointwise_constraint)
        self.depthwise_kernel = self.pointwise_kernel = None

    def build(self, input_shape):
        """Makes both kernels and the bias for inputs of that shape."""
        channels = self._input_channels(input_shape)
        self.depthwise_kernel = self._add_kernel(
            [*self.kernel_size, channels, self.depth_multiplier], "depthwise_kernel",
            *self.depthwise)
        self.pointwise_kernel = self._add_kernel(
            [*[1] * self.rank, self.depth_multiplier * channels, self.filters], "pointwise_kernel",
            *self.pointwise)
        self._add_bias()
        self.built = True

    def call(self, inputs):
        """inputs: floats, batch, spatial dimensions and channels as data_format says."""
        first = self._channels_first
        depthwise, pointwise, axis = self.depthwise_kernel, self.pointwise_kernel, 2 if first else 1
        strides, rates = self.strides, self.dilation_rate
        if self.rank == 1:                      # an image of one row
            inputs = tensors.expand_dims(inputs, axis)
            depthwise = tensors.expand_dims(depthwise, 0)
            pointwise = tensors.expand_dims(pointwise, 0)
            strides, rates = strides * 2, (1, *rates)
        layout = _FORMATS[2][first]
        outputs = conv2d_functions.separable_conv2d(
            inputs, depthwise, pointwise,
            [1, 1, *strides] if first else [1, *strides, 1], self.padding.upper(), rate=rates,
            data_format=layout)
        if self.rank == 1:
            outputs = tensors.squeeze(outputs, [axis])
        return self._finished(outputs)


_SEPARABLE_DOC = """A depthwise convolution and one across channels, plus bias and activation.

    depth_multiplier: depthwise outputs a channel. Variables `depthwise_kernel` [*kernel_size, in,
    depth_multiplier], `pointwise_kernel`, `bias`. Others as tf.layers.Conv{n}D's.
    TF: tf.layers.SeparableConv{n}D."""


class SeparableConv1D(_SeparableConv):
    __doc__ = _SEPARABLE_DOC.format(n=1)
    rank = 1


class SeparableConv2D(_SeparableConv):
    __doc__ = _SEPARABLE_DOC.format(n=2)


# --------------------------------------------------------------------------------------- transposed
class _ConvTranspose(_Conv):
    """The gradient of a convolution with respect to its input, as a layer."""

    def __init__(self, filters, kernel_size, strides=1, padding="valid",
                 data_format="channels_last", activation=None, use_bias=True,
                 kernel_initializer=None, bias_initializer=zeros_initializer(),
                 kernel_regularizer=None, bias_regularizer=None, activity_regularizer=None,
                 kernel_constraint=None, bias_constraint=None, trainable=True, name=None,
                 **kwargs):
        super().__init__(filters, kernel_size, strides, padding, data_format, 1, activation,
                         use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
                         bias_regularizer, activity_regularizer, kernel_constraint,
                         bias_constraint, trainable, name, **kwargs)

    def build(self, input_shape):
        """Makes kernel and bias for inputs of that shape."""
        channels = self._input_channels(input_shape)
        self.kernel = self._add_kernel([*self.kernel_size, self.filters, channels])
        self._add_bias()
        self.built = True

    def _length(self, i, size):
        return transposed_length(size, self.kernel_size[i], self.padding, self.strides[i])

    def call(self, inputs):
        """inputs: floats, batch, spatial dimensions and channels as data_format says."""
        known = inputs.shape.as_list()
        sizes = tensors.shape(inputs) if None in known else known
        sizes = [sizes[i] if size is None else size for i, size in enumerate(known)]
        target = self._spatial(sizes, self._length)
        strides = [1, 1, *self.strides] if self._channels_first else [1, *self.strides, 1]
        if any(isinstance(size, ops.Tensor) for size in target):
            target = tensors.stack(target)
        transpose = conv2d_functions.conv2d_transpose if self.rank == 2 else \
            conv3d_functions.conv3d_transpose
        outputs = transpose(inputs, self.kernel, target, strides, self.padding.upper(),
                            data_format=self._format)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self._finished(outputs)

    def compute_output_shape(self, input_shape):
        """The shape of the result."""
        sizes = TensorShape(input_shape).with_rank(self.rank + 2).as_list()
        return TensorShape(self._spatial(sizes, self._length))


_TRANSPOSE_DOC = """A transposed convolution ("deconvolution"), plus bias and activation.

    strides: how many times as large the result is. Variables `kernel` [*kernel_size, filters, in]
    and `bias`. Others as tf.layers.Conv{n}D's. TF: tf.layers.Conv{n}DTranspose."""


class Conv2DTranspose(_ConvTranspose):
    __doc__ = _TRANSPOSE_DOC.format(n=2)


class Conv3DTranspose(_ConvTranspose):
    __doc__ = _TRANSPOSE_DOC.format(n=3)
    rank = 3


# ---------------------------------------------------------------------------------------- functions
def conv1d(inputs, filters, kernel_size, strides=1, padding="valid", data_format="channels_last",
           dilation_rate=1, activation=None, use_bias=True, kernel_initializer=None,
           bias_initializer=_ZEROS, kernel_regularizer=None, bias_regularizer=None,
           activity_regularizer=None, kernel_constraint=None, bias_constraint=None,
           trainable=True, name=None, reuse=None):
    """Convolution of sequences, with new variables or those of layer `name` (reuse).

    inputs: floats [batch, width, channels]. strides, padding, dilation_rate, data_format: by an int
    or a name for all spatial dimensions, else as nn.conv2d's; the others as tf.layers.Conv1D's. TF:
    tf.layers.conv1d. ValueError for other ranks, unknown channels, or sizes that do not fit.

        >>> tf.layers.conv1d(tf.ones([2, 10, 3]), 4, 5).shape.as_list()
        [2, 6, 4]
    """
    return Conv1D(filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
                  use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
                  bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint,
                  trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def conv2d(inputs, filters, kernel_size, strides=(1, 1), padding="valid",
           data_format="channels_last", dilation_rate=(1, 1), activation=None, use_bias=True,
           kernel_initializer=None, bias_initializer=_ZEROS, kernel_regularizer=None,
           bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
           bias_constraint=None, trainable=True, name=None, reuse=None):
    """Convolution of images, with new variables or those of layer `name` (reuse).

    inputs: floats [batch, height, width, channels]. strides, padding, dilation_rate, data_format:
    by an int or a name for all spatial dimensions, else as nn.conv2d's. filters: channels of the
    result; kernel_size: an int, or 2. activation: a function of the result, None for
    none; use_bias: whether a bias is added. kernel_initializer (None: the variable scope's) and
    bias_initializer make the variables; kernel_regularizer, bias_regularizer and
    activity_regularizer: functions whose results are losses, in REGULARIZATION_LOSSES;
    kernel_constraint, bias_constraint: functions of a variable after an update. trainable: whether
    optimizers find the variables.
    TF: tf.layers.conv2d. ValueError for other ranks, unknown channels, or sizes
    that do not fit.

        >>> y = tf.layers.conv2d(tf.ones([1, 28, 28, 1]), 32, 5, padding="same", name="conv")
        >>> y.shape.as_list(), tf.trainable_variables()[0].shape.as_list()
        ([1, 28, 28, 32], [5, 5, 1, 32])
    """
    return Conv2D(filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
                  use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
                  bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint,
                  trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def conv3d(inputs, filters, kernel_size, strides=(1, 1, 1), padding="valid",
           data_format="channels_last", dilation_rate=(1, 1, 1), activation=None, use_bias=True,
           kernel_initializer=None, bias_initializer=_ZEROS, kernel_regularizer=None,
           bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
           bias_constraint=None, trainable=True, name=None, reuse=None):
    """Convolution of volumes, with new variables or those of layer `name` (reuse).

    inputs: floats [batch, depth, height, width, channels]. strides, padding, dilation_rate,
    data_format: by an int or a name for all spatial dimensions, else as nn.conv2d's; the others as
    tf.layers.Conv3D's. TF: tf.layers.conv3d. ValueError for other ranks, unknown channels, or sizes
    that do not fit.
    """
    return Conv3D(filters, kernel_size, strides, padding, data_format, dilation_rate, activation,
                  use_bias, kernel_initializer, bias_initializer, kernel_regularizer,
                  bias_regularizer, activity_regularizer, kernel_constraint, bias_constraint,
                  trainable, name, _reuse=reuse, _scope=name).apply(inputs)


def separable_conv1d(inputs, filters, kernel_size, strides=1, padding="valid",
                     data_format="channels_last", dilation_rate=1, depth_multiplier=1,
                     activation=None, use_bias=True, depthwise_initializer=None,
                     pointwise_initializer=None, bias_initializer=_ZEROS,
                     depthwise_regularizer=None, pointwise_regularizer=None,
                     bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None,
                     pointwise_constraint=None, bias_constraint=None, trainable=True, name=None,
                     reuse=None):
    """A separable convolution of sequences, with new variables or those of layer `name` (reuse).

    inputs: floats [batch, width, channels]. strides, padding, dilation_rate, data_format: by an int
    or a name for all spatial dimensions, else as nn.conv2d's; the others as
    tf.layers.SeparableConv1D's. TF: tf.layers.separable_conv1d. ValueError for other ranks, unknown
    channels, or sizes that do not fit.
    """
    return SeparableConv1D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, depth_multiplier,
        activation, use_bias, depthwise_initializer, pointwise_initializer, bias_initializer,
        depthwise_regularizer, pointwise_regularizer, bias_regularizer, activity_regularizer,
        depthwise_constraint, pointwise_constraint, bias_constraint, trainable, name,
        _reuse=reuse, _scope=name).apply(inputs)


def separable_conv2d(inputs, filters, kernel_size, strides=(1, 1), padding="valid",
                     data_format="channels_last", dilation_rate=(1, 1), depth_multiplier=1,
                     activation=None, use_bias=True, depthwise_initializer=None,
                     pointwise_initializer=None, bias_initializer=_ZEROS,
                     depthwise_regularizer=None, pointwise_regularizer=None,
                     bias_regularizer=None, activity_regularizer=None, depthwise_constraint=None,
                     pointwise_constraint=None, bias_constraint=None, trainable=True, name=None,
                     reuse=None):
    """A separable convolution of images, with new variables or those of layer `name` (reuse).

    inputs: floats [batch, height, width, channels]. strides, padding, dilation_rate, data_format:
    by an int or a name for all spatial dimensions, else as nn.conv2d's; the others as
    tf.layers.SeparableConv2D's. TF: tf.layers.separable_conv2d. ValueError for other ranks, unknown
    channels, or sizes that do not fit.
    """
    return SeparableConv2D(
        filters, kernel_size, strides, padding, data_format, dilation_rate, depth_multiplier,
        activation, use_bias, depthwise_initializer, pointwise_initializer, bias_initializer,
        depthwise_regularizer, pointwise_regularizer, bias_regularizer, activity_regularizer,
        depthwise_constraint, pointwise_constraint, bias_constraint, trainable, name,
        _reuse=reuse, _scope=name).apply(inputs)


def conv2d_transpose(inputs, filters, kernel_size, strides=(1, 1), padding="valid",
                     data_format="channels_last", activation=None, use_bias=True,
                     kernel_initializer=None, bias_initializer=_ZEROS, kernel_regularizer=None,
                     bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                     bias_constraint=None, trainable=True, name=None, reuse=None):
    """A transposed convolution of images, with new variables or those of layer `name` (reuse).

    inputs: floats [batch, height, width, channels]. strides, padding, data_format: by an int or a
    name for all spatial dimensions, else as nn.conv2d_transpose's; the others as
    tf.layers.Conv2DTranspose's. TF: tf.layers.conv2d_transpose. ValueError for other ranks, unknown
    channels, or sizes that do not fit.

        >>> tf.layers.conv2d_transpose(tf.ones([1, 7, 7, 8]), 4, 3, 2, "same").shape.as_list()
        [1, 14, 14, 4]
    """
    return Conv2DTranspose(
        filters, kernel_size, strides, padding, data_format, activation, use_bias,
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        activity_regularizer, kernel_constraint, bias_constraint, trainable, name, _reuse=reuse,
        _scope=name).apply(inputs)


def conv3d_transpose(inputs, filters, kernel_size, strides=(1, 1, 1), padding="valid",
                     data_format="channels_last", activation=None, use_bias=True,
                     kernel_initializer=None, bias_initializer=_ZEROS, kernel_regularizer=None,
                     bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                     bias_constraint=None, trainable=True, name=None, reuse=None):
    """A transposed convolution of volumes, with new variables or those of layer `name` (reuse).

    inputs: floats [batch, depth, height, width, channels]. strides, padding, data_format: by an int
    or a name for all spatial dimensions, else as nn.conv2d_transpose's; the others as
    tf.layers.Conv3DTranspose's. TF: tf.layers.conv3d_transpose. ValueError for other ranks, unknown
    channels, or sizes that do not fit.
    """
    return Conv3DTranspose(
        filters, kernel_size, strides, padding, data_format, activation, use_bias,
        kernel_initializer, bias_initializer, kernel_regularizer, bias_regularizer,
        activity_regularizer, kernel_constraint, bias_constraint, trainable, name, _reuse=reuse,
        _scope=name).apply(inputs)


PUBLIC = {f"layers.{made.__name__}": made for made in (
    Conv1D, conv1d, Conv2D, conv2d, Conv3D, conv3d, SeparableConv1D, separable_conv1d,
    SeparableConv2D, separable_conv2d, Conv2DTranspose, conv2d_transpose, Conv3DTranspose,
    conv3d_transpose)}
