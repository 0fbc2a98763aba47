"""Names that a SavedModel consists of: files, tags, keys of collections and signatures, as in
TF 1.15 (python/saved_model/constants.py, tag_constants.py, signature_constants.py)."""

ASSETS_DIRECTORY = "assets"
ASSETS_KEY = "saved_model_assets"
LEGACY_INIT_OP_KEY = "legacy_init_op"
MAIN_OP_KEY = "saved_model_main_op"
TRAIN_OP_KEY = "saved_model_train_op"
SAVED_MODEL_FILENAME_PB = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT = "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION = 1
VARIABLES_DIRECTORY = "variables"
VARIABLES_FILENAME = "variables"
INIT_OP_SIGNATURE_KEY, TRAIN_OP_SIGNATURE_KEY = "__saved_model_init_op", "__saved_model_train_op"

SERVING, TRAINING, EVAL, GPU, TPU = "serve", "train", "eval", "gpu", "tpu"

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
PREDICT_INPUTS, PREDICT_OUTPUTS = "inputs", "outputs"
PREDICT_METHOD_NAME = "tensorflow/serving/predict"
CLASSIFY_INPUTS = "inputs"
CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES = "classes", "scores"
CLASSIFY_METHOD_NAME = "tensorflow/serving/classify"
REGRESS_INPUTS, REGRESS_OUTPUTS = "inputs", "outputs"
REGRESS_METHOD_NAME = "tensorflow/serving/regress"

_FILES = ("ASSETS_DIRECTORY ASSETS_KEY LEGACY_INIT_OP_KEY MAIN_OP_KEY SAVED_MODEL_FILENAME_PB"
          " SAVED_MODEL_FILENAME_PBTXT SAVED_MODEL_SCHEMA_VERSION VARIABLES_DIRECTORY"
          " VARIABLES_FILENAME")
_TAGS = "SERVING TRAINING EVAL GPU TPU"
_SIGNATURES = ("DEFAULT_SERVING_SIGNATURE_DEF_KEY PREDICT_INPUTS PREDICT_OUTPUTS"
               " PREDICT_METHOD_NAME CLASSIFY_INPUTS CLASSIFY_OUTPUT_CLASSES"
               " CLASSIFY_OUTPUT_SCORES CLASSIFY_METHOD_NAME REGRESS_INPUTS REGRESS_OUTPUTS"
               " REGRESS_METHOD_NAME")
PUBLIC = {}
for _prefix, _names in (("saved_model.", _FILES + " " + _TAGS + " " + _SIGNATURES),
                        ("saved_model.constants.", _FILES),
                        ("saved_model.tag_constants.", _TAGS),
                        ("saved_model.signature_constants.", _SIGNATURES)):
    PUBLIC.update({_prefix + name: globals()[name] for name in _names.split()})
