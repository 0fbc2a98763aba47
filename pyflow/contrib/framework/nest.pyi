"""Types of pyflow.contrib.framework.nest.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
assert_same_structure = _contrib.framework.nest.assert_same_structure
assert_shallow_structure = _contrib.framework.nest.assert_shallow_structure
flatten = _contrib.framework.nest.flatten
flatten_dict_items = _contrib.framework.nest.flatten_dict_items
flatten_up_to = _contrib.framework.nest.flatten_up_to
is_nested = _contrib.framework.nest.is_nested
is_sequence = _contrib.framework.nest.is_sequence
map_structure = _contrib.framework.nest.map_structure
map_structure_up_to = _contrib.framework.nest.map_structure_up_to
pack_sequence_as = _contrib.framework.nest.pack_sequence_as
