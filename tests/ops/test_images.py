"""Images beside the derived tests: files good and bad, errors, hostile sizes."""
import io
import struct
import sys
import zlib

import numpy as np
import pytest

import pyflow as tf

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(2).integers(0, 256, (9, 11, 3)).astype(np.uint8)


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def run(tensors, feeds=None):
    with tf.Session() as session:
        return session.run(tensors, feeds)


def file_of(image, kind, **how):
    made = io.BytesIO()
    image.save(made, kind, **how)
    return made.getvalue()


# ---------------------------------------------------------------- files
@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1"])
def test_png_of_every_kind(mode):
    image = Image.fromarray(PIXELS)
    image = image.quantize(16) if mode == "P" else image.convert(mode)
    data = file_of(image, "PNG")
    own, grey, rgb, rgba = run([tf.image.decode_png(data, channels=c) for c in (0, 1, 3, 4)])
    wanted = np.asarray(image.convert({"P": "RGB", "1": "L"}.get(mode, mode)))
    np.testing.assert_array_equal(own, wanted.reshape(9, 11, -1))
    assert grey.shape == (9, 11, 1) and rgba.shape == (9, 11, 4)
    np.testing.assert_array_equal(rgb, rgba[..., :3])


def test_animated_gif():
    frames = [Image.fromarray(np.roll(PIXELS, i, 0)).quantize(32) for i in range(3)]
    data = file_of(frames[0], "GIF", save_all=True, append_images=frames[1:])
    every, one = run([tf.image.decode_image(data),
                      tf.image.decode_image(data, expand_animations=False)])
    assert every.shape == (3, 9, 11, 3)
    np.testing.assert_array_equal(every[0], one)
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 frames"):
        run(tf.image.decode_png(data))


def test_bmp_both_ways_up():
    data = file_of(Image.fromarray(PIXELS), "BMP")
    flipped = bytearray(data)
    flipped[22:26] = struct.pack("<i", -9)
    found = run([tf.image.decode_bmp(data), tf.image.decode_bmp(bytes(flipped))])
    np.testing.assert_array_equal(found[0], PIXELS)
    np.testing.assert_array_equal(found[1], PIXELS[::-1])


def test_jpeg_smaller_and_cropped():
    smooth = np.uint8(np.add.outer(np.arange(40) * 3, np.arange(50))[..., None] + [0, 20, 40])
    data = file_of(Image.fromarray(smooth), "JPEG", quality=95)
    whole, half, window = run([
        tf.image.decode_jpeg(data), tf.image.decode_jpeg(data, ratio=2),
        tf.image.decode_and_crop_jpeg(data, [3, 5, 7, 11])])
    assert np.abs(whole.astype(int) - smooth).mean() < 4
    assert half.shape == (20, 25, 3)
    np.testing.assert_array_equal(window, whole[3:10, 5:16])
    for bad in ([0, 0, 41, 1], [-1, 0, 2, 2], [0, 0, 0, 1], [0, 45, 2, 6]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="crop window"):
            run(tf.image.decode_and_crop_jpeg(data, bad))


