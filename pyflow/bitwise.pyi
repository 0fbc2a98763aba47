"""Types of pyflow.bitwise.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import bitwise as _bitwise
bitwise_and = _bitwise.bitwise_and
bitwise_or = _bitwise.bitwise_or
bitwise_xor = _bitwise.bitwise_xor
invert = _bitwise.invert
left_shift = _bitwise.left_shift
right_shift = _bitwise.right_shift
