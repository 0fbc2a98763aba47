"""Simulated quantisation of floats: fake_quant_with_min_max_* and quantize_and_dequantize.

Invariants
  1. Results are floats on a grid of 2^num_bits (or one less) steps; 0 is on the grid.
  2. Gradients pass where the input lies inside the range ("straight through"), as in TF.

Example:  `tf.fake_quant_with_min_max_args(x, -1, 1)`.
"""
import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.dtypes import FLOATS
from pyflow.framework.op import S, lit, op
from pyflow.ops.base.common import dims_of, unchanged
from pyflow.ops.base.shape_rules import by_pattern, match

BITS = "num_bits: int = 8, narrow_range: bool = false"
ARGS = "min: float = -6, max: float = 6, " + BITS


def _grid(low, high, bits, narrow):
    low, high = np.float32(low), np.float32(high)
    first, last = np.float32(1.0 if narrow else 0.0), np.float32(2 ** bits - 1)
    step = (high - low) / (last - first)
    with np.errstate(all="ignore"):
        zero = first - low / step
    whole = np.clip(np.floor(zero + np.float32(0.5)), first, last)
    return (first - whole) * step, (last - whole) * step, step


def _snapped(x, low, high, bits, narrow):
    if low == 0 and high == 0:
        return np.zeros_like(x)
    low, high, step = _grid(low, high, bits, narrow)
    inverse = np.float32(1) / step
    return np.floor((np.clip(x, low, high) - low) * inverse + np.float32(0.5)) * step + low


def _inside(x, low, high, bits, narrow):
    if low == 0 and high == 0:
        return np.ones(x.shape, bool), np.zeros(x.shape, bool), np.zeros(x.shape, bool)
    low, high, _ = _grid(low, high, bits, narrow)
    return (x >= low) & (x <= high), x < low, x > high


@op("FakeQuantWithMinMaxArgs", inputs="inputs: float", outputs="outputs: float", attrs=ARGS)
class FakeQuantWithMinMaxArgs:
    """Inputs rounded to a grid over [min, max], nudged to hold 0. TF: FakeQuantWithMinMaxArgs."""
    shape = unchanged

    def gradient(op, dy):
        attrs = {k: op.attr(k) for k in ("min", "max", "num_bits", "narrow_range")}
        return FakeQuantWithMinMaxArgsGradient(dy, op.inputs[0], **attrs)

    def reference(inputs, min, max, num_bits, narrow_range):
        return _snapped(inputs, min, max, num_bits, narrow_range)
    samples = [S(lit([[-7.0, -1.25, 0.1], [0.0, 2.5, 6.5]])),
               S((4,), min=-1.0, max=2.0, num_bits=3),
               S((4,), min=-1.0, max=1.0, narrow_range=True)]


@op("FakeQuantWithMinMaxArgsGradient", inputs="gradients: float, inputs: float",
    outputs="backprops: float", attrs=ARGS)
class FakeQuantWithMinMaxArgsGradient:
    """Gradients where the input lies in the range, else 0. TF: FakeQuantWithMinMaxArgsGradient."""
    shape = unchanged
    gradient = None

    def reference(gradients, inputs, min, max, num_bits, narrow_range):
        return gradients * _inside(inputs, min, max, num_bits, narrow_range)[0]
    samples = [S((2, 3), lit([[-7.0, -1.25, 0.1], [0.0, 2.5, 6.5]]))]


def _channels(x, low, high):
    for k in range(x.shape[-1]):
        yield (Ellipsis, k), low[k], high[k]


