"""Types of pyflow.saved_model.main_op.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
main_op = _saved_model.main_op.main_op
main_op_with_restore = _saved_model.main_op.main_op_with_restore
