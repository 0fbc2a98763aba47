"""onnxruntime's fused element-wise ops, normalisations and products (domain com.microsoft), as its
optimiser and exporters write them.

SimplifiedLayerNormalization and LayerNormalization are written in ai.onnx as well, before ONNX had
them.  Source: onnxruntime's ContribOperators.md."""

import math

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import (Value, channels_last, elementwise, in_float, scalar,
                                            with_inputs)
from pyflow.interop.onnx.ops.conv import conv, conv_transpose
from pyflow.interop.onnx.ops.elementwise import gelu_of, hard_sigmoid_of
from pyflow.interop.onnx.ops.matmul import gemm, product
from pyflow.interop.onnx.ops.norm import dropout, layer_normalization
from pyflow.interop.onnx.ops.pool import max_pool
from pyflow.interop.onnx.registry import MICROSOFT, converter


# activations
@converter("Gelu", domain=MICROSOFT)
def gelu(node):
    return elementwise(lambda x: in_float(x, gelu_of), node.value(0))


def _fast_gelu_of(x):
    inner = x * (scalar(0.035677408136300125, x) * x * x + scalar(0.7978845608028654, x))
    return scalar(0.5, x) * x * (scalar(1, x) + tf.tanh(inner))


def _biased(node, bias=1):
    """Input 0 plus a vector over its last axis, or alone if there is none."""
    if not node.has(bias):
        return node.x(0)
    shape, width = node.shape(bias), node.shape(0)[-1]
    if len(shape) != 1 or None not in (width, shape[0]) and shape[0] != width:
        raise node.error(f"the bias must have {width} elements, got shape {shape}")
    return node.x(0) + node.x(bias)


@converter("FastGelu", domain=MICROSOFT)
def fast_gelu(node):
    return in_float(_biased(node), _fast_gelu_of)


@converter("BiasGelu", domain=MICROSOFT)
def bias_gelu(node):
    return in_float(_biased(node), gelu_of)


@converter("QuickGelu", domain=MICROSOFT)
def quick_gelu(node):
    alpha = node.attr("alpha", 1.702)
    return elementwise(lambda t: in_float(t, lambda x: x * tf.sigmoid(scalar(alpha, x) * x)),
                       node.value(0))