def _vars(name, grad_op, channels):
    what = "one range per channel of the last dimension" if channels else "one range"
    bounds = (lit([-1.0, 0.0, -3.0]), lit([1.0, 2.0, 0.5])) if channels else (lit(-1.0), lit(2.0))

    @op(name, inputs="inputs: float, min: float, max: float", outputs="outputs: float", attrs=BITS,
        doc=f"Inputs rounded to a grid over [min, max], {what}. TF: {name}.")
    class Vars:
        shape = (by_pattern("* c", "c", "c", "->", "* c") if channels else
                 by_pattern("*", "", "", "->", "*"))

        def gradient(op, dy):
            return list(grad_op(dy, *op.inputs, num_bits=op.attr("num_bits"),
                                narrow_range=op.attr("narrow_range")))

        def reference(inputs, min, max, num_bits, narrow_range):
            if not channels:
                return _snapped(inputs, min, max, num_bits, narrow_range)
            result = np.empty_like(inputs)
            for at, low, high in _channels(inputs, min, max):
                result[at] = _snapped(inputs[at], low, high, num_bits, narrow_range)
            return result
        samples = [S((2, 3), *bounds), S((4, 3), *bounds, num_bits=4, narrow_range=True)]
    return Vars


def _vars_gradient(name, channels):
    bounds = (lit([-1.0, 0.0, -3.0]), lit([1.0, 2.0, 0.5])) if channels else (lit(-1.0), lit(2.0))

    @op(name, inputs="gradients: float, inputs: float, min: float, max: float", attrs=BITS,
        outputs="backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float",
        doc=f"Gradients by inputs, min and max; no gradient of its own. TF: {name}.")
    class Gradient:
        shape = (by_pattern("* c", "* c", "c", "c", "->", "* c", "c", "c") if channels else
                 by_pattern("*", "*", "", "", "->", "*", "", ""))
        gradient = None

        def reference(gradients, inputs, min, max, num_bits, narrow_range):
            if not channels:
                inside, below, above = _inside(inputs, min, max, num_bits, narrow_range)
                return gradients * inside, (gradients * below).sum(), (gradients * above).sum()
            dx, lows, highs = np.empty_like(inputs), np.empty_like(min), np.empty_like(max)
            for at, low, high in _channels(inputs, min, max):
                inside, below, above = _inside(inputs[at], low, high, num_bits, narrow_range)
                dx[at] = gradients[at] * inside
                lows[at[1]], highs[at[1]] = (gradients[at] * below).sum(), (
                    gradients[at] * above).sum()
            return dx, lows, highs
        samples = [S((2, 3), (2, 3), *bounds), S((4, 3), (4, 3), *bounds, num_bits=4)]
    return Gradient


FakeQuantWithMinMaxVarsGradient = _vars_gradient("FakeQuantWithMinMaxVarsGradient", False)
FakeQuantWithMinMaxVarsPerChannelGradient = _vars_gradient(
    "FakeQuantWithMinMaxVarsPerChannelGradient", True)
FakeQuantWithMinMaxVars = _vars("FakeQuantWithMinMaxVars", FakeQuantWithMinMaxVarsGradient, False)
FakeQuantWithMinMaxVarsPerChannel = _vars("FakeQuantWithMinMaxVarsPerChannel",
                                          FakeQuantWithMinMaxVarsPerChannelGradient, True)


# ---------------------------------------------------------------------- quantize_and_dequantize
def _quantized_shape(op):
    """The input's; the bounds are scalars, or vectors along an axis."""
    axis = op.attr("axis")
    bounds = "" if axis == -1 else "c"
    found = match(op, "*", bounds, bounds, "")
    channels, dims = found.size("c"), dims_of(found.front)
    if dims is not None and axis != -1 and (
            axis >= len(dims) or None not in (channels, dims[axis]) and channels != dims[axis]):
        raise ValueError(f"{op.type}: bounds of {channels} along axis {axis} of shape "
                         f"{found.front}")
    return found.front


def _straight_through(op, dy):
    return [dy] + [None] * (len(op.inputs) - 1)


def _quantized(x, low, high, signed, bits, given, narrow, mode):
    if not given:
        low, high = (x.min(), x.max()) if x.size else (0, 0)
    kind = x.dtype.type
    lowest = kind(-2 ** (bits - 1) + (1 if narrow else 0) if signed else 0)
    highest = kind(2 ** (bits - 1) - 1 if signed else 2 ** bits - 1)
    low, high = kind(low), kind(high)
    with np.errstate(all="ignore"):
        by_low = lowest / low if lowest * low > 0 else kind(np.inf)
        by_high = highest / high if highest * high > 0 else kind(np.inf)
        if by_low < by_high:
            scale, inverse = by_low, low / lowest
            high = highest * inverse
        else:
            scale, inverse = by_high, high / highest
            low = lowest * inverse
        wide = np.clip(x, low, high) * scale
        whole = np.floor(wide + kind(0.5)) if mode == "HALF_UP" else np.rint(wide)
        return (whole * inverse).astype(x.dtype)


