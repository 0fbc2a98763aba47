"""Types of pyflow.contrib.estimator.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
add_metrics = _contrib.estimator.add_metrics
make_early_stopping_hook = _contrib.estimator.make_early_stopping_hook
stop_if_higher_hook = _contrib.estimator.stop_if_higher_hook
stop_if_lower_hook = _contrib.estimator.stop_if_lower_hook
stop_if_no_decrease_hook = _contrib.estimator.stop_if_no_decrease_hook
stop_if_no_increase_hook = _contrib.estimator.stop_if_no_increase_hook
