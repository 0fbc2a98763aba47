"""What a GraphDef says of a node to other programs: NodeDefs that TensorFlow 1.15 and 2.21 read.

Invariants
  1. An attribute that TensorFlow 1.15 does not know is left out where it has its default: 1.15
     refuses a node with one ("NodeDef mentions attr"), newer readers fill it in.
  2. Where TensorFlow's static shape of an output contradicts what its kernel delivers, no shape is
     exchanged: ours would be refused there, theirs would be wrong here.

Pure functions.  Who calls it: as_graph_def, node_def, FunctionDefs; plans have all attributes.
tests/exchange compares the table with TensorFlow's.
"""

_NEWER = {      # attributes -> the ops of 1.15 that got them later
    "Tk index_type":
        "TopKV2",
    "Treal Tcomplex":
        "IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D",
    "Tsegmentids":
        "SparseSegmentMeanGrad SparseSegmentSqrtNGrad",
    "Tsegmentids sparse_gradient":
        "SparseSegmentMean SparseSegmentMeanWithNumSegments SparseSegmentSqrtN "
        "SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumWithNumSegments",
    "Tshape":
        "TensorListGetItem",
    "allow_missing_files":
        "MergeV2Checkpoints",
    "axis":
        "QuantizeAndDequantizeV2 QuantizeAndDequantizeV3",
    "bad_indices_policy":
        "GatherNd ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdUpdate ScatterNd "
        "ScatterNdAdd ScatterNdSub ScatterNdUpdate TensorScatterAdd TensorScatterSub "
        "TensorScatterUpdate",
    "blank_index":
        "CTCGreedyDecoder",
    "buffer_size_min metadata":
        "PrefetchDataset",
    "debug_name allowed_devices":
        "VarHandleOp",
    "explicit_paddings":
        "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter "
        "DepthwiseConv2dNativeBackpropInput MaxPool MaxPoolGrad",
    "exponential_avg_factor":
        "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3",
    "force_synchronous metadata":
        "MapDataset",
    "grad_a grad_b":
        "MatMul",
    "grad_x grad_y":
        "BatchMatMul BatchMatMulV2",
    "is_files replicate_on_split metadata":
        "TensorSliceDataset",
    "log_warning":
        "ExperimentalIgnoreErrorsDataset IgnoreErrorsDataset",
    "metadata":
        "BatchDataset BatchDatasetV2 CacheDataset ConcatenateDataset DatasetToSingleElement "
        "FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 FlatMapDataset "
        "GeneratorDataset GroupByWindowDataset InterleaveDataset MapAndBatchDataset "
        "PaddedBatchDataset PaddedBatchDatasetV2 ParallelInterleaveDataset "
        "ParallelInterleaveDatasetV2 ParallelMapDataset RandomDataset ReduceDataset RepeatDataset "
        "ShardDataset ShuffleDataset SkipDataset TFRecordDataset TakeDataset TakeWhileDataset "
        "TensorDataset TextLineDataset UnbatchDataset WindowDataset ZipDataset",
    "multiply_linear_by_lr":
        "ApplyFtrl ApplyFtrlV2 ResourceApplyFtrl ResourceApplyFtrlV2 ResourceSparseApplyFtrl "
        "ResourceSparseApplyFtrlV2 SparseApplyFtrl SparseApplyFtrlV2",
    "offset":
        "InitializeTableFromTextFileV2",
    "perturb_singular":
        "TridiagonalSolve",
    "ram_budget":
        "ModelDataset",
    "replicate_on_split metadata":
        "RangeDataset",
    "reshuffle_each_iteration metadata":
        "ShuffleAndRepeatDataset",
    "resize_if_index_out_of_bounds":
        "TensorListSetItem",
    "shape_type":
        "ConcatOffset",
    "stop_on_empty_dataset":
        "DirectedInterleaveDataset",
    "use_default_device metadata":
        "ScanDataset",
    "validate_shape":
        "AssignVariableOp",
}
NEWER = {op: tuple(attrs.split()) for attrs, ops in _NEWER.items() for op in ops.split()}

# Outputs whose shape is not exchanged (tests/shapes/known.py says how they differ).
UNSHARED = {"DenseBincount": (0,), "ExtractVolumePatches": (0,), "ParseSequenceExampleV2": None}

# Ops whose static shapes TensorFlow itself changed in 2017: what older files say is not read.
SHAPES_CHANGED = frozenset((
    "Barrier", "BarrierIncompleteSize", "BarrierReadySize", "ConditionalAccumulator",
    "FIFOQueue", "FixedLengthRecordReader", "HashTable", "IdentityReader", "LMDBReader",
    "MutableHashTable", "MutableHashTableOfTensors", "Mutex", "PaddingFIFOQueue", "PriorityQueue",
    "QueueSize", "RandomShuffleQueue", "RefEnter", "RefIdentity", "RefMerge", "RefNextIteration",
    "RefSwitch", "SparseConditionalAccumulator", "Stack", "TFRecordReader", "Table",
    "TextLineReader", "WholeFileReader"))


def attrs_of(op, attrs=None):
    """The attributes of an Operation (or these for it) that are written."""
    attrs = op.attrs if attrs is None else attrs
    newer = NEWER.get(op.type)
    if newer is None:
        return attrs
    schema = op.op_def.attrs
    dropped = {name for name in newer if name in attrs and attrs[name] == schema[name].default}
    return {key: value for key, value in attrs.items() if key not in dropped} if dropped else attrs


def shapes_of(op, unknown):
    """`_output_shapes` as written, `unknown` for outputs of UNSHARED."""
    return [t.shape if is_shared(op.type, i) else unknown for i, t in enumerate(op.outputs)]


def is_shared(op_type, index):
    """False for an output of UNSHARED."""
    if op_type not in UNSHARED:
        return True
    outputs = UNSHARED[op_type]
    return outputs is not None and index not in outputs
