"""Strings taken apart: length, parts, splitting, case, regular expressions, formatting.

Invariants
  1. Elements are byte strings; with unit="UTF8_CHAR" positions and lengths count characters.
  2. Regular expressions are RE2's, matched without backtracking: time is bounded by text times
     pattern. Of RE2's syntax \\C is missing, and (?i) folds ASCII letters alone.
  3. Nothing here is differentiable.

Example:  `tf.string_split(["a b", "c"]).values` -> [b"a", b"b", b"c"].
"""
import re

import numpy as np

from pyflow.framework.op import S, UNREGISTERED, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape, broadcast_static_shape
from pyflow.ops.base.common import scalar, static, text, unchanged
from pyflow.ops.base.shape_rules import by_pattern, match

UNIT = 'unit: {"BYTE", "UTF8_CHAR"} = "BYTE"'
WORDS = strs(["  a b ", "Hello, World", "x\ty\n", ""])
ROWS = strs(["a", "b", "c", "d", "e"]), lit([0, 3, 5, 5])
UMLAUTS = strs([["a\u00e9\u4e2d", "stra\u00dfe"], ["", "\u00c9B"]])


def each(function):
    """A NumPy function over arrays of strings from one over a string."""
    over = np.frompyfunc(function, 1, 1)

    def apply(x):
        return np.asarray(over(x), object)
    return apply


def _characters(s):
    """Byte strings of one character each, well formed or not."""
    starts = [i for i, byte in enumerate(s) if byte & 0xc0 != 0x80] + [len(s)]
    return [s[a:b] for a, b in zip(starts, starts[1:])]


# ------------------------------------------------------------------------------ length, case, parts
@op("StringLength", inputs="input: string", outputs="output: int32", attrs=UNIT)
class StringLength:
    """Bytes or characters of each string. TF: StringLength."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(input, unit):
        count = len if text(unit) == "BYTE" else lambda s: len(_characters(s))
        return np.asarray(each(count)(input)).astype(np.int32)
    samples = [S(WORDS), S(UMLAUTS, unit="UTF8_CHAR"), S(strs("abc"))]


@op("StringStrip", inputs="input: string", outputs="output: string")
class StringStrip:
    """Strings without blanks at their ends. TF: StringStrip."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(input): return each(lambda s: s.strip(b" \t\n\v\f\r"))(input)
    samples = [S(WORDS), S(strs(" x "))]


def _case(name, change):
    class Block:
        shape = unchanged
        gradient = UNREGISTERED

        def reference(input, encoding):
            if text(encoding) == "utf-8":
                return each(lambda s: getattr(s.decode(), change)().encode())(input)
            return each(lambda s: getattr(s, change)())(input)
        samples = [S(WORDS), S(UMLAUTS), S(UMLAUTS, encoding="utf-8")]
    return op(name, inputs="input: string", outputs="output: string", attrs='encoding: string = ""',
              doc=f"Strings in {change} case: ASCII letters, or with encoding utf-8 all. "
                  f"TF: {name}.")(Block)


StringLower, StringUpper = _case("StringLower", "lower"), _case("StringUpper", "upper")
for _block in (StringLower, StringUpper):
    _block.module = _block.__module__ = __name__


def _substr_shape(op):
    value, pos, length = (t.shape for t in op.inputs)
    pos.assert_is_compatible_with(length)
    return broadcast_static_shape(value, pos)


def _part(s, pos, length, unit):
    parts = [s[i:i + 1] for i in range(len(s))] if text(unit) == "BYTE" else _characters(s)
    pos = int(pos) + (len(parts) if pos < 0 else 0)
    return b"".join(parts[pos:pos + int(length)])


@op("Substr", inputs="input: string, pos: T, len: T", outputs="output: string",
    attrs="T: {int32, int64}, " + UNIT)
class Substr:
    """`len` bytes or characters from `pos`, counted from the end where negative. TF: Substr."""
    shape = _substr_shape
    gradient = UNREGISTERED

    def reference(input, pos, len_, unit):
        cut = np.frompyfunc(lambda s, p, n: _part(s, p, n, unit), 3, 1)
        return np.asarray(cut(input, pos, len_), object)
    samples = [S(strs(["hello", "world"]), lit(1), lit(3)),
               S(strs(["hello", "world"]), lit([0, -2]), lit([9, 1])),
               S(strs([["a\u00e9\u4e2d"], ["stra\u00dfe"]]), lit([1, 2]), lit([1, 2]),
                 unit="UTF8_CHAR")]


# ---------------------------------------------------------------------------------------- splitting
def _split_shape(op):
    if op.inputs[0].shape.ndims not in (None, 1) or op.inputs[1].shape.ndims not in (None, 0):
        raise ValueError(f"{op.type}: input must be a vector and the separator a scalar, got "
                         f"shapes {op.inputs[0].shape} and {op.inputs[1].shape}")
    return [TensorShape([None, 2]), TensorShape([None]), TensorShape([2])]


