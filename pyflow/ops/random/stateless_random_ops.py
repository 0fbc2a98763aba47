"""Random tensors that are a function of a seed [2] (stateless), and gamma and Poisson variates.

Invariants
  1. A stateless op's numbers depend on its inputs alone; TensorFlow's for equal seeds (Philox).
  2. Gamma variates differentiate by alpha (and beta), implicitly (Figurnov et al. 2018).

Example:  `tf.random.stateless_normal([3], seed=[1, 2])`;  `tf.random_gamma([10], alpha=[0.5, 2])`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, static, static_shape
from pyflow.ops.base.shape_rules import checked, match
from pyflow.ops.elementwise import binary_ops, special_ops
from pyflow.ops.move import array_ops, broadcast_ops
from pyflow.ops.random import random_ops
from pyflow.ops.reduce import reduction_ops

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
    extra = array_ops.shape(shape)[0]
    slope = special_ops.RandomGammaGrad(alpha, sample)
    return [None, reduction_ops.reduce_sum(dy * slope, axis=array_ops.range_(extra))]


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


# ------------------------------------------------------------------------------- functions
def random_gamma(shape, alpha, beta=None, dtype=dtypes.float32, seed=None, name=None):
    """`shape` variates of Gamma(alpha, beta) for each element of alpha and beta. TF:
    tf.random_gamma.
    alpha, beta: floats of `dtype` that broadcast; result: [*shape, *broadcast shape]. ValueError for
    shapes that do not broadcast, TypeError for other dtypes."""
    with graph.name_scope(name, "random_gamma", [shape, alpha, beta]):
        shape = graph.convert_to_tensor(shape, name="shape", dtype=dtypes.int32)
        alpha = graph.convert_to_tensor(alpha, name="alpha", dtype=dtype)
        beta = graph.convert_to_tensor(1 if beta is None else beta, name="beta", dtype=alpha.dtype)
        both = broadcast_ops.BroadcastArgs(array_ops.shape(alpha), array_ops.shape(beta))
        wide = broadcast_ops.BroadcastTo(alpha, both)
        seed1, seed2 = graph.get_seed(seed)
        drawn = RandomGamma(shape, wide, seed=seed1 or 0, seed2=seed2 or 0)
        least = np.finfo(alpha.dtype.as_numpy_dtype).tiny
        return binary_ops.Maximum(graph.convert_to_tensor(least, dtype=alpha.dtype), drawn / beta)


def random_poisson(lam, shape, dtype=dtypes.float32, seed=None, name=None):
    """`shape` Poisson variates for each rate in `lam`. TF: tf.random_poisson.
    Dtypes, shapes, errors: as op RandomPoissonV2."""
    with graph.name_scope(name, "random_poisson", [lam, shape]):
        shape = graph.convert_to_tensor(shape, name="shape", dtype=dtypes.int32)
        seed1, seed2 = graph.get_seed(seed)
        return RandomPoissonV2(shape, graph.convert_to_tensor(lam, name="rate"), dtype=dtype,
                               seed=seed1 or 0, seed2=seed2 or 0)


def _check_alg(alg):
    if alg not in ("auto_select", "philox"):
        raise ValueError(f"alg {alg!r} is not offered; use 'philox' or 'auto_select'")


def stateless_uniform(shape, seed, minval=0, maxval=None, dtype=dtypes.float32, name=None,
                      alg="auto_select"):
    """Uniform numbers in [minval, maxval), from a seed of two. TF: random.stateless_uniform.
    Dtypes, shapes, errors: as ops StatelessRandomUniform and StatelessRandomUniformInt."""
    _check_alg(alg)
    dtype = dtypes.as_dtype(dtype)
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        maxval = 1
    with graph.name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]):
        shape = random_ops._shape_tensor(shape)
        low = graph.convert_to_tensor(minval, dtype=dtype, name="min")
        high = graph.convert_to_tensor(maxval, dtype=dtype, name="max")
        if dtype.is_integer:
            return StatelessRandomUniformInt(shape, seed, low, high)
        return StatelessRandomUniform(shape, seed, dtype=dtype) * (high - low) + low


def stateless_normal(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None,
                     alg="auto_select"):
    """Normal numbers from a seed of two. TF: random.stateless_normal.
    Dtypes, shapes, errors: as op StatelessRandomNormal."""
    return _scaled(StatelessRandomNormal, "stateless_random_normal", shape, seed, mean, stddev,
                   dtype, name, alg)


def stateless_truncated_normal(shape, seed, mean=0.0, stddev=1.0, dtype=dtypes.float32, name=None,
                               alg="auto_select"):
    """Normal numbers within two deviations, from a seed of two. TF:
    random.stateless_truncated_normal.
    Dtypes, shapes, errors: as op StatelessTruncatedNormal."""
    return _scaled(StatelessTruncatedNormal, "stateless_truncated_normal", shape, seed, mean,
                   stddev, dtype, name, alg)


def _scaled(op_def, scope, shape, seed, mean, stddev, dtype, name, alg):
    _check_alg(alg)
    dtype = dtypes.as_dtype(dtype)
    with graph.name_scope(name, scope, [shape, seed, mean, stddev]):
        mean = graph.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = graph.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        drawn = op_def(random_ops._shape_tensor(shape), seed, dtype=dtype)
        return drawn * stddev + mean


def stateless_multinomial(logits, num_samples, seed, output_dtype=dtypes.int64, name=None):
    """Classes drawn with probabilities softmax(logits), from a seed of two.
    TF: random.stateless_multinomial.
    Dtypes, shapes, errors: as op StatelessMultinomial."""
    with graph.name_scope(name, "stateless_multinomial", [logits, seed]):
        logits = graph.convert_to_tensor(logits, name="logits")
        return StatelessMultinomial(logits, num_samples, seed, output_dtype=output_dtype)


def stateless_categorical(logits, num_samples, seed, dtype=dtypes.int64, name=None):
    """The newer name of stateless_multinomial. TF: random.stateless_categorical.
    Dtypes, shapes, errors: as op StatelessMultinomial."""
    return stateless_multinomial(logits, num_samples, seed, dtype, name or "stateless_categorical")


PUBLIC = {
    "random_gamma": random_gamma, "random.gamma": random_gamma, "random_poisson": random_poisson,
    "random.poisson": random_poisson, "random.stateless_uniform": stateless_uniform,
    "random.stateless_normal": stateless_normal,
    "random.stateless_truncated_normal": stateless_truncated_normal,
    "random.stateless_multinomial": stateless_multinomial,
    "random.stateless_categorical": stateless_categorical,
}
