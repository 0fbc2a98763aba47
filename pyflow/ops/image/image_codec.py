"""What the image codec kernels do: Python functions; session/runtime.py registers them.

Invariants
  1. A function takes the op's inputs as arrays and its attributes by name, and returns its outputs.
  2. Sizes are read from the header and checked before pixels are decoded: at most MOST_BYTES, and
     no more than the file's length can hold.
  3. Whatever is wrong with a file is a CodecError, an INVALID_ARGUMENT of the step.
  4. PNG is written, and BMP read, here; everything else is Pillow's, imported when first needed.

Threads: the one that called session.run, with the GIL.

Example:  `KERNELS["DecodePng"](png_bytes, channels=3, dtype=4)`.
"""
import contextlib
import io
import struct
import warnings
import zlib

import numpy as np

MOST_BYTES = 1 << 29                    # of a decoded image; TF's limit for a PNG
INVALID_ARGUMENT, UNIMPLEMENTED = 3, 12
FLOAT, UINT8, UINT16, INT64 = 1, 4, 17, 9
GREY, GREY_ALPHA, RGB, RGBA = 1, 2, 3, 4


class CodecError(ValueError):
    """What fails the step: `status` is an absl code."""

    def __init__(self, message, status=INVALID_ARGUMENT):
        super().__init__(message)
        self.status = status


# ------------------------------------------------------------------------------------------- files
def _scalar(contents):
    if isinstance(contents, bytes):     # how a scalar string comes
        return contents
    if contents.shape != ():
        raise CodecError(f"contents must be scalar, got shape {list(contents.shape)}")
    return contents[()]


def pillow_for(op):
    """The module PIL.Image; a CodecError that says what to install where there is none."""
    try:
        from PIL import Image
    except ImportError as e:
        raise CodecError(f"{op} needs the package Pillow, which is not installed ({e}): "
                         "pip install pillow", UNIMPLEMENTED) from None
    return Image


def _kind(data, op):
    """JPEG, PNG, GIF or BMP, by the first bytes."""
    for start, kind in ((b"\xff\xd8\xff", "JPEG"), (b"\x89PNG\r\n\x1a\n", "PNG"),
                        (b"GIF8", "GIF"), (b"BM", "BMP")):
        if data.startswith(start):
            return kind
    what = "is empty" if not data else f"starts with {data[:8]!r}"
    raise CodecError(f"{op}: Unknown image file format. One of JPEG, PNG, GIF, BMP required; the "
                     f"string {what}")


@contextlib.contextmanager
def _opened(data, kind, op, copies=3):
    """The Pillow image of a file, its size checked; what goes wrong inside is a CodecError."""
    pillow = pillow_for(op)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pillow.open(io.BytesIO(data), formats=[kind]) as image:
                _check_size(*image.size, copies, op)
                yield image
    except CodecError:
        raise
    except Exception as e:              # noqa: BLE001  OSError, SyntaxError, struct.error, ...
        raise CodecError(f"{op}: Invalid {kind} data, size {len(data)}: {e}") from None


def _check_size(width, height, bytes_per_pixel, op):
    if width <= 0 or height <= 0:
        raise CodecError(f"{op}: Invalid image size {height} x {width}")
    if width * height * bytes_per_pixel > MOST_BYTES:
        raise CodecError(f"{op}: Image too large to decode: {height} x {width} pixels of "
                         f"{bytes_per_pixel} bytes are more than {MOST_BYTES} bytes")


# ---------------------------------------------------------------------------------------- channels
def _with_channels(pixels, channels, opaque, grey):
    """`pixels` [h, w, 1 to 4] with `channels` of them; `grey` weighs red, green and blue."""
    found = pixels.shape[2]
    if channels in (0, found):
        return pixels
    color, alpha = (pixels[..., :-1], pixels[..., -1:]) if found in (2, 4) else (pixels, None)
    if channels in (1, 2) and color.shape[2] == 3:
        color = grey(color)
    if channels in (3, 4) and color.shape[2] == 1:
        color = np.repeat(color, 3, axis=2)
    if channels in (2, 4):
        alpha = np.full_like(color[..., :1], opaque) if alpha is None else alpha
        color = np.concatenate([color, alpha], 2)
    return np.ascontiguousarray(color)


def _png_grey(rgb):
    """libpng's: weights in units of 2^-15, cut off for 8 bits and rounded for 16."""
    total = rgb.astype(np.int64) @ np.array([9797, 19234, 3737])
    grey = total + 16384 >> 15 if rgb.dtype == np.uint16 else total >> 15
    same = (rgb[..., 0] == rgb[..., 1]) & (rgb[..., 1] == rgb[..., 2])
    return np.where(same, rgb[..., 0], grey)[..., None].astype(rgb.dtype)


