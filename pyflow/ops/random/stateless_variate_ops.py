"""Gamma, Poisson and binomial variates that are a function of a seed [2].

Invariants
  1. The numbers depend on the inputs alone, and are TensorFlow's for equal seeds (Philox).
  2. The result's shape is given whole; it ends with what the parameters broadcast to, and they
     apply along those last dimensions.
  3. Gamma variates differentiate by alpha (and beta), implicitly (Figurnov et al. 2018).

Example:  `tf.random.stateless_poisson([10, 2], seed=[1, 2], lam=[3.0, 40.0])`
"""
from pyflow.framework import dtypes
from pyflow.framework.op import S, lit, op, raw_ops
from pyflow.ops.base import tensors
from pyflow.ops.base.common import static_shape

SEED = "Tseed: {int32, int64} = int64"
NUMBER = "{half, float, double, int32, int64}"


def _whole_shape(op):
    op.inputs[1].shape.assert_is_compatible_with([2])
    shape = static_shape(op.inputs[0])
    for parameter in op.inputs[2:]:
        _check_end(op, shape, parameter.shape)
    return shape


def _check_end(op, shape, parameter):
    """ValueError unless `parameter` broadcasts to the last dimensions of `shape`."""
    if shape.ndims is None or parameter.ndims is None:
        return
    if parameter.ndims > shape.ndims:
        raise ValueError(f"{op.type}: the shape {shape} must end with the parameter's {parameter}")
    for size, own in zip(shape.as_list()[shape.ndims - parameter.ndims:], parameter.as_list()):
        if None not in (size, own) and own not in (1, size):
            raise ValueError(
                f"{op.type}: the shape {shape} must end with the parameter's {parameter}")


def _gamma_gradient(op, dy):
    shape, _, alpha = op.inputs
    extra = tensors.shape(shape)[0] - tensors.rank(alpha)
    slope = raw_ops.RandomGammaGrad(alpha, op.outputs[0])
    return [None, None, tensors.sum_of(dy * slope, axis=tensors.range_(extra))]


SEEDS = lit([1, 2])


@op("StatelessRandomGammaV2", inputs="shape: T, seed: Tseed, alpha: dtype",
    outputs="output: dtype", attrs="dtype: {half, float, double}, T: {int32, int64}, " + SEED)
class StatelessRandomGammaV2:
    """Gamma variates of scale 1 for alphas along the last dimensions. No NumPy oracle: TensorFlow's
    recorded numbers. TF: StatelessRandomGammaV2."""
    shape = _whole_shape
    gradient = _gamma_gradient
    reference = None
    samples = [S(lit([2, 3]), SEEDS, lit([0.5, 1.0, 4.0])), S(lit([5]), SEEDS, lit(2.0)),
               S(lit([0, 1]), SEEDS, lit([2.0]))]


@op("StatelessRandomPoisson", inputs="shape: T, seed: Tseed, lam: Rtype", outputs="output: dtype",
    attrs=f"Rtype: {NUMBER}, dtype: {NUMBER}, T: {{int32, int64}}, {SEED}")
class StatelessRandomPoisson:
    """Poisson variates for rates along the last dimensions. No NumPy oracle: TensorFlow's recorded
    numbers. TF: StatelessRandomPoisson."""
    shape = _whole_shape
    gradient = None
    reference = None
    samples = [S(lit([2, 3]), SEEDS, lit([0.5, 3.0, 40.0]), dtype=dtypes.int32),
               S(lit([5]), SEEDS, lit(2.0), dtype=dtypes.float32),
               S(lit([0, 1]), SEEDS, lit([2.0]), dtype=dtypes.int64)]


@op("StatelessRandomBinomial", inputs="shape: S, seed: Tseed, counts: T, probs: T",
    outputs="output: dtype",
    attrs=f"S: {{int32, int64}}, {SEED}, T: {NUMBER} = double, dtype: {NUMBER} = int64")
class StatelessRandomBinomial:
    """Successes among `counts` trials of probability `probs`, which broadcast to the last
    dimensions. No NumPy oracle: TensorFlow's recorded numbers. TF: StatelessRandomBinomial."""
    shape = _whole_shape
    gradient = None
    reference = None
    samples = [S(lit([2, 3]), SEEDS, lit([5.0, 40.0, 3.0]), lit(0.4)),
               S(lit([2, 2]), SEEDS, lit([[5.0], [9.0]]), lit([0.9, 1.0])),
               S(lit([0, 1]), SEEDS, lit([2.0]), lit(0.5))]