@converter("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(node):
    width = node.static_shape(1)[0] if node.rank(1) == 1 else 1
    if width % 2:
        raise node.error(f"expected a bias of even length, got shape {node.shape(1)}")
    half = width // 2

    def halves(x):
        return x[..., :half] * gelu_of(x[..., half:])
    return in_float(_biased(node), halves)


@converter("BiasAdd", domain=MICROSOFT)
def bias_add(node):
    return _biased(node) + node.x(2)


@converter("BiasDropout", domain=MICROSOFT)
def bias_dropout(node):
    """Data, bias, residual, ratio, training mode."""
    inner = with_inputs(node, Value(node.x(0) + node.x(1)), *[
        node.inputs[i] if node.has(i) else None for i in (3, 4)], opset=13)
    made = dropout(inner)
    if node.has(2):
        first = made[0].plain if isinstance(made[0], Value) else made[0]
        made[0] = first + node.x(2)
    return made


@converter("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(node):
    """The softmax over all axes from `axis` on; the bias lacks axes before it, or those in the
    middle."""
    rank = node.rank(0)
    axis = node.axis(node.attr("axis", 1), rank)
    x = node.x(0) + node.x(1)
    own = tf.shape(x)
    rows = tf.stack([tf.reduce_prod(own[:axis]), tf.reduce_prod(own[axis:])])
    made = in_float(tf.reshape(x, rows), tf.nn.softmax)
    return tf.reshape(made, own)


# normalisations
def _of_width(node, *inputs):
    """OnnxError unless each of the inputs, where given, is a vector over input 0's last axis."""
    width = node.shape(0)[-1]
    for i in inputs:
        if node.has(i) and (node.rank(i) != 1 or None not in (width, node.shape(i)[0])
                            and node.shape(i)[0] != width):
            raise node.error(f"input {i} must have {width} elements, got shape {node.shape(i)}")


def _normal(x, epsilon, centred=True):
    """(x normalised over its last axis, mean or None, inverse deviation), in float32 or wider."""
    wide = tf.cast(x, tf.float32) if x.dtype.size < 4 else x
    mean = None
    if centred:
        mean = tf.reduce_mean(wide, -1, keepdims=True)
        wide = wide - mean
    power = tf.reduce_mean(wide * wide, -1, keepdims=True)
    inverse = tf.rsqrt(power + scalar(epsilon, power))
    return wide * inverse, mean, inverse


def _skip_sum(node, bias):
    """Input, skip, which may lack the batch, and bias in one."""
    rank = node.rank(0)
    shapes = node.shape(0), node.shape(1)
    if len(shapes[1]) not in (2, 3) or len(shapes[1]) > rank or any(
            None not in (a, b) and a != b and not (b == 1 and k == rank - 1)
            for k, (a, b) in enumerate(zip(shapes[0][::-1], shapes[1][::-1]))):
        raise node.error(f"a skip of shape {shapes[1]} does not fit an input of {shapes[0]}")
    total = node.x(0) + node.x(1)
    return total + node.x(bias) if node.has(bias) else total


@converter("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(node):
    """Input, skip, gamma, beta, bias -> output, mean, inverse deviation, the sum."""
    _of_width(node, 2, 3, 4)
    total = _skip_sum(node, 4)
    made, mean, inverse = _normal(total, node.attr("epsilon", 1e-12))
    made = made * tf.cast(node.x(2), made.dtype)
    if node.has(3):
        made = made + tf.cast(node.x(3), made.dtype)
    return [tf.cast(made, total.dtype), mean, inverse, total][:len(node.outputs)]


@converter("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(node):
    """Input, skip, gamma, bias -> output, nothing, inverse deviation, the sum."""
    _of_width(node, 2, 3)
    total = _skip_sum(node, 3)
    made, _, inverse = _normal(total, node.attr("epsilon", 1e-12), centred=False)
    made = tf.cast(made * tf.cast(node.x(2), made.dtype), total.dtype)
    return [made, None, inverse, total][:len(node.outputs)]


@converter("SimplifiedLayerNormalization")
@converter("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(node):
    """Root mean square normalisation -> output, inverse deviation."""
    rank = node.rank(0)
    axes = list(range(node.axis(node.attr("axis", -1), rank), rank))
    x = node.x(0)
    wide = tf.cast(x, tf.float32) if x.dtype.size < 4 else x
    power = tf.reduce_mean(wide * wide, axes, keepdims=True)
    inverse = tf.rsqrt(power + scalar(node.attr("epsilon", 1e-5), power))
    dtype = node.value(1).dtype
    made = tf.cast(wide * inverse * tf.cast(node.x(1), wide.dtype), dtype)
    return [made, inverse][:len(node.outputs)]


@converter("LayerNormalization", domain=MICROSOFT)
def layer_normalization_of(node):
    return layer_normalization(node)


@converter("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node):
    """Ids, segments, the tables of words, positions and segments, gamma, beta, mask, positions ->
    normalised sum of embeddings, how many words the mask keeps, the sum."""
    node.expect_rank(0, 2)
    ids = node.x(0)
    total = tf.gather(node.x(2), ids)
    if node.has(8):
        total = total + tf.gather(node.x(3), node.x(8))
    else:
        total = total + node.x(3)[:tf.shape(ids)[1]]
    if node.has(1):
        total = total + tf.gather(node.x(4), node.x(1))
    made, _, _ = _normal(total, node.attr("epsilon", 1e-12))
    made = made * tf.cast(node.x(5), made.dtype) + tf.cast(node.x(6), made.dtype)
    if node.has(7):
        kept = tf.cast(tf.equal(node.x(7), scalar(1, node.x(7))), tf.int32)
        index = tf.reduce_sum(kept, 1)
    else:
        index = tf.zeros_like(ids[:, 0])
    return [tf.cast(made, total.dtype), index, total][:len(node.outputs)]


def _grouped(node, x):
    """x normalised in groups of channels, and activated as the attribute says."""
    groups, last = node.attr("groups"), bool(node.attr("channels_last", 1))
    rank = node.rank(0)
    channels = node.shape(0)[-1 if last else 1]
    if channels is None or groups < 1 or channels % groups:
        raise node.error(f"{channels} channels do not divide into {groups} groups")
    if node.shape(1) != (channels,) or node.shape(2) != (channels,):
        raise node.error(f"gamma {node.shape(1)} and beta {node.shape(2)} must have {channels} "
                         f"elements")
    if not last:
        x = Value(x).ordered(channels_last(rank))
    own, wide = tf.shape(x), tf.cast(x, tf.float32)
    parts = tf.reshape(wide, tf.concat([own[:1], [-1, groups, channels // groups]], 0))
    mean, variance = tf.nn.moments(parts, [1, 3], keep_dims=True)
    parts = (parts - mean) * tf.rsqrt(variance + scalar(node.attr("epsilon", 1e-5), variance))
    made = tf.reshape(parts, own) * tf.cast(node.x(1), tf.float32) \
        + tf.cast(node.x(2), tf.float32)
    if node.attr("activation"):
        made = made * tf.sigmoid(made)
    made = tf.cast(made, x.dtype)
    return made if last else Value(made, channels_last(rank)).plain


@converter("GroupNorm", domain=MICROSOFT)
def group_norm(node):
    node.expect_rank(0, 4)
    return _grouped(node, node.x(0))


@converter("SkipGroupNorm", domain=MICROSOFT)
def skip_group_norm(node):
    """X, gamma, beta, skip, bias -> output, the sum."""
    node.expect_rank(0, 4)
    last, skip = bool(node.attr("channels_last", 1)), node.x(3)
    if node.expect_rank(3, 2, 4) == 2:
        at = [1, 1] if last else [2, 2]
        for axis in at:
            skip = tf.expand_dims(skip, axis)
    total = node.x(0) + skip
    if node.has(4):
        total = total + tf.reshape(node.x(4), [1, 1, 1, -1] if last else [1, -1, 1, 1])
    return [_grouped(node, total), total][:len(node.outputs)]


# products
def _turned(node, i, flat, batch):
    """Input i with its last two axes exchanged, and its first axis put before the last."""
    x, rank = node.x(i), node.rank(i)
    order = list(range(rank))
    if rank > 1 and batch and rank > 2:
        order = [*order[1:-1], 0, order[-1]]
    if rank > 1 and flat:
        order[-1], order[-2] = order[-2], order[-1]
    return x if order == sorted(order) else tf.transpose(x, order)


@converter("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(node):
    a = _turned(node, 0, node.attr("transA", 0), node.attr("transBatchA", 0))
    b = _turned(node, 1, node.attr("transB", 0), node.attr("transBatchB", 0))
    inner = a.shape.as_tuple()[-1], b.shape.as_tuple()[max(b.shape.ndims - 2, 0)]
    if None not in inner and inner[0] != inner[1]:
        raise node.error(f"shapes {node.shape(0)} and {node.shape(1)} do not fit: {inner[0]} "
                         f"columns times {inner[1]} rows")
    made, alpha = product(node, a, b), node.attr("alpha", 1.0)
    return made if alpha == 1 else made * scalar(alpha, made)


_ACTIVATIONS = {
    "Relu": lambda x, p: tf.nn.relu(x), "Sigmoid": lambda x, p: tf.sigmoid(x),
    "Tanh": lambda x, p: tf.tanh(x), "Softplus": lambda x, p: tf.nn.softplus(x),
    "Softsign": lambda x, p: tf.nn.softsign(x), "Identity": lambda x, p: x, "": lambda x, p: x,
    "LeakyRelu": lambda x, p: tf.nn.leaky_relu(x, p[0]),
    "Elu": lambda x, p: tf.where_v2(x > scalar(0, x), x, scalar(p[0], x) * tf.expm1(x)),
    "Clip": lambda x, p: tf.clip_by_value(x, scalar(p[0], x), scalar(p[1], x)),
    "HardSigmoid": lambda x, p: hard_sigmoid_of(x, p[0], p[1]),
    "Gelu": lambda x, p: gelu_of(x),
}
_DEFAULTS = {"LeakyRelu": (0.01,), "Elu": (1.0,), "HardSigmoid": (0.2, 0.5),
             "Clip": (-math.inf, math.inf)}


def _activated(node, value, parameters):
    """The Value after the activation that the node names."""
    name = node.attr("activation", "")
    if name not in _ACTIVATIONS:
        raise node.unsupported(f"activation {name!r}; expected one of "
                               f"{', '.join(sorted(filter(None, _ACTIVATIONS)))}")
    parameters = [p for p in parameters if p is not None]
    known = (*parameters, *_DEFAULTS.get(name, ())[len(parameters):])
    return elementwise(lambda x: _ACTIVATIONS[name](x, known), value)


def _scalars(node):
    return [node.attr(f"activation_{n}", None) for n in ("alpha", "beta")]


@converter("FusedGemm", domain=MICROSOFT)
def fused_gemm(node):
    return _activated(node, Value(gemm(node)), _scalars(node))


@converter("FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul_activation(node):
    return _activated(node, Value(fused_matmul(node)), _scalars(node))


@converter("FusedConv", domain=MICROSOFT)
def fused_conv(node):
    """The activation of X * W + bias + Z."""
    made = conv(node)
    if node.has(3):
        order = made.order or tuple(range(made.rank))
        made = Value(made.tensor + node.value(3).ordered(order), order)
    return _activated(node, made, node.attr("activation_params", []))


@converter("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(node):
    order = channels_last(node.expect_rank(0, 3, 4, 5))
    return max_pool(with_inputs(node, Value(node.x(0), order))).ordered(order)


@converter("ConvTransposeWithDynamicPads", domain=MICROSOFT)
def conv_transpose_with_dynamic_pads(node):
    """X, W, pads, bias: the pads in place of the attribute's."""
    bias = [node.inputs[3]] if node.has(3) else []
    inner = with_inputs(node, node.inputs[0], node.inputs[1], *bias)
    inner.inputs = inner.inputs[:2 + len(bias)]
    if not node.has(2):
        return conv_transpose(inner)
    pads = [int(p) for p in np.reshape(node.need(2, "the pads"), -1)]
    return conv_transpose(inner, pads)
