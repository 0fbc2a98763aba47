"""Batch normalisation as a layer: statistics of the batch in training, moving ones else.

Invariants
  1. Variables are gamma, beta (trained), moving_mean, moving_variance (kept by UPDATE_OPS).
  2. Updates of moving averages are made only where `training` may be true; whoever trains runs
     UPDATE_OPS.
  3. Images normalised over their channels take the fused op unless `fused` is False.

Thread: the one building the graph.  Source: Ioffe and Szegedy 2015 (renorm: Ioffe 2017); TF 1.15.

Example:
    y = tf.layers.batch_normalization(x, training=is_training)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = optimizer.minimize(loss)
"""
import math

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.control_flow.smart_cond import smart_cond, smart_constant_value
from pyflow.lib.layers import base
from pyflow.lib.math import reductions
from pyflow.lib.nn import norm_functions
from pyflow.lib.variables import state_functions
from pyflow.lib.variables.initializers import ones_initializer, zeros_initializer
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import activation_ops, binary_ops, unary_ops


def _composed(scale, offset, then_scale, then_offset):
    """x * scale + offset, then * then_scale + then_offset, as one scale and one offset."""
    if then_scale is not None:
        scale, offset = scale * then_scale, offset * then_scale
    return scale, offset if then_offset is None else offset + then_offset


