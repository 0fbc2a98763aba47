"""Types of pyflow.sets.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import sets as _sets
difference = _sets.difference
intersection = _sets.intersection
set_difference = _sets.set_difference
set_intersection = _sets.set_intersection
set_size = _sets.set_size
set_union = _sets.set_union
size = _sets.size
union = _sets.union
