"""Random tensors that are a function of a seed [2] (stateless), and gamma and Poisson variates.

Invariants
  1. A stateless op's numbers depend on its inputs alone; TensorFlow's for equal seeds (Philox).
  2. Gamma variates differentiate by alpha (and beta), implicitly (Figurnov et al. 2018).

Example:  `tf.random.stateless_normal([3], seed=[1, 2])`;  `tf.random_gamma([10], alpha=[0.5, 2])`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, static, static_shape
from pyflow.ops.base.shape_rules import checked, match

SEEDED = "dtype: {half, bfloat16, float, double} = float, T: {int32, int64} = int32, " \
         "Tseed: {int32, int64} = int64"
SAMPLES = [S(lit([2, 3]), lit([1, 2])), S(lit([0, 3]), lit([-5, 2**31 - 1])),
           S(lit([7]), lit([3, 4]), dtype=dtypes.float64),
           S(lit([7]), lit([3, 4]), dtype=dtypes.float16)]


def _seed_shape(op):
    op.inputs[1].shape.assert_is_compatible_with([2])
    return static_shape(op.inputs[0])


def _stateless(name, what):
    @op(name, inputs="shape: T, seed: Tseed", outputs="output: dtype", attrs=SEEDED,
        doc=f"{what}, from a seed of two numbers. No NumPy oracle: TensorFlow's recorded numbers "
            f"are compared. TF: {name}.")
    class Stateless:
        shape = _seed_shape
        gradient = None
        reference = None
        samples = SAMPLES
    return Stateless


StatelessRandomUniform = _stateless("StatelessRandomUniform", "Uniform numbers in [0, 1)")
StatelessRandomNormal = _stateless("StatelessRandomNormal", "Normal numbers")
StatelessTruncatedNormal = _stateless("StatelessTruncatedNormal",
                                      "Normal numbers within two deviations")


@op("StatelessRandomUniformInt", inputs="shape: T, seed: Tseed, minval: dtype, maxval: dtype",
    outputs="output: dtype",
    attrs="dtype: {int32, int64}, T: {int32, int64}, Tseed: {int32, int64} = int64")
class StatelessRandomUniformInt:
    """Uniform integers in [minval, maxval), from a seed of two numbers. TF:
    StatelessRandomUniformInt.
    """
    shape = checked(_seed_shape, None, "2", "", "")
    gradient = None
    reference = None
    samples = [S(lit([2, 3]), lit([1, 2]), lit(-3), lit(10)),
               S(lit([0]), lit([1, 2]), lit(0), lit(5))]


@op("StatelessMultinomial", inputs="logits: T, num_samples: int32, seed: Tseed",
    outputs="output: output_dtype",
    attrs="T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, "
          "uint64}, Tseed: {int32, int64} = int64, output_dtype: {int32, int64} = int64")
class StatelessMultinomial:
    """Classes per row with probabilities softmax(logits), from a seed of two numbers.
    TF: StatelessMultinomial."""
    def shape(op):
        match(op, "b c", "", "2")
        logits, n = op.inputs[0].shape, static(op.inputs[1])
        op.inputs[2].shape.assert_is_compatible_with([2])
        if logits.ndims not in (None, 2):
            raise ValueError(f"StatelessMultinomial: logits must be a matrix, got shape {logits}")
        rows = (dims_of(logits) or [None])[0]
        return TensorShape([rows, None if n is None else int(n)])
    gradient = None
    reference = None
    samples = [S((2, 3), lit(4), lit([1, 2])), S((0, 3), lit(2), lit([1, 2]))]


# --------------------------------------------------------------------------- gamma and Poisson
def _outer_shape(op):
    return static_shape(op.inputs[0]).concatenate(op.inputs[1].shape)


def _gamma_gradient(op, dy):
    shape, alpha = op.inputs
    sample = op.outputs[0]
    extra = tensors.shape(shape)[0]
    slope = raw_ops.RandomGammaGrad(alpha, sample)
    return [None, tensors.sum_of(dy * slope, axis=tensors.range_(extra))]


@op("RandomGamma", inputs="shape: S, alpha: T", outputs="output: T", stateful=True,
    T=(dtypes.float16, dtypes.float32, dtypes.float64),
    attrs="seed: int = 0, seed2: int = 0, S: {int32, int64}")
class RandomGamma:
    """Gamma variates of scale 1, shape `shape` for each alpha. No NumPy oracle: moments, and
    TensorFlow's recorded numbers. TF: RandomGamma."""
    shape = _outer_shape
    gradient = _gamma_gradient
    reference = None
    samples = [S(lit([2, 3]), lit([0.5, 1.0, 4.0])), S(lit(np.zeros(0, np.int32)), lit(2.0)),
               S(lit([0]), lit([2.0]))]


RATES = [S(lit([2, 3]), lit([0.5, 3.0, 40.0])), S(lit(np.zeros(0, np.int32)), lit(2.0)),
         S(lit([0]), lit([2.0]))]


@op("RandomPoisson", inputs="shape: S, rate: dtype", outputs="output: dtype", stateful=True,
    attrs="seed: int = 0, seed2: int = 0, S: {int32, int64}, dtype: {half, float, double}")
class RandomPoisson:
    """Poisson variates, shape `shape` for each rate; the older form. TF: RandomPoisson."""
    shape = _outer_shape
    gradient = UNREGISTERED
    reference = None
    samples = RATES


@op("RandomPoissonV2", inputs="shape: S, rate: R", outputs="output: dtype", stateful=True,
    attrs="seed: int = 0, seed2: int = 0, S: {int32, int64}, R: {half, float, double, int32, "
          "int64} = double, dtype: {half, float, double, int32, int64} = int64")
class RandomPoissonV2:
    """Poisson variates, shape `shape` for each rate. No NumPy oracle: moments, and TensorFlow's
    recorded numbers. TF: RandomPoissonV2."""
    shape = _outer_shape
    gradient = UNREGISTERED
    reference = None
    samples = RATES
