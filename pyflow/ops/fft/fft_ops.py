"""Fourier transforms of the innermost one, two or three dimensions; `tf.fft*`, `tf.spectral.*`.

Invariants
  1. Forward transforms are sums, inverse ones divide by the number of values.
  2. A real transform keeps the first n / 2 + 1 frequencies of the last axis; the others follow from
     them. The public functions pad or crop to fft_length.
  3. Gradients are transforms, too: of the adjoint, by Wirtinger's rule as in TF.

Example:  `spectrum = tf.spectral.rfft(signal)` - [..., n] float32 to [..., n / 2 + 1] complex64.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import dims_of, shape_vector, static_shape
from pyflow.ops.elementwise import binary_ops, cast_ops, complex_ops
from pyflow.ops.move import array_ops, join_ops, pad_ops, slicing_ops
from pyflow.ops.reduce import reduction_ops

COMPLEX = "Tcomplex: {complex64, complex128} = complex64"
REAL = "Treal: {float, double} = float, " + COMPLEX
RANKS = {"": 1, "2D": 2, "3D": 3}
_REAL_OF = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
_COMPLEX_OF = {real: complex_ for complex_, real in _REAL_OF.items()}
FFTS = {}                               # name of the op -> its OpDef


# ----------------------------------------------------------------------------------- static shapes
def _rank_of(op):
    return {"2": 2, "3": 3}.get(op.type[-2:-1], 1) if op.type.endswith("D") else 1


def _same_shape(op):
    shape = op.inputs[0].shape
    if shape.ndims is not None and shape.ndims < _rank_of(op):
        raise ValueError(f"{op.type}: input must have rank at least {_rank_of(op)}, got shape "
                         f"{shape}")
    return shape


def _real_shape(op):
    """The input's batch and fft_length, the last of it halved for RFFT."""
    shape, rank = _same_shape(op), _rank_of(op)
    if not op.inputs[1].shape.is_compatible_with([rank]):
        raise ValueError(f"{op.type}: fft_length must be {rank} numbers, got shape "
                         f"{op.inputs[1].shape}")
    if shape.ndims is None:
        return TensorShape(None)
    length = dims_of(static_shape(op.inputs[1])) or [None] * rank
    if op.type.startswith("RFFT") and length[-1]:
        length[-1] = length[-1] // 2 + 1
    return TensorShape([*dims_of(shape)[:-rank], *length])


# ---------------------------------------------------------------------------------------- gradients
def _size(x, rank, dtype):
    """How many numbers a transform of `x` adds up, as a scalar."""
    known = dims_of(x.shape)
    if known is not None and None not in known[-rank:]:
        return graph.convert_to_tensor(int(np.prod(known[-rank:])), dtype=dtype)
    return cast_ops.cast(reduction_ops.reduce_prod(array_ops.shape(x)[-rank:]), dtype)


def _padded_to(x, like, rank):
    """`x` with zeros after it up to the innermost `rank` sizes of `like`."""
    if x.shape.is_fully_defined() and like.shape.is_fully_defined() and x.shape == like.shape:
        return x
    missing = graph.convert_to_tensor(shape_vector(like)) - shape_vector(x)
    zeros = array_ops.zeros_like(missing)
    return pad_ops.pad(x, join_ops.stack([zeros, missing], axis=1))


def _fft_gradient(rank, inverse):
    name = ("FFT" if inverse else "IFFT") + {v: k for k, v in RANKS.items()}[rank]

    def gradient(op, dy):
        size = _size(dy, rank, dy.dtype)
        back = FFTS[name](dy)
        return binary_ops.RealDiv(back, size) if inverse else back * size
    return gradient


def _rfft_gradient(rank):
    def gradient(op, dy):
        x, length = op.inputs
        full = join_ops.concat([array_ops.shape(dy)[:-rank], length], 0)
        missing = full - array_ops.shape(dy)
        spectrum = pad_ops.pad(dy, join_ops.stack([array_ops.zeros_like(missing), missing], axis=1))
        name = "IFFT" + {v: k for k, v in RANKS.items()}[rank]
        size = cast_ops.cast(reduction_ops.reduce_prod(length), dy.dtype)
        dx = complex_ops.real(FFTS[name](spectrum) * size)
        return [_padded_to(dx, x, rank), None]
    return gradient


def _irfft_gradient(rank):
    def gradient(op, dy):
        x, length = op.inputs
        name = "RFFT" + {v: k for k, v in RANKS.items()}[rank]
        spectrum = FFTS[name](dy, length, Tcomplex=x.dtype)
        last = length[-1]
        index = array_ops.range_(binary_ops.FloorDiv(last, 2) + 1)
        edge = cast_ops.cast((index < 1) | (index * 2 >= last), dy.dtype)
        counted = (2 - edge) / cast_ops.cast(reduction_ops.reduce_prod(length), dy.dtype)
        dx = spectrum * cast_ops.cast(counted, x.dtype)
        return [_padded_to(dx, x, rank), None]
    return gradient


