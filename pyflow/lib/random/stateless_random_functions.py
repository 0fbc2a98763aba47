"""tf.random.stateless_*, and gamma and Poisson variates."""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.move import broadcast_ops
from pyflow.ops.random.stateless_random_ops import (RandomGamma, RandomPoissonV2,
                                                    StatelessMultinomial, StatelessRandomNormal,
                                                    StatelessRandomUniform,
                                                    StatelessRandomUniformInt,
                                                    StatelessTruncatedNormal)


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
        both = broadcast_ops.BroadcastArgs(tensors.shape(alpha), tensors.shape(beta))
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
        shape = random_functions._shape_tensor(shape)
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
        drawn = op_def(random_functions._shape_tensor(shape), seed, dtype=dtype)
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
