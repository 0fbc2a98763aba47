"""Types of pyflow.estimator.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import estimator as _estimator
BestExporter = _estimator.BestExporter
Estimator = _estimator.Estimator
EstimatorSpec = _estimator.EstimatorSpec
EvalSpec = _estimator.EvalSpec
Exporter = _estimator.Exporter
FinalExporter = _estimator.FinalExporter
LatestExporter = _estimator.LatestExporter
ModeKeys = _estimator.ModeKeys
RunConfig = _estimator.RunConfig
TrainSpec = _estimator.TrainSpec
VocabInfo = _estimator.VocabInfo
WarmStartSettings = _estimator.WarmStartSettings
from . import export as export
from . import inputs as inputs
train_and_evaluate = _estimator.train_and_evaluate
