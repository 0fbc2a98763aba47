"""tf.distributions: distributions as objects with parameters that are tensors.

    normal = tf.distributions.Normal(loc=[0., 1.], scale=2.)
    normal.log_prob([0.5, 1.5]), normal.sample(100, seed=1)         # [2], [100, 2]

Invariants
    1. Parameters broadcast to the batch shape; sample(n) puts n in front of it.
    2. `kl_divergence` is exact, for two of one kind.

Sources: the densities' definitions; TF: python/ops/distributions of 1.15.
"""
import math

from pyflow.framework import dtypes, graph
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow import check_functions
from pyflow.lib.math import logic_functions, reductions
from pyflow.lib.nn import softmax_functions
from pyflow.lib.random import random_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import activation_ops, binary_ops, logic_ops, unary_ops
from pyflow.ops.elementwise.special_ops import Ndtri
from pyflow.ops.move import broadcast_ops


class Distribution:
    """What all distributions have in common."""

    def __init__(self, name, parameters, dtype, validate_args, allow_nan_stats):
        self._name, self._parameters, self._dtype = name, parameters, dtype
        self._validate_args, self._allow_nan_stats = validate_args, allow_nan_stats

    name = property(lambda self: self._name, doc="Its name.")
    dtype = property(lambda self: self._dtype, doc="The type of its samples.")
    parameters = property(lambda self: dict(self._parameters), doc="{name: tensor}.")
    validate_args = property(lambda self: self._validate_args, doc="Whether parameters are checked.")
    allow_nan_stats = property(lambda self: self._allow_nan_stats, doc="As given.")

    def batch_shape_tensor(self, name="batch_shape_tensor"):
        """The shape of one sample, as a tensor."""
        shape = tensors.shape(self._first())
        for tensor in self._tensors()[1:]:
            shape = broadcast_ops.BroadcastArgs(shape, tensors.shape(tensor))
        return shape

    @property
    def batch_shape(self):
        """The shape of one sample, a TensorShape."""
        shape = self._first().shape
        for tensor in self._tensors()[1:]:
            shape = broadcast_ops.broadcast_static_shape(shape, tensor.shape)
        return shape

    event_shape = property(lambda self: TensorShape([]), doc="That of a scalar.")

    def event_shape_tensor(self, name="event_shape_tensor"):
        """That of a scalar, as a tensor: an int32 vector of no elements."""
        return tensors.zeros([0], dtypes.int32)

    def is_scalar_event(self, name="is_scalar_event"):
        """True, a bool scalar."""
        return graph.convert_to_tensor(True)

    def is_scalar_batch(self, name="is_scalar_batch"):
        """Whether the batch shape is a scalar's, a bool scalar."""
        return logic_ops.Equal(tensors.size(self.batch_shape_tensor()), 0)

    def _tensors(self):
        return list(self._parameters.values())

    def _first(self):
        return self._tensors()[0]

    def _shape_of(self, sample_shape):
        sample = tensors.reshape(graph.convert_to_tensor(sample_shape, dtypes.int32), [-1])
        return tensors.concat([sample, self.batch_shape_tensor()], 0)

    def sample(self, sample_shape=(), seed=None, name="sample"):
        """Samples, [sample_shape..., batch...]."""
        with graph.name_scope(f"{self._name}/{name}/"):
            return self._sample(self._shape_of(sample_shape), seed)

    def prob(self, value, name="prob"):
        """The density, or probability, of values."""
        return unary_ops.Exp(self.log_prob(value))

    def log_prob(self, value, name="log_prob"):
        """The logarithm of the density, or probability, of values."""
        with graph.name_scope(f"{self._name}/{name}/"):
            return self._log_prob(graph.convert_to_tensor(value, dtype=self._dtype))

    def cdf(self, value, name="cdf"):
        """The probability of at most `value`."""
        with graph.name_scope(f"{self._name}/{name}/"):
            return self._cdf(graph.convert_to_tensor(value, dtype=self._dtype))

    def log_cdf(self, value, name="log_cdf"):
        """The logarithm of cdf."""
        with graph.name_scope(f"{self._name}/{name}/"):
            return self._log_cdf(graph.convert_to_tensor(value, dtype=self._dtype))

    def _log_cdf(self, value):
        return unary_ops.Log(self._cdf(value))

    def survival_function(self, value, name="survival_function"):
        """The probability of more than `value`: 1 - cdf."""
        with graph.name_scope(f"{self._name}/{name}/"):
            return self._survival(graph.convert_to_tensor(value, dtype=self._dtype))

    def _survival(self, value):
        return 1.0 - self._cdf(value)

    def log_survival_function(self, value, name="log_survival_function"):
        """The logarithm of survival_function."""
        with graph.name_scope(f"{self._name}/{name}/"):
            return self._log_survival(graph.convert_to_tensor(value, dtype=self._dtype))

    def _log_survival(self, value):
        return unary_ops.Log(self._survival(value))

    def stddev(self, name="stddev"):
        """The square root of variance."""
        return unary_ops.Sqrt(self.variance())

    def cross_entropy(self, other, name="cross_entropy"):
        """entropy + kl_divergence."""
        return self.entropy() + kl_divergence(self, other)

    def kl_divergence(self, other, name="kl_divergence"):
        """The divergence of `other` from this one, in nats.
        Floats of shapes that broadcast.
        """
        return kl_divergence(self, other)

    def __repr__(self):
        return (f"<tf.distributions.{type(self).__name__} {self._name!r} batch_shape="
                f"{self.batch_shape} dtype={self._dtype.name}>")


