"""Types of pyflow.data.experimental.  Written by `make tables` (pyflow/tools/stubs.py); do not edit."""
from pyflow import data as _data
AUTOTUNE = _data.experimental.AUTOTUNE
Counter = _data.experimental.Counter
CsvDataset = _data.experimental.CsvDataset
OptimizationOptions = _data.experimental.OptimizationOptions
RandomDataset = _data.experimental.RandomDataset
ThreadingOptions = _data.experimental.ThreadingOptions
bucket_by_sequence_length = _data.experimental.bucket_by_sequence_length
choose_from_datasets = _data.experimental.choose_from_datasets
copy_to_device = _data.experimental.copy_to_device
enumerate_dataset = _data.experimental.enumerate_dataset
get_single_element = _data.experimental.get_single_element
group_by_window = _data.experimental.group_by_window
ignore_errors = _data.experimental.ignore_errors
make_batched_features_dataset = _data.experimental.make_batched_features_dataset
make_csv_dataset = _data.experimental.make_csv_dataset
make_saveable_from_iterator = _data.experimental.make_saveable_from_iterator
map_and_batch = _data.experimental.map_and_batch
parallel_interleave = _data.experimental.parallel_interleave
parse_example_dataset = _data.experimental.parse_example_dataset
prefetch_to_device = _data.experimental.prefetch_to_device
rejection_resample = _data.experimental.rejection_resample
sample_from_datasets = _data.experimental.sample_from_datasets
scan = _data.experimental.scan
shuffle_and_repeat = _data.experimental.shuffle_and_repeat
take_while = _data.experimental.take_while
unbatch = _data.experimental.unbatch
