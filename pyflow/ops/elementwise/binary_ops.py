"""Element-wise arithmetic of two arguments, with NumPy broadcasting, and sums of many (AddN).

Invariants
  1. Output shape = broadcast of the operands' shapes; a mismatch is a ValueError while the graph is
     built.
  2. Gradients are summed back to each operand's shape (`sum_to_operands`).
  3. Integer division by zero is an InvalidArgumentError of the step, never a signal.

Example:  `tf.multiply([[1.0], [2.0]], [3.0, 4.0])` -> [[3, 4], [6, 8]].
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.dtypes import COMPLEX, FLOATS, INTS, NUMBERS, REAL
from pyflow.framework.op import S, UNREGISTERED, ints, lit, op, pos, raw_ops
from pyflow.ops.base import tensors
from pyflow.ops.base.common import PAIRS, broadcast, conj, merged, only, sum_to_operands

POSITIVE_PAIRS = [S(pos((2, 3)), pos((2, 3))), S(pos((2, 3)), pos((3,))), S(pos(()), pos((2, 1))),
                  S(pos((0, 3)), pos((1, 3)))]
BY_POSITIVE = [S((2, 3), pos((2, 3))), S((2, 3), pos((3,))), S((), pos((2, 1))),
               S((0, 3), pos((1, 3)))]
WITH_ZEROS = [S(lit([0.0, 0.0, 2.0]), lit([0.0, 3.0, 0.0]), types=(dtypes.float32, dtypes.float64))]
SIGNS = [S(lit([7, -7, 7, -7]), lit([3, 3, -3, -3])), S(lit([6, -6, 0, 5]), lit([3]))]
ADDABLE = NUMBERS + (dtypes.string,)


def _select(condition, t, e):
    return raw_ops.Select(condition, t, e)


def _zeros(x):
    return tensors.zeros_like(x)


# -------------------------------------------------------------------------------- sums and products
def _add_gradient(op, dz):
    return sum_to_operands(op, dz, dz)


@op("Add", inputs="x: T, y: T", outputs="z: T", T=ADDABLE)
class Add:
    """x + y, broadcast; strings are joined. TF: Add.

        >>> tf.Session().run(tf.add([[1], [2]], [10, 20]))
        array([[11, 21],
               [12, 22]], dtype=int32)
    """
    shape = broadcast
    gradient = _add_gradient

    def reference(x, y): return x + y
    samples = PAIRS


@op("AddV2", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class AddV2:
    """x + y, broadcast. TF: AddV2."""
    shape = broadcast
    gradient = _add_gradient

    def reference(x, y): return x + y
    samples = PAIRS


@op("Sub", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class Sub:
    """x - y, broadcast. TF: Sub.

        >>> tf.Session().run(tf.subtract([5, 7], 2))
        array([3, 5], dtype=int32)
    """
    shape = broadcast

    def gradient(op, dz):
        return sum_to_operands(op, dz, raw_ops.Neg(dz))

    def reference(x, y): return x - y
    samples = PAIRS


@op("Mul", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class Mul:
    """x * y, broadcast. TF: Mul.

        >>> tf.Session().run(tf.multiply([1., 2.], 3.))
        array([3., 6.], dtype=float32)
    """
    shape = broadcast

    def gradient(op, dz):
        x, y = op.inputs
        return sum_to_operands(op, Mul(dz, conj(y)), Mul(conj(x), dz))

    def reference(x, y): return x * y
    samples = PAIRS


@op("MulNoNan", inputs="x: T, y: T", outputs="z: T", T=FLOATS + COMPLEX)
class MulNoNan:
    """x * y, and 0 where y is 0 even if x is infinite or NaN. TF: MulNoNan."""
    shape = broadcast

    def gradient(op, dz):
        x, y = op.inputs
        return sum_to_operands(op, MulNoNan(dz, conj(y)), MulNoNan(conj(x), dz))

    def reference(x, y): return np.where(y == 0, np.zeros((), x.dtype), x * y)
    samples = PAIRS + [S(lit([np.inf, np.nan, 2.0]), lit([0.0, 0.0, 3.0]), types=(dtypes.float32,))]


def _with_slope(op):
    """The second operand, or the mean that tf.nn.moments stops there: the squares around their mean
    have no slope through it, but their slope has one."""
    x, y = op.inputs
    scope, _, name = op.name.rpartition("/")
    if name == "SquaredDifference" and y.op.type == "StopGradient":
        mean = y.op.inputs[0].op
        if mean.type == "Mean" and mean.name == f"{scope}/mean" and mean.inputs[0] is x:
            return mean.outputs[0]
    return y


@op("SquaredDifference", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class SquaredDifference:
    """(x - y) * conj(x - y), broadcast. TF: SquaredDifference.

        >>> tf.Session().run(tf.squared_difference([1., 5.], 3.))
        array([4., 4.], dtype=float32)
    """
    shape = broadcast

    def gradient(op, dz):
        twice = dz * (op.inputs[0] - _with_slope(op)) * 2
        return sum_to_operands(op, twice, raw_ops.Neg(twice))

    def reference(x, y): return (x - y) * np.conj(x - y)
    samples = PAIRS


# ---------------------------------------------------------------------------------------- divisions
def _division_gradient(op, dz):
    x, y = conj(op.inputs[0]), conj(op.inputs[1])
    dx = RealDiv(dz, y)
    return sum_to_operands(op, dx, dz * RealDiv(RealDiv(raw_ops.Neg(x), y), y))


def _c_divide(x, y):
    if np.issubdtype(x.dtype, np.integer):
        quotient = np.floor_divide(x, y)
        return quotient + ((quotient * y != x) & ((x < 0) != (y < 0))).astype(x.dtype)
    return x / y


@op("RealDiv", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class RealDiv:
    """x / y of real or complex numbers, broadcast. TF: RealDiv."""
    shape = broadcast
    gradient = _division_gradient

    def reference(x, y): return x / y
    samples = only(FLOATS + COMPLEX, BY_POSITIVE)


@op("Div", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class Div:
    """x / y, broadcast; integers truncate toward zero. TF: Div."""
    shape = broadcast
    gradient = _division_gradient

    def reference(x, y): return _c_divide(x, y)
    samples = BY_POSITIVE + SIGNS


@op("DivNoNan", inputs="x: T, y: T", outputs="z: T", T=FLOATS + COMPLEX)
class DivNoNan:
    """x / y, and 0 where y is 0. TF: DivNoNan."""
    shape = broadcast

    def gradient(op, dz):
        x, y = conj(op.inputs[0]), conj(op.inputs[1])
        dy = dz * DivNoNan(DivNoNan(raw_ops.Neg(x), y), y)
        return sum_to_operands(op, DivNoNan(dz, y), dy)

    def reference(x, y):
        return np.where(y == 0, np.zeros((), x.dtype),
                        x / np.where(y == 0, np.ones((), y.dtype), y))
    samples = BY_POSITIVE + WITH_ZEROS


@op("TruncateDiv", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class TruncateDiv:
    """x / y rounded toward zero, as C divides. Not differentiable. TF: TruncateDiv."""
    shape = broadcast
    gradient = None

    def reference(x, y):
        quotient = _c_divide(x, y)
        return np.trunc(quotient).astype(x.dtype) if x.dtype.kind not in "iuc" else quotient
    samples = [S(ints((2, 3), -20, 20), ints((3,), 1, 5), types=REAL)] + only(REAL, SIGNS)


@op("FloorDiv", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class FloorDiv:
    """x / y rounded toward minus infinity, as Python's //. Not differentiable. TF: FloorDiv."""
    shape = broadcast
    gradient = None

    def reference(x, y): return np.floor_divide(x, y)
    samples = only(REAL, BY_POSITIVE + SIGNS)


