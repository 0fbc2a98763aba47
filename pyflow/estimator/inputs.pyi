"""Types of pyflow.estimator.inputs.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import estimator as _estimator
numpy_input_fn = _estimator.inputs.numpy_input_fn
pandas_input_fn = _estimator.inputs.pandas_input_fn