def _converted(pixels, dtype, data):
    """uint8 or uint16 pixels of a file as the dtype asked for. Those of a PNG file are spread over
    the whole of 16 bits, others are shifted, as TensorFlow's convert_image_dtype does."""
    if dtype != UINT8 and pixels.dtype == np.uint8 and data[:4] == b"\x89PNG":
        pixels = pixels.astype(np.uint16) * 257
    deep = pixels.dtype == np.uint16
    if dtype == FLOAT:
        return pixels.astype(np.float32) * np.float32(1 / (65535 if deep else 255))
    if dtype == UINT16:
        return pixels if deep else pixels.astype(np.uint16) * 256
    return (pixels >> 8).astype(np.uint8) if deep else pixels


def _check_channels(channels, allowed, op):
    if channels not in allowed:
        raise CodecError(f"{op}: channels must be {', '.join(map(str, allowed))}, got {channels}")


# --------------------------------------------------------------------------------------------- PNG
_PNG_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}       # per pixel, by colour type
_DEFLATE_MOST = 1032                                # bytes that one byte of a zlib stream becomes


def _png_data(data, op):
    """The pieces of the compressed pixels of a PNG file; CodecError if the file ends before IEND."""
    at, pieces = 8, []
    while at + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, at)
        if name == b"IEND":
            return pieces
        if name == b"IDAT":
            pieces.append(data[at + 8:at + 8 + size])
        at += size + 12
    raise CodecError(f"{op}: Invalid PNG data, size {len(data)}: the file ends before its end "
                     f"chunk IEND")