class BatchNormalization(base.Layer):
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over all dimensions but `axis`.

    axis: int, or a list. momentum: the share that moving averages keep at a step. center, scale:
    whether there are beta and gamma. renorm: moving statistics correct the batch's in training,
    within renorm_clipping {"rmin", "rmax", "dmax"}. fused: None takes the fused op where it can.
    virtual_batch_size: examples whose statistics are taken together. adjustment: a function of
    the shape of `inputs` (a tensor) to (scale, bias), applied in training. Initializers,
    regularizers, constraints: as tf.get_variable's. TF: tf.layers.BatchNormalization."""

    def __init__(self, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True,
                 beta_initializer=zeros_initializer(), gamma_initializer=ones_initializer(),
                 moving_mean_initializer=zeros_initializer(),
                 moving_variance_initializer=ones_initializer(), beta_regularizer=None,
                 gamma_regularizer=None, beta_constraint=None, gamma_constraint=None, renorm=False,
                 renorm_clipping=None, renorm_momentum=0.99, fused=None, trainable=True,
                 virtual_batch_size=None, adjustment=None, name=None, **kwargs):
        super().__init__(trainable=trainable, name=name, **kwargs)
        self.axis = list(axis) if isinstance(axis, (list, tuple)) else axis
        self.momentum, self.epsilon, self.center, self.scale = momentum, epsilon, center, scale
        self.beta_constraint, self.gamma_constraint = beta_constraint, gamma_constraint
        self.beta_of = (beta_initializer, beta_regularizer, beta_constraint)
        self.gamma_of = (gamma_initializer, gamma_regularizer, gamma_constraint)
        self.moving_mean_initializer = moving_mean_initializer
        self.moving_variance_initializer = moving_variance_initializer
        self.renorm, self.renorm_momentum = renorm, renorm_momentum
        self.renorm_clipping = dict(renorm_clipping or {})
        self.fused, self.virtual_batch_size, self.adjustment = fused, virtual_batch_size, adjustment
        self._check_options()
        self.gamma = self.beta = self.moving_mean = self.moving_variance = None

    def _check_options(self):
        wrong = set(self.renorm_clipping) - {"rmax", "rmin", "dmax"}
        if wrong:
            raise ValueError(f"renorm_clipping {self.renorm_clipping} contains keys not in "
                             "{'rmax', 'rmin', 'dmax'}")
        for what, given in (("renorm=True", self.renorm),
                            ("`virtual_batch_size`", self.virtual_batch_size is not None),
                            ("`adjustment`", self.adjustment is not None)):
            if self.fused and given:
                raise ValueError(f"fused=True cannot be used with {what}")
        if self.virtual_batch_size is not None:
            if not self.virtual_batch_size > 0:
                raise ValueError("virtual_batch_size must be a positive integer that divides the "
                                 f"true batch size, got {self.virtual_batch_size}")
            for what, given in (("renorm", self.renorm), ("adjustment", self.adjustment)):
                if given:
                    raise ValueError(f"When using virtual_batch_size, {what} cannot be used")

    # -------------------------------------------------------------------------------- variables
    def build(self, input_shape):
        """Makes the variables for inputs of that shape."""
        shape = TensorShape(input_shape)
        if shape.ndims is None:
            raise ValueError(f"Layer {self.name}: the rank of the inputs must be known, got shape "
                             f"{shape}")
        given = self.axis if isinstance(self.axis, list) else [self.axis]
        axes = [axis + shape.ndims if axis < 0 else axis for axis in given]
        if any(not 0 <= axis < shape.ndims for axis in axes) or len(set(axes)) != len(axes):
            raise ValueError(f"Layer {self.name}: invalid axis {self.axis} for inputs of shape "
                             f"{shape}")
        self.axis = axes
        sizes = {axis: base.channel_size(f"Layer {self.name}", shape, axis) for axis in axes}
        self._choose_fused(shape.ndims)
        self.input_spec = base.InputSpec(ndim=shape.ndims, axes=sizes)
        param = [sizes[axes[0]]] if len(axes) == 1 else \
            [sizes.get(i, 1) for i in range(shape.ndims)]
        if self.virtual_batch_size is not None:
            param = [sizes.get(i, 1) for i in range(shape.ndims)]
            param.insert(1, 1)
            self.axis = [axis + 1 for axis in axes]
        self._add_variables(param)
        self.built = True

    def _choose_fused(self, ndims):
        able = ndims == 4 and self.axis in ([1], [3]) and not self.renorm and \
            self.virtual_batch_size is None and self.adjustment is None
        if self.fused is None:
            self.fused = able
        if self.fused and not able:
            raise ValueError("Batch normalization layers support 4D input with a single axis 1 or "
                             f"3 only when fused; got {ndims}D input and axis {self.axis}")

    @property
    def _param_dtype(self):
        low = self._dtype in ("float16", "bfloat16")
        return "float32" if low or self._dtype is None else self._dtype

    def _add_variables(self, shape):
        dtype = self._param_dtype

        def learnt(name, of):
            return self.add_weight(name, shape, dtype, *of[:2], True, of[2])

        def kept(name, initializer, shape=shape):
            return self.add_weight(name, shape, dtype, initializer, None, False)
        self.gamma = learnt("gamma", self.gamma_of) if self.scale else None
        self.beta = learnt("beta", self.beta_of) if self.center else None
        self._set_scope()
        partitioner = self._scope.partitioner       # what is kept is assigned whole
        self._scope.set_partitioner(None)
        try:
            self._add_kept(kept)
        finally:
            self._scope.set_partitioner(partitioner)

    def _add_kept(self, kept):
        self.moving_mean = kept("moving_mean", self.moving_mean_initializer)
        self.moving_variance = kept("moving_variance", self.moving_variance_initializer)
        if self.renorm:
            def root(*args, **kwargs):
                return unary_ops.Sqrt(self.moving_variance_initializer(*args, **kwargs))
            self.moving_stddev = kept("moving_stddev", root)
            self.renorm_mean = kept("renorm_mean", self.moving_mean_initializer)
            self.renorm_stddev = kept("renorm_stddev", root)

    # ------------------------------------------------------------------------------------ calls
    def call(self, inputs, training=False):
        """inputs: floats; training: bool, 0, 1 or a scalar bool tensor."""
        if self.fused:
            return self._fused(inputs, training)
        if self.virtual_batch_size is not None:
            return self._virtual(inputs, training)
        return self._plain(inputs, training)

    def _fused(self, inputs, training):
        known = smart_constant_value(training)
        layout = "NCHW" if self.axis == [1] else "NHWC"
        ones, zeros = tensors.ones, tensors.zeros
        size = self.moving_mean.shape.as_list()
        gamma = self.gamma if self.scale else ones(size, self._param_dtype)
        beta = self.beta if self.center else zeros(size, self._param_dtype)

        def on_batch():
            return norm_functions.fused_batch_norm(inputs, gamma, beta, epsilon=self.epsilon,
                                                   data_format=layout)

        def on_moving():
            return norm_functions.fused_batch_norm(
                inputs, gamma, beta, mean=self.moving_mean, variance=self.moving_variance,
                epsilon=self.epsilon, is_training=False, data_format=layout)

        outputs, mean, variance = smart_cond(training, on_batch, on_moving)
        if known is not False:
            kept = self.momentum if known else smart_cond(
                training, lambda: ops.convert_to_tensor(self.momentum, dtypes.float32),
                lambda: ops.convert_to_tensor(1.0, dtypes.float32))
            self.add_update(self._moved(self.moving_mean, mean, kept), inputs)
            self.add_update(self._moved(self.moving_variance, variance, kept), inputs)
        return outputs

    def _moved(self, variable, value, momentum):
        """variable -= (variable - value) * (1 - momentum)."""
        with ops.name_scope("AssignMovingAvg", values=[variable, value]) as scope:
            with ops.colocate_with(variable.op):
                decay = ops.convert_to_tensor(1.0 - momentum, name="decay")
                decay = tensors.cast(decay, variable.dtype.base_dtype)
                delta = (variable - tensors.cast(value, variable.dtype.base_dtype)) * decay
                return state_functions.assign_sub(variable, delta, name=scope)

    # -------------------------------------------------------------------- where nothing is fused
    def _plain(self, inputs, training):
        """The same by ordinary ops; self.axis counts the dimension of virtual batches."""
        dtype, low = inputs.dtype, inputs.dtype in (dtypes.float16, dtypes.bfloat16)
        x = tensors.cast(inputs, dtypes.float32) if low else inputs
        scale, offset = self._wide(self.gamma, x), self._wide(self.beta, x)
        if smart_constant_value(training) is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            if self.adjustment is not None:
                scale, offset = _composed(*self._adjusted(x, training), scale, offset)
            mean, variance = self._statistics(x, training)
            for_mean, for_variance = self._for_moving(mean, variance)
            if self.renorm:
                r, d, for_mean, for_variance = self._renormed(for_mean, for_variance, training)
                scale, offset = _composed(self._wide(r, x), self._wide(d, x), scale, offset)
            self._add_updates(inputs, training, for_mean, for_variance)
        outputs = norm_functions.batch_normalization(
            x, self._wide(mean, x), self._wide(variance, x), offset, scale, self.epsilon)
        outputs = tensors.cast(outputs, dtype) if low else outputs
        outputs.set_shape(inputs.shape)
        return outputs

    def _virtual(self, inputs, training):
        """Statistics of the examples of one virtual batch at a time: one dimension more."""
        shape, sizes = tensors.shape_internal(inputs), inputs.shape.as_list()
        split = tensors.reshape(
            inputs, tensors.concat([[self.virtual_batch_size, -1], shape[1:]], 0))
        split.set_shape([self.virtual_batch_size, None, *sizes[1:]])
        outputs = tensors.reshape(self._plain(split, training),
                                  tensors.concat([[-1], shape[1:]], 0))
        outputs.set_shape(sizes)
        return outputs

    def _wide(self, value, x):
        """`value` of the channels, shaped to broadcast to `x`."""
        ndims = x.shape.ndims
        if value is None or len(value.shape) == ndims or self.axis == [ndims - 1]:
            return value
        sizes = [1] * ndims
        sizes[self.axis[0]] = x.shape.as_list()[self.axis[0]]
        return tensors.reshape(value, sizes)

    def _statistics(self, x, training):
        """Mean and variance of the batch, or the moving ones where it is not training."""
        virtual = self.virtual_batch_size is not None
        others = [i for i in range(x.shape.ndims)
                  if i not in self.axis and not (virtual and i == 1)]
        of_batch = norm_functions.moments(tensors.cast(x, self._param_dtype), others,
                                          keep_dims=virtual or len(self.axis) > 1)
        moving = (self.moving_mean, self.moving_variance)
        return [smart_cond(training, lambda i=i: identity_ops.Identity(of_batch[i]),
                           lambda i=i: identity_ops.Identity(moving[i])) for i in range(2)]

    def _for_moving(self, mean, variance):
        """What the moving averages take: the means over virtual batches."""
        if self.virtual_batch_size is None:
            return mean, variance
        return (reductions.reduce_mean(mean, 1, keepdims=True),
                reductions.reduce_mean(variance, 1, keepdims=True))

    def _adjusted(self, x, training):
        factor, bias = self.adjustment(tensors.shape_internal(x))
        return (smart_cond(training, lambda: factor, lambda: tensors.ones_like(factor)),
                smart_cond(training, lambda: bias, lambda: tensors.zeros_like(bias)))

    def _add_updates(self, inputs, training, mean, variance):
        def update(variable, make):
            self.add_update(smart_cond(training, make, lambda: identity_ops.Identity(variable)),
                            inputs)

        def moved_variance():
            if not self.renorm:
                return self._moved(self.moving_variance, variance, self.momentum)
            stddev = self._moved(self.moving_stddev, unary_ops.Sqrt(variance + self.epsilon),
                                 self.momentum)
            kept = activation_ops.Relu(stddev * stddev - self.epsilon)
            with ops.name_scope("AssignNewValue") as scope:
                return state_functions.assign(self.moving_variance, kept, name=scope)

        update(self.moving_mean, lambda: self._moved(self.moving_mean, mean, self.momentum))
        update(self.moving_variance, moved_variance)

    def _renormed(self, mean, variance, training):
        """r and d of the paper, and what the moving averages take once these are moved."""
        stddev = unary_ops.Sqrt(variance + self.epsilon)
        least = binary_ops.Maximum(self.renorm_stddev, math.sqrt(self.epsilon))
        r, d = stddev / least, (mean - self.renorm_mean) / least
        with ops.control_dependencies([r, d]):
            mean, stddev = identity_ops.Identity(mean), identity_ops.Identity(stddev)
        rmin, rmax, dmax = (self.renorm_clipping.get(key) for key in ("rmin", "rmax", "dmax"))
        r = r if rmin is None else binary_ops.Maximum(r, rmin)
        r = r if rmax is None else binary_ops.Minimum(r, rmax)
        if dmax is not None:
            d = binary_ops.Minimum(binary_ops.Maximum(d, -dmax), dmax)
        r = smart_cond(training, lambda: r, lambda: tensors.ones_like(r))
        d = smart_cond(training, lambda: d, lambda: tensors.zeros_like(d))
        moved = [self._moved_if(self.renorm_mean, mean, training),
                 self._moved_if(self.renorm_stddev, stddev, training)]
        with ops.control_dependencies(moved):
            kept = identity_ops.Identity(mean), identity_ops.Identity(variance)
        return (identity_ops.StopGradient(r, name="renorm_r"),
                identity_ops.StopGradient(d, name="renorm_d"), *kept)

    def _moved_if(self, variable, value, training):
        value = identity_ops.Identity(value)
        return smart_cond(
            training, lambda: self._moved(variable, value, self.renorm_momentum),
            lambda: identity_ops.Identity(variable))

    def compute_output_shape(self, input_shape):
        """The inputs'."""
        return TensorShape(input_shape)


