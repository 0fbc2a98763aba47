"""Signals: frames, windows, short-time Fourier and cosine transforms, mel spectra; `tf.signal.*`.

Invariants
  1. Time is the last axis. Transform lengths are known while building (numbers, or tensors whose
     value is known); lengths of frames, steps and signals need not be.
  2. Everything is made of other ops, so that gradients follow.

Example:  `spectrogram = tf.abs(tf.signal.stft(audio, frame_length=1024, frame_step=256))`.
"""
import math

import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.array import pad_functions
from pyflow.lib.math import complex_functions, reductions
from pyflow.lib.signal import fft_functions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import dims_of, normal_axis, static
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.move import join_ops
from pyflow.ops.reduce import segment_ops

rfft, irfft = fft_functions.PUBLIC["signal.rfft"], fft_functions.PUBLIC["signal.irfft"]


def known(value, name, least=1):
    """A length as an int; ValueError where it is not known or too small."""
    found = static(value) if isinstance(value, graph.Tensor) else value
    if found is None:
        raise ValueError(f"{name} must be known while the graph is built, got {value}: give a "
                         f"number")
    if np.ndim(found) != 0 or int(found) < least:
        raise ValueError(f"{name} must be a number >= {least}, got {found}")
    return int(found)


def known_or_tensor(value, name):
    """A length as an int where it is known, else as an int32 tensor; ValueError as of `known`."""
    if isinstance(value, graph.Tensor) and static(value) is None:
        value.shape.assert_has_rank(0)
        return tensors.cast(value, dtypes.int32)
    return known(value, name)


def last(x):
    """The size of the last axis: an int where known, else a tensor."""
    known = dims_of(x.shape)
    if known is not None and known[-1] is not None:
        return known[-1]
    return tensors.shape(x)[-1]


def _pad_last(x, before, after, value=0):
    return pad_functions.pad(x, [[0, 0]] * (x.shape.ndims - 1) + [[before, after]],
                             constant_values=value)


