"""Element-wise functions of one argument: sign and rounding, powers and roots, exponentials,
trigonometry.

Invariants
  1. Output shape = input shape, output dtype = input dtype (the Is* predicates give bool).
  2. Gradients are written in terms of the output where that saves a transcendental.
  3. Complex arguments take conjugates in the gradient, as TF's do.

Source of names, arguments and values: TF 1.x `math_ops` OpDefs.

Example:  `tf.sqrt([4.0, 9.0])` -> [2, 3].
"""
import math

import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import COMPLEX, FLOATS, INTS, NUMBERS
from pyflow.framework.op import S, UNREGISTERED, lit, op, pos
from pyflow.ops.base import tensors
from pyflow.ops.base.common import (ELEMENTWISE, POSITIVE, SAME_PAIRS, WITHIN_ONE, broadcast, conj,
                                    sum_to_operands, unchanged, vectorized)

SIGNED = FLOATS + (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
CONTINUOUS = FLOATS + COMPLEX
EDGES = S(lit([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.4, -2.6]), types=(dtypes.float32, dtypes.float64))
SPECIAL = S(lit([0.0, -1.0, np.inf, -np.inf, np.nan]), types=(dtypes.float32, dtypes.float64))


# -------------------------------------------------------------------------------- sign and rounding
@op("Abs", inputs="x: T", outputs="y: T", T=SIGNED)
class Abs:
    """Absolute value of real `x`, any shape. Use ComplexAbs for complex. TF: Abs."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Sign(op.inputs[0])

    def reference(x): return np.abs(x)
    samples = ELEMENTWISE


@op("Neg", inputs="x: T", outputs="y: T", T=NUMBERS)
class Neg:
    """Negative of `x`, any shape. Unsigned and most negative integers wrap. TF: Neg.

        >>> tf.Session().run(tf.negative([1, -2]))
        array([-1,  2], dtype=int32)
    """
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return Neg(dy)

    def reference(x): return np.negative(x)
    samples = ELEMENTWISE


@op("Sign", inputs="x: T", outputs="y: T", T=SIGNED + COMPLEX)
class Sign:
    """-1, 0 or 1 by the sign of `x`; x/|x| for complex. Gradient zero. TF: Sign.

        >>> tf.Session().run(tf.sign([-2.5, 0.0, 7.0]))
        array([-1.,  0.,  1.], dtype=float32)
    """
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return tensors.zeros_like(dy)

    def reference(x):
        if np.iscomplexobj(x):
            size = np.abs(x)
            return np.where(size == 0, 0, x / np.where(size == 0, 1, size))
        return np.sign(x)
    samples = ELEMENTWISE


@op("Floor", inputs="x: T", outputs="y: T", T=FLOATS)
class Floor:
    """Largest integer not above `x`, as a float. Not differentiable. TF: Floor."""
    shape = unchanged
    gradient = None

    def reference(x): return np.floor(x)
    samples = ELEMENTWISE + [EDGES]


@op("Ceil", inputs="x: T", outputs="y: T", T=FLOATS)
class Ceil:
    """Smallest integer not below `x`, as a float. Not differentiable. TF: Ceil."""
    shape = unchanged
    gradient = None

    def reference(x): return np.ceil(x)
    samples = ELEMENTWISE + [EDGES]


@op("Round", inputs="x: T", outputs="y: T", T=NUMBERS)
class Round:
    """Nearest integer, halves to even; integers pass unchanged. Not differentiable. TF: Round."""
    shape = unchanged
    gradient = None

    def reference(x): return np.round(x)
    samples = [S((2, 3), types=SIGNED), S((), types=SIGNED), S((0, 3), types=SIGNED), EDGES]


@op("Rint", inputs="x: T", outputs="y: T", T=FLOATS)
class Rint:
    """Nearest integer, halves to even. Not differentiable. TF: Rint."""
    shape = unchanged
    gradient = None

    def reference(x): return np.rint(x)
    samples = ELEMENTWISE + [EDGES]


@op("IsNan", inputs="x: T", outputs="y: bool", T=FLOATS)
class IsNan:
    """True where `x` is not a number. TF: IsNan."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(x): return np.isnan(x)
    samples = ELEMENTWISE + [SPECIAL]


@op("IsInf", inputs="x: T", outputs="y: bool", T=FLOATS)
class IsInf:
    """True where `x` is plus or minus infinity. TF: IsInf."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(x): return np.isinf(x)
    samples = ELEMENTWISE + [SPECIAL]


@op("IsFinite", inputs="x: T", outputs="y: bool", T=FLOATS)
class IsFinite:
    """True where `x` is neither infinite nor not a number. TF: IsFinite."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(x): return np.isfinite(x)
    samples = ELEMENTWISE + [SPECIAL]


@op("Invert", inputs="x: T", outputs="y: T", T=INTS)
class Invert:
    """Every bit of an integer flipped. TF: bitwise.invert."""
    shape = unchanged
    gradient = None

    def reference(x): return np.invert(x)
    samples = ELEMENTWISE


# --------------------------------------------------------------------------------- powers and roots
@op("Square", inputs="x: T", outputs="y: T", T=NUMBERS)
class Square:
    """x * x, any shape. TF: Square.

        >>> tf.Session().run(tf.square([1., -3.]))
        array([1., 9.], dtype=float32)
    """
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        x = conj(op.inputs[0])
        return dy * (x + x)

    def reference(x): return np.square(x)
    samples = ELEMENTWISE


@op("Sqrt", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Sqrt:
    """Square root; NaN below zero. TF: Sqrt.

    x: floats or complex numbers of any shape.

        >>> tf.Session().run(tf.sqrt([4., -1.]))
        array([ 2., nan], dtype=float32)
    """
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return SqrtGrad(op.outputs[0], dy)

    def reference(x): return np.sqrt(x)
    samples = POSITIVE


def _unless_zero(dy, product):
    """`product`, 0 where `dy` is 0: the derivative may be infinite there."""
    return np.where(dy == 0, np.zeros((), product.dtype), product)


@op("SqrtGrad", inputs="y: T, dy: T", outputs="z: T", T=CONTINUOUS)
class SqrtGrad:
    """Gradient of Sqrt from its output: dy * 0.5 / conj(y), 0 where dy is 0. TF: SqrtGrad."""
    shape = unchanged

    def gradient(op, dz):
        ratio = dz / op.inputs[0]
        return [-conj(ratio) * op.outputs[0], ratio * 0.5]

    def reference(y, dy): return _unless_zero(dy, dy * 0.5 / np.conj(y))
    samples = [S(pos((2, 3)), (2, 3)), S(pos(()), ()), S(pos((0, 3)), (0, 3))]


@op("Rsqrt", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Rsqrt:
    """1 / sqrt(x). TF: Rsqrt."""
    shape = unchanged

    def gradient(op, dy):
        return RsqrtGrad(op.outputs[0], dy)

    def reference(x): return 1 / np.sqrt(x)
    samples = POSITIVE


@op("RsqrtGrad", inputs="y: T, dy: T", outputs="z: T", T=CONTINUOUS)
class RsqrtGrad:
    """Gradient of Rsqrt from its output: dy * -0.5 * conj(y)^3, 0 where dy is 0. TF: RsqrtGrad."""
    shape = unchanged

    def gradient(op, dz):
        y, dy = conj(op.inputs[0]), op.inputs[1]
        return [conj(dz) * dy * Square(y) * -1.5, RsqrtGrad(y, dz)]

    def reference(y, dy): return _unless_zero(dy, dy * -0.5 * np.conj(y) ** 3)
    samples = [S(pos((2, 3)), (2, 3)), S(pos(()), ()), S(pos((0, 3)), (0, 3))]


def _reciprocal_gradient(op, dy):
    return ReciprocalGrad(op.outputs[0], dy)


def _reciprocal_grad_gradient(op, dz):
    y, dy = conj(op.inputs[0]), op.inputs[1]
    return [conj(dz) * dy * y * -2.0, ReciprocalGrad(y, dz)]


@op("Reciprocal", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Reciprocal:
    """1 / x; infinite at zero. TF: Reciprocal."""
    shape = unchanged
    gradient = _reciprocal_gradient

    def reference(x): return 1 / x
    samples = POSITIVE


@op("Inv", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Inv:
    """1 / x: the older name of Reciprocal, kept for stored graphs. TF: Inv."""
    shape = unchanged
    gradient = _reciprocal_gradient

    def reference(x): return 1 / x
    samples = POSITIVE


@op("ReciprocalGrad", inputs="y: T, dy: T", outputs="z: T", T=CONTINUOUS)
class ReciprocalGrad:
    """Gradient of Reciprocal from its output: -dy * conj(y)^2, 0 where dy is 0.
    TF: ReciprocalGrad."""
    shape = unchanged
    gradient = _reciprocal_grad_gradient

    def reference(y, dy): return _unless_zero(dy, -dy * np.conj(y) ** 2)
    samples = SAME_PAIRS


@op("InvGrad", inputs="y: T, dy: T", outputs="z: T", T=CONTINUOUS)
class InvGrad:
    """Gradient of Inv from its output: -dy * conj(y)^2, 0 where dy is 0. TF: InvGrad."""
    shape = unchanged
    gradient = _reciprocal_grad_gradient

    def reference(y, dy): return _unless_zero(dy, -dy * np.conj(y) ** 2)
    samples = SAME_PAIRS


# ---------------------------------------------------------------------- exponentials and logarithms
@op("Exp", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Exp:
    """e to the power `x`. TF: Exp.

    x: floats or complex numbers of any shape.

        >>> tf.Session().run(tf.exp([0., 1.])).round(4)
        array([1.    , 2.7183], dtype=float32)
    """
    shape = unchanged

    def gradient(op, dy):
        return dy * conj(op.outputs[0])

    def reference(x): return np.exp(x)
    samples = ELEMENTWISE


@op("Expm1", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Expm1:
    """exp(x) - 1, exact near zero. TF: Expm1."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Exp(conj(op.inputs[0]))

    def reference(x): return np.expm1(x)
    samples = ELEMENTWISE


@op("Log", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Log:
    """Natural logarithm; -inf at zero, NaN below. TF: Log.

    x: floats or complex numbers of any shape.

        >>> tf.Session().run(tf.log([1., 0., -1.]))
        array([  0., -inf,  nan], dtype=float32)
    """
    shape = unchanged

    def gradient(op, dy):
        return dy * Reciprocal(conj(op.inputs[0]))

    def reference(x): return np.log(x)
    samples = POSITIVE


@op("Log1p", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Log1p:
    """log(1 + x), exact near zero. TF: Log1p."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Reciprocal(1.0 + conj(op.inputs[0]))

    def reference(x): return np.log1p(x)
    samples = POSITIVE


# ------------------------------------------------------------------- trigonometric and hyperbolic
@op("Sin", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Sin:
    """Sine of `x` radians. TF: Sin."""
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return dy * Cos(conj(op.inputs[0]))

    def reference(x): return np.sin(x)
    samples = ELEMENTWISE


@op("Cos", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Cos:
    """Cosine of `x` radians. TF: Cos."""
    shape = unchanged

    def gradient(op, dy):
        return -dy * Sin(conj(op.inputs[0]))

    def reference(x): return np.cos(x)
    samples = ELEMENTWISE


@op("Tan", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Tan:
    """Tangent of `x` radians. TF: Tan."""
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return Square(Reciprocal(Cos(conj(op.inputs[0])))) * dy

    def reference(x): return np.tan(x)
    samples = WITHIN_ONE


@op("Asin", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Asin:
    """Inverse sine in radians, for x in [-1, 1]. TF: Asin."""
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return dy * Reciprocal(Sqrt(1.0 - Square(conj(op.inputs[0]))))

    def reference(x): return np.arcsin(x)
    samples = WITHIN_ONE


@op("Acos", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Acos:
    """Inverse cosine in radians, for x in [-1, 1]. TF: Acos."""
    shape = unchanged

    def gradient(op, dy):
        return -dy * Reciprocal(Sqrt(1.0 - Square(conj(op.inputs[0]))))

    def reference(x): return np.arccos(x)
    samples = WITHIN_ONE


@op("Atan", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Atan:
    """Inverse tangent in radians. TF: Atan."""
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return dy * Reciprocal(1.0 + Square(conj(op.inputs[0])))

    def reference(x): return np.arctan(x)
    samples = ELEMENTWISE


@op("Sinh", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Sinh:
    """Hyperbolic sine. TF: Sinh."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Cosh(conj(op.inputs[0]))

    def reference(x): return np.sinh(x)
    samples = ELEMENTWISE


@op("Cosh", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Cosh:
    """Hyperbolic cosine. TF: Cosh."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Sinh(conj(op.inputs[0]))

    def reference(x): return np.cosh(x)
    samples = ELEMENTWISE


@op("Asinh", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Asinh:
    """Inverse hyperbolic sine. TF: Asinh."""
    shape = unchanged

    def gradient(op, dy):
        return dy / Cosh(conj(op.outputs[0]))

    def reference(x): return np.arcsinh(x)
    samples = ELEMENTWISE


@op("Acosh", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Acosh:
    """Inverse hyperbolic cosine, for x >= 1. TF: Acosh."""
    shape = unchanged

    def gradient(op, dy):
        return dy / Sinh(conj(op.outputs[0]))

    def reference(x): return np.arccosh(x)
    samples = [S(lit([[1.25, 2.0, 3.5], [1.5, 8.0, 4.0]])), S(lit(2.0)), S(pos((0, 3)))]


@op("Atanh", inputs="x: T", outputs="y: T", T=CONTINUOUS)
class Atanh:
    """Inverse hyperbolic tangent, for x in (-1, 1). TF: Atanh."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Reciprocal(1.0 - Square(conj(op.inputs[0])))

    def reference(x): return np.arctanh(x)
    samples = WITHIN_ONE


# -------------------------------------------------------------------------------- special functions
@op("Erf", inputs="x: T", outputs="y: T", T=FLOATS)
class Erf:
    """Gauss error function. TF: Erf."""
    over_sparse = True
    shape = unchanged

    def gradient(op, dy):
        return dy * Exp(-Square(op.inputs[0])) * (2.0 / math.sqrt(math.pi))

    def reference(x): return vectorized(math.erf)(x)
    samples = ELEMENTWISE


@op("Erfc", inputs="x: T", outputs="y: T", T=FLOATS)
class Erfc:
    """1 - erf(x), exact for large x. TF: Erfc."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Exp(-Square(op.inputs[0])) * (-2.0 / math.sqrt(math.pi))

    def reference(x): return vectorized(math.erfc)(x)
    samples = ELEMENTWISE


@op("Lgamma", inputs="x: T", outputs="y: T", T=FLOATS)
class Lgamma:
    """log |gamma(x)|. Gradient: Digamma. TF: Lgamma."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Digamma(op.inputs[0])

    def reference(x): return vectorized(math.lgamma)(x)
    samples = POSITIVE


def _digamma(x):
    """Recurrence up to x >= 8, then the asymptotic series (Abramowitz and Stegun 6.3.18), x > 0."""
    total = 0.0
    while x < 8.0:
        total -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = 1 / 12 - inverse * (1 / 120 - inverse
                                 * (1 / 252 - inverse * (1 / 240 - inverse / 132)))
    return total + math.log(x) - 0.5 / x - inverse * series


def _zeta(x, q):
    """sum of 1 / (q + k)^x: 12 terms, then Euler and Maclaurin's formula (q > 0)."""
    total = 0.0
    while q < 12:
        total += q ** -x
        q += 1
    power = q ** -x
    total += power * q / (x - 1) + 0.5 * power
    rise, term = x, power / q
    for j, factor in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)):
        total += factor * rise * term
        rise *= (x + 2 * j + 1) * (x + 2 * j + 2)
        term /= q * q
    return total


@op("Zeta", inputs="x: T, q: T", outputs="z: T", attrs="T: {float, double}")
class Zeta:
    """Hurwitz zeta, the sum over k >= 0 of 1 / (q + k)^x, x > 1; no gradient to x. TF: Zeta."""
    shape = broadcast

    def gradient(op, dz):
        x, q = op.inputs
        return [None, sum_to_operands(op, None, dz * -x * Zeta(x + 1.0, q))[1]]

    def reference(x, q): return np.vectorize(_zeta, otypes=[np.float64])(x, q)
    samples = [S(lit([2.0, 3.5, 6.0]), lit([1.0, 0.5, 7.0])), S(lit(2.0), pos((2, 3))),
               S((0, 2), (1, 2))]


def _polygamma(a, x):
    if a == 0:
        return _digamma(x)
    return (-1) ** (int(a) + 1) * math.factorial(int(a)) * _zeta(a + 1, x)


@op("Polygamma", inputs="a: T, x: T", outputs="z: T", attrs="T: {float, double}")
class Polygamma:
    """Derivative number `a` (0, 1, 2, ...) of Digamma; no gradient to a. TF: Polygamma."""
    shape = broadcast

    def gradient(op, dz):
        a, x = op.inputs
        return [None, sum_to_operands(op, None, dz * Polygamma(a + 1.0, x))[1]]

    def reference(a, x): return np.vectorize(_polygamma, otypes=[np.float64])(a, x)
    samples = [S(lit([0.0, 1.0, 3.0]), lit([1.5, 1.0, 0.75])), S(lit(1.0), pos((2, 3))),
               S((0, 2), (1, 2))]


@op("Digamma", inputs="x: T", outputs="y: T", T=FLOATS)
class Digamma:
    """Derivative of log gamma. TF: Digamma."""
    shape = unchanged

    def gradient(op, dy):
        return dy * Polygamma(graph.convert_to_tensor(1, dtype=dy.dtype), op.inputs[0])

    def reference(x): return vectorized(_digamma)(x)
    samples = POSITIVE


PUBLIC = {
    "negative": Neg, "neg": Neg, "sign": Sign, "floor": Floor, "ceil": Ceil, "rint": Rint,
    "is_nan": IsNan, "is_inf": IsInf, "is_finite": IsFinite, "bitwise.invert": Invert,
    "square": Square, "sqrt": Sqrt, "rsqrt": Rsqrt, "reciprocal": Reciprocal, "inv": Inv,
    "exp": Exp, "expm1": Expm1, "log": Log, "log1p": Log1p, "sin": Sin, "cos": Cos, "tan": Tan,
    "asin": Asin, "acos": Acos, "atan": Atan, "sinh": Sinh, "cosh": Cosh, "asinh": Asinh,
    "acosh": Acosh, "atanh": Atanh, "zeta": Zeta, "math.zeta": Zeta, "polygamma": Polygamma,
    "math.polygamma": Polygamma, "erf": Erf, "erfc": Erfc, "lgamma": Lgamma, "digamma": Digamma,
    "math.negative": Neg, "math.sign": Sign, "math.floor": Floor, "math.ceil": Ceil,
    "math.rint": Rint, "math.is_nan": IsNan, "math.is_inf": IsInf, "math.is_finite": IsFinite,
    "debugging.is_nan": IsNan, "debugging.is_inf": IsInf, "debugging.is_finite": IsFinite,
    "math.square": Square, "math.sqrt": Sqrt, "math.rsqrt": Rsqrt, "math.reciprocal": Reciprocal,
    "math.exp": Exp, "math.expm1": Expm1, "math.log": Log, "math.log1p": Log1p, "math.sin": Sin,
    "math.cos": Cos, "math.tan": Tan, "math.asin": Asin, "math.acos": Acos, "math.atan": Atan,
    "math.sinh": Sinh, "math.cosh": Cosh, "math.asinh": Asinh, "math.acosh": Acosh,
    "math.atanh": Atanh, "math.erf": Erf, "math.erfc": Erfc, "math.lgamma": Lgamma,
    "math.digamma": Digamma,
}
