"""Signals: windows, DFT, STFT, mel weights.

Short transforms are matrix products, others FFT kernels; 16-bit floats are transformed in
float32."""

import numpy as np

import pyflow as tf
from pyflow.interop.onnx.ops.common import ints, sequence, sizes
from pyflow.interop.onnx.ops.windows import padded
from pyflow.interop.onnx.registry import converter

_LONGEST = 1 << 24
_SHORT = 64         # up to here a product with a matrix is exacter, and as fast

_WINDOWS = {"HannWindow": (0.5, -0.5, 0.0), "HammingWindow": (25 / 46, -21 / 46, 0.0),
            "BlackmanWindow": (0.42, -0.5, 0.08)}


@converter("HannWindow", "HammingWindow", "BlackmanWindow")
def window(node):
    """a + b cos(2 pi n / N) + c cos(4 pi n / N), N one less if the window is symmetric."""
    a, b, c = _WINDOWS[node.op]
    size = tf.cast(tf.reshape(node.x(0), []), tf.float64)
    span = size if node.attr("periodic", 1) else size - tf.constant(1.0, tf.float64)
    n = tf.range(tf.constant(0.0, tf.float64), size, tf.constant(1.0, tf.float64))
    angle = n * tf.constant(2 * np.pi, tf.float64) / span
    made = tf.constant(a, tf.float64) + tf.constant(b, tf.float64) * tf.cos(angle) + tf.constant(
        c, tf.float64) * tf.cos(angle + angle)
    return tf.cast(made, node.element_type("output_datatype", tf.float32))


def transformed(node, x, length, inverse, onesided):
    """DFT over the axis before the last of [..., n, 1 or 2] (n cut or padded to length)."""
    if not 0 < length <= _LONGEST:
        raise node.unsupported(f"a transform of length {length}; expected 1 to {_LONGEST}")
    parts, have = x.shape.as_tuple()[-1], x.shape.as_tuple()[-2]
    if parts is None or have is None:
        raise node.needs(x, "the transformed axis and the number of parts")
    if parts not in (1, 2):
        raise node.error(f"expected real or complex numbers in the last axis, got shape {x.shape}")
    if inverse and onesided:
        x, have = _mirrored(x, length, have), length
    x = padded(x, [(0, length - have)], at=x.shape.ndims - 2)
    count = length // 2 + 1 if onesided and not inverse else length
    wide = tf.float64 if x.dtype is tf.float64 else tf.float32
    if length <= _SHORT:
        made = tf.cast(_product(tf.cast(x, wide), length, count, inverse), x.dtype)
        return made[..., :1] if inverse and onesided else made
    real = tf.cast(x[..., 0], wide)
    signal = tf.complex(real, tf.cast(x[..., 1], wide) if parts == 2 else tf.zeros_like(real))
    made = tf.ifft(signal) if inverse else tf.fft(signal)
    made = made[..., :count]
    made = tf.cast(tf.stack([tf.real(made), tf.imag(made)], -1), x.dtype)
    return made[..., :1] if inverse and onesided else made


def _product(x, length, count, inverse):
    """The transform as a product with a matrix of cosines and sines."""
    angle = 2 * np.pi * (np.outer(np.arange(length), np.arange(count)) % length) / length
    scale = 1 / length if inverse else 1
    cosines, sines = np.cos(angle) * scale, np.sin(angle) * (scale if inverse else -scale)
    # rows: real, then imaginary parts of each input; columns likewise of each output
    table = np.stack([np.stack([cosines, sines], -1), np.stack([-sines, cosines], -1)], 1)
    parts = x.shape.as_tuple()[-1]
    table = table[:, :parts].reshape(length * parts, count * 2)
    made = tf.matmul(tf.reshape(x, [-1, length * parts]),
                     tf.constant(table.astype(x.dtype.as_numpy_dtype)))
    return tf.reshape(made, tf.concat([sizes(x)[:-2], ints([count, 2])], 0))


