"""Activations built of several ops: crelu, swish, log_sigmoid; leaky_relu."""
from pyflow.framework import dtypes, graph
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import unary_ops
from pyflow.ops.elementwise.activation_ops import LeakyRelu, Relu, Sigmoid, Softplus


# -------------------------------------------------------------------------------- exponential units
def leaky_relu(features, alpha=0.2, name=None):
    """`features` where positive, else `alpha` times it; integers become float32.
    TF: nn.leaky_relu.
    Dtypes, shapes, errors: as op LeakyRelu."""
    features = graph.convert_to_tensor(features, name="features")
    if features.dtype.is_integer:
        features = tensors.cast(features, dtypes.float32)
    return LeakyRelu(features, alpha=float(alpha), name=name)


def crelu(features, name=None, axis=-1):
    """relu(features) and relu(-features) side by side along `axis` (doubles it). TF: nn.crelu.
    features: floats of any shape; that dimension doubles. TypeError for other dtypes, ValueError
    for shapes that do not fit."""
    with graph.name_scope(name, "CRelu", [features]):
        features = graph.convert_to_tensor(features, name="features")
        return Relu(tensors.concat([features, -features], axis))


def log_sigmoid(x, name=None):
    """log(sigmoid(x)) = -softplus(-x), without underflow. TF: tf.log_sigmoid.
    x: floats of any shape, which the result has too. TypeError for other dtypes, ValueError for
    shapes that do not fit."""
    with graph.name_scope(name, "LogSigmoid", [x]) as scope:
        x = graph.convert_to_tensor(x, name="x")
        return unary_ops.Neg(Softplus(-x), name=scope)


def swish(features, name=None):
    """features * sigmoid(features) (Ramachandran et al. 2017). TF: nn.swish.
    features: floats of any shape, which the result has too. TypeError for other dtypes,
    ValueError for shapes that do not fit."""
    with graph.name_scope(name, "swish", [features]):
        features = graph.convert_to_tensor(features, name="features")
        return features * Sigmoid(features)


PUBLIC = {
    "nn.leaky_relu": leaky_relu, "nn.crelu": crelu, "nn.swish": swish, "log_sigmoid": log_sigmoid,
    "math.log_sigmoid": log_sigmoid, "nn.log_sigmoid": log_sigmoid,
}
