"""Types of pyflow.saved_model.tag_constants.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
EVAL = _saved_model.tag_constants.EVAL
GPU = _saved_model.tag_constants.GPU
SERVING = _saved_model.tag_constants.SERVING
TPU = _saved_model.tag_constants.TPU
TRAINING = _saved_model.tag_constants.TRAINING
