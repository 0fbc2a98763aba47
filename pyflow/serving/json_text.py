"""JSON text to values, and values with arrays in them to JSON text.

As TensorFlow Serving does, NaN, Infinity and -Infinity are numbers, both ways, and a float32 is
written with as few digits as give it back: 0.2, not 0.20000000298.

Invariants
    1. What cannot be read is an InvalidArgumentError that says where.
    2. Both ways, with orjson and without it, give the same values: orjson, where it is installed,
       does what it can do exactly, and the standard library the rest.

Threads: functions without state.
"""
import json
import re

import numpy as np

from pyflow.serving import refusals, tensors

try:
    import orjson
except ImportError:
    orjson = None

_LARGE = re.compile(rb"[eE]\+?0*[1-9]\d{2}|\d{19}")      # what may be no double, or no int64


def read(body):
    """The value of `body`, UTF-8 bytes. InvalidArgumentError if it is no JSON."""
    if not body.strip():
        raise refusals.bad("the request has no body; expected a JSON object")
    if orjson is not None:
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass                        # NaN, Infinity, or what the other one names as well
    return _read_plain(body)


def _read_plain(body):
    try:
        text = body.decode("utf-8")
        if _LARGE.search(body):
            return json.loads(text, parse_float=_double, parse_int=_whole)
        return json.loads(text)
    except UnicodeDecodeError as e:
        raise refusals.bad(f"the body is not UTF-8: {e.reason} at byte {e.start}") from None
    except RecursionError:
        raise refusals.bad("the body's JSON is nested too deep") from None
    except ValueError as e:
        raise refusals.bad(f"the body is no JSON: {e}") from None


def _double(text):
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text[:40]} is too large for a double")
    return value


def _whole(text):
    """Beyond 64 bits a number is a double, as for orjson and for TensorFlow Serving's reader."""
    value = _double(text)
    if -2 ** 64 < value < 2 ** 65:
        whole = int(text)
        return whole if -2 ** 63 <= whole < 2 ** 64 else value
    return value


def write(value):
    """JSON text (bytes) of dicts, lists, texts, numbers, and arrays of numbers and booleans."""
    if orjson is not None and _finite(value):
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    return json.dumps(_listed(value), separators=(",", ":"), ensure_ascii=False).encode()


def _finite(value):
    """False if orjson would write null, or does not know the array."""
    if isinstance(value, np.ndarray):
        if not (value.flags.c_contiguous and value.dtype.isnative and value.ndim):
            return False
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    if isinstance(value, dict):
        return all(_finite(v) for v in value.values())
    if isinstance(value, list):
        return all(_finite(v) for v in value if isinstance(v, (dict, list, np.ndarray, float)))
    return not isinstance(value, float) or np.isfinite(value)


def _listed(value):
    """`value` with lists for arrays."""
    if isinstance(value, np.ndarray):
        return tensors.plain(value)
    if isinstance(value, dict):
        return {key: _listed(v) for key, v in value.items()}
    if isinstance(value, list):
        return [_listed(v) for v in value]
    return value