def _floor_mod_gradient(op, dz):
    quotient = FloorDiv(op.inputs[0], op.inputs[1])
    return sum_to_operands(op, dz, dz * raw_ops.Neg(quotient))


@op("FloorMod", inputs="x: T, y: T", outputs="z: T", T=REAL)
class FloorMod:
    """Remainder with the sign of y, as Python's %. TF: FloorMod."""
    shape = broadcast
    gradient = _floor_mod_gradient

    def reference(x, y): return np.mod(x, y)
    samples = BY_POSITIVE + SIGNS


@op("Mod", inputs="x: T, y: T", outputs="z: T", T=REAL)
class Mod:
    """Remainder with the sign of x, as C's % and fmod. Not differentiable. TF: Mod."""
    shape = broadcast
    gradient = UNREGISTERED

    def reference(x, y): return np.fmod(x, y)
    samples = BY_POSITIVE + SIGNS


@op("TruncateMod", inputs="x: T, y: T", outputs="z: T", T=REAL)
class TruncateMod:
    """Remainder with the sign of x, as C's % and fmod. Not differentiable. TF: TruncateMod."""
    shape = broadcast
    gradient = UNREGISTERED

    def reference(x, y): return np.fmod(x, y)
    samples = BY_POSITIVE + SIGNS