def batch_normalization(inputs, axis=-1, momentum=0.99, epsilon=1e-3, center=True, scale=True,
                        beta_initializer=zeros_initializer(), gamma_initializer=ones_initializer(),
                        moving_mean_initializer=zeros_initializer(),
                        moving_variance_initializer=ones_initializer(), beta_regularizer=None,
                        gamma_regularizer=None, beta_constraint=None, gamma_constraint=None,
                        training=False, trainable=True, name=None, reuse=None, renorm=False,
                        renorm_clipping=None, renorm_momentum=0.99, fused=None,
                        virtual_batch_size=None, adjustment=None):
    """Batch normalisation, with new variables or those of layer `name` (reuse).

    inputs: floats, channels at `axis`. training: bool or scalar bool tensor: statistics of the
    batch, and updates of the moving ones in UPDATE_OPS, which the training op must depend on.
    Others: as tf.layers.BatchNormalization's. TF: tf.layers.batch_normalization.
    ValueError for an axis that is not there, or of unknown size.

        >>> y = tf.layers.batch_normalization(tf.ones([8, 3]), training=True, name="norm")
        >>> [op.name for op in tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
        ['norm/AssignMovingAvg:0', 'norm/AssignMovingAvg_1:0']
    """
    layer = BatchNormalization(
        axis, momentum, epsilon, center, scale, beta_initializer, gamma_initializer,
        moving_mean_initializer, moving_variance_initializer, beta_regularizer, gamma_regularizer,
        beta_constraint, gamma_constraint, renorm, renorm_clipping, renorm_momentum, fused,
        trainable, virtual_batch_size, adjustment, name, _reuse=reuse, _scope=name)
    return layer.apply(inputs, training=training)


PUBLIC = {"layers.BatchNormalization": BatchNormalization,
          "layers.batch_normalization": batch_normalization}
