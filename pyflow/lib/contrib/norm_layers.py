"""Normalisation in tf.contrib.layers: batch_norm, layer_norm, instance_norm, group_norm.

Invariants
  1. Variables are beta, gamma (trained), and of batch_norm moving_mean, moving_variance (kept);
     gamma only where `scale` says so, which batch_norm does not by default.
  2. batch_norm's updates join updates_collections, or with None run before its result is there.

Thread: the one building the graph.
Source: TF 1.15 tf.contrib.layers; Ioffe and Szegedy 2015; Ba et al. 2016; Ulyanov et al. 2016; Wu
and He 2018.

Example:
    net = slim.conv2d(net, 32, [3, 3], normalizer_fn=slim.batch_norm,
                      normalizer_params={"is_training": is_training, "decay": 0.99})
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.contrib import layer_tools as tools
from pyflow.lib.contrib.arg_scope import add_arg_scope, tables
from pyflow.lib.contrib.model_variables import model_variable
from pyflow.lib.control_flow.smart_cond import smart_cond, smart_constant_value
from pyflow.lib.layers import normalization
from pyflow.lib.nn import nn_functions, norm_functions, weighted_functions
from pyflow.lib.variables.initializers import ones_initializer, zeros_initializer
from pyflow.lib.variables.moving_average import assign_moving_average
from pyflow.lib.variables.variable_scope import get_variable_scope, variable_scope
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import unary_ops

_STARTS = {"beta": zeros_initializer(), "gamma": ones_initializer(),
           "moving_mean": zeros_initializer(), "moving_variance": ones_initializer()}


class _Parameters:
    """Makes a normalisation's variables in the current scope."""

    def __init__(self, shape, dtype, initializers=None, regularizers=None, collections=None,
                 trainable=True):
        self.shape, self.dtype, self.collections = shape, dtype, collections
        self.initializers, self.regularizers = initializers or {}, regularizers or {}
        self.trainable = trainable

    def make(self, name, wanted=True):
        """The variable, or None."""
        if not wanted:
            return None
        learnt = name in ("beta", "gamma")
        return model_variable(
            name, self.shape, self.dtype, self.initializers.get(name, _STARTS[name]),
            self.regularizers.get(name) if learnt else None, self.trainable and learnt,
            tools.get_variable_collections(self.collections, name))

    def moving(self):
        """moving_mean and moving_variance, never in parts."""
        with variable_scope(get_variable_scope()) as scope:
            scope.set_partitioner(None)
            return self.make("moving_mean"), self.make("moving_variance")


@add_arg_scope
def batch_norm(inputs, decay=0.999, center=True, scale=False, epsilon=0.001, activation_fn=None,
               param_initializers=None, param_regularizers=None,
               updates_collections=GraphKeys.UPDATE_OPS, is_training=True, reuse=None,
               variables_collections=None, outputs_collections=None, trainable=True,
               batch_weights=None, fused=None, data_format="NHWC", zero_debias_moving_mean=False,
               scope=None, renorm=False, renorm_clipping=None, renorm_decay=0.99, adjustment=None):
    """(inputs - mean) / sqrt(variance + epsilon) * gamma + beta, over all dimensions but channels.

    inputs: floats of rank 2 or more, channels last, or second with "NCHW". Mean and variance are
    the batch's where is_training (bool or scalar bool tensor), else the moving ones, which keep
    the share `decay` at an update. param_initializers, param_regularizers: {variable: function}.
    updates_collections: where updates go; None runs them at once. batch_weights: [batch], how much
    each example counts. fused: False for plain ops. zero_debias_moving_mean: corrects the moving
    mean for its beginning at zero. renorm, renorm_clipping, renorm_decay, adjustment: as
    tf.layers.batch_normalization's. ValueError for renorm or adjustment beside what they do not go
    with. TF: tf.contrib.layers.batch_norm.

        >>> y = tf.contrib.layers.batch_norm(tf.ones([8, 3]), scope="norm")
        >>> [v.op.name for v in tf.global_variables()]
        ['norm/beta', 'norm/moving_mean', 'norm/moving_variance']
    """
    inputs = ops.convert_to_tensor(inputs)
    first = tools.checked_format(data_format) == "channels_first"
    rank = inputs.shape.ndims
    fused = fused is None or fused
    default = updates_collections == GraphKeys.UPDATE_OPS and batch_weights is None and \
        not zero_debias_moving_mean
    can_fuse = batch_weights is None and not renorm and rank in (2, 4) and adjustment is None
    flat = fused and can_fuse and (rank == 2 or not default)
    if default and not flat:
        return _core(inputs, 1 if first else -1, locals())
    if renorm or adjustment is not None:
        raise ValueError("renorm and adjustment are not supported with batch_weights, "
                         "updates_collections or zero_debias_moving_mean")
    with variable_scope(scope, "BatchNorm", [inputs], reuse=reuse,
                        custom_getter=None if flat else tools.model_getter()) as sc:
        channels = tools.channel_dimension(inputs.shape, data_format, 2)
        parameters = _Parameters(
            [channels], dtypes.float32 if flat else inputs.dtype.base_dtype, param_initializers,
            param_regularizers, variables_collections, trainable)
        beta, gamma = parameters.make("beta", center), parameters.make("gamma", scale)
        moving = parameters.moving()
        if flat:
            outputs, batch = _fused(inputs, beta, gamma, moving, channels, epsilon, is_training,
                                    data_format)
            outputs = _updated(moving, lambda: batch, outputs, decay, zero_debias_moving_mean,
                               updates_collections, is_training)
            outputs = _of_shape(outputs, inputs) if rank == 2 else outputs
        else:
            outputs = _plain(inputs, beta, gamma, moving, first, locals())
        outputs.set_shape(inputs.shape)
        return tools.finished(outputs, sc.name, None, None, activation_fn, outputs_collections)


