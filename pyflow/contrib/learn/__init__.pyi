"""Types of pyflow.contrib.learn.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
DNNClassifier = _contrib.learn.DNNClassifier
DNNLinearCombinedClassifier = _contrib.learn.DNNLinearCombinedClassifier
DNNLinearCombinedRegressor = _contrib.learn.DNNLinearCombinedRegressor
DNNRegressor = _contrib.learn.DNNRegressor
Estimator = _contrib.learn.Estimator
Experiment = _contrib.learn.Experiment
LinearClassifier = _contrib.learn.LinearClassifier
LinearRegressor = _contrib.learn.LinearRegressor
MetricSpec = _contrib.learn.MetricSpec
ModeKeys = _contrib.learn.ModeKeys
ModelFnOps = _contrib.learn.ModelFnOps
RunConfig = _contrib.learn.RunConfig
SKCompat = _contrib.learn.SKCompat
from . import datasets as datasets
infer_real_valued_columns_from_input = _contrib.learn.infer_real_valued_columns_from_input
infer_real_valued_columns_from_input_fn = _contrib.learn.infer_real_valued_columns_from_input_fn
from . import learn_runner as learn_runner
from . import preprocessing as preprocessing
