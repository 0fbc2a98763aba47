"""Conditional accumulators: the blocks (classes: lib/queue/accumulators.py).

Invariants
  1. A gradient is added unless its step is before the accumulator's; taking the mean waits for
     enough of them.
  2. The dense ops are there with references and, Resource..., with resources; the sparse ones with
     references alone, as in TensorFlow.

  3. Those that begin with _ are pyflow's: gradients that name their source, and are summed in its
     order; the step that is meant to be taken.

No samples and no reference, on purpose: state has no NumPy counterpart; tests/queues runs them.
"""
from pyflow.framework.dtypes import NUMBERS
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape, unknown_shape

REFERENCE, RESOURCE = "handle: Ref(string)", "handle: resource"


def _scalar(op):
    return TensorShape([])


def _reference(op):
    return TensorShape([2])             # container and name, as in TF


def _nothing(op):
    return []


def _unknown(op):
    return unknown_shape()


def _taken_sparse(op):
    return [TensorShape([None]), unknown_shape(), TensorShape([None])]


def _block(name, doc, shape_of, inputs="", outputs="", attrs="", stateful=False, typed=False):
    @op(name, inputs=inputs, outputs=outputs, attrs=attrs, stateful=stateful,
        doc=f"{doc} TF: {name}.", **({"dtype": NUMBERS} if typed else {}))
    class Block:
        shape = shape_of
        gradient = UNREGISTERED
        reference = None
        samples = None
    return Block


MADE = ("dtype: type, shape: shape, container: string = '', shared_name: string = '', "
        "reduction_type: {'MEAN', 'SUM'} = 'MEAN'")
ConditionalAccumulator = _block("ConditionalAccumulator", "A sum of gradients.", _reference,
                                outputs=REFERENCE, attrs=MADE, stateful=True, typed=True)
ResourceConditionalAccumulator = _block(
    "ResourceConditionalAccumulator", "A sum of gradients.", _reference, outputs=RESOURCE, attrs=MADE,
    stateful=True, typed=True)
SparseConditionalAccumulator = _block(
    "SparseConditionalAccumulator", "A sum of sparse gradients, by row.", _reference,
    outputs=REFERENCE, attrs=MADE, stateful=True, typed=True)


def _pair(name, doc, shape_of, more="", **schema):
    """The op on a reference, and the one on a resource."""
    return [_block(prefix + name, doc, shape_of, inputs=handle + more, stateful=bool(prefix),
                   **schema) for prefix, handle in (("", REFERENCE), ("Resource", RESOURCE))]


AccumulatorApplyGradient, ResourceAccumulatorApplyGradient = _pair(
    "AccumulatorApplyGradient", "Adds a gradient, unless its step is over.", _nothing,
    ", local_step: int64, gradient: dtype", typed=True)
AccumulatorTakeGradient, ResourceAccumulatorTakeGradient = _pair(
    "AccumulatorTakeGradient", "The mean, once `num_required` gradients have come; the accumulator "
    "is empty then.", _unknown, ", num_required: int32", outputs="average: dtype", typed=True)
AccumulatorNumAccumulated, ResourceAccumulatorNumAccumulated = _pair(
    "AccumulatorNumAccumulated", "How many gradients have come.", _scalar,
    outputs="num_accumulated: int32")
AccumulatorSetGlobalStep, ResourceAccumulatorSetGlobalStep = _pair(
    "AccumulatorSetGlobalStep", "Gradients of earlier steps are dropped from now on.", _nothing,
    ", new_global_step: int64")
SparseAccumulatorApplyGradient = _block(
    "SparseAccumulatorApplyGradient", "Adds the rows of a gradient, unless its step is over.",
    _nothing, attrs="has_known_shape: bool", typed=True,
    inputs=REFERENCE + ", local_step: int64, gradient_indices: int64, gradient_values: dtype, "
                       "gradient_shape: int64")
SparseAccumulatorTakeGradient = _block(
    "SparseAccumulatorTakeGradient", "The mean of each row over the gradients that had it.",
    _taken_sparse, inputs=REFERENCE + ", num_required: int32", typed=True,
    outputs="indices: int64, values: dtype, shape: int64")
_AccumulatorApplyFrom = _block(
    "_AccumulatorApplyFrom", "Keeps the first gradient of a source for the accumulator's step; "
    "taken, they are summed in the order of sources.", _nothing, typed=True,
    inputs=REFERENCE + ", local_step: int64, source: int64, gradient: dtype")
_SparseAccumulatorApplyFrom = _block(
    "_SparseAccumulatorApplyFrom", "Keeps the first gradient of a source for the accumulator's "
    "step; taken, they are summed in the order of sources.", _nothing,
    attrs="has_known_shape: bool", typed=True,
    inputs=REFERENCE + ", local_step: int64, source: int64, gradient_indices: int64, "
                       "gradient_values: dtype, gradient_shape: int64")
_AccumulatorTakeAt = _block(
    "_AccumulatorTakeAt", "As AccumulatorTakeGradient; AbortedError when the accumulator is at "
    "another step.", _unknown, inputs=REFERENCE + ", num_required: int32, step: int64",
    outputs="average: dtype", typed=True)
_SparseAccumulatorTakeAt = _block(
    "_SparseAccumulatorTakeAt", "As SparseAccumulatorTakeGradient; AbortedError when the "
    "accumulator is at another step.", _taken_sparse, typed=True,
    inputs=REFERENCE + ", num_required: int32, step: int64",
    outputs="indices: int64, values: dtype, shape: int64")
