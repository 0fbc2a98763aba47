"""Strings taken apart: length, parts, splitting, regular expressions, formatting."""
from pyflow.framework import dtypes, graph
from pyflow.lib.sparse.ragged import RaggedTensor
from pyflow.ops.base import tensors
from pyflow.ops.base.common import one_of
from pyflow.ops.strings.string_text_ops import (RegexFullMatch, RegexReplace, StaticRegexFullMatch,
                                                StaticRegexReplace, StringFormat, StringLength,
                                                StringLower, StringSplit, StringSplitV2,
                                                StringStrip, StringUpper, Substr,
                                                UnsortedSegmentJoin)


def string_length(input, name=None, unit="BYTE"):
    """Bytes, or with unit="UTF8_CHAR" characters, of each string, int32 of the same shape.
    TF: tf.strings.length.
    Dtypes, shapes, errors: as op StringLength."""
    return StringLength(input, unit=unit, name=name)


def string_strip(input, name=None):
    """Strings of any shape without blanks at their ends. TF: tf.string_strip.
    Dtypes, shapes, errors: as op StringStrip."""
    return StringStrip(input, name=name)


def string_lower(input, encoding="", name=None):
    """Strings in lower case: ASCII letters, or all with encoding="utf-8". TF: tf.strings.lower.
    Dtypes, shapes, errors: as op StringLower."""
    return StringLower(input, encoding=encoding, name=name)


def string_upper(input, encoding="", name=None):
    """Strings in upper case: ASCII letters, or all with encoding="utf-8". TF: tf.strings.upper.
    Dtypes, shapes, errors: as op StringUpper."""
    return StringUpper(input, encoding=encoding, name=name)


def substr(input, pos, len, name=None, unit="BYTE"):
    """`len` bytes (or characters) from `pos` of each string; the shapes broadcast, pos and len have
    one. InvalidArgumentError for a position outside the string. TF: tf.substr."""
    return Substr(input, pos, len, unit=unit, name=name)


def _sparse_tensor(found):
    return graph.SparseTensor(found[0], found[1], found[2])


def _check_result(name, result_type):
    if result_type not in ("SparseTensor", "RaggedTensor"):
        raise ValueError(f"{name}: result_type must be 'SparseTensor' or 'RaggedTensor', got "
                         f"{result_type!r}")


def _pieces(parts, result_type):
    made = _sparse_tensor(parts)
    if result_type == "SparseTensor":
        return made
    return RaggedTensor.from_sparse(made)


def string_split(source=None, sep=None, skip_empty=True, delimiter=None, result_type="SparseTensor",
                 name=None, input=None):
    """The pieces of each string of a vector between any of the bytes of `sep` (or `delimiter`; a
    blank by default), as a SparseTensor [n, most pieces] or, by result_type, a RaggedTensor.
    ValueError for other result types. TF: tf.string_split."""
    _check_result("string_split", result_type)
    delimiter = one_of(delimiter, sep, "delimiter", "sep", " ")
    source = one_of(source, input, "source", "input")
    with graph.name_scope(name, "StringSplit", [source]):
        return _pieces(StringSplit(source, delimiter, skip_empty=skip_empty), result_type)


def split(input=None, sep=None, maxsplit=-1, result_type="SparseTensor", source=None, name=None):
    """The pieces of each string as Python's str.split makes them: between separators, or blanks
    without one; at most maxsplit cuts. A SparseTensor [n, most pieces] or, by result_type, a
    RaggedTensor. ValueError for other result types. TF: tf.strings.split."""
    _check_result("strings.split", result_type)
    input = one_of(input, source, "input", "source")
    with graph.name_scope(name, "StringSplitV2", [input]):
        input = graph.convert_to_tensor(input, dtype=dtypes.string)
        if input.shape.ndims == 0:
            input = tensors.expand_dims(input, 0)
        return _pieces(StringSplitV2(input, "" if sep is None else sep, maxsplit=maxsplit),
                       result_type)


def regex_replace(input, pattern, rewrite, replace_global=True, name=None):
    """Matches of the RE2 pattern, all or the first, replaced; \\0 to \\9 in the rewrite are the
    match and its groups. InvalidArgumentError for a wrong pattern. TF: tf.regex_replace.
    Dtypes, shapes, errors: as ops RegexReplace and StaticRegexReplace."""
    if isinstance(pattern, (str, bytes)) and isinstance(rewrite, (str, bytes)):
        return StaticRegexReplace(input, pattern=pattern, rewrite=rewrite,
                                  replace_global=replace_global, name=name)
    return RegexReplace(input, pattern, rewrite, replace_global=replace_global, name=name)


def regex_full_match(input, pattern, name=None):
    """Whether each whole string matches the RE2 pattern. TF: tf.strings.regex_full_match.
    Dtypes, shapes, errors: as ops RegexFullMatch and StaticRegexFullMatch."""
    if isinstance(pattern, (str, bytes)):
        return StaticRegexFullMatch(input, pattern=pattern, name=name)
    return RegexFullMatch(input, pattern, name=name)


def unsorted_segment_join(inputs, segment_ids, num_segments, separator="", name=None):
    """Strings that share a segment id, joined. TF: tf.strings.unsorted_segment_join.
    Dtypes, shapes, errors: as op UnsortedSegmentJoin."""
    return UnsortedSegmentJoin(inputs, segment_ids, num_segments, separator=separator, name=name)


def format(template, inputs, placeholder="{}", summarize=3, name=None):
    """The template with its placeholders replaced by the tensors as tf.print writes them, a scalar
    string. ValueError if their numbers differ. TF: tf.strings.format."""
    inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
    if template.count(placeholder) != len(inputs):
        raise ValueError(f"{template.count(placeholder)} placeholder(s) in template does not match "
                         f"{len(inputs)} tensor(s) provided as input")
    return StringFormat([graph.convert_to_tensor(i) for i in inputs], template=template,
                        placeholder=placeholder, summarize=summarize, name=name)


PUBLIC = {
    "strings.length": string_length, "strings.strip": string_strip, "string_strip": string_strip,
    "strings.lower": string_lower, "strings.upper": string_upper, "substr": substr,
    "strings.substr": substr, "string_split": string_split, "strings.split": split,
    "regex_replace": regex_replace, "strings.regex_replace": regex_replace,
    "strings.regex_full_match": regex_full_match,
    "strings.unsorted_segment_join": unsorted_segment_join, "strings.format": format,
}
