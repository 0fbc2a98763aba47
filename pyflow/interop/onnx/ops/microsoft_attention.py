"""Fused attention as onnxruntime's optimiser and exporters write it (domain com.microsoft).

Queries, keys and values are [batch, heads, sequence, size] inside; scores are formed in float32
at least.  Masks become numbers added to scores: what a mask forbids gets `mask_filter_value`
(-10000), so a row that it forbids entirely still attends, what comes later gets the lowest float.
Source: onnxruntime's ContribOperators.md and its CPU kernels."""

import math

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.attention import repeated
from pyflow.interop.onnx.ops.common import ints, scalar, sequence, sizes
from pyflow.interop.onnx.ops.matmul import product
from pyflow.interop.onnx.registry import MICROSOFT, converter


# heads
def _split(node, x, heads, what="a width"):
    """[B, S, heads * D] -> [B, heads, S, D]."""
    width = x.shape.as_tuple()[-1]
    if heads < 1 or width is None or width % heads:
        raise node.error(f"{what} of {width} does not divide into {heads} heads")
    own = sizes(x)
    return tf.transpose(tf.reshape(x, tf.concat([own[:2], ints([heads, width // heads])], 0)),
                        [0, 2, 1, 3])


def _joined(x):
    """[B, heads, S, D] -> [B, S, heads * D]."""
    own, dims = sizes(x), x.shape.as_tuple()
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), tf.stack(
        [own[0], own[2], tf.constant(np.int64(dims[1] * dims[3]))]))


def _share_nothing(node):
    if node.attr("past_present_share_buffer", 0):
        raise node.unsupported("past_present_share_buffer: one buffer for past and present")


# masks
def _lowest(dtype):
    return scalar(np.finfo(dtype.as_numpy_dtype).min, tf.zeros([], dtype))


def _filtered(node, keep, dtype):
    """0 where `keep` holds, else mask_filter_value."""
    value = node.attr("mask_filter_value", -10000.0)
    np_type = dtype.as_numpy_dtype
    return tf.where_v2(keep, tf.constant(np_type(0)), tf.constant(np_type(value)))


def _mask(node, i, scores):
    """Mask i as numbers for scores [B, heads, S, T]: lengths, ends and starts, or 0 and 1 for
    [B, T], [B, S, T] or [B, 1, M, M]."""
    mask, rank = node.x(i), node.rank(i)
    own = sizes(scores)
    keys = sequence(own[3])
    if rank == 1:
        batch, count = scores.shape.as_tuple()[0], node.static_shape(i)[0]
        if batch is None:
            raise node.needs(scores, "the batch size for a mask of one axis")
        if count not in (batch, 2 * batch, 3 * batch + 2):
            raise node.error(f"a mask of {count} numbers does not fit a batch of {batch}")
        mask = tf.cast(mask, tf.int64)
        keep = tf.less(keys, tf.reshape(mask[:batch], [-1, 1, 1, 1]))
        if count == 2 * batch:
            keep = tf.logical_and(keep, keys >= tf.reshape(mask[batch:], [-1, 1, 1, 1]))
        return _filtered(node, keep, scores.dtype)
    keep = tf.greater(mask, scalar(0, mask))
    if rank == 2:
        keep = tf.expand_dims(tf.expand_dims(keep, 1), 1)
    elif rank == 3:
        keep = tf.expand_dims(keep, 1)
    elif rank == 4:
        first = own[3] - own[2]
        keep = keep[:, :, first:own[3], :own[3]]
    else:
        raise node.error(f"a mask of shape {node.shape(i)}; expected 1 to 4 axes")
    last, total = keep.shape.as_tuple()[-1], scores.shape.as_tuple()[-1]
    if None not in (last, total) and last != total:
        raise node.error(f"the mask {node.shape(i)} does not fit {total} keys")
    return _filtered(node, keep, scores.dtype)


def _attend(node, q, k, v, mask=None, bias=None):
    """(output [B, heads, S, D], scores before the softmax with what was added).

    mask, bias: which inputs."""
    dtype = q.dtype
    wide = dtype if dtype.size >= 4 else tf.float32
    size = q.shape.as_tuple()[-1]
    scale = node.attr("scale", 0.0) or 1 / math.sqrt(size)
    scores = tf.matmul(tf.cast(q, wide) * scalar(scale, tf.zeros([], wide)), tf.cast(k, wide),
                       transpose_b=True)
    added = _mask(node, mask, scores) if mask is not None and node.has(mask) else None
    if node.attr("unidirectional", 0):
        own = sizes(scores)
        rows = tf.expand_dims(sequence(own[2]) + (own[3] - own[2]), 1)
        later = tf.greater(sequence(own[3]), rows)
        rest = scalar(0, scores) if added is None else added
        added = tf.where_v2(later, _lowest(wide), rest)
    if added is not None:
        scores = scores + added
    if bias is not None and node.has(bias):
        scores = scores + tf.cast(node.x(bias), wide)
    made = tf.matmul(tf.nn.softmax(scores), tf.cast(v, wide))
    return tf.cast(made, dtype), tf.cast(scores, dtype)


def _projected(node, total, widths, heads):
    """Queries, keys and values from the product with all weights."""
    q, k, v = (_split(node, t, heads) for t in tf.split(total, widths, axis=-1))
    return q, k, v


def _widths(node, weights, bias):
    """(widths of queries, keys and values, heads) of Attention's weights, checked."""
    heads, shape = node.attr("num_heads"), node.static_shape(weights)
    node.expect_rank(0, 3)
    node.expect_rank(weights, 2)
    widths = node.attr("qkv_hidden_sizes", None) or [shape[1] // 3] * 3
    if len(widths) != 3 or sum(widths) != shape[1] or widths[0] != widths[1] or heads < 1 \
            or any(w % heads or w < 1 for w in widths):
        raise node.error(f"weights {shape} do not hold {heads} heads of queries, keys and values "
                         f"of the sizes {widths}")
    if node.shape(0)[2] not in (None, shape[0]):
        raise node.error(f"an input of shape {node.shape(0)} does not fit weights {shape}")
    if node.has(bias) and node.static_shape(bias) != (shape[1],):
        raise node.error(f"the bias must have {shape[1]} elements, got shape {node.shape(bias)}")
    return widths, heads


def _self_attention(node, total, widths, heads, mask, past, bias):
    """What Attention and QAttention do after the product with the weights."""
    if node.attr("do_rotary", 0):
        raise node.unsupported("do_rotary")
    _share_nothing(node)
    q, k, v = _projected(node, total, widths, heads)
    if node.has(past):
        if node.rank(past) != 5 or node.shape(past)[0] not in (None, 2):
            raise node.error(f"the past must be [2, batch, heads, sequence, size], got shape "
                             f"{node.shape(past)}")
        before = node.x(past)
        k, v = tf.concat([before[0], k], 2), tf.concat([before[1], v], 2)
    made = [_joined(_attend(node, q, k, v, mask, bias)[0])]
    if len(node.outputs) > 1:
        made.append(tf.stack([k, v]))
    return made


@converter("Attention", domain=MICROSOFT)
def attention(node):
    """Input, weights, bias, mask, past, bias of scores -> output, present."""
    widths, heads = _widths(node, 1, 2)
    total = product(node, node.x(0), node.x(1))
    if node.has(2):
        total = total + node.x(2)
    return _self_attention(node, total, widths, heads, 3, 4, 5)


@converter("QAttention", domain=MICROSOFT)
def qattention(node):
    """Input and weights of 8 bits: input, weights, bias, their scales, mask, their zero points,
    past."""
    widths, heads = _widths(node, 1, 2)
    columns = sum(widths)
    for i in (4, 7):
        if node.has(i) and node.static_shape(i) not in ((), (1,), (columns,)):
            raise node.error(f"input {i} has shape {node.shape(i)}, expected one number or "
                             f"{columns}")
    x, w = (tf.cast(node.x(i), tf.float32) for i in (0, 1))
    if node.has(6):
        x = x - tf.cast(tf.reshape(node.x(6), []), tf.float32)
    if node.has(7):
        w = w - tf.cast(_number(node, 7), tf.float32)
    dtype = node.value(2).dtype if node.has(2) else node.value(3).dtype
    scale = tf.reshape(node.x(3), []) * _number(node, 4)
    total = product(node, x, w) * tf.cast(scale, tf.float32)
    if node.has(2):
        total = total + tf.cast(node.x(2), tf.float32)
    return _self_attention(node, tf.cast(total, dtype), widths, heads, 5, 8, 9)


def _number(node, i):
    """A scale or zero point, one or one per column."""
    return tf.reshape(node.x(i), [] if node.shape(i) in ((), (1,)) else [-1])


# queries, keys and values apart
def _packed(node, i, parts):
    """[B, S, heads, parts, D] -> parts of [B, heads, S, D]."""
    if node.shape(i)[3] != parts:
        raise node.error(f"input {i} must hold {parts} parts along axis 3, got shape "
                         f"{node.shape(i)}")
    x = tf.transpose(node.x(i), [3, 0, 2, 1, 4])
    return [x[k] for k in range(parts)]


def _bias_parts(node, i, heads, widths):
    """The bias as [heads, 1, D] for each part."""
    if not node.has(i):
        return [None] * len(widths)
    if node.static_shape(i) != (sum(widths),):
        raise node.error(f"the bias must have {sum(widths)} elements, got shape {node.shape(i)}")
    return [tf.reshape(t, [heads, 1, -1]) for t in tf.split(node.x(i), widths)]


def _apart(node, bias):
    """Queries, keys and values of MultiHeadAttention in any of its forms."""
    heads = node.attr("num_heads")
    cached = False
    if node.expect_rank(0, 3, 5) == 5:
        parts = _packed(node, 0, 3)
    elif not node.has(1):
        raise node.error("a key is missing, the query is not packed")
    else:
        parts = [_split(node, node.x(0), heads, "a query")]
        if node.expect_rank(1, 3, 4, 5) == 5:
            parts += _packed(node, 1, 2)
        elif node.rank(1) == 4:
            cached = True
            parts += [node.x(1), node.x(2)]
        else:
            parts += [_split(node, node.x(i), heads, "a key or value") for i in (1, 2)]
    shapes = [p.shape.as_tuple() for p in parts]
    if any(None not in (s[1],) and s[1] != heads for s in shapes) \
            or None not in (shapes[0][3], shapes[1][3]) and shapes[0][3] != shapes[1][3]:
        raise node.error(f"queries, keys and values {shapes} do not have {heads} heads of one "
                         f"size")
    widths = [heads * s[3] for s in shapes]
    for k, part in enumerate(_bias_parts(node, bias, heads, widths)):
        if part is not None and not (cached and k):
            parts[k] = parts[k] + part
    return parts


def _multi_head(node, bias, mask, scores_bias, past):
    _share_nothing(node)
    q, k, v = _apart(node, bias)
    if node.has(past):
        k = tf.concat([node.x(past), k], 2)
        v = tf.concat([node.x(past + 1), v], 2)
    made, scores = _attend(node, q, k, v, mask, scores_bias)
    return [_joined(made), k, v, scores][:len(node.outputs)]


@converter("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node):
    """Query, key, value, bias, mask, bias of scores, past key, past value -> output, present key,
    present value, scores."""
    if node.has(9):
        raise node.unsupported("cache_indirection: beams in one buffer")
    return _multi_head(node, 3, 4, 5, 6)


@converter("DecoderMaskedMultiHeadAttention", domain=MICROSOFT)
def decoder_masked_multi_head_attention(node):
    """As MultiHeadAttention with the bias as input 10, for one query; the past is no buffer."""
    if node.has(9):
        raise node.unsupported("cache_indirection: beams in one buffer")
    return _multi_head(node, 10, 3, 4, 5)


# rotary positions
def _rotated(x, cosines, sines, interleaved):
    """x [B, heads, S, D] with its first features turned by angles [B or 1, S, half]."""
    half, size = cosines.shape.as_tuple()[-1], x.shape.as_tuple()[-1]
    wide = x.dtype if x.dtype.size >= 4 else tf.float32
    cosines, sines = (tf.expand_dims(tf.cast(t, wide), 1) for t in (cosines, sines))
    part, rest = tf.cast(x[..., :2 * half], wide), x[..., 2 * half:]
    if interleaved:
        a, b = part[..., 0::2], part[..., 1::2]
    else:
        a, b = part[..., :half], part[..., half:]
    pair = [a * cosines - b * sines, a * sines + b * cosines]
    turned = tf.reshape(tf.stack(pair, -1), sizes(part)) if interleaved else tf.concat(pair, -1)
    turned = tf.cast(turned, x.dtype)
    return tf.concat([turned, rest], -1) if 2 * half != size else turned


@converter("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(node):
    """Input, positions (of the first, or of all), cosines and sines by position."""
    flat = node.expect_rank(0, 3, 4) == 3
    half, heads = node.static_shape(2)[-1], node.attr("num_heads", 0)
    asked = node.attr("rotary_embedding_dim", 0)
    if node.static_shape(2) != node.static_shape(3) or asked and asked != 2 * half:
        raise node.error(f"cosines {node.shape(2)} and sines {node.shape(3)} must be alike, for "
                         f"rotary_embedding_dim {asked}")
    if flat:
        if asked and not heads:
            raise node.error("rotary_embedding_dim needs num_heads")
        width = node.shape(0)[-1]
        heads = heads or (0 if width is None else width // (2 * half))
        x = _split(node, node.x(0), heads)
    else:
        x = node.x(0)
    if x.shape.as_tuple()[-1] is None or x.shape.as_tuple()[-1] < 2 * half:
        raise node.error(f"angles for {2 * half} features do not fit an input {node.shape(0)}")
    if node.expect_rank(1, 1, 2) == 1:
        positions = tf.expand_dims(sequence(sizes(x)[2]) + node.x(1)[0], 0)
    else:
        positions = node.x(1)
    angles = [tf.gather(node.x(i), positions) for i in (2, 3)]
    made = _rotated(x, *angles, node.attr("interleaved", 0))
    return _joined(made) if flat else made


# groups of queries that share a key, with a cache
def _grouped_parts(node):
    """Queries, keys and values of GroupQueryAttention, which the query may hold all."""
    heads, own = node.attr("num_heads"), node.attr("kv_num_heads")
    node.expect_rank(0, 3)
    if heads < 1 or own < 1 or heads % own:
        raise node.error(f"{heads} query heads do not divide into {own} groups")
    if node.has(1):
        q, k, v = (_split(node, node.x(i), n) for i, n in ((0, heads), (1, own), (2, own)))
    else:
        width = node.shape(0)[-1]
        if width is None or width % (heads + 2 * own):
            raise node.error(f"a packed query of {width} does not hold {heads} and twice {own} "
                             f"heads")
        size = width // (heads + 2 * own)
        parts = tf.split(node.x(0), [heads * size, own * size, own * size], axis=-1)
        q, k, v = (_split(node, t, n) for t, n in zip(parts, (heads, own, own)))
    if q.shape.as_tuple()[-1] != k.shape.as_tuple()[-1]:
        raise node.error(f"queries {node.shape(0)} in {heads} heads and keys {node.shape(1)} in "
                         f"{own} heads differ in size")
    return q, k, v


def _cached(node, i, new, before, total):
    """The cache with `new` put behind the first `before` of each sequence, zeros behind that."""
    past = node.x(i) if node.has(i) else new[:, :, :0]
    room = sizes(past)[2]
    length = tf.maximum(room, total)
    places = tf.expand_dims(sequence(length), 0)
    before = tf.expand_dims(before, 1)
    step = places - before
    count = sizes(new)[2]
    chosen = tf.where_v2(step < scalar(0, step), places, tf.where_v2(
        step < count, step + room, tf.broadcast_to(room + count, [])))
    empty = tf.zeros_like(new[:, :, :1])
    rows = tf.transpose(tf.concat([past, new, empty], 2), [0, 2, 1, 3])
    made = tf.transpose(tf.gather(rows, chosen, batch_dims=1, axis=1), [0, 2, 1, 3])
    dims = new.shape.as_tuple()
    made.set_shape([dims[0], dims[1], None, dims[3]])
    return made


_PLAIN = (("kv_cache_bit_width", 0), ("sliding_window_cache", 0), ("qk_output", 0))


@converter("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node):
    """Query, key, value, past key and value, lengths less one, the longest, cosines, sines,
    positions, bias of scores, sinks -> output, present key, present value."""
    for name, default in _PLAIN:
        if node.attr(name, default):
            raise node.unsupported(f"{name}={node.attr(name)}")
    for name in ("k_quant_type", "v_quant_type"):
        if node.attr(name, "NONE") != "NONE":
            raise node.unsupported(f"a quantised cache ({name} {node.attr(name)})")
    if node.has(14) or node.has(15) or node.has(16):
        raise node.unsupported("q_norm_weight, k_norm_weight or query_seqlens")
    q, k, v = _grouped_parts(node)
    heads, own = node.attr("num_heads"), node.attr("kv_num_heads")
    count = sizes(q)[2]
    lengths = tf.cast(tf.reshape(node.x(5), [-1]), tf.int64) + ints([1])
    before = tf.maximum(lengths - count, ints([0]))
    rows = tf.expand_dims(before, 1) + sequence(count)              # [B, S], absolute
    if node.attr("do_rotary", 0):
        positions = node.x(9) if node.has(9) else rows
        angles = [tf.gather(node.x(i), positions) for i in (7, 8)]
        q, k = (_rotated(t, *angles, node.attr("rotary_interleaved", 0)) for t in (q, k))
    total = tf.cast(tf.reshape(node.x(6), []), tf.int64)
    present = [_cached(node, 3 + i, t, before, total) for i, t in enumerate((k, v))]
    k, v = (repeated(t, heads // own) for t in present)
    made = _joined(_windowed(node, q, k, v, rows))
    return [made, *present][:len(node.outputs)]


def _windowed(node, q, k, v, rows):
    """Attention of queries at absolute `rows` to what is not later, in the window."""
    dtype = q.dtype
    wide = dtype if dtype.size >= 4 else tf.float32
    scale = node.attr("scale", 0.0) or 1 / math.sqrt(q.shape.as_tuple()[-1])
    scores = tf.matmul(tf.cast(q, wide) * scalar(scale, tf.zeros([], wide)), tf.cast(k, wide),
                       transpose_b=True)
    cap = node.attr("softcap", 0.0)
    if cap > 0:
        scores = tf.tanh(scores / scalar(cap, scores)) * scalar(cap, scores)
    keys = sequence(sizes(k)[2])
    if node.has(10):
        bias = tf.cast(node.x(10), wide)
        missing = sizes(scores)[3] - sizes(bias)[3]
        scores = scores + tf.pad(bias, tf.reshape(tf.concat(
            [tf.zeros([7], tf.int64), tf.reshape(missing, [1])], 0), [4, 2]))
    rows = tf.expand_dims(tf.expand_dims(rows, 1), -1)
    if node.attr("causal", 1):
        keep = tf.less_equal(keys, rows)
    else:
        lengths = tf.cast(tf.reshape(node.x(5), [-1, 1, 1, 1]), tf.int64)
        keep = tf.less_equal(keys, lengths)
    window = node.attr("local_window_size", -1)
    if window > 0:
        keep = tf.logical_and(keep, tf.greater(keys, rows - scalar(window, rows)))
    scores = tf.where_v2(keep, scores, scalar(-np.inf, scores))
    chances = _with_sink(node, scores)
    return tf.cast(tf.matmul(chances, tf.cast(v, wide)), dtype)


def _with_sink(node, scores):
    """The softmax, with one more score in its sum: the head's sink, or 0."""
    if node.has(11):
        sink = tf.reshape(tf.cast(node.x(11), scores.dtype), [1, -1, 1, 1])
    elif node.attr("smooth_softmax", -1) == 1:
        sink = tf.zeros([1, 1, 1, 1], scores.dtype)
    else:
        return tf.nn.softmax(scores)
    sink = tf.zeros_like(scores[..., :1]) + sink
    return tf.nn.softmax(tf.concat([scores, sink], -1))[..., :-1]


# relative positions
@converter("RelativePositionBias", domain=MICROSOFT)
def relative_position_bias(node):
    """T5's: a table [buckets, heads], query and key lengths -> [1, heads, queries, keys]."""
    node.expect_rank(0, 2)
    buckets, both = node.static_shape(0)[0], node.attr("is_bidirectional", 0)
    farthest = node.attr("max_distance")
    queries, keys = (tf.reshape(tf.cast(node.x(i), tf.int64), []) for i in (1, 2))
    away = tf.expand_dims(sequence(queries), 1) - tf.expand_dims(sequence(keys), 0)
    zero = scalar(0, away)
    place = zero
    if both:
        buckets //= 2
        place = tf.where_v2(away < zero, scalar(buckets, away), zero)
        away = tf.abs(away)
    else:
        away = tf.maximum(away, zero)
    exact = buckets // 2
    if exact < 1 or farthest <= exact:
        raise node.error(f"a table of shape {node.shape(0)} and max_distance {farthest}: expected "
                         f"a distance beyond the {exact} exact ones")
    ratio = tf.log(tf.cast(tf.maximum(away, scalar(1, away)), tf.float32)
                   / tf.constant(np.float32(exact)))
    steps = ratio / tf.constant(np.float32(math.log(farthest / exact))) \
        * tf.constant(np.float32(buckets - exact))
    large = tf.minimum(tf.cast(steps, tf.int64) + scalar(exact, away), scalar(buckets - 1, away))
    place = place + tf.where_v2(away < scalar(exact, away), away, large)
    return tf.expand_dims(tf.transpose(tf.gather(node.x(0), place), [2, 0, 1]), 0)
