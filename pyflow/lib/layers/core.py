"""Layers of plain products, of dropping and of flattening: Dense, Dropout, Flatten.

Functions make a layer and call it once; `reuse` finds the variables of one of the same `name`.
Thread: the one building the graph.  Source: TF 1.15 tf.layers.

Example:
    hidden = tf.layers.dense(x, 100, activation=tf.nn.relu)
    logits = tf.layers.dense(tf.layers.dropout(hidden, training=is_training), 10)
"""
import math

from pyflow.framework import dtypes
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.control_flow.smart_cond import smart_cond
from pyflow.lib.layers import base
from pyflow.lib.math import matmul_functions
from pyflow.lib.nn import nn_functions, norm_functions
from pyflow.lib.variables.initializers import zeros_initializer
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops


class Dense(base.Layer):
    """activation(inputs . kernel + bias): `units` outputs of the inputs' last dimension.

    units: int. activation: a function of a tensor, None for none. use_bias: whether there is one.
    Variables `kernel` [in, units], `bias` [units] of the inputs' dtype; their initializers (the
    scope's where None), regularizers and constraints as tf.get_variable's; activity_regularizer: a
    loss of the result. trainable, name, _reuse: as tf.layers.Layer's.
    ValueError for inputs of rank below 2 or an unknown last dimension. TF: tf.layers.Dense."""

    def __init__(self, units, activation=None, use_bias=True, kernel_initializer=None,
                 bias_initializer=zeros_initializer(), kernel_regularizer=None,
                 bias_regularizer=None, activity_regularizer=None, kernel_constraint=None,
                 bias_constraint=None, trainable=True, name=None, **kwargs):
        super().__init__(trainable=trainable, name=name,
                         activity_regularizer=activity_regularizer, **kwargs)
        self.units = int(units)
        self.activation, self.use_bias = activation, use_bias
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self.kernel_regularizer, self.bias_regularizer = kernel_regularizer, bias_regularizer
        self.kernel_constraint, self.bias_constraint = kernel_constraint, bias_constraint
        self.input_spec = base.InputSpec(min_ndim=2)
        self.kernel = self.bias = None

    def build(self, input_shape):
        """Makes kernel and bias for inputs of that shape."""
        if self._dtype is not None and not dtypes.as_dtype(self._dtype).is_floating and \
                not dtypes.as_dtype(self._dtype).is_complex:
            raise TypeError("Unable to build `Dense` layer with non-floating point dtype "
                            f"{self._dtype}: cast the inputs with tf.cast(x, tf.float32)")
        size = base.channel_size(f"Dense layer {self.name}", input_shape, -1)
        self.input_spec = base.InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self.add_weight("kernel", [size, self.units],
                                      initializer=self.kernel_initializer,
                                      regularizer=self.kernel_regularizer,
                                      constraint=self.kernel_constraint)
        if self.use_bias:
            self.bias = self.add_weight("bias", [self.units], initializer=self.bias_initializer,
                                        regularizer=self.bias_regularizer,
                                        constraint=self.bias_constraint)
        self.built = True

    def call(self, inputs):
        """inputs: floats [..., in]; the result is [..., units]."""
        if inputs.shape.ndims > 2:
            outputs = matmul_functions.tensordot(inputs, self.kernel, [[inputs.shape.ndims - 1],
                                                                       [0]])
            outputs.set_shape(inputs.shape[:-1].concatenate(self.units))
        else:
            outputs = matmul_functions.matmul(inputs, self.kernel)
        if self.use_bias:
            outputs = norm_functions.bias_add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape):
        """[..., units]."""
        shape = TensorShape(input_shape).with_rank_at_least(2)
        base.channel_size(f"Dense layer {self.name}", shape, -1)
        return shape[:-1].concatenate(self.units)


def dense(inputs, units, activation=None, use_bias=True, kernel_initializer=None,
          bias_initializer=zeros_initializer(), kernel_regularizer=None, bias_regularizer=None,
          activity_regularizer=None, kernel_constraint=None, bias_constraint=None, trainable=True,
          name=None, reuse=None):
    """activation(inputs . kernel + bias) with new variables, or those of layer `name` (reuse).

    inputs: floats [..., in]; the result is [..., units]. activation: a function of the result,
    None for none; use_bias: whether a bias is added. kernel_initializer (None: the variable scope's) and
    bias_initializer make the variables; kernel_regularizer, bias_regularizer and
    activity_regularizer: functions whose results are losses, in REGULARIZATION_LOSSES;
    kernel_constraint, bias_constraint: functions of a variable after an update. trainable: whether
    optimizers find the variables.
    reuse: True finds the variables, tf.AUTO_REUSE finds or makes them. TF: tf.layers.dense.
    ValueError for shapes that do not fit.

        >>> y = tf.layers.dense(tf.ones([2, 3]), 4, activation=tf.nn.relu, name="hidden")
        >>> y.shape.as_list(), [v.name for v in tf.global_variables()]
        ([2, 4], ['hidden/kernel:0', 'hidden/bias:0'])
    """
    layer = Dense(units, activation, use_bias, kernel_initializer, bias_initializer,
                  kernel_regularizer, bias_regularizer, activity_regularizer, kernel_constraint,
                  bias_constraint, trainable, name, _scope=name, _reuse=reuse)
    return layer.apply(inputs)


