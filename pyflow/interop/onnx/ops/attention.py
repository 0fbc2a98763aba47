"""Attention and what goes with it: Attention, FlexAttention, RotaryEmbedding, causal convolution.

Scores are formed per head, [batch, heads, queries, keys]; groups of query heads share a key
head."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import Value, ints, scalar, sequence, sizes
from pyflow.interop.onnx.registry import converter


def _heads(x, count):
    """[B, S, heads * D] -> [B, heads, S, D]."""
    own = sizes(x)
    width = x.shape.as_tuple()[-1]
    return tf.transpose(tf.reshape(x, tf.concat([own[:2], ints([count, width // count])], 0)),
                        [0, 2, 1, 3])


def repeated(x, times):
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
    if node.shape(0)[-1] is None:
        raise node.needs(node.value(0).tensor, "the number of features")
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


@converter("Attention", since=23)
def attention(node):
    """Q, K, V, mask, past key, past value, lengths -> output, present key, present value, scores.

    A query that may see no key gives zeros."""
    flat = node.rank(0) == 3
    q, k, v = (node.x(i) for i in range(3))
    for i in range(3):
        if None in (node.shape(i)[-1:] if flat else node.shape(i)[1::2]):
            raise node.needs(node.value(i).tensor, f"heads and features of input {i}")
    if flat:
        q = _heads(q, node.attr("q_num_heads"))
        k, v = (_heads(t, node.attr("kv_num_heads")) for t in (k, v))
    if node.has(4):
        k, v = tf.concat([node.x(4), k], 2), tf.concat([node.x(5), v], 2)
    present, dtype = (k, v), q.dtype
    group = q.shape.as_tuple()[1] // k.shape.as_tuple()[1]
    k, v = repeated(k, group), repeated(v, group)
    wide = dtype if dtype.size >= 4 else tf.float32
    scale = node.attr("scale", None)
    scale = 1 / np.sqrt(q.shape.as_tuple()[-1]) if scale is None else scale
    scores = tf.matmul(tf.cast(q, wide) * tf.constant(np.array(scale, wide.as_numpy_dtype)),
                       tf.cast(k, wide), transpose_b=True)
    stages = [scores]
    cap = node.attr("softcap", 0.0)
    if cap > 0:
        scores = tf.tanh(scores / scalar(cap, scores)) * scalar(cap, scores)
    stages.append(scores)
    bias = _bias(node, scores)
    if bias is not None:
        scores = scores + bias
    stages.append(scores)
    stages.append(_chances(scores, bias))
    y = tf.cast(tf.matmul(stages[3], tf.cast(v, wide)), node.value(2).dtype)
    if flat:
        y = tf.transpose(y, [0, 2, 1, 3])
        y = tf.reshape(y, tf.concat([sizes(y)[:2], ints([y.shape.as_tuple()[2]
                                                         * y.shape.as_tuple()[3]])], 0))
    shown = tf.cast(stages[node.attr("qk_matmul_output_mode", 0)], dtype)
    return [y, *present, shown][:len(node.outputs)]


def _chances(scores, bias):
    """The softmax, 0 in rows that the bias forbids entirely."""
    if bias is None:
        return tf.nn.softmax(scores)
    none = tf.equal(tf.reduce_max(bias, -1, keepdims=True), scalar(-np.inf, bias))
    safe = tf.where_v2(none, scalar(0, scores), scores)
    return tf.where_v2(none, scalar(0, scores), tf.nn.softmax(safe))


def _bias(node, scores):
    """What is added to scores [B, heads, queries, keys]: mask, causality, window, lengths."""
    own = sizes(scores)
    queries, keys = own[2], own[3]
    total = None
    if node.has(3):
        total = _mask(node, keys, scores.dtype)
    rows = tf.reshape(sequence(queries), [-1, 1])
    columns = tf.reshape(sequence(keys), [1, -1])
    lengths = tf.cast(node.x(6), tf.int64) if node.has(6) else None
    if node.has(4):
        rows = rows + sizes(node.x(4))[2]
    elif lengths is not None:
        rows = rows + tf.reshape(lengths - queries, [-1, 1, 1, 1])
    conditions = []
    if node.attr("is_causal", 0):
        conditions.append(tf.less_equal(columns, rows))
    for name, distance in (("left_window_size", rows - columns),
                           ("right_window_size", columns - rows)):
        size = node.attr(name, -1)
        if size >= 0:
            conditions.append(tf.less_equal(distance, tf.constant(np.int64(size))))
    if lengths is not None:
        conditions.append(tf.less(columns, tf.reshape(lengths, [-1, 1, 1, 1])))
    for condition in conditions:
        part = _allowed(condition, scores.dtype)
        total = part if total is None else total + part
    return total


def _allowed(condition, dtype):
    """0 where the condition holds, else -inf."""
    np_type = dtype.as_numpy_dtype
    return tf.where_v2(condition, tf.constant(np_type(0)), tf.constant(np_type(-np.inf)))


def _mask(node, keys, dtype):
    """The mask as a bias, its last axis filled up with what forbids."""
    mask, rank = node.x(3), node.rank(3)
    made = _allowed(mask, dtype) if mask.dtype is tf.bool else tf.cast(mask, dtype)
    missing = keys - sizes(mask)[rank - 1]
    last = tf.reshape(tf.stack([np.int64(0), missing]), [1, 2])
    table = tf.concat([tf.zeros([rank - 1, 2], tf.int64), last], 0)
    return tf.pad(made, table, constant_values=tf.constant(dtype.as_numpy_dtype(-np.inf)))


@converter("FlexAttention", domain="ai.onnx.preview")
def flex_attention(node):
    """Scores and probabilities may go through subgraphs."""
    q, k, v = (node.x(i) for i in range(3))
    dtype = q.dtype
    wide = node.element_type("softmax_precision", tf.float64 if dtype is tf.float64
                             else tf.float32)
    group = node.shape(0)[1] // node.shape(1)[1]
    k, v = repeated(k, group), repeated(v, group)
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
    wide = x.dtype if x.dtype.size >= 4 else tf.float32
    if not 0 < k <= 1024:
        raise node.unsupported(f"{k} numbers per channel; expected 1 to 1024")
    total = None
    for i in range(k):
        part = tf.slice(whole, ints([0, 0, i]), tf.concat([sizes(x)[:2], [length]], 0))
        part = tf.cast(part, wide) * tf.reshape(tf.cast(w[:, 0, i], wide), [1, channels, 1])
        total = part if total is None else total + part
    if node.has(2):
        total = total + tf.reshape(tf.cast(node.x(2), wide), [1, channels, 1])
    total = tf.cast(total, x.dtype)
    if node.attr("activation", "none") in ("silu", "swish"):
        total = tf.cast(tf.cast(total, wide) * tf.sigmoid(tf.cast(total, wide)), x.dtype)
    rest = tf.slice(whole, tf.stack([np.int64(0), np.int64(0), length]),
                    tf.concat([sizes(x)[:2], ints([k - 1])], 0))
    return [total, rest][:len(node.outputs)]
