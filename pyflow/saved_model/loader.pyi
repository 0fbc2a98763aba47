"""Types of pyflow.saved_model.loader.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
load = _saved_model.loader.load
maybe_saved_model_directory = _saved_model.loader.maybe_saved_model_directory
