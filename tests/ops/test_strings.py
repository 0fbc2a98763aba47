"""Strings beside the derived tests: regular expressions that would hang others, errors, limits."""
import base64
import decimal
import fractions
import re

import numpy as np
import pytest
from quiet import clock

import pyflow as tf


@pytest.fixture(autouse=True)
def fresh_graph():
    with tf.Graph().as_default():
        yield


def run(tensors, feeds=None):
    with tf.Session() as session:
        return session.run(tensors, feeds)


# ---------------------------------------------------------------- regular expressions
@pytest.mark.alone
def test_no_expression_backtracks():
    """Each of these takes a backtracking matcher 2^30 steps on 30 letters."""
    text = tf.placeholder(tf.string, [])
    patterns = ["(a+)+$b", "(a|aa)+c", "(a*)*d", "(a|a)*e", "a?" * 30 + "a" * 30 + "f"]
    made = [tf.strings.regex_full_match(text, p) for p in patterns]
    made += [tf.regex_replace(text, p, "x") for p in patterns]
    with tf.Session() as session:
        before = clock()
        session.run(made, {text: b"a" * 500})
        short = clock() - before
        before = clock()
        found = session.run(made, {text: b"a" * 3000})
        assert clock() - before < 200 * short
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


def test_bad_rewrites_are_empty():
    for rewrite in (r"\1", "\\", r"\x"):                                 # TensorFlow 1.15.5's answers
        assert run(tf.regex_replace(["abc"], "b", rewrite)).tolist() == [b"ac"]


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


# ---------------------------------------------------------------- numbers
def doubles(rng, count):
    """Of all sizes, with few digits and with many, ties of rounding among them."""
    whole = rng.integers(-10**6, 10**6, count)
    parts = [rng.integers(0, 2**64, count, np.uint64).view(np.float64), rng.standard_normal(count),
             whole / 128, whole / 2.0**20, whole * 1e6, 10.0 ** rng.uniform(-30, 30, count),
             np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 1.7e308, 9e12, 2.0**53, 0.5, 1.5,
                       2.5, 0.125, 0.0000005, 0.9999995, -1e-9, 9.2e18, 2.0**63])]
    return np.concatenate(parts)


@pytest.mark.parametrize("precision", [-1, 0, 1, 3, 6, 9, 10, 17])
def test_reals_as_text_have_all_digits_right(precision):
    """Python prints an exact decimal value, rounded to even, as the C library does."""
    with np.errstate(all="ignore"):
        wide = doubles(np.random.default_rng(precision + 1), 300)
        for dtype in (tf.float64, tf.float32, tf.half, tf.bfloat16):
            x = wide.astype(dtype.as_numpy_dtype)
            places = 6 if precision < 0 else precision
            got = run(tf.as_string(tf.constant(x), precision=precision))
            wanted = ["%.*f" % (places, v) for v in x.astype(np.float64)]
            same = [g.decode() == w or (v != v and g.endswith(b"nan"))
                    for g, w, v in zip(got, wanted, x.astype(np.float64))]
            assert all(same), (dtype, [(g, w) for g, w, s in zip(got, wanted, same) if not s][:5])


def test_reals_as_shortest_text():
    rng = np.random.default_rng(2)
    with np.errstate(all="ignore"):
        whole = rng.integers(0, 10**7, 300)
        near = [10.0**k * f for k in range(-14, 19) for f in (1, 0.9999995, 0.99999949, 1.0000005)]
        halves = [whole / 4.0 + 0.5, whole * 10.0 + 5, -whole / 1e9]
        x = np.concatenate([doubles(rng, 300), near, *halves])
        x = x[np.isfinite(x)]
        for dtype in (tf.float64, tf.float32):
            v = x.astype(dtype.as_numpy_dtype)
            v = v[np.isfinite(v)]
            got = run(tf.as_string(tf.constant(v), shortest=True))
            assert [g.decode() for g in got] == ["%g" % u for u in v.astype(np.float64)]


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                                  "uint64"])
def test_integers_as_text(name):
    limits = np.iinfo(name)
    near = [v for d in range(20) for v in (10**d - 1, 10**d, -(10**d), 1 - 10**d)]
    x = np.array([v for v in [limits.min, limits.max, 0, *near]
                  if limits.min <= v <= limits.max], name)
    assert run(tf.as_string(tf.constant(x))).tolist() == [str(v).encode() for v in x.tolist()]
    wide = run(tf.as_string(tf.constant(x), width=8, fill="0")).tolist()
    assert wide == [b"%08d" % v for v in x.tolist()]


