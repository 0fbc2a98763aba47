"""tf.random.stateless_gamma, stateless_poisson, stateless_binomial."""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.move import broadcast_ops
from pyflow.ops.random.stateless_variate_ops import (StatelessRandomBinomial,
                                                     StatelessRandomGammaV2, StatelessRandomPoisson)


# ------------------------------------------------------------------------------- functions
def stateless_gamma(shape, seed, alpha, beta=None, dtype=dtypes.float32, name=None):
    """Gamma(alpha, beta) variates from a seed of two. TF: random.stateless_gamma.
    shape: the result's whole shape; alpha, beta: floats of `dtype` that broadcast to its last
    dimensions. ValueError for shapes that do not fit, TypeError for other dtypes."""
    with graph.name_scope(name, "stateless_random_gamma", [shape, seed, alpha, beta]):
        shape = random_functions._shape_tensor(shape)
        alpha = graph.convert_to_tensor(alpha, name="alpha", dtype=dtype)
        beta = graph.convert_to_tensor(1 if beta is None else beta, name="beta", dtype=dtype)
        both = broadcast_ops.BroadcastArgs(tensors.shape(alpha), tensors.shape(beta))
        drawn = StatelessRandomGammaV2(shape, seed, broadcast_ops.BroadcastTo(alpha, both))
        least = np.finfo(alpha.dtype.as_numpy_dtype).tiny
        return binary_ops.Maximum(graph.convert_to_tensor(least, dtype=alpha.dtype), drawn / beta)


def stateless_poisson(shape, seed, lam, dtype=dtypes.int32, name=None):
    """Poisson variates of rates `lam` from a seed of two. TF: random.stateless_poisson.
    Dtypes, shapes, errors: as op StatelessRandomPoisson."""
    with graph.name_scope(name, "stateless_random_poisson", [shape, seed, lam]):
        return StatelessRandomPoisson(random_functions._shape_tensor(shape), seed, lam, dtype=dtype)


def stateless_binomial(shape, seed, counts, probs, output_dtype=dtypes.int32, name=None):
    """Successes among `counts` trials of probability `probs`, from a seed of two.
    TF: random.stateless_binomial.
    Dtypes, shapes, errors: as op StatelessRandomBinomial."""
    with graph.name_scope(name, "stateless_random_binomial", [shape, seed, counts, probs]):
        probs = graph.convert_to_tensor(probs, name="probs")
        counts = graph.convert_to_tensor(counts, name="counts", dtype=probs.dtype) \
            if not isinstance(counts, graph.Tensor) else counts
        return StatelessRandomBinomial(random_functions._shape_tensor(shape), seed, counts, probs,
                                       dtype=output_dtype)


PUBLIC = {
    "random.stateless_gamma": stateless_gamma, "random.stateless_poisson": stateless_poisson,
    "random.stateless_binomial": stateless_binomial,
}
