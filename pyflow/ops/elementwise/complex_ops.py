"""Complex numbers: building, taking apart, conjugating.

Invariants
  1. complex64 pairs with float32, complex128 with float64; the part ops take the part's dtype as
     `Tout`.
  2. The public functions pass real tensors through where that is what TF does (real, conj, abs,
     angle).

Example:  `tf.abs(tf.complex(3.0, 4.0))` -> 5.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.op import op
from pyflow.ops.base.common import ELEMENTWISE, PAIRS, broadcast, sum_to_operands, unchanged
from pyflow.ops.elementwise import unary_ops

PARTS = "T: {complex64, complex128} = complex64, Tout: {float, double} = float"


def _part(dtype):
    return np.float32 if dtype == np.complex64 else np.float64


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
        from pyflow.ops.elementwise import binary_ops
        from pyflow.ops.move import array_ops
        z, size = op.inputs[0], op.outputs[0]
        scaled = Complex(dy, array_ops.zeros_like(dy), Tout=z.dtype) * z
        return binary_ops.DivNoNan(scaled, Complex(size, array_ops.zeros_like(size), Tout=z.dtype))

    def reference(x): return np.abs(x)
    samples = ELEMENTWISE


@op("Angle", inputs="input: T", outputs="output: Tout", attrs=PARTS)
class Angle:
    """Argument of a complex number, in radians, -pi to pi. TF: Angle."""
    shape = unchanged

    def gradient(op, dy):
        z = op.inputs[0]
        part = dy.dtype
        inverse = unary_ops.Reciprocal(Complex(Imag(z, Tout=part), Real(z, Tout=part),
                                               Tout=z.dtype))
        return -Complex(dy, _zero(dy), Tout=z.dtype) * inverse

    def reference(input): return np.angle(input)
    samples = ELEMENTWISE


def _zero(like):
    return graph.convert_to_tensor(0, dtype=like.dtype)


# --------------------------------------------------------------------------------- public functions
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


def real(input, name=None):
    """Real part; a real tensor is returned as it is. TF: tf.real.
    Dtypes, shapes, errors: as op Real."""
    input = graph.convert_to_tensor(input, name="input")
    return Real(input, Tout=input.dtype.real_dtype, name=name) if input.dtype.is_complex else input


def imag(input, name=None):
    """Imaginary part; zeros for a real tensor. TF: tf.imag.
    Dtypes, shapes, errors: as op Imag."""
    from pyflow.ops.move import array_ops
    input = graph.convert_to_tensor(input, name="input")
    if input.dtype.is_complex:
        return Imag(input, Tout=input.dtype.real_dtype, name=name)
    return array_ops.zeros_like(input)


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
    from pyflow.ops.elementwise import logic_ops
    from pyflow.ops.move import array_ops
    input = graph.convert_to_tensor(input, name="input")
    if input.dtype.is_complex:
        return Angle(input, Tout=input.dtype.real_dtype, name=name)
    zeros = array_ops.zeros_like(input)
    return logic_ops.Select(input < zeros, zeros + np.pi, zeros)


def abs(x, name=None):
    """|x|: real for complex `x`, otherwise the dtype of `x`. SparseTensor allowed. TF: tf.abs.
    Dtypes, shapes, errors: as ops ComplexAbs and Abs."""
    with graph.name_scope(name, "Abs", [x]) as scope:
        if isinstance(x, graph.SparseTensor):
            return graph.SparseTensor(x.indices, abs(x.values, name=scope), x.dense_shape)
        x = graph.convert_to_tensor(x, name="x")
        if x.dtype.is_complex:
            return ComplexAbs(x, Tout=x.dtype.real_dtype, name=scope)
        return unary_ops.Abs(x, name=scope)


def round(x, name=None):
    """Nearest integer, halves to even; integers pass through. TF: tf.round.
    Dtypes, shapes, errors: as op Round."""
    x = graph.convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else unary_ops.Round(x, name=name)


PUBLIC = {
    "complex": complex, "real": real, "imag": imag, "conj": conj, "angle": angle,
    "math.real": real, "math.imag": imag, "math.conj": conj, "math.angle": angle,
    "abs": abs, "math.abs": abs, "complex_abs": abs, "round": round, "math.round": round,
}
