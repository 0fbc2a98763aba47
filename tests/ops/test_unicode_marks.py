"""Strings in UTF-16 and UTF-32 begin with a mark of their bytes' order, or are big-endian; a control
character that is to be replaced counts as an error.  Values are TensorFlow 1.15.5's (which looks for
a mark in the first string of a tensor alone)."""
import numpy as np
import pytest

import pyflow as tf


@pytest.mark.parametrize("width", [16, 32])
def test_the_mark_says_the_order(width):
    x = tf.constant(["\ufeffab".encode(f"utf-{width}-le"), *(
        text.encode(f"utf-{width}-be") for text in ("\ufeffab", "ab", "", "\ufeff"))])
    codes, offsets = tf.strings.unicode_decode_with_offsets(x, f"UTF-{width}")
    text = tf.strings.unicode_transcode(x, f"UTF-{width}", "UTF-8")
    with tf.Session() as session:
        assert session.run(text).tolist() == [b"ab", b"ab", b"ab", b"", b""]
        assert session.run(codes).to_list() == [[97, 98]] * 3 + [[], []]
        n = width // 8
        assert session.run(offsets).to_list() == [[0, 2 * n], [0, 2 * n], [0, n], [], []]


def test_a_mark_of_another_order_is_a_character():
    x = tf.constant(["\ufeffa".encode("utf-8"), "\ufeffa".encode("utf-16-le")])
    with tf.Session() as session:
        assert session.run(tf.strings.unicode_decode(x[0], "UTF-8")).tolist() == [0xfeff, 97]
        assert session.run(tf.strings.unicode_decode(x[1], "UTF-16-LE")).tolist() == [0xfeff, 97]


def test_half_a_character_is_an_error():
    x = tf.constant([b"\xff\xfea\x00b"])
    strict = tf.strings.unicode_transcode(x, "UTF-16", "UTF-8", errors="strict")
    with tf.Session() as session:
        assert session.run(tf.strings.unicode_transcode(x, "UTF-16", "UTF-8")).tolist() == [
            b"a\xef\xbf\xbd"]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid formatting"):
            session.run(strict)


@pytest.mark.parametrize("errors, text, codes", [
    ("ignore", b"ab", [97, 98]), ("replace", b"a\xef\xbf\xbdb", [97, 65533, 98]),
    ("strict", None, [97, 65533, 98])])
def test_control_characters_count_as_errors(errors, text, codes):
    x = tf.constant(["a\x01b"])
    transcoded = tf.strings.unicode_transcode(x, "UTF-8", "UTF-8", errors=errors,
                                              replace_control_characters=True)
    decoded = tf.strings.unicode_decode(x, "UTF-8", errors=errors, replace_control_characters=True)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(decoded).to_list(), [codes])
        if text is None:
            with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid formatting"):
                session.run(transcoded)
        else:
            assert session.run(transcoded).tolist() == [text]
