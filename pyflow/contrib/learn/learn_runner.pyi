"""Types of pyflow.contrib.learn.learn_runner.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
run = _contrib.learn.learn_runner.run
