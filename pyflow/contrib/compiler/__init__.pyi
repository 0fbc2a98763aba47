"""Types of pyflow.contrib.compiler.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import jit as jit
