"""Fourier and cosine transforms, frames and windows."""

import numpy as np

from cases import Input, normal, op


def waves(*shape, dtype=np.complex64):
    return Input(
        lambda rng: (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    )


PRECISION = {"": (np.float32, np.complex64), "_wide": (np.float64, np.complex128)}
SHAPES = {"": (2, 12), "2d": (2, 3, 8), "3d": (2, 4, 3, 5)}
for suffix, (real, complex_) in PRECISION.items():
    for rank, shape in SHAPES.items():
        for name in ("fft", "ifft"):
            op(
                f"{name}{rank}{suffix}",
                lambda tf, x, f=name + rank: getattr(tf.signal, f)(x),
                waves(*shape, dtype=complex_),
            )
        lengths = {"": None, "_padded": [7, 6, 9], "_cropped": [2, 3, 4], "_odd": [3, 5, 7]}
        for how, length in lengths.items():
            wanted = length and length[-int(rank[:1] or 1):]
            op(
                f"rfft{rank}{suffix}{how}",
                lambda tf, x, f="rfft" + rank, n=wanted: getattr(tf.signal, f)(x, n),
                normal(*shape, dtype=real),
                gradient=not how and rank != "3d",
            )
            op(
                f"irfft{rank}{suffix}{how}",
                lambda tf, x, f="irfft" + rank, n=wanted: getattr(tf.signal, f)(x, n),
                waves(*shape, dtype=complex_),
                gradient=not how and rank != "3d",  # TensorFlow has no others
            )
for size in (1, 2, 37, 74, 121, 128, 360):
    op(f"fft_of_{size}", lambda tf, x: [tf.fft(x), tf.ifft(x)], waves(2, size))
op(
    "fftshift",
    lambda tf, x: [
        tf.signal.fftshift(x),
        tf.signal.ifftshift(x),
        tf.signal.fftshift(x, 1),
        tf.signal.ifftshift(x, [0, 1]),
    ],
    normal(3, 5, 4),
)
op(
    "frame",
    lambda tf, x: [
        tf.signal.frame(x, 4, 3),
        tf.signal.frame(x, 4, 3, pad_end=True, pad_value=7),
        tf.signal.frame(x, 2, 1, axis=0),
    ],
    normal(3, 14),
)
op("overlap_and_add", lambda tf, x: tf.signal.overlap_and_add(x, 3), normal(2, 5, 7))
op(
    "windows",
    lambda tf, x: [
        f(n, periodic=p)
        for f in (tf.signal.hann_window, tf.signal.hamming_window)
        for n in (1, 2, 7, 8)
        for p in (True, False)
    ],
    normal(1),
    gradient=False,
)
op(
    "stft",
    lambda tf, x: [
        tf.signal.stft(x, 16, 4),
        tf.signal.stft(x, 12, 5, fft_length=20, pad_end=True, window_fn=None),
    ],
    normal(2, 50),
)
op(
    "inverse_stft",
    lambda tf, x: [
        tf.signal.inverse_stft(x, 16, 4, window_fn=tf.signal.inverse_stft_window_fn(4)),
        tf.signal.inverse_stft(x, 12, 3),
    ],
    waves(2, 9, 9),
)
for kind in (1, 2, 3, 4):
    op(
        f"dct_{kind}",
        lambda tf, x, k=kind: [tf.signal.dct(x, type=k), tf.signal.idct(x, type=k)]
        + ([tf.signal.dct(x, type=k, norm="ortho"), tf.signal.idct(x, type=k, norm="ortho")]
           if k > 1 else []),
        normal(3, 9),
    )
op("dct_sizes", lambda tf, x: [tf.signal.dct(x, n=6), tf.signal.dct(x, n=12)], normal(3, 9))
op(
    "mel",
    lambda tf, x: tf.signal.mfccs_from_log_mel_spectrograms(
        tf.matmul(tf.abs(x), tf.signal.linear_to_mel_weight_matrix(10, 33, 8000, 80.0, 3600.0))
    ),
    normal(4, 33),
)
