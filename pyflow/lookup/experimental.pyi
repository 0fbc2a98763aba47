"""Types of pyflow.lookup.experimental.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import lookup as _lookup
MutableHashTable = _lookup.experimental.MutableHashTable
