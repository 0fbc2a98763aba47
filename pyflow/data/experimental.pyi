"""Types of pyflow.data.experimental.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import data as _data
AUTOTUNE = _data.experimental.AUTOTUNE
make_saveable_from_iterator = _data.experimental.make_saveable_from_iterator
