"""Ops that save and restore tensors; the Saver builds them, their kernels write the files.

Invariants
  1. Tensor i of `tensors` is stored as `tensor_names[i]`; `shape_and_slices[i]` is "" for whole
     tensors.
  2. Names are strings in graphs, so a MetaGraph carries them.

No samples and no reference, on purpose: their effect is files; tests/train runs them.  Who calls
it: train/saver.py; train/tf_checkpoint.py reads TensorFlow's checkpoints with them, without a
graph of the user's.  File formats: train/checkpoint.py.  An attribute `_format` of "tensorflow" makes
SaveV2 write TensorFlow's.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape


def _nothing(op):
    return []


def _scalar(op):
    return TensorShape([])


def _restored(op):
    return [unknown_shape() for _ in op.outputs]


def _listed(op):
    return [TensorShape([None]) for _ in op.outputs]


@op("SaveV2", stateful=True, attrs="dtypes: list(type) >= 1",
    inputs="prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes")
class SaveV2:
    """Writes `tensors` to the checkpoint `prefix`. TF: SaveV2."""
    shape = _nothing
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("RestoreV2", stateful=True, attrs="dtypes: list(type) >= 1", outputs="tensors: dtypes",
    inputs="prefix: string, tensor_names: string, shape_and_slices: string")
class RestoreV2:
    """The named tensors of the checkpoint `prefix`. NotFoundError if one is missing. TF:
    RestoreV2."""
    shape = _restored
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("Restore", stateful=True, attrs="dt: type, preferred_shard: int = -1",
    inputs="file_pattern: string, tensor_name: string", outputs="tensor: dt")
class Restore:
    """One tensor of a checkpoint. TF: Restore, in graphs of before 0.12."""
    shape = _restored
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("RestoreSlice", stateful=True, attrs="dt: type, preferred_shard: int = -1",
    inputs="file_pattern: string, tensor_name: string, shape_and_slice: string",
    outputs="tensor: dt")
class RestoreSlice:
    """One tensor of a checkpoint, or a slice of it. TF: RestoreSlice, in graphs of before 0.12."""
    shape = _restored
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("Save", stateful=True, attrs="T: list(type) >= 1",
    inputs="filename: string, tensor_names: string, data: T")
class Save:
    """Writes `data` to the checkpoint `filename`, in the format that SaveV2 writes. TF: Save."""
    shape = _nothing
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("SaveSlices", stateful=True, attrs="T: list(type) >= 1",
    inputs="filename: string, tensor_names: string, shapes_and_slices: string, data: T")
class SaveSlices:
    """Writes `data` to the checkpoint `filename`, in the format that SaveV2 writes. TF:
    SaveSlices."""
    shape = _nothing
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("_CheckpointEntries", inputs="prefix: string", stateful=True,
    outputs="names: string, types: int32, ranks: int32, dims: int64, bytes: int64")
class _CheckpointEntries:
    """What a checkpoint of TensorFlow's holds, in the order of the names: numbers of DataTypes,
    ranks, all sizes one after the other, and how many bytes each tensor takes."""
    shape = _listed
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("MergeV2Checkpoints", inputs="checkpoint_prefixes: string, destination_prefix: string",
    attrs="delete_old_dirs: bool = true, allow_missing_files: bool = false", stateful=True)
class MergeV2Checkpoints:
    """Makes one checkpoint of several shards. TF: MergeV2Checkpoints."""
    shape = _nothing
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("ShardedFilename", inputs="basename: string, shard: int32, num_shards: int32",
    outputs="filename: string")
class ShardedFilename:
    """basename-00001-of-00002, for shard 1 of 2. TF: ShardedFilename."""
    shape = _scalar
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("ShardedFilespec", inputs="basename: string, num_shards: int32", outputs="filename: string")
class ShardedFilespec:
    """basename-?????-of-00002, which matches all shards. TF: ShardedFilespec."""
    shape = _scalar
    gradient = UNREGISTERED
    reference = None
    samples = None
