"""Types of pyflow.data.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import data as _data
Dataset = _data.Dataset
FixedLengthRecordDataset = _data.FixedLengthRecordDataset
Iterator = _data.Iterator
Options = _data.Options
TFRecordDataset = _data.TFRecordDataset
TextLineDataset = _data.TextLineDataset
from . import experimental as experimental
get_output_classes = _data.get_output_classes
get_output_shapes = _data.get_output_shapes
get_output_types = _data.get_output_types
make_initializable_iterator = _data.make_initializable_iterator
make_one_shot_iterator = _data.make_one_shot_iterator