# ----------------------------------------------------------------------- powers, logarithms, angles
@op("Pow", inputs="x: T, y: T", outputs="z: T", T=NUMBERS)
class Pow:
    """x to the power y, broadcast; integers to a negative power are an error. TF: Pow.

        >>> tf.Session().run(tf.pow([2., 9.], [3., 0.5]))
        array([8., 3.], dtype=float32)
    """
    shape = broadcast

    def gradient(op, dz):
        x, y, z = conj(op.inputs[0]), conj(op.inputs[1]), conj(op.outputs[0])
        dx = dz * y * Pow(x, y - 1)
        usable = x > 0 if not x.dtype.is_complex else _not_zero(x)
        log_x = _select(usable, raw_ops.Log(_select(usable, x, _ones(x))), _zeros(x))
        return sum_to_operands(op, dx, dz * z * log_x)

    def reference(x, y): return np.power(x, y)
    samples = only(FLOATS + COMPLEX, POSITIVE_PAIRS) + [
        S(ints((2, 3), -3, 4), ints((3,), 0, 4), types=(dtypes.int32, dtypes.int64))]


def _ones(x):
    return tensors.ones_like(x)


def _not_zero(x):
    return raw_ops.NotEqual(x, _zeros(x))


@op("Xdivy", inputs="x: T, y: T", outputs="z: T", T=FLOATS + COMPLEX)
class Xdivy:
    """x / y, and 0 where x is 0 whatever y is. TF: Xdivy."""
    shape = broadcast

    def gradient(op, dz):
        x, y = op.inputs
        present = graph.convert_to_tensor(1, dtype=x.dtype)
        dx = dz * Xdivy(_indicator(x, present), y)
        return sum_to_operands(op, dx, dz * Xdivy(raw_ops.Neg(x), raw_ops.Square(y)))

    def reference(x, y):
        x, y = np.broadcast_arrays(x, y)
        return np.where(x == 0, np.zeros((), x.dtype),
                        x / np.where(x == 0, np.ones((), y.dtype), y))
    samples = BY_POSITIVE + WITH_ZEROS[:1]


@op("Xlogy", inputs="x: T, y: T", outputs="z: T", T=FLOATS + COMPLEX)
class Xlogy:
    """x * log(y), and 0 where x is 0 whatever y is. TF: Xlogy."""
    shape = broadcast

    def gradient(op, dz):
        x, y = op.inputs
        present = graph.convert_to_tensor(1, dtype=x.dtype)
        return sum_to_operands(op, dz * Xlogy(_indicator(x, present), y), dz * Xdivy(x, y))

    def reference(x, y):
        x, y = np.broadcast_arrays(x, y)
        return np.where(x == 0, np.zeros((), x.dtype),
                        x * np.log(np.where(x == 0, np.ones((), y.dtype), y)))
    samples = BY_POSITIVE


def _indicator(x, one):
    """1 where x is not 0, else 0, in the dtype of x."""
    return tensors.cast(_not_zero(x), one.dtype)


@op("Atan2", inputs="y: T, x: T", outputs="z: T", T=FLOATS)
class Atan2:
    """Angle of the point (x, y) in radians, -pi to pi. TF: Atan2."""
    shape = broadcast

    def gradient(op, dz):
        y, x = op.inputs
        scaled = dz / (raw_ops.Square(x) + raw_ops.Square(y))
        return sum_to_operands(op, x * scaled, raw_ops.Neg(y) * scaled)

    def reference(y, x): return np.arctan2(y, x)
    samples = PAIRS


# ------------------------------------------------------------------------------ maximum and minimum
def _extremum_gradient(op, dz, chosen):
    zeros = _zeros(dz)
    return sum_to_operands(op, _select(chosen, dz, zeros), _select(chosen, zeros, dz))


@op("Maximum", inputs="x: T, y: T", outputs="z: T", T=REAL)
class Maximum:
    """The larger of x and y, broadcast; NaN wins. Ties send the gradient to x. TF: Maximum.

        >>> tf.Session().run(tf.maximum([1., 5.], 2.))
        array([2., 5.], dtype=float32)
    """
    shape = broadcast

    def gradient(op, dz):
        return _extremum_gradient(op, dz, op.inputs[0] >= op.inputs[1])

    def reference(x, y): return np.maximum(x, y)
    samples = PAIRS


@op("Minimum", inputs="x: T, y: T", outputs="z: T", T=REAL)
class Minimum:
    """The smaller of x and y, broadcast; NaN wins. Ties send the gradient to x. TF: Minimum.

        >>> tf.Session().run(tf.minimum([1.0, 5.0], [3.0, 2.0]))
        array([1., 2.], dtype=float32)
    """
    shape = broadcast

    def gradient(op, dz):
        return _extremum_gradient(op, dz, op.inputs[0] <= op.inputs[1])

    def reference(x, y): return np.minimum(x, y)
    samples = PAIRS


@op("ClipByValue", inputs="t: T, clip_value_min: T, clip_value_max: T", outputs="output: T",
    T=NUMBERS)
