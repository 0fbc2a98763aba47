"""Types of pyflow.keras.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import keras as _keras
from . import datasets as datasets
