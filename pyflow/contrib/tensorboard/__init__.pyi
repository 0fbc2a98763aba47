"""Types of pyflow.contrib.tensorboard.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import plugins as plugins
