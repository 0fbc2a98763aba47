"""Types of pyflow.data.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import data as _data
Dataset = _data.Dataset
Iterator = _data.Iterator
from . import experimental as experimental