def _sparse(rows):
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = np.array([s for row in rows for s in row] or [], object)
    return (np.array(indices, np.int64).reshape(-1, 2), values,
            np.array([len(rows), max((len(r) for r in rows), default=0)], np.int64))


def _split_row(s, marks, skip_empty):
    if not s:
        return []
    if not marks:
        return [s[i:i + 1] for i in range(len(s))]
    parts = re.split(b"[" + re.escape(marks) + b"]", s)
    return [p for p in parts if p] if skip_empty else parts


@op("StringSplit", inputs="input: string, delimiter: string",
    outputs="indices: int64, values: string, shape: int64", attrs="skip_empty: bool = true")
class StringSplit:
    """The pieces of each string between any of the delimiter's bytes. TF: StringSplit."""
    shape = _split_shape
    gradient = None

    def reference(input, delimiter, skip_empty):
        marks = np.asarray(delimiter)[()]
        return _sparse([_split_row(s, marks, skip_empty) for s in input])
    samples = [S(strs(["a b  c", "", " d"]), strs(" ")),
               S(strs(["a,b;c,", "x"]), strs(",;"), skip_empty=False), S(strs(["abc"]), strs(""))]


@op("StringSplitV2", inputs="input: string, sep: string",
    outputs="indices: int64, values: string, shape: int64", attrs="maxsplit: int = -1")
class StringSplitV2:
    """The pieces of each string between separators, or blanks, as Python splits.
    TF: StringSplitV2."""
    shape = _split_shape
    gradient = UNREGISTERED

    def reference(input, sep, maxsplit):
        sep = np.asarray(sep)[()] or None
        if sep is None and maxsplit == 0:
            return _sparse([[s] for s in input])
        if sep is None:                 # Python would strip the end of what is left over
            return _sparse([s.lstrip().split(None, maxsplit) for s in input])
        return _sparse([s.split(sep, maxsplit) for s in input])
    samples = [S(strs(["a b  c", "", " d "]), strs("")), S(strs(["a<>b<>", "x"]), strs("<>")),
               S(strs(["a<>b<>c", "x"]), strs("<>"), maxsplit=1),
               S(strs([" a b c"]), strs(""), maxsplit=1)]


@op("UnsortedSegmentJoin",
    inputs="inputs: string, segment_ids: Tindices, num_segments: Tnumsegments",
    outputs="output: string",
    attrs='separator: string = "", Tindices: {int32, int64}, Tnumsegments: {int32, int64} = int32')
class UnsortedSegmentJoin:
    """Strings that share a segment id, joined in their order. TF: UnsortedSegmentJoin."""
    def shape(op):
        count, inner, ids = static(op.inputs[2]), op.inputs[0].shape, op.inputs[1].shape
        match(op, None, None, "")
        if inner.ndims is None or ids.ndims is None:
            return TensorShape(None)
        if count is not None and count < 0 or not inner[:ids.ndims].is_compatible_with(ids):
            raise ValueError(f"UnsortedSegmentJoin: {count} segments by ids of shape {ids} of "
                             f"strings of shape {inner}")
        return TensorShape([None if count is None else int(count)]).concatenate(
            inner[op.inputs[1].shape.ndims:])
    gradient = UNREGISTERED

    def reference(inputs, segment_ids, num_segments, separator):
        flat = inputs.reshape(segment_ids.size, -1)
        made = np.empty((int(num_segments), flat.shape[1]), object)
        for at in np.ndindex(made.shape):
            made[at] = text(separator).encode().join(
                row[at[1]] for row, owner in zip(flat, segment_ids.ravel()) if owner == at[0])
        return made.reshape((int(num_segments),) + inputs.shape[segment_ids.ndim:])
    samples = [S(strs(["a", "b", "c", "d"]), lit([0, 2, 0, 2]), lit(3), separator=":"),
               S(strs([["a", "b"], ["c", "d"]]), lit([1, 1]), lit(2)),
               S(strs(["a", "b"]), lit([-1, 0]), lit(1))]


# ------------------------------------------------------------------------------ regular expressions
def _pattern_shape(op):
    for tensor in op.inputs[1:]:
        if tensor.shape.ndims not in (None, 0):
            raise ValueError(f"{op.type}: pattern and rewrite must be scalars, got shape "
                             f"{tensor.shape}")
    return op.inputs[0].shape


def _replaced(input, pattern, rewrite, replace_global):
    template = re.sub(rb"\\(\d)", rb"\\g<\1>", _value(rewrite))
    return each(lambda s: re.sub(_value(pattern), template, s,
                                 count=0 if replace_global else 1))(input)


