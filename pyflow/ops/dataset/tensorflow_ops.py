"""Datasets that TensorFlow's library writes and pyflow's does not: the blocks, so that its graphs
are imported.

Invariants
  1. What only tunes (ModelDataset, OptimizeDataset, ...) is the dataset that it is given.
  2. Fused ones and other versions give what those of dataset_ops.py give together; "sloppy" and
     not "deterministic" allow another order and are not asked for it.
  3. Static shapes and statefulness are as in dataset_ops.py.

No samples and no reference, on purpose: their results are variants; tests/exchange runs them.
Who calls it: imported graphs.  Source: TF 1.15 and 2.21 dataset_ops, experimental_dataset_ops.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape
from pyflow.ops.dataset.dataset_ops import COMPONENTS, FUNCTION, METADATA, OF, SOURCE

_CALLED = f"{OF}, other_arguments: Targuments"
_CYCLE = f"{_CALLED}, cycle_length: int64, block_length: int64"
_BUFFERS = "buffer_output_elements: int64, prefetch_input_elements: int64"
_ORDER = 'deterministic: string = "default"'
_BATCHED = f"{_CALLED}, batch_size: int64, num_parallel_calls: int64, drop_remainder: bool"
_WITHIN = "The dataset; TensorFlow's library"


def _dataset(name, doc, inputs="", attrs=COMPONENTS, metadata=METADATA):
    @op(name, inputs=inputs, outputs="handle: variant", stateful=True,
        attrs=", ".join(filter(None, (attrs, metadata))), doc=f"{doc} TF: {name}.")
    class Dataset:
        def shape(op): return TensorShape([])
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Dataset


# ------------------------------------------------------------------------ the dataset that is given
ModelDataset = _dataset(
    "ModelDataset", f"{_WITHIN} tunes it here.", OF,
    f"algorithm: int = 0, cpu_budget: int = 0, ram_budget: int = 0, {COMPONENTS}", "")
OptimizeDataset = _dataset(
    "OptimizeDataset", f"{_WITHIN} rewrites it here.", f"{OF}, optimizations: string",
    f"{COMPONENTS}, optimization_configs: list(string) >= 0 = []", "")
OptimizeDatasetV2 = _dataset(
    "OptimizeDatasetV2", f"{_WITHIN} rewrites it here.",
    f"{OF}, optimizations_enabled: string, optimizations_disabled: string, "
    "optimizations_default: string",
    f"{COMPONENTS}, optimization_configs: list(string) >= 0 = []", "")
OptionsDataset = _dataset("OptionsDataset", f"{_WITHIN} says how it is run.", OF,
                          f"serialized_options: string, {COMPONENTS}")
RewriteDataset = _dataset("RewriteDataset", f"{_WITHIN} rewrites it here.",
                          f"{OF}, rewrite_name: string", metadata="")
FinalizeDataset = _dataset("FinalizeDataset", f"{_WITHIN} tunes it here.", OF,
                           f"has_captured_ref: bool = false, {COMPONENTS}", "")
MaxIntraOpParallelismDataset = _dataset(
    "MaxIntraOpParallelismDataset", f"{_WITHIN} bounds its threads here.",
    f"{OF}, max_intra_op_parallelism: int64", metadata="")
PrivateThreadPoolDataset = _dataset(
    "PrivateThreadPoolDataset", f"{_WITHIN} gives it threads here.", f"{OF}, num_threads: int64",
    metadata="")

# ------------------------------------------------------------------------ fused, and other versions
ParallelMapDatasetV2 = _dataset(
    "ParallelMapDatasetV2", "`f` of each element, in order, num_parallel_calls at once.",
    f"{_CALLED}, num_parallel_calls: int64",
    f"{FUNCTION}{COMPONENTS}, use_inter_op_parallelism: bool = true, {_ORDER}, "
    "preserve_cardinality: bool = false, use_unbounded_threadpool: bool = false")
MapAndBatchDataset = _dataset(
    "MapAndBatchDataset", "Batches of `f` of each element, in order.", _BATCHED,
    f"{FUNCTION}{COMPONENTS}, preserve_cardinality: bool = false")
ExperimentalMapAndBatchDataset = _dataset(
    "ExperimentalMapAndBatchDataset", "As MapAndBatchDataset.", _BATCHED,
    f"{FUNCTION}{COMPONENTS}, preserve_cardinality: bool = false", "")
ParallelInterleaveDatasetV3 = _dataset(
    "ParallelInterleaveDatasetV3", "As ParallelInterleaveDatasetV2.",
    f"{_CYCLE}, num_parallel_calls: int64",
    f"f: func, {_ORDER}, Targuments: list(type) >= 0, {COMPONENTS}")
ParallelInterleaveDatasetV4 = _dataset(
    "ParallelInterleaveDatasetV4", "As ParallelInterleaveDatasetV2.",
    f"{_CYCLE}, {_BUFFERS}, num_parallel_calls: int64",
    f"f: func, {_ORDER}, Targuments: list(type) >= 0, {COMPONENTS}")
ParallelInterleaveDataset = _dataset(
    "ParallelInterleaveDataset", "As ParallelInterleaveDatasetV2.",
    f"{_CYCLE}, sloppy: bool, {_BUFFERS}", f"{FUNCTION}{COMPONENTS}")
ExperimentalParallelInterleaveDataset = _dataset(
    "ExperimentalParallelInterleaveDataset", "As ParallelInterleaveDatasetV2.",
    f"{_CYCLE}, sloppy: bool, {_BUFFERS}", f"{FUNCTION}{COMPONENTS}", "")
LegacyParallelInterleaveDatasetV2 = _dataset(
    "LegacyParallelInterleaveDatasetV2", "As ParallelInterleaveDatasetV2.",
    f"{_CYCLE}, {_BUFFERS}",
    f"f: func, {_ORDER}, Targuments: list(type) >= 0, {COMPONENTS}")
ShuffleAndRepeatDataset = _dataset(
    "ShuffleAndRepeatDataset", "The elements `count` times, each time in an order drawn from a "
    "buffer.", f"{OF}, buffer_size: int64, seed: int64, seed2: int64, count: int64",
    f"{COMPONENTS}, reshuffle_each_iteration: bool = true")
PaddedBatchDataset = _dataset(
    "PaddedBatchDataset", "batch_size elements side by side, padded to padded_shapes.",
    f"{OF}, batch_size: int64, padded_shapes: N * int64, padding_values: Toutput_types",
    f"{SOURCE}, N: int >= 1")
RandomDataset = _dataset("RandomDataset", "Numbers below 2^32 at random, for ever.",
                         "seed: int64, seed2: int64")
ExperimentalRandomDataset = _dataset("ExperimentalRandomDataset", "As RandomDataset.",
                                     "seed: int64, seed2: int64", metadata="")
ExperimentalScanDataset = _dataset(
    "ExperimentalScanDataset", "As ScanDataset.",
    f"{OF}, initial_state: Tstate, other_arguments: Targuments",
    f"f: func, Tstate: list(type) >= 1, Targuments: list(type) >= 0, {COMPONENTS}, "
    "preserve_cardinality: bool = false", "")
ExperimentalTakeWhileDataset = _dataset(
    "ExperimentalTakeWhileDataset", "As TakeWhileDataset.", _CALLED,
    f"predicate: func, Targuments: list(type) >= 0, {COMPONENTS}", "")
ExperimentalIgnoreErrorsDataset = _dataset(
    "ExperimentalIgnoreErrorsDataset", "As IgnoreErrorsDataset.", OF,
    f"{COMPONENTS}, log_warning: bool = false", "")
ExperimentalUnbatchDataset = _dataset("ExperimentalUnbatchDataset", "As UnbatchDataset.", OF,
                                      metadata="")
ExperimentalDirectedInterleaveDataset = _dataset(
    "ExperimentalDirectedInterleaveDataset", "As DirectedInterleaveDataset.",
    "selector_input_dataset: variant, data_input_datasets: N * variant",
    f"{COMPONENTS}, N: int >= 1", "")
