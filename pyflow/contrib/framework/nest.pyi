"""Types of pyflow.contrib.framework.nest.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
flatten = _contrib.framework.nest.flatten
map_structure = _contrib.framework.nest.map_structure
pack_sequence_as = _contrib.framework.nest.pack_sequence_as
