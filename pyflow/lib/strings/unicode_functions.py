"""Strings taken apart into characters and put together again.

Invariants
  1. Strings of any static rank may be taken apart; the characters of a scalar are a vector, those
     of a tensor of rank n a RaggedTensor of rank n + 1 whose inner rows are ragged.
  2. Encodings and what happens to bytes that are no characters: as ops UnicodeDecode and
     UnicodeEncode.
"""
from pyflow.framework import dtypes, graph
from pyflow.lib.sparse import ragged
from pyflow.ops.base import tensors
from pyflow.ops.strings import string_data_ops
from pyflow.ops.strings.unicode_ops import UnicodeScript


def unicode_script(input, name=None):
    """The script of each code point; RaggedTensors keep their rows. TF: tf.strings.unicode_script.
    Dtypes, shapes, errors: as op UnicodeScript."""
    return ragged.map_flat_values(UnicodeScript, input, name=name)


# ------------------------------------------------------------------------------- taking apart
def _flat_strings(input):
    """(the strings as a vector, the strings as a tensor)."""
    input = graph.convert_to_tensor(input, dtype=dtypes.string, name="input")
    if input.shape.ndims is None:
        raise ValueError("the rank of the strings must be known; set it with set_shape")
    return tensors.reshape(input, [-1]), input


def _in_rows(splits, values, input):
    """`values` between `splits` in the shape of `input`."""
    if input.shape.ndims == 0:
        return values
    made = ragged.RaggedTensor.from_row_splits(values, splits)
    size = tensors.shape(input, out_type=dtypes.int64)
    for axis in range(input.shape.ndims - 1, 0, -1):
        made = ragged.of_uniform_rows(made, size[axis], rows_of=size[:axis])
    return made


def unicode_decode(input, input_encoding, errors="replace", replacement_char=65533,
                   replace_control_characters=False, name=None):
    """The code points (int32) of each string: a vector of a scalar, else a RaggedTensor.
    TF: tf.strings.unicode_decode. Encodings and errors: as op UnicodeDecode; ValueError for strings
    of unknown rank."""
    return unicode_decode_with_offsets(input, input_encoding, errors, replacement_char,
                                       replace_control_characters, name)[0]


def unicode_decode_with_offsets(input, input_encoding, errors="replace", replacement_char=65533,
                                replace_control_characters=False, name=None):
    """`unicode_decode`, and at which byte (int64) each character starts. TF:
    tf.strings.unicode_decode_with_offsets. Both of the shape of unicode_decode's result, with any
    ValueError of its."""
    with graph.name_scope(name, "UnicodeDecode", [input]):
        flat, input = _flat_strings(input)
        splits, codes, offsets = string_data_ops.UnicodeDecodeWithOffsets(
            flat, input_encoding=input_encoding, errors=errors, replacement_char=replacement_char,
            replace_control_characters=replace_control_characters)
        return _in_rows(splits, codes, input), _in_rows(splits, offsets, input)


def unicode_split(input, input_encoding, errors="replace", replacement_char=65533, name=None):
    """The characters of each string as strings in the same encoding. Shapes and any ValueError as
    of unicode_decode. TF: tf.strings.unicode_split."""
    return unicode_split_with_offsets(input, input_encoding, errors, replacement_char, name)[0]


def unicode_split_with_offsets(input, input_encoding, errors="replace", replacement_char=65533,
                               name=None):
    """`unicode_split`, and at which byte (int64) each character starts. TF:
    tf.strings.unicode_split_with_offsets. Shapes and any ValueError as of unicode_decode."""
    with graph.name_scope(name, "UnicodeSplit", [input]):
        codes, offsets = unicode_decode_with_offsets(input, input_encoding, errors,
                                                     replacement_char)
        flat = codes.flat_values if isinstance(codes, ragged.RaggedTensor) else codes
        letters = unicode_encode(tensors.expand_dims(flat, 1), input_encoding, errors,
                                 replacement_char)
        if isinstance(codes, ragged.RaggedTensor):
            letters = codes.with_flat_values(letters)
        return letters, offsets


def unicode_encode(input, output_encoding, errors="replace", replacement_char=65533, name=None):
    """A string of each innermost row of code points: a vector makes a scalar, a RaggedTensor or a
    tensor of rank n strings of rank n - 1. output_encoding: UTF-8, UTF-16-BE or UTF-32-BE. TF:
    tf.strings.unicode_encode. ValueError for code points of unknown rank or rank 0."""
    with graph.name_scope(name, "UnicodeEncode", [input]):
        more = dict(output_encoding=output_encoding, errors=errors,
                    replacement_char=replacement_char)
        if isinstance(input, ragged.RaggedTensor):
            if input.ragged_rank > 1 or input.flat_values.shape.ndims != 1:
                return input.with_values(unicode_encode(input.values, **more))
            return string_data_ops.UnicodeEncode(input.values, input.row_splits, **more)
        codes = graph.convert_to_tensor(input, dtype=dtypes.int32, name="input")
        if not codes.shape.ndims:
            raise ValueError(f"unicode_encode takes rows of code points, got shape {codes.shape}")
        shape = tensors.shape(codes, out_type=dtypes.int64)
        rows = tensors.reshape(shape[:-1], [-1])
        count = ragged.product(rows)
        splits = tensors.range_(count + 1) * shape[-1]
        made = string_data_ops.UnicodeEncode(tensors.reshape(codes, [-1]), splits, **more)
        return tensors.reshape(made, rows)


PUBLIC = {
    "strings.unicode_script": unicode_script, "strings.unicode_decode": unicode_decode,
    "strings.unicode_decode_with_offsets": unicode_decode_with_offsets,
    "strings.unicode_split": unicode_split,
    "strings.unicode_split_with_offsets": unicode_split_with_offsets,
    "strings.unicode_encode": unicode_encode,
}