def _mirrored(x, length, have):
    """The whole spectrum of a real signal from its first half."""
    half = length // 2 + 1
    x = padded(x, [(0, half - have)], at=x.shape.ndims - 2)
    rest = tf.reverse(x[..., 1:(length + 1) // 2, :], [x.shape.ndims - 2])
    sign = tf.constant(np.array([1, -1], x.dtype.as_numpy_dtype))
    return tf.concat([x, rest * sign], x.shape.ndims - 2)


@converter("DFT", since=17)
def dft_by_attribute(node):
    return _dft(node, node.attr("axis", 1))


@converter("DFT", since=20)
def dft(node):
    return _dft(node, int(node.need(2, "axis").reshape(())) if node.has(2) else -2)


def _dft(node, axis):
    rank = node.rank(0)
    axis = node.axis(axis, rank)
    inverse, onesided = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    x, size = node.x(0), node.shape(0)[axis]
    if node.has(1):
        length = int(node.need(1, "dft_length").reshape(()))
    else:
        if size is None:
            raise node.needs(x, "the transformed axis")
        length = 2 * (size - 1) if inverse and onesided else size
    order = [i for i in range(rank - 1) if i != axis] + [axis, rank - 1]
    made = transformed(node, tf.transpose(x, order), length, inverse, onesided)
    return tf.transpose(made, [order.index(i) for i in range(rank)])


@converter("STFT", since=17)
def stft(node):
    """Windowed frames of [batch, length, 1 or 2], each transformed; real ones may be [batch,
    length]."""
    signal = node.x(0)
    if node.expect_rank(0, 2, 3) == 2:
        signal = tf.expand_dims(signal, 2)
    step = int(node.need(1, "frame_step").reshape(()))
    total = node.shape(0)[1]
    if node.has(3):
        length = int(node.need(3, "frame_length").reshape(()))
    else:
        length = node.static_shape(2)[0] if node.has(2) else total
    if length is None:
        raise node.needs(signal, "the length of the signal")
    if step < 1 or length < 1 or total is not None and length > total:
        raise node.error(f"frames of {length} every {step} do not fit a signal of {total}")
    count = sizes(signal)[1] if total is None else total
    count = (count - length) // step + 1
    node.bounded("the frames", count if total is not None else 1, length)
    starts = sequence(count) * tf.constant(np.int64(step))
    places = tf.expand_dims(starts, 1) + tf.constant(np.arange(length))
    frames = tf.gather(signal, places, axis=1)
    if node.has(2):
        frames = frames * tf.reshape(node.x(2), [1, 1, length, 1])
    return transformed(node, frames, length, False, bool(node.attr("onesided", 1)))


@converter("MelWeightMatrix")
def mel_weight_matrix(node):
    """Triangles, equally wide in mel, over the bins of a spectrum."""
    bins, length, rate, low, high = (node.need(i, what).reshape(()).item() for i, what in enumerate(
        ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")))
    if not 0 < bins < 1 << 16 or not 0 < length < 1 << 20 or rate <= 0:
        raise node.error(f"{bins} bins of a spectrum of {length} at {rate} Hz")

    node.bounded("the matrix", bins, length)

    def mel(hertz): return 2595 * np.log10(1 + hertz / 700)
    edges = mel(low) + np.arange(bins + 2) * (mel(high) - mel(low)) / (bins + 2)
    hertz = 700 * (10 ** (edges / 2595) - 1)
    places = ((length + 1) * hertz // rate).astype(int)
    at = np.arange(length // 2 + 1)[:, None]
    left, centre, right = places[:-2], places[1:-1], places[2:]
    rising = (at - left) / np.maximum(centre - left, 1)
    falling = (right - at) / np.maximum(right - centre, 1)
    made = np.where((at >= left) & (at <= centre), rising, 0)
    made = np.where((at >= centre) & (at < right), falling, made)
    made = np.where((at == centre) & (centre == left), np.where(right > centre, falling, 1), made)
    return made.astype(node.element_type("output_datatype", tf.float32).as_numpy_dtype)
