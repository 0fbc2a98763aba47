"""Convolutions of tf.contrib.layers: variables `weights` and `biases`, relu unless told otherwise.

Invariants
  1. A layer is its tf.layers class in a variable scope of the contrib name (Conv, Conv2d_transpose,
     SeparableConv2d, ConvInPlane), its variables model variables.
  2. With a normalizer_fn there are no biases.

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.layers.

Example:
    net = slim.conv2d(images, 32, [3, 3], scope="conv1")        # conv1/weights, conv1/biases
"""
from pyflow.framework import graph as ops
from pyflow.lib.contrib import layer_tools as tools
from pyflow.lib.contrib.arg_scope import add_arg_scope, tables
from pyflow.lib.contrib.model_variables import model_variable
from pyflow.lib.layers import convolutional
from pyflow.lib.nn import conv2d_functions
from pyflow.lib.variables.initializers import xavier_initializer, zeros_initializer
from pyflow.lib.variables.variable_scope import variable_scope
from pyflow.ops.elementwise.activation_ops import Relu as relu
from pyflow.ops.move import join_ops

_XAVIER, _ZEROS = xavier_initializer(), zeros_initializer()
_LAYERS = {1: convolutional.Conv1D, 2: convolutional.Conv2D, 3: convolutional.Conv3D}
_SEPARABLE_NAMES = {"bias": "biases", "depthwise_kernel": "depthwise_weights",
                    "pointwise_kernel": "pointwise_weights"}
_FIRST = {None: "channels_last", "NWC": "channels_last", "NCW": "channels_first",
          "NHWC": "channels_last", "NCHW": "channels_first", "NDHWC": "channels_last",
          "NCDHW": "channels_first"}


def _applied(make, inputs, scope, default_name, reuse, normalizer, activation_fn,
             variables_collections, outputs_collections, kernels=("kernel",),
             renamed=tools.WEIGHTS_AND_BIASES):
    """The layer `make(scope, dtype)` of `inputs`, its variables and results collected."""
    with variable_scope(scope, default_name, [inputs], reuse=reuse,
                        custom_getter=tools.model_getter(renamed)) as sc:
        layer = make(inputs, name=sc.name, dtype=inputs.dtype.base_dtype, _scope=sc, _reuse=reuse)
        outputs = layer.apply(inputs)
        for kernel in kernels:
            tools.add_to_collections(getattr(layer, kernel), variables_collections, "weights")
        if layer.bias is not None:
            tools.add_to_collections(layer.bias, variables_collections, "biases")
        return tools.finished(outputs, sc.name, *normalizer, activation_fn, outputs_collections)


@add_arg_scope
def convolution(inputs, num_outputs, kernel_size, stride=1, padding="SAME", data_format=None,
                rate=1, activation_fn=relu, normalizer_fn=None, normalizer_params=None,
                weights_initializer=_XAVIER, weights_regularizer=None, biases_initializer=_ZEROS,
                biases_regularizer=None, reuse=None, variables_collections=None,
                outputs_collections=None, trainable=True, scope=None, conv_dims=None):
    """activation_fn(normalizer_fn(inputs * weights) or inputs * weights + biases).

    inputs: floats [batch, *spatial, channels] of 1 to 3 spatial dimensions; channels second where
    data_format begins with NC. num_outputs: int. kernel_size, stride, rate: ints, or one per
    dimension; stride and rate not both above 1. stride and padding ("SAME" or "VALID") are as
    nn.conv2d's, rate as its dilations. normalizer_params: keyword arguments for
    normalizer_fn. variables_collections: a list, or {"weights": list, "biases": list}. reuse: the
    variables of `scope` exist already. conv_dims: how many spatial dimensions there must be.
    ValueError for other ranks and formats. TF: tf.contrib.layers.convolution.

        >>> y = tf.contrib.layers.conv2d(tf.ones([1, 5, 5, 3]), 4, [3, 3], scope="conv1")
        >>> y.shape.as_list(), [v.name for v in tf.global_variables()]
        ([1, 5, 5, 4], ['conv1/weights:0', 'conv1/biases:0'])
    """
    inputs = ops.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if conv_dims is not None and conv_dims + 2 != rank:
        raise ValueError(f"Convolution expects input with rank {conv_dims + 2}, got {rank}")
    if rank not in (3, 4, 5):
        raise ValueError(f"Convolution not supported for input with rank {rank}")
    if data_format not in _FIRST:
        raise ValueError(f"Invalid data_format: {data_format!r}; it is one of "
                         f"{', '.join(name for name in _FIRST if name)}")

    def make(inputs, **where):
        return _LAYERS[rank - 2](
            num_outputs, kernel_size, stride, padding, _FIRST[data_format], rate,
            use_bias=not normalizer_fn and bool(biases_initializer),
            kernel_initializer=weights_initializer, bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer,
            trainable=trainable, **where)

    return _applied(make, inputs, scope, "Conv", reuse, (normalizer_fn, normalizer_params),
                    activation_fn, variables_collections, outputs_collections)


