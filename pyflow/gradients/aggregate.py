"""Summing the gradients that reach one tensor.

Invariants
  1. One gradient is passed on as it is; several tensors give one AddN for each device they were
     asked for, colocated with the first of them, as in TF; IndexedSlices are concatenated, not
     made dense.
  2. A gradient loop's own back edge is never summed (its gradients are lists of exactly one).

Pure graph building; the thread that calls `gradients`.
"""
from pyflow.framework import graph as ops
from pyflow.ops.control import routing
from pyflow.lib.math import binary_functions
from pyflow.ops.base import tensors


class AggregationMethod:
    """How gradients of one tensor are summed. All methods give the same values; AddN adds in input
    order."""
    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


METHODS = (AggregationMethod.ADD_N, AggregationMethod.EXPERIMENTAL_TREE,
           AggregationMethod.EXPERIMENTAL_ACCUMULATE_N)


def total(grads, method=None):
    """The sum of a non-empty list of Tensors and IndexedSlices."""
    if len(grads) == 1:
        return grads[0]
    if all(isinstance(grad, ops.Tensor) for grad in grads):
        if method == AggregationMethod.EXPERIMENTAL_TREE:
            return _pairwise_sum(grads)
        return _sum_by_device(grads)
    if all(isinstance(grad, ops.IndexedSlices) for grad in grads):
        return _concatenated(grads)
    if _is_small_dense(grads):
        return binary_functions.add_n([ops.convert_to_tensor(grad) for grad in grads])
    return _concatenated([routing.as_indexed_slices(grad) for grad in grads])


def _sum_by_device(grads):
    """Those of one device are added there, beside the first of them; then the sums of devices."""
    by_device = {}
    for grad in grads:
        by_device.setdefault(grad.device, []).append(grad)
    sums = []
    for device in sorted(by_device):
        with ops.colocate_with(by_device[device][0].op, ignore_existing=True):
            sums.append(binary_functions.add_n(by_device[device]))
    return binary_functions.add_n(sums) if len(sums) > 1 else sums[0]


def _is_small_dense(grads):
    """A mix with a dense gradient: dense wins, for it has every row already."""
    return all(grad.dense_shape is not None for grad in grads
               if isinstance(grad, ops.IndexedSlices))


def _pairwise_sum(grads):
    """One addition at a time, so that no more than two gradients are alive."""
    result = grads[0]
    for grad in grads[1:]:
        result = binary_functions.add_n([result, grad])
    return result


def _concatenated(grads):
    values = tensors.concat([grad.values for grad in grads], 0)
    indices = _same_index_type([grad.indices for grad in grads])
    shapes = [grad.dense_shape for grad in grads if grad.dense_shape is not None]
    return ops.IndexedSlices(values, tensors.concat(indices, 0), shapes[0] if shapes else None)


def _same_index_type(indices):
    if len({index.dtype.base_dtype for index in indices}) == 1:
        return indices
    return [tensors.cast(index, "int64") for index in indices]
