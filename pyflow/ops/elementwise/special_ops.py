"""Special functions beyond unary_ops and binary_ops: gamma, beta, normal quantile,
Bessel.

Invariants
  1. Element by element; kernels compute in float64 and round once.
  2. Outside a function's domain the result is NaN, never an error.

Example:  `tf.igamma(a, x)`;  `tf.math.erfinv(x)`;  `tf.lbeta(x)`.
"""
import math

import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import COMPLEX, INTS
from pyflow.framework.op import S, UNREGISTERED, lit, op, pos, raw_ops
from pyflow.ops.base import tensors
from pyflow.ops.base.common import (ELEMENTWISE, PAIRS, WITHIN_ONE, broadcast, sum_to_operands,
                                    unchanged, vectorized)

FLOAT4 = (dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64)
DOUBLES = (dtypes.float32, dtypes.float64)
INNER = [S(lit([[0.01, 0.2, 0.5], [0.77, 0.99, 0.4]])), S(lit(0.3)), S((0, 3))]
GAMMA = [S(pos((2, 3)), pos((2, 3))), S(pos((2, 3)), pos((3,))), S(lit(7.5), lit([0.5, 6.0, 30.0])),
         S((0, 3), (0, 3))]


# ------------------------------------------------------------------------------------ oracles
def _integral(f, lo, hi, n=4000):
    """Gauss and Legendre's rule of 16 points on n / 16 panels."""
    x, w = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(lo, hi, n // 16 + 1)
    half, mid = (edges[1:] - edges[:-1]) / 2, (edges[1:] + edges[:-1]) / 2
    return float(np.sum(half[:, None] * w * f(mid[:, None] + half[:, None] * x)))


def _igamma(a, x):
    """By quadrature over t = s^(2/a'), which takes the singularity at 0 away."""
    if not (a > 0 and x >= 0):
        return math.nan
    k = max(1.0, 4.0 / a)

    def density(s):
        return np.exp(k * (a - 1) * np.log(s) - s ** k) * k * s ** (k - 1)

    return _integral(density, 1e-300, x ** (1 / k)) / math.gamma(a)


def _betainc(a, b, x):
    if x > 0.5:
        return 1 - _betainc(b, a, 1 - x)
    k = max(1.0, 4.0 / a)
    found = _integral(lambda s: k * s ** (k * a - 1) * (1 - s ** k) ** (b - 1), 1e-300,
                      x ** (1 / k))
    return found * math.gamma(a + b) / (math.gamma(a) * math.gamma(b))


def _bessel(order, x):
    """The mean of exp(|x| (cos t - 1)) cos(order t), by the trapezoidal rule (it is periodic)."""
    t = (np.arange(400) + 0.5) * (math.pi / 400)
    sign = -1.0 if order and x < 0 else 1.0
    return sign * float(np.mean(np.exp(abs(x) * (np.cos(t) - 1)) * np.cos(order * t)))


def _erfinv(x):
    low, high = 0.0, 6.0
    for _ in range(200):
        mid = (low + high) / 2
        low, high = (mid, high) if math.erf(mid) < abs(x) else (low, mid)
    return math.copysign(low, x)


def _pairs(function):
    wide = np.vectorize(function, otypes=[np.float64])

    def over(a, x):
        a, x = np.broadcast_arrays(a, x)
        return wide(a.astype(np.float64), x.astype(np.float64)).astype(a.dtype) if a.size \
            else np.zeros(a.shape, a.dtype)
    return over


def _slope_a(a, x, step=1e-4):
    return (8 * (_igamma(a + step, x) - _igamma(a - step, x))
            - (_igamma(a + 2 * step, x) - _igamma(a - 2 * step, x))) / (12 * step)


# ------------------------------------------------------------------------------- one operand
@op("Ndtri", inputs="x: T", outputs="y: T", T=FLOAT4)
class Ndtri:
    """The normal distribution's quantile of probabilities x. TF: Ndtri."""
    shape = unchanged

    def gradient(op, dy):
        y = op.outputs[0]
        return dy * (math.sqrt(2 * math.pi) * raw_ops.Exp(y * y / 2.0))

    def reference(x):
        return vectorized(lambda p: math.sqrt(2) * _erfinv(2 * p - 1))(x)
    samples = INNER


@op("Erfinv", inputs="x: T", outputs="y: T", T=FLOAT4)
class Erfinv:
    """The inverse of the error function. TF: Erfinv."""
    shape = unchanged

    def gradient(op, dy):
        y = op.outputs[0]
        return dy * (math.sqrt(math.pi) / 2 * raw_ops.Exp(y * y))

    def reference(x): return vectorized(_erfinv)(x)
    samples = WITHIN_ONE


@op("BesselI0e", inputs="x: T", outputs="y: T", T=FLOAT4)
class BesselI0e:
    """exp(-|x|) I0(x), the modified Bessel function of order 0. TF: BesselI0e."""
    shape = unchanged

    def gradient(op, dy):
        x, y = op.inputs[0], op.outputs[0]
        return dy * (BesselI1e(x) - raw_ops.Sign(x) * y)

    def reference(x): return vectorized(lambda v: _bessel(0, v))(x)
    samples = ELEMENTWISE + [S(lit([0.0, 30.0, -40.0]))]


@op("BesselI1e", inputs="x: T", outputs="y: T", T=FLOAT4)
class BesselI1e:
    """exp(-|x|) I1(x), the modified Bessel function of order 1. TF: BesselI1e."""
    shape = unchanged

    def gradient(op, dy):
        x, y = op.inputs[0], op.outputs[0]
        zero = raw_ops.Equal(x, tensors.zeros_like(x))
        safe = raw_ops.Select(zero, tensors.ones_like(x), x)
        slope = BesselI0e(x) - y * (raw_ops.Sign(safe) + raw_ops.Reciprocal(safe))
        return dy * raw_ops.Select(zero, 0.5 * tensors.ones_like(x), slope)

    def reference(x): return vectorized(lambda v: _bessel(1, v))(x)
    samples = ELEMENTWISE + [S(lit([0.0, 30.0, -40.0]))]


@op("BesselI0", inputs="x: T", outputs="y: T", T=FLOAT4)
class BesselI0:
    """I0(x), the modified Bessel function of order 0. TF: BesselI0."""
    shape = unchanged

    def gradient(op, dy): return dy * BesselI1(op.inputs[0])

    def reference(x): return vectorized(lambda v: math.exp(abs(v)) * _bessel(0, v))(x)
    samples = ELEMENTWISE


@op("BesselI1", inputs="x: T", outputs="y: T", T=FLOAT4)
class BesselI1:
    """I1(x), the modified Bessel function of order 1. TF: BesselI1."""
    shape = unchanged

    def gradient(op, dy):
        x, y = op.inputs[0], op.outputs[0]
        zero = raw_ops.Equal(x, tensors.zeros_like(x))
        safe = raw_ops.Select(zero, tensors.ones_like(x), x)
        slope = BesselI0(x) - y / safe
        return dy * raw_ops.Select(zero, 0.5 * tensors.ones_like(x), slope)

    def reference(x): return vectorized(lambda v: math.exp(abs(v)) * _bessel(1, v))(x)
    samples = ELEMENTWISE


@op("PopulationCount", inputs="x: T", outputs="y: uint8", T=INTS)
class PopulationCount:
    """The number of one bits; no gradient. TF: PopulationCount."""
    shape = unchanged
    gradient = None

    def reference(x):
        width = 8 * x.dtype.itemsize
        return np.array([bin(int(v) & (1 << width) - 1).count("1") for v in x.ravel()],
                        np.uint8).reshape(x.shape)
    samples = [S((2, 3)), S(lit([[-1, 0], [127, 3]]), types=(dtypes.int32, dtypes.int64)), S(())]


# ------------------------------------------------------------------------------ two operands
def _density(a, x):
    """x^(a - 1) e^-x / gamma(a)."""
    return raw_ops.Exp(-x + (a - 1.0) * raw_ops.Log(x) - raw_ops.Lgamma(a))


@op("Igamma", inputs="a: T, x: T", outputs="z: T", T=FLOAT4)
class Igamma:
    """The lower regularised incomplete gamma function P(a, x). TF: Igamma."""
    shape = broadcast

    def gradient(op, dz):
        a, x = op.inputs
        return sum_to_operands(op, dz * IgammaGradA(a, x), dz * _density(a, x))

    def reference(a, x): return _pairs(_igamma)(a, x)
    samples = GAMMA


@op("Igammac", inputs="a: T, x: T", outputs="z: T", T=FLOAT4)
class Igammac:
    """The upper regularised incomplete gamma function Q(a, x) = 1 - P(a, x). TF: Igammac."""
    shape = broadcast

    def gradient(op, dz):
        a, x = op.inputs
        return sum_to_operands(op, -dz * IgammaGradA(a, x), -dz * _density(a, x))

    def reference(a, x): return _pairs(lambda a, x: 1 - _igamma(a, x))(a, x)
    samples = GAMMA


@op("IgammaGradA", inputs="a: T, x: T", outputs="z: T", T=DOUBLES)
class IgammaGradA:
    """The derivative of Igamma by a; it has no gradient of its own, as in TF. TF: IgammaGradA."""
    shape = broadcast
    gradient = UNREGISTERED

    def reference(a, x): return _pairs(_slope_a)(a, x)
    samples = GAMMA


@op("RandomGammaGrad", inputs="alpha: T, sample: T", outputs="output: T", T=DOUBLES)
class RandomGammaGrad:
    """The derivative of a gamma variate by alpha, at its quantile; no gradient, as in TF.
    TF: RandomGammaGrad."""
    shape = broadcast
    gradient = UNREGISTERED

    def reference(alpha, sample):
        def slope(a, x):
            return -_slope_a(a, x) / math.exp((a - 1) * math.log(x) - x - math.lgamma(a))
        return _pairs(slope)(alpha, sample)
    samples = GAMMA[:2] + GAMMA[3:]


@op("NextAfter", inputs="x1: T, x2: T", outputs="output: T",
    attrs="T: {double, float} = float")
class NextAfter:
    """The next number after x1 towards x2. TF: NextAfter."""
    shape = broadcast

    def gradient(op, dz): return sum_to_operands(op, dz, tensors.zeros_like(dz))

    def reference(x1, x2): return np.nextafter(x1, x2)
    samples = PAIRS


@op("Xlog1py", inputs="x: T, y: T", outputs="z: T",
    T=(dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64) + COMPLEX)
class Xlog1py:
    """x log(1 + y), and 0 where x is 0. TF: Xlog1py."""
    shape = broadcast

    def gradient(op, dz):
        x, y = op.inputs
        present = tensors.cast(raw_ops.NotEqual(x, tensors.zeros_like(x)), x.dtype)
        return sum_to_operands(op, dz * Xlog1py(present, y),
                               dz * raw_ops.Xdivy(x, y + tensors.ones_like(y)))

    def reference(x, y):
        x, y = np.broadcast_arrays(x, y)
        return np.where(x == 0, 0 * x, x * np.log1p(y))
    samples = [S((2, 3), pos((2, 3))), S((2, 3), pos((3,))), S((0, 3), (0, 3)),
               S(lit([0.0, 0.0, 2.0]), lit([-1.0, 3.0, 0.5]), types=DOUBLES)]


@op("Betainc", inputs="a: T, b: T, x: T", outputs="z: T", T=DOUBLES)
class Betainc:
    """The regularised incomplete beta function; a gradient by x alone, as in TF. TF: Betainc."""
    def shape(op):
        shapes = [t.shape for t in op.inputs]
        if any(s.ndims is None for s in shapes):
            return None
        found = [s for s in shapes if s.ndims]
        if not found:
            return shapes[0]
        for other in found[1:]:
            found[0] = found[0].merge_with(other)
        return found[0]

    def gradient(op, dz):
        a, b, x = op.inputs
        log_beta = raw_ops.Lgamma(a) + raw_ops.Lgamma(b) - raw_ops.Lgamma(a + b)
        slope = raw_ops.Exp(raw_ops.Xlogy(a - 1.0, x)
                            + raw_ops.MulNoNan(raw_ops.Log1p(-x), b - 1.0) - log_beta)
        dx = dz * slope
        if x.shape.ndims == 0:
            dx = tensors.sum_of(dx)
        return [None, None, dx]

    def reference(a, b, x):
        a, b, x = np.broadcast_arrays(a, b, x)
        found = np.array([_betainc(*map(float, v)) for v in zip(a.ravel(), b.ravel(), x.ravel())])
        return found.reshape(a.shape).astype(a.dtype)
    samples = [S(pos((2, 3)), pos((2, 3)), lit([[0.1, 0.5, 0.9], [0.3, 0.7, 0.99]])),
               S(lit(2.5), lit(0.75), lit([0.2, 0.6])), S(lit(2.5), lit([0.75, 3.0]), lit(0.3))]


# ---------------------------------------------------------------------------------- a scan
def _log_scan(x, axis, exclusive, reverse):
    x = np.moveaxis(x, axis, 0)
    x = x[::-1] if reverse else x
    result = np.logaddexp.accumulate(x, 0)
    if exclusive:
        lowest = np.full_like(x[:1], -np.inf)
        result = np.concatenate([lowest, result[:-1]])
    return np.moveaxis(result[::-1] if reverse else result, 0, axis)


@op("CumulativeLogsumexp", inputs="x: T, axis: Tidx", outputs="out: T", T=FLOAT4,
    attrs="exclusive: bool = false, reverse: bool = false, Tidx: {int32, int64} = int32")
class CumulativeLogsumexp:
    """log of the running sum of exp(x) along an axis; exclusive: -inf first.
    TF: CumulativeLogsumexp."""
    shape = unchanged

    def gradient(op, dy):
        x, axis = op.inputs
        y = op.outputs[0]
        lowest = graph.convert_to_tensor(x.dtype.min, dtype=x.dtype)
        nothing = tensors.zeros_like(dy) + lowest

        def part(sign):
            some = sign * dy > 0.0
            size = raw_ops.Select(some, sign * dy, tensors.ones_like(dy))
            logs = raw_ops.Select(some, raw_ops.Log(size) - y, nothing)
            back = CumulativeLogsumexp(logs, axis, exclusive=op.attr("exclusive"),
                                       reverse=not op.attr("reverse"))
            return raw_ops.Exp(back + x)
        return [part(1.0) - part(-1.0), None]

    def reference(x, axis, exclusive, reverse): return _log_scan(x, int(axis), exclusive, reverse)
    samples = [S((2, 3), lit(1)), S((4,), lit(0), reverse=True), S((3, 2), lit(-2)),
               S((2, 3), lit(1), exclusive=True, types=DOUBLES),
               S((4,), lit(0), exclusive=True, reverse=True, types=DOUBLES)]


PUBLIC = {
    "math.ndtri": Ndtri, "math.erfinv": Erfinv, "math.bessel_i0e": BesselI0e,
    "math.bessel_i1e": BesselI1e, "igamma": Igamma, "math.igamma": Igamma, "igammac": Igammac,
    "math.igammac": Igammac, "math.nextafter": NextAfter, "betainc": Betainc,
    "math.betainc": Betainc,
}
