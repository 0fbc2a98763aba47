"""Types of pyflow.keras.datasets.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import keras as _keras
