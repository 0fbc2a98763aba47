"""ImageSummary's kernel, a Python function registered by session/runtime.py: pictures as PNG files.

Invariants
  1. Floats are scaled as in TensorFlow: by the largest finite pixel to 0 to 255, or, where one is
     negative, by the largest size to 1 to 255 around 128; each picture by itself.
  2. Messages are written by hand: a Summary of values with tag and image.

Threads: the one that called session.run, with the GIL.

Example:  `image_summary(b"digits", pixels, 3, np.array([255, 0, 0, 255], np.uint8))`.
"""
import numpy as np

from pyflow.framework.wire import field, varint
from pyflow.ops.image.image_codec import CodecError, encode_png

_ZERO = 1e-6                # no picture is scaled up from less


def _scaled(pixels, bad):
    """A picture of floats [height, width, channels] as uint8."""
    finite = np.isfinite(pixels).all(-1)
    within = pixels[finite].astype(np.float32)
    low, high = (float(within.min()), float(within.max())) if within.size else (np.inf, -np.inf)
    if low < 0:
        most, scale, offset = max(abs(low), abs(high)), 127.0, 128.0
    else:
        most, scale, offset = high, 255.0, 0.0
    kind = pixels.dtype.type
    scale = kind(0 if most < _ZERO else np.float32(scale) / np.float32(most))
    made = np.empty(pixels.shape, np.uint8)
    made[~finite] = bad[:pixels.shape[-1]]
    made[finite] = (pixels[finite] * scale + kind(offset)).astype(np.uint8)
    return made


def _value(tag, pixels):
    """The bytes of a Summary.Value."""
    height, width, channels = pixels.shape
    image = b"".join(b"%c%s" % (number << 3, varint(size)) for number, size in
                     ((1, height), (2, width), (3, channels)) if size)
    png = encode_png(pixels, -1).item()
    return (field(1, tag) if tag else b"") + field(4, image + field(4, png))


def image_summary(tag, tensor, max_images, bad_color):
    """ImageSummary: tag a scalar string, tensor [batch, height, width, channels]."""
    if not isinstance(tag, bytes):
        raise CodecError(f"ImageSummary: tag must be a scalar, got shape {list(tag.shape)}")
    if tensor.ndim != 4 or tensor.shape[3] not in (1, 3, 4):
        raise CodecError(f"ImageSummary: Tensor must be 4-D with last dim 1, 3, or 4, not "
                         f"{list(tensor.shape)}")
    if bad_color.dtype != np.uint8 or bad_color.ndim != 1 or bad_color.size < tensor.shape[3]:
        raise CodecError(f"ImageSummary: bad_color must be {tensor.shape[3]} numbers of uint8, got "
                         f"{bad_color.dtype.name} of shape {list(bad_color.shape)}")
    if not tensor.size and tensor.shape[0]:
        raise CodecError(f"ImageSummary: pictures of shape {list(tensor.shape[1:])} have no pixel")
    values = []
    for number, pixels in enumerate(tensor[:max_images]):
        own = b"%s/image/%d" % (tag, number) if max_images > 1 else tag + b"/image"
        values.append(field(1, _value(own, pixels if pixels.dtype == np.uint8 else
                                      _scaled(pixels, bad_color))))
    return np.array(b"".join(values), object)


KERNELS = {"ImageSummary": image_summary}
