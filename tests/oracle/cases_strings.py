"""Strings: parts, splits, regular expressions, hashes, encodings, CSV, formats."""

import numpy as np

from cases import Input, ints, normal, op, value

WORDS = value([b"  a b ", b"Hello, World", b"x\ty\n", b"", b"aaa bbb"], object)
UMLAUTS = value(["a\u00e9\u4e2d", "stra\u00dfe", "", "\u00c9B\U0001f600z"], object)
BROKEN = value(
    [b"a\xc3\xa9\xff", b"\xff\xfex\xe4\xb8", b"a\xed\xa0\x80b\xf0\x90\x80c\x01", b""], object
)


def strings(name, function, *inputs):
    op("strings_" + name, function, *inputs, gradient=False)


def hexed(tf, x):
    """Bytes that are no text, as text, so that they can be kept."""
    return tf.encode_base64(x)


strings(
    "length",
    lambda tf, x, y: [tf.strings.length(x), tf.strings.length(y, unit="UTF8_CHAR")],
    WORDS,
    UMLAUTS,
)
strings("strip", lambda tf, x: tf.strings.strip(x), WORDS)
strings(
    "case",
    lambda tf, x, y: [
        tf.strings.lower(x),
        tf.strings.upper(x),
        hexed(tf, tf.strings.upper(y)),
        hexed(tf, tf.strings.upper(y, encoding="utf-8")),
        hexed(tf, tf.strings.lower(y, encoding="utf-8")),
    ],
    WORDS,
    UMLAUTS,
)
strings(
    "substr",
    lambda tf, x: [
        tf.substr(x, 1, 3),
        tf.substr(x, -2, 1),
        tf.substr(x, [0, 2], [9, -1]),
        tf.substr(tf.expand_dims(x, 1), [0, 1, 2], [3, 2, 1]),
    ],
    value([b"hello", b"wow"], object),
)
strings(
    "substr_characters",
    lambda tf, x: [
        hexed(tf, tf.substr(x, p, n, unit="UTF8_CHAR"))
        for p, n in ((0, 1), (1, 2), (-2, 2), (2, -1), (3, 5))
    ],
    value(["a\u00e9\u4e2d", "stra\u00dfe"], object),
)
for name, arguments in {
    "blank": dict(),
    "marks": dict(sep=",; "),
    "keep": dict(sep=" ", skip_empty=False),
    "bytes": dict(sep=""),
}.items():

    def split(tf, x, arguments=arguments):
        found = tf.string_split(x, **arguments)
        return [found.indices, found.values, found.dense_shape]

    strings("split_" + name, split, WORDS)
for sep, most in ((None, -1), (" ", -1), ("aa", -1), (None, 1), (" ", 1), (", ", 0), (None, 0)):

    def split_v2(tf, x, sep=sep, most=most):
        found = tf.raw_ops.StringSplitV2(input=x, sep=sep or "", maxsplit=most)
        return [found[0], found[1], found[2]]

    kind = "blank" if sep is None else len(sep)
    strings(f"split_v2_{kind}_{most}".replace("-", "m"), split_v2, WORDS)

EXPRESSIONS = [
    (r"l+", r"<\0>"),
    (r"(\w)(\w*)", r"\2\1"),
    (r"[aeiou]", "*"),
    (r"a*", "-"),
    (r"(a|b)*?b", r"[\0\1]"),
    (r"^\s*|\s+$", "|"),
    (r"(?i)hello|WORLD", "x"),
    (r"\b", "."),
    (r"(a|ab)(c|bcd)?", r"\1,\2"),
    (r"[^[:alpha:]]+", "_"),
    (r".", r"\\"),
    (r"(?P<first>\w)\W", r"\1"),
    (r"x{2,3}|a{2}", "#"),
    (r"\x61|\Q.+\E", "@"),
]
TEXTS = value(
    [b"hello, World", b"aaab abab", b"  trim  ", b"", b"xxxx.+a", b"abcd acd", b"one\ntwo"], object
)
strings(
    "regex_replace",
    lambda tf, x: [tf.regex_replace(x, p, r) for p, r in EXPRESSIONS]
    + [tf.regex_replace(x, p, r, replace_global=False) for p, r in EXPRESSIONS],
    TEXTS,
)
strings(
    "regex_replace_tensors",
    lambda tf, x, p, r: tf.raw_ops.RegexReplace(input=x, pattern=p, rewrite=r),
    TEXTS,
    value(b"(\\w+) (\\w+)", object),
    value(b"\\2 \\1", object),
)
strings(
    "regex_full_match",
    lambda tf, x: [
        tf.strings.regex_full_match(x, p)
        for p in (
            ".*", "(?s).*", "[a-z, W]+", "a*b|(ab ?)*|a+b abab", "", r"\w+[.]\+a",
            "(a|ab)(c|bcd) ?.*",
        )
    ],
    TEXTS,
)
strings(
    "regex_unicode",
    lambda tf, x: [
        hexed(tf, tf.regex_replace(x, ".", "<\\0>")),
        hexed(tf, tf.regex_replace(x, "[\u00df-\u00ef]", "?")),
        hexed(tf, tf.regex_replace(x, "", "-")),
        hexed(tf, tf.regex_replace(x, "[^a-z]", "!")),
    ],
    UMLAUTS,
)
strings(
    "join",
    lambda tf, x: [
        tf.string_join([x, x], separator="+"),
        tf.reduce_join(x, 0, separator=","),
        tf.strings.unsorted_segment_join(x, [0, 2, 0, 2, 2], 3, ":"),
    ],
    WORDS,
)

LENGTHS = [*range(0, 10), 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 500]


