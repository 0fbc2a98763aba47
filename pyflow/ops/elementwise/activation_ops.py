"""Activation functions of neural networks and the gradient ops TF's graphs use for them.

Invariants
  1. All are element-wise: output shape and dtype = those of the first input.
  2. Each *Grad op takes (gradients, features or outputs) as TF's does, so a stored TF graph runs
     unchanged.
  3. Each *Grad op has a gradient itself where TF gives one: second derivatives work.

Example:  `tf.nn.relu([-1.0, 2.0])` -> [0, 2].
"""
import numpy as np

from pyflow.framework.dtypes import COMPLEX, FLOATS, REAL
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops, unit
from pyflow.ops.base import tensors
from pyflow.ops.base.common import ELEMENTWISE, SAME_PAIRS, conj, merged, unchanged

SELU_ALPHA = 1.6732632423543772848170429916717   # Klambauer et al. 2017, eq. 14
SELU_SCALE = 1.0507009873554804934193349852946
NEAR_KINKS = S(lit([-7.0, -0.5, 0.5, 5.5, 6.5]), types=FLOATS)
GRAD_KINKS = S(lit([1.0, 2.0, 3.0, 4.0, 5.0]), lit([-7.0, -0.5, 0.5, 5.5, 6.5]), types=FLOATS)


