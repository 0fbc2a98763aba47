"""Layers of tf.contrib.layers that are no convolutions: fully_connected, pools, dropout, shapes.

Invariants
  1. Variables are model variables named weights, biases, temperature, in the layer's scope.
  2. outputs_collections get the result under the scope's name.

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.layers.

Example:
    net = slim.flatten(slim.max_pool2d(net, [2, 2], scope="pool1"))
    net = slim.stack(net, slim.fully_connected, [32, 64, 10], scope="fc")       # fc/fc_1 ...
"""
import functools

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.gradient_registry import RegisterGradient
from pyflow.lib.array import array_functions, gather_functions, identity_functions, join_functions
from pyflow.lib.contrib import layer_tools as tools
from pyflow.lib.contrib.arg_scope import add_arg_scope, tables
from pyflow.lib.contrib.model_variables import model_variable
from pyflow.lib.layers import core, pooling
from pyflow.lib.math import reductions
from pyflow.lib.nn import pool_functions, softmax_functions
from pyflow.lib.variables.initializers import (Constant, ones_initializer, xavier_initializer,
                                               zeros_initializer)
from pyflow.lib.variables.variable_scope import variable_scope
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import unary_ops
from pyflow.ops.elementwise.activation_ops import Elu as elu, Relu as relu, Relu6 as relu6

_XAVIER, _ZEROS = xavier_initializer(), zeros_initializer()


# -------------------------------------------------------------------------------------- products
@add_arg_scope
def fully_connected(inputs, num_outputs, activation_fn=relu, normalizer_fn=None,
                    normalizer_params=None, weights_initializer=_XAVIER, weights_regularizer=None,
                    biases_initializer=_ZEROS, biases_regularizer=None, reuse=None,
                    variables_collections=None, outputs_collections=None, trainable=True,
                    scope=None):
    """activation_fn(inputs . weights + biases), of the inputs' last dimension.

    inputs: floats [..., in]; the result is [..., num_outputs]. With a normalizer_fn (called with
    normalizer_params) there are no biases. weights_initializer, biases_initializer make the
    variables; weights_regularizer, biases_regularizer: functions whose results are losses; scope,
    reuse: of the variables' names; trainable: whether optimizers find them; outputs_collections:
    where the result is put. variables_collections: a list, or {"weights": list,
    "biases": list}. ValueError where num_outputs is no int, or the last dimension unknown.
    TF: tf.contrib.layers.fully_connected.

        >>> y = tf.contrib.layers.fully_connected(tf.ones([2, 3]), 4, scope="hidden")
        >>> [v.name for v in tf.global_variables()]
        ['hidden/weights:0', 'hidden/biases:0']
    """
    if not isinstance(num_outputs, int):
        raise ValueError(f"num_outputs should be an int, got {type(num_outputs).__name__} "
                         f"{num_outputs!r}.")
    with variable_scope(scope, "fully_connected", [inputs], reuse=reuse,
                        custom_getter=tools.model_getter(tools.WEIGHTS_AND_BIASES)) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = core.Dense(
            num_outputs, use_bias=not normalizer_fn and bool(biases_initializer),
            kernel_initializer=weights_initializer, bias_initializer=biases_initializer,
            kernel_regularizer=weights_regularizer, bias_regularizer=biases_regularizer,
            trainable=trainable, name=sc.name, dtype=inputs.dtype.base_dtype, _scope=sc,
            _reuse=reuse)
        outputs = layer.apply(inputs)
        tools.add_to_collections(layer.kernel, variables_collections, "weights")
        if layer.bias is not None:
            tools.add_to_collections(layer.bias, variables_collections, "biases")
        return tools.finished(outputs, sc.name, normalizer_fn, normalizer_params, activation_fn,
                              outputs_collections)


def _connected(activation_fn):
    return functools.partial(fully_connected, activation_fn=activation_fn)


