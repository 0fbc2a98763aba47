"""Strings as data: hash buckets, Base64, raw numbers, CSV, encodings."""
from pyflow.framework import dtypes, graph
from pyflow.ops.base.common import one_of
from pyflow.ops.strings.string_data_ops import (DecodeBase64, DecodeCSV, DecodeCompressed,
                                                DecodeRaw, EncodeBase64, StringToHashBucket,
                                                StringToHashBucketFast, StringToHashBucketStrong,
                                                UnicodeTranscode)


def string_to_hash_bucket(string_tensor=None, num_buckets=None, name=None, input=None):
    """A bucket in [0, num_buckets) for each string, int64; may differ between versions of TF. Use
    string_to_hash_bucket_fast in new code. TF: tf.string_to_hash_bucket.
    Dtypes, shapes, errors: as op StringToHashBucket."""
    words = one_of(string_tensor, input, "string_tensor", "input")
    return StringToHashBucket(words, num_buckets=num_buckets, name=name)


def string_to_hash_bucket_fast(input, num_buckets, name=None):
    """A bucket in [0, num_buckets) for each string, int64, by FarmHash's Fingerprint64.
    TF: tf.string_to_hash_bucket_fast.
    Dtypes, shapes, errors: as op StringToHashBucketFast."""
    return StringToHashBucketFast(input, num_buckets=num_buckets, name=name)


def string_to_hash_bucket_strong(input, num_buckets, key, name=None):
    """A bucket in [0, num_buckets) for each string, int64, by SipHash with `key`, two numbers, so
    that nobody can choose strings that collide. TF: tf.string_to_hash_bucket_strong.
    Dtypes, shapes, errors: as op StringToHashBucketStrong."""
    return StringToHashBucketStrong(input, num_buckets=num_buckets, key=key, name=name)


def encode_base64(input, pad=False, name=None):
    """Strings as URL-safe Base64. TF: tf.encode_base64.
    Dtypes, shapes, errors: as op EncodeBase64."""
    return EncodeBase64(input, pad=pad, name=name)


def decode_base64(input, name=None):
    """URL-safe Base64 decoded; InvalidArgumentError for other characters. TF: tf.decode_base64.
    Dtypes, shapes, errors: as op DecodeBase64."""
    return DecodeBase64(input, name=name)


def decode_raw(input_bytes=None, out_type=None, little_endian=True, name=None, bytes=None):
    """The bytes of strings, all of one length, as numbers [..., n] of out_type.
    InvalidArgumentError if the lengths differ or do not divide. TF: tf.decode_raw.
    input_bytes, or bytes, its newer name: the strings; little_endian: the order of a number's
    bytes.

        >>> tf.Session().run(tf.decode_raw(tf.constant([b"ab", b"cd"]), tf.uint8))
        array([[ 97,  98],
               [ 99, 100]], dtype=uint8)
    """
    strings = one_of(input_bytes, bytes, "input_bytes", "bytes")
    if out_type is None:
        raise ValueError("decode_raw() missing 1 positional argument: 'out_type'")
    return DecodeRaw(strings, out_type=dtypes.as_dtype(out_type), little_endian=little_endian,
                     name=name)


def decode_compressed(bytes, compression_type="", name=None):
    """Strings inflated; compression_type "ZLIB", "GZIP" or "". TF: tf.io.decode_compressed.
    Dtypes, shapes, errors: as op DecodeCompressed."""
    return DecodeCompressed(bytes, compression_type=compression_type, name=name)


def decode_csv(records, record_defaults, field_delim=",", use_quote_delim=True, name=None,
               na_value="", select_cols=None):
    """Columns of CSV records, a list of tensors of the records' shape.

    Each default, a scalar or a list of one, gives its column's dtype and what empty fields are; an
    empty one makes the field required. InvalidArgumentError for records that do not fit.
    TF: tf.decode_csv."""
    if select_cols is not None:
        if any(a >= b for a, b in zip(select_cols, select_cols[1:])):
            raise ValueError("select_cols is not strictly increasing.")
        if select_cols and select_cols[0] < 0:
            raise ValueError("select_cols contains negative values.")
        if len(select_cols) != len(record_defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
    defaults = [graph.convert_to_tensor(d) for d in record_defaults]
    return list(DecodeCSV(records, defaults, field_delim=field_delim,
                          use_quote_delim=use_quote_delim, na_value=na_value,
                          select_cols=list(select_cols or []), name=name))


def unicode_transcode(input, input_encoding, output_encoding, errors="replace",
                      replacement_char=65533, replace_control_characters=False, name=None):
    """Strings from one encoding to another; what is not well formed is an error ("strict"), left
    out ("ignore") or replaced. TF: tf.strings.unicode_transcode.
    Dtypes, shapes, errors: as op UnicodeTranscode."""
    return UnicodeTranscode(input, input_encoding=input_encoding, output_encoding=output_encoding,
                            errors=errors, replacement_char=replacement_char,
                            replace_control_characters=replace_control_characters, name=name)


PUBLIC = {"strings.unicode_transcode": unicode_transcode, "io.decode_compressed": decode_compressed}
for _name, _function in {"hash_bucket": string_to_hash_bucket,
                         "hash_bucket_fast": string_to_hash_bucket_fast,
                         "hash_bucket_strong": string_to_hash_bucket_strong}.items():
    PUBLIC[f"string_to_{_name}"] = PUBLIC[f"strings.to_{_name}"] = _function
for _function in (encode_base64, decode_base64, decode_raw, decode_csv):
    PUBLIC[_function.__name__] = PUBLIC[f"io.{_function.__name__}"] = _function
