"""Types of pyflow.contrib.compiler.jit.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
experimental_jit_scope = _contrib.compiler.jit.experimental_jit_scope
