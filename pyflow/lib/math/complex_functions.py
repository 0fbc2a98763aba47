"""Complex numbers made and taken apart; tf.abs, tf.round.

Invariant: real tensors pass through where that is what TF does (real, conj, abs, angle).

Example:  `tf.abs(tf.complex(3.0, 4.0))` -> 5.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import logic_ops, unary_ops
from pyflow.ops.elementwise.complex_ops import Angle, Complex, ComplexAbs, Conj


def _part(dtype):
    return np.float32 if dtype == np.complex64 else np.float64


def complex(real, imag, name=None):
    """real + i imag from float32 or float64 parts of one dtype. TypeError otherwise.
    TF: tf.complex.
    Dtypes, shapes, errors: as op Complex."""
    real = graph.convert_to_tensor(real, name="real")
    imag = graph.convert_to_tensor(imag, dtype=real.dtype, name="imag")
    pairs = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
    if real.dtype.base_dtype not in pairs:
        raise TypeError(f"tf.complex: real and imag must both be float32 or float64, got "
                        f"{real.dtype.name} and {imag.dtype.name}")
    return Complex(real, imag, Tout=pairs[real.dtype.base_dtype], name=name)


def conj(x, name=None):
    """Complex conjugate; a real tensor is returned as it is. TF: tf.conj.
    Dtypes, shapes, errors: as op Conj."""
    x = graph.convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return Conj(x, name=name)
    if x.dtype.is_floating or x.dtype.is_integer:
        return x
    raise TypeError(f"tf.conj: expected a numeric tensor, got dtype {x.dtype.name}")


def angle(input, name=None):
    """Argument in radians; of a real tensor 0, or pi where negative. TF: tf.angle.
    Dtypes, shapes, errors: as op Angle."""
    input = graph.convert_to_tensor(input, name="input")
    if input.dtype.is_complex:
        return Angle(input, Tout=input.dtype.real_dtype, name=name)
    zeros = tensors.zeros_like(input)
    return logic_ops.Select(input < zeros, zeros + np.pi, zeros)


def abs(x, name=None):
    """|x|: real for complex `x`, otherwise the dtype of `x`. SparseTensor allowed. TF: tf.abs.
    Dtypes, shapes, errors: as ops ComplexAbs and Abs.

        >>> tf.Session().run(tf.abs([-1.5, 2.0]))
        array([1.5, 2. ], dtype=float32)
    """
    with graph.name_scope(name, "Abs", [x]) as scope:
        if isinstance(x, graph.SparseTensor):
            return graph.SparseTensor(x.indices, abs(x.values, name=scope), x.dense_shape)
        x = graph.convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return ComplexAbs(x, Tout=x.dtype.real_dtype, name=scope)
        return unary_ops.Abs(x, name=scope)


def round(x, name=None):
    """Nearest integer, halves to even; integers pass through. TF: tf.round.

    x: numbers of any shape.
    Dtypes, shapes, errors: as op Round.

        >>> tf.Session().run(tf.round([0.5, 1.5, -1.2]))
        array([ 0.,  2., -1.], dtype=float32)
    """
    x = graph.convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else unary_ops.Round(x, name=name)


PUBLIC = {
    "complex": complex, "conj": conj, "angle": angle, "math.conj": conj, "math.angle": angle,
    "abs": abs, "math.abs": abs, "complex_abs": abs, "round": round, "math.round": round,
}
