"""Types of pyflow.contrib.data.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import contrib as _contrib
AUTOTUNE = _contrib.data.AUTOTUNE
CheckpointInputPipelineHook = _contrib.data.CheckpointInputPipelineHook
Counter = _contrib.data.Counter
CsvDataset = _contrib.data.CsvDataset
RandomDataset = _contrib.data.RandomDataset
batch_and_drop_remainder = _contrib.data.batch_and_drop_remainder
bucket_by_sequence_length = _contrib.data.bucket_by_sequence_length
choose_from_datasets = _contrib.data.choose_from_datasets
copy_to_device = _contrib.data.copy_to_device
enumerate_dataset = _contrib.data.enumerate_dataset
get_single_element = _contrib.data.get_single_element
group_by_window = _contrib.data.group_by_window
ignore_errors = _contrib.data.ignore_errors
make_batched_features_dataset = _contrib.data.make_batched_features_dataset
make_csv_dataset = _contrib.data.make_csv_dataset
make_saveable_from_iterator = _contrib.data.make_saveable_from_iterator
map_and_batch = _contrib.data.map_and_batch
parallel_interleave = _contrib.data.parallel_interleave
parse_example_dataset = _contrib.data.parse_example_dataset
prefetch_to_device = _contrib.data.prefetch_to_device
rejection_resample = _contrib.data.rejection_resample
sample_from_datasets = _contrib.data.sample_from_datasets
scan = _contrib.data.scan
shuffle_and_repeat = _contrib.data.shuffle_and_repeat
take_while = _contrib.data.take_while
unbatch = _contrib.data.unbatch
