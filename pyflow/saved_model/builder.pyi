"""Types of pyflow.saved_model.builder.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
SavedModelBuilder = _saved_model.builder.SavedModelBuilder
