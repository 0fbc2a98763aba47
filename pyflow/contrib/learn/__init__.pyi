"""Types of pyflow.contrib.learn.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import preprocessing as preprocessing
