"""Types of pyflow.contrib.staging.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
MapStagingArea = _contrib.staging.MapStagingArea
StagingArea = _contrib.staging.StagingArea
