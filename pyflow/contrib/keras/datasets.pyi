"""Types of pyflow.contrib.keras.datasets.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
