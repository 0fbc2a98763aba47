"""Strings: joining, formatting numbers, reading numbers.

Invariants
  1. Elements are byte strings of any length, zero bytes included.
  2. Nothing here is differentiable.

Example:  `tf.string_join(["a", tf.as_string(3)], separator="-")` -> b"a-3".
"""
import numpy as np

from pyflow.framework import dtypes, errors
from pyflow.framework.dtypes import NUMBERS
from pyflow.framework.op import S, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import unchanged
from pyflow.ops.reduce.reduction_ops import reduced


def _join_shape(op):
    shapes = [x.shape for x in op.inputs if x.shape.ndims != 0]
    if not shapes:
        return TensorShape([])
    merged = shapes[0]
    for shape in shapes[1:]:
        merged = merged.merge_with(shape)
    return merged


@op("StringJoin", inputs="inputs: N * string", outputs="output: string",
    attrs='N: int >= 0, separator: string = ""')
class StringJoin:
    """Strings of N tensors of one shape (or scalars) joined by element. TF: StringJoin."""
    shape = _join_shape
    gradient = None

    def reference(inputs, separator):
        join = np.frompyfunc(lambda *parts: separator.encode().join(parts), len(inputs), 1)
        return join(*inputs)
    samples = [S([strs(["a", "b"]), strs(["c", "d"])]),
               S([strs(["a", "b"]), strs("x")], separator="-"),
               S([strs("only")])]


@op("ReduceJoin", inputs="inputs: string, reduction_indices: int32", outputs="output: string",
    attrs='keep_dims: bool = false, separator: string = ""')
class ReduceJoin:
    """Strings joined over the first axis given, then over the next. TF: ReduceJoin."""
    shape = reduced
    gradient = None

    def reference(inputs, reduction_indices, keep_dims, separator):
        axes = [int(a) % inputs.ndim for a in np.ravel(reduction_indices)]
        kept = [i for i in range(inputs.ndim) if i not in axes]
        moved = np.transpose(inputs, kept + axes[::-1])
        rows = moved.reshape([inputs.shape[i] for i in kept] + [-1])
        result = np.empty(rows.shape[:-1], object)
        for index in np.ndindex(result.shape):
            result[index] = separator.encode().join(rows[index])
        return result.reshape([1 if i in axes else d for i, d in enumerate(inputs.shape)]) \
            if keep_dims else result
    samples = [S(strs([["a", "b"], ["c", "d"]]), lit(0)),
               S(strs([["a", "b"], ["c", "d"]]), lit([1, 0])),
               S(strs([["a", "b"]]), lit(-1), keep_dims=True, separator=" ")]


def _formatted(value, precision, scientific, shortest, width, fill):
    """C's printf of one number, as TF writes it."""
    if isinstance(value, (bool, np.bool_)):
        return b"true" if value else b"false"
    pad = str(width) if width > -1 else ""
    if isinstance(value, np.integer):
        return f"%{fill}{pad}d".encode() % int(value)
    kind = "e" if scientific else "g" if shortest else "f"
    digits = f".{precision}" if precision > -1 else ""
    template = f"%{fill}{pad}{digits}{kind}"
    if isinstance(value, np.complexfloating):
        return f"({template},{template})".encode() % (value.real, value.imag)
    return template.encode() % float(value)


@op("AsString", inputs="input: T", outputs="output: string", T=NUMBERS + (dtypes.bool,),
    attrs="precision: int = -1, scientific: bool = false, shortest: bool = false, width: int = -1, "
          'fill: string = ""')
class AsString:
    """Numbers and truth values as decimal text. TF: AsString."""
    def shape(op):
        kind, scientific, shortest = op.inputs[0].dtype, op.attr("scientific"), op.attr("shortest")
        if scientific and shortest:
            raise errors.InvalidArgumentError(
                None, op, "AsString: cannot be both scientific and shortest")
        if (scientific or shortest) and not (kind.is_floating or kind.is_complex):
            raise errors.InvalidArgumentError(
                None, op, f"AsString: scientific and shortest are for floats, got {kind.name}")
        return op.inputs[0].shape
    gradient = None

    def reference(input, precision, scientific, shortest, width, fill):
        result = np.empty(input.shape, object)
        for index in np.ndindex(input.shape):
            result[index] = _formatted(input[index], precision, scientific, shortest, width, fill)
        return result
    samples = [S(lit([3, 100, 7]), types=(dtypes.int32, dtypes.int64, dtypes.uint8)),
               S(lit([0.5, 2.25]), types=(dtypes.float32, dtypes.float64)),
               S(lit([True, False]), types=(dtypes.bool,)),
               S(lit(3.14159), precision=2, types=(dtypes.float64,)),
               S(lit([12345.678]), scientific=True, types=(dtypes.float64,)),
               S(lit([7]), width=4, fill="0", types=(dtypes.int32,))]


@op("StringToNumber", inputs="string_tensor: string", outputs="output: out_type",
    attrs="out_type: {float, double, int32, int64, uint32, uint64} = float")
class StringToNumber:
    """Decimal text as numbers; anything else is an InvalidArgumentError. TF: StringToNumber."""
    shape = unchanged
    gradient = None

    def reference(string_tensor, out_type):
        read = float if out_type.is_floating else int
        return np.frompyfunc(read, 1, 1)(string_tensor)
    samples = [S(strs(["1.5", " -2e3 ", "7"])), S(strs("12"), out_type=dtypes.int32),
               S(strs(["9007199254740993"]), out_type=dtypes.int64)]
