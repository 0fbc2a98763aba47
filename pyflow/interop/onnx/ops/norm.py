"""Normalisations: batch, instance, layer, group, RMS, Lp, LRN; dropout.

Batch normalisation of a trained model becomes FusedBatchNormV3, channels-last, which the fusing
pass knows; its constants are the model's."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value, channels_last, natural, scalar, sizes
from pyflow.interop.onnx.registry import converter


@converter("BatchNormalization")
def batch_normalization(node):
    training = node.attr("training_mode", 0) or node.opset < 7 and not node.attr("is_test", 0) \
        and len([o for o in node.outputs if o]) > 1
    if training:
        return _training(node)
    x, rank = node.value(0), node.rank(0)
    if node.attr("spatial", 1) == 0:
        raise node.unsupported("spatial=0: statistics per element")
    epsilon = node.attr("epsilon", 1e-5)
    if rank == 4 and _fusible(node):
        made = _fused(x.last, *[node.x(i) for i in range(1, 5)], epsilon)
        return Value(made, channels_last(rank))
    order = channels_last(rank) if rank > 2 else natural(rank)
    tensor = x.ordered(order)
    scale, offset, mean, variance = [node.x(i) for i in range(1, 5)]
    return Value(_normal(tensor, scale, offset, mean, variance, epsilon), order)


def _fusible(node):
    """Whether FusedBatchNormV3 does: its gradients do not reach the statistics."""
    return all(node.value(i).dtype is tf.float32 for i in range(5)) and all(
        node.known(i) is not None for i in (3, 4))


def rescaled(value, factor, shift):
    """The value times a constant per channel plus one, if it is a batch norm that can take them.

    factor, shift: Values, either may be None.  Caffe's networks normalise, then scale."""
    op = None if value.is_array else value.tensor.op
    if op is None or op.type != "FusedBatchNormV3" or op.attr("is_training"):
        return None
    scale, offset = (t.op.attr("value") if t.op.type == "Const" else None for t in op.inputs[1:3])
    numbers = [_per_channel(v, value.rank, len(scale)) if scale is not None else None
               for v in (factor, shift)]
    if scale is None or offset is None or any(
            n is None and v is not None for n, v in zip(numbers, (factor, shift))):
        return None
    if factor is not None:
        scale, offset = scale * numbers[0], offset * numbers[0]
    if shift is not None:
        offset = offset + numbers[1]
    made = _fused(op.inputs[0], scale, offset, op.inputs[3], op.inputs[4], op.attr("epsilon"))
    return Value(made, value.order)


def _fused(x, scale, offset, mean, variance, epsilon):
    """FusedBatchNormV3 with the model's own epsilon: tf.nn.fused_batch_norm raises a small one."""
    return tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=mean,
                                       variance=variance, epsilon=epsilon, is_training=False)[0]


def _per_channel(value, rank, channels):
    """A constant of one number per channel (axis 1 of `rank`) as a vector, else None."""
    if value is None or not value.is_array or value.rank > rank:
        return None
    shape = (1,) * (rank - value.rank) + value.shape
    if shape != (1, channels) + (1,) * (rank - 2):
        return None
    return value.array.reshape(-1)


def _normal(x, scale, offset, mean, variance, epsilon):
    wide = variance.dtype
    factor = tf.cast(scale, wide) * tf.rsqrt(variance + scalar(epsilon, variance))
    made = (tf.cast(x, wide) - tf.cast(mean, wide)) * factor + tf.cast(offset, wide)
    return tf.cast(made, x.dtype)


def _training(node):
    x, rank = node.value(0), node.rank(0)
    order = channels_last(rank) if rank > 2 else natural(rank)
    tensor, momentum = x.ordered(order), node.attr("momentum", 0.9)
    mean, variance = tf.nn.moments(tensor, list(range(rank - 1)))
    made = _normal(tensor, node.x(1), node.x(2), mean, variance, node.attr("epsilon", 1e-5))

    def running(old, new):
        return old * scalar(momentum, old) + tf.cast(new, old.dtype) * scalar(1 - momentum, old)
    return [Value(made, order), running(node.x(3), mean), running(node.x(4), variance), mean,
            variance][:len(node.outputs)]


@converter("InstanceNormalization")
def instance_normalization(node):
    rank = node.rank(0)
    order = channels_last(rank)
    x = node.value(0).ordered(order)
    mean, variance = tf.nn.moments(x, list(range(1, rank - 1)), keep_dims=True)
    made = (x - mean) * tf.rsqrt(variance + scalar(node.attr("epsilon", 1e-5), variance))
    return Value(made * node.x(1) + node.x(2), order)


def _wide(node, x):
    """x in the type statistics are computed in."""
    if node.attr("stash_type", 1) == 1 and x.dtype.size < 4:
        return tf.cast(x, tf.float32)
    return x


@converter("LayerNormalization")
def layer_normalization(node):
    rank = node.rank(0)
    axis = node.axis(node.attr("axis", -1), rank)
    x = _wide(node, node.x(0))
    axes = list(range(axis, rank))
    mean = tf.reduce_mean(x, axes, keepdims=True)
    centred = x - mean
    variance = tf.reduce_mean(centred * centred, axes, keepdims=True)
    inverse = tf.rsqrt(variance + scalar(node.attr("epsilon", 1e-5), variance))
    made = tf.cast(centred * inverse, node.value(0).dtype) * node.x(1)
    if node.has(2):
        made = made + node.x(2)
    return [made, mean, inverse][:len(node.outputs)]


