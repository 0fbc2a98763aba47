"""The windows of Kaiser and Vorbis, and the modified discrete cosine transform they are made for.

Invariants
  1. A window's length is known while the graph is built; its values are a constant.
  2. With a window whose squares of the two halves sum to 1 (kaiser_bessel_derived, vorbis),
     inverse_mdct undoes mdct but for the first and last half frame.

Example:  `x = tf.signal.inverse_mdct(tf.signal.mdct(audio, 512))`.
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.array import join_functions, slicing_functions
from pyflow.lib.signal.signal_functions import dct, frame, known, last, overlap_and_add
from pyflow.ops.base import tensors


def _constant(values, dtype, name):
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {dtype!r}")
    with graph.name_scope(None, name):
        return graph.convert_to_tensor(values.astype(dtype.as_numpy_dtype))


def kaiser_window(window_length, beta=12.0, dtype=dtypes.float32, name=None):
    """I0(beta sqrt(1 - t^2)) / I0(beta) for t from -1 to 1, [window_length]. ValueError for dtypes
    that are no floats, or an unknown length. TF: tf.signal.kaiser_window."""
    length = known(window_length, "window_length", 0)
    return _constant(np.kaiser(length, float(beta)), dtype, name or "kaiser_window")


def kaiser_bessel_derived_window(window_length, beta=12.0, dtype=dtypes.float32, name=None):
    """Roots of the running sums of a Kaiser window, up and down again: floats [window_length]. A
    ValueError as of kaiser_window. TF: tf.signal.kaiser_bessel_derived_window."""
    half = known(window_length, "window_length", 0) // 2
    sums = np.cumsum(np.kaiser(half + 1, float(beta)))
    rise = np.sqrt(sums[:-1] / sums[-1])
    return _constant(np.concatenate([rise, rise[::-1]]), dtype,
                     name or "kaiser_bessel_derived_window")


def vorbis_window(window_length, dtype=dtypes.float32, name=None):
    """sin(pi/2 sin^2(pi (n + 1/2) / N)): floats [window_length]. A ValueError as of kaiser_window.
    TF: tf.signal.vorbis_window."""
    length = known(window_length, "window_length", 0)
    turn = np.sin(np.pi * (np.arange(length) + 0.5) / max(length, 1))
    return _constant(np.sin(np.pi / 2 * turn ** 2), dtype, name or "vorbis_window")


def _backwards(x):
    return slicing_functions.reverse(x, [-1])


def mdct(signals, frame_length, window_fn=vorbis_window, pad_end=False, norm=None, name=None):
    """The modified cosine transform: [..., samples] -> [..., frames, frame_length / 2], of frames
    half a frame apart. frame_length: a multiple of 4; window_fn(length, dtype=) or None; norm: None
    or "ortho". ValueError for other lengths. TF: tf.signal.mdct."""
    with graph.name_scope(name, "mdct", [signals]):
        signals = graph.convert_to_tensor(signals, name="signals")
        length = known(frame_length, "frame_length")
        if length % 4:
            raise ValueError(f"The frame length must be a multiple of 4, got {length}")
        frames = frame(signals, length, length // 2, pad_end=pad_end)
        frames = frames * _weights(window_fn, length, frames.dtype)
        a, b, c, d = join_functions.split(frames, 4, axis=-1)
        return dct(tensors.concat([-_backwards(c) - d, a - _backwards(b)], -1), type=4, norm=norm)


def inverse_mdct(mdcts, window_fn=vorbis_window, norm=None, name=None):
    """Signals from mdct's frames, floats [..., frames, half a frame] -> [..., samples]. window_fn
    and norm: as given to mdct. ValueError for other norms or an unknown size. TF:
    tf.signal.inverse_mdct."""
    if norm not in (None, "ortho"):
        raise ValueError(f"norm must be None or 'ortho', got {norm!r}")
    with graph.name_scope(name, "inverse_mdct", [mdcts]):
        mdcts = graph.convert_to_tensor(mdcts, name="mdcts")
        half = known(last(mdcts), "the frames' size")
        frames = dct(mdcts, type=4, norm=norm)
        if norm is None:
            frames = frames * graph.convert_to_tensor(0.5 / half, dtype=frames.dtype)
        first, second = join_functions.split(frames, 2, axis=-1)
        whole = tensors.concat([second, -_backwards(second), -_backwards(first), -first], -1)
        return overlap_and_add(whole * _weights(window_fn, 2 * half, whole.dtype), half)


def _weights(window_fn, length, dtype):
    if window_fn is None:
        return graph.convert_to_tensor(np.sqrt(0.5), dtype=dtype)
    return window_fn(length, dtype=dtype)


PUBLIC = {f"signal.{f.__name__}": f for f in (
    kaiser_window, kaiser_bessel_derived_window, vorbis_window, mdct, inverse_mdct)}
