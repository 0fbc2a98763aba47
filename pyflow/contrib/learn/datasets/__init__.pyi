"""Types of pyflow.contrib.learn.datasets.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
from . import base as base
load_boston = _contrib.learn.datasets.load_boston
load_iris = _contrib.learn.datasets.load_iris
