"""Complex numbers: building, taking apart, conjugating.

Invariants
  1. complex64 pairs with float32, complex128 with float64; the part ops take the part's dtype as
     `Tout`.
  2. Gradients are those of TF: conjugated where a derivative is complex.

Example:  `tf.abs(tf.complex(3.0, 4.0))` -> 5.
"""
import numpy as np

from pyflow.framework import graph
from pyflow.framework.op import op, raw_ops
from pyflow.ops.base import tensors
from pyflow.ops.base.common import ELEMENTWISE, PAIRS, broadcast, sum_to_operands, unchanged

PARTS = "T: {complex64, complex128} = complex64, Tout: {float, double} = float"


@op("Complex", inputs="real: T, imag: T", outputs="out: Tout",
    attrs="T: {float, double} = float, Tout: {complex64, complex128} = complex64")
class Complex:
    """real + i imag, the two broadcast together. TF: Complex."""
    shape = broadcast

    def gradient(op, dz):
        part = op.inputs[0].dtype
        return sum_to_operands(op, Real(dz, Tout=part), Imag(dz, Tout=part))

    def reference(real, imag, Tout): return (real + 1j * imag).astype(Tout.as_numpy_dtype)
    samples = PAIRS


@op("Real", inputs="input: T", outputs="output: Tout", attrs=PARTS)
class Real:
    """Real part. TF: Real."""
    shape = unchanged

    def gradient(op, dy):
        return Complex(dy, _zero(dy), Tout=op.inputs[0].dtype)

    def reference(input): return input.real
    samples = ELEMENTWISE


@op("Imag", inputs="input: T", outputs="output: Tout", attrs=PARTS)
class Imag:
    """Imaginary part. TF: Imag."""
    shape = unchanged

    def gradient(op, dy):
        return Complex(_zero(dy), dy, Tout=op.inputs[0].dtype)

    def reference(input): return input.imag
    samples = ELEMENTWISE


@op("Conj", inputs="input: T", outputs="output: T",
    attrs="T: {complex64, complex128, variant} = complex64")
class Conj:
    """Complex conjugate. TF: Conj."""
    shape = unchanged

    def gradient(op, dy):
        return Conj(dy)

    def reference(input): return np.conj(input)
    samples = ELEMENTWISE


@op("ComplexAbs", inputs="x: T", outputs="y: Tout", attrs=PARTS)
class ComplexAbs:
    """Magnitude of a complex number. TF: ComplexAbs."""
    shape = unchanged

    def gradient(op, dy):
        z, size = op.inputs[0], op.outputs[0]
        scaled = Complex(dy, tensors.zeros_like(dy), Tout=z.dtype) * z
        return raw_ops.DivNoNan(scaled, Complex(size, tensors.zeros_like(size), Tout=z.dtype))

    def reference(x): return np.abs(x)
    samples = ELEMENTWISE


@op("Angle", inputs="input: T", outputs="output: Tout", attrs=PARTS)
class Angle:
    """Argument of a complex number, in radians, -pi to pi. TF: Angle."""
    shape = unchanged

    def gradient(op, dy):
        z = op.inputs[0]
        part = dy.dtype
        inverse = raw_ops.Reciprocal(Complex(Imag(z, Tout=part), Real(z, Tout=part),
                                             Tout=z.dtype))
        return -Complex(dy, _zero(dy), Tout=z.dtype) * inverse

    def reference(input): return np.angle(input)
    samples = ELEMENTWISE


def _zero(like):
    return graph.convert_to_tensor(0, dtype=like.dtype)
