"""Types of pyflow.contrib.data.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
make_saveable_from_iterator = _contrib.data.make_saveable_from_iterator