class ClipByValue:
    """max(min(t, clip_value_max), clip_value_min); scalar bounds or of the shape of t.
    TF: ClipByValue."""
    def shape(op): return op.inputs[0].shape

    def gradient(op, dy):
        t, low, high = op.inputs
        zeros = _zeros(dy)
        below, above = _select(t < low, dy, zeros), _select(t > high, dy, zeros)
        inside = dy - below - above
        totals = [g if bound.shape.ndims else tensors.sum_of(g)
                  for g, bound in ((below, low), (above, high))]
        return [inside] + totals

    def reference(t, clip_value_min, clip_value_max):
        return np.maximum(np.minimum(t, clip_value_max), clip_value_min)
    samples = only((dtypes.float32, dtypes.float64, dtypes.int32), [
        S((2, 3), lit(-1), lit(1)), S((4,), lit([-1, -1, -2, 0]), lit([1, 0, 2, 3])),
        S((0, 3), lit(0), lit(1)), S((), lit(-1), lit(2))])


# ------------------------------------------------------------------------------------- bits of ints
@op("BitwiseAnd", inputs="x: T, y: T", outputs="z: T", T=INTS)
class BitwiseAnd:
    """Bitwise and, broadcast. TF: BitwiseAnd."""
    shape = broadcast
    gradient = None

    def reference(x, y): return x & y
    samples = PAIRS


@op("BitwiseOr", inputs="x: T, y: T", outputs="z: T", T=INTS)
class BitwiseOr:
    """Bitwise or, broadcast. TF: BitwiseOr."""
    shape = broadcast
    gradient = None

    def reference(x, y): return x | y
    samples = PAIRS


@op("BitwiseXor", inputs="x: T, y: T", outputs="z: T", T=INTS)
class BitwiseXor:
    """Bitwise exclusive or, broadcast. TF: BitwiseXor."""
    shape = broadcast
    gradient = None

    def reference(x, y): return x ^ y
    samples = PAIRS


SHIFTS = [S(ints((2, 3), 0, 50), ints((3,), 0, 5)), S(ints((), 0, 9), ints((2, 1), 0, 3)),
          S(ints((0, 3), 0, 5), ints((1, 3), 0, 5))]


@op("LeftShift", inputs="x: T, y: T", outputs="z: T", T=INTS)
class LeftShift:
    """x shifted left by y bits; y is clamped to the width less one. TF: LeftShift."""
    shape = broadcast
    gradient = None

    def reference(x, y): return np.left_shift(x, y)
    samples = SHIFTS


@op("RightShift", inputs="x: T, y: T", outputs="z: T", T=INTS)
class RightShift:
    """x shifted right by y bits, arithmetic for signed types. TF: RightShift."""
    shape = broadcast
    gradient = None

    def reference(x, y): return np.right_shift(x, y)
    samples = SHIFTS


# ------------------------------------------------------------------------------------- sums of many
def _sum_reference(inputs):
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    return total


def _sum_gradient(op, dy):
    return [dy] * len(op.inputs)


MANY = [S([(2, 3), (2, 3), (2, 3)]), S([()]), S([(0, 3), (0, 3)])]


@op("AddN", inputs="inputs: N * T", outputs="sum: T", attrs="N: int >= 1",
    T=NUMBERS + (dtypes.variant,))
class AddN:
    """Sum of tensors of one shape and dtype, without broadcasting. TF: AddN."""
    shape = merged
    gradient = _sum_gradient

    def reference(inputs): return _sum_reference(inputs)
    samples = MANY


@op("AccumulateNV2", inputs="inputs: N * T", outputs="sum: T", attrs="N: int >= 1, shape: shape",
    T=NUMBERS)
class AccumulateNV2:
    """Sum of tensors of the one shape the attribute names. TF: AccumulateNV2."""
    def shape(op): return op.attr("shape")
    gradient = _sum_gradient

    def reference(inputs): return _sum_reference(inputs)
    samples = [S([(2, 3), (2, 3)], shape=[2, 3]), S([()], shape=[])]


PUBLIC = {
    "add": Add, "math.add": Add, "subtract": Sub, "math.subtract": Sub, "sub": Sub, "multiply": Mul,
    "math.multiply": Mul, "mul": Mul, "math.multiply_no_nan": MulNoNan,
    "squared_difference": SquaredDifference, "math.squared_difference": SquaredDifference,
    "realdiv": RealDiv, "floor_div": FloorDiv, "truncatediv": TruncateDiv, "mod": FloorMod,
    "floormod": FloorMod, "math.mod": FloorMod, "math.floormod": FloorMod,
    "truncatemod": TruncateMod, "pow": Pow, "math.pow": Pow, "atan2": Atan2, "math.atan2": Atan2,
    "maximum": Maximum, "math.maximum": Maximum, "minimum": Minimum, "math.minimum": Minimum,
    "bitwise.bitwise_and": BitwiseAnd, "bitwise.bitwise_or": BitwiseOr,
    "bitwise.bitwise_xor": BitwiseXor, "bitwise.left_shift": LeftShift,
    "bitwise.right_shift": RightShift,
}