def test_what_is_no_image_is_an_error():
    contents = tf.placeholder(tf.string, [])
    decoders = [tf.image.decode_image(contents), tf.image.decode_png(contents),
                tf.image.decode_jpeg(contents), tf.image.decode_gif(contents),
                tf.image.decode_bmp(contents), tf.image.extract_jpeg_shape(contents)]
    good = [file_of(Image.fromarray(PIXELS), kind) for kind in ("PNG", "JPEG", "BMP")]
    files = [b"", b"no image", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM"]
    files += [data[:len(data) * part // 7] for data in good for part in (1, 3, 6)]
    with tf.Session() as session:
        for data in files:
            for decoder in decoders[:5]:
                with pytest.raises(tf.errors.InvalidArgumentError):
                    session.run(decoder, {contents: data})
        for data in files[:6]:
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(decoders[5], {contents: data})


def test_corrupted_files_fail_cleanly():
    """Bytes changed at random: an image or an InvalidArgumentError."""
    rng = np.random.default_rng(5)
    contents = tf.placeholder(tf.string, [])
    decoder = tf.image.decode_image(contents)
    with tf.Session() as session:
        for kind in ("PNG", "JPEG", "GIF", "BMP"):
            data = np.frombuffer(file_of(Image.fromarray(PIXELS), kind), np.uint8)
            for _ in range(60):
                broken = data.copy()
                broken[rng.integers(0, len(data), 3)] = rng.integers(0, 256, 3)
                try:
                    assert session.run(decoder, {contents: broken.tobytes()}).dtype == np.uint8
                except tf.errors.InvalidArgumentError:
                    pass


def test_bombs_are_refused():
    """A file of 60 bytes that claims 2^31 pixels is refused from its header."""
    header = struct.pack(">IIBBBBB", 46341, 46341, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    png = (b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk
           + struct.pack(">I", zlib.crc32(chunk)))
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(tf.image.decode_png(png))
    bmp = b"BM" + struct.pack("<IIIIiiHHIIIIII", 54, 0, 54, 40, 46341, 46341, 1, 24, *[0] * 6)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        run(tf.image.decode_bmp(bmp))


def test_without_pillow_the_error_names_it(monkeypatch):
    data = file_of(Image.fromarray(PIXELS), "PNG")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(tf.errors.UnimplementedError, match="pip install pillow"):
        run(tf.image.decode_png(data))
    assert run(tf.image.encode_png(PIXELS)).startswith(b"\x89PNG")


# ---------------------------------------------------------------- functions
def test_resized_constants_stay_constant():
    x = tf.fill([2, 5, 7, 3], 0.7)
    for method in range(4):
        y = run(tf.image.resize_images(x, [11, 4], method))
        np.testing.assert_allclose(y, 0.7, rtol=1e-5)
    assert tf.image.resize_images(x, [5, 7]) is not None
    assert run(tf.image.resize_images(tf.zeros([4, 4, 1], tf.uint8), [4, 4])).dtype == np.uint8


def test_crops_and_pads_of_unknown_sizes():
    x = tf.placeholder(tf.float32, [None, None, None, 2])
    value = np.random.default_rng(0).standard_normal((2, 5, 8, 2)).astype(np.float32)
    made = run([tf.image.resize_image_with_crop_or_pad(x, 7, 4),
                tf.image.crop_to_bounding_box(x, 1, 2, 3, 4),
                tf.image.central_crop(x, 0.5), tf.image.rot90(x)], {x: value})
    assert made[0].shape == (2, 7, 4, 2)
    np.testing.assert_array_equal(made[0][:, 1:6], value[:, :, 2:6])
    np.testing.assert_array_equal(made[1], value[:, 1:4, 2:6])
    np.testing.assert_array_equal(made[2], value[:, 1:4, 2:6])
    np.testing.assert_array_equal(made[3], np.rot90(value, axes=(1, 2)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="height must be"):
        run(tf.image.crop_to_bounding_box(x, 3, 0, 3, 4), {x: value})


@pytest.mark.parametrize("build, words", [
    (lambda x: tf.image.resize_bilinear(x[0], [2, 2]), "rank 4"),
    (lambda x: tf.image.resize_images(x, [2, 2, 2]), "2 elements"),
    (lambda x: tf.image.crop_to_bounding_box(x, 0, 0, 9, 1), "height must be"),
    (lambda x: tf.image.pad_to_bounding_box(x, 0, 0, 1, 9), "height must be"),
    (lambda x: tf.image.central_crop(x, 0.0), "central_fraction"),
    (lambda x: tf.image.random_hue(x, 0.7), "max_delta"),
    (lambda x: tf.image.random_contrast(x, 2, 1), "upper"),
    (lambda x: tf.image.rgb_to_hsv(x[..., :2]), "3 channels"),
    (lambda x: tf.image.grayscale_to_rgb(x), "size 1"),
    (lambda x: tf.image.crop_and_resize(x, [[0.0] * 3], [0], [2, 2]), "4 columns"),
    (lambda x: tf.image.ssim(x, x, 1.0), "filter_size"),
    (lambda x: tf.image.flip_left_right(x[0, 0]), "three-dimensional"),
    (lambda x: tf.image.non_max_suppression(x[0, 0], [1.0], 2), "5 and 1|incompatible|compatible"),
])
def test_shape_errors_say_what_is_wrong(build, words):
    with pytest.raises(ValueError, match=words):
        build(tf.zeros([2, 4, 5, 3]))


def test_hostile_values():
    boxes = tf.placeholder(tf.float32, [None, 4])
    crops = tf.image.crop_and_resize(tf.ones([1, 4, 4, 1]), boxes, [0], [2, 2])
    hue = tf.image.adjust_hue(tf.ones([1, 1, 3]) * [[[0.2, 0.5, 0.9]]], boxes[0, 0])
    drawn = tf.image.draw_bounding_boxes(tf.zeros([1, 4, 4, 3]), boxes[None])
    for bad in (np.nan, np.inf, -np.inf, 3e38, -3e38):
        found = run([crops, hue, drawn], {boxes: np.full((1, 4), bad)})
        assert found[0].shape == (1, 2, 2, 1) and found[1].shape == (1, 1, 3)
    with pytest.raises(tf.errors.OutOfRangeError, match="box_index"):
        run(tf.image.crop_and_resize(tf.ones([1, 4, 4, 1]), [[0.0, 0, 1, 1]], [1], [2, 2]))
    size = tf.placeholder(tf.int32, [2])
    resized = tf.image.resize_bilinear(tf.ones([1, 4, 4, 1]), size)
    for bad in ([0, 3], [-1, 2]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="positive"):
            run(resized, {size: bad})
    with pytest.raises(tf.errors.ResourceExhaustedError):
        run(tf.image.non_max_suppression_padded([[0.0, 0, 1, 1]], [1.0], 2 ** 31 - 1,
                                                pad_to_max_output_size=True))


# ----------------------------------------------------- files that end early, or lie about their size

def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, rows, kind=2, bits=8, end=True, pieces=1):
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    stream = zlib.compress(rows)
    step = max(1, len(stream) // pieces)
    data = b"".join(chunk(b"IDAT", stream[i:i + step]) for i in range(0, len(stream), step))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data
            + (chunk(b"IEND", b"") if end else b""))


ROWS = b"".join(b"\0" + bytes((x * y) % 251 for x in range(9)) for y in range(4))
BLACK = bytes(40)


@pytest.mark.parametrize("data", [
    png(3, 4, ROWS, end=False), png(3, 4, ROWS[:20]), png(3, 4, BLACK[:20]), png(3, 4, ROWS)[:60],
    png(20000, 6000, ROWS), png(100, 100, ROWS), png(3, 4, bytes(21), kind=0, bits=16),
    png(9, 4, bytes(9), kind=0, bits=1), b"\x89PNG\r\n\x1a\n"])
@pytest.mark.parametrize("decode", [tf.image.decode_png, tf.image.decode_image])
def test_a_png_without_all_its_pixels_is_refused(data, decode):
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(decode(data))


@pytest.mark.parametrize("data, total", [
    (png(3, 4, ROWS), sum(ROWS)), (png(3, 4, BLACK), 0), (png(3, 4, ROWS, pieces=5), sum(ROWS)),
    (png(3, 4, ROWS + ROWS), sum(ROWS)), (png(3, 4, bytes(28), kind=0, bits=16), 0),
    (png(9, 4, bytes(12), kind=0, bits=1), 0)])
def test_a_png_with_them_is_not(data, total):
    assert run(tf.image.decode_png(data)).sum() == total


def test_lying_files_take_no_memory():
    """A 52-byte GIF of 12000 x 12000 pixels cost 1.3 GB, a 110-byte PNG 400 MB."""
    import resource
    gif = (b"GIF89a" + struct.pack("<HH", 12000, 12000) + b"\x80\0\0\0\0\0\xff\xff\xff,"
           + struct.pack("<HHHH", 0, 0, 12000, 12000) + b"\0\x02\x02\x44\x01\0;")
    small = file_of(Image.fromarray(PIXELS), "GIF")
    run(tf.image.decode_gif(small))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for decode, data in ((tf.image.decode_gif, gif), (tf.image.decode_image, gif),
                         (tf.image.decode_png, png(20000, 6000, ROWS))):
        with pytest.raises(tf.errors.InvalidArgumentError, match="are not the"):
            run(decode(data))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50000      # kB


def test_pngs_are_filtered_as_libpng_does():
    """A ramp took 145 kB. 721 and 713 bytes are TensorFlow's sizes."""
    ramp = np.tile(np.arange(256, dtype=np.uint8)[None, :, None], (256, 1, 3))
    slope = (np.add.outer(np.arange(60), np.arange(80))[..., None] * 2).astype(np.uint8)
    for image, most in ((ramp, 721), (ramp.transpose(1, 0, 2), 1200), (slope, 200),
                        (ramp[..., :1].astype(np.uint16) * 200, 713), (PIXELS, 450)):
        data = run(tf.image.encode_png(np.ascontiguousarray(image)))
        assert len(data) <= most
        assert np.array_equal(run(tf.image.decode_png(data, dtype=image.dtype)), image)
