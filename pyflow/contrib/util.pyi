"""Types of pyflow.contrib.util.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
constant_value = _contrib.util.constant_value
make_ndarray = _contrib.util.make_ndarray
make_tensor_proto = _contrib.util.make_tensor_proto
