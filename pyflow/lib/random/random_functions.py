"""Random tensors from the seed of graph and op: uniform, normal, shuffled, categorical."""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import sizes
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.move import slicing_ops
from pyflow.ops.random.random_ops import (Multinomial, RandomShuffle, RandomStandardNormal,
                                          RandomUniform, RandomUniformInt, TruncatedNormal)


def _shape_tensor(shape):
    """An int32 or int64 vector from ints, Dimensions, a TensorShape or a tensor."""
    if isinstance(shape, graph.Tensor):
        return shape
    if isinstance(shape, TensorShape):
        shape = sizes(shape.as_list())
    elif isinstance(shape, (list, tuple)) and not any(
            isinstance(d, (graph.Tensor, float, np.floating)) for d in shape):
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

    mean and stddev broadcast to the shape. seed: with it, or with tf.set_random_seed, the
    numbers are TensorFlow's and the same in every session.
    Result: `shape` of a float `dtype`. TypeError for other dtypes, ValueError for shapes that do
    not fit.

        >>> tf.Session().run(tf.random_normal([2, 3], stddev=0.1, seed=1)).shape
        (2, 3)
    """
    dtype = dtypes.as_dtype(dtype)
    with graph.name_scope(name, "random_normal", [shape, mean, stddev]) as scope:
        shape = _shape_tensor(shape)
        mean = graph.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = graph.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        return _scaled(_drawn(RandomStandardNormal, shape, dtype, seed), stddev, mean, scope)


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=dtypes.float32, seed=None, name=None):
    """Normal numbers within two deviations of the mean. TF: tf.truncated_normal.

    mean and stddev broadcast to the shape. seed: with it, or with tf.set_random_seed, the
    numbers are TensorFlow's and the same in every session.
    Result: `shape` of a float `dtype`. TypeError for other dtypes, ValueError for shapes that do
    not fit.

        >>> x = tf.Session().run(tf.truncated_normal([1000], stddev=0.5))
        >>> bool(abs(x).max() <= 1.0)
        True
    """
    dtype = dtypes.as_dtype(dtype)
    with graph.name_scope(name, "truncated_normal", [shape, mean, stddev]) as scope:
        shape = _shape_tensor(shape)
        mean = graph.convert_to_tensor(mean, dtype=dtype, name="mean")
        stddev = graph.convert_to_tensor(stddev, dtype=dtype, name="stddev")
        return _scaled(_drawn(TruncatedNormal, shape, dtype, seed), stddev, mean, scope)


def random_uniform(shape, minval=0, maxval=None, dtype=dtypes.float32, seed=None, name=None):
    """Uniform numbers in [minval, maxval); maxval is 1 for floats and needed for integers.
    TF: tf.random_uniform.

    seed: with it, or with tf.set_random_seed, the
    numbers are TensorFlow's and the same in every session.
    Result: `shape` of `dtype`, floats, int32 or int64. ValueError for integers without maxval.

        >>> dice = tf.Session().run(tf.random_uniform([100], 1, 7, dtype=tf.int32))
        >>> set(dice.tolist()) <= {1, 2, 3, 4, 5, 6}
        True
    """
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
    value: any shape and dtype; size: int vector of its rank. seed: as for tf.random_uniform.
    InvalidArgumentError for a size that does not fit.

        >>> tf.Session().run(tf.random_crop(tf.zeros([8, 8, 3]), [5, 5, 3])).shape
        (5, 5, 3)
    """
    with graph.name_scope(name, "random_crop", [value, size]) as scope:
        value = graph.convert_to_tensor(value, name="value")
        size = graph.convert_to_tensor(size, dtype=dtypes.int32, name="size")
        room = tensors.shape(value) - size + 1
        top = dtypes.int32.max
        start = random_uniform(tensors.shape(room), dtype=dtypes.int32, maxval=top,
                               seed=seed) % room
        return slicing_ops.Slice(value, start, size, name=scope)


PUBLIC = {
    "random_normal": random_normal, "random.normal": random_normal,
    "truncated_normal": truncated_normal, "random.truncated_normal": truncated_normal,
    "random_uniform": random_uniform, "random.uniform": random_uniform,
    "random_shuffle": random_shuffle, "random.shuffle": random_shuffle, "multinomial": multinomial,
    "random.multinomial": multinomial, "random.categorical": categorical,
    "random_crop": random_crop, "image.random_crop": random_crop,
}
