"""String kernels that are Python functions, registered by session/runtime.py: Unicode case,
inflating, tf.Examples in JSON.

Invariants
  1. A function takes the op's inputs as arrays (a scalar string as bytes) and its attributes by
     name, and returns its output.
  2. Inflated data is limited to MOST_BYTES; what is wrong with an input is a CodecError.

Threads: the one that called session.run, with the GIL.

Example:  `KERNELS["StringUpper"](b"stra\\xc3\\x9fe", encoding="utf-8")` -> b"STRASSE".
"""
import zlib

import numpy as np

from pyflow.ops.image.image_codec import CodecError

MOST_BYTES = 1 << 29


def _each(function, strings):
    if isinstance(strings, bytes):
        return np.array(function(strings), object)
    made = np.empty(strings.shape, object)
    for at in np.ndindex(strings.shape):
        made[at] = function(strings[at])
    return made


def _in_case(change):
    def convert(input, encoding):
        if encoding not in ("", "utf-8"):
            raise CodecError(f"Only utf-8 or '' (no encoding) is supported, received {encoding!r}")
        return _each(lambda s: change(s.decode("utf-8", "replace")).encode("utf-8"), input)
    return convert


def _inflated(data, wbits, kind):
    machine = zlib.decompressobj(wbits)
    try:
        made = machine.decompress(data, MOST_BYTES)
    except zlib.error as e:
        raise CodecError(f"DecodeCompressed: no {kind} data: {e}") from None
    if machine.unconsumed_tail:
        raise CodecError(f"DecodeCompressed: more than {MOST_BYTES} bytes")
    if data and not machine.eof:
        raise CodecError(f"DecodeCompressed: the {kind} data is cut off")
    return made


def decode_compressed(bytes, compression_type):
    """DecodeCompressed."""
    bits = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}.get(compression_type)
    if compression_type and bits is None:
        raise CodecError(f"Only ZLIB, GZIP or NONE are supported compressions, got "
                         f"{compression_type!r}")
    return _each(lambda s: _inflated(s, bits, compression_type) if bits else s, bytes)


def _example_of(text):
    from google.protobuf import json_format
    from pyflow.framework import protos
    if len(text) > MOST_BYTES:
        raise CodecError(f"Error while parsing JSON: more than {MOST_BYTES} bytes")
    try:
        return json_format.Parse(text, protos.Example()).SerializeToString(deterministic=True)
    except (json_format.ParseError, RecursionError, UnicodeDecodeError) as error:
        raise CodecError(f"Error while parsing JSON: {error}") from None


def decode_json_example(json_examples):
    """DecodeJSONExample: protobuf's mapping to JSON."""
    return _each(_example_of, json_examples)


KERNELS = {"StringLower": _in_case(str.lower), "StringUpper": _in_case(str.upper),
           "DecodeCompressed": decode_compressed, "DecodeJSONExample": decode_json_example}
