"""Types of pyflow.manip.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import manip as _manip
batch_to_space_nd = _manip.batch_to_space_nd
gather_nd = _manip.gather_nd
reshape = _manip.reshape
reverse = _manip.reverse
roll = _manip.roll
scatter_nd = _manip.scatter_nd
space_to_batch_nd = _manip.space_to_batch_nd
tile = _manip.tile
