"""Types of pyflow.contrib.training.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
HParams = _contrib.training.HParams
bucket = _contrib.training.bucket
bucket_by_sequence_length = _contrib.training.bucket_by_sequence_length
