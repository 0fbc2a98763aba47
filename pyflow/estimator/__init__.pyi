"""Types of pyflow.estimator.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import estimator as _estimator
BaselineClassifier = _estimator.BaselineClassifier
BaselineEstimator = _estimator.BaselineEstimator
BaselineRegressor = _estimator.BaselineRegressor
BestExporter = _estimator.BestExporter
BinaryClassHead = _estimator.BinaryClassHead
BoostedTreesClassifier = _estimator.BoostedTreesClassifier
BoostedTreesRegressor = _estimator.BoostedTreesRegressor
DNNClassifier = _estimator.DNNClassifier
DNNEstimator = _estimator.DNNEstimator
DNNLinearCombinedClassifier = _estimator.DNNLinearCombinedClassifier
DNNLinearCombinedEstimator = _estimator.DNNLinearCombinedEstimator
DNNLinearCombinedRegressor = _estimator.DNNLinearCombinedRegressor
DNNRegressor = _estimator.DNNRegressor
Estimator = _estimator.Estimator
EstimatorSpec = _estimator.EstimatorSpec
EvalSpec = _estimator.EvalSpec
Exporter = _estimator.Exporter
FinalExporter = _estimator.FinalExporter
Head = _estimator.Head
LatestExporter = _estimator.LatestExporter
LinearClassifier = _estimator.LinearClassifier
LinearEstimator = _estimator.LinearEstimator
LinearRegressor = _estimator.LinearRegressor
LogisticRegressionHead = _estimator.LogisticRegressionHead
ModeKeys = _estimator.ModeKeys
MultiClassHead = _estimator.MultiClassHead
MultiLabelHead = _estimator.MultiLabelHead
PoissonRegressionHead = _estimator.PoissonRegressionHead
RegressionHead = _estimator.RegressionHead
RunConfig = _estimator.RunConfig
TrainSpec = _estimator.TrainSpec
VocabInfo = _estimator.VocabInfo
WarmStartSettings = _estimator.WarmStartSettings
add_metrics = _estimator.add_metrics
classifier_parse_example_spec = _estimator.classifier_parse_example_spec
from . import experimental as experimental
from . import export as export
from . import inputs as inputs
regressor_parse_example_spec = _estimator.regressor_parse_example_spec
train_and_evaluate = _estimator.train_and_evaluate
