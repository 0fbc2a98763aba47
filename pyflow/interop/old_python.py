"""What Python, NumPy and h5py have removed since TensorFlow 1.x's day, given back.

    python -m pyflow exec --old-python train.py
    pyflow.compat.install_as_tensorflow(old_python=True)

Libraries of that day say `from collections import Iterable`, `inspect.getargspec`, `numpy.float`;
on Python 3.11 and NumPy 1.24 they fail before they reach TensorFlow. And Keras decodes what h5py 2
gave as bytes and h5py 3, the only one for Python 3.11, gives as text, and opens files without a
mode.

Invariants
    1. A name that is there stays as it is: only what is missing is set, with its old meaning.
    2. Nothing happens unless it is asked for: the names are seen by the whole process.
    3. h5py is not imported; it changes when somebody imports it.

Threads: call it once, before what needs the names is imported.
Callers: pyflow/interop/install.py, pyflow/tools/exec.py.
"""
import base64
import collections
import collections.abc
import fractions
import functools
import html
import html.parser
import importlib.abc
import importlib.util
import inspect
import math
import sys
import threading
import time

import numpy as np

from pyflow.interop import old_scipy

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def install():
    """Gives the removed names back, and SciPy's removed modules (old_scipy.py).  Returns names that
    were missing, as "module.name", sorted."""
    old_scipy.install()
    given = []
    for home, names in _names().items():
        for name, value in names.items():
            if name not in vars(home) and value is not None:
                setattr(home, name, value)
                given.append(f"{home.__name__}.{name}")
    if "h5py" in sys.modules:
        _as_h5py_2(sys.modules["h5py"])
    elif not any(isinstance(finder, _WhenH5pyComes) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenH5pyComes())
    return sorted(given)


def getargspec(function):
    """inspect.getargspec of Python 3.10 and before: (args, varargs, keywords, defaults).

    ValueError for a function with keyword-only arguments or annotations."""
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
        "row_stack": np.vstack, "trapz": getattr(np, "trapezoid", None),
        "asfarray": _asfarray, "msort": lambda a: np.sort(a, axis=0),
    }


def _asfarray(a, dtype=np.float64):
    """The array in a floating-point type: `dtype`, or float64 where that is none."""
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


# ---------------------------------------------------------------- h5py

class _WhenH5pyComes(importlib.abc.MetaPathFinder):
    """Lets the other finders find h5py, and changes it when it has been loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != "h5py":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                _as_h5py_2(module)
            spec.loader.exec_module = exec_module
        return spec


def _as_h5py_2(h5py):
    """Attributes that were written as bytes are read as bytes; files open without a mode."""
    if int(h5py.__version__.partition(".")[0]) < 3 or hasattr(h5py.File, "_pyflow_init"):
        return
    h5py.File._pyflow_init = h5py.File.__init__
    h5py.AttributeManager.__getitem__ = _reading_bytes(h5py, h5py.AttributeManager.__getitem__)
    h5py.File.__init__ = _opening_any(h5py.File.__init__)


def _reading_bytes(h5py, text_of):
    """AttributeManager.__getitem__ that gives bytes for ASCII text, one or an array."""
    def __getitem__(self, name):
        value = text_of(self, name)
        many = isinstance(value, np.ndarray) and value.dtype == object
        if not many and not isinstance(value, str):
            return value
        written = h5py.check_string_dtype(self.get_id(name).dtype)
        if written is None or written.encoding != "ascii":
            return value
        if not many:
            return value.encode("utf-8", "surrogateescape")
        return np.array([text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
                         for text in value.flat], np.bytes_).reshape(value.shape)
    return __getitem__


def _opening_any(opened):
    """File.__init__ that without a mode reads and writes, or reads, or creates."""
    @functools.wraps(opened)
    def __init__(self, name, mode=None, *more, **options):
        if mode is not None:
            return opened(self, name, mode, *more, **options)
        try:
            return opened(self, name, "a", *more, **options)
        except PermissionError:
            return opened(self, name, "r", *more, **options)
    return __init__