def _of_rank(dims):
    @add_arg_scope
    def function(inputs, num_outputs, kernel_size, stride=1, padding="SAME", data_format=None,
                 rate=1, activation_fn=relu, normalizer_fn=None, normalizer_params=None,
                 weights_initializer=_XAVIER, weights_regularizer=None, biases_initializer=_ZEROS,
                 biases_regularizer=None, reuse=None, variables_collections=None,
                 outputs_collections=None, trainable=True, scope=None):
        return convolution(
            inputs, num_outputs, kernel_size, stride, padding, data_format, rate, activation_fn,
            normalizer_fn, normalizer_params, weights_initializer, weights_regularizer,
            biases_initializer, biases_regularizer, reuse, variables_collections,
            outputs_collections, trainable, scope, conv_dims=dims)
    function.__name__ = function.__qualname__ = f"convolution{dims}d"
    function.__doc__ = (f"tf.contrib.layers.convolution over {dims} spatial dimension"
                        f"{'s' if dims > 1 else ''}, with its arguments and errors.\n\n    "
                        f"inputs: floats of rank {dims + 2}, else ValueError. stride and padding: "
                        f"as nn.conv2d's.\n    TF: tf.contrib.layers.conv{dims}d.")
    return function


@add_arg_scope
def convolution2d_in_plane(inputs, kernel_size, stride=1, padding="SAME", activation_fn=relu,
                           normalizer_fn=None, normalizer_params=None, weights_initializer=_XAVIER,
                           weights_regularizer=None, biases_initializer=_ZEROS,
                           biases_regularizer=None, reuse=None, variables_collections=None,
                           outputs_collections=None, trainable=True, scope=None):
    """The same kernel for each channel by itself: `weights` is [height, width, 1, 1].

    inputs: floats [batch, height, width, channels], else ValueError; the result has as many
    channels. stride (an int or two) and padding: as nn.conv2d's. Other arguments: as
    tf.contrib.layers.convolution's. TF: tf.contrib.layers.conv2d_in_plane."""
    inputs = ops.convert_to_tensor(inputs)
    with variable_scope(scope, "ConvInPlane", [inputs], reuse=reuse) as sc:
        channels = tools.last_dimension(inputs.shape, min_rank=4)
        weights = model_variable(
            "weights", [*tools.two_element_tuple(kernel_size), 1, 1], inputs.dtype.base_dtype,
            weights_initializer, weights_regularizer, trainable,
            tools.get_variable_collections(variables_collections, "weights"))
        outputs = conv2d_functions.depthwise_conv2d(
            inputs, join_ops.Tile(weights, [1, 1, channels, 1]),
            [1, *tools.two_element_tuple(stride), 1], padding)
        if normalizer_fn is None and biases_initializer is not None:
            outputs = tools.with_biases(outputs, channels, biases_initializer, biases_regularizer,
                                        trainable, variables_collections)
        return tools.finished(outputs, sc.name, normalizer_fn, normalizer_params, activation_fn,
                              outputs_collections)


@add_arg_scope
def convolution2d_transpose(inputs, num_outputs, kernel_size, stride=1, padding="SAME",
                            data_format="NHWC", activation_fn=relu, normalizer_fn=None,
                            normalizer_params=None, weights_initializer=_XAVIER,
                            weights_regularizer=None, biases_initializer=_ZEROS,
                            biases_regularizer=None, reuse=None, variables_collections=None,
                            outputs_collections=None, trainable=True, scope=None):
    """Transposed convolution of images: the result is `stride` times as large.

    inputs: floats [batch, height, width, channels]; "NCHW" has channels second. `weights` is
    [height, width, out, in]. ValueError for other ranks and formats. stride and padding: of the
    convolution from the result to `inputs`, as nn.conv2d's. Other arguments: as
    tf.contrib.layers.convolution's. TF: tf.contrib.layers.conv2d_transpose."""
    return _transposed(convolutional.Conv2DTranspose, 2, locals())


@add_arg_scope
def convolution3d_transpose(inputs, num_outputs, kernel_size, stride=1, padding="SAME",
                            data_format="NDHWC", activation_fn=relu, normalizer_fn=None,
                            normalizer_params=None, weights_initializer=_XAVIER,
                            weights_regularizer=None, biases_initializer=_ZEROS,
                            biases_regularizer=None, reuse=None, variables_collections=None,
                            outputs_collections=None, trainable=True, scope=None):
    """Transposed convolution of volumes; as conv2d_transpose, its arguments too.

    inputs: floats [batch, depth, height, width, channels]; "NCDHW" has channels second. ValueError
    for other ranks and formats. stride and padding: of the convolution from the result to `inputs`,
    as nn.conv2d's.
    TF: tf.contrib.layers.conv3d_transpose."""
    return _transposed(convolutional.Conv3DTranspose, 3, locals())