def spellings(rng, count):
    """Decimal text of every kind: long, short, halfway between floats, beyond all ranges."""
    x = doubles(rng, count)
    x = x[np.isfinite(x)]
    with np.errstate(all="ignore"):
        f = np.abs(x.astype(np.float32))
        f = f[np.isfinite(f) & (f < 1e30)]
        middle = (f.astype(np.float64) + np.nextafter(f, np.float32(np.inf)).astype(np.float64)) / 2
    made = [repr(float(v)) for v in x]
    made += [f"{v:.{places}g}" for v in middle for places in (19, 30)]
    made += [f"{v:.{rng.integers(0, 18)}f}" for v in x if abs(v) < 1e12]
    for _ in range(count):
        made.append("%d.%de%+d" % tuple(rng.integers([0, 0, -45], [10**9, 10**9, 40])))
    made += ["1.", ".5", "+3", "-0", "-.0e5", "1E5", "1e00003", " 7 ", "\t8\n", "0" * 30 + "12",
             "18446744073709551615", "18446744073709551616", "9999999999999999999", "1e400",
             "-1e400", "1e-400", "3.4028235e38", "3.4028236e38", "1e-45", "1.17549429e-38",
             "123456789012345678901234567890", "0." + "0" * 25 + "1", "12345678", "123456789"]
    return made


def test_text_as_reals_is_rounded_once():
    texts = spellings(np.random.default_rng(11), 200)
    made = tf.constant(texts)
    with np.errstate(all="ignore"):
        wide, narrow = run([tf.string_to_number(made, tf.float64), tf.string_to_number(made)])
        np.testing.assert_array_equal(wide, [float(t) for t in texts])
        assert (np.signbit(wide) == [t.strip().startswith("-") for t in texts]).all()
        for text, got in zip(texts, narrow):
            assert got == np.float32(nearest_float(text)), text


def nearest_float(text):
    """The float32 nearest to the exact decimal value, ties to even: by rational arithmetic."""
    exact = fractions.Fraction(decimal.Decimal(text.strip()))
    near = np.float32(float(text))
    if np.isinf(near):
        near = np.copysign(np.finfo(np.float32).max, near)
    around = [np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf)] + [near]
    around = [v for v in around if np.isfinite(v)]
    best = min(around, key=lambda v: (abs(fractions.Fraction(float(v)) - exact),
                                      int(np.float32(v).view(np.uint32)) & 1))
    beyond = fractions.Fraction(2) ** 128 - fractions.Fraction(2) ** 103
    return best if abs(exact) < beyond else np.copysign(np.inf, float(text))


def test_text_as_integers():
    texts = ["0", "-0", "+12", "007", "2147483647", "-2147483648", " 5 ", "12345678"]
    for dtype in (tf.int32, tf.int64):
        assert run(tf.string_to_number(texts, dtype)).tolist() == [int(t) for t in texts]
    ends = ["9223372036854775807", "-9223372036854775808", "999999999999999999"]
    assert run(tf.string_to_number(ends, tf.int64)).tolist() == [int(t) for t in ends]
    for wrong in ("", "-", "1.0", "1e3", "2147483648", "-2147483649", "9223372036854775808", "1 2",
                  "18446744073709551617"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="could not correctly convert"):
            run(tf.string_to_number([wrong], tf.int32))
    for wrong in ("", ".", "e5", "1e", "1e+", "1.2.3", "--1", "1_0", "1e5x", "1\0"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="could not correctly convert"):
            run(tf.string_to_number([wrong]))


# ---------------------------------------------------------------- regular expressions at length
def test_long_texts_agree_with_python():
    """Texts on which the automaton's table fills up, its budget ends, or bytes are no UTF-8."""
    rng = np.random.default_rng(5)
    letters = ["a", "b", "c", "é", "€", "😀", " ", "1"]
    texts = np.array(["".join(rng.choice(letters, 400)).encode() for _ in range(4)]
                     + [b"a" * 500, b"ab" * 300 + b"c", "é€".encode() * 99], object)
    patterns = ["(a|b)*c", "a(.{6})b", "[é€]+", "(a|ab)(c|bcd)?(1*)", "(?:a*b)|a", "[^a]{3,7}?1",
                ".", "((?:a|é)+)( +)", "x", "(?:[ab]{1,9}c){2}", "1|2|a.a.a.a", "(?:.a){1,8}b"]
    made = [tf.regex_replace(texts, p, r"<\0>") for p in patterns]
    made += [tf.regex_replace(texts, p, r"[\1]") for p in patterns if re.compile(p).groups]
    found = run(made)
    for p, got in zip(patterns, found):
        assert list(got) == [re.sub(p, r"<\g<0>>", t.decode()).encode() for t in texts], p
    for p, got in zip([p for p in patterns if re.compile(p).groups], found[len(patterns):]):
        wanted = [re.sub(p, lambda m: f"[{m.group(1) or ''}]", t.decode()).encode() for t in texts]
        assert list(got) == wanted, p


