"""Gives the kernel tests back what NumPy and Python have dropped since they were written.

run.py puts this folder on PYTHONPATH, so that it is imported before anything else. It restores
names and one argument; it touches neither pyflow nor a value that a test compares.
"""
import collections
import collections.abc
import inspect
import unittest

import numpy as np

for _name, _value in {"bool": bool, "int": int, "float": float, "complex": complex,
                      "object": object, "str": str, "long": int, "unicode": str}.items():
    np.__dict__.setdefault(_name, _value)          # removed by NumPy 1.24
for _name in ("Iterable", "Mapping", "MutableMapping", "Sequence", "Callable", "Hashable"):
    collections.__dict__.setdefault(_name, getattr(collections.abc, _name))      # Python 3.10
inspect.__dict__.setdefault("getargspec", inspect.getfullargspec)                # Python 3.11
for _old, _new in {"assertEquals": "assertEqual", "assertNotEquals": "assertNotEqual",
                   "assertAlmostEquals": "assertAlmostEqual", "assert_": "assertTrue",
                   "assertRegexpMatches": "assertRegex",
                   "assertRaisesRegexp": "assertRaisesRegex"}.items():
    if not hasattr(unittest.TestCase, _old):                                     # Python 3.12
        setattr(unittest.TestCase, _old, getattr(unittest.TestCase, _new))
