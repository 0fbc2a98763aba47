"""Fourier transforms of the innermost one, two or three dimensions: the blocks.

Invariants
  1. Forward transforms are sums, inverse ones divide by the number of values.
  2. A real transform keeps the first n / 2 + 1 frequencies of the last axis; the others follow from
     them.
  3. Gradients are transforms, too: of the adjoint, by Wirtinger's rule as in TF.

Example:  `RFFT(signal, [8])` - [..., 8] float32 to [..., 5] complex64.
"""
import numpy as np

from pyflow.framework import graph
from pyflow.framework.op import S, UNREGISTERED, lit, op, raw_ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, shape_vector, static_shape

COMPLEX = "Tcomplex: {complex64, complex128} = complex64"
REAL = "Treal: {float, double} = float, " + COMPLEX
RANKS = {"": 1, "2D": 2, "3D": 3}
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
    return tensors.cast(tensors.product_of(tensors.shape(x)[-rank:]), dtype)


def _padded_to(x, like, rank):
    """`x` with zeros after it up to the innermost `rank` sizes of `like`."""
    if x.shape.is_fully_defined() and like.shape.is_fully_defined() and x.shape == like.shape:
        return x
    missing = graph.convert_to_tensor(shape_vector(like)) - shape_vector(x)
    zeros = tensors.zeros_like(missing)
    return raw_ops.Pad(x, tensors.stack([zeros, missing], axis=1))


def _fft_gradient(rank, inverse):
    name = ("FFT" if inverse else "IFFT") + {v: k for k, v in RANKS.items()}[rank]

    def gradient(op, dy):
        size = _size(dy, rank, dy.dtype)
        back = FFTS[name](dy)
        return raw_ops.RealDiv(back, size) if inverse else back * size
    return gradient


def _rfft_gradient(rank):
    def gradient(op, dy):
        x, length = op.inputs
        full = tensors.concat([tensors.shape(dy)[:-rank], length], 0)
        missing = full - tensors.shape(dy)
        spectrum = raw_ops.Pad(dy, tensors.stack([tensors.zeros_like(missing), missing], axis=1))
        name = "IFFT" + {v: k for k, v in RANKS.items()}[rank]
        size = tensors.cast(tensors.product_of(length), dy.dtype)
        dx = tensors.real(FFTS[name](spectrum) * size)
        return [_padded_to(dx, x, rank), None]
    return gradient


def _irfft_gradient(rank):
    def gradient(op, dy):
        x, length = op.inputs
        name = "RFFT" + {v: k for k, v in RANKS.items()}[rank]
        spectrum = FFTS[name](dy, length, Tcomplex=x.dtype)
        last = length[-1]
        index = tensors.range_(raw_ops.FloorDiv(last, 2) + 1)
        edge = tensors.cast((index < 1) | (index * 2 >= last), dy.dtype)
        counted = (2 - edge) / tensors.cast(tensors.product_of(length), dy.dtype)
        dx = spectrum * tensors.cast(counted, x.dtype)
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