def _core(inputs, axis, given):
    """By the layer of tf.layers."""
    collections = given["variables_collections"]
    with variable_scope(given["scope"], "BatchNorm", [inputs], reuse=given["reuse"],
                        custom_getter=tools.model_getter()) as sc:
        starts = {**_STARTS, **(given["param_initializers"] or {})}
        penalties = given["param_regularizers"] or {}
        layer = normalization.BatchNormalization(
            axis, given["decay"], given["epsilon"], given["center"], given["scale"],
            beta_initializer=starts["beta"], gamma_initializer=starts["gamma"],
            moving_mean_initializer=starts["moving_mean"],
            moving_variance_initializer=starts["moving_variance"],
            beta_regularizer=penalties.get("beta"), gamma_regularizer=penalties.get("gamma"),
            renorm=given["renorm"], renorm_clipping=given["renorm_clipping"],
            renorm_momentum=given["renorm_decay"],
            fused=None if given["fused"] else False,
            trainable=given["trainable"], adjustment=given["adjustment"], name=sc.name, _scope=sc,
            _reuse=given["reuse"])
        outputs = layer.apply(inputs, training=given["is_training"])
        for name in ("moving_mean", "moving_variance", "beta", "gamma"):
            if getattr(layer, name) is not None:
                tools.add_to_collections(getattr(layer, name), collections, name)
        return tools.finished(outputs, sc.name, None, None, given["activation_fn"],
                              given["outputs_collections"])


def _fused(inputs, beta, gamma, moving, channels, epsilon, is_training, data_format):
    """(outputs, (mean, variance) of the batch) by the fused op; rows are images of one pixel."""
    if inputs.shape.ndims == 2:
        inputs = tensors.reshape(inputs, [-1, channels, 1, 1] if data_format == "NCHW" else
                                 [-1, 1, 1, channels])
    beta = tensors.zeros([channels]) if beta is None else beta
    gamma = tensors.ones([channels]) if gamma is None else gamma

    def on_batch():
        return norm_functions.fused_batch_norm(inputs, gamma, beta, epsilon=epsilon,
                                               data_format=data_format)

    def on_moving():
        return norm_functions.fused_batch_norm(inputs, gamma, beta, *moving, epsilon=epsilon,
                                               data_format=data_format, is_training=False)

    outputs, mean, variance = smart_cond(is_training, on_batch, on_moving)
    return outputs, (mean, variance)


def _of_shape(outputs, inputs):
    """Rows again, as `inputs`."""
    sizes = inputs.shape.as_list()
    return tensors.reshape(outputs, [-1, sizes[1]] if sizes[0] is None else sizes)