class Dropout(base.Layer):
    """Zeroes a part of its inputs in training, and scales the others up; else the identity.

    rate: the part, in [0, 1), a number or tensor. noise_shape: where decisions are shared, as
    tf.nn.dropout's; None in it is the inputs' size. seed: as tf.random_uniform's.
    TF: tf.layers.Dropout."""

    def __init__(self, rate=0.5, noise_shape=None, seed=None, name=None, **kwargs):
        super().__init__(name=name, **kwargs)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def _noise_shape(self, inputs):
        if self.noise_shape is None:
            return None
        sizes = tensors.shape_internal(inputs)
        return [sizes[i] if size is None else size for i, size in enumerate(self.noise_shape)] \
            if isinstance(self.noise_shape, (list, tuple)) else self.noise_shape

    def call(self, inputs, training=False):
        """inputs: floats of any shape; training: bool or a scalar bool tensor."""
        def dropped():
            return nn_functions.dropout(inputs, noise_shape=self._noise_shape(inputs),
                                        seed=self.seed, rate=self.rate)
        return smart_cond(training, dropped, lambda: identity_ops.Identity(inputs))

    def compute_output_shape(self, input_shape):
        """The inputs'."""
        return TensorShape(input_shape)


def dropout(inputs, rate=0.5, noise_shape=None, seed=None, training=False, name=None):
    """`inputs` with elements zeroed at random where `training`, else as they are.

    inputs: floats of any shape. rate: the part that is dropped. training: bool or scalar bool
    tensor. noise_shape, seed: as tf.nn.dropout's. TF: tf.layers.dropout.
    ValueError for shapes that do not fit.

        >>> y = tf.layers.dropout(tf.ones([4]), rate=0.5)          # not in training
        >>> tf.Session().run(y)
        array([1., 1., 1., 1.], dtype=float32)
    """
    return Dropout(rate, noise_shape, seed, name).apply(inputs, training=training)


class Flatten(base.Layer):
    """Each example as one row. data_format "channels_first": channels move last before.
    TF: tf.layers.Flatten."""

    def __init__(self, data_format=None, **kwargs):
        super().__init__(**kwargs)
        self.data_format = checked_data_format(data_format or "channels_last")
        self.input_spec = base.InputSpec(min_ndim=1)

    def call(self, inputs):
        """inputs: [batch, ...]; the result is [batch, elements of an example]."""
        rank = inputs.shape.ndims
        if self.data_format == "channels_first" and rank is not None and rank > 1:
            inputs = tensors.transpose(inputs, [0, *range(2, rank), 1])
        batch = inputs.shape.as_list()[0] if rank else None
        outputs = tensors.reshape(
            inputs, [batch, -1] if batch else [tensors.shape(inputs)[0], -1])
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return outputs

    def compute_output_shape(self, input_shape):
        """[batch, product of the others], None where one is unknown."""
        sizes = TensorShape(input_shape).as_list()
        known = sizes and all(size is not None for size in sizes[1:])
        return TensorShape([sizes[0] if sizes else None, math.prod(sizes[1:]) if known else None])


def flatten(inputs, name=None, data_format="channels_last"):
    """`inputs` [batch, ...] as [batch, elements of an example]. TF: tf.layers.flatten.

    Any dtype; ValueError for scalars and unknown ranks.

        >>> tf.layers.flatten(tf.zeros([2, 3, 4])).shape.as_list()
        [2, 12]
    """
    return Flatten(data_format=data_format, name=name).apply(inputs)


def checked_data_format(data_format):
    """"channels_last" or "channels_first", in lower case. ValueError for others."""
    low = str(data_format).lower()
    if low not in ("channels_last", "channels_first"):
        raise ValueError('The `data_format` argument must be one of "channels_first", '
                         f'"channels_last". Received: {data_format}')
    return low


PUBLIC = {
    "layers.Dense": Dense, "layers.dense": dense, "layers.Dropout": Dropout,
    "layers.dropout": dropout, "layers.Flatten": Flatten, "layers.flatten": flatten,
}