def _behind(x, checks):
    """x, after the checks have passed."""
    with graph.control_dependencies(checks):
        return identity_functions.identity(x)


def _ndtr(z):
    """The standard normal's cdf."""
    return 0.5 * unary_ops.Erfc(-z * math.sqrt(0.5))


def _log_ndtr(z):
    """Its logarithm: below -10 (-20 of float64) by the asymptotic series, above 5 (8) by log1p's
    first term, where cdf is 0 or 1 to rounding (Abramowitz and Stegun 26.2.12)."""
    low, high = (-20.0, 8.0) if z.dtype.base_dtype == dtypes.float64 else (-10.0, 5.0)
    tail, middle = binary_ops.Minimum(z, low), binary_ops.Maximum(z, low)
    square = unary_ops.Square(tail)
    series = 1.0 - (1.0 - (3.0 - 15.0 / square) / square) / square
    below = (-0.5 * square - unary_ops.Log(-tail) - 0.5 * math.log(2 * math.pi)
             + unary_ops.Log(series))
    inside = unary_ops.Log(_ndtr(binary_ops.Minimum(middle, high)))
    return logic_functions.where(
        z > high, -_ndtr(-z), logic_functions.where(z > low, inside, below))


class Normal(Distribution):
    """exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi)).  TF: distributions.Normal."""

    def __init__(self, loc, scale, validate_args=False, allow_nan_stats=True, name="Normal"):
        """loc, scale: floats that broadcast; scale above 0, checked at run time if validate_args."""
        with graph.name_scope(name, values=[loc, scale]) as scope:
            self._loc, self._scale = _floats(loc, scale)
            if validate_args:
                self._scale = _behind(self._scale, [check_functions.assert_positive(self._scale)])
        super().__init__(scope.rstrip("/"), {"loc": self._loc, "scale": self._scale},
                         self._loc.dtype, validate_args, allow_nan_stats)

    loc = property(lambda self: self._loc, doc="The mean.")
    scale = property(lambda self: self._scale, doc="The standard deviation.")

    def _sample(self, shape, seed):
        drawn = random_functions.random_normal(shape, dtype=self._dtype, seed=seed)
        return drawn * self._scale + self._loc

    def _z(self, value):
        return (value - self._loc) / self._scale

    def _log_prob(self, value):
        return (-0.5 * unary_ops.Square(self._z(value)) - 0.5 * math.log(2 * math.pi)
                - unary_ops.Log(self._scale))

    def _cdf(self, value):
        return _ndtr(self._z(value))

    def _log_cdf(self, value):
        return _log_ndtr(self._z(value))

    def _survival(self, value):
        return _ndtr(-self._z(value))

    def _log_survival(self, value):
        return _log_ndtr(-self._z(value))

    def quantile(self, value, name="quantile"):
        """The x of which cdf is `value`."""
        return Ndtri(graph.convert_to_tensor(value, dtype=self._dtype)) * self._scale + self._loc

    def entropy(self, name="entropy"):
        """log(scale sqrt(2 pi e))."""
        both = self._scale * tensors.ones_like(self._loc)
        return 0.5 + 0.5 * math.log(2 * math.pi) + unary_ops.Log(both)

    def mean(self, name="mean"):
        """loc."""
        return self._loc * tensors.ones_like(self._scale)

    def mode(self, name="mode"):
        """loc."""
        return self.mean()

    def variance(self, name="variance"):
        """scale squared."""
        return unary_ops.Square(self._scale * tensors.ones_like(self._loc))