def _updated(moving, batch_of, outputs, decay, zero_debias, collections, is_training):
    """`outputs`, behind the updates where `collections` is None; else these join them."""
    if smart_constant_value(is_training) is False:
        return outputs

    def updates():
        mean, variance = batch_of()
        return (assign_moving_average(moving[0], mean, decay, zero_debias),
                assign_moving_average(moving[1], variance, decay, False))

    def forced():
        with ops.control_dependencies([update.op for update in updates()]):
            return identity_ops.Identity(outputs)

    if collections is None:
        return smart_cond(is_training, forced, lambda: outputs)
    for update in smart_cond(is_training, updates, lambda: tuple(
            identity_ops.Identity(v) for v in moving)):
        ops.add_to_collections(collections, update)
    return outputs


def _plain(inputs, beta, gamma, moving, first, given):
    """By ordinary ops: weighted examples, or updates that tf.layers does not make."""
    rank, weights = inputs.shape.ndims, given["batch_weights"]
    axes = [0, *range(2, rank)] if first else list(range(rank - 1))
    if weights is not None:
        weights = tensors.reshape(ops.convert_to_tensor(weights), [-1] + [1] * (rank - 1))
        mean, variance = weighted_functions.weighted_moments(inputs, axes, weights, keep_dims=first)
    else:
        mean, variance = norm_functions.moments(inputs, axes, keep_dims=first)
    channels = [given["channels"]]
    flat = (tensors.reshape(mean, channels), tensors.reshape(variance, channels))
    used = flat
    if smart_constant_value(given["is_training"]) is not True:
        used = smart_cond(given["is_training"], lambda: flat, lambda: tuple(
            identity_ops.Identity(v) for v in moving))

    def wide(value):
        return value if value is None or not first else \
            tensors.reshape(value, [1, *channels] + [1] * (rank - 2))

    outputs = norm_functions.batch_normalization(
        inputs, *(wide(v) for v in (*used, beta, gamma)), given["epsilon"])
    return _updated(moving, lambda: flat, outputs, given["decay"],
                    given["zero_debias_moving_mean"], given["updates_collections"],
                    given["is_training"])


@add_arg_scope
def layer_norm(inputs, center=True, scale=True, activation_fn=None, reuse=None,
               variables_collections=None, outputs_collections=None, trainable=True,
               begin_norm_axis=1, begin_params_axis=-1, scope=None):
    """Each example brought to mean 0 and variance 1 over the dimensions from begin_norm_axis on.

    inputs: floats of known rank. beta and gamma have the shape of the dimensions from
    begin_params_axis on, which must be known. ValueError for axes outside the rank.
    TF: tf.contrib.layers.layer_norm."""
    with variable_scope(scope, "LayerNorm", [inputs], reuse=reuse) as sc:
        inputs = ops.convert_to_tensor(inputs)
        rank, dtype = inputs.shape.ndims, inputs.dtype.base_dtype
        if rank is None:
            raise ValueError(f"Inputs {inputs.name} has undefined rank.")
        begin = begin_norm_axis + rank if begin_norm_axis < 0 else begin_norm_axis
        if begin_params_axis >= rank or begin >= rank:
            raise ValueError(f"begin_params_axis ({begin_params_axis}) and begin_norm_axis "
                             f"({begin}) must be < rank(inputs) ({rank})")
        shape = inputs.shape[begin_params_axis:]
        if not shape.is_fully_defined():
            raise ValueError(f"Inputs {inputs.name}: shape(inputs)[{begin_params_axis}:] is not "
                             f"fully defined: {inputs.shape}")
        parameters = _Parameters(shape.as_list(), dtype, None, None, variables_collections,
                                 trainable)
        beta, gamma = parameters.make("beta", center), parameters.make("gamma", scale)
        mean, variance = norm_functions.moments(inputs, list(range(begin, rank)), keep_dims=True)
        outputs = norm_functions.batch_normalization(
            inputs, mean, variance, beta, gamma, 1e-3 if dtype == dtypes.float16 else 1e-12)
        outputs.set_shape(inputs.shape)
        return tools.finished(outputs, sc.name, None, None, activation_fn, outputs_collections)