def _value(x):
    x = x.encode() if isinstance(x, str) else np.asarray(x)[()]
    return x


def _matched(input, pattern):
    matches = each(lambda s: re.fullmatch(_value(pattern), s) is not None)(input)
    return np.asarray(matches).astype(np.bool_)


@op("RegexReplace", inputs="input: string, pattern: string, rewrite: string",
    outputs="output: string", attrs="replace_global: bool = true")
class RegexReplace:
    """Matches of an RE2 pattern (all, or the first) replaced by the rewrite, in which \\0 to \\9
    are the match and its groups. TF: RegexReplace."""
    shape = _pattern_shape
    gradient = None

    def reference(input, pattern, rewrite, replace_global):
        return _replaced(input, pattern, rewrite, replace_global)
    samples = [S(WORDS, strs("l+"), strs("<\\0>")),
               S(WORDS, strs("(\\w)(\\w*)"), strs("\\2\\1"), replace_global=False)]


@op("StaticRegexReplace", inputs="input: string", outputs="output: string",
    attrs="pattern: string, rewrite: string, replace_global: bool = true")
class StaticRegexReplace:
    """RegexReplace with pattern and rewrite known while building. TF: StaticRegexReplace."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(input, pattern, rewrite, replace_global):
        return _replaced(input, text(pattern), text(rewrite), replace_global)
    samples = [S(WORDS, pattern="[aeiou]", rewrite="*"),
               S(WORDS, pattern="o", rewrite="0", replace_global=False)]


@op("RegexFullMatch", inputs="input: string, pattern: string", outputs="output: bool")
class RegexFullMatch:
    """Whether a whole string matches an RE2 pattern. TF: RegexFullMatch."""
    shape = _pattern_shape
    gradient = UNREGISTERED

    def reference(input, pattern): return _matched(input, pattern)
    samples = [S(WORDS, strs("[A-Z].*")), S(WORDS, strs(""))]


@op("StaticRegexFullMatch", inputs="input: string", outputs="output: bool",
    attrs="pattern: string")
class StaticRegexFullMatch:
    """RegexFullMatch with the pattern known while building. TF: StaticRegexFullMatch."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(input, pattern): return _matched(input, text(pattern))
    samples = [S(WORDS, pattern="\\s*a b\\s*")]


# ------------------------------------------------------------------------------ formatting, n-grams
@op("StringFormat", inputs="inputs: T", outputs="output: string",
    attrs='T: list(type) >= 0, template: string = "%s", placeholder: string = "%s", '
          'summarize: int = 3')
class StringFormat:
    """A template with each placeholder replaced by a tensor as text. No NumPy oracle: the texts
    are compared with TF's. TF: StringFormat."""
    shape = scalar
    gradient = UNREGISTERED
    reference = None
    samples = [S([(2, 3), ()], template="a %s b %s"), S([(9,)], summarize=2), S([], template="x")]


_ngram_shape = by_pattern("_", "rows", "->", "n", "rows")


def _ngrams_of(row, widths, left, right, pad_width, separator):
    made = []
    for width in widths:
        pad = width - 1 if pad_width < 0 else min(pad_width, width - 1)
        padded = [left] * pad + list(row) + [right] * pad
        made += [separator.join(padded[i:i + width]) for i in range(len(padded) - width + 1)]
    return made


@op("StringNGrams", inputs="data: string, data_splits: Tsplits",
    outputs="ngrams: string, ngrams_splits: Tsplits",
    attrs="separator: string, ngram_widths: list(int) >= 0, left_pad: string, right_pad: string, "
          "pad_width: int, preserve_short_sequences: bool, Tsplits: {int32, int64} = int64")
class StringNGrams:
    """Runs of neighbouring strings within each row, joined. TF: StringNGrams."""
    shape = _ngram_shape
    gradient = UNREGISTERED

    def reference(data, data_splits, separator, ngram_widths, left_pad, right_pad, pad_width,
                  preserve_short_sequences):
        mark, left, right = (text(s).encode() for s in (separator, left_pad, right_pad))
        made, splits = [], [0]
        for first, end in zip(data_splits, data_splits[1:]):
            found = _ngrams_of(data[first:end], ngram_widths, left, right, pad_width, mark)
            if not found and preserve_short_sequences and end > first:
                pads = max(pad_width, 0)
                found = [mark.join([left] * pads + list(data[first:end]) + [right] * pads)]
            made += found
            splits.append(len(made))
        return np.array(made or [], object), np.array(splits)
    samples = [S(*ROWS, separator="|", ngram_widths=[2, 3], left_pad="L", right_pad="R",
                 pad_width=-1, preserve_short_sequences=False),
               S(*ROWS, separator=" ", ngram_widths=[4], left_pad="", right_pad="", pad_width=0,
                 preserve_short_sequences=True)]
