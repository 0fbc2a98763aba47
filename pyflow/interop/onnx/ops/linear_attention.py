"""LinearAttention: attention with a state [B, heads, d_k, d_v] instead of all past keys.

The state is updated a token at a time, in float32.  Source: ONNX operator definition (27);
Yang et al. 2024 for the gated delta rule."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.attention import repeated
from pyflow.interop.onnx.ops.common import ints, scalar, sizes
from pyflow.interop.onnx.registry import converter

_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True),
          "gated_delta": (True, True)}


def _by_token(x, heads):
    """[B, T, heads * D] -> float32 [T, B, heads, D]."""
    own = sizes(x)
    width = x.shape.as_tuple()[-1]
    made = tf.reshape(x, tf.concat([own[:2], ints([heads, width // heads])], 0))
    return tf.transpose(tf.cast(made, tf.float32), [1, 0, 2, 3])


@converter("LinearAttention", since=27)
def linear_attention(node):
    rule = node.attr("update_rule", "gated_delta")
    if rule not in _RULES:
        raise node.error(f"update_rule {rule!r} is none of {', '.join(_RULES)}")
    gated, corrected = _RULES[rule]
    if gated != node.has(4) or corrected != node.has(5):
        raise node.error(f"update_rule {rule!r} {'needs' if gated else 'forbids'} decay and "
                         f"{'needs' if corrected else 'forbids'} beta")
    heads, own = node.attr("q_num_heads"), node.attr("kv_num_heads")
    widths = [node.shape(i)[-1] for i in range(3)]
    if heads < 1 or own < 1 or heads % own or None in widths or widths[0] % heads \
            or widths[1] % own or widths[2] % own:
        raise node.error(f"{heads} query heads and {own} key heads do not fit widths {widths}")
    parts = [_by_token(node.x(0), heads), _by_token(node.x(1), own), _by_token(node.x(2), own)]
    if gated:
        parts.append(_by_token(node.x(4), own))
    if corrected:
        parts.append(_by_token(node.x(5), min(own, node.shape(5)[-1])))
    scale = node.attr("scale", 0.0) or 1 / np.sqrt(widths[0] // heads)
    outputs, state = _run(parts, _first_state(node, own, parts), gated, scale, heads // own)
    y = tf.reshape(tf.transpose(outputs, [1, 0, 2, 3]), tf.concat(
        [sizes(node.x(0))[:2], ints([heads * (widths[2] // own)])], 0))
    kept = node.value(3).dtype if node.has(3) else node.value(0).dtype
    return [tf.cast(y, node.value(0).dtype), tf.cast(state, kept)][:len(node.outputs)]


def _first_state(node, heads, parts):
    if node.has(3):
        return tf.cast(node.x(3), tf.float32)
    batch = sizes(node.x(0))[:1]
    shape = tf.concat([batch, ints([heads, parts[1].shape.as_tuple()[-1],
                                    parts[2].shape.as_tuple()[-1]])], 0)
    return tf.fill(shape, tf.constant(np.float32(0)))


def _run(parts, state, gated, scale, group):
    """(outputs [T, B, heads, d_v], the last state)."""
    total = tf.cast(sizes(parts[0])[0], tf.int32)
    shape = parts[0].shape.as_list()[1:3] + [parts[2].shape.as_list()[-1]]
    kept = tf.TensorShape([None, *parts[1].shape.as_list()[2:], shape[2]])
    array = tf.TensorArray(tf.float32, size=total, element_shape=shape, infer_shape=False)

    def turn(t, state, array):
        q, k, v, *rest = (tf.gather(p, t) for p in parts)
        if gated:
            state = state * tf.expand_dims(tf.exp(rest[0]), -1)
        if len(rest) > int(gated):
            known = tf.squeeze(tf.matmul(tf.expand_dims(k, -2), state), [-2])
            v = rest[-1] * (v - known)
        state = state + tf.expand_dims(k, -1) * tf.expand_dims(v, -2)
        read = tf.matmul(tf.expand_dims(q, -2), repeated(state, group))
        out = tf.squeeze(read, [-2]) * scalar(scale, read)
        return t + tf.constant(1), state, array.write(t, out)
    _, state, array = tf.while_loop(
        lambda t, state, array: tf.less(t, total), turn, (tf.constant(0), state, array),
        shape_invariants=(tf.TensorShape([]), kept, tf.TensorShape([])))
    return array.stack(), state
