"""Types of pyflow.saved_model.signature_constants.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
CLASSIFY_INPUTS = _saved_model.signature_constants.CLASSIFY_INPUTS
CLASSIFY_METHOD_NAME = _saved_model.signature_constants.CLASSIFY_METHOD_NAME
CLASSIFY_OUTPUT_CLASSES = _saved_model.signature_constants.CLASSIFY_OUTPUT_CLASSES
CLASSIFY_OUTPUT_SCORES = _saved_model.signature_constants.CLASSIFY_OUTPUT_SCORES
DEFAULT_SERVING_SIGNATURE_DEF_KEY = _saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
PREDICT_INPUTS = _saved_model.signature_constants.PREDICT_INPUTS
PREDICT_METHOD_NAME = _saved_model.signature_constants.PREDICT_METHOD_NAME
PREDICT_OUTPUTS = _saved_model.signature_constants.PREDICT_OUTPUTS
REGRESS_INPUTS = _saved_model.signature_constants.REGRESS_INPUTS
REGRESS_METHOD_NAME = _saved_model.signature_constants.REGRESS_METHOD_NAME
REGRESS_OUTPUTS = _saved_model.signature_constants.REGRESS_OUTPUTS