@converter("RMSNormalization")
def rms_normalization(node):
    rank = node.rank(0)
    axes = list(range(node.axis(node.attr("axis", -1), rank), rank))
    x = _wide(node, node.x(0))
    power = tf.reduce_mean(x * x, axes, keepdims=True)
    made = x * tf.rsqrt(power + scalar(node.attr("epsilon", 1e-5), power))
    return tf.cast(tf.cast(made, node.value(0).dtype) * node.x(1), node.value(1).dtype)


@converter("GroupNormalization", since=18)
def group_normalization(node):
    """Scale and bias are per group or, since opset 21, per channel; models have either under any
    opset, so their size tells."""
    groups, x = node.attr("num_groups"), _wide(node, node.x(0))
    shape = node.shape(0)
    if groups < 1 or shape[1] is not None and shape[1] % groups:
        raise node.error(f"{shape[1]} channels do not divide into {groups} groups")
    own = sizes(x)
    each = own[1:2] // groups if shape[1] is None else [shape[1] // groups]
    grouped = tf.reshape(x, tf.concat([own[:1], [groups], each, [-1]], 0))
    mean, variance = tf.nn.moments(grouped, [2, 3], keep_dims=True)
    made = (grouped - mean) * tf.rsqrt(variance + scalar(node.attr("epsilon", 1e-5), variance))
    for i, what in ((1, "scale"), (2, "bias")):
        each = [1, groups, -1, 1] if _is_per_channel(node, i, what, groups, shape[1]) else \
            [1, groups, 1, 1]
        part = tf.reshape(node.x(i), each)
        made = tf.cast(made, node.value(0).dtype) * part if i == 1 else made + part
    return tf.reshape(made, own)


def _is_per_channel(node, i, what, groups, channels):
    have = node.shape(i)
    if have == (groups,):
        return False
    if have not in ((channels,), (None,)) and channels is not None:
        raise node.error(f"the {what} has shape {have}, expected ({groups},), a number a group, or "
                         f"({channels},), one a channel")
    return have != (None,) or node.opset >= 21


@converter("MeanVarianceNormalization")
def mean_variance_normalization(node):
    axes = node.attr("axes", [0, 2, 3])
    x = node.x(0)
    mean = tf.reduce_mean(x, axes, keepdims=True)
    centred = x - mean
    deviation = tf.sqrt(tf.reduce_mean(centred * centred, axes, keepdims=True))
    return centred / (deviation + scalar(1e-9, x))


@converter("LpNormalization")
def lp_normalization(node):
    x, axis = node.x(0), node.axis(node.attr("axis", -1), node.rank(0))
    if node.attr("p", 2) == 1:
        length = tf.reduce_sum(tf.abs(x), axis, keepdims=True)
    else:
        length = tf.sqrt(tf.reduce_sum(x * x, axis, keepdims=True))
    return tf.div_no_nan(x, length)


@converter("LRN")
def lrn(node):
    size = node.attr("size")
    alpha, beta, bias = node.attr("alpha", 1e-4), node.attr("beta", 0.75), node.attr("bias", 1.0)
    x = node.value(0)
    order = channels_last(node.rank(0))
    tensor = x.ordered(order)
    if size % 2 and x.rank == 4 and x.dtype is tf.float32:
        return Value(tf.nn.lrn(tensor, size // 2, bias, alpha / size, beta), order)
    channels = x.shape[1]
    if channels is None or channels > 1 << 13:
        raise node.unsupported(f"{channels} channels with an even size")
    band = np.zeros((channels, channels), np.float32)
    for c in range(channels):
        band[max(0, c - (size - 1) // 2):c + size // 2 + 1, c] = 1
    squares = tf.tensordot(tensor * tensor, tf.cast(tf.constant(band), tensor.dtype), 1)
    scale = scalar(bias, tensor) + squares * scalar(alpha / size, tensor)
    return Value(tensor * tf.pow(scale, scalar(-beta, tensor)), order)


@converter("Dropout")
def dropout(node):
    """The identity, unless `training_mode` says otherwise (a random mask then)."""
    value = node.value(0)
    asks = len(node.outputs) > 1 and node.outputs[1]
    training = node.need(2, "training_mode") if node.has(2) else np.array(False)
    ratio = tf.cast(node.x(1), tf.float32) if node.has(1) else tf.constant(np.float32(0.5))
    known = node.known(1) if node.has(1) else np.float32(0.5)
    if not training.any() or known is not None and not known.any():
        made = [value]
        if asks:
            dtype = tf.bool if node.opset >= 10 else value.dtype
            # before opset 12, ONNX leaves the mask open and onnxruntime makes it all zeros
            like = tf.ones_like if node.opset >= 12 else tf.zeros_like
            made.append(Value(like(tf.cast(value.plain, dtype))))
        return made
    x = value.plain
    ratio = tf.reshape(ratio, [])
    kept = tf.greater_equal(tf.random_uniform(sizes(x), seed=node.attr("seed", None)), ratio)
    scale = tf.cast(tf.constant(np.float32(1)) / (tf.constant(np.float32(1)) - ratio), x.dtype)
    return [x * tf.cast(kept, x.dtype) * scale, kept][:len(node.outputs)]
