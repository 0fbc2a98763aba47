"""leaky_relu(x, alpha=0.2): the op hello.LeakyRelu, whose kernel is hello.c, and its gradient."""
import pyflow as tf
from pyflow import plugins

leaky_relu = plugins.op("hello.LeakyRelu")


@tf.RegisterGradient("hello.LeakyRelu")
def _leaky_relu_gradient(op, dy):
    return tf.where(op.inputs[0] > 0, dy, op.get_attr("alpha") * dy)
