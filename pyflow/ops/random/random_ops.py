"""Random tensors: uniform, normal, truncated normal, shuffled, categorical.

Invariants
  1. The stream of an op depends on its (seed, seed2), its kind and how often it ran in its session,
     never on the number of threads: Philox counters (Salmon et al. 2011), one block per group of
     outputs.
  2. `framework.get_seed` gives (seed, seed2) from graph and op seeds by TF's rule; (0, 0) means
     unseeded.
  3. Not differentiable; shifting and scaling is done by ordinary ops, as in TF's graphs.

Example:  `tf.random_normal([2, 3], stddev=0.1, seed=1)`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, static, static_shape
from pyflow.ops.base.shape_rules import checked, match

SEEDS = "seed: int = 0, seed2: int = 0, "
DRAWN = "dtype: {half, bfloat16, float, double}, T: {int32, int64}"
SHAPES = [S(lit([2, 3]), dtype=dtypes.float32), S(lit([0, 3]), dtype=dtypes.float64),
          S(lit(np.zeros(0, np.int32)), dtype=dtypes.float32),
          S(lit([100]), dtype=dtypes.float16, seed=1)]


def _given_shape(op):
    return static_shape(op.inputs[0])


@op("RandomUniform", inputs="shape: T", outputs="output: dtype", attrs=SEEDS + DRAWN, stateful=True)
class RandomUniform:
    """Uniform numbers in [0, 1). No NumPy oracle: the tests check moments and repeatability.
    TF: RandomUniform."""
    shape = _given_shape
    gradient = None
    reference = None
    samples = SHAPES


@op("RandomUniformInt", inputs="shape: T, minval: Tout, maxval: Tout", outputs="output: Tout",
    stateful=True,
    attrs=SEEDS + "Tout: {int32, int64}, T: {int32, int64}")
class RandomUniformInt:
    """Uniform integers in [minval, maxval). TF: RandomUniformInt."""
    shape = checked(_given_shape, None, "", "")
    gradient = UNREGISTERED
    reference = None
    samples = [S(lit([2, 3]), lit(0), lit(10)), S(lit([0]), lit(-5), lit(5))]


@op("RandomStandardNormal", inputs="shape: T", outputs="output: dtype", attrs=SEEDS + DRAWN,
    stateful=True)
class RandomStandardNormal:
    """Normal numbers, mean 0, deviation 1 (Box-Muller). TF: RandomStandardNormal."""
    shape = _given_shape
    gradient = None
    reference = None
    samples = SHAPES


@op("TruncatedNormal", inputs="shape: T", outputs="output: dtype", attrs=SEEDS + DRAWN,
    stateful=True)
class TruncatedNormal:
    """Normal numbers, those beyond two deviations drawn again. TF: TruncatedNormal."""
    shape = _given_shape
    gradient = None
    reference = None
    samples = SHAPES


@op("RandomShuffle", inputs="value: T", outputs="output: T", attrs=SEEDS + "T: type", stateful=True)
class RandomShuffle:
    """The rows of `value` in random order. TF: RandomShuffle."""
    def shape(op): return op.inputs[0].shape
    gradient = None
    reference = None
    samples = [S((5, 2)), S((7,)), S(()), S((0, 3))]


@op("Multinomial", inputs="logits: T, num_samples: int32", outputs="output: output_dtype",
    stateful=True,
    attrs=SEEDS + "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, "
                  "uint32, "
    "uint64}, output_dtype: {int32, int64} = int64")
class Multinomial:
    """`num_samples` classes per row, with probabilities softmax(logits). TF: Multinomial."""
    def shape(op):
        match(op, "b c", "")
        logits, n = op.inputs[0].shape, static(op.inputs[1])
        if logits.ndims not in (None, 2):
            raise ValueError(f"Multinomial: logits must be a matrix, got shape {logits}")
        rows = (dims_of(logits) or [None])[0]
        return TensorShape([rows, None if n is None else int(n)])
    gradient = None
    reference = None
    samples = [S((2, 3), lit(4)), S((1, 2), lit(0)), S((0, 3), lit(2))]
