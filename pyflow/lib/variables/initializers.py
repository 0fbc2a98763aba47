"""Initializers: objects that make a variable's initial value from its shape and dtype.

Invariants
  1. `initializer(shape, dtype=None, partition_info=None)` returns a tensor; dtype None means the
     dtype given when it was made.
  2. Random ones take a `seed`, and otherwise the graph's.

Thread: the one building the graph.  Sources: named at each.

Example:  `tf.get_variable("w", [784, 10], initializer=tf.truncated_normal_initializer(stddev=0.1))`
"""
import inspect
import math

import numpy as np

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.shown import ShowsArguments
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors


class Initializer(ShowsArguments):
    """Makes initial values. Subclasses define __call__ and get_config."""

    def __call__(self, shape, dtype=None, partition_info=None):
        raise TypeError(f"{type(self).__name__} does not say how to make a value")

    def get_config(self):
        """The arguments it was made with, as a dict."""
        given = {key: getattr(self, key) for key in inspect.signature(type(self)).parameters
                 if hasattr(self, key)}
        return {key: value.name if isinstance(value, dtypes.DType) else value
                for key, value in given.items()}

    @classmethod
    def from_config(cls, config):
        """An initializer like the one whose `get_config` this is."""
        return cls(**config)

    def _dtype(self, dtype):
        return self.dtype if dtype is None else dtypes.as_dtype(dtype)


def _float(dtype):
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype.name}.")
    return dtype


