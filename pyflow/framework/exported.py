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
        "IgnoreErrorsDataset",
    "metadata":
        "BatchDataset BatchDatasetV2 CacheDataset ConcatenateDataset DatasetToSingleElement "
        "FilterDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 FlatMapDataset "
        "GeneratorDataset GroupByWindowDataset InterleaveDataset PaddedBatchDatasetV2 "
        "ParallelInterleaveDatasetV2 ParallelMapDataset ReduceDataset RepeatDataset "
        "ShardDataset ShuffleDataset SkipDataset TFRecordDataset TakeDataset TakeWhileDataset "
        "TensorDataset TextLineDataset UnbatchDataset WindowDataset ZipDataset",
    "multiply_linear_by_lr":
        "ApplyFtrl ApplyFtrlV2 ResourceApplyFtrl ResourceApplyFtrlV2 ResourceSparseApplyFtrl "
        "ResourceSparseApplyFtrlV2 SparseApplyFtrl SparseApplyFtrlV2",
    "offset":
        "InitializeTableFromTextFileV2",
    "perturb_singular":
        "TridiagonalSolve",
    "replicate_on_split metadata":
        "RangeDataset",
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
# FusedBatchNormGrad's last two are empty, or as many as channels, by TensorFlow's version.
UNSHARED = {"DenseBincount": (0,), "ExtractVolumePatches": (0,), "FusedBatchNormGrad": (3, 4),
            "FusedBatchNormGradV2": (3, 4), "FusedBatchNormGradV3": (3, 4),
            "ParseSequenceExampleV2": None}


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


# ----------------------------------------------------------------------------- messages
def function_of(definition):
    """A FunctionDef, which may come from elsewhere, as it is written: itself, or a copy without
    newer attributes at their defaults."""
    if not any(node.op in NEWER for node in definition.node_def):
        return definition
    found = type(definition)()
    found.CopyFrom(definition)
    _drop_defaults(found.node_def, lambda op: NEWER.get(op, ()))
    return found


def strip_defaults(graph_def):
    """Removes the attributes that are at their defaults from a GraphDef's nodes, those of its
    functions too (TF: strip_default_attrs)."""
    for nodes in (graph_def.node, *(f.node_def for f in graph_def.library.function)):
        _drop_defaults(nodes, None)


def _drop_defaults(nodes, names):
    """names: op -> the attributes that may go; None: all."""
    known = {}
    for node in nodes:
        if node.op not in known:
            known[node.op] = _defaults(node.op, names)
        for name, default in known[node.op].items():
            if name in node.attr and _bytes(node.attr[name]) == default:
                del node.attr[name]


def _defaults(op_type, names):
    """{attribute: bytes of its default} of an op; functions have none."""
    from pyflow.framework.op import find_op
    op_def = find_op(op_type)
    attrs = () if op_def is None else op_def.as_proto().attr
    wanted = None if names is None else names(op_type)
    return {a.name: _bytes(a.default_value) for a in attrs
            if a.HasField("default_value") and (wanted is None or a.name in wanted)}


def _bytes(message):
    return message.SerializeToString(deterministic=True)


def op_list_of(graph_def):
    """The OpList of the ops that a GraphDef and its functions use, by name (TF: a MetaGraphDef's
    stripped_op_list)."""
    from pyflow.framework import protos
    from pyflow.framework.op import find_op
    names = {node.op for node in graph_def.node}
    names.update(node.op for f in graph_def.library.function for node in f.node_def)
    found = (find_op(name) for name in sorted(names))
    return protos.OpList(op=[op_def.as_proto() for op_def in found if op_def is not None])
