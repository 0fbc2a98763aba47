"""Types of pyflow.saved_model.signature_def_utils.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
build_signature_def = _saved_model.signature_def_utils.build_signature_def
classification_signature_def = _saved_model.signature_def_utils.classification_signature_def
is_valid_signature = _saved_model.signature_def_utils.is_valid_signature
predict_signature_def = _saved_model.signature_def_utils.predict_signature_def
regression_signature_def = _saved_model.signature_def_utils.regression_signature_def
