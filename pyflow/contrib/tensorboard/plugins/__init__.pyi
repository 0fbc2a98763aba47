"""Types of pyflow.contrib.tensorboard.plugins.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import projector as projector
