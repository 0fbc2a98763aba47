"""Types of pyflow.saved_model.constants.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import saved_model as _saved_model
ASSETS_DIRECTORY = _saved_model.constants.ASSETS_DIRECTORY
ASSETS_KEY = _saved_model.constants.ASSETS_KEY
LEGACY_INIT_OP_KEY = _saved_model.constants.LEGACY_INIT_OP_KEY
MAIN_OP_KEY = _saved_model.constants.MAIN_OP_KEY
SAVED_MODEL_FILENAME_PB = _saved_model.constants.SAVED_MODEL_FILENAME_PB
SAVED_MODEL_FILENAME_PBTXT = _saved_model.constants.SAVED_MODEL_FILENAME_PBTXT
SAVED_MODEL_SCHEMA_VERSION = _saved_model.constants.SAVED_MODEL_SCHEMA_VERSION
VARIABLES_DIRECTORY = _saved_model.constants.VARIABLES_DIRECTORY
VARIABLES_FILENAME = _saved_model.constants.VARIABLES_FILENAME
