"""Strings beside the derived tests: regular expressions that would hang others, errors, limits."""
import re
import time

import numpy as np
import pytest

import pyflow as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def run(tensors, feeds=None):
    with tf.Session() as session:
        return session.run(tensors, feeds)


# ---------------------------------------------------------------- regular expressions
def test_no_expression_backtracks():
    """Each of these takes a backtracking matcher 2^30 steps on 30 letters."""
    text = tf.placeholder(tf.string, [])
    patterns = ["(a+)+$b", "(a|aa)+c", "(a*)*d", "(a|a)*e", "a?" * 30 + "a" * 30 + "f"]
    made = [tf.strings.regex_full_match(text, p) for p in patterns]
    made += [tf.regex_replace(text, p, "x") for p in patterns]
    with tf.Session() as session:
        before = time.perf_counter()
        session.run(made, {text: b"a" * 500})
        short = time.perf_counter() - before
        before = time.perf_counter()
        found = session.run(made, {text: b"a" * 3000})
        assert time.perf_counter() - before < 200 * short
    assert not any(found[:5]) and all(f == b"a" * 3000 for f in found[5:])


def pieces(rng, depth=0):
    """A random pattern that Python and RE2 read alike."""
    kind = rng.integers(0, 8 if depth < 3 else 4)
    if kind < 3:
        return str(rng.choice(["a", "b", "c", "ab", "."]))
    if kind == 3:
        return str(rng.choice(["[ab]", "[^a]", r"\w", r"\b", "^", "$", r"\s"]))
    if kind == 4:
        return "(" + pieces(rng, depth + 1) + "|" + pieces(rng, depth + 1) + ")"
    if kind == 5:
        mark = str(rng.choice(["*", "+", "?", "{1,2}", "*?", "+?", "??"]))
        return "(?:" + pieces(rng, depth + 1).replace("^", "a").replace("$", "b").replace(
            r"\b", "c") + ")" + mark
    return pieces(rng, depth + 1) + pieces(rng, depth + 1)


def test_random_expressions_agree_with_python():
    """Replacement of the first match and full matches; empty repeated groups are where dialects
    differ and are left out."""
    rng = np.random.default_rng(7)
    texts = np.array(["".join(rng.choice(list("abc "), rng.integers(0, 9))).encode()
                      for _ in range(25)], object)
    patterns = []
    while len(patterns) < 150:
        p = pieces(rng)
        inner = [g for g in re.findall(r"\(\?:(.*)\)[*+?{]", p)]
        if not any(re.fullmatch(g, "") for g in inner if _compiles(g)):
            patterns.append(p)
    made = [[tf.regex_replace(texts, p, "<\\0>", replace_global=False),
             tf.strings.regex_full_match(texts, p)] for p in patterns]
    for p, (replaced, full) in zip(patterns, run(made)):
        dollar = p.replace("$", r"\Z").encode()
        wanted = [re.sub(dollar, rb"<\g<0>>", t, count=1) for t in texts]
        assert list(replaced) == wanted, p
        assert list(full) == [re.fullmatch(dollar, t) is not None for t in texts], p


def _compiles(pattern):
    try:
        return bool(re.compile(pattern))
    except re.error:
        return False


@pytest.mark.parametrize("pattern", [
    "(", ")", "a)", "[", "[z-a]", "*", "a**", "a{2,1}", "a{1001}", "\\", r"\8", "(?<n", "(?P<n",
    "(?z)", r"\p", r"\pQ", r"\p{L", r"\p{Nope}", r"[\p{}]", r"\C", "((a{1000}){1000}){1000}",
    "(" * 300 + ")" * 300, "[[:nope:]]", b"\xff",
    "((?:){1000}){1000}" * 3])
def test_bad_patterns_are_errors(pattern):
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)Invalid pattern"):
        run(tf.regex_replace(["abc"], tf.constant(pattern), ""))


def test_bad_rewrites_are_errors():
    for rewrite in (r"\1", "\\", r"\x"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="rewrite"):
            run(tf.regex_replace(["abc"], "b", rewrite))


# ---------------------------------------------------------------- others
@pytest.mark.parametrize("build, words", [
    (lambda: tf.substr("abc", 4, 1), "pos 4 out of range"),
    (lambda: tf.substr("abc", -4, 1), "pos -4 out of range"),
    (lambda: tf.decode_base64("a+b="), "Invalid character|multiple of 4"),
    (lambda: tf.decode_base64("a"), "1 modulo 4"),
    (lambda: tf.decode_raw(["ab", "c"], tf.uint8), "same size"),
    (lambda: tf.decode_raw(["abc"], tf.int16), "multiple of 2"),
    (lambda: tf.decode_csv(["1,2"], [[0]])[0], "Expect 1 fields but have 2"),
    (lambda: tf.decode_csv(["x"], [[0]])[0], "not a valid int32: x"),
    (lambda: tf.decode_csv(["99999999999"], [[0]])[0], "not a valid int32"),
    (lambda: tf.decode_csv([","], [tf.constant([], tf.int32), [0]])[0], "required but missing"),
    (lambda: tf.decode_csv(['"a'], [[""]])[0], "Quoted field"),
    (lambda: tf.decode_csv(['a"'], [[""]])[0], "Unquoted fields"),
    (lambda: tf.decode_csv(["1"], [[0]], field_delim="::")[0], "only 1 char"),
    (lambda: tf.io.decode_compressed("nonsense", "ZLIB"), "no ZLIB data"),
    (lambda: tf.io.decode_compressed("nonsense", "LZMA"), "Only ZLIB, GZIP"),
    (lambda: tf.strings.upper("a", encoding="latin1"), "Only utf-8"),
    (lambda: tf.strings.unicode_transcode(b"\xff", "UTF-8", "UTF-8", "strict"), "Invalid format"),
    (lambda: tf.strings.unicode_transcode("a", "EBCDIC", "UTF-8"), "converter for encoding"),
    (lambda: tf.string_to_hash_bucket_strong("a", 3, [1]), "Key must have 2 elements"),
    (lambda: tf.strings.unsorted_segment_join(["a"], [3], 2), "out of range"),
])
def test_wrong_contents_are_errors(build, words):
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        run(build())


def test_strings_that_cannot_be_shaped():
    with pytest.raises(ValueError, match="vector"):
        tf.string_split([["a b"]])
    with pytest.raises(ValueError, match="placeholder"):
        tf.strings.format("{} {}", tf.constant(1))
    with pytest.raises(ValueError, match="result_type"):
        tf.strings.split(["a"], result_type="Rows")


def test_splits_feed_sparse_tensors():
    found = run(tf.string_split(["to be or", "not"]))
    assert list(found.values) == [b"to", b"be", b"or", b"not"]
    np.testing.assert_array_equal(found.dense_shape, [2, 3])
    words = run(tf.strings.split("a b"))
    assert list(words.values) == [b"a", b"b"]


def test_hostile_sizes_are_refused():
    with pytest.raises(tf.errors.ResourceExhaustedError):
        run(tf.raw_ops.DecodePaddedRaw(input_bytes=["a"] * 9, fixed_length=2 ** 30,
                                       out_type=tf.uint8))
    with pytest.raises(tf.errors.ResourceExhaustedError):
        run(tf.raw_ops.StringNGrams(
            data=["a", "b"], data_splits=np.int64([0, 2]), separator="", ngram_widths=[2 ** 30],
            left_pad="", right_pad="", pad_width=-1, preserve_short_sequences=False)[0])
