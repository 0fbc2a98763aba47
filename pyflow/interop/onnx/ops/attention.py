"""Attention and what goes with it: Attention, FlexAttention, RotaryEmbedding, causal convolution.

Scores are formed per head, [batch, heads, queries, keys]; groups of query heads share a key
head."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value, ints, scalar, sizes
from pyflow.interop.onnx.registry import converter


def _heads(x, count):
    """[B, S, heads * D] -> [B, heads, S, D]."""
    own = sizes(x)
    width = x.shape.as_tuple()[-1]
    return tf.transpose(tf.reshape(x, tf.concat([own[:2], ints([count, width // count])], 0)),
                        [0, 2, 1, 3])


def _repeated(x, times):
    """Each head `times` times in a row."""
    if times == 1:
        return x
    own = sizes(x)
    wide = tf.tile(tf.expand_dims(x, 2), [1, 1, times, 1, 1])
    return tf.reshape(wide, tf.concat([own[:1], ints([x.shape.as_tuple()[1] * times]), own[2:]],
                                      0))


@converter("RotaryEmbedding", since=23)
def rotary_embedding(node):
    """Pairs of features turned by angles whose cosines and sines are given."""
    x, flat = node.x(0), node.rank(0) == 3
    if flat:
        x = _heads(x, node.attr("num_heads"))
    size = x.shape.as_tuple()[-1]
    turned = node.attr("rotary_embedding_dim", 0) or size
    part, rest = x[..., :turned], x[..., turned:]
    cosines, sines = node.x(1), node.x(2)
    if node.has(3):
        cosines, sines = tf.gather(cosines, node.x(3)), tf.gather(sines, node.x(3))
    cosines, sines = (tf.expand_dims(t[..., :turned // 2], 1) for t in (cosines, sines))
    if node.attr("interleaved", 0):
        a, b = part[..., 0::2], part[..., 1::2]
    else:
        a, b = part[..., :turned // 2], part[..., turned // 2:]
    pair = [a * cosines - b * sines, a * sines + b * cosines]
    if node.attr("interleaved", 0):
        part = tf.reshape(tf.stack(pair, -1), sizes(part))
    else:
        part = tf.concat(pair, -1)
    made = tf.concat([part, rest], -1) if turned != size else part
    return tf.reshape(tf.transpose(made, [0, 2, 1, 3]), sizes(node.x(0))) if flat else made


@converter("FlexAttention", domain="ai.onnx.preview")
def flex_attention(node):
    """Scores and probabilities may go through subgraphs."""
    q, k, v = (node.x(i) for i in range(3))
    dtype = q.dtype
    wide = node.element_type("softmax_precision", tf.float64 if dtype is tf.float64
                             else tf.float32)
    group = node.shape(0)[1] // node.shape(1)[1]
    k, v = _repeated(k, group), _repeated(v, group)
    scale = node.attr("scale", None) or 1 / np.sqrt(node.static_shape(0)[-1])
    scores = tf.matmul(tf.cast(q, wide), tf.cast(k, wide), transpose_b=True)
    scores = scores * scalar(scale, scores)
    if node.has_attr("score_mod"):
        scores = _through(node, "score_mod", scores)
    chances = tf.nn.softmax(scores)
    if node.has_attr("prob_mod"):
        chances = _through(node, "prob_mod", chances)
    return tf.cast(tf.matmul(chances, tf.cast(v, wide)), dtype)


def _through(node, name, tensor):
    made, = node.importer.subgraph(node, node.attr(name), [Value(tensor)])
    return made.plain


@converter("CausalConvWithState", since=27)
def causal_conv_with_state(node):
    """Each channel [B, C, L] convolved with its own k numbers, after what came before."""
    x, w = node.x(0), node.x(1)
    channels, _, k = node.static_shape(1)
    if node.has(3):
        before = node.x(3)
    else:
        before = tf.fill(tf.concat([sizes(x)[:2], ints([k - 1])], 0), scalar(0, x))
    whole = tf.concat([before, x], 2)
    length = sizes(x)[2]
    total = None
    for i in range(k):
        part = tf.slice(whole, ints([0, 0, i]), tf.concat([sizes(x)[:2], [length]], 0))
        part = part * tf.reshape(w[:, 0, i], [1, channels, 1])
        total = part if total is None else total + part
    if node.has(2):
        total = total + tf.reshape(node.x(2), [1, channels, 1])
    if node.attr("activation", "none") in ("silu", "swish"):
        wide = tf.cast(total, tf.float32) if total.dtype.size < 4 else total
        total = tf.cast(wide * tf.sigmoid(wide), total.dtype)
    rest = tf.slice(whole, tf.stack([np.int64(0), np.int64(0), length]),
                    tf.concat([sizes(x)[:2], ints([k - 1])], 0))
    return [total, rest][:len(node.outputs)]