def _stable_sigmoid(x):
    small = np.exp(-np.abs(x.real)) if not np.iscomplexobj(x) else None
    if small is None:
        return 1 / (1 + np.exp(-x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _zeros(x):
    return tensors.zeros_like(x)


# --------------------------------------------------------------------------------- sigmoid and tanh
@op("Sigmoid", inputs="x: T", outputs="y: T", T=FLOATS + COMPLEX)
class Sigmoid:
    """1 / (1 + exp(-x)), without overflow. TF: Sigmoid.

        >>> tf.Session().run(tf.sigmoid([0., -100., 100.])).round(3)
        array([0.5, 0. , 1. ], dtype=float32)
    """
    shape = unchanged

    def gradient(op, dy):
        return SigmoidGrad(conj(op.outputs[0]), dy)

    def reference(x): return _stable_sigmoid(x)
    samples = ELEMENTWISE


@op("SigmoidGrad", inputs="y: T, dy: T", outputs="z: T", T=FLOATS + COMPLEX)
class SigmoidGrad:
    """Gradient of Sigmoid from its output: dy * y * (1 - y), of complex numbers from the
    output's conjugate. TF: SigmoidGrad."""
    shape = merged

    def gradient(op, dz):
        y, product = conj(op.inputs[0]), dz * conj(op.inputs[1])
        return [product - 2.0 * product * y, SigmoidGrad(y, dz)]

    def reference(y, dy): return dy * y * (1 - y)
    samples = SAME_PAIRS


@op("Tanh", inputs="x: T", outputs="y: T", T=FLOATS + COMPLEX)
class Tanh:
    """Hyperbolic tangent. TF: Tanh.

    x: floats or complex numbers of any shape.

        >>> tf.Session().run(tf.tanh([0., -100., 100.]))
        array([ 0., -1.,  1.], dtype=float32)
    """
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return TanhGrad(conj(op.outputs[0]), dy)

    def reference(x): return np.tanh(x)
    samples = ELEMENTWISE


@op("TanhGrad", inputs="y: T, dy: T", outputs="z: T", T=FLOATS + COMPLEX)
class TanhGrad:
    """Gradient of Tanh from its output: dy * (1 - y^2), of complex numbers from the output's
    conjugate. TF: TanhGrad."""
    shape = merged

    def gradient(op, dz):
        y, dy = conj(op.inputs[0]), conj(op.inputs[1])
        return [dz * -2.0 * dy * y, TanhGrad(y, dz)]

    def reference(y, dy): return dy * (1 - y * y)
    samples = SAME_PAIRS


# --------------------------------------------------------------------------------------- rectifiers
@op("Relu", inputs="features: T", outputs="activations: T", T=REAL)
class Relu:
    """max(features, 0). TF: Relu (Nair and Hinton 2010).

    features: numbers of any shape.

        >>> tf.Session().run(tf.nn.relu([-1.0, 2.0]))
        array([0., 2.], dtype=float32)
    """
    shape = unchanged

    def gradient(op, dy):
        return ReluGrad(dy, op.outputs[0])

    def reference(features): return np.maximum(features, 0)
    samples = ELEMENTWISE + [NEAR_KINKS]


@op("ReluGrad", inputs="gradients: T, features: T", outputs="backprops: T", T=REAL)
class ReluGrad:
    """`gradients` where features > 0, else 0; `features` may be Relu's output. TF: ReluGrad."""
    shape = merged

    def gradient(op, dz):
        features = op.inputs[1]
        return [ReluGrad(dz, features), _zeros(features)]

    def reference(gradients, features): return gradients * (features > 0)
    samples = SAME_PAIRS + [GRAD_KINKS]


@op("Relu6", inputs="features: T", outputs="activations: T", T=REAL)
class Relu6:
    """min(max(features, 0), 6). TF: Relu6 (Krizhevsky 2010)."""
    shape = unchanged

    def gradient(op, dy):
        return Relu6Grad(dy, op.outputs[0])

    def reference(features): return np.minimum(np.maximum(features, 0), 6)
    samples = ELEMENTWISE + [NEAR_KINKS]


@op("Relu6Grad", inputs="gradients: T, features: T", outputs="backprops: T", T=REAL)
class Relu6Grad:
    """`gradients` where 0 < features < 6, else 0. TF: Relu6Grad."""
    shape = merged

    def gradient(op, dz):
        features = op.inputs[1]
        return [Relu6Grad(dz, features), _zeros(features)]

    def reference(gradients, features): return gradients * ((features > 0) & (features < 6))
    samples = SAME_PAIRS + [GRAD_KINKS]


@op("LeakyRelu", inputs="features: T", outputs="activations: T",
    attrs="alpha: float = 0.2, T: {half, bfloat16, float, double} = float")
class LeakyRelu:
    """features where positive, else alpha * features. TF: LeakyRelu (Maas et al. 2013)."""
    shape = unchanged

    def gradient(op, dy):
        return LeakyReluGrad(dy, op.inputs[0], alpha=op.attr("alpha"))

    def reference(features, alpha):
        return np.where(features > 0, features, np.float32(alpha) * features)
    samples = ELEMENTWISE + [NEAR_KINKS, S((2, 3), alpha=0.5), S((3,), alpha=1.5)]


@op("LeakyReluGrad", inputs="gradients: T, features: T", outputs="backprops: T",
    attrs="alpha: float = 0.2, T: {half, bfloat16, float, double} = float")
class LeakyReluGrad:
    """`gradients` where features > 0, else alpha * gradients. TF: LeakyReluGrad."""
    shape = merged

    def gradient(op, dz):
        features = op.inputs[1]
        return [LeakyReluGrad(dz, features, alpha=op.attr("alpha")), _zeros(features)]

    def reference(gradients, features, alpha):
        return np.where(features > 0, gradients, np.float32(alpha) * gradients)
    samples = SAME_PAIRS + [GRAD_KINKS]


# -------------------------------------------------------------------------------- exponential units
@op("Elu", inputs="features: T", outputs="activations: T", T=FLOATS)
class Elu:
    """exp(features) - 1 below zero, features above. TF: Elu (Clevert et al. 2015)."""
    shape = unchanged

    def gradient(op, dy):
        return EluGrad(dy, op.outputs[0])

    def reference(features): return np.where(features < 0, np.expm1(features), features)
    samples = ELEMENTWISE + [NEAR_KINKS]


@op("EluGrad", inputs="gradients: T, outputs: T", outputs="backprops: T", T=FLOATS)
class EluGrad:
    """Gradient of Elu from its outputs: gradients * (outputs + 1) below zero. TF: EluGrad."""
    shape = merged

    def gradient(op, dz):
        gradients, outputs = op.inputs
        below = raw_ops.Select(outputs < 0.0, dz * gradients, _zeros(outputs))
        return [EluGrad(dz, outputs), below]

    def reference(gradients, outputs):
        return np.where(outputs < 0, gradients * (outputs + 1), gradients)
    samples = [S((2, 3), unit((2, 3))), S((), unit(())), S((0, 3), (0, 3))]


@op("Selu", inputs="features: T", outputs="activations: T", T=FLOATS)
class Selu:
    """Scaled Elu with the constants that keep mean 0 and variance 1. TF: Selu (Klambauer 2017)."""
    shape = unchanged

    def gradient(op, dy):
        return SeluGrad(dy, op.outputs[0])

    def reference(features):
        return SELU_SCALE * np.where(features < 0, SELU_ALPHA * np.expm1(features), features)
    samples = ELEMENTWISE + [NEAR_KINKS]


@op("SeluGrad", inputs="gradients: T, outputs: T", outputs="backprops: T", T=FLOATS)
class SeluGrad:
    """Gradient of Selu from its outputs. TF: SeluGrad."""
    shape = merged

    def gradient(op, dz):
        gradients, outputs = op.inputs
        below = raw_ops.Select(outputs < 0.0, dz * gradients, _zeros(outputs))
        return [SeluGrad(dz, outputs), below]

    def reference(gradients, outputs):
        slope = np.where(outputs < 0, outputs + SELU_SCALE * SELU_ALPHA, SELU_SCALE)
        return gradients * slope
    samples = [S((2, 3), unit((2, 3))), S((), unit(())), S((0, 3), (0, 3))]


@op("Softplus", inputs="features: T", outputs="activations: T", T=FLOATS)
class Softplus:
    """log(exp(features) + 1), without overflow. TF: Softplus.

    features: floats of any shape.

        >>> tf.Session().run(tf.nn.softplus([0., 100.])).round(3)
        array([  0.693, 100.   ], dtype=float32)
    """
    shape = unchanged

    def gradient(op, dy):
        return SoftplusGrad(dy, op.inputs[0])

    def reference(features):
        return np.maximum(features, 0) + np.log1p(np.exp(-np.abs(features)))
    samples = ELEMENTWISE + [NEAR_KINKS]


@op("SoftplusGrad", inputs="gradients: T, features: T", outputs="backprops: T", T=FLOATS)
class SoftplusGrad:
    """gradients / (exp(-features) + 1). TF: SoftplusGrad."""
    shape = merged

    def gradient(op, dz):
        gradients, features = op.inputs
        slope = Sigmoid(features)
        return [SoftplusGrad(dz, features), dz * gradients * slope * (1.0 - slope)]

    def reference(gradients, features): return gradients * _stable_sigmoid(features)
    samples = SAME_PAIRS


@op("Softsign", inputs="features: T", outputs="activations: T", T=FLOATS)
class Softsign:
    """features / (1 + |features|). TF: Softsign."""
    shape = unchanged

    def gradient(op, dy):
        return SoftsignGrad(dy, op.inputs[0])

    def reference(features): return features / (1 + np.abs(features))
    samples = ELEMENTWISE


@op("SoftsignGrad", inputs="gradients: T, features: T", outputs="backprops: T", T=FLOATS)
class SoftsignGrad:
    """gradients / (1 + |features|)^2. TF gives it no gradient. TF: SoftsignGrad."""
    shape = merged
    gradient = UNREGISTERED

    def reference(gradients, features): return gradients / (1 + np.abs(features)) ** 2
    samples = SAME_PAIRS


PUBLIC = {
    "sigmoid": Sigmoid, "nn.sigmoid": Sigmoid, "math.sigmoid": Sigmoid, "tanh": Tanh,
    "nn.tanh": Tanh, "math.tanh": Tanh, "nn.relu": Relu, "nn.relu6": Relu6, "nn.elu": Elu,
    "nn.selu": Selu, "nn.softplus": Softplus, "math.softplus": Softplus, "nn.softsign": Softsign,
    "math.softsign": Softsign,
}
