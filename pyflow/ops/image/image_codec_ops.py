"""Image files. The kernels are Python functions (image_codec.py).

Invariants
  1. Contents are scalar strings; images are [height, width, channels], GIFs [frames, h, w, 3].
  2. channels: 0 as in the file, 1 grey, 3 RGB, 4 RGBA (PNG and BMP).
  3. JPEG, PNG and GIF are read, and JPEG is written, by Pillow, an optional dependency: a step that
     needs it and does not find it fails with UnimplementedError and says how to install it.
  4. What is no image, is cut off or would take more than 512 MB is an InvalidArgumentError.

Example:  `image = tf.image.decode_jpeg(tf.read_file("cat.jpg"), channels=3)`.
"""
import base64

import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import static
from pyflow.ops.base.shape_rules import by_pattern

JPEG = ('channels: int = 0, ratio: int = 1, fancy_upscaling: bool = true, '
        'try_recover_truncated: bool = false, acceptable_fraction: float = 1, '
        'dct_method: string = ""')


# ------------------------------------------------------------------------------------------ samples
def _bytes(text):
    return lit(base64.b64decode(text), dtypes.string)


PNG = _bytes("iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAAD0lEQVR4nGPkEpHbFyACAAQUAWC668JZ"
             "AAAAAElFTkSuQmCC")
BMP = lit(b"BM" + np.array([58, 0, 54, 40, 1, 1], "<i4").tobytes()
          + np.array([1, 24], "<i2").tobytes() + np.array([0, 4, 0, 0, 0, 0], "<i4").tobytes()
          + bytes([30, 20, 10, 0]), dtypes.string)
GIF = _bytes("R0lGODdhAgABAIEAAP///woUHgAAAAAAACwAAAAAAgABAAAIBQADAAgIADs=")
JPG = _bytes("/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtq"
             "eJmBanGQc1tdhbWGkJ6jq62rZ4C8ybqmx5moq6T/wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAA"
             "AAAABP/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AA//Z")


# ----------------------------------------------------------------------------------- static shapes
def _contents(op):
    if op.inputs[0].shape.ndims not in (None, 0):
        raise ValueError(f"{op.type}: contents must be a scalar string, got shape "
                         f"{op.inputs[0].shape}")


def _decoded_shape(op):
    _contents(op)
    channels = op.attr("channels")
    if channels not in (0, 1, 3, 4):
        raise ValueError(f"{op.type}: channels must be 0, 1, 3 or 4, got {channels}")
    return TensorShape([None, None, channels or None])


def _image_shape(op):
    image = _decoded_shape(op)
    return TensorShape(None) if op.attr("expand_animations") else image


def _cropped_shape(op):
    image, window = _decoded_shape(op).as_list(), static(op.inputs[1])
    if not op.inputs[1].shape.is_compatible_with([4]):
        raise ValueError(f"{op.type}: crop_window must be four numbers, y, x, height, width, got "
                         f"shape {op.inputs[1].shape}")
    if window is not None:
        image[:2] = [int(n) for n in window[2:]]
    return TensorShape(image)


def _frames_shape(op):
    _contents(op)
    return TensorShape([None, None, None, 3])


def _file_shape(op):
    _contents(op)
    return TensorShape([3])


def _encoded_shape(op):
    shape = op.inputs[0].shape
    if shape.ndims is not None and (shape.ndims < 3 or op.type != "EncodePng" and shape.ndims > 3):
        raise ValueError(f"{op.type}: an image must have rank 3, [height, width, channels], got "
                         f"shape {shape}")
    return shape[:-3] if shape.ndims is not None else TensorShape(None)


# ---------------------------------------------------------------------------------------------- ops
@op("DecodeJpeg", inputs="contents: string", outputs="image: uint8", attrs=JPEG)
class DecodeJpeg:
    """A JPEG (or PNG, one-frame GIF) file as uint8; `ratio` 1, 2, 4, 8 reads it smaller.
    TF: DecodeJpeg."""
    shape = _decoded_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(JPG)]


