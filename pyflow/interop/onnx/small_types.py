"""ONNX's element types that pyflow has none for: float8, float4, int4, uint4, int2, uint2.

Invariants:
1. Such a value is a uint8 tensor of codes, one element a byte, and `Value.small` is its ONNX number.
2. Only ops that know of codes get to see them: those here, and those that only move elements, whose
   results are codes of the same type.  Any other op on them is an UnsupportedError.
3. From a float the nearest value is taken, of two the one with the even code; beyond the largest it
   is that (saturate) or what the type has for it.

Source: ONNX's "Float stored in 8 bits", "in 4 bits", "Integers stored in 4 bits".
"""

import functools
from typing import NamedTuple

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.values import Value


class Format(NamedTuple):
    """One type.  name: ml_dtypes'; onnx: as in type strings; values: float32 by code."""

    name: str
    onnx: str
    bits: int
    values: np.ndarray
    signed: bool                # whether the highest bit is a float's sign
    whole: bool                 # two's complement or unsigned integers
    beyond: int                 # code of what is too large and not saturated


def _floats(exponent, mantissa, bias, nan, infinite=False, zero_sign=True):
    """Values by code of a float with a sign bit.  nan: codes (without sign) from which NaNs begin."""
    codes = np.arange(1 << exponent + mantissa)
    e, m = codes >> mantissa, (codes & (1 << mantissa) - 1) / (1 << mantissa)
    values = np.where(e == 0, np.ldexp(m, 1 - bias), np.ldexp(1 + m, e - bias))
    values[nan:] = np.nan
    if infinite:
        values[nan - 1] = np.inf
    values = np.concatenate([values, -values]).astype(np.float32)
    if not zero_sign:
        values[codes.size] = np.nan
    return values


_POWERS = np.append(np.ldexp(1.0, np.arange(-127, 128)), np.nan).astype(np.float32)

FORMATS = {
    17: Format("float8_e4m3fn", "float8e4m3fn", 8, _floats(4, 3, 7, 127), True, False, 0x7f),
    18: Format("float8_e4m3fnuz", "float8e4m3fnuz", 8, _floats(4, 3, 8, 128, zero_sign=False), True,
               False, 0x80),
    19: Format("float8_e5m2", "float8e5m2", 8, _floats(5, 2, 15, 125, True), True, False, 0x7c),
    20: Format("float8_e5m2fnuz", "float8e5m2fnuz", 8, _floats(5, 2, 16, 128, zero_sign=False), True,
               False, 0x80),
    21: Format("uint4", "uint4", 4, np.arange(16, dtype=np.float32), False, True, 0),
    22: Format("int4", "int4", 4, np.r_[0:8, -8:0].astype(np.float32), False, True, 0),
    23: Format("float4_e2m1fn", "float4e2m1", 4, _floats(2, 1, 1, 8), True, False, 0x7),
    24: Format("float8_e8m0fnu", "float8e8m0", 8, _POWERS, False, False, 0xff),
    25: Format("uint2", "uint2", 2, np.arange(4, dtype=np.float32), False, True, 0),
    26: Format("int2", "int2", 2, np.r_[0:2, -2:0].astype(np.float32), False, True, 0),
}
_BY_NAME = {f.name: number for number, f in FORMATS.items()}

# Ops that only move elements: run on codes they give codes.
_MOVING = frozenset("""Identity Reshape Transpose Squeeze Unsqueeze Flatten Concat Slice Split Gather
GatherElements GatherND Expand Tile Constant DepthToSpace SpaceToDepth ReverseSequence
ScatterElements ScatterND""".split())
_LOOKING = frozenset(["Shape", "Size"])


# ---------------------------------------------------------------- outside of graphs
def number_of(array):
    """The ONNX number of an array of ml_dtypes' small types, or None."""
    return _BY_NAME.get(array.dtype.name)


def codes_of(array):
    """The codes of an array of a small type (ml_dtypes') as uint8; other arrays as they are."""
    number = number_of(array)
    if number is None:
        return array
    return array.view(np.uint8) & np.uint8((1 << FORMATS[number].bits) - 1)


