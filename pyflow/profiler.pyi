"""Types of pyflow.profiler.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import profiler as _profiler
ProfileOptionBuilder = _profiler.ProfileOptionBuilder
profile = _profiler.profile
