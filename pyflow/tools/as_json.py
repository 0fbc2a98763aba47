"""What commands print with --json: one JSON object on stdout, errors on stderr as without it.

    add_option(parser)
    if args.json: show({"model": path, "problems": [...]})

Arrays are {"dtype", "shape", "value"}: nested lists, strings for bytes, and "NaN", "Infinity" and
"-Infinity" for what JSON has no numbers for.  Threads: pure but for printing.
"""
import json
import math

import numpy as np


def add_option(parser):
    """--json."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")


def show(facts):
    """Prints an object."""
    print(json.dumps(facts, allow_nan=False))


def array(value):
    """A fetched value; None for what an operation gives."""
    if value is None:
        return None
    made = np.asarray(value)
    return {"dtype": "string" if made.dtype == object else made.dtype.name,
            "shape": list(made.shape), "value": _plain(made.tolist())}


def _plain(item):
    if isinstance(item, list):
        return [_plain(x) for x in item]
    if isinstance(item, float) and not math.isfinite(item):
        return "NaN" if math.isnan(item) else "Infinity" if item > 0 else "-Infinity"
    if isinstance(item, complex):
        return [_plain(item.real), _plain(item.imag)]
    if isinstance(item, bytes):
        return item.decode("utf-8", "backslashreplace")
    return item if isinstance(item, (bool, int, float, str)) else str(item)