@add_arg_scope
def instance_norm(inputs, center=True, scale=True, epsilon=1e-6, activation_fn=None,
                  param_initializers=None, reuse=None, variables_collections=None,
                  outputs_collections=None, trainable=True, data_format="NHWC", scope=None):
    """Each channel of each example brought to mean 0 and variance 1 over its spatial dimensions.

    inputs: floats [batch, ..., channels], or [batch, channels, ...] with "NCHW". ValueError for a
    rank below 2, unknown channels, or another format. TF: tf.contrib.layers.instance_norm."""
    inputs = ops.convert_to_tensor(inputs)
    first, rank = tools.checked_format(data_format) == "channels_first", inputs.shape.ndims
    with variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as sc:
        channels = tools.channel_dimension(inputs.shape, data_format, 2)
        axes = list(range(2, rank)) if first else list(range(1, rank - 1))
        parameters = _Parameters([channels], inputs.dtype.base_dtype, param_initializers, None,
                                 variables_collections, trainable)
        beta, gamma = parameters.make("beta", center), parameters.make("gamma", scale)
        if first:
            beta, gamma = (v if v is None else tensors.reshape(
                v, [1, channels] + [1] * (rank - 2)) for v in (beta, gamma))
        mean, variance = norm_functions.moments(inputs, axes, keep_dims=True)
        outputs = norm_functions.batch_normalization(inputs, mean, variance, beta, gamma, epsilon,
                                                     name="instancenorm")
        return tools.finished(outputs, sc.name, None, None, activation_fn, outputs_collections)


@add_arg_scope
def group_norm(inputs, groups=32, channels_axis=-1, reduction_axes=(-3, -2), center=True,
               scale=True, epsilon=1e-6, activation_fn=None, param_initializers=None, reuse=None,
               variables_collections=None, outputs_collections=None, trainable=True, scope=None,
               mean_close_to_zero=False):
    """Each group of channels of an example brought to mean 0 and variance 1, over reduction_axes.

    inputs: floats; channels_axis, reduction_axes: their dimensions, of known sizes. groups must
    divide the channels, else ValueError. mean_close_to_zero: one pass over the data.
    TF: tf.contrib.layers.group_norm."""
    inputs = ops.convert_to_tensor(inputs)
    rank = inputs.shape.ndims
    if rank is None:
        raise ValueError(f"Inputs {inputs.name} has undefined rank.")
    axis = channels_axis + rank if channels_axis < 0 else channels_axis
    reduced = [a + rank if a < 0 else a for a in reduction_axes]
    sizes = inputs.shape.as_list()
    channels = _check_groups(inputs, sizes, axis, reduced, groups)
    dynamic = tensors.shape(inputs)
    sizes = [dynamic[i] if size is None else size for i, size in enumerate(sizes)]
    split = [groups, channels // groups]
    with variable_scope(scope, "GroupNorm", [inputs], reuse=reuse) as sc:
        parameters = _Parameters([channels], inputs.dtype.base_dtype, param_initializers, None,
                                 variables_collections, trainable)
        beta, gamma = (v if v is None else tensors.reshape(
            v, [1] * axis + split + [1] * (rank - axis - 1))
            for v in (parameters.make("beta", center), parameters.make("gamma", scale)))
        x = tensors.reshape(inputs, sizes[:axis] + split + sizes[axis + 1:])
        axes = [axis + 1] + [a + 1 if a > axis else a for a in reduced]
        if mean_close_to_zero:
            counts, sums, squares, _ = nn_functions.sufficient_statistics(x, axes, keep_dims=True)
            mean, variance = norm_functions.normalize_moments(counts, sums, squares, shift=None)
        else:
            mean, variance = norm_functions.moments(x, axes, keep_dims=True)
        gain = unary_ops.Rsqrt(variance + epsilon)
        gain = gain if gamma is None else gain * gamma
        offset = -mean * gain if beta is None else beta - mean * gain
        outputs = tensors.reshape(x * gain + offset, sizes)
        outputs.set_shape(inputs.shape)
        return tools.finished(outputs, sc.name, None, None, activation_fn, outputs_collections)


def _check_groups(inputs, sizes, axis, reduced, groups):
    """The number of channels. ValueError where the arguments of group_norm do not fit."""
    for a in (axis, *reduced):
        if not 0 <= a < len(sizes):
            raise ValueError(f"Axis is out of bounds: {a} of inputs of shape {inputs.shape}.")
        if sizes[a] is None:
            raise ValueError(f"Inputs {inputs.name} has undefined dimension {a}.")
    if axis in reduced:
        raise ValueError("reduction_axis must be mutually exclusive with channels_axis")
    if groups > sizes[axis]:
        raise ValueError(f"Invalid groups {groups} for {sizes[axis]} channels.")
    if sizes[axis] % groups:
        raise ValueError(f"{sizes[axis]} channels is not commensurate with {groups} groups.")
    return sizes[axis]


PUBLIC = tables(batch_norm, layer_norm, instance_norm, group_norm, layers=True)
