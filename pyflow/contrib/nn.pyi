"""Types of pyflow.contrib.nn.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
nth_element = _contrib.nn.nth_element
