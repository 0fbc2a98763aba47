"""Datasets, scalars of variants that say where elements come from: the blocks (classes:
lib/data/dataset.py).

Invariants
  1. Each op has output_types and output_shapes, of its elements' components.
  2. A dataset is made when its op runs; its elements when an iterator asks for them.
  3. All are stateful, which most are not in TF: no pass makes one of two, or folds one.
  4. What TF 2 added to the ops is taken: `metadata`, for its own tools, is not read.

No samples and no reference, on purpose: their results are variants; tests/data runs them.
Who calls it: lib/data.  Source: TF 1.15 dataset_ops.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape

COMPONENTS = "output_types: list(type) >= 1, output_shapes: list(shape) >= 1"
FUNCTION = "f: func, Targuments: list(type) >= 0, "


def _scalar(op):
    return TensorShape([])


METADATA = 'metadata: string = ""'


def _dataset(name, doc, inputs="", attrs=COMPONENTS, metadata=METADATA):
    @op(name, inputs=inputs, outputs="handle: variant", stateful=True,
        attrs=", ".join(filter(None, (attrs, metadata))), doc=f"{doc} TF: {name}.")
    class Dataset:
        shape = _scalar
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Dataset


SOURCE = "Toutput_types: list(type) >= 1, output_shapes: list(shape) >= 1"
SPLIT = "replicate_on_split: bool = false"
OF = "input_dataset: variant"
TensorDataset = _dataset("TensorDataset", "One element, the components.",
                         "components: Toutput_types", SOURCE)
TensorSliceDataset = _dataset("TensorSliceDataset", "The rows of dimension 0 of the components.",
                              "components: Toutput_types",
                              f"{SOURCE}, is_files: bool = false, {METADATA}, {SPLIT}", None)
RangeDataset = _dataset("RangeDataset", "start, start + step, ... before stop.",
                        "start: int64, stop: int64, step: int64", f"{COMPONENTS}, {METADATA}, {SPLIT}",
                        None)
TakeDataset = _dataset("TakeDataset", "The first `count` elements; -1: all.",
                       f"{OF}, count: int64")
SkipDataset = _dataset("SkipDataset", "All but the first `count` elements.", f"{OF}, count: int64")
RepeatDataset = _dataset("RepeatDataset", "The elements `count` times; -1: for ever.",
                         f"{OF}, count: int64")
ShardDataset = _dataset("ShardDataset", "Every num_shards-th element, from `index` on.",
                        f"{OF}, num_shards: int64, index: int64",
                        f"require_non_empty: bool = false, {COMPONENTS}")
ShuffleDataset = _dataset(
    "ShuffleDataset", "The elements in an order drawn from a buffer.",
    f"{OF}, buffer_size: int64, seed: int64, seed2: int64",
    f"reshuffle_each_iteration: bool = true, {COMPONENTS}")
BatchDataset = _dataset("BatchDataset", "batch_size elements side by side in dimension 0.",
                        f"{OF}, batch_size: int64")
BatchDatasetV2 = _dataset(
    "BatchDatasetV2", "batch_size elements side by side in dimension 0; fewer at the end are left "
    "out with drop_remainder.", f"{OF}, batch_size: int64, drop_remainder: bool",
    f"parallel_copy: bool = false, {COMPONENTS}")
MapDataset = _dataset(
    "MapDataset", "`f` of each element.", f"{OF}, other_arguments: Targuments",
    f"{FUNCTION}{COMPONENTS}, use_inter_op_parallelism: bool = true, "
    "preserve_cardinality: bool = false, force_synchronous: bool = false")
ParallelMapDataset = _dataset(
    "ParallelMapDataset", "`f` of each element, in order, num_parallel_calls at once.",
    f"{OF}, other_arguments: Targuments, num_parallel_calls: int32",
    f"{FUNCTION}{COMPONENTS}, use_inter_op_parallelism: bool = true, sloppy: bool = false, "
    "preserve_cardinality: bool = false")
FilterDataset = _dataset(
    "FilterDataset", "The elements for which `predicate` is true.",
    f"{OF}, other_arguments: Targuments",
    f"predicate: func, Targuments: list(type) >= 0, {COMPONENTS}")
TakeWhileDataset = _dataset(
    "TakeWhileDataset", "The elements before the first for which `predicate` is false.",
    f"{OF}, other_arguments: Targuments",
    f"predicate: func, Targuments: list(type) >= 0, {COMPONENTS}")
FlatMapDataset = _dataset(
    "FlatMapDataset", "The elements of the datasets that `f` makes of elements, one after another.",
    f"{OF}, other_arguments: Targuments", f"{FUNCTION}{COMPONENTS}")
InterleaveDataset = _dataset(
    "InterleaveDataset", "The elements of cycle_length datasets that `f` makes, block_length of "
    "each in turn.", f"{OF}, other_arguments: Targuments, cycle_length: int64, block_length: int64",
    f"{FUNCTION}{COMPONENTS}")
ParallelInterleaveDatasetV2 = _dataset(
    "ParallelInterleaveDatasetV2", "As InterleaveDataset, in the same order, reading ahead in each "
    "dataset.", f"{OF}, other_arguments: Targuments, cycle_length: int64, block_length: int64, "
    "num_parallel_calls: int64", f"{FUNCTION}{COMPONENTS}, sloppy: bool = false")
ZipDataset = _dataset("ZipDataset", "Tuples of the datasets' elements; ends with the shortest.",
                      "input_datasets: N * variant", f"{COMPONENTS}, N: int >= 1")
ConcatenateDataset = _dataset("ConcatenateDataset", "The elements of one, then of the other.",
                              f"{OF}, another_dataset: variant")
PrefetchDataset = _dataset(
    "PrefetchDataset", "The elements, up to buffer_size of them read ahead.",
    f"{OF}, buffer_size: int64",
    f"{COMPONENTS}, slack_period: int = 0, legacy_autotune: bool = true, "
    "buffer_size_min: int = 0")
PaddedBatchDatasetV2 = _dataset(
    "PaddedBatchDatasetV2", "batch_size elements side by side, padded to padded_shapes.",
    f"{OF}, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types, "
    "drop_remainder: bool", f"parallel_copy: bool = false, {SOURCE}, N: int >= 1")
WindowDataset = _dataset(
    "WindowDataset", "Elements whose components are datasets of `size` elements each.",
    f"{OF}, size: int64, shift: int64, stride: int64, drop_remainder: bool")
GroupByWindowDataset = _dataset(
    "GroupByWindowDataset", "The elements of the datasets that reduce_func makes of windows of "
    "elements with one key.",
    f"{OF}, key_func_other_arguments: Tkey_func_other_arguments, reduce_func_other_arguments: "
    "Treduce_func_other_arguments, window_size_func_other_arguments: "
    "Twindow_size_func_other_arguments",
    "key_func: func, reduce_func: func, window_size_func: func, Tkey_func_other_arguments: "
    "list(type) >= 0, Treduce_func_other_arguments: list(type) >= 0, "
    f"Twindow_size_func_other_arguments: list(type) >= 0, {COMPONENTS}")
ScanDataset = _dataset(
    "ScanDataset", "What `f` gives beside the next state, of the state and each element.",
    f"{OF}, initial_state: Tstate, other_arguments: Targuments",
    f"f: func, Tstate: list(type) >= 1, Targuments: list(type) >= 0, {COMPONENTS}, "
    "preserve_cardinality: bool = false, use_default_device: bool = true")
IgnoreErrorsDataset = _dataset("IgnoreErrorsDataset", "The elements, without those that fail.", OF,
                               f"{COMPONENTS}, log_warning: bool = false", metadata="")
UnbatchDataset = _dataset("UnbatchDataset", "The rows of the elements' components.", OF)
DirectedInterleaveDataset = _dataset(
    "DirectedInterleaveDataset", "Elements of the datasets that the selecting one names.",
    "selector_input_dataset: variant, data_input_datasets: N * variant",
    f"{COMPONENTS}, N: int >= 1, stop_on_empty_dataset: bool = false", metadata="")
GeneratorDataset = _dataset(
    "GeneratorDataset", "What next_func gives of init_func's state, until it is out of range.",
    "init_func_other_args: Tinit_func_args, next_func_other_args: Tnext_func_args, "
    "finalize_func_other_args: Tfinalize_func_args",
    "init_func: func, next_func: func, finalize_func: func, Tinit_func_args: list(type) >= 0, "
    f"Tnext_func_args: list(type) >= 0, Tfinalize_func_args: list(type) >= 0, {COMPONENTS}")
CacheDataset = _dataset(
    "CacheDataset", "The elements, kept in memory or in a file by the first reading that ends.",
    f"{OF}, filename: string")
TextLineDataset = _dataset(
    "TextLineDataset", "The lines of files.",
    "filenames: string, compression_type: string, buffer_size: int64", "")
TFRecordDataset = _dataset(
    "TFRecordDataset", "The records of TFRecord files.",
    "filenames: string, compression_type: string, buffer_size: int64", "")
FixedLengthRecordDataset = _dataset(
    "FixedLengthRecordDataset", "The records of files, record_bytes each.",
    "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, "
    "buffer_size: int64", "")
FixedLengthRecordDatasetV2 = _dataset(
    "FixedLengthRecordDatasetV2", "The records of files, record_bytes each, perhaps compressed.",
    "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, "
    "buffer_size: int64, compression_type: string", "")
