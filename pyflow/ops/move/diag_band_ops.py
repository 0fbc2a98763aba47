"""Bands of diagonals: MatrixDiag, MatrixDiagPart and MatrixSetDiag with k, num_rows, padding_value
and align, V2 and V3.

Invariants
  1. A band k = (k0, k1) is packed as [..., k1 - k0 + 1, longest], the highest diagonal first; a
     single k as [..., longest].
  2. Short diagonals stand where `align` says: "RIGHT_LEFT" is right for those above the main one,
     left below it. The V2 ops have them left.

Example:  `tf.matrix_diag_part(a, k=(-1, 1))`.
"""
import numpy as np

from pyflow.framework import graph
from pyflow.framework.op import S, lit, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import at_least_rank, dims_of, static
from pyflow.ops.base.shape_rules import match

ALIGN = ('T: type, align: {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"} = "RIGHT_LEFT"')


# ------------------------------------------------------------------------------------ oracle
def _band(k):
    k = np.ravel(k)
    if k.size not in (1, 2) or k[0] > k[-1]:
        raise ValueError(f"k must be a diagonal, or the lowest and the highest, got {k.tolist()}")
    return int(k[0]), int(k[-1])


def _places(rows, cols, low, high, align):
    """[(row of the band, place in it, matrix row, matrix column)]."""
    longest = min(rows + min(high, 0), cols - max(low, 0))
    above, below = align.split("_")
    found = []
    for d in range(high, low - 1, -1):
        length = min(rows + min(d, 0), cols - max(d, 0))
        left = d >= 0 and above == "LEFT" or d <= 0 and below == "LEFT"
        first = 0 if left else longest - length
        found += [(high - d, first + i, i + max(-d, 0), i + max(d, 0)) for i in range(length)]
    return longest, np.array(found, int).reshape(-1, 4).T


def _packed(x, k, padding, align):
    low, high = _band(k)
    longest, (b, p, i, j) = _places(*x.shape[-2:], low, high, align)
    result = np.full(x.shape[:-2] + (high - low + 1, longest), padding, x.dtype)
    result[..., b, p] = x[..., i, j]
    return result[..., 0, :] if low == high else result


def _unpacked(x, diagonal, k, align):
    low, high = _band(k)
    result = x.copy()
    _, (b, p, i, j) = _places(*x.shape[-2:], low, high, align)
    band = diagonal[..., None, :] if low == high else diagonal
    result[..., i, j] = band[..., b, p]
    return result


def _matrix_sizes(longest, k, rows, cols):
    low, high = _band(k)
    least = longest - min(high, 0), longest + max(low, 0)
    if rows == -1 and cols == -1:
        return max(least), max(least)
    return least[0] if rows == -1 else int(rows), least[1] if cols == -1 else int(cols)


# ------------------------------------------------------------------------------------ blocks
def _checked_band(op, rows=None, cols=None):
    """(lowest, highest) diagonal of k; (None, None) if it is not known.  ValueError if it lies
    outside matrices of so many rows and columns."""
    if (op.inputs[BAND_AT[op.type[:-2]]].shape.ndims or 0) > 1:
        raise ValueError(f"{op.type}: k must be a diagonal, or the lowest and the highest")
    k = static(op.inputs[BAND_AT[op.type[:-2]]])
    if k is None:
        return None, None
    low, high = _band(k)
    if rows is not None and low and low <= -rows or cols is not None and high and high >= cols:
        raise ValueError(f"{op.type}: k {low}, {high} is out of bounds for {rows} rows and {cols} "
                         "columns")
    return low, high


BAND_AT = {"MatrixDiag": 1, "MatrixDiagPart": 1, "MatrixSetDiag": 2}   # the input k of an op


def _part_shape(op):
    match(op, None, None, "")
    dims = dims_of(at_least_rank(op.inputs[0].shape, 2, "input"))
    low, high = _checked_band(op, *(dims[-2:] if dims else ()))
    if dims is None or low is None:
        return unknown_shape()
    longest = None
    if None not in dims[-2:]:
        longest = min(dims[-2] + min(high, 0), dims[-1] - max(low, 0))
    return TensorShape(dims[:-2] + ([] if low == high else [high - low + 1]) + [longest])


def _set_shape(op):
    shape = at_least_rank(op.inputs[0].shape, 2, "input")
    diagonal = at_least_rank(op.inputs[1].shape, 1, "diagonal")
    dims = dims_of(shape)
    low, high = _checked_band(op, *(dims[-2:] if dims else ()))
    if low is None or diagonal.ndims is None:
        return shape
    edges = 1 if low == high else 2
    if diagonal.ndims < edges:
        raise ValueError(f"{op.type}: {high - low + 1} diagonals need rank {edges}, got shape "
                         f"{diagonal}")
    band = [] if low == high else [high - low + 1]
    longest = None
    if dims and None not in dims[-2:]:
        longest = min(dims[-2] + min(high, 0), dims[-1] - max(low, 0))
    diagonal = diagonal.merge_with([None] * (diagonal.ndims - edges) + band + [longest])
    return shape.merge_with(diagonal.as_list()[:-edges] + [None, None])


