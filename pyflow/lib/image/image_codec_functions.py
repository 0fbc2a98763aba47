"""Image files read and written: tf.image.decode_*, encode_*."""
from pyflow.framework import dtypes, graph
from pyflow.lib.control_flow import logging_functions
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.image.image_functions import convert_image_dtype
from pyflow.lib.random import random_functions
from pyflow.ops.elementwise import logic_ops
from pyflow.ops.image.image_codec_ops import (DecodeAndCropJpeg, DecodeBmp, DecodeGif, DecodeJpeg,
                                              DecodePng, EncodeJpeg, EncodeJpegVariableQuality,
                                              EncodePng, ExtractJpegShape)
from pyflow.ops.strings import string_text_ops


def decode_jpeg(contents, channels=0, ratio=1, fancy_upscaling=True, try_recover_truncated=False,
                acceptable_fraction=1, dct_method="", name=None):
    """A JPEG file (scalar string) as uint8 [height, width, channels].

    contents: the file's bytes. channels: 0 for the file's own, 1 grey, 3 RGB. `ratio` 1, 2, 4 or 8
    divides the size while reading; try_recover_truncated keeps what a cut off file holds,
    acceptable_fraction: how much of it must be there. The pixels are those of TF's
    dct_method="INTEGER_ACCURATE" with fancy_upscaling, whatever these two say; TF's default, a
    faster transform, differs by up to 3.
    Raises InvalidArgumentError for what is no image. TF: tf.image.decode_jpeg.

        >>> coded = tf.image.encode_jpeg(tf.zeros([2, 3, 1], tf.uint8))
        >>> tf.Session().run(tf.image.decode_jpeg(coded, channels=3)).shape
        (2, 3, 3)
    """
    return DecodeJpeg(contents, channels=channels, ratio=ratio, fancy_upscaling=fancy_upscaling,
                      try_recover_truncated=try_recover_truncated,
                      acceptable_fraction=acceptable_fraction, dct_method=dct_method, name=name)


def decode_and_crop_jpeg(contents, crop_window, channels=0, ratio=1, fancy_upscaling=True,
                         try_recover_truncated=False, acceptable_fraction=1, dct_method="",
                         name=None):
    """decode_jpeg and then the window [y, x, height, width] of it. InvalidArgumentError if it is
    not inside. TF: tf.image.decode_and_crop_jpeg.
    Dtypes, shapes, errors: as op DecodeAndCropJpeg."""
    return DecodeAndCropJpeg(contents, crop_window, channels=channels, ratio=ratio,
                             fancy_upscaling=fancy_upscaling,
                             try_recover_truncated=try_recover_truncated,
                             acceptable_fraction=acceptable_fraction, dct_method=dct_method,
                             name=name)


def decode_png(contents, channels=0, dtype=dtypes.uint8, name=None):
    """A PNG file (scalar string) as uint8 or uint16 [height, width, channels].

    contents: the file's bytes. channels: 0 for the file's own, 1 grey, 3 RGB, 4 RGBA. dtype: of the
    result.
    InvalidArgumentError for what is no image. TF: tf.image.decode_png.

        >>> coded = tf.image.encode_png(tf.zeros([2, 3, 1], tf.uint8))
        >>> tf.Session().run(tf.image.decode_png(coded, channels=3)).shape
        (2, 3, 3)
    """
    return DecodePng(contents, channels=channels, dtype=dtypes.as_dtype(dtype), name=name)


def decode_gif(contents, name=None):
    """A GIF file (scalar string) as uint8 [frames, height, width, 3]. InvalidArgumentError for
    what is none. TF: tf.image.decode_gif."""
    return DecodeGif(contents, name=name)


def decode_bmp(contents, channels=0, name=None):
    """A BMP file (scalar string), uncompressed, as uint8 [height, width, channels].
    InvalidArgumentError for what is none. TF: tf.image.decode_bmp."""
    return DecodeBmp(contents, channels=channels, name=name)


def decode_image(contents, channels=None, dtype=dtypes.uint8, name=None, expand_animations=True):
    """A JPEG, PNG, GIF or BMP file as [height, width, channels], a GIF with all its frames unless
    expand_animations is false; dtype as convert_image_dtype's. TF: tf.image.decode_image.
    ValueError for other channels than 0, 1, 3, 4; InvalidArgumentError for what is no such file, or
    has not that many. As in TensorFlow 1.15 conditionals choose among the ops that it knows."""
    if channels not in (None, 0, 1, 3, 4):
        raise ValueError(f"channels must be in (None, 0, 1, 3, 4), got {channels!r}")
    wanted, channels = dtypes.as_dtype(dtype), channels or 0
    with graph.name_scope(name, "decode_image"):
        contents = graph.convert_to_tensor(contents, name="contents")
        start = string_text_ops.Substr(contents, 0, 3)

        def jpeg():
            with _allowed(channels != 4, "JPEG", "0, 1 or 3", channels):
                return convert_image_dtype(DecodeJpeg(contents, channels=channels), wanted)

        def png():
            read = dtypes.uint8 if wanted == dtypes.uint8 else dtypes.uint16
            return convert_image_dtype(DecodePng(contents, channels=channels, dtype=read), wanted)

        def gif():
            with _allowed(channels in (0, 3), "GIF", "0 or 3", channels):
                frames = convert_image_dtype(DecodeGif(contents), wanted)
                return frames if expand_animations else frames[0]

        def bmp():
            known = logic_ops.Equal(string_text_ops.Substr(contents, 0, 2), b"BM", name="is_bmp")
            message = "Unable to decode bytes as JPEG, PNG, GIF, or BMP"
            with graph.control_dependencies([logging_functions.Assert(known, [message])]):
                return convert_image_dtype(DecodeBmp(contents, channels=channels), wanted)

        def is_kind(first, kind):
            return logic_ops.Equal(start, first, name=f"is_{kind}")
        return cond(is_kind(b"\xff\xd8\xff", "jpeg"), jpeg, lambda: cond(
            is_kind(b"\x89PN", "png"), png, lambda: cond(
                is_kind(b"GIF", "gif"), gif, bmp, name="cond_gif"), name="cond_png"),
            name="cond_jpeg")


