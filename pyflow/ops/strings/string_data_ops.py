"""Strings as data: hash buckets, Base64, raw numbers, CSV records, Unicode, compressed bytes.

Invariants
  1. Buckets are TF's, number for number: MurmurHash64A, Fingerprint64 (FarmHash), SipHash-2-4.
  2. Base64 is the URL-safe kind; CSV is RFC 4180's.
  3. Nothing here is differentiable.

Example:  `ids = tf.string_to_hash_bucket_fast(words, 1000)`.
"""
import base64
import csv
import zlib

import numpy as np

from pyflow.framework import dtypes
from pyflow.framework.op import S, UNREGISTERED, lit, op, strs
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.base.common import static, text, unchanged
from pyflow.ops.base.shape_rules import match
from pyflow.ops.strings.string_text_ops import each

UNICODE = ('errors: {"strict", "replace", "ignore"} = "replace", replacement_char: int = 65533, '
           'replace_control_characters: bool = false')
RAW = ("{half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, "
       "bool, bfloat16}, little_endian: bool = true")
NAMES = strs(["", "a", "abc", "abcdefgh", "hello, hashed world", "x" * 40, "y" * 200])
MASK = (1 << 64) - 1


# ------------------------------------------------------------------------------------------- hashes
def _rotl(x, n): return (x << n | x >> (64 - n)) & MASK


def _sip_rounds(v, count):
    for _ in range(count):
        v[0] = v[0] + v[1] & MASK
        v[1] = _rotl(v[1], 13) ^ v[0]
        v[0] = _rotl(v[0], 32)
        v[2] = v[2] + v[3] & MASK
        v[3] = _rotl(v[3], 16) ^ v[2]
        v[0] = v[0] + v[3] & MASK
        v[3] = _rotl(v[3], 21) ^ v[0]
        v[2] = v[2] + v[1] & MASK
        v[1] = _rotl(v[1], 17) ^ v[2]
        v[2] = _rotl(v[2], 32)


def _sip(data, key):
    """SipHash-2-4 (Aumasson and Bernstein, 2012)."""
    key = [k & MASK for k in key]
    v = [key[i % 2] ^ int.from_bytes(b"somepseudorandomlygeneratedbytes"[8 * i:8 * i + 8], "big")
         for i in range(4)]
    tail = len(data) % 8
    words = data + bytes(7 - tail) + bytes([len(data) & 255])
    for i in range(0, len(words), 8):
        word = int.from_bytes(words[i:i + 8], "little")
        v[3] ^= word
        _sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 255
    _sip_rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _murmur(data):
    """MurmurHash64A (Appleby) with TF's seed."""
    m, tail = 0xc6a4a7935bd1e995, len(data) % 8
    h = 0xDECAFCAFFE ^ len(data) * m & MASK
    for i in range(0, len(data) - tail, 8):
        k = int.from_bytes(data[i:i + 8], "little") * m & MASK
        h = (h ^ (k ^ k >> 47) * m & MASK) * m & MASK
    if tail:
        h = (h ^ int.from_bytes(data[-tail:], "little")) * m & MASK
    h = (h ^ h >> 47) * m & MASK
    return h ^ h >> 47


def _buckets(function, input, num_buckets):
    return np.asarray(each(lambda s: function(s) % num_buckets)(input)).astype(np.int64)


@op("StringToHashBucket", inputs="string_tensor: string", outputs="output: int64",
    attrs="num_buckets: int >= 1")
class StringToHashBucket:
    """A bucket in [0, num_buckets) for each string, by TF's first hash. TF: StringToHashBucket."""
    shape = unchanged
    gradient = None

    def reference(string_tensor, num_buckets): return _buckets(_murmur, string_tensor, num_buckets)
    samples = [S(NAMES, num_buckets=1000), S(strs("one"), num_buckets=2 ** 62)]


@op("StringToHashBucketFast", inputs="input: string", outputs="output: int64",
    attrs="num_buckets: int >= 1")
class StringToHashBucketFast:
    """A bucket in [0, num_buckets) for each string, by Fingerprint64. No NumPy oracle: the numbers
    are compared with TF's. TF: StringToHashBucketFast."""
    shape = unchanged
    gradient = None
    reference = None
    samples = [S(NAMES, num_buckets=1000), S(strs("one"), num_buckets=2 ** 62)]


@op("StringToHashBucketStrong", inputs="input: string", outputs="output: int64",
    attrs="num_buckets: int >= 1, key: list(int)")
class StringToHashBucketStrong:
    """A bucket in [0, num_buckets) for each string, by SipHash with a key of two numbers. TF:
    StringToHashBucketStrong."""
    shape = unchanged
    gradient = None

    def reference(input, num_buckets, key):
        return _buckets(lambda s: _sip(s, key), input, num_buckets)
    samples = [S(NAMES, num_buckets=1000, key=[1, 2]),
               S(strs("one"), num_buckets=2 ** 62, key=[-7, 99])]