@op("DecodeAndCropJpeg", inputs="contents: string, crop_window: int32", outputs="image: uint8",
    attrs=JPEG)
class DecodeAndCropJpeg:
    """The window [y, x, height, width] of a JPEG file. TF: DecodeAndCropJpeg."""
    shape = _cropped_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(JPG, lit([0, 0, 1, 1]))]


@op("DecodePng", inputs="contents: string", outputs="image: dtype",
    attrs="channels: int = 0, dtype: {uint8, uint16} = uint8")
class DecodePng:
    """A PNG (or JPEG, one-frame GIF) file as uint8, or as uint16 over its whole range.
    TF: DecodePng."""
    shape = _decoded_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(PNG), S(PNG, channels=4), S(PNG, dtype=dtypes.uint16)]


@op("DecodeGif", inputs="contents: string", outputs="image: uint8")
class DecodeGif:
    """The frames of a GIF file, [frames, height, width, 3]. TF: DecodeGif."""
    shape = _frames_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(GIF)]


@op("DecodeBmp", inputs="contents: string", outputs="image: uint8", attrs="channels: int = 0")
class DecodeBmp:
    """An uncompressed BMP file of 8, 24 or 32 bits a pixel. TF: DecodeBmp."""
    shape = _decoded_shape
    gradient = UNREGISTERED

    def reference(contents): return np.array([[[10, 20, 30]]], np.uint8)
    samples = [S(BMP)]


@op("DecodeImage", inputs="contents: string", outputs="image: dtype",
    attrs="channels: int = 0, dtype: {uint8, uint16, float} = uint8, "
          "expand_animations: bool = true")
class DecodeImage:
    """A JPEG, PNG, GIF or BMP file, whichever it is. TF: DecodeImage."""
    shape = _image_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S(PNG), S(JPG, dtype=dtypes.float32), S(GIF, expand_animations=False)]


@op("ExtractJpegShape", inputs="contents: string", outputs="image_shape: output_type",
    attrs="output_type: {int32, int64} = int32")
class ExtractJpegShape:
    """Height, width and channels of a JPEG file, without decoding it. TF: ExtractJpegShape."""
    shape = _file_shape
    gradient = UNREGISTERED

    def reference(contents): return np.array([1, 1, 1])
    samples = [S(JPG)]


@op("EncodeJpeg", inputs="image: uint8", outputs="contents: string",
    attrs='format: {"", "grayscale", "rgb"} = "", quality: int = 95, progressive: bool = false, '
          'optimize_size: bool = false, chroma_downsampling: bool = true, '
          'density_unit: {"in", "cm"} = "in", x_density: int = 300, y_density: int = 300, '
          'xmp_metadata: string = ""')
class EncodeJpeg:
    """An image of 1 or 3 channels as a JPEG file. TF: EncodeJpeg."""
    shape = by_pattern("h w c", "->", "")
    gradient = UNREGISTERED
    reference = None
    samples = [S((4, 5, 3)), S((4, 5, 1), quality=50, progressive=True)]


@op("EncodeJpegVariableQuality", inputs="images: uint8, quality: int32",
    outputs="contents: string")
class EncodeJpegVariableQuality:
    """EncodeJpeg with the quality as a tensor. TF: EncodeJpegVariableQuality."""
    shape = by_pattern("h w c", "", "->", "")
    gradient = UNREGISTERED
    reference = None
    samples = [S((4, 5, 3), lit(50))]


@op("EncodePng", inputs="image: T", outputs="contents: string",
    attrs="compression: int = -1, T: {uint8, uint16} = uint8")
class EncodePng:
    """Images of 1 to 4 channels as PNG files. TF: EncodePng."""
    shape = _encoded_shape
    gradient = UNREGISTERED
    reference = None
    samples = [S((4, 5, 3)), S((2, 4, 5, 2)), S((1, 1, 4), compression=9)]
