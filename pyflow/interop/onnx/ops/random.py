"""Random numbers.  A seed attribute becomes the op's seed; without one every step differs."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import ints, sizes
from pyflow.interop.onnx.registry import converter


def _seed(node):
    seed = node.attr("seed", None)
    return None if seed is None else int(np.float32(seed).view(np.int32))


def _uniform(node, shape, dtype):
    low, high = node.attr("low", 0.0), node.attr("high", 1.0)
    wide = dtype if dtype in (tf.float32, tf.float64) else tf.float32
    made = tf.random_uniform(shape, low, high, dtype=wide, seed=_seed(node))
    return tf.cast(made, dtype)


def _normal(node, shape, dtype):
    mean, scale = node.attr("mean", 0.0), node.attr("scale", 1.0)
    wide = dtype if dtype in (tf.float32, tf.float64) else tf.float32
    return tf.cast(tf.random_normal(shape, mean, scale, dtype=wide, seed=_seed(node)), dtype)


@converter("RandomUniform")
def random_uniform(node):
    return _uniform(node, ints(node.attr("shape")), node.element_type("dtype", tf.float32))


@converter("RandomNormal")
def random_normal(node):
    return _normal(node, ints(node.attr("shape")), node.element_type("dtype", tf.float32))


@converter("RandomUniformLike")
def random_uniform_like(node):
    return _uniform(node, sizes(node.x(0)), node.element_type("dtype", node.value(0).dtype))


@converter("RandomNormalLike")
def random_normal_like(node):
    return _normal(node, sizes(node.x(0)), node.element_type("dtype", node.value(0).dtype))


@converter("Bernoulli")
def bernoulli(node):
    x = node.x(0)
    drawn = tf.random_uniform(sizes(x), dtype=x.dtype if x.dtype.size >= 4 else tf.float32,
                              seed=_seed(node))
    return tf.cast(tf.less(drawn, tf.cast(x, drawn.dtype)), node.element_type("dtype", x.dtype))


@converter("Multinomial")
def multinomial(node):
    """Classes drawn with the probabilities whose logarithms are given."""
    made = tf.multinomial(node.x(0), node.attr("sample_size", 1), seed=_seed(node))
    return tf.cast(made, node.element_type("dtype", tf.int32))
