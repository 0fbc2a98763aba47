"""DecodeJSONExample, a Python function, registered by session/runtime.py.

Threads: the one that called session.run, with the GIL.  Source: protobuf's mapping to JSON.
"""
import numpy as np

from pyflow.ops.image.image_codec import CodecError

MOST_BYTES = 1 << 29


def _decoded(text):
    from google.protobuf import json_format
    from pyflow.framework import protos
    if len(text) > MOST_BYTES:
        raise CodecError(f"Error while parsing JSON: more than {MOST_BYTES} bytes")
    try:
        return json_format.Parse(text, protos.Example()).SerializeToString(deterministic=True)
    except (json_format.ParseError, RecursionError, UnicodeDecodeError) as error:
        raise CodecError(f"Error while parsing JSON: {error}") from None


def decode_json_example(json_examples):
    """DecodeJSONExample."""
    if isinstance(json_examples, bytes):
        return np.array(_decoded(json_examples), object)
    made = np.empty(json_examples.shape, object)
    for at in np.ndindex(json_examples.shape):
        made[at] = _decoded(json_examples[at])
    return made


KERNELS = {"DecodeJSONExample": decode_json_example}