def native(codes, number):
    """The array of ml_dtypes' type that codes stand for; the codes where ml_dtypes is not there."""
    made = FORMATS[number]
    try:
        import ml_dtypes
        dtype = np.dtype(getattr(ml_dtypes, made.name))
    except (ImportError, AttributeError):
        return codes
    if not made.whole:
        return np.ascontiguousarray(codes).view(dtype)
    return made.values[codes].astype(dtype)


def unpacked(proto, shape, what):
    """The codes of a TensorProto: several to a byte in raw_data and int32_data, the lowest first."""
    made = FORMATS[proto.data_type]
    count = int(np.prod(shape, dtype=np.int64))
    per = 8 // made.bits
    if len(proto.raw_data):
        data = np.frombuffer(proto.raw_data, np.uint8)
    else:
        data = np.asarray(proto.int32_data, np.int64).astype(np.uint8).reshape(-1)
    if data.size != -(-count // per):
        raise ValueError(f"{what}: {count} elements of {made.onnx} need {-(-count // per)} bytes, "
                         f"{data.size} are there")
    shifts = np.arange(per, dtype=np.uint8) * made.bits
    codes = (data[:, None] >> shifts & ((1 << made.bits) - 1)).reshape(-1)[:count]
    return codes.astype(np.uint8).reshape(shape)


# ---------------------------------------------------------------- in graphs
def decoded(codes, number, dtype=tf.float32):
    """What codes stand for."""
    made = tf.gather(tf.constant(FORMATS[number].values), tf.cast(codes, tf.int32))
    return tf.cast(made, dtype)


@functools.cache
def _thresholds(number):
    """(midpoints between neighbouring values that are not negative, how many values)."""
    made = FORMATS[number]
    top = made.values[:made.values.size // 2] if made.signed else made.values
    finite = top[np.isfinite(top)].astype(np.float64)
    after = finite[-1] + (finite[-1] - finite[-2])
    if not made.signed:                             # powers of two
        after = finite[-1] * 2
    ladder = np.append(finite, after)
    return (ladder[1:] + ladder[:-1]) / 2, finite.size


def encoded(x, number, saturate=True, mode="nearest"):
    """Codes of the values nearest to x, a tensor of floats or integers."""
    made = FORMATS[number]
    if made.whole:
        whole = tf.cast(x, tf.int32) if x.dtype is not tf.int64 else x
        return tf.cast(tf.bitwise.bitwise_and(whole, tf.constant(
            (1 << made.bits) - 1, whole.dtype)), tf.uint8)
    x = tf.cast(x, tf.float64)
    size = tf.abs(x)
    middles, count = _thresholds(number)
    if number == 24:
        code = _power(x, middles, mode)
    else:
        code = _nearest(size, middles)
    last = tf.constant(np.int32(count - 1))
    sign = tf.where(_negative(x), tf.fill(tf.shape(code), 1 << made.bits - 1),
                    tf.zeros_like(code)) if made.signed else tf.zeros_like(code)
    if made.name.endswith("uz"):                    # one zero
        sign = tf.where(tf.equal(code, 0), tf.zeros_like(sign), sign)
    too_large = tf.greater(code, last)
    limit = tf.where(too_large, tf.zeros_like(code) + last, code) + sign
    if not saturate:
        beyond = tf.zeros_like(code) + made.beyond
        beyond = beyond + sign if made.beyond < 0x80 and made.signed else beyond
        limit = tf.where(too_large, beyond, limit)
    nan = tf.fill(tf.shape(code), _nan_code(made)) + (
        sign if made.signed and _nan_code(made) < 0x80 and made.bits == 8 else 0)
    return tf.cast(tf.where(tf.is_nan(x), nan, limit), tf.uint8)


def _nan_code(made):
    if made.name == "float8_e5m2":
        return 0x7e
    codes = np.flatnonzero(np.isnan(made.values))
    return int(codes[0]) if codes.size else 0


def _negative(x):
    """Whether the sign bit is set."""
    return tf.less(tf.bitcast(x, tf.int64), tf.constant(0, tf.int64))


def _nearest(size, middles):
    flat = tf.reshape(size, [-1])
    steps = tf.constant(middles)
    low = tf.searchsorted(steps, flat, side="left")
    high = tf.searchsorted(steps, flat, side="right")
    even = tf.equal(tf.bitwise.bitwise_and(low, tf.ones_like(low)), tf.zeros_like(low))
    return tf.reshape(tf.where(even, low, high), tf.shape(size))


def _power(x, middles, mode):
    """Codes of powers of two: of the next below, above, or the nearer one."""
    flat = tf.reshape(x, [-1])
    values = tf.constant(_POWERS[:-1].astype(np.float64))
    if mode == "down":
        code = tf.searchsorted(values, flat, side="right") - 1
    elif mode == "up":
        code = tf.searchsorted(values, flat, side="left")
    else:
        code = tf.searchsorted(tf.constant(middles), flat, side="right")
    return tf.reshape(tf.maximum(code, tf.zeros_like(code)), tf.shape(x))


# ---------------------------------------------------------------- nodes
def concerns(node):
    """Whether a node reads values of small types, or makes them."""
    if any(v is not None and v.small is not None for v in node.inputs):
        return True
    return any(node.has_attr(name) and node.attr(name) in FORMATS
               for name in ("to", "output_dtype") if node.op in _MADE)


def convert(node, plain):
    """The results of such a node.  plain: the op's own converter, or None."""
    special = _MADE.get(node.op)
    if special is not None:
        return special(node)
    if plain is None or node.op not in _MOVING | _LOOKING:
        small = next(v.small for v in node.inputs if v is not None and v.small is not None)
        raise node.unsupported(f"{FORMATS[small].onnx} is only cast, quantised, dequantised and "
                               f"moved")
    results = plain(node)
    if node.op in _LOOKING:
        return results
    small = next(v.small for v in node.inputs if v is not None and v.small is not None)
    made = []
    for result in results if isinstance(results, (list, tuple)) else [results]:
        value = result if isinstance(result, Value) else (
            Value(array=result) if isinstance(result, np.ndarray) else Value(result))
        made.append(value.tagged(small))
    return made


def _floating(node, i):
    """Input i, decoded if need be."""
    value = node.value(i)
    return value.plain if value.small is None else decoded(value.plain, value.small)


def _cast_to(node, value, small, dtype):
    """The value as codes of a small type, or, where that is None, in a DType."""
    from pyflow.interop.onnx.ops.elementwise import cast_tensor
    x = value.plain if value.small is None else decoded(value.plain, value.small)
    if small is not None:
        if x.dtype.base_dtype is tf.string:
            x = tf.string_to_number(x, tf.float32)
        return Value(encoded(x, small, bool(node.attr("saturate", 1)),
                             node.attr("round_mode", "up"))).tagged(small)
    return cast_tensor(x, dtype)


def _cast(node):
    small = node.attr("to") if node.attr("to") in FORMATS else None
    return _cast_to(node, node.value(0), small,
                    node.element_type("to", None) if small is None else None)


def _cast_like(node):
    like = node.value(1)
    return _cast_to(node, node.value(0), like.small, like.dtype)


def _quantize(node):
    from pyflow.interop.onnx.ops.quantized import along
    number = node.value(2).small if node.has(2) else node.attr("output_dtype")
    made, axis = FORMATS[number], node.attr("axis", 1)
    x = tf.cast(node.x(0), tf.float32) / tf.cast(along(node, node.x(1), 1, axis), tf.float32)
    zero = along(node, _floating(node, 2), 2, axis) if node.has(2) else None
    if not made.whole:
        return Value(encoded(x if zero is None else x + zero, number,
                             bool(node.attr("saturate", 1)))).tagged(number)
    x = tf.rint(x) if zero is None else tf.rint(x) + zero
    low, high = float(made.values.min()), float(made.values.max())
    return Value(encoded(tf.clip_by_value(x, tf.constant(low), tf.constant(high)),
                         number)).tagged(number)


def _dequantize(node):
    from pyflow.interop.onnx.ops.quantized import along
    axis = node.attr("axis", 1)
    scale = tf.cast(along(node, node.x(1), 1, axis), tf.float32)
    x = _floating(node, 0)
    if node.has(2):
        x = x - along(node, _floating(node, 2), 2, axis)
    return tf.cast(x * scale, node.element_type("output_dtype", node.value(1).dtype))


_MADE = {"Cast": _cast, "CastLike": _cast_like, "QuantizeLinear": _quantize,
         "DequantizeLinear": _dequantize}