class Zeros(Initializer):
    """Zeros (false, empty strings). TF: tf.zeros_initializer.

    dtype: unless the variable says one.

        >>> v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(v)
        array([0., 0.], dtype=float32)
    """

    def __init__(self, dtype=dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return tensors.zeros(shape, self._dtype(dtype))


class Ones(Initializer):
    """Ones. TF: tf.ones_initializer."""

    def __init__(self, dtype=dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return tensors.ones(shape, self._dtype(dtype))


class Constant(Initializer):
    """`value`: a number, or a list or array that fills the shape (the last element repeated).

    dtype: unless the variable says one. verify_shape: the value must have exactly the variable's
    shape.
    TF: tf.constant_initializer.

        >>> v = tf.get_variable("v", [3], initializer=tf.constant_initializer(0.5))
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(v)
        array([0.5, 0.5, 0.5], dtype=float32)
    """

    def __init__(self, value=0, dtype=dtypes.float32, verify_shape=False):
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(f"Invalid type for initial value: {type(value)} (expected Python "
                            "scalar, list or tuple of values, or numpy.ndarray).")
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self._verify_shape = verify_shape

    def __call__(self, shape, dtype=None, partition_info=None, verify_shape=None):
        verify = self._verify_shape if verify_shape is None else verify_shape
        return ops.constant(self.value, dtype=self._dtype(dtype), shape=shape, verify_shape=verify)

    def get_config(self):
        return {"value": self.value, "dtype": self.dtype.name}


class RandomUniform(Initializer):
    """Uniform on [minval, maxval). TF: tf.random_uniform_initializer.

    minval, maxval: numbers or scalar tensors. seed: as for tf.random_uniform. dtype: unless the
    variable says one.

        >>> v = tf.get_variable("v", [2, 3], initializer=tf.random_uniform_initializer(seed=1))
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(v).shape
        (2, 3)
    """

    def __init__(self, minval=0, maxval=None, seed=None, dtype=dtypes.float32):
        self.minval, self.maxval, self.seed = minval, maxval, seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        maxval = 1 if self.maxval is None and self._dtype(dtype).is_floating else self.maxval
        return random_functions.random_uniform(shape, self.minval, maxval, self._dtype(dtype),
                                               seed=self.seed)


class RandomNormal(Initializer):
    """Normal. TF: tf.random_normal_initializer.

    mean, stddev: numbers or scalar tensors. seed: as for tf.random_uniform. dtype: unless the
    variable says one.

        >>> v = tf.get_variable("v", [2, 3], initializer=tf.random_normal_initializer(seed=1))
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(v).shape
        (2, 3)
    """

    def __init__(self, mean=0.0, stddev=1.0, seed=None, dtype=dtypes.float32):
        self.mean, self.stddev, self.seed = mean, stddev, seed
        self.dtype = _float(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return random_functions.random_normal(shape, self.mean, self.stddev, self._dtype(dtype),
                                              seed=self.seed)


class TruncatedNormal(Initializer):
    """Normal, values beyond two standard deviations drawn again. TF:
    tf.truncated_normal_initializer.

    mean, stddev: numbers or scalar tensors. seed: as for tf.random_uniform. dtype: unless the
    variable says one.

        >>> v = tf.get_variable("v", [2, 3], initializer=tf.truncated_normal_initializer(seed=1))
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     sess.run(v).shape
        (2, 3)
    """

    def __init__(self, mean=0.0, stddev=1.0, seed=None, dtype=dtypes.float32):
        self.mean, self.stddev, self.seed = mean, stddev, seed
        self.dtype = _float(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return random_functions.truncated_normal(shape, self.mean, self.stddev, self._dtype(dtype),
                                                 seed=self.seed)


class UniformUnitScaling(Initializer):
    """Uniform with bound factor * sqrt(3 / inputs), which keeps the scale of a linear layer's
    inputs.

    Source: Sussillo and Abbott 2014. TF: tf.uniform_unit_scaling_initializer."""

    def __init__(self, factor=1.0, seed=None, dtype=dtypes.float32):
        self.factor, self.seed = factor, seed
        self.dtype = _float(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        inputs = max(float(np.prod([int(d) for d in shape[:-1]])), 1.0)
        bound = math.sqrt(3 / inputs) * self.factor
        return random_functions.random_uniform(shape, -bound, bound, self._dtype(dtype),
                                               seed=self.seed)


class VarianceScaling(Initializer):
    """Variance scale / n, n the number of inputs ("fan_in"), outputs ("fan_out") or their mean
    ("fan_avg").

    distribution: "truncated_normal" (or "normal"), "untruncated_normal", "uniform".
    TF: tf.variance_scaling_initializer."""

    _DISTRIBUTIONS = ("normal", "uniform", "truncated_normal", "untruncated_normal")
    _CUT = 0.87962566103423978              # the deviation of a normal cut at two deviations

    def __init__(self, scale=1.0, mode="fan_in", distribution="truncated_normal", seed=None,
                 dtype=dtypes.float32):
        if scale <= 0.0:
            raise ValueError(f"`scale` must be positive float, got {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Invalid `mode` argument: {mode}; expected fan_in, fan_out or "
                             f"fan_avg")
        distribution = distribution.lower()
        if distribution not in self._DISTRIBUTIONS:
            raise ValueError(f"Invalid `distribution` argument: {distribution}; expected one of "
                             f"{', '.join(self._DISTRIBUTIONS)}")
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed
        self.dtype = _float(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        fan_in, fan_out = fans(shape)
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, fan)
        dtype = self._dtype(dtype)
        if self.distribution == "uniform":
            bound = math.sqrt(3.0 * variance)
            return random_functions.random_uniform(shape, -bound, bound, dtype, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return random_functions.random_normal(shape, 0.0, math.sqrt(variance), dtype,
                                                  seed=self.seed)
        stddev = math.sqrt(variance) / self._CUT
        return random_functions.truncated_normal(shape, 0.0, stddev, dtype, seed=self.seed)


def fans(shape):
    """(inputs, outputs) of a layer whose weights have `shape`: [..., inputs, outputs]."""
    shape = [int(d) for d in shape]
    if not shape:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    receptive = float(np.prod(shape[:-2]))
    return shape[-2] * receptive, shape[-1] * receptive


class Orthogonal(Initializer):
    """A random orthogonal matrix, times `gain`; more than two dimensions are flattened but the
    last.

    The matrix is drawn while the graph is built (QR of a normal matrix). Source: Saxe et al. 2014.
    TF: tf.orthogonal_initializer."""

    def __init__(self, gain=1.0, seed=None, dtype=dtypes.float32):
        self.gain, self.seed = gain, seed
        self.dtype = _float(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        shape = [int(d) for d in shape]
        if len(shape) < 2:
            raise ValueError("The tensor to initialize must be at least two-dimensional, "
                             f"got shape {shape}")
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        graph_seed, op_seed = ops.get_seed(self.seed)
        seed = None if graph_seed is None else [graph_seed, op_seed]
        sizes = (max(rows, columns), min(rows, columns))
        normal = np.random.default_rng(seed).standard_normal(sizes)
        q, r = np.linalg.qr(normal)
        q = q * np.sign(np.diag(r))
        q = q.T if rows < columns else q
        return ops.constant(self.gain * q.reshape(shape), dtype=self._dtype(dtype))


class Identity(Initializer):
    """The identity matrix, times `gain`. TF: tf.initializers.identity."""

    def __init__(self, gain=1.0, dtype=dtypes.float32):
        self.gain = gain
        self.dtype = _float(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        shape = [int(d) for d in shape]
        if len(shape) != 2:
            raise ValueError("Identity matrix initializer can only be used for 2D matrices.")
        return ops.constant(self.gain * np.eye(*shape), dtype=self._dtype(dtype))


class GlorotUniform(VarianceScaling):
    """Uniform, variance 1 / mean of inputs and outputs. Source: Glorot and Bengio 2010.
    TF: tf.glorot_uniform_initializer."""

    def __init__(self, seed=None, dtype=dtypes.float32):
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class GlorotNormal(VarianceScaling):
    """Truncated normal, variance 1 / mean of inputs and outputs. Source: Glorot and Bengio 2010.
    TF: tf.glorot_normal_initializer."""

    def __init__(self, seed=None, dtype=dtypes.float32):
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


def _scaled(name, scale, mode, distribution, source):
    def make(seed=None, dtype=dtypes.float32):
        return VarianceScaling(scale, mode, distribution, seed, dtype)
    make.__name__ = make.__qualname__ = name
    make.__doc__ = (f"Variance scaling: scale {scale:g}, {mode}, {distribution}. Source: {source}."
                    "\nIt makes tensors of any shape of a float dtype; ValueError for another dtype.")
    return make


he_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", "He et al. 2015")
he_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", "He et al. 2015")
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", "LeCun et al. 1998")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", "LeCun et al. 1998")

glorot_uniform_initializer = GlorotUniform
glorot_normal_initializer = GlorotNormal
zeros_initializer = Zeros
ones_initializer = Ones


def xavier_initializer(uniform=True, seed=None, dtype=dtypes.float32):
    """Glorot's, uniform or normal. TF: tf.contrib.layers.xavier_initializer.

    uniform: False for the normal one. seed: as for tf.random_uniform. dtype: unless the variable
    says one. The initializer makes tensors of any shape of a float dtype. ValueError for another
    dtype.

        >>> v = tf.get_variable("v", [2, 4], initializer=tf.contrib.layers.xavier_initializer())
        >>> with tf.Session() as sess:
        ...     sess.run(v.initializer)
        ...     bool(abs(sess.run(v)).max() <= 1.0)
        True
    """
    return _ContribScaling(1.0, "fan_avg", "uniform" if uniform else "truncated_normal", seed, dtype)


class _ContribScaling(VarianceScaling):
    """VarianceScaling as tf.contrib.layers has it: the cut is made good for by 1.3."""

    _CUT = 1.3 ** -0.5


def variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=False, seed=None,
                                 dtype=dtypes.float32):
    """Variance factor / n, n: the inputs of a unit, its outputs, or their mean, by the shape.

    mode: "FAN_IN", "FAN_OUT" or "FAN_AVG". uniform: else a truncated normal. TypeError for
    another mode, and for a dtype that is not floating. Source: He et al. 2015.
    TF: tf.contrib.layers.variance_scaling_initializer."""
    if not dtypes.as_dtype(dtype).is_floating:
        raise TypeError("Cannot create initializer for non-floating point type.")
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    return _ContribScaling(factor, mode.lower(), "uniform" if uniform else "truncated_normal",
                           seed, dtype)


_KINDS = {
    "zeros": Zeros, "ones": Ones, "constant": Constant, "random_uniform": RandomUniform,
    "random_normal": RandomNormal, "truncated_normal": TruncatedNormal,
    "uniform_unit_scaling": UniformUnitScaling, "variance_scaling": VarianceScaling,
    "orthogonal": Orthogonal, "identity": Identity,
    "glorot_uniform": glorot_uniform_initializer, "glorot_normal": glorot_normal_initializer,
}
PUBLIC = {f"{name}_initializer": kind for name, kind in _KINDS.items() if name != "identity"}
PUBLIC.update({f"initializers.{name}": kind for name, kind in _KINDS.items()})
PUBLIC.update({f"initializers.{f.__name__}": f for f in (he_uniform, he_normal, lecun_uniform,
                                                         lecun_normal)})
for _home in ("layers", "slim"):
    PUBLIC[f"contrib.{_home}.xavier_initializer"] = xavier_initializer
    PUBLIC[f"contrib.{_home}.xavier_initializer_conv2d"] = xavier_initializer
    PUBLIC[f"contrib.{_home}.variance_scaling_initializer"] = variance_scaling_initializer
