"""Types of pyflow.estimator.export.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import estimator as _estimator
ClassificationOutput = _estimator.export.ClassificationOutput
ExportOutput = _estimator.export.ExportOutput
PredictOutput = _estimator.export.PredictOutput
RegressionOutput = _estimator.export.RegressionOutput
ServingInputReceiver = _estimator.export.ServingInputReceiver
TensorServingInputReceiver = _estimator.export.TensorServingInputReceiver
build_parsing_serving_input_receiver_fn = _estimator.export.build_parsing_serving_input_receiver_fn
build_raw_serving_input_receiver_fn = _estimator.export.build_raw_serving_input_receiver_fn