class Uniform(Distribution):
    """1 / (high - low) from low to high.  TF: distributions.Uniform."""

    def __init__(self, low=0.0, high=1.0, validate_args=False, allow_nan_stats=True,
                 name="Uniform"):
        """low, high: floats that broadcast, low below high, else with validate_args an
        InvalidArgumentError."""
        with graph.name_scope(name, values=[low, high]) as scope:
            self._low, self._high = _floats(low, high)
            if validate_args:
                ordered = [check_functions.assert_less(
                    self._low, self._high, message="uniform not defined when low >= high.")]
                self._low, self._high = (_behind(x, ordered) for x in (self._low, self._high))
        super().__init__(scope.rstrip("/"), {"low": self._low, "high": self._high},
                         self._low.dtype, validate_args, allow_nan_stats)

    low = property(lambda self: self._low, doc="The lower bound.")
    high = property(lambda self: self._high, doc="The upper bound.")

    def range(self, name="range"):
        """high - low."""
        return self._high - self._low

    def _sample(self, shape, seed):
        drawn = random_functions.random_uniform(shape, dtype=self._dtype, seed=seed)
        return self._low + self.range() * drawn

    def prob(self, value, name="prob"):
        """1 / (high - low) inside, 0 outside."""
        x = graph.convert_to_tensor(value, dtype=self._dtype)
        width = self.range() * tensors.ones_like(x)
        inside = tensors.cast(x >= self._low, self._dtype) * tensors.cast(x < self._high, self._dtype)
        return inside / width

    def _log_prob(self, value):
        return unary_ops.Log(self.prob(value))

    def _cdf(self, value):
        part = (value - self._low) / self.range()
        zero = tensors.zeros_like(part)
        part = logic_functions.where(part < 0, zero, part)
        return logic_functions.where(part > 1, tensors.ones_like(part), part)

    def entropy(self, name="entropy"):
        """log(high - low)."""
        return unary_ops.Log(self.range())

    def mean(self, name="mean"):
        """(low + high) / 2."""
        return (self._low + self._high) / 2

    def variance(self, name="variance"):
        """(high - low)^2 / 12."""
        return unary_ops.Square(self.range()) / 12


class Bernoulli(Distribution):
    """1 with probability probs = sigmoid(logits), else 0.  TF: distributions.Bernoulli."""

    def __init__(self, logits=None, probs=None, dtype=dtypes.int32, validate_args=False,
                 allow_nan_stats=True, name="Bernoulli"):
        """logits or probs, one of them; dtype: of the samples. With validate_args probs outside
        [0, 1] are an InvalidArgumentError."""
        _one_of(logits, probs)
        with graph.name_scope(name, values=[logits, probs]) as scope:
            if logits is not None:
                self._logits, = _floats(logits)
                self._probs = activation_ops.Sigmoid(self._logits)
            else:
                self._probs, = _floats(probs)
                if validate_args:
                    self._probs = _behind(self._probs, [
                        check_functions.assert_non_negative(self._probs),
                        check_functions.assert_less_equal(
                            self._probs, tensors.cast(1.0, self._probs.dtype),
                            message="probs has components greater than 1.")])
                self._logits = unary_ops.Log(self._probs) - unary_ops.Log1p(-self._probs)
        super().__init__(scope.rstrip("/"), {"probs": self._probs}, dtypes.as_dtype(dtype),
                         validate_args, allow_nan_stats)

    logits = property(lambda self: self._logits, doc="log(probs / (1 - probs)).")
    probs = property(lambda self: self._probs, doc="The probability of 1.")

    def _sample(self, shape, seed):
        drawn = random_functions.random_uniform(shape, dtype=self._probs.dtype, seed=seed)
        return tensors.cast(drawn < self._probs, self._dtype)

    def log_prob(self, value, name="log_prob"):
        """The logarithm of the probability of zeros and ones."""
        x = tensors.cast(graph.convert_to_tensor(value), self._probs.dtype)
        x, logits = x + tensors.zeros_like(self._logits), self._logits + tensors.zeros_like(x)
        return -_sigmoid_cross_entropy(x, logits)

    def entropy(self, name="entropy"):
        """In nats."""
        return _sigmoid_cross_entropy(self._probs, self._logits)

    def mean(self, name="mean"):
        """probs."""
        return self._probs

    def variance(self, name="variance"):
        """probs (1 - probs)."""
        return self._probs * (1 - self._probs)

    def mode(self, name="mode"):
        """1 where probs is above one half, else 0."""
        return tensors.cast(self._probs > 0.5, self._dtype)