# ------------------------------------------------------------------------------------------- frames
def frame(signal, frame_length, frame_step, pad_end=False, pad_value=0, axis=-1, name=None):
    """Windows of frame_length, frame_step apart, along `axis` -> [..., frames, frame_length, ...].

    With pad_end every sample starts within some frame, what is missing being pad_value. Any dtype.
    frame_length, frame_step: numbers, or integer scalar tensors. ValueError for lengths that are
    known not to be positive, or an unknown rank. TF: tf.signal.frame."""
    with graph.name_scope(name, "frame", [signal, frame_length, frame_step]):
        signal = graph.convert_to_tensor(signal, name="signal")
        length = known_or_tensor(frame_length, "frame_length")
        step = known_or_tensor(frame_step, "frame_step")
        rank = signal.shape.ndims
        if rank is None:
            raise ValueError("tf.signal.frame needs the rank of the signal: use set_shape")
        axis = normal_axis(known(axis, "axis", -rank), rank)
        size = dims_of(signal.shape)[axis]
        size = tensors.shape(signal)[axis] if size is None else size
        if pad_end:
            count = -(-size // step)
            missing = _at_least_zero((count - 1) * step + length - size)
            margins = [[0, 0]] * rank
            margins[axis] = [0, missing]
            signal = pad_functions.pad(signal, tensors.stack([tensors.stack(m) for m in margins]),
                                       constant_values=pad_value)
        else:
            count = _at_least_zero((size - length) // step + 1)
        starts = tensors.range_(count) * step
        index = tensors.expand_dims(starts, 1) + _steps(length)
        if axis:
            return tensors.gather(signal, index, axis=axis)
        # along axis 1: the gradient along axis 0 would be an IndexedSlices
        frames = tensors.gather(tensors.expand_dims(signal, 0), index, axis=1)
        return tensors.squeeze(frames, [0])


def _steps(n):
    """0, 1, ... below n."""
    return tensors.range_(n) if isinstance(n, graph.Tensor) else np.arange(n, dtype=np.int32)


def _at_least_zero(n):
    return binary_ops.Maximum(n, 0) if isinstance(n, graph.Tensor) else max(n, 0)


def overlap_and_add(signal, frame_step, name=None):
    """Undoes `frame`: frames [..., n, frame_length], each frame_step after the last, added up ->
    [..., (n - 1) * frame_step + frame_length]. ValueError for a rank below 2.
    TF: tf.signal.overlap_and_add.
    Dtypes, shapes, errors: as op UnsortedSegmentSum."""
    with graph.name_scope(name, "overlap_and_add", [signal, frame_step]):
        signal = graph.convert_to_tensor(signal, name="signal")
        rank = signal.shape.ndims
        if rank is None or rank < 2:
            raise ValueError(f"overlap_and_add: frames must have rank 2 or more, got shape "
                             f"{signal.shape}")
        step, length = known_or_tensor(frame_step, "frame_step"), last(signal)
        size = tensors.shape(signal)
        frames = dims_of(signal.shape)[-2]
        frames = size[-2] if frames is None else frames
        out = (frames - 1) * step + length
        where = tensors.expand_dims(tensors.range_(frames) * step, 1)
        where = tensors.reshape(where + _steps(length), [-1])
        perm = [rank - 2, rank - 1, *range(rank - 2)]
        flat = tensors.reshape(tensors.transpose(signal, perm),
                               tensors.concat([[-1], size[:-2]], 0))
        total = segment_ops.UnsortedSegmentSum(flat, where, out)
        result = tensors.transpose(total, [*range(1, rank - 1), 0])
        result.set_shape([*dims_of(signal.shape)[:-2], out if isinstance(out, int) else None])
        return result


# ------------------------------------------------------------------------------------------ windows
def _raised_cosine(a, b, name):
    def window(window_length, periodic=True, dtype=dtypes.float32, name=None):
        dtype = dtypes.as_dtype(dtype)
        if not dtype.is_floating:
            raise ValueError(f"dtype must be a floating point type. Found {dtype!r}")
        length, periodic = known(window_length, "window_length", 0), bool(periodic)
        if length == 1:
            values = np.ones(1)
        else:
            around = length + (periodic and length % 2 == 0) - 1
            values = a - b * np.cos(2 * np.pi * np.arange(length) / around)
        with graph.name_scope(name, window.__name__):
            return graph.convert_to_tensor(values.astype(dtype.as_numpy_dtype))
    window.__name__ = window.__qualname__ = name
    window.__doc__ = (
        f"The window {a} - {b} cos(2 pi n / N), [window_length]; N is the length for a periodic\n"
        f"    window, one less for a symmetric (or odd) one. float32 by default; ValueError for\n"
        f"    dtypes that are no floats. TF: tf.signal.{name}.")
    return window


hann_window = _raised_cosine(0.5, 0.5, "hann_window")
hamming_window = _raised_cosine(0.54, 0.46, "hamming_window")


# --------------------------------------------------------------------- short-time Fourier transform
def _power_of_two(n):
    return 1 << max(n - 1, 0).bit_length()


def stft(signals, frame_length, frame_step, fft_length=None, window_fn=hann_window, pad_end=False,
         name=None):
    """Spectra of overlapping frames: [..., samples] -> [..., frames, fft_length / 2 + 1] complex.

    fft_length is the power of two that holds a frame, by default; window_fn(length, dtype=) or
    None. float32 or float64. ValueError for lengths that are not known. TF: tf.signal.stft."""
    with graph.name_scope(name, "stft", [signals, frame_length, frame_step]):
        signals = graph.convert_to_tensor(signals, name="signals")
        length = known(frame_length, "frame_length")
        size = _power_of_two(length) if fft_length is None else known(fft_length, "fft_length")
        frames = frame(signals, length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype)
        return rfft(frames, [size])


def inverse_stft(stfts, frame_length, frame_step, fft_length=None, window_fn=hann_window,
                 name=None):
    """Signals of short-time spectra [..., frames, fft_length / 2 + 1], overlapping frames added
    up; inverse_stft_window_fn gives the window that restores the signal of `stft`.
    ValueError for a rank below 2. TF: tf.signal.inverse_stft.
    Dtypes, shapes, errors: as ops IRFFT and UnsortedSegmentSum."""
    with graph.name_scope(name, "inverse_stft", [stfts]):
        stfts = graph.convert_to_tensor(stfts, name="stfts")
        if stfts.shape.ndims is not None and stfts.shape.ndims < 2:
            raise ValueError(f"stfts must have rank 2 or more, got shape {stfts.shape}")
        length = known(frame_length, "frame_length")
        size = _power_of_two(length) if fft_length is None else known(fft_length, "fft_length")
        frames = irfft(stfts, [size])
        frames = frames[..., :length] if size > length else _pad_last(frames, 0, length - size)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=frames.dtype)
        return overlap_and_add(frames, frame_step)


def inverse_stft_window_fn(frame_step, forward_window_fn=hann_window, name=None):
    """The window function with which inverse_stft undoes stft: the forward window over the sum of
    its squares at all frames that meet a sample (Griffin and Lim, 1984); 0 where that sum is.
    TF: tf.signal.inverse_stft_window_fn.
    Dtypes, shapes, errors: as op Tile."""
    def window(frame_length, dtype):
        step, length = known(frame_step, "frame_step"), known(frame_length, "frame_length")
        with graph.name_scope(name, "inverse_stft_window_fn"):
            forward = forward_window_fn(length, dtype=dtype)
            overlaps = -(-length // step)
            squares = _pad_last(forward * forward, 0, overlaps * step - length)
            sums = tensors.reshape(squares, [overlaps, step])
            total = join_ops.Tile(reductions.reduce_sum(sums, 0, keepdims=True), [overlaps, 1])
            total = tensors.reshape(total, [overlaps * step])[:length]
            return binary_ops.DivNoNan(forward, total)      # a sample that no frame has stays 0
    return window


# -------------------------------------------------------------------------------- cosine transforms
def dct(input, type=2, n=None, axis=-1, norm=None, name=None):
    """Discrete cosine transform of type 1, 2, 3 or 4 of the last axis of [..., n], float32 or float64.

    n crops or pads the axis; norm "ortho" makes types 2 to 4 orthonormal. ValueError for other
    types, axes and norms, and for an unknown length. TF: tf.signal.dct."""
    with graph.name_scope(name, "dct"):
        x = graph.convert_to_tensor(input, preferred_dtype=dtypes.float32)
        if axis not in (-1, x.shape.ndims and x.shape.ndims - 1):
            raise ValueError(f"axis must be -1: {axis}")
        if type not in (1, 2, 3, 4) or norm not in (None, "ortho"):
            raise ValueError(f"dct has the types 1 to 4 and the norm 'ortho', got type {type!r} "
                             f"and norm {norm!r}")
        if type == 1 and norm is not None:
            raise ValueError("Normalization is not supported for the Type-I DCT.")
        size = known(last(x), "the length of the input")
        if n is not None:
            wanted = known(n, "n")
            x = x[..., :wanted] if wanted <= size else _pad_last(x, 0, wanted - size)
            size = wanted
        if type == 1 and size < 2:
            raise ValueError("Dimension must be greater than one for the Type-I DCT.")
        return (_dct1, _dct2, _dct3, _dct4)[type - 1](x, size, norm)


def _weights(x, values):
    return graph.convert_to_tensor(values.astype(x.dtype.as_numpy_dtype))


def _turns(x, size, sign):
    """2 exp(sign i pi k / 2n) as a constant."""
    kind = np.complex64 if x.dtype == dtypes.float32 else np.complex128
    turns = 2 * np.exp(sign * 0.5j * np.pi * np.arange(size) / size)
    return graph.convert_to_tensor(turns.astype(kind))


def _ortho(size, first, rest):
    weights = np.full(size, rest)
    weights[0] = first
    return weights


def _dct1(x, size, norm):
    mirrored = tensors.concat([x, x[..., -2:0:-1]], -1) if size > 2 else x
    return tensors.real(rfft(mirrored, [2 * size - 2]))


def _dct2(x, size, norm):
    spectrum = rfft(x, [2 * size])[..., :size]
    result = tensors.real(spectrum * _turns(x, size, -1))
    if norm == "ortho":
        result = result * _weights(x, _ortho(size, 0.5 / math.sqrt(size), math.sqrt(0.5 / size)))
    return result


def _dct3(x, size, norm):
    root = math.sqrt(size)
    x = x * _weights(x, _ortho(size, root, root * math.sqrt(0.5)) if norm == "ortho"
                     else np.full(size, float(size)))
    turned = _turns(x, size, 1) * complex_functions.complex(x, tensors.zeros_like(x))
    return irfft(turned, [2 * size])[..., :size]


def _dct4(x, size, norm):
    result = _dct2(_pad_last(x, 0, size), 2 * size, None)[..., 1::2]
    return result * math.sqrt(0.5 / size) if norm == "ortho" else result


def idct(input, type=2, n=None, axis=-1, norm=None, name=None):
    """The dct whose composition with `dct` of that type is a scaling (with norm "ortho", the
    identity): types 2 and 3 change places. [..., n], float32 or float64; ValueError if n is given.
    TF: tf.signal.idct."""
    if n is not None:
        raise ValueError("idct: n is not supported")
    return dct(input, type={2: 3, 3: 2}.get(type, type), axis=axis, norm=norm, name=name or "idct")


# -------------------------------------------------------------------------------------- mel spectra
def linear_to_mel_weight_matrix(num_mel_bins=20, num_spectrogram_bins=129, sample_rate=8000,
                                lower_edge_hertz=125.0, upper_edge_hertz=3800.0,
                                dtype=dtypes.float32, name=None):
    """[num_spectrogram_bins, num_mel_bins]: triangles over the frequencies of a spectrogram,
    equally wide in mel = 1127 ln(1 + hertz / 700); float32, or the float type `dtype`.

    Raises ValueError for counts or a rate that are not positive and edges that are not ordered
    below half the rate. TF: tf.signal.linear_to_mel_weight_matrix."""
    bins, rate = known(num_spectrogram_bins, "num_spectrogram_bins"), float(
        static(sample_rate) if isinstance(sample_rate, graph.Tensor) else sample_rate)
    if num_mel_bins <= 0 or rate <= 0 or lower_edge_hertz < 0:
        raise ValueError(f"num_mel_bins and sample_rate must be positive, lower_edge_hertz not "
                         f"negative, got {num_mel_bins}, {rate}, {lower_edge_hertz}")
    if not lower_edge_hertz < upper_edge_hertz <= rate / 2:
        raise ValueError(f"edges must be ordered, at most half the sample rate {rate}, got "
                         f"{lower_edge_hertz} and {upper_edge_hertz} hertz")
    mel = lambda hertz: 1127.0 * np.log1p(np.asarray(hertz) / 700.0)  # noqa: E731
    edges = np.linspace(mel(lower_edge_hertz), mel(upper_edge_hertz), num_mel_bins + 2)
    at = mel(np.linspace(0.0, rate / 2, bins))[1:, None]
    rising = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    matrix = np.pad(np.maximum(0, np.minimum(rising, falling)), [[1, 0], [0, 0]])
    with graph.name_scope(name, "linear_to_mel_weight_matrix"):
        return graph.convert_to_tensor(matrix.astype(dtypes.as_dtype(dtype).as_numpy_dtype))


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms, name=None):
    """Mel-frequency cepstral coefficients: the type-2 cosine transform over sqrt(2 bins), as HTK
    scales it. Any rank, the last axis of known length. TF:
    tf.signal.mfccs_from_log_mel_spectrograms.
    Dtypes, shapes, errors: as op Cast."""
    with graph.name_scope(name, "mfccs_from_log_mel_spectrograms", [log_mel_spectrograms]):
        x = graph.convert_to_tensor(log_mel_spectrograms)
        bins = known(last(x), "num_mel_bins")
        return dct(x, type=2) * tensors.cast(1 / math.sqrt(2.0 * bins), x.dtype)


_FUNCTIONS = (frame, overlap_and_add, hann_window, hamming_window, stft, inverse_stft,
              inverse_stft_window_fn, dct, idct, linear_to_mel_weight_matrix,
              mfccs_from_log_mel_spectrograms)
PUBLIC = {f"signal.{f.__name__}": f for f in _FUNCTIONS}
PUBLIC.update({"spectral.dct": dct, "spectral.idct": idct})
