"""A decoder cannot be stopped, but a step that is late does not wait for it."""
import struct
import threading
import time
import zlib

import numpy as np
import pytest

import pyflow as tf
from pyflow.ops.image import image_codec


def png(width, height, noise=False):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    one = np.random.RandomState(0).bytes if noise else bytes
    rows = b"".join(b"\0" + one(width) for _ in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))


@pytest.fixture(name="held")
def _held(monkeypatch):
    """The PNG decoder, which now hangs in its library until `held` is set."""
    release, decode = threading.Event(), image_codec._png
    over = []

    def hang(*args, **attrs):
        release.wait(30)
        over.append(True)
        return decode(*args, **attrs)
    monkeypatch.setattr(image_codec, "_png", hang)
    release.over = over
    yield release
    release.set()
    end = time.monotonic() + 10
    while len(over) < release.begun and time.monotonic() < end:
        time.sleep(0.01)
    assert len(over) == release.begun


def late(sess, fetch, feeds):
    start = time.monotonic()
    with pytest.raises(tf.errors.DeadlineExceededError, match="DecodePng"):
        sess.run(fetch, feeds, options=tf.RunOptions(timeout_in_ms=50))
    return time.monotonic() - start


def test_a_hanging_decoder_does_not_keep_its_step(held):
    held.begun = 2
    with tf.Graph().as_default():
        x = tf.placeholder(tf.string, [])
        y = tf.reduce_sum(tf.cast(tf.image.decode_png(x), tf.int32))
        with tf.Session() as sess:
            assert late(sess, y, {x: png(4, 4)}) < 1
            assert late(sess, y, {x: png(4, 4)}) < 1
            assert not held.over
            held.set()
            assert sess.run(y, {x: png(4, 4)}) == 0         # what is left over is thrown away
            held.begun += 1


def test_nor_does_one_whose_session_is_gone(held):
    """It ends long after its plan, and touches nothing of it."""
    held.begun = 1
    with tf.Graph().as_default():
        x = tf.placeholder(tf.string, [])
        with tf.Session() as sess:
            late(sess, tf.image.decode_png(x), {x: png(4, 4)})


def test_close_ends_a_step_over_much_data(held):
    held.begun = 1
    data = png(700, 700, noise=True)
    assert len(data) > 400000
    with tf.Graph().as_default():
        x = tf.placeholder(tf.string, [])
        y = tf.image.decode_png(x)
        sess, got = tf.Session(), []

        def run():
            try:
                sess.run(y, {x: data})
            except tf.errors.OpError as e:
                got.append(type(e))
        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.1)
        sess.close()
        thread.join(5)
    assert got == [tf.errors.CancelledError]


def test_a_real_one_is_in_time():
    """3000 x 3000 bytes take Pillow some 50 ms; the step has 5."""
    data = png(3000, 3000)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.string, [])
        y = tf.reduce_sum(tf.cast(tf.image.decode_png(x, channels=1), tf.int32))
        with tf.Session() as sess:
            start = time.monotonic()
            assert sess.run(y, {x: data}, options=tf.RunOptions(timeout_in_ms=60000)) == 0
            whole = time.monotonic() - start
            with pytest.raises(tf.errors.DeadlineExceededError):
                sess.run(y, {x: data}, options=tf.RunOptions(timeout_in_ms=5))
    assert whole < 60
