"""Types of pyflow.contrib.tfprof.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import model_analyzer as model_analyzer
