"""Types of pyflow.contrib.slim.model_analyzer.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
analyze_ops = _contrib.slim.model_analyzer.analyze_ops
analyze_vars = _contrib.slim.model_analyzer.analyze_vars
tensor_description = _contrib.slim.model_analyzer.tensor_description
