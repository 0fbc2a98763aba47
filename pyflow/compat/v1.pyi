"""Types of pyflow.compat.v1.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import *