def _check_png_rows(image, pieces, bits_per_pixel, op):
    """CodecError unless the stream holds all rows. Before anything of the image's size is made,
    what cannot be; then, as only a picture that is black at its end can lack rows, what is not."""
    width, height = image.size
    expected = height * (1 + (width * bits_per_pixel + 7) // 8)
    short = CodecError(f"{op}: Invalid PNG data: {sum(map(len, pieces))} bytes of pixels are not "
                       f"the {height} x {width} pixels that the header announces")
    if expected > _DEFLATE_MOST * sum(map(len, pieces)) + 64:
        raise short
    last = image.crop((0, height - 1, width, height))       # decodes; errors are _opened's
    if last.getbbox() is None and _inflated(pieces, expected) < expected:
        raise short


def _inflated(pieces, most):
    """How many bytes the stream becomes, counted up to `most` without keeping them."""
    stream, count = zlib.decompressobj(), 0
    for piece in pieces:
        while piece and count < most:
            count += len(stream.decompress(piece, 1 << 20))
            piece = stream.unconsumed_tail
        if count >= most or stream.eof:
            break
    return count + (0 if count >= most else len(stream.flush()))


def _png(data, channels, deep, op):
    """A PNG file as [h, w, channels]; uint16 if it has 16 bits and `deep`."""
    _check_channels(channels, (0, 1, 3, 4), op)
    idat = _png_data(data, op)
    bits, kind = (data[24], data[25]) if len(data) > 25 else (0, 0)
    with _opened(data, "PNG", op, 8 if bits == 16 else 4) as image:
        _check_png_rows(image, idat, bits * _PNG_SAMPLES.get(kind, 1), op)
        own = {0: GREY, 2: RGB, 3: RGB, 4: GREY_ALPHA, 6: RGBA}.get(kind, RGB)
        if bits == 16:
            pixels = _with_channels(_deep_png(data, own, op), channels, 65535, _png_grey)
            return pixels if deep else (pixels >> 8).astype(np.uint8)
        return _with_channels(_shallow_png(image, own, channels), channels, 255, _png_grey)


def _shallow_png(image, own, channels):
    """8 bits; transparent colours of the file become alpha where alpha is wanted."""
    clear = "transparency" in image.info
    if clear and (channels in (2, 4) or channels == 0 and image.mode == "P"):
        own = GREY_ALPHA if own == GREY else RGBA
    elif clear:
        image.load()                    # drop it: Pillow would blend
        image.info.pop("transparency")
    mode = {GREY: "L", GREY_ALPHA: "LA", RGB: "RGB", RGBA: "RGBA"}[own]
    pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _deep_png(data, own, op):
    """16 bits, which Pillow reads for grey alone: the high and the low bytes are read apart."""
    if own == GREY:
        with _opened(data, "PNG", op, 4) as image:
            return np.asarray(image).astype(np.uint16)[..., None]
    if own == GREY_ALPHA:               # four bytes a pixel, as RGBA has
        raw = _as_raw(data, "RGBA", "RGBA", op).astype(np.uint16)
        return raw[..., ::2] << 8 | raw[..., 1::2]
    mode = "RGB" if own == RGB else "RGBA"
    high, low = (_as_raw(data, mode, f"{mode};16{order}", op).astype(np.uint16) for order in "BL")
    return high << 8 | low


def _as_raw(data, mode, raw, op):
    """The pixels of a PNG file unpacked as `mode` from the raw mode given."""
    with _opened(data, "PNG", op, 8) as image:
        image._mode = mode
        image.tile = [tile._replace(args=raw) for tile in image.tile]
        return np.asarray(image)


def _chunk(name, data):
    return (struct.pack(">I", len(data)) + name + data
            + struct.pack(">I", zlib.crc32(name + data)))


def _filtered(rows, step):
    """Rows of bytes, each behind the filter that leaves the least (libpng's rule); `step` bytes
    are a pixel."""
    left, up, corner = (np.zeros_like(rows) for _ in range(3))
    left[:, step:], up[1:], corner[1:, step:] = rows[:, :-step], rows[:-1], rows[:-1, :-step]
    a, b, c = (x.astype(np.int16) for x in (left, up, corner))
    from_a, from_b, from_c = np.abs(b - c), np.abs(a - c), np.abs(a + b - 2 * c)
    paeth = np.where((from_a <= from_b) & (from_a <= from_c), left,
                     np.where(from_b <= from_c, up, corner))
    ways = [rows, rows - left, rows - up, rows - ((a + b) // 2).astype(np.uint8), rows - paeth]
    left_over = [np.abs(way.view(np.int8).astype(np.int16)).sum(1, dtype=np.int64) for way in ways]
    best = np.argmin(left_over, 0)
    made = np.empty((rows.shape[0], rows.shape[1] + 1), np.uint8)
    made[:, 0] = best
    for number, way in enumerate(ways):
        made[best == number, 1:] = way[best == number]
    return made


def _write_png(pixels, compression):
    """A PNG file."""
    height, width, channels = pixels.shape
    deep = pixels.dtype == np.uint16
    rows = pixels.astype(">u2" if deep else np.uint8).reshape(height, -1).view(np.uint8)
    rows = _filtered(np.ascontiguousarray(rows), channels * (2 if deep else 1))
    kind = {GREY: 0, GREY_ALPHA: 4, RGB: 2, RGBA: 6}[channels]
    header = struct.pack(">IIBBBBB", width, height, 16 if deep else 8, kind, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
            + _chunk(b"IDAT", zlib.compress(rows.tobytes(), compression)) + _chunk(b"IEND", b""))


# -------------------------------------------------------------------------------------------- JPEG
def _jpeg(data, channels, op, ratio=1, recover=False, fraction=1.0):
    _check_channels(channels, (0, 1, 3), op)
    if ratio not in (1, 2, 4, 8):
        raise CodecError(f"{op}: ratio must be 1, 2, 4, or 8, got {ratio}")
    with _opened(data, "JPEG", op) as image:
        own = channels or (1 if image.mode == "L" else 3)
        size = [-(-n // ratio) for n in image.size]
        if image.mode == "CMYK" and own == 1:
            raise CodecError(f"{op}: a CMYK file cannot be read as grey; decode it with 3 channels")
        if ratio > 1 or own == 1:
            image.draft({"L": "L", "RGB": "L" if own == 1 else "RGB"}.get(image.mode),
                        [max(n // ratio, 1) for n in image.size])
        _load(image, recover)
        mode = "L" if own == 1 else "RGB"
        image = image if image.mode == mode else image.convert(mode)
        if list(image.size) != size:
            image = image.resize(size)
        pixels = np.asarray(image)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _load(image, recover):
    """Decodes; what a cut off file lacks is grey, with `recover`."""
    from PIL import ImageFile
    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = bool(recover)
    try:
        image.load()
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def _write_jpeg(pixels, quality, progressive, optimize, subsample, density, xmp, op):
    if pixels.size == 0 or max(pixels.shape[:2]) > 65500:
        raise CodecError(f"{op}: a JPEG image has 1 to 65500 rows and columns, got shape "
                         f"{list(pixels.shape)}")
    if not 0 <= quality <= 100:
        raise CodecError(f"{op}: quality must be in [0,100], got {quality}")
    image = pillow_for(op).fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    file = io.BytesIO()
    extra = {"xmp": xmp.encode("utf-8", "surrogateescape")} if xmp else {}
    image.save(file, "JPEG", quality=int(quality), progressive=progressive, optimize=optimize,
               subsampling=2 if subsample else 0, dpi=density[1:], **extra)
    data = bytearray(file.getvalue())
    if data[6:11] == b"JFIF\0":
        data[13:18] = struct.pack(">BHH", *density)
    return bytes(data)


# ---------------------------------------------------------------------------------------- GIF, BMP
_LZW_MOST = 4096 * 8 // 3               # pixels that one byte can stand for: codes have 3 bits or more


def _gif(data, op, first=False):
    """Frames [n, h, w, 3], each drawn over the last."""
    with _opened(data, "GIF", op) as image:
        width, height = image.size
        if width * height > _LZW_MOST * len(data):
            raise CodecError(f"{op}: Invalid GIF data: {len(data)} bytes are not the {height} x "
                             f"{width} pixels that the header announces")
        frames = []
        try:
            while not first or not frames:
                image.seek(len(frames))
                frames.append(np.asarray(image.convert("RGB")))
                if len(frames) * frames[0].nbytes > MOST_BYTES:
                    raise CodecError(f"{op}: the frames take more than {MOST_BYTES} bytes")
        except (EOFError, OSError, SyntaxError):    # the end, or where the file is cut off
            if not frames:
                raise
        return np.stack(frames)


def _bmp(data, channels, op):
    """Uncompressed BMP of 8 (as it is, without palette), 24 or 32 bits."""
    if len(data) < 32 or data[:2] != b"BM":
        raise CodecError(f"{op}: Incomplete bmp content, requires at least 32 bytes to find the "
                         f"header, got {len(data)}")
    start, = struct.unpack_from("<I", data, 10)
    width, height, _, bits = struct.unpack_from("<iiHH", data, 18)
    if bits not in (8, 24, 32):
        raise CodecError(f"{op}: a BMP file has 8, 24 or 32 bits a pixel, got {bits}")
    own = bits // 8
    _check_channels(channels, (0, 3, 4), op)
    _check_size(width, abs(height), own, op)
    rows, step = abs(height), (width * own + 3) // 4 * 4
    if start + step * rows > len(data):
        raise CodecError(f"{op}: Incomplete bmp content, requires at least {start + step * rows} "
                         f"bytes, got {len(data)} bytes")
    pixels = np.frombuffer(data, np.uint8, step * rows, start).reshape(rows, step)
    pixels = pixels[:, :width * own].reshape(rows, width, own)
    pixels = pixels[::-1] if height > 0 else pixels
    pixels = np.ascontiguousarray(pixels[..., {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[own]])
    return _with_channels(pixels, channels, 255, _png_grey)


# -------------------------------------------------------------------------------------- the kernels
def _any(data, channels, deep, op, animated=False):
    """An image file of any kind as [h, w, channels], or all frames of a GIF."""
    kind = _kind(data, op)
    if kind == "JPEG":
        return _jpeg(data, channels, op)
    if kind == "PNG":
        return _png(data, channels, deep, op)
    if kind == "BMP":
        if op != "DecodeImage":
            raise CodecError(f"{op}: Trying to decode BMP format using a wrong op. Use `decode_bmp`"
                             " or `decode_image` instead.")
        return _bmp(data, channels, op)
    if channels not in (0, 3):
        raise CodecError(f"{op}: channels must be 0 or 3 for a GIF, got {channels}")
    return _gif(data, op) if animated else _only_frame(data, op)


def _only_frame(data, op):
    frames = _gif(data, op)
    if len(frames) > 1:
        raise CodecError(f"{op}: Got {len(frames)} frames, but animated gifs can only be decoded by"
                         " tf.io.decode_gif or tf.io.decode_image")
    return frames[0]


def decode_jpeg(contents, channels, ratio, try_recover_truncated, acceptable_fraction, **unused):
    """DecodeJpeg."""
    data, op = _scalar(contents), "DecodeJpeg"
    if _kind(data, op) == "JPEG":
        return _jpeg(data, channels, op, ratio, try_recover_truncated, acceptable_fraction)
    return _any(data, channels, False, op)


def decode_and_crop_jpeg(contents, crop_window, channels, ratio, try_recover_truncated,
                         acceptable_fraction, **unused):
    """DecodeAndCropJpeg."""
    data, op = _scalar(contents), "DecodeAndCropJpeg"
    if crop_window.shape != (4,):
        raise CodecError(f"{op}: crop_window must have four elements, got shape "
                         f"{list(crop_window.shape)}")
    if _kind(data, op) != "JPEG":
        raise CodecError(f"{op}: the string is no JPEG file")
    image = _jpeg(data, channels, op, ratio, try_recover_truncated, acceptable_fraction)
    y, x, height, width = (int(n) for n in crop_window)
    if min(y, x) < 0 or min(height, width) <= 0 or y + height > image.shape[0] \
            or x + width > image.shape[1]:
        raise CodecError(f"{op}: Invalid crop window: {height} x {width} at ({y}, {x}) of an image "
                         f"of {image.shape[0]} x {image.shape[1]}")
    return np.ascontiguousarray(image[y:y + height, x:x + width])


def decode_png(contents, channels, dtype):
    """DecodePng."""
    data = _scalar(contents)
    return _converted(_any(data, channels, dtype != UINT8, "DecodePng"), dtype, data)


def decode_gif(contents):
    """DecodeGif: a file that is no GIF comes back as one frame."""
    data, op = _scalar(contents), "DecodeGif"
    if _kind(data, op) == "GIF":
        return _gif(data, op)
    return _any(data, 3, False, op)[None]


def decode_bmp(contents, channels):
    """DecodeBmp."""
    return _bmp(_scalar(contents), channels, "DecodeBmp")


def decode_image(contents, channels, dtype, expand_animations):
    """DecodeImage."""
    data, op = _scalar(contents), "DecodeImage"
    if not expand_animations and _kind(data, op) == "GIF":
        return _converted(_gif(data, op, first=True)[0], dtype, data)
    return _converted(_any(data, channels, dtype != UINT8, op, animated=True), dtype, data)


def extract_jpeg_shape(contents, output_type):
    """ExtractJpegShape."""
    data, op = _scalar(contents), "ExtractJpegShape"
    if _kind(data, op) != "JPEG":
        raise CodecError(f"{op}: the string is no JPEG file")
    with _opened(data, "JPEG", op) as image:
        channels = len(image.getbands())
        return np.array([image.height, image.width, channels],
                        np.int64 if output_type == INT64 else np.int32)


def _check_image(image, allowed, op, batch=False):
    if image.ndim < 3 or image.ndim > 3 and not batch:
        raise CodecError(f"{op}: image must be 3-dimensional, [height, width, channels], got shape "
                         f"{list(image.shape)}")
    if image.shape[-1] not in allowed:
        raise CodecError(f"{op}: image must have {', '.join(map(str, allowed))} channels, got "
                         f"{image.shape[-1]} channels in shape {list(image.shape)}")


def encode_png(image, compression):
    """EncodePng."""
    op = "EncodePng"
    _check_image(image, (1, 2, 3, 4), op, batch=True)
    if not -1 <= compression <= 9:
        raise CodecError(f"{op}: compression should be in [-1,9], got {compression}")
    if 0 in image.shape[-3:-1]:
        raise CodecError(f"{op}: cannot encode an empty image of shape {list(image.shape)}")
    made = np.empty(image.shape[:-3], object)
    for at in np.ndindex(made.shape):
        made[at] = _write_png(image[at], compression)
    return made


def encode_jpeg(image, format, quality, progressive, optimize_size, chroma_downsampling,
                density_unit, x_density, y_density, xmp_metadata):
    """EncodeJpeg."""
    op = "EncodeJpeg"
    _check_image(image, {"grayscale": (1,), "rgb": (3,)}.get(format, (1, 3)), op)
    density = (1 if density_unit == "in" else 2, *(min(max(n, 0), 65535)
                                                   for n in (x_density, y_density)))
    return np.array(_write_jpeg(image, quality, progressive, optimize_size, chroma_downsampling,
                                density, xmp_metadata, op), object)


def encode_jpeg_variable_quality(images, quality):
    """EncodeJpegVariableQuality."""
    op = "EncodeJpegVariableQuality"
    _check_image(images, (1, 3), op)
    if quality.shape != ():
        raise CodecError(f"{op}: quality must be scalar, got shape {list(quality.shape)}")
    return np.array(_write_jpeg(images, int(quality), False, False, True, (1, 300, 300), "", op),
                    object)


KERNELS = {
    "DecodeJpeg": decode_jpeg, "DecodeAndCropJpeg": decode_and_crop_jpeg, "DecodePng": decode_png,
    "DecodeGif": decode_gif, "DecodeBmp": decode_bmp, "DecodeImage": decode_image,
    "ExtractJpegShape": extract_jpeg_shape, "EncodePng": encode_png, "EncodeJpeg": encode_jpeg,
    "EncodeJpegVariableQuality": encode_jpeg_variable_quality,
}