# -------------------------------------------------------------------------------------------- bytes
@op("EncodeBase64", inputs="input: string", outputs="output: string", attrs="pad: bool = false")
class EncodeBase64:
    """Strings as URL-safe Base64, with = at the end if `pad`. TF: EncodeBase64."""
    shape = unchanged
    gradient = None

    def reference(input, pad):
        made = each(base64.urlsafe_b64encode)(input)
        return made if pad else each(lambda s: s.rstrip(b"="))(made)
    samples = [S(NAMES), S(strs([b"\xff\xfe\xfd?"]), pad=True)]


@op("DecodeBase64", inputs="input: string", outputs="output: string")
class DecodeBase64:
    """URL-safe Base64, padded or not, decoded. TF: DecodeBase64."""
    shape = unchanged
    gradient = None

    def reference(input):
        return each(lambda s: base64.urlsafe_b64decode(s.rstrip(b"=") + b"=" * (
            -len(s.rstrip(b"=")) % 4)))(input)
    samples = [S(strs(["YQ", "YWI=", "__79YWI", ""]))]


def _raw_shape(op):
    return op.inputs[0].shape.concatenate([None])


def _from_bytes(strings, dtype, little_endian):
    kind = np.dtype(dtype.as_numpy_dtype)
    joined = b"".join(np.ravel(strings))
    swapped = kind.newbyteorder("<" if little_endian else ">") if kind.kind != "V" else kind
    values = np.frombuffer(joined, swapped).astype(kind)
    return values.reshape(np.shape(strings) + (-1 if np.size(strings) else 0,))


@op("DecodeRaw", inputs="bytes: string", outputs="output: out_type", attrs="out_type: " + RAW)
class DecodeRaw:
    """The bytes of strings of one length as numbers, in a new last dimension. TF: DecodeRaw."""
    shape = _raw_shape
    gradient = None

    def reference(bytes, out_type, little_endian):
        return _from_bytes(bytes, out_type, little_endian)
    samples = [S(strs([b"12345678", b"abcdefgh"]), out_type=t) for t in
               (dtypes.uint8, dtypes.int16, dtypes.int32, dtypes.float64, dtypes.complex64)] + [
        S(strs(b"12345678"), out_type=dtypes.int32, little_endian=False)]


@op("DecodePaddedRaw", inputs="input_bytes: string, fixed_length: int32",
    outputs="output: out_type",
    attrs="out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}, "
          "little_endian: bool = true")