@add_arg_scope
def bias_add(inputs, activation_fn=None, initializer=_ZEROS, regularizer=None, reuse=None,
             variables_collections=None, outputs_collections=None, trainable=True,
             data_format="NHWC", scope=None):
    """activation_fn(inputs + biases), one of `biases` per channel.

    inputs: floats [..., channels]; with "NCHW" [batch, channels, height, width].
    ValueError for another format, an unknown number of channels, and "NCHW" of another rank.
    TF: tf.contrib.layers.bias_add."""
    tools.checked_format(data_format)
    with variable_scope(scope, "BiasAdd", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        if data_format == "NCHW" and inputs.shape.ndims != 4:
            raise ValueError("Data format NCHW only supports 4D Tensor")
        size = tools.channel_dimension(inputs.shape, data_format)
        outputs = tools.with_biases(inputs, size, initializer, regularizer, trainable,
                                    variables_collections, data_format)
        return tools.finished(outputs, sc.name, None, None, activation_fn, outputs_collections)


# ----------------------------------------------------------------------------------------- pools
def _pool_layer(layer, dims, default_name, doc):
    def function(inputs, kernel_size, stride=2, padding="VALID",
                 data_format=tools.FORMATS[dims][0], outputs_collections=None, scope=None):
        channels = tools.checked_format(data_format, dims)
        with ops.name_scope(scope, default_name, [inputs]) as sc:
            outputs = layer(kernel_size, stride, padding, channels, _scope=sc).apply(
                ops.convert_to_tensor(inputs))
            return tools.collect_named_outputs(outputs_collections, sc, outputs)
    name = default_name.lower()
    function.__name__ = function.__qualname__ = \
        {"maxpool": "max_pool", "avgpool": "avg_pool"}[name[:7]] + name[7:]
    function.__doc__ = (f"{doc} of each window of {dims} spatial dimensions.\n\n    inputs: floats "
                        f"of rank {dims + 2}; kernel_size, stride: ints, or one per dimension."
                        f"\n    stride and padding: as nn.max_pool's. ValueError for another rank, "
                        f"data_format\n    or padding. "
                        f"TF: tf.contrib.layers.{function.__name__}.")
    return add_arg_scope(function)


max_pool2d = _pool_layer(pooling.MaxPooling2D, 2, "MaxPool2D", "The largest")
avg_pool2d = _pool_layer(pooling.AveragePooling2D, 2, "AvgPool2D", "The mean")
max_pool3d = _pool_layer(pooling.MaxPooling3D, 3, "MaxPool3D", "The largest")
avg_pool3d = _pool_layer(pooling.AveragePooling3D, 3, "AvgPool3D", "The mean")


@add_arg_scope
def pool(inputs, kernel_size, pooling_type, padding="VALID", data_format=None, dilation_rate=1,
         stride=1, outputs_collections=None, scope=None):
    """Pooling over one to three spatial dimensions; pooling_type: "MAX" or "AVG".

    inputs: floats of rank 3 to 5, channels last, or second where data_format begins with NC.
    kernel_size, dilation_rate, stride: ints, or one per dimension. stride and padding ("VALID" or
    "SAME"): as nn.max_pool's. ValueError for a rank that is unknown or below 3, and as tf.nn.pool.
    TF: tf.contrib.layers.pool."""
    with ops.name_scope(scope, f"{pooling_type.lower()}_pool", [inputs]) as sc:
        inputs = ops.convert_to_tensor(inputs)
        if inputs.shape.ndims is None or inputs.shape.ndims < 3:
            raise ValueError(f"Rank of inputs must be known and >= 3, got {inputs.shape}")
        n = inputs.shape.ndims - 2
        outputs = pool_functions.pool(
            inputs, tools.n_positive_integers(n, kernel_size), pooling_type, padding,
            tools.n_positive_integers(n, dilation_rate), tools.n_positive_integers(n, stride),
            name=sc, data_format=data_format)
        return tools.collect_named_outputs(outputs_collections, sc, outputs)


# ------------------------------------------------------------------------- noise, shapes, numbers
@add_arg_scope
def dropout(inputs, keep_prob=0.5, noise_shape=None, is_training=True, outputs_collections=None,
            scope=None, seed=None):
    """`inputs` with elements kept with probability keep_prob where is_training, else as they are.

    inputs: floats of any shape; is_training: bool or scalar bool tensor. ValueError for inputs
    that are no floats, and for a keep_prob outside (0, 1].
    TF: tf.contrib.layers.dropout."""
    with variable_scope(scope, "Dropout", [inputs], custom_getter=tools.model_getter()) as sc:
        inputs = ops.convert_to_tensor(inputs)
        layer = core.Dropout(1 - keep_prob, noise_shape, seed, name=sc.name, _scope=sc)
        outputs = layer.apply(inputs, training=is_training)
        return tools.collect_named_outputs(outputs_collections, sc.name, outputs)


@add_arg_scope
def flatten(inputs, outputs_collections=None, scope=None):
    """[batch, elements of an example]. inputs: of any dtype; ValueError for a scalar, or an
    unknown rank. TF: tf.contrib.layers.flatten.
    outputs_collections: where the result is put; scope: of its name.

        >>> tf.contrib.layers.flatten(tf.zeros([8, 4, 4, 3])).shape
        TensorShape([Dimension(8), Dimension(48)])
    """
    with ops.name_scope(scope, "Flatten", [inputs]) as sc:
        outputs = core.flatten(ops.convert_to_tensor(inputs))
        return tools.collect_named_outputs(outputs_collections, sc, outputs)


@add_arg_scope
def one_hot_encoding(labels, num_classes, on_value=1.0, off_value=0.0, outputs_collections=None,
                     scope=None):
    """[batch, num_classes] floats of `labels`, integers [batch].

    on_value, off_value: scalar floats. TypeError for labels that are no integers.
    TF: tf.contrib.layers.one_hot_encoding."""
    with ops.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        labels = ops.convert_to_tensor(labels)
        if labels.dtype == dtypes.int32:
            labels = tensors.cast(labels, dtypes.int64)
        outputs = gather_functions.one_hot(labels, num_classes, on_value=on_value,
                                           off_value=off_value)
        return tools.collect_named_outputs(outputs_collections, sc, outputs)


def _named(layer, default):
    return getattr(layer, "__name__", None) or getattr(getattr(layer, "func", None), "__name__",
                                                       default)


def repeat(inputs, repetitions, layer, *args, **kwargs):
    """`layer` applied `repetitions` times, each with variables of its own: scope/scope_1, ...

    inputs: of the shape and dtype that `layer` takes, and it must take its own result. It is called
    layer(inputs, *args, scope=, **kwargs); its errors are passed on. scope: "Repeat" by default,
    with parts named after the layer. TF: tf.contrib.layers.repeat."""
    scope = kwargs.pop("scope", None)
    with variable_scope(scope, "Repeat", [inputs]):
        outputs = ops.convert_to_tensor(inputs)
        for i in range(repetitions):
            kwargs["scope"] = f"{scope or _named(layer, 'repeat')}_{i + 1}"
            outputs = layer(outputs, *args, **kwargs)
        return outputs


def stack(inputs, layer, stack_args, **kwargs):
    """`layer` applied once per element of stack_args, a list of its arguments (or one of them).

    inputs: of the shape and dtype that `layer` takes. ValueError if stack_args is no list or tuple.
    TF: tf.contrib.layers.stack."""
    scope = kwargs.pop("scope", None)
    if not isinstance(stack_args, (list, tuple)):
        raise ValueError(f"stack_args need to be a list or tuple, got {stack_args!r}")
    with variable_scope(scope, "Stack", [inputs]):
        outputs = ops.convert_to_tensor(inputs)
        for i, given in enumerate(stack_args):
            kwargs["scope"] = f"{scope or _named(layer, 'stack')}_{i + 1}"
            given = given if isinstance(given, (list, tuple)) else [given]
            outputs = layer(outputs, *given, **kwargs)
        return outputs


@add_arg_scope
def unit_norm(inputs, dim, epsilon=1e-7, scope=None):
    """inputs / sqrt(epsilon + the sum of squares along `dim`).

    inputs: floats of known rank; ValueError for a dim outside it.
    TF: tf.contrib.layers.unit_norm."""
    with variable_scope(scope, "UnitNorm", [inputs]):
        rank = inputs.shape.ndims
        if not rank:
            raise ValueError("The input rank must be known.")
        if not 0 <= dim < rank:
            raise ValueError(f"dim must be positive but smaller than the input rank {rank}, got "
                             f"{dim}.")
        return inputs / unary_ops.Sqrt(epsilon + reductions.reduce_sum(
            unary_ops.Square(inputs), dim, True))


@add_arg_scope
def maxout(inputs, num_units, axis=-1, scope=None):
    """The largest of each group of channels: `axis` becomes num_units long.

    inputs: numbers of known rank, and `axis` of known size, which is a dimension.
    ValueError where the number of channels is no multiple of num_units (Goodfellow et al. 2013).
    TF: tf.contrib.layers.maxout."""
    with variable_scope(scope, "MaxOut", [inputs]):
        inputs = ops.convert_to_tensor(inputs)
        shape = inputs.shape.as_list()
        channels = shape[axis]
        if channels % num_units:
            raise ValueError(f"number of features({channels}) is not a multiple of "
                             f"num_units({num_units})")
        shape[axis] = num_units
        shape.append(channels // num_units)
        static = tensors.shape(inputs)
        shape = [static[i] if size is None else size for i, size in enumerate(shape)]
        return reductions.reduce_max(tensors.reshape(inputs, shape), -1)


@add_arg_scope
def softmax(logits, scope=None):
    """Softmax over the last dimension.

    logits: floats of rank 2 or more, the last dimension known, else ValueError; TypeError for ints.
    TF: tf.contrib.layers.softmax."""
    with variable_scope(scope, "softmax", [logits]):
        size = tools.last_dimension(logits.shape, min_rank=2)
        made = softmax_functions.softmax(tensors.reshape(logits, [-1, size]))
        made = tensors.reshape(made, tensors.shape(logits))
        made.set_shape(logits.shape)
        return made


@add_arg_scope
def spatial_softmax(features, temperature=None, name=None, variables_collections=None,
                    trainable=True, data_format="NHWC"):
    """Where each channel is large: [batch, 2 * channels] of coordinates (row, column) in [-1, 1].

    features: floats [batch, height, width, channels], or "NCHW". temperature: the initial value of
    the model variable of that name, 1.0 where None. ValueError for another rank or format, and
    for other floats than float32. Source: Levine et al. 2016.
    TF: tf.contrib.layers.spatial_softmax."""
    tools.checked_format(data_format)
    features = ops.convert_to_tensor(features)
    channels = tools.channel_dimension(features.shape, data_format, 4)
    with variable_scope(name, "spatial_softmax"):
        shape = tensors.shape(features)
        height, width = (shape[2], shape[3]) if data_format == "NCHW" else (shape[1], shape[2])
        rows, columns = join_functions.meshgrid(
            array_functions.linspace(-1.0, 1.0, height),
            array_functions.linspace(-1.0, 1.0, width), indexing="ij")
        initializer = ones_initializer() if temperature is None else Constant(temperature)
        temperature = model_variable(
            "temperature", (), dtypes.float32, initializer, trainable=trainable,
            collections=tools.get_variable_collections(variables_collections, "temperature")
            if trainable else None)
        if data_format == "NHWC":
            features = tensors.transpose(features, [0, 3, 1, 2])
        weights = softmax_functions.softmax(
            tensors.reshape(features, [-1, height * width]) / temperature)
        expected = [reductions.reduce_sum(tensors.reshape(at, [-1]) * weights, [1], keepdims=True)
                    for at in (rows, columns)]
        points = tensors.reshape(tensors.concat(expected, 1), [-1, channels * 2])
        points.set_shape([None, channels * 2])
        return points


@functools.cache
def _scaling():
    """The name of the gradient that is multiplied, registered at the first use."""
    name = "ContribScaleGradient"
    RegisterGradient(name)(lambda op, dy, unused: [dy * op.inputs[1], None])
    return name


def scale_gradient(inputs, gradient_multiplier):
    """`inputs` as they are, with gradients multiplied.

    inputs: of any shape and dtype. gradient_multiplier: a scalar number; TypeError where it does
    not fit that dtype. TF: tf.contrib.layers.scale_gradient.

        >>> x = tf.constant(3.0)
        >>> y = tf.contrib.layers.scale_gradient(x, 0.5) * 2.0
        >>> tf.Session().run(tf.gradients(y, x)[0])
        np.float32(1.0)
    """
    inputs = ops.convert_to_tensor(inputs)
    by = ops.convert_to_tensor(gradient_multiplier, inputs.dtype.base_dtype)
    with ops.get_default_graph().gradient_override_map({"IdentityN": _scaling()}):
        return identity_functions.identity_n([inputs, by])[0]


_NAMED = {"linear": _connected(None), "relu": _connected(relu), "relu6": _connected(relu6),
          "elu": _connected(elu)}
PUBLIC = {
    **tables(fully_connected, bias_add, max_pool2d, avg_pool2d, max_pool3d, avg_pool3d, pool,
             dropout, flatten, one_hot_encoding, repeat, stack, unit_norm, maxout, softmax,
             spatial_softmax, scale_gradient, layers=True),
    **{f"contrib.{home}.{name}": f for name, f in _NAMED.items() for home in ("layers", "slim")}}
for _name, _function in _NAMED.items():        # without __name__, as stack and repeat expect
    _function.__doc__ = (f"tf.contrib.layers.fully_connected with another activation_fn. "
                         f"TF: tf.contrib.layers.{_name}.")