class Categorical(Distribution):
    """Classes 0 to k - 1 with probabilities probs = softmax(logits).  TF: distributions.Categorical."""

    def __init__(self, logits=None, probs=None, dtype=dtypes.int32, validate_args=False,
                 allow_nan_stats=True, name="Categorical"):
        """logits or probs [batch..., k], one of them; dtype: of the samples."""
        _one_of(logits, probs)
        with graph.name_scope(name, values=[logits, probs]) as scope:
            if logits is not None:
                self._logits, = _floats(logits)
                self._probs = softmax_functions.softmax(self._logits)
            else:
                self._probs, = _floats(probs)
                self._logits = unary_ops.Log(self._probs)
        super().__init__(scope.rstrip("/"), {"probs": self._probs}, dtypes.as_dtype(dtype),
                         validate_args, allow_nan_stats)

    logits = property(lambda self: self._logits, doc="log(probs), up to a constant.")
    probs = property(lambda self: self._probs, doc="[batch..., k].")
    event_size = property(lambda self: tensors.shape(self._probs)[-1], doc="k.")

    def batch_shape_tensor(self, name="batch_shape_tensor"):
        """The shape of one sample, as a tensor."""
        return tensors.shape(self._probs)[:-1]

    @property
    def batch_shape(self):
        """The shape of one sample, a TensorShape."""
        return self._probs.shape[:-1]

    def _sample(self, shape, seed):
        flat = tensors.reshape(self._logits, [-1, self.event_size])
        batch = tensors.shape(flat)[0]
        each = reductions.reduce_prod(shape) // binary_ops.Maximum(batch, 1)
        drawn = random_functions.multinomial(flat, each, seed=seed)
        return tensors.cast(tensors.reshape(tensors.transpose(drawn), shape), self._dtype)

    def log_prob(self, value, name="log_prob"):
        """The logarithm of the probability of classes."""
        x = graph.convert_to_tensor(value, dtype=self._dtype)
        shape = broadcast_ops.BroadcastArgs(tensors.shape(x), self.batch_shape_tensor())
        x = broadcast_ops.BroadcastTo(x, shape)
        logits = broadcast_ops.BroadcastTo(
            self._logits, tensors.concat([shape, tensors.expand_dims(self.event_size, 0)], 0))
        return -softmax_functions.sparse_softmax_cross_entropy_with_logits(labels=x, logits=logits)

    def entropy(self, name="entropy"):
        """In nats."""
        return -reductions.reduce_sum(self._probs * softmax_functions.log_softmax(self._logits), -1)

    def mode(self, name="mode"):
        """The most probable class."""
        return tensors.cast(reductions.argmax(self._logits, -1), self._dtype)


def kl_divergence(distribution_a, distribution_b, allow_nan_stats=True, name=None):
    """The divergence of b from a, sum of p_a log(p_a / p_b), in nats.  TF:
    distributions.kl_divergence.  NotImplementedError for two of different kinds.
    Floats of shapes that broadcast.
    """
    a, b = distribution_a, distribution_b
    if isinstance(a, Normal) and isinstance(b, Normal):
        ratio = unary_ops.Square(a.scale / b.scale)
        return (unary_ops.Square((a.loc - b.loc) / b.scale) + ratio - 1 - unary_ops.Log(ratio)) / 2
    if isinstance(a, Bernoulli) and isinstance(b, Bernoulli):
        return _sigmoid_cross_entropy(a.probs, b.logits) - a.entropy()
    if isinstance(a, Categorical) and isinstance(b, Categorical):
        first, second = (softmax_functions.log_softmax(d.logits) for d in (a, b))
        return reductions.reduce_sum(a.probs * (first - second), -1)
    if isinstance(a, Uniform) and isinstance(b, Uniform):
        value = unary_ops.Log(b.range()) - unary_ops.Log(a.range())
        inside = logic_ops.LogicalAnd(b.low <= a.low, a.high <= b.high)
        return logic_functions.where(inside, value, tensors.ones_like(value) * math.inf)
    raise NotImplementedError(f"No KL(distribution_a || distribution_b) registered for distribution_a"
                              f" type {type(a).__name__} and distribution_b type {type(b).__name__}")


def _floats(*values):
    """Tensors of one float type: the first tensor's, else float32."""
    given = [graph.convert_to_tensor(v) for v in values]
    kinds = [t.dtype.base_dtype for t in given if t.dtype.is_floating]
    return [graph.convert_to_tensor(v, dtype=(kinds or [dtypes.float32])[0]) for v in values]


def _one_of(logits, probs):
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")


def _sigmoid_cross_entropy(labels, logits):
    shape = broadcast_ops.BroadcastArgs(tensors.shape(labels), tensors.shape(logits))
    return softmax_functions.sigmoid_cross_entropy_with_logits(
        labels=broadcast_ops.BroadcastTo(labels, shape),
        logits=broadcast_ops.BroadcastTo(logits, shape))


PUBLIC = {f"{place}.{f.__name__}": f for place in ("distributions", "contrib.distributions")
          for f in (Distribution, Normal, Uniform, Bernoulli, Categorical, kl_divergence)}