class DecodePaddedRaw:
    """DecodeRaw of strings cut or padded with zeros to fixed_length bytes. TF: DecodePaddedRaw."""
    def shape(op):
        match(op, None, "")
        length, size = static(op.inputs[1]), op.attr("out_type").size
        if length is not None and (length <= 0 or length % size):
            raise ValueError(f"DecodePaddedRaw: fixed_length {length} must be a positive multiple "
                             f"of {size}, the size of {op.attr('out_type').name}")
        return op.inputs[0].shape.concatenate([None if length is None else int(length) // size])
    gradient = None

    def reference(input_bytes, fixed_length, out_type, little_endian):
        size = int(fixed_length)
        padded = each(lambda s: s[:size].ljust(size, b"\0"))(input_bytes)
        return _from_bytes(padded, out_type, little_endian)
    samples = [S(strs([b"12345678", b"abc", b""]), lit(6), out_type=dtypes.int16),
               S(strs([b"12345678"]), lit(12), out_type=dtypes.int32, little_endian=False)]


@op("DecodeCompressed", inputs="bytes: string", outputs="output: string",
    attrs='compression_type: string = ""')
class DecodeCompressed:
    """Strings inflated: "ZLIB", "GZIP", or "" as they are. TF: DecodeCompressed."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(bytes, compression_type):
        return each(zlib.decompress)(bytes) if text(compression_type) else bytes
    samples = [S(lit([zlib.compress(b"hello" * 9), zlib.compress(b"")], dtypes.string),
                 compression_type="ZLIB"), S(NAMES)]


def _csv_shape(op):
    for tensor in op.inputs[1:]:
        size = tensor.shape.num_elements()
        if tensor.shape.ndims not in (None, 0, 1) or size not in (0, 1, None):
            raise ValueError(f"DecodeCSV: a default must be a scalar or have at most 1 element, "
                             f"got shape {tensor.shape}")
    return [op.inputs[0].shape] * (len(op.inputs) - 1)


def _fields(record, field_delim, use_quote_delim):
    quoting = csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE
    return next(csv.reader([record.decode()], delimiter=text(field_delim), quoting=quoting), [""])


@op("DecodeCSV", inputs="records: string, record_defaults: OUT_TYPE", outputs="output: OUT_TYPE",
    attrs='OUT_TYPE: list({float, double, int32, int64, string}) >= 1, field_delim: string = ",", '
          'use_quote_delim: bool = true, na_value: string = "", select_cols: list(int) = []')
class DecodeCSV:
    """Columns of CSV records, each of its default's dtype; empty defaults are required fields.
    TF: DecodeCSV."""
    shape = _csv_shape
    gradient = UNREGISTERED

    def reference(records, record_defaults, field_delim, use_quote_delim, na_value, select_cols):
        made = [np.empty(np.shape(records), d.dtype) for d in record_defaults]
        for at in np.ndindex(np.shape(records)):
            row = _fields(np.asarray(records)[at], field_delim, use_quote_delim)
            row = [row[i] for i in select_cols] if select_cols else row
            for column, default, value in zip(made, record_defaults, row):
                column[at] = (np.ravel(default)[0] if value in ("", text(na_value)) else
                              value.encode() if default.dtype == object else
                              default.dtype.type(value))
        return tuple(made)
    samples = [S(strs(["1,2.5,x", ",,", "7,-1e3,4"]),
                 [lit([9], dtypes.float32), lit([0.5], dtypes.float32)], select_cols=[0, 1]),
               S(strs("1|NA"), [lit([9], dtypes.float32), lit(0.5, dtypes.float32)],
                 field_delim="|", na_value="NA")]


# ------------------------------------------------------------------------------------------ Unicode
def _decoded_shape(op):
    size = op.inputs[0].shape.num_elements()
    return [TensorShape([None if size is None else size + 1])] + [
        TensorShape([None])] * (len(op.outputs) - 1)


def _decoded(input, encoding):
    rows = [s.decode(text(encoding), "replace") for s in np.ravel(input)]
    splits = np.cumsum([0] + [len(r) for r in rows])
    offsets = [len(r[:i].encode(text(encoding))) for r in rows for i in range(len(r))]
    return (splits, np.array([ord(c) for r in rows for c in r], np.int32),
            np.array(offsets, np.int64))


LETTERS = strs([["a\u00e9\u4e2d", ""], ["\U0001f600z", "b"]])


@op("UnicodeDecode", inputs="input: string", outputs="row_splits: Tsplits, char_values: int32",
    attrs="input_encoding: string, " + UNICODE + ", Tsplits: {int32, int64} = int64")
class UnicodeDecode:
    """Code points of all strings, and where each string's begin. TF: UnicodeDecode."""
    shape = _decoded_shape
    gradient = UNREGISTERED

    def reference(input, input_encoding): return _decoded(input, input_encoding)[:2]
    samples = [S(LETTERS, input_encoding="UTF-8"), S(strs("ab"), input_encoding="latin1")]


@op("UnicodeDecodeWithOffsets", inputs="input: string",
    outputs="row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64",
    attrs="input_encoding: string, " + UNICODE + ", Tsplits: {int32, int64} = int64")
class UnicodeDecodeWithOffsets:
    """UnicodeDecode, and at which byte of its string each character starts. TF:
    UnicodeDecodeWithOffsets."""
    shape = _decoded_shape
    gradient = UNREGISTERED

    def reference(input, input_encoding): return _decoded(input, input_encoding)
    samples = [S(LETTERS, input_encoding="UTF-8")]


ENCODINGS = 'output_encoding: {"UTF-8", "UTF-16-BE", "UTF-32-BE"}'


@op("UnicodeEncode", inputs="input_values: int32, input_splits: Tsplits", outputs="output: string",
    attrs='errors: {"ignore", "replace", "strict"} = "replace", ' + ENCODINGS
          + ", replacement_char: int = 65533, Tsplits: {int32, int64} = int64")
class UnicodeEncode:
    """Strings of the code points between splits. TF: UnicodeEncode."""
    def shape(op):
        match(op, "n", "m")
        rows = op.inputs[1].shape.num_elements()
        return TensorShape([None if rows is None else max(rows - 1, 0)])
    gradient = UNREGISTERED

    def reference(input_values, input_splits, output_encoding):
        name = text(output_encoding).replace("-BE", "BE").replace("-32BE", "-32-BE")
        rows = ["".join(map(chr, input_values[a:b])) for a, b in zip(input_splits,
                                                                     input_splits[1:])]
        return np.array([r.encode(name) for r in rows] or [], object)
    samples = [S(lit([97, 233, 0x4e2d, 0x1f600]), lit([0, 2, 2, 4]), output_encoding=e)
               for e in ("UTF-8", "UTF-16-BE", "UTF-32-BE")]


@op("UnicodeTranscode", inputs="input: string", outputs="output: string",
    attrs="input_encoding: string, " + ENCODINGS + ", " + UNICODE)
class UnicodeTranscode:
    """Strings from one encoding to another. TF: UnicodeTranscode."""
    shape = unchanged
    gradient = UNREGISTERED

    def reference(input, input_encoding, output_encoding):
        name = text(output_encoding).replace("-BE", "BE").replace("-32BE", "-32-BE")
        return each(lambda s: s.decode(text(input_encoding)).encode(name))(input)
    samples = [S(LETTERS, input_encoding="UTF-8", output_encoding=e)
               for e in ("UTF-8", "UTF-16-BE", "UTF-32-BE")]
