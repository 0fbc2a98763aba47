"""Types of pyflow.train.queue_runner.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import train as _train
QueueRunner = _train.queue_runner.QueueRunner
add_queue_runner = _train.queue_runner.add_queue_runner
start_queue_runners = _train.queue_runner.start_queue_runners
