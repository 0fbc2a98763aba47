"""Types of pyflow.nest.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import nest as _nest
assert_same_structure = _nest.assert_same_structure
flatten = _nest.flatten
is_nested = _nest.is_nested
map_structure = _nest.map_structure
pack_sequence_as = _nest.pack_sequence_as
