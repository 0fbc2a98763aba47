"""Types of pyflow.estimator.experimental.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import estimator as _estimator
KMeans = _estimator.experimental.KMeans
make_early_stopping_hook = _estimator.experimental.make_early_stopping_hook
stop_if_higher_hook = _estimator.experimental.stop_if_higher_hook
stop_if_lower_hook = _estimator.experimental.stop_if_lower_hook
stop_if_no_decrease_hook = _estimator.experimental.stop_if_no_decrease_hook
stop_if_no_increase_hook = _estimator.experimental.stop_if_no_increase_hook