def test_repetitions_that_prefer_nothing_end_there():
    """What TensorFlow answers: x* of an x that may be empty is (x+)?."""
    wanted = {"(|a)*": "<>aa", "(|a)+": "<>aa", "(?:a*?)*": "<>aa", "(?:|a){2,}": "<>aa",
              "(?:(?:a{1,3})??)*(?:bc)?": "<>aa", "(?:(?:a|[^c])??(?:cb){0,1})*": "<>aa",
              "(?:a|)*": "<aa>", "(a?)*?": "<>aa", "(?:a?){2,}": "<aa>"}
    made = [tf.regex_replace("aa", p, r"<\0>", replace_global=False) for p in wanted]
    assert [v.decode() for v in run(made)] == list(wanted.values())


def test_bytes_that_are_no_utf8_match_nothing():
    texts = np.array([b"a\xffb", b"\xc3", b"\xe2\x82a", b"\x80\xc3\xa9\x80"], object)
    got = run([tf.regex_replace(texts, ".", "x"), tf.regex_replace(texts, "[^a]", "x")])
    assert list(got[0]) == [b"x\xffx", b"\xc3", b"\xe2\x82x", b"\x80x\x80"]
    assert list(got[1]) == [b"a\xffx", b"\xc3", b"\xe2\x82a", b"\x80x\x80"]


# ---------------------------------------------------------------- base64 and edit distance
def test_base64_of_every_length():
    rng = np.random.default_rng(9)
    texts = np.array([bytes(rng.integers(0, 256, n, np.uint8)) for n in range(40)], object)
    padded, bare = run([tf.encode_base64(texts, pad=True), tf.encode_base64(texts)])
    wanted = [base64.urlsafe_b64encode(t) for t in texts]
    assert list(padded) == wanted and list(bare) == [w.rstrip(b"=") for w in wanted]
    again = run([tf.decode_base64(padded), tf.decode_base64(bare)])
    assert list(again[0]) == list(again[1]) == list(texts)
    for wrong in (b"ab=c", b"a\xffbc", b"ab\0c", b"a*bc", b"ab+/"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Invalid character"):
            run(tf.decode_base64(tf.constant(wrong)))


def levenshtein(a, b):
    line = list(range(len(b) + 1))
    for p, x in enumerate(a, 1):
        corner, line[0] = line[0], p
        for q, y in enumerate(b, 1):
            corner, line[q] = line[q], min(line[q] + 1, line[q - 1] + 1, corner + (x != y))
    return line[-1]


def test_edit_distance_reads_no_place_along_the_last_dimension():
    def distance(hypothesis, truth, shape=(1, 1, 1), normalize=False):
        sides = [tf.SparseTensor([at for at, _ in side], [letter for _, letter in side], list(shape))
                 for side in (hypothesis, truth)]
        return run(tf.edit_distance(*sides, normalize=normalize)).tolist()
    bear = [([0, 0, k], letter) for k, letter in enumerate("bear")]
    beers = [([0, 0, k], letter) for k, letter in zip((0, 1, 1, 3, 4), "beers")]
    assert distance(bear, beers) == [[2.0]]                               # TensorFlow 2.21's answers
    assert distance(bear, beers, normalize=True) == [[pytest.approx(0.4)]]
    assert distance([([0, 0, 1], "a"), ([0, 0, 0], "b")], [([0, 0, 0], "a")]) == [[1.0]]
    assert distance([([0, 0, -1], "a")], [([0, 0, 0], "a")]) == [[0.0]]
    for at in ([0, 1, 0], [1, 0, 0], [0, -1, 0]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
            distance([(at, "a")], [([0, 0, 0], "a")])
    # out of order they are merged as they come: TensorFlow 1.15.5's and 2.21's answer
    assert distance([([1, 0, 0], "a"), ([0, 0, 0], "b")], [([0, 0, 0], "a")],
                    (2, 1, 2)) == [[1.0], [1.0]]


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "float32", "string"])
def test_edit_distances_of_short_and_long_rows(dtype):
    rng = np.random.default_rng(13)
    lengths = [(0, 0), (0, 5), (5, 0), (1, 1), (63, 64), (64, 63), (64, 64), (65, 64), (64, 65),
               (90, 130), (7, 64), (64, 1), (20, 20)]
    rows = [[rng.integers(0, 4, n) for n in pair] for pair in lengths]
    sides = []
    for side in (0, 1):
        at = [(r, k) for r, row in enumerate(rows) for k in range(len(row[side]))]
        values = np.concatenate([row[side] for row in rows])
        values = values.astype(str).astype(object) if dtype == "string" else values.astype(dtype)
        sides.append(tf.SparseTensor(np.array(at, np.int64), tf.constant(values), [len(rows), 200]))
    found = run(tf.edit_distance(*sides, normalize=False))
    assert found.tolist() == [levenshtein(*row) for row in rows]
