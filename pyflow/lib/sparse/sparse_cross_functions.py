"""tf.sparse.cross and cross_hashed."""
from pyflow.framework import dtypes, graph
from pyflow.ops.base import tensors
from pyflow.ops.sparse.sparse_cross_ops import SparseCross, SparseCrossV2

DEFAULT_KEY = 0xDECAFCAFFE


# ------------------------------------------------------------------------------- functions
def _columns(inputs):
    """The op's four lists; TypeError for what is neither Tensor nor SparseTensor."""

    def fitting(values):
        return values if values.dtype == dtypes.string else tensors.cast(values, dtypes.int64)
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("Inputs must be a list")
    sparse = [x for x in inputs if isinstance(x, graph.SparseTensor)]
    dense = [x for x in inputs if isinstance(x, graph.Tensor)]
    if len(sparse) + len(dense) < len(inputs):
        raise TypeError("All inputs must be Tensor or SparseTensor")
    return ([x.indices for x in sparse], [fitting(x.values) for x in sparse],
            [x.dense_shape for x in sparse], [fitting(x) for x in dense])


def sparse_cross(inputs, name=None, separator=None):
    """The crosses of columns (SparseTensors and matrices [batch, n] of strings or integers) as a
    SparseTensor [batch, crosses] of texts joined by `separator`, "_X_" by default. TF:
    sparse.cross. TypeError for other inputs, InvalidArgumentError for batches of different
    sizes."""
    columns = _columns(inputs)
    if separator is not None:
        return graph.SparseTensor(*SparseCrossV2(*columns, separator, name=name))
    return _crossed(columns, False, 0, None, name)      # which TensorFlow 1.15 knows, too


def sparse_cross_hashed(inputs, num_buckets=0, hash_key=None, name=None):
    """The crosses of columns [batch, n] of strings or integers as a SparseTensor [batch, crosses]
    of int64 hashes, modulo num_buckets if that is not 0. TF: sparse.cross_hashed. TypeError and
    InvalidArgumentError as of sparse.cross."""
    return _crossed(_columns(inputs), True, num_buckets, hash_key, name)


def _crossed(columns, hashed, num_buckets, hash_key, name):
    indices, values, shapes, dense = columns
    numbers = any(x.dtype == dtypes.int64 for x in values + dense)
    return graph.SparseTensor(*SparseCross(
        indices, values, shapes, dense, hashed_output=hashed, num_buckets=num_buckets,
        hash_key=hash_key or DEFAULT_KEY, out_type=dtypes.int64 if hashed else dtypes.string,
        internal_type=dtypes.int64 if numbers else dtypes.string, name=name))


PUBLIC = {"sparse.cross": sparse_cross, "sparse.cross_hashed": sparse_cross_hashed}