def _transposed(layer, dims, given):
    channels = tools.checked_format(given["data_format"], dims)

    def make(inputs, **where):
        return layer(
            given["num_outputs"], given["kernel_size"], given["stride"], given["padding"], channels,
            use_bias=not given["normalizer_fn"] and bool(given["biases_initializer"]),
            kernel_initializer=given["weights_initializer"],
            bias_initializer=given["biases_initializer"],
            kernel_regularizer=given["weights_regularizer"],
            bias_regularizer=given["biases_regularizer"], trainable=given["trainable"], **where)

    return _applied(make, ops.convert_to_tensor(given["inputs"]), given["scope"],
                    f"Conv{dims}d_transpose", given["reuse"],
                    (given["normalizer_fn"], given["normalizer_params"]), given["activation_fn"],
                    given["variables_collections"], given["outputs_collections"])


@add_arg_scope
def separable_convolution2d(inputs, num_outputs, kernel_size, depth_multiplier=1, stride=1,
                            padding="SAME", data_format="NHWC", rate=1, activation_fn=relu,
                            normalizer_fn=None, normalizer_params=None,
                            weights_initializer=_XAVIER, pointwise_initializer=None,
                            weights_regularizer=None, biases_initializer=_ZEROS,
                            biases_regularizer=None, reuse=None, variables_collections=None,
                            outputs_collections=None, trainable=True, scope=None):
    """Each channel by its own kernels, then all of them mixed; only the former where num_outputs
    is None.

    inputs: floats [batch, height, width, channels]; "NCHW" has channels second. Variables:
    depthwise_weights [height, width, in, depth_multiplier], pointwise_weights [1, 1, in *
    depth_multiplier, num_outputs], biases. stride and padding: as nn.conv2d's. Others: as
    tf.contrib.layers.convolution's. ValueError for other ranks and formats.
    TF: tf.contrib.layers.separable_conv2d."""
    inputs, first = ops.convert_to_tensor(inputs), tools.checked_format(data_format)
    if num_outputs is None:
        return _depthwise(**{k: v for k, v in locals().items() if k not in (
            "num_outputs", "pointwise_initializer", "first")})

    def make(inputs, **where):
        return convolutional.SeparableConv2D(
            num_outputs, kernel_size, stride, padding, first, tools.two_element_tuple(rate),
            depth_multiplier, use_bias=not normalizer_fn and bool(biases_initializer),
            depthwise_initializer=weights_initializer,
            pointwise_initializer=pointwise_initializer or weights_initializer,
            bias_initializer=biases_initializer, depthwise_regularizer=weights_regularizer,
            pointwise_regularizer=weights_regularizer, bias_regularizer=biases_regularizer,
            trainable=trainable, **where)

    return _applied(make, inputs, scope, "SeparableConv2d", reuse,
                    (normalizer_fn, normalizer_params), activation_fn, variables_collections,
                    outputs_collections, ("depthwise_kernel", "pointwise_kernel"),
                    _SEPARABLE_NAMES)


def _depthwise(inputs, kernel_size, depth_multiplier, stride, padding, data_format, rate,
               activation_fn, normalizer_fn, normalizer_params, weights_initializer,
               weights_regularizer, biases_initializer, biases_regularizer, reuse,
               variables_collections, outputs_collections, trainable, scope):
    with variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse,
                        custom_getter=tools.model_getter(_SEPARABLE_NAMES)) as sc:
        channels = tools.channel_dimension(inputs.shape, data_format, min_rank=4)
        weights = model_variable(
            "depthwise_weights",
            [*tools.two_element_tuple(kernel_size), channels, depth_multiplier],
            inputs.dtype.base_dtype, weights_initializer, weights_regularizer, trainable,
            tools.get_variable_collections(variables_collections, "weights"))
        steps = tools.two_element_tuple(stride)
        outputs = conv2d_functions.depthwise_conv2d(
            inputs, weights, [1, 1, *steps] if data_format == "NCHW" else [1, *steps, 1], padding,
            rate=tools.two_element_tuple(rate), data_format=data_format)
        if normalizer_fn is None and biases_initializer is not None:
            outputs = tools.with_biases(outputs, depth_multiplier * channels, biases_initializer,
                                        biases_regularizer, trainable, variables_collections,
                                        data_format)
        return tools.finished(outputs, sc.name, normalizer_fn, normalizer_params, activation_fn,
                              outputs_collections)


conv1d = convolution1d = _of_rank(1)
conv2d = convolution2d = _of_rank(2)
conv3d = convolution3d = _of_rank(3)
_ALIASES = {
    "conv1d": conv1d, "conv2d": conv2d, "conv3d": conv3d, "conv2d_in_plane": convolution2d_in_plane,
    "conv2d_transpose": convolution2d_transpose, "conv3d_transpose": convolution3d_transpose,
    "separable_conv2d": separable_convolution2d}
PUBLIC = {
    **tables(convolution, convolution1d, convolution2d, convolution3d, convolution2d_in_plane,
             convolution2d_transpose, convolution3d_transpose, separable_convolution2d,
             layers=True),
    **{f"contrib.{home}.{name}": f for name, f in _ALIASES.items() for home in ("layers", "slim")}}
