"""Types of pyflow.contrib.keras.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import datasets as datasets
