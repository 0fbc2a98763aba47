"""Types of pyflow.contrib.slim.evaluation.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
checkpoints_iterator = _contrib.slim.evaluation.checkpoints_iterator
evaluate_once = _contrib.slim.evaluation.evaluate_once
evaluation_loop = _contrib.slim.evaluation.evaluation_loop
wait_for_new_checkpoint = _contrib.slim.evaluation.wait_for_new_checkpoint
