"""Parts by value: tf.unique, tf.nn.top_k, tf.bincount, tf.setdiff1d."""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.lib.math import reductions
from pyflow.ops.base import tensors
from pyflow.ops.base.common import int32s
from pyflow.ops.elementwise import binary_ops
from pyflow.ops.move import array_ops
from pyflow.ops.move.partition_ops import DynamicPartition
from pyflow.ops.reduce.bincount_ops import Bincount
from pyflow.ops.reduce.top_k_ops import InTopKV2, TopKV2
from pyflow.ops.reduce.unique_ops import ListDiff, Unique, UniqueWithCounts


def dynamic_partition(data, partitions, num_partitions, name=None):
    """Rows of `data` sorted into `num_partitions` tensors. TF: tf.dynamic_partition.
    Dtypes, shapes, errors: as op DynamicPartition."""
    return DynamicPartition(data, partitions, num_partitions=num_partitions, name=name)


def unique(x, out_idx=dtypes.int32, name=None):
    """Distinct values in order of first appearance, and where each went. TF: tf.unique.
    Dtypes, shapes, errors: as op Unique."""
    return Unique(x, out_idx=out_idx, name=name)


def unique_with_counts(x, out_idx=dtypes.int32, name=None):
    """`tf.unique` with counts. TF: tf.unique_with_counts.
    Dtypes, shapes, errors: as op UniqueWithCounts."""
    return UniqueWithCounts(x, out_idx=out_idx, name=name)


def setdiff1d(x, y, index_dtype=dtypes.int32, name=None):
    """Values of vector x not in y, and their places in x. TF: tf.setdiff1d.
    Dtypes, shapes, errors: as op ListDiff."""
    return ListDiff(x, y, out_idx=index_dtype, name=name)


def listdiff(x, y, out_idx=None, name=None):
    """The older name of `tf.setdiff1d`. TF: tf.listdiff.
    Dtypes, shapes, errors: as op ListDiff."""
    return ListDiff(x, y, out_idx=out_idx or dtypes.int32, name=name)


def top_k(input, k=1, sorted=True, name=None):
    """The k largest along the last dimension, and their indices. TF: nn.top_k.

    input: numbers [..., n]; k: a scalar, at most n. sorted False: in any order.
    Dtypes, shapes, errors: as op TopKV2.

        >>> values, indices = tf.nn.top_k([1, 9, 5], k=2)
        >>> tf.Session().run([values, indices])
        [array([9, 5], dtype=int32), array([1, 2], dtype=int32)]
    """
    return TopKV2(input, k, sorted=sorted, name=name)


def in_top_k(predictions, targets, k, name=None):
    """Whether each row's target is among its k largest predictions. TF: nn.in_top_k.
    Dtypes, shapes, errors: as op InTopKV2."""
    with graph.name_scope(name, "in_top_k"):
        return InTopKV2(predictions, targets, k)


def bincount(arr, weights=None, minlength=None, maxlength=None, dtype=dtypes.int32, name=None):
    """Counts (or total weights) of the values of an int tensor. TF: tf.math.bincount.
    arr: ints of any shape; weights: numbers of that shape; result: a vector.
    InvalidArgumentError for a negative value."""
    with graph.name_scope(name, "bincount"):
        arr = graph.convert_to_tensor(arr, name="arr", dtype=dtypes.int32)
        flat = array_ops.Reshape(arr, int32s([-1]))
        some = tensors.cast(tensors.size(arr) > 0, dtypes.int32)
        length = some * (reductions.reduce_max(flat) + 1)
        if minlength is not None:
            length = binary_ops.Maximum(graph.convert_to_tensor(minlength, dtypes.int32), length)
        if maxlength is not None:
            length = binary_ops.Minimum(graph.convert_to_tensor(maxlength, dtypes.int32), length)
        if weights is None:
            return Bincount(flat, length, graph.convert_to_tensor(np.zeros(0), dtype=dtype))
        weights = graph.convert_to_tensor(weights, name="weights")
        return Bincount(flat, length, array_ops.Reshape(weights, int32s([-1])))


PUBLIC = {
    "dynamic_partition": dynamic_partition, "unique": unique,
    "unique_with_counts": unique_with_counts, "setdiff1d": setdiff1d, "listdiff": listdiff,
    "nn.top_k": top_k, "math.top_k": top_k, "nn.in_top_k": in_top_k, "math.in_top_k": in_top_k,
    "bincount": bincount, "math.bincount": bincount,
}
