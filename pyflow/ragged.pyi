"""Types of pyflow.ragged.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import ragged as _ragged
RaggedTensorValue = _ragged.RaggedTensorValue
constant = _ragged.constant
constant_value = _ragged.constant_value
map_flat_values = _ragged.map_flat_values
row_splits_to_segment_ids = _ragged.row_splits_to_segment_ids
segment_ids_to_row_splits = _ragged.segment_ids_to_row_splits
