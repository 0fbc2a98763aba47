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

from pyflow.framework import dtypes, graph
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, int32s, sizes, static, static_shape
from pyflow.ops.base.shape_rules import checked, match
from pyflow.ops.elementwise import binary_ops

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


# --------------------------------------------------------------------------------- public functions
def _shape_tensor(shape):
    """An int32 or int64 vector from ints, Dimensions, a TensorShape or a tensor."""
    if isinstance(shape, graph.Tensor):
        return shape
    if isinstance(shape, TensorShape):
        shape = sizes(shape.as_list())
    elif isinstance(shape, (list, tuple)) and not any(isinstance(d, graph.Tensor) for d in shape):
        shape = sizes([int(d) for d in shape])
    return graph.convert_to_tensor(shape, name="shape")


def _drawn(opdef, shape, dtype, seed, name=None):
    seed1, seed2 = graph.get_seed(seed)
    return opdef(_shape_tensor(shape), dtype=dtype, seed=seed1 or 0, seed2=seed2 or 0, name=name)


def _scaled(numbers, scale, shift, name):
    """shift + numbers * scale, as TF's graphs compute it."""
    return binary_ops.Add(numbers * scale, shift, name=name)


def random_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normal numbers of mean `mean` and deviation `stddev`. TF: tf.random_normal.
    Result: `shape` of a float `dtype`. TypeError for other dtypes, ValueError for shapes that do
    not fit."""
    dtype = dtypes.as_dtype(dtype)
    with graph.name_scope(name, "random_normal", [shape, mean, stddev]) as scope:
        shape = _shape_tensor(shape)
        mean = graph.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = graph.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        return _scaled(_drawn(RandomStandardNormal, shape, dtype, seed), stddev, mean, scope)


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normal numbers within two deviations of the mean. TF: tf.truncated_normal.
    Result: `shape` of a float `dtype`. TypeError for other dtypes, ValueError for shapes that do
    not fit."""
    dtype = dtypes.as_dtype(dtype)
    with graph.name_scope(name, "truncated_normal", [shape, mean, stddev]) as scope:
        shape = _shape_tensor(shape)
        mean = graph.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = graph.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        return _scaled(_drawn(TruncatedNormal, shape, dtype, seed), stddev, mean, scope)


def _is_number(value, number):
    return isinstance(value, (int, float)) and value == number


def random_uniform(shape, minval=0, maxval=None, dtype=dtypes.float32, seed=None, name=None):
    """Uniform numbers in [minval, maxval); maxval is 1 for floats and needed for integers.
    TF: tf.random_uniform.
    Result: `shape` of `dtype`, floats, int32 or int64. ValueError for integers without maxval."""
    dtype = dtypes.as_dtype(dtype)
    if dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int32,
                     dtypes.int64):
        raise ValueError(f"Invalid dtype {dtype!r}: tf.random_uniform draws floats, int32 or int64")
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        maxval = 1
    with graph.name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        shape = _shape_tensor(shape)
        if dtype.is_floating and _is_number(minval, 0) and _is_number(maxval, 1):
            return _drawn(RandomUniform, shape, dtype, seed)
        low = graph.convert_to_tensor(minval, dtype=dtype, name="min")
        high = graph.convert_to_tensor(maxval, dtype=dtype, name="max")
        if dtype.is_integer:
            seed1, seed2 = graph.get_seed(seed)
            return RandomUniformInt(shape, low, high, seed=seed1 or 0, seed2=seed2 or 0, name=scope)
        return _scaled(_drawn(RandomUniform, shape, dtype, seed), high - low, low, scope)


def random_shuffle(value, seed=None, name=None):
    """The rows of `value` in random order. TF: tf.random_shuffle.
    Dtypes, shapes, errors: as op RandomShuffle."""
    seed1, seed2 = graph.get_seed(seed)
    return RandomShuffle(value, seed=seed1 or 0, seed2=seed2 or 0, name=name)


def multinomial(logits, num_samples, seed=None, name=None, output_dtype=None):
    """Classes drawn with probabilities softmax(logits), [rows, num_samples]. TF: tf.multinomial.
    Dtypes, shapes, errors: as op Multinomial."""
    with graph.name_scope(name, "multinomial", [logits]):
        logits = graph.convert_to_tensor(logits, name="logits")
        seed1, seed2 = graph.get_seed(seed)
        return Multinomial(logits, num_samples, seed=seed1 or 0, seed2=seed2 or 0,
                           output_dtype=output_dtype or dtypes.int64)


def categorical(logits, num_samples, dtype=None, seed=None, name=None):
    """The newer name of `tf.multinomial`. TF: random.categorical.
    Shapes, dtypes and errors (TypeError, ValueError) as there."""
    return multinomial(logits, num_samples, seed, name or "categorical", dtype)


def random_crop(value, size, seed=None, name=None):
    """A block of `size` at a uniformly random place of `value`. TF: tf.random_crop.
    value: any shape and dtype; size: int vector of its rank. InvalidArgumentError for a size
    that does not fit."""
    from pyflow.ops.move import array_ops, slicing_ops
    with graph.name_scope(name, "random_crop", [value, size]) as scope:
        value = graph.convert_to_tensor(value, name="value")
        size = graph.convert_to_tensor(size, dtype=dtypes.int32, name="size")
        room = array_ops.shape(value) - size + 1
        top = dtypes.int32.max
        start = random_uniform(array_ops.shape(room), dtype=dtypes.int32, maxval=top,
                               seed=seed) % room
        return slicing_ops.Slice(value, start, size, name=scope)


PUBLIC = {
    "random_normal": random_normal, "random.normal": random_normal,
    "truncated_normal": truncated_normal,
    "random.truncated_normal": truncated_normal, "random_uniform": random_uniform,
    "random.uniform": random_uniform, "random_shuffle": random_shuffle,
    "random.shuffle": random_shuffle,
    "multinomial": multinomial, "random.multinomial": multinomial,
    "random.categorical": categorical,
    "random_crop": random_crop, "image.random_crop": random_crop,
}
