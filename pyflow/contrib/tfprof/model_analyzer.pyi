"""Types of pyflow.contrib.tfprof.model_analyzer.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
FLOAT_OPS_OPTIONS = _contrib.tfprof.model_analyzer.FLOAT_OPS_OPTIONS
TRAINABLE_VARS_PARAMS_STAT_OPTIONS = _contrib.tfprof.model_analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS
print_model_analysis = _contrib.tfprof.model_analyzer.print_model_analysis