def _by_axis(x, low, high, axis, **how):
    if axis < 0:
        return _quantized(x, np.ravel(low)[0], np.ravel(high)[0], **how)
    moved = np.moveaxis(x, axis, 0)
    rows = [_quantized(row, np.ravel(low)[k] if how["given"] else 0,
                       np.ravel(high)[k] if how["given"] else 0, **how)
            for k, row in enumerate(moved)]
    return np.moveaxis(np.stack(rows), 0, axis)


WIDE = (dtypes.float32, dtypes.float64)


@op("QuantizeAndDequantize", inputs="input: T", outputs="output: T", T=FLOATS,
    attrs="signed_input: bool = true, num_bits: int = 8, range_given: bool = false, "
          "input_min: float = 0, input_max: float = 0")
class QuantizeAndDequantize:
    """The input on a grid of 2^num_bits steps over its range; the oldest form.
    TF: QuantizeAndDequantize."""
    shape = unchanged
    gradient = _straight_through

    def reference(input, signed_input, num_bits, range_given, input_min, input_max):
        return _quantized(input, input_min, input_max, signed_input, num_bits, range_given, False,
                          "HALF_TO_EVEN")
    samples = [S((2, 3), types=WIDE), S((5,), range_given=True, input_min=-1.0, input_max=1.5,
                                        types=WIDE)]


@op("QuantizeAndDequantizeV2", inputs="input: T, input_min: T, input_max: T", outputs="output: T",
    T=FLOATS, attrs="signed_input: bool = true, num_bits: int = 8, range_given: bool = false, "
    'round_mode: {"HALF_TO_EVEN", "HALF_UP"} = "HALF_TO_EVEN", narrow_range: bool = false, '
    "axis: int = -1")
class QuantizeAndDequantizeV2:
    """The input on a grid of 2^num_bits steps over a given range or its own.
    TF: QuantizeAndDequantizeV2."""
    shape = _quantized_shape
    gradient = _straight_through

    def reference(input, input_min, input_max, signed_input, num_bits, range_given, round_mode,
                  narrow_range, axis):
        return _by_axis(input, input_min, input_max, axis, signed=signed_input, bits=num_bits,
                        given=range_given, narrow=narrow_range, mode=round_mode)
    samples = [S((2, 3), lit(-1.0), lit(1.5), range_given=True, types=WIDE),
               S((2, 3), lit(0.0), lit(0.0), num_bits=4, narrow_range=True, types=WIDE),
               S((2, 3), lit([-1.0, -1.0, -0.5]), lit([1.0, 2.0, 0.5]), axis=1, range_given=True,
                 types=WIDE),
               S((6,), lit(-1.0), lit(2.0), range_given=True, round_mode="HALF_UP", types=WIDE)]


@op("QuantizeAndDequantizeV3", inputs="input: T, input_min: T, input_max: T, num_bits: int32",
    outputs="output: T", T=FLOATS,
    attrs="signed_input: bool = true, range_given: bool = true, narrow_range: bool = false, "
          "axis: int = -1")
class QuantizeAndDequantizeV3:
    """QuantizeAndDequantizeV2 with num_bits as a tensor. TF: QuantizeAndDequantizeV3."""
    shape = _quantized_shape
    gradient = _straight_through

    def reference(input, input_min, input_max, num_bits, signed_input, range_given, narrow_range,
                  axis):
        return _by_axis(input, input_min, input_max, axis, signed=signed_input, bits=int(num_bits),
                        given=range_given, narrow=narrow_range, mode="HALF_TO_EVEN")
    samples = [S((2, 3), lit(-1.0), lit(1.5), lit(8), types=WIDE),
               S((2, 3), lit(0.0), lit(0.0), lit(5), range_given=False, types=WIDE)]
