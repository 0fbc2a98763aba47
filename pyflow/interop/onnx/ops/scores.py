"""What the learners of ai.onnx.ml do with their scores: post_transform, classes, labels."""

import math

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import scalar

ML = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
MAX_CLASSES = 1 << 20


def transform_of(node):
    """The node's post_transform, by name."""
    given = node.attr("post_transform", "NONE")
    if given not in TRANSFORMS:
        raise node.error(f"post_transform {given!r} is none of {', '.join(TRANSFORMS)}")
    return given


def _probit(p):
    """Winitzki's approximation of the normal distribution's quantiles."""
    x = 2.0 * p - 1.0
    log = tf.log((1.0 - x) * (1.0 + x))
    v = 2 / (math.pi * 0.147) + 0.5 * log
    return math.sqrt(2) * tf.sign(x) * tf.sqrt(-v + tf.sqrt(v * v - log / 0.147))


def transformed(scores, transform):
    """Rows of scores after a post_transform."""
    if transform == "LOGISTIC":
        return tf.sigmoid(scores)
    if transform == "SOFTMAX":
        return tf.nn.softmax(scores)
    if transform == "PROBIT":
        return _probit(scores)
    if transform == "NONE":
        return scores
    top = tf.reduce_max(scores, -1, keepdims=True)
    zero = tf.less_equal(tf.abs(scores), scalar(1e-7, scores))
    made = tf.exp(scores - top)
    total = tf.reduce_sum(tf.where(zero, tf.zeros_like(made), made), -1, keepdims=True)
    return tf.where(zero, scores * tf.exp(-top), made) / total


def labels_of(node, ints="classlabels_ints", strings="classlabels_strings"):
    """The classes of a classifier: an array of int64, or of bytes."""
    words = node.attr(strings, [])
    labels = np.array(node.attr(ints, []), np.int64) if not words else encoded(words)
    if not 0 < len(labels) <= MAX_CLASSES:
        raise node.error(f"{strings} or {ints} must name the classes")
    return labels


def encoded(words):
    """An object array of bytes."""
    made = np.empty(len(words), object)
    made[:] = [w.encode("utf-8", "surrogateescape") if isinstance(w, str) else bytes(w)
               for w in words]
    return made


def chosen(labels, places):
    """The labels at `places`, a tensor of indices."""
    return tf.gather(tf.constant(labels), places)


def floats(node, name, default=()):
    """An attribute's numbers as float32."""
    return np.array(node.attr(name, default), np.float32).reshape(-1)


def rows(node, i=0):
    """Input `i` as [samples, features] of float32; what has one axis is one sample."""
    rank = node.expect_rank(i, 1, 2)
    x = tf.cast(node.x(i), tf.float32)
    return tf.reshape(x, [1, -1]) if rank == 1 else x


def check_features(node, wanted):
    """OnnxError if the samples are known not to have `wanted` features."""
    have = node.shape(0)[-1]
    if have is not None and have != wanted:
        raise node.error(f"the samples have {have} features, the weights are for {wanted}")
