"""Types of pyflow.saved_model.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
ASSETS_DIRECTORY = _saved_model.ASSETS_DIRECTORY
ASSETS_KEY = _saved_model.ASSETS_KEY
Builder = _saved_model.Builder
CLASSIFY_INPUTS = _saved_model.CLASSIFY_INPUTS
CLASSIFY_METHOD_NAME = _saved_model.CLASSIFY_METHOD_NAME
CLASSIFY_OUTPUT_CLASSES = _saved_model.CLASSIFY_OUTPUT_CLASSES
CLASSIFY_OUTPUT_SCORES = _saved_model.CLASSIFY_OUTPUT_SCORES
DEFAULT_SERVING_SIGNATURE_DEF_KEY = _saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
EVAL = _saved_model.EVAL
GPU = _saved_model.GPU
LEGACY_INIT_OP_KEY = _saved_model.LEGACY_INIT_OP_KEY
MAIN_OP_KEY = _saved_model.MAIN_OP_KEY
PREDICT_INPUTS = _saved_model.PREDICT_INPUTS
PREDICT_METHOD_NAME = _saved_model.PREDICT_METHOD_NAME
PREDICT_OUTPUTS = _saved_model.PREDICT_OUTPUTS
REGRESS_INPUTS = _saved_model.REGRESS_INPUTS
REGRESS_METHOD_NAME = _saved_model.REGRESS_METHOD_NAME
REGRESS_OUTPUTS = _saved_model.REGRESS_OUTPUTS
SAVED_MODEL_FILENAME_PB = _saved_model.SAVED_MODEL_FILENAME_PB
SAVED_MODEL_FILENAME_PBTXT = _saved_model.SAVED_MODEL_FILENAME_PBTXT
SAVED_MODEL_SCHEMA_VERSION = _saved_model.SAVED_MODEL_SCHEMA_VERSION
SERVING = _saved_model.SERVING
TPU = _saved_model.TPU
TRAINING = _saved_model.TRAINING
VARIABLES_DIRECTORY = _saved_model.VARIABLES_DIRECTORY
VARIABLES_FILENAME = _saved_model.VARIABLES_FILENAME
build_signature_def = _saved_model.build_signature_def
build_tensor_info = _saved_model.build_tensor_info
from . import builder as builder
classification_signature_def = _saved_model.classification_signature_def
from . import constants as constants
contains_saved_model = _saved_model.contains_saved_model
get_tensor_from_tensor_info = _saved_model.get_tensor_from_tensor_info
is_valid_signature = _saved_model.is_valid_signature
load = _saved_model.load
from . import loader as loader
from . import main_op as main_op
main_op_with_restore = _saved_model.main_op_with_restore
maybe_saved_model_directory = _saved_model.maybe_saved_model_directory
predict_signature_def = _saved_model.predict_signature_def
regression_signature_def = _saved_model.regression_signature_def
from . import signature_constants as signature_constants
from . import signature_def_utils as signature_def_utils
simple_save = _saved_model.simple_save
from . import tag_constants as tag_constants
from . import utils as utils