def _allowed(fits, kind, those, channels):
    """What is within waits for a check of the channels, which no file of that kind can have."""
    checks = [] if fits else [logging_functions.Assert(
        False, [f"channels must be {those} for a {kind}, got {channels}"])]
    return graph.control_dependencies(checks)


def extract_jpeg_shape(contents, output_type=dtypes.int32, name=None):
    """[height, width, channels] of a JPEG file, from its header.
    TF: tf.image.extract_jpeg_shape.
    Dtypes, shapes, errors: as op ExtractJpegShape."""
    return ExtractJpegShape(contents, output_type=dtypes.as_dtype(output_type), name=name)


def encode_jpeg(image, format="", quality=95, progressive=False, optimize_size=False,
                chroma_downsampling=True, density_unit="in", x_density=300, y_density=300,
                xmp_metadata="", name=None):
    """An image, uint8 [height, width, 1 or 3], as a JPEG file; quality 0 to 100.
    InvalidArgumentError for other shapes. TF: tf.image.encode_jpeg.
    Dtypes, shapes, errors: as op EncodeJpeg."""
    return EncodeJpeg(image, format=format, quality=quality, progressive=progressive,
                      optimize_size=optimize_size, chroma_downsampling=chroma_downsampling,
                      density_unit=density_unit, x_density=x_density, y_density=y_density,
                      xmp_metadata=xmp_metadata, name=name)


def encode_png(image, compression=-1, name=None):
    """Images, uint8 or uint16 [..., height, width, 1 to 4 channels], as PNG files [...];
    compression 0 to 9, or -1 for zlib's default. TF: tf.image.encode_png.
    Dtypes, shapes, errors: as op EncodePng."""
    image = graph.convert_to_tensor(image, name="image")
    return EncodePng(image, compression=compression, name=name)


def is_jpeg(contents, name=None):
    """Whether a string starts as a JPEG file does. TF: tf.image.is_jpeg.
    contents: strings of any shape; the result is bool of that shape. Never an error."""
    with graph.name_scope(name, "is_jpeg"):
        start = string_text_ops.Substr(contents, 0, 3)
        return logic_ops.Equal(start, b"\xff\xd8\xff", name=name)


def adjust_jpeg_quality(image, jpeg_quality, name=None, dct_method=""):
    """An RGB image written as JPEG of that quality and read again; its dtype is kept.
    TF: tf.image.adjust_jpeg_quality.
    Dtypes, shapes, errors: as ops DecodeJpeg and EncodeJpegVariableQuality."""
    with graph.name_scope(name, "adjust_jpeg_quality", [image]):
        image = graph.convert_to_tensor(image, name="image")
        channels, dtype = image.shape.as_list()[-1], image.dtype.base_dtype
        pixels = convert_image_dtype(image, dtypes.uint8, saturate=True)
        quality = graph.convert_to_tensor(jpeg_quality, dtype=dtypes.int32)
        file = EncodeJpegVariableQuality(pixels, quality)
        return convert_image_dtype(DecodeJpeg(file, channels=channels or 0, dct_method=dct_method),
                                   dtype, saturate=True)


def random_jpeg_quality(image, min_jpeg_quality, max_jpeg_quality, seed=None):
    """adjust_jpeg_quality by a quality from [min, max). ValueError unless 0 <= min < max <= 100.
    TF: tf.image.random_jpeg_quality.
    Dtypes, shapes, errors: as ops DecodeJpeg and EncodeJpegVariableQuality."""
    if not 0 <= min_jpeg_quality <= 100 or not 0 <= max_jpeg_quality <= 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    quality = random_functions.random_uniform([], min_jpeg_quality, max_jpeg_quality, seed=seed,
                                              dtype=dtypes.int32)
    return adjust_jpeg_quality(image, quality)


PUBLIC = {}
for _function in (decode_jpeg, decode_and_crop_jpeg, decode_png, decode_gif, decode_bmp,
                  decode_image, extract_jpeg_shape, encode_jpeg, encode_png, is_jpeg):
    PUBLIC[f"image.{_function.__name__}"] = PUBLIC[f"io.{_function.__name__}"] = _function
PUBLIC["image.adjust_jpeg_quality"] = adjust_jpeg_quality
PUBLIC["image.random_jpeg_quality"] = random_jpeg_quality
