"""Types of pyflow.saved_model.utils.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
build_tensor_info = _saved_model.utils.build_tensor_info
get_tensor_from_tensor_info = _saved_model.utils.get_tensor_from_tensor_info
