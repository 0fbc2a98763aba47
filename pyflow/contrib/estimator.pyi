"""Types of pyflow.contrib.estimator.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
add_metrics = _contrib.estimator.add_metrics
binary_classification_head = _contrib.estimator.binary_classification_head
logistic_regression_head = _contrib.estimator.logistic_regression_head
make_early_stopping_hook = _contrib.estimator.make_early_stopping_hook
multi_class_head = _contrib.estimator.multi_class_head
multi_label_head = _contrib.estimator.multi_label_head
poisson_regression_head = _contrib.estimator.poisson_regression_head
regression_head = _contrib.estimator.regression_head
stop_if_higher_hook = _contrib.estimator.stop_if_higher_hook
stop_if_lower_hook = _contrib.estimator.stop_if_lower_hook
stop_if_no_decrease_hook = _contrib.estimator.stop_if_no_decrease_hook
stop_if_no_increase_hook = _contrib.estimator.stop_if_no_increase_hook
