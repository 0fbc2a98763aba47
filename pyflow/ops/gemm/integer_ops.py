"""Products of 8-bit whole numbers with packed weights, exact in int32.

Invariants
  1. Packed weights are int8 [ceil(n / 64), ceil(k / 4), 64, 4]: columns in panels of 64, rows in
     groups of 4, zeros where there is nothing (`packed`).
  2. Sums wrap as int32 does.

Made by the importer of ONNX models (MatMulInteger and its kin). TF: none.
Example:  `_MatMulInteger(a, a_zero, *packed(weights, zeros))`.
"""
import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape

COLUMNS, DEPTH = 64, 4


def packed(weights, zeros):
    """Arrays (packed weights, sums of columns, zero points) for weights [k, n] of int8 or uint8 and
    zero points that broadcast against a column each."""
    return (packed_weights(weights), column_sums(weights),
            column_zeros(zeros, weights.shape[1], weights.dtype))


def packed_weights(weights):
    """Packed weights, int8, of weights [k, n] of int8 or uint8."""
    k, n = weights.shape
    room = np.zeros((-(-k // DEPTH) * DEPTH, -(-n // COLUMNS) * COLUMNS), np.int8)
    room[:k, :n] = _signed(weights)
    panels = room.reshape(-1, DEPTH, room.shape[1] // COLUMNS, COLUMNS).transpose(2, 0, 3, 1)
    return np.ascontiguousarray(panels)


def column_sums(weights):
    """Sums of columns, int32, of the weights as int8."""
    return _signed(weights).sum(0, dtype=np.int32)


def column_zeros(zeros, n, dtype):
    """Zero points of n columns, int32, of the weights of `dtype` as int8."""
    return np.broadcast_to(zeros, (n,)).astype(np.int32) - (128 if dtype == np.uint8 else 0)


def _signed(weights):
    """uint8 weights less 128."""
    return (weights ^ np.uint8(128)).view(np.int8) if weights.dtype == np.uint8 else weights


def unpacked(panels, k, n):
    """The int8 weights [k, n] of packed ones."""
    return panels.transpose(1, 3, 0, 2).reshape(-1, panels.shape[0] * COLUMNS)[:k, :n]


def product(a, a_zero, panels, sums, zeros):
    """int32 [m, n] in NumPy."""
    weights = unpacked(panels, a.shape[-1], len(sums)).astype(np.int64)
    made = (a.astype(np.int64) - int(a_zero)) @ (weights - zeros)
    return made.astype(np.int32)


def _sample(dtype, shape, n, per_column):
    rng = np.random.default_rng(n)
    info = np.iinfo(dtype)
    a = rng.integers(info.min, info.max + 1, shape)
    weights = rng.integers(-128, 128, (shape[-1], n)).astype(np.int8)
    zeros = rng.integers(-9, 9, n) if per_column else 3
    kinds = "int8", "int32", "int32"
    return S(lit(a.tolist(), dtype), lit(5, dtype), *[
        lit(part.tolist(), kind) if part.size else lit(part, kind)
        for part, kind in zip(packed(weights, zeros), kinds)])


@op("_MatMulInteger", inputs="a: T, a_zero: T, b: int8, b_sums: int32, b_zeros: int32",
    outputs="product: int32", attrs="T: {uint8, int8}")
class _MatMulInteger:
    """(a - a_zero) (b - b_zeros) of a [..., k] and packed weights b, [..., n]. TF: none."""
    def shape(op):
        a, sums, zeros = (op.inputs[i].shape for i in (0, 3, 4))
        sums = sums.with_rank(1).merge_with(zeros)
        op.inputs[2].shape.merge_with([None, None, COLUMNS, DEPTH])
        return TensorShape(None) if a.ndims is None else a[:-1].concatenate(sums)
    gradient = UNREGISTERED

    def reference(a, a_zero, b, b_sums, b_zeros):
        return product(a, a_zero, b, b_sums, b_zeros)
    samples = [_sample(dtype, shape, n, per_column) for dtype, shape, n, per_column in (
        ("uint8", (1, 9), 5, False), ("int8", (3, 4), 64, True), ("uint8", (2, 6, 70), 130, True),
        ("int8", (1, 64), 65, False), ("uint8", (4, 8), 1, True))]
