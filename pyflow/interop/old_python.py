"""Names that Python and NumPy have removed since TensorFlow 1.x's day, given back.

    python -m pyflow exec --old-python train.py
    pyflow.compat.install_as_tensorflow(old_python=True)

Libraries of that day say `from collections import Iterable`, `inspect.getargspec`, `numpy.float`;
on Python 3.11 and NumPy 1.24 they fail before they reach TensorFlow.

Invariants
    1. A name that is there stays as it is: only what is missing is set, with its old meaning.
    2. Nothing happens unless it is asked for: the names are seen by the whole process.

Threads: call it once, before what needs the names is imported.
Callers: pyflow/interop/install.py, pyflow/tools/exec.py.
"""
import base64
import collections
import collections.abc
import fractions
import html
import html.parser
import inspect
import math
import threading
import time

import numpy as np

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def install():
    """Gives the removed names back.  Returns those that were missing, as "module.name", sorted."""
    given = []
    for home, names in _names().items():
        for name, value in names.items():
            if name not in vars(home):
                setattr(home, name, value)
                given.append(f"{home.__name__}.{name}")
    return sorted(given)


def getargspec(function):
    """inspect.getargspec of Python 3.10 and before: (args, varargs, keywords, defaults).  ValueError
    for a function with keyword-only arguments or annotations."""
    full = inspect.getfullargspec(function)
    if full.kwonlyargs or full.annotations:
        raise ValueError("Function has keyword-only parameters or annotations, use "
                         "inspect.signature() API which can support them")
    return ArgSpec(full.args, full.varargs, full.varkw, full.defaults)


def _names():
    """{module or class: {name: what it was}}."""
    return {
        collections: {name: getattr(collections.abc, name) for name in collections.abc.__all__},
        inspect: {"getargspec": getargspec, "ArgSpec": ArgSpec},
        fractions: {"gcd": math.gcd},
        time: {"clock": time.perf_counter},
        base64: {"encodestring": base64.encodebytes, "decodestring": base64.decodebytes},
        html.parser.HTMLParser: {"unescape": staticmethod(html.unescape)},
        threading.Thread: {"isAlive": threading.Thread.is_alive},
        np: _of_numpy(),
    }


def _of_numpy():
    """Names of NumPy that 1.23 to 2.0 removed."""
    return {
        "bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str,
        "long": int, "unicode": str, "float_": np.float64, "complex_": np.complex128,
        "unicode_": np.str_, "string_": np.bytes_, "Inf": np.inf, "Infinity": np.inf,
        "infty": np.inf, "PINF": np.inf, "NINF": -np.inf, "NaN": np.nan, "NAN": np.nan,
        "asscalar": lambda a: np.asarray(a).item(), "rank": np.ndim, "round_": np.round,
        "product": np.prod, "cumproduct": np.cumprod, "sometrue": np.any, "alltrue": np.all,
        "in1d": lambda ar1, ar2, **options: np.isin(np.ravel(ar1), ar2, **options),
        "row_stack": np.vstack, "trapz": getattr(np, "trapezoid", None) or getattr(np, "trapz", None),
        "asfarray": _asfarray, "msort": lambda a: np.sort(a, axis=0),
    }


def _asfarray(a, dtype=np.float64):
    """The array in a floating-point type: `dtype`, or float64 where that is none."""
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)
