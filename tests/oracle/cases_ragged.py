"""Ragged tensors, characters and their classes, encodings.  A ragged result is its parts."""

import numpy as np

from cases import normal, op, script, value

TEXTS = ["aé中", "", "😀z b", "ψυχή"]
BYTES = bytes(range(128, 256))


def parts(*ragged):
    return [p for r in ragged for p in (r.flat_values, *r.nested_row_splits)]


def ascii(tf, *strings):
    """Strings of letters, as recorded answers hold them."""
    return [tf.encode_base64(s) for s in strings]


def rows(tf, v):
    return tf.RaggedTensor.from_row_lengths(v, [2, 0, 3, 1])


# ----------------------------------------------------------------------------------- ragged tensors
op("ragged_ways", lambda tf, v: parts(
    tf.RaggedTensor.from_row_splits(v, [0, 2, 2, 6]),
    tf.RaggedTensor.from_row_lengths(v, [1, 5, 0]),
    tf.RaggedTensor.from_value_rowids(v, [0, 0, 2, 2, 2, 3], 6),
    tf.RaggedTensor.from_value_rowids(v, [0, 0, 2, 2, 2, 3])), normal(6))
op("ragged_from_tensor", lambda tf, v: parts(
    tf.RaggedTensor.from_tensor(v), tf.RaggedTensor.from_tensor(v, lengths=[2, 0, 4])),
   normal(3, 4))
op("ragged_to_tensor", lambda tf, v: [
    rows(tf, v).to_tensor(), rows(tf, v).to_tensor(-1.0),
    tf.RaggedTensor.from_row_lengths(tf.reshape(v, [3, 2]), [1, 0, 2]).to_tensor(),
    tf.RaggedTensor.from_nested_row_splits(v, [[0, 1, 1, 3], [0, 2, 5, 6]]).to_tensor(2.0)],
   normal(6))
op("ragged_queries", lambda tf, v: [
    rows(tf, v).row_lengths(), rows(tf, v).nrows(), rows(tf, v).value_rowids(),
    rows(tf, v).row_starts(), rows(tf, v).bounding_shape(), rows(tf, v).row_limits()], normal(6))
op("ragged_to_sparse", lambda tf, v: [p for r in (
    rows(tf, v), tf.RaggedTensor.from_nested_row_splits(v, [[0, 1, 1, 3], [0, 2, 5, 6]]))
    for s in [r.to_sparse()] for p in (s.indices, s.values, s.dense_shape)], normal(6))
op("ragged_map", lambda tf, v: parts(tf.ragged.map_flat_values(tf.multiply, rows(tf, v), 3.0),
                                     rows(tf, v).with_values(v * v)), normal(6))
op("ragged_ids", lambda tf, x: [
    tf.ragged.row_splits_to_segment_ids(x),
    tf.ragged.segment_ids_to_row_splits(tf.constant([0, 0, 2, 2, 3], tf.int64)),
    tf.ragged.segment_ids_to_row_splits(tf.constant([0, 0, 2, 2, 3], tf.int64), 7)],
   value([0, 2, 2, 5], np.int64))
op("ragged_constants", lambda tf, x: parts(
    tf.ragged.constant([[1, 2], [], [3]]), tf.ragged.constant([[[1.5], []], [], [[2.0, 3.0]]]),
    tf.ragged.constant([["a"], ["b", "c"]])), normal(1))


@script
def ragged_fetches(tf):
    """Sessions give rows back as nested lists."""
    x = tf.placeholder(tf.float32, [None])
    nested = tf.RaggedTensor.from_nested_row_splits(x, [[0, 1, 1, 3], [0, 2, 2, 3]])
    with tf.Session() as session:
        found = session.run({"r": nested, "n": nested.nrows()}, {x: [1.0, 2.0, 3.0]})
    return {"rows": np.array(repr(found["r"].to_list())), "n": found["n"]}


# ------------------------------------------------------------------------------------- characters
op("unicode_decode", lambda tf, x: parts(
    *tf.strings.unicode_decode_with_offsets(TEXTS, "UTF-8"),
    tf.strings.unicode_decode(tf.constant([TEXTS[:2], TEXTS[2:]]), "UTF-8"))
   + [tf.strings.unicode_decode("aé", "UTF-8")], normal(1))
op("unicode_split", lambda tf, x: [
    p for r in tf.strings.unicode_split_with_offsets(TEXTS, "UTF-8")
    for p in (ascii(tf, r.values)[0] if r.dtype == tf.string else r.values, r.row_splits)],
   normal(1))
op("unicode_encode", lambda tf, x: ascii(
    tf, tf.strings.unicode_encode(tf.strings.unicode_decode(TEXTS, "UTF-8"), "UTF-16-BE"),
    tf.strings.unicode_encode([[97, 233], [0x4e2d, 0x1f600]], "UTF-8"),
    tf.strings.unicode_encode([97, 98], "UTF-8")), normal(1))
op("unicode_script", lambda tf, x: [
    tf.strings.unicode_script(x), tf.strings.unicode_script([-1, 0x10ffff, 0x110000, 2**31 - 1])],
   value(np.r_[:0x3000, 0x9ff0:0xb000, 0xd700:0xe100, 0xf900:0x12000, 0x1f000:0x1f700], np.int32))
op("unicode_script_ragged", lambda tf, x: parts(
    tf.strings.unicode_script(tf.strings.unicode_decode(TEXTS, "UTF-8"))), normal(1))
op("ragged_split", lambda tf, x: parts(
    tf.strings.split(["a b  c", "", " d"], result_type="RaggedTensor"),
    tf.string_split(["a b  c", "", " d"], result_type="RaggedTensor")), normal(1))
for _name in ["ISO-8859-2", "iso_8859-5", "ISO-8859-7", "ISO-8859-15", "latin1", "windows-1250",
              "windows-1251", "cp1252", "Windows-1256", "KOI8-R", "koi8-u", "macintosh", "TIS-620",
              "US-ASCII"]:
    op(f"encoding_{_name}", lambda tf, x, name=_name: ascii(
        tf, tf.strings.unicode_transcode([BYTES, b"abc"], name, "UTF-8"),
        tf.strings.unicode_transcode(BYTES, name, "UTF-16-BE", errors="ignore")), normal(1))

# --------------------------------------------------------------------------------- their classes
LETTERS = ["a", "A", "Ω", "1", "é", "Ж", "ǅ", "ß", "中", "٣", "_", " ", "€", "̈", "א", "カ",
           "😀", "Ⅷ", "±", "«"]
PATTERNS = [r"\pL", r"\PL", r"\p{Lu}", r"\p{^Lu}", r"\P{^L}", r"\p{Greek}", r"\p{Cyrillic}+",
            r"[\p{Lu}\pN]+", r"[^\p{L}]", r"[\P{Han}]", r"\p{Any}", r"\p{Nd}|\p{Sc}", r"\p{M}",
            r"\p{Hebrew}", r"\p{Katakana}", r"\p{So}", r"\p{Common}", r"[[:alpha:]\p{P}]",
            r"\p{Zs}", r"(?i)[a\p{Greek}]", r"\p{Sm}", r"\p{Pi}", r"\p{Nl}", r"\p{Latin}", r"\p{Inherited}"]
op("regex_classes", lambda tf, x: [tf.strings.regex_full_match(LETTERS, p) for p in PATTERNS],
   normal(1))
op("regex_classes_replace", lambda tf, x: ascii(tf, tf.strings.regex_replace(
    ["Hello, Ωmega 中文 12 Жук", "ÀÉÎ"], r"(\p{Lu})(\p{Ll}*)", r"<\1>\2")), normal(1))