# ------------------------------------------------------------------------------------------ oracles
def _axes(rank):
    return tuple(range(-rank, 0))


def _transform(rank, inverse):
    function = np.fft.ifftn if inverse else np.fft.fftn

    def reference(input):
        return function(input, axes=_axes(rank)).astype(input.dtype)
    return reference


def _real_transform(rank, inverse):
    def reference(input, fft_length, Treal, Tcomplex):
        out = (Treal if inverse else Tcomplex).as_numpy_dtype
        sizes = [int(n) for n in fft_length]
        if inverse:
            needed = tuple(slice(0, n) for n in (*sizes[:-1], sizes[-1] // 2 + 1))
            return np.fft.irfftn(input[(..., *needed)], sizes, _axes(rank)).astype(out)
        return np.fft.rfftn(input[(..., *(slice(0, n) for n in sizes))], sizes,
                            _axes(rank)).astype(out)
    return reference


SIZES = {1: [(8,), (2, 12), (3, 7), (2, 37), (1, 1), (2, 74), (0, 4), (30,)],
         2: [(4, 6), (2, 5, 3), (2, 1, 8)], 3: [(2, 3, 4), (2, 3, 2, 5)]}


def _complex_op(name, rank, inverse, batch):
    """FFT*, IFFT*, and their old names with Batch before."""
    what = "Inverse discrete" if inverse else "Discrete"
    kind = "complex64" if batch else "Tcomplex"

    class Block:
        shape = _same_shape
        gradient = UNREGISTERED if batch else _fft_gradient(rank, inverse)
        reference = _transform(rank, inverse)
        samples = [S(size) for size in SIZES[rank]]
    return op(name, inputs=f"input: {kind}", outputs=f"output: {kind}",
              attrs="" if batch else COMPLEX,
              doc=f"{what} Fourier transform of the last {rank} dimension(s). TF: {name}.")(Block)


def _real_op(name, rank, inverse):
    what = "real numbers from" if inverse else "of real numbers to"
    ends = ("input: Tcomplex, fft_length: int32", "output: Treal") if inverse else (
        "input: Treal, fft_length: int32", "output: Tcomplex")

    class Block:
        shape = _real_shape
        gradient = _irfft_gradient(rank) if inverse else _rfft_gradient(rank)
        reference = _real_transform(rank, inverse)
        samples = [S((*size[:-1], size[-1] // 2 + 1 if inverse else size[-1]),
                     lit(list(size[-rank:]))) for size in SIZES[rank]]
        if rank == 2:
            samples += [S((3, 6, 7), lit([4, 5])), S((3, 6, 7), lit([1, 2]))]
    return op(name, inputs=ends[0], outputs=ends[1], attrs=REAL,
              doc=f"Fourier transform {what} the first half of the spectrum, of the last {rank} "
                  f"dimension(s). TF: {name}.")(Block)


for _suffix, _rank in RANKS.items():
    for _inverse in (False, True):
        _name = ("IFFT" if _inverse else "FFT") + _suffix
        FFTS[_name] = _complex_op(_name, _rank, _inverse, False)
        FFTS["Batch" + _name] = _complex_op("Batch" + _name, _rank, _inverse, True)
        _name = ("IRFFT" if _inverse else "RFFT") + _suffix
        FFTS[_name] = _real_op(_name, _rank, _inverse)
for _op in FFTS.values():
    _op.module = _op.__module__ = __name__
globals().update(FFTS)


# --------------------------------------------------------------------------------- public functions
def _public_complex(name):
    block = FFTS[name]

    def transform(input, name=None):
        return block(input, name=name)
    transform.__name__ = transform.__qualname__ = name.lower()
    transform.__doc__ = (
        f"{block.doc.rpartition(' TF:')[0]}\n\n"
        "    complex64 or complex128, the same shape and dtype come back; the rank must be at\n"
        "    least that number (ValueError). Not normalised; the inverse divides by the number of\n"
        f"    values. TF: tf.signal.{name.lower()}.")
    return transform


def _public_real(name, rank, inverse):
    block = FFTS[name]

    def transform(input_tensor, fft_length=None, name=None):
        with graph.name_scope(name, block.name.lower(), [input_tensor, fft_length]) as scope:
            if inverse:
                x = graph.convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64)
                real, complex_ = _REAL_OF[x.dtype.base_dtype], x.dtype.base_dtype
            else:
                x = graph.convert_to_tensor(input_tensor, preferred_dtype=dtypes.float32)
                real, complex_ = x.dtype.base_dtype, _COMPLEX_OF.get(x.dtype.base_dtype)
                if complex_ is None:
                    raise TypeError(f"tf.signal.{block.name.lower()}: expected float32 or float64, "
                                    f"got {x.dtype.name}")
            length = _length_of(x, rank, fft_length, inverse)
            x = _padded_for(x, rank, length, inverse)
            return block(x, length, Treal=real, Tcomplex=complex_, name=scope)
    transform.__name__ = transform.__qualname__ = name.lower()
    transform.__doc__ = (
        f"{block.doc.rpartition(' TF:')[0]}\n\n"
        f"    fft_length, {rank} number(s), pads with zeros or crops the real side; without it\n"
        "    the shape decides (an even last size for the inverse). float32 goes with complex64,\n"
        f"    float64 with complex128; TypeError otherwise. TF: tf.signal.{name.lower()}.")
    return transform


def _length_of(x, rank, fft_length, inverse):
    if fft_length is not None:
        return graph.convert_to_tensor(fft_length, dtype=dtypes.int32, name="fft_length")
    known = dims_of(x.shape)
    if known is not None and None not in known[-rank:]:
        sizes = list(known[-rank:])
        sizes[-1] = max(0, 2 * (sizes[-1] - 1)) if inverse else sizes[-1]
        return graph.convert_to_tensor(sizes, dtype=dtypes.int32, name="fft_length")
    sizes = array_ops.shape(x)[-rank:]
    if not inverse:
        return sizes
    return join_ops.concat([sizes[:-1], binary_ops.Maximum(0, 2 * (sizes[-1:] - 1))], 0)


def _padded_for(x, rank, length, inverse):
    """`x` with zeros behind it where the transform needs more."""
    needed, known = dims_of(static_shape(length)), dims_of(x.shape)
    if needed is not None and None not in needed and known is not None:
        if inverse:
            needed[-1] = needed[-1] // 2 + 1 if needed[-1] else 0
        if None not in known[-rank:]:
            missing = [max(n - k, 0) for n, k in zip(needed, known[-rank:])]
            if not any(missing) or 0 in known:
                return x
            margins = [[0, 0]] * (len(known) - rank) + [[0, m] for m in missing]
            return pad_ops.pad(x, margins)
    if inverse:
        length = join_ops.concat([length[:-1], binary_ops.FloorDiv(length[-1:], 2) + 1], 0)
    missing = binary_ops.Maximum(0, length - array_ops.shape(x)[-rank:])
    front = array_ops.zeros(join_ops.stack([array_ops.rank(x) - rank]), dtypes.int32)
    missing = join_ops.concat([front, missing], 0)
    return pad_ops.pad(x, join_ops.stack([array_ops.zeros_like(missing), missing], axis=1))


def _shift(x, axes, sign, name):
    with graph.name_scope(name, "fftshift" if sign > 0 else "ifftshift") as scope:
        x = graph.convert_to_tensor(x)
        if axes is None:
            axes = list(range(x.shape.ndims))
        axes = [axes] if isinstance(axes, int) else list(axes)
        known = dims_of(x.shape)
        sizes = [known[a] if known is not None and known[a] is not None else array_ops.shape(x)[a]
                 for a in axes]
        steps = join_ops.stack([n // 2 if sign > 0 else -(n // 2) for n in sizes])
        return slicing_ops.Roll(x, steps, np.array(axes, np.int32), name=scope)


def fftshift(x, axes=None, name=None):
    """The spectrum with frequency zero in the middle of `axes` (all, by default).
    TF: tf.signal.fftshift.
    Dtypes, shapes, errors: as op Roll."""
    return _shift(x, axes, 1, name)


def ifftshift(x, axes=None, name=None):
    """Undoes fftshift. TF: tf.signal.ifftshift.
    Dtypes, shapes, errors: as op Roll."""
    return _shift(x, axes, -1, name)


PUBLIC = {"signal.fftshift": fftshift, "signal.ifftshift": ifftshift}
for _suffix, _rank in RANKS.items():
    for _name in ("FFT", "IFFT"):
        _function = _public_complex(_name + _suffix)
        for _space in ("", "spectral.", "signal."):
            PUBLIC[_space + _function.__name__] = _function
    for _name in ("RFFT", "IRFFT"):
        _function = _public_real(_name + _suffix, _rank, _name == "IRFFT")
        for _space in ("spectral.", "signal."):
            PUBLIC[_space + _function.__name__] = _function
