"""Plain files, read and written whole.

No samples and no reference, on purpose: their effect is files; tests/train runs them.

Example:  `ReadFile("cat.jpg")`.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape


def _checked_scalars(op):
    for tensor in op.inputs:
        tensor.shape.assert_has_rank(0)


def _one_string(op):
    _checked_scalars(op)
    return TensorShape([])


def _written(op):
    _checked_scalars(op)
    return []


@op("ReadFile", inputs="filename: string", outputs="contents: string")
class ReadFile:
    """All bytes of the file `filename`. NotFoundError if there is none. TF: ReadFile."""
    shape = _one_string
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("WriteFile", inputs="filename: string, contents: string", stateful=True)
class WriteFile:
    """Writes `contents` to the file `filename`; folders are made. TF: WriteFile."""
    shape = _written
    gradient = UNREGISTERED
    reference = None
    samples = None


@op("MatchingFiles", inputs="pattern: string", outputs="filenames: string")
class MatchingFiles:
    """Paths that match the pattern, or one of the patterns. TF: MatchingFiles."""
    def shape(op):
        op.inputs[0].shape.with_rank_at_most(1)
        return TensorShape([None])
    gradient = UNREGISTERED
    reference = None
    samples = None