def _diag_shape(op):
    match(op, None, None, "", "", "")
    dims = dims_of(at_least_rank(op.inputs[0].shape, 1, "diagonal"))
    low, high = _checked_band(op)
    if dims is None or low is None:
        return unknown_shape()
    if low != high and (len(dims) < 2 or dims[-2] not in (None, high - low + 1)):
        raise ValueError(f"{op.type}: diagonals {low} to {high} need {high - low + 1} rows, got "
                         f"shape {op.inputs[0].shape}")
    k, rows, cols = (static(t) for t in op.inputs[1:4])
    batch = dims[:-1] if low == high else dims[:-2]
    if rows is None or cols is None or dims[-1] is None:
        return TensorShape(batch + [None, None])
    sides = _matrix_sizes(dims[-1], k, int(rows), int(cols))
    _checked_band(op, *sides)
    longest = min(sides[0] + min(high, 0), sides[1] - max(low, 0))
    if longest != dims[-1]:
        raise ValueError(f"{op.type}: diagonals of {dims[-1]} do not fit in matrices of {sides}")
    return TensorShape(batch + list(sides))


def _aligned(op):
    return {"align": op.attr("align")} if "align" in op.op_def.attrs else {}


def _align_of(align):
    return align or "LEFT_LEFT"


def _part_of(op, x, k, padding):
    """The band k of x, packed as the op's version and attributes say."""
    part = MatrixDiagPartV3 if _aligned(op) else MatrixDiagPartV2
    return part(x, k, padding, **_aligned(op))


def _with_band(op, x, diagonal, k):
    """x with its band k replaced, read as the op's version and attributes say."""
    set_diag = MatrixSetDiagV3 if _aligned(op) else MatrixSetDiagV2
    return set_diag(x, diagonal, k, **_aligned(op))


def _attrs(version):
    return ALIGN if version == "V3" else "T: type"


def _doc(version, what, name):
    left = "" if version == "V3" else " Short diagonals stand left."
    return f"{what}.{left} TF: {name}{version}."


def _diag(version):
    @op(f"MatrixDiag{version}", outputs="output: T", attrs=_attrs(version),
        inputs="diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T",
        doc=_doc(version, "Matrices with a band of diagonals, padding elsewhere", "MatrixDiag"))
    class Diag:
        shape = _diag_shape

        def gradient(op, dy):
            zero = graph.convert_to_tensor(0, dtype=dy.dtype)
            return [_part_of(op, dy, op.inputs[1], zero), None, None, None, None]

        def reference(diagonal, k, num_rows, num_cols, padding_value, align="LEFT_LEFT"):
            low, high = _band(k)
            rows, cols = _matrix_sizes(diagonal.shape[-1], k, int(num_rows), int(num_cols))
            batch = diagonal.shape[:-1] if low == high else diagonal.shape[:-2]
            empty = np.full(batch + (rows, cols), padding_value, diagonal.dtype)
            return _unpacked(empty, diagonal, k, _align_of(align))
        samples = [S((2, 3), lit(0), lit(-1), lit(-1), lit(0)),
                   S((3,), lit(1), lit(-1), lit(-1), lit(0)),
                   S((2, 3), lit([-1, 0]), lit(3), lit(4), lit(0)),
                   S((2, 3, 3), lit([-1, 1]), lit(-1), lit(-1), lit(0))]
    return Diag


def _diag_part(version):
    @op(f"MatrixDiagPart{version}", inputs="input: T, k: int32, padding_value: T",
        outputs="diagonal: T", attrs=_attrs(version),
        doc=_doc(version, "A band of diagonals of matrices, packed", "MatrixDiagPart"))
    class Part:
        shape = _part_shape

        def gradient(op, dy):
            zeros = tensors.zeros_like(op.inputs[0])
            return [_with_band(op, zeros, dy, op.inputs[1]), None, None]

        def reference(input, k, padding_value, align="LEFT_LEFT"):
            return _packed(input, k, padding_value, _align_of(align))
        samples = [S((3, 4), lit(0), lit(0)), S((2, 3, 4), lit([-1, 2]), lit(0)),
                   S((3, 2), lit(-2), lit(0))]
    return Part


def _set_diag(version):
    @op(f"MatrixSetDiag{version}", inputs="input: T, diagonal: T, k: int32", outputs="output: T",
        attrs=_attrs(version),
        doc=_doc(version, "Matrices with a band of diagonals replaced", "MatrixSetDiag"))
    class SetDiag:
        shape = _set_shape

        def gradient(op, dy):
            zero, (_, diagonal, k) = graph.convert_to_tensor(0, dtype=dy.dtype), op.inputs
            inner = _with_band(op, dy, tensors.zeros_like(diagonal), k)
            return [inner, _part_of(op, dy, k, zero), None]

        def reference(input, diagonal, k, align="LEFT_LEFT"):
            return _unpacked(input, diagonal, k, _align_of(align))
        samples = [S((3, 4), (3,), lit(0)), S((2, 3, 4), (2, 4, 3), lit([-1, 2])),
                   S((3, 2), (1,), lit(-2))]
    return SetDiag


MatrixDiagV2, MatrixDiagV3 = _diag("V2"), _diag("V3")
MatrixDiagPartV2, MatrixDiagPartV3 = _diag_part("V2"), _diag_part("V3")
MatrixSetDiagV2, MatrixSetDiagV3 = _set_diag("V2"), _set_diag("V3")
MatrixDiagV3.samples += [S((3, 3), lit([-1, 1]), lit(-1), lit(-1), lit(0), align="LEFT_RIGHT")]
MatrixDiagPartV3.samples += [S((3, 4), lit([-2, 1]), lit(0), align=a)
                             for a in ("LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")]
