"""tf.fft and its kin, tf.spectral, tf.signal.fftshift.

Invariant: transforms of real numbers pad or crop to fft_length, and know it where shapes are known.

Example:  `spectrum = tf.spectral.rfft(signal)` - [..., n] float32 to [..., n / 2 + 1] complex64.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.array import pad_functions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, static_shape
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.fft.fft_ops import FFTS, RANKS
from pyflow.ops.move import slicing_ops

_REAL_OF = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}
_COMPLEX_OF = {real: complex_ for complex_, real in _REAL_OF.items()}


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
    sizes = tensors.shape(x)[-rank:]
    if not inverse:
        return sizes
    return tensors.concat([sizes[:-1], binary_ops.Maximum(0, 2 * (sizes[-1:] - 1))], 0)


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
            return pad_functions.pad(x, margins)
    if inverse:
        length = tensors.concat([length[:-1], binary_ops.FloorDiv(length[-1:], 2) + 1], 0)
    missing = binary_ops.Maximum(0, length - tensors.shape(x)[-rank:])
    front = tensors.zeros(tensors.stack([tensors.rank(x) - rank]), dtypes.int32)
    missing = tensors.concat([front, missing], 0)
    return pad_functions.pad(x, tensors.stack([tensors.zeros_like(missing), missing], axis=1))


def _shift(x, axes, sign, name):
    with graph.name_scope(name, "fftshift" if sign > 0 else "ifftshift") as scope:
        x = graph.convert_to_tensor(x)
        if axes is None:
            axes = list(range(x.shape.ndims))
        axes = [axes] if isinstance(axes, int) else list(axes)
        known = dims_of(x.shape)
        sizes = [known[a] if known is not None and known[a] is not None else tensors.shape(x)[a]
                 for a in axes]
        steps = tensors.stack([n // 2 if sign > 0 else -(n // 2) for n in sizes])
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