def texts(rng):
    return np.array([rng.integers(97, 123, n).astype(np.uint8).tobytes() for n in LENGTHS], object)


strings(
    "hashes",
    lambda tf, x: [
        f
        for n in (7, 1000, 2**62)
        for f in (
            tf.string_to_hash_bucket(x, n),
            tf.string_to_hash_bucket_fast(x, n),
            tf.string_to_hash_bucket_strong(x, n, [123, 456]),
            tf.string_to_hash_bucket_strong(x, n, [-1, 2**62]),
        )
    ],
    Input(texts),
)
strings(
    "base64",
    lambda tf, x: [
        tf.encode_base64(x),
        tf.encode_base64(x, pad=True),
        tf.decode_base64(tf.encode_base64(x)),
        tf.decode_base64(tf.encode_base64(x, pad=True)),
    ],
    Input(texts),
)
RAW = "uint8 int16 int32 int64 uint16 float16 float32 float64 complex64"
for dtype in RAW.split():
    strings(
        f"decode_raw_{dtype}",
        lambda tf, x, d=dtype: [
            tf.decode_raw(x, getattr(tf, d)),
            tf.decode_raw(x, getattr(tf, d), little_endian=False),
        ],
        value([b"12345678abcdefgh", b"ABCDEFGHIJKLMNOP"], object),
    )
strings(
    "decode_padded_raw",
    lambda tf, x: [
        tf.raw_ops.DecodePaddedRaw(input_bytes=x, fixed_length=n, out_type=t)
        for n, t in ((4, tf.uint8), (8, tf.int16), (12, tf.int32))
    ],
    value([b"12345678", b"ab", b"", b"xyz"], object),
)
strings(
    "decode_csv",
    lambda tf, x: tf.decode_csv(x, [[7], [1.5], ["z"], tf.constant([2], tf.int64)])
    + tf.decode_csv(x, [[0.5], [""]], select_cols=[1, 2]),
    value(
        ['1,2.5,"a ""q"" b",9', ",,,", '-3, 1e-3 ,"x,y",', "4,nan,plain text,12345678901"], object
    ),
)
strings(
    "decode_csv_other",
    lambda tf, x: tf.decode_csv(
        x, [[7], [1.0], ["n"]], field_delim="|", na_value="NA", use_quote_delim=False
    ),
    value([b'NA|2|"a"b', b"1||c,d"], object),
)
strings(
    "numbers",
    lambda tf, x: [tf.string_to_number(x, t) for t in (tf.float32, tf.float64)],
    value([b"1.5", b" -2e3 ", b"7", b"inf"], object),
)
strings(
    "as_string",
    lambda tf, x, n: [
        tf.as_string(x),
        tf.as_string(x, precision=2),
        tf.as_string(x, scientific=True),
        tf.as_string(x, shortest=True),
        tf.as_string(n, width=6, fill="0"),
    ],
    normal(5),
    ints(-100, 100, 4),
)
strings(
    "format",
    lambda tf, x, n, s: [
        tf.strings.format("{} and {}", (x, s)),
        tf.strings.format("{}", n),
        tf.strings.format("{}", n, summarize=-1),
        tf.strings.format("<%%>", tf.reshape(n, [2, 5, 10]), placeholder="%%", summarize=1),
        tf.strings.format("{}", tf.cast(n, tf.int64), summarize=2),
        tf.strings.format("{}", tf.cast(x, tf.float64)),
        tf.strings.format("{}", tf.cast(x, tf.float16)),
        tf.strings.format("{} {}", (x[0] > 0, x[:0])),
        tf.strings.format("{}", tf.constant([1e-9, 1e20, 0.1, float("inf")]), summarize=9),
    ],
    normal(3),
    ints(-100, 100, 10, 10),
    value([[b"a", b"b"]], object),
)
for widths, pad, short in (([2, 3], -1, False), ([4], 0, True), ([1, 3], 1, False), ([5], 1, True)):

    def ngrams(tf, x, widths=widths, pad=pad, short=short):
        found = tf.raw_ops.StringNGrams(
            data=x, data_splits=np.int64([0, 3, 5, 5]), separator="|", ngram_widths=widths,
            left_pad="L", right_pad="R", pad_width=pad, preserve_short_sequences=short,
        )
        return [found[0], found[1]]

    strings(f"ngrams_{widths[0]}_{short:d}", ngrams, value([b"a", b"b", b"c", b"d", b"e"], object))
for encoding in ("UTF-8", "UTF-16-BE", "UTF-32-BE", "US-ASCII", "ISO-8859-1"):
    for errors in ("replace", "ignore"):

        def decode(tf, x, encoding=encoding, errors=errors):
            flags = dict(
                input=x, input_encoding=encoding, errors=errors,
                replace_control_characters=errors == "replace",
            )
            found = tf.raw_ops.UnicodeDecodeWithOffsets(**flags)
            plain = tf.raw_ops.UnicodeDecode(**flags)
            return [found[0], found[1], found[2], plain[0], plain[1]] + [
                hexed(tf, tf.strings.unicode_transcode(x, encoding, to, errors))
                for to in ("UTF-8", "UTF-16-BE", "UTF-32-BE")
            ]

        strings(f"unicode_{encoding}_{errors}", decode, BROKEN)
strings(
    "unicode_encode",
    lambda tf, x: [
        hexed(
            tf,
            tf.raw_ops.UnicodeEncode(
                input_values=x, input_splits=np.int64([0, 2, 2, 6]), output_encoding=to, errors=e
            ),
        )
        for to in ("UTF-8", "UTF-16-BE", "UTF-32-BE")
        for e in ("replace", "ignore")
    ],
    value([97, 233, 0x1F600, 0xD800, 0x110000, -5], np.int32),
)
