"""Conditional accumulators: sums of gradients that somebody takes when enough have come.

Invariants
  1. A gradient of a step before the accumulator's own is dropped; so stale ones never count.
  2. Taking waits, empties the accumulator, and makes its step one more.

Who calls it: users, synchronous optimizers.  Thread: the one building the graph.
Source: TF 1.15 `tf.ConditionalAccumulator`, `tf.SparseConditionalAccumulator`.
"""
from pyflow.framework import dtypes, graph
from pyflow.framework.shown import ShowsArguments
from pyflow.framework.tensor_shape import TensorShape, unknown_shape
from pyflow.ops.base import tensors
from pyflow.ops.queue import accumulator_ops


class ConditionalAccumulatorBase(ShowsArguments):
    """What both kinds have in common. TF: tf.ConditionalAccumulatorBase."""

    def __init__(self, dtype, shape, accumulator_ref):
        self._dtype = dtype
        self._shape = unknown_shape() if shape is None else TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref.op.name.rsplit("/", 1)[-1]

    accumulator_ref = property(lambda self: self._accumulator_ref, doc="The handle.")
    name = property(lambda self: self._name, doc="The last part of the op's name.")
    dtype = property(lambda self: self._dtype, doc="The gradients' dtype.")

    def num_accumulated(self, name=None):
        """How many gradients have come, an int32 scalar."""
        return accumulator_ops.AccumulatorNumAccumulated(
            self._accumulator_ref, name=name or f"{self._name}_NumAccumulated")

    def set_global_step(self, new_global_step, name=None):
        """The operation after which gradients of steps before `new_global_step` are dropped."""
        step = tensors.cast(graph.convert_to_tensor(new_global_step), dtypes.int64)
        return accumulator_ops.AccumulatorSetGlobalStep(self._accumulator_ref, step, name=name)


class ConditionalAccumulator(ConditionalAccumulatorBase):
    """A mean (or sum) of dense gradients. TF: tf.ConditionalAccumulator.

    dtype: a float type; shape: of the gradients, default any, but all alike. reduction_type: "MEAN"
    or "SUM". shared_name: accumulators of one name and container are one.
    """

    def __init__(self, dtype, shape=None, shared_name=None, name="conditional_accumulator",
                 reduction_type="MEAN"):
        dtype = dtypes.as_dtype(dtype)
        super().__init__(dtype, shape, accumulator_ops.ConditionalAccumulator(
            dtype=dtype, shape=shape, shared_name=shared_name or "", name=name,
            reduction_type=reduction_type))

    def apply_grad(self, grad, local_step=0, name=None):
        """The operation that adds a gradient, unless `local_step` is before the accumulator's step.
        ValueError, InvalidArgumentError for another shape."""
        grad = graph.convert_to_tensor(grad, dtype=self._dtype)
        grad.get_shape().assert_is_compatible_with(self._shape)
        step = tensors.cast(graph.convert_to_tensor(local_step), dtypes.int64)
        return accumulator_ops.AccumulatorApplyGradient(self._accumulator_ref, step, grad,
                                                        name=name)

    def _apply_from(self, grad, local_step, source):
        """The operation that keeps the first gradient of a source for the accumulator's step."""
        grad = graph.convert_to_tensor(grad, dtype=self._dtype)
        grad.get_shape().assert_is_compatible_with(self._shape)
        return accumulator_ops._AccumulatorApplyFrom(self._accumulator_ref, local_step, source,
                                                     grad)

    def _take_at(self, num_required, step):
        """As take_grad, of gradients summed in the order of sources; AbortedError at another
        step."""
        out = accumulator_ops._AccumulatorTakeAt(self._accumulator_ref, num_required, step,
                                                 dtype=self._dtype)
        out.set_shape(self._shape)
        return out

    def take_grad(self, num_required, name=None):
        """The mean of the gradients, once at least `num_required` have come; waits for them.
        InvalidArgumentError unless num_required is positive."""
        out = accumulator_ops.AccumulatorTakeGradient(self._accumulator_ref, num_required,
                                                      dtype=self._dtype, name=name)
        out.set_shape(self._shape)
        return out


class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """A mean (or sum) of sparse gradients, of each row over those that had it.
    TF: tf.SparseConditionalAccumulator. Arguments: see ConditionalAccumulator; shape: of the dense
    gradients."""

    def __init__(self, dtype, shape=None, shared_name=None, name="sparse_conditional_accumulator",
                 reduction_type="MEAN"):
        dtype = dtypes.as_dtype(dtype)
        super().__init__(dtype, shape, accumulator_ops.SparseConditionalAccumulator(
            dtype=dtype, shape=shape, shared_name=shared_name or "", name=name,
            reduction_type=reduction_type))

    def apply_indexed_slices_grad(self, grad, local_step=0, name=None):
        """The operation that adds IndexedSlices; their indices should increase."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(self, grad_indices, grad_values, grad_shape=None, local_step=0, name=None):
        """The operation that adds rows `grad_values` at `grad_indices`, an increasing vector.

        grad_shape: of the dense gradient, if known. InvalidArgumentError for rows of other
        shapes."""
        step = tensors.cast(graph.convert_to_tensor(local_step), dtypes.int64)
        shape = graph.convert_to_tensor([] if grad_shape is None else grad_shape)
        return accumulator_ops.SparseAccumulatorApplyGradient(
            self._accumulator_ref, step,
            tensors.cast(graph.convert_to_tensor(grad_indices), dtypes.int64),
            graph.convert_to_tensor(grad_values, dtype=self._dtype),
            tensors.cast(shape, dtypes.int64), has_known_shape=grad_shape is not None, name=name)

    def take_grad(self, num_required, name=None):
        """(indices, values, shape) of the mean, once `num_required` gradients have come."""
        return accumulator_ops.SparseAccumulatorTakeGradient(
            self._accumulator_ref, num_required, dtype=self._dtype, name=name)

    def _apply_from(self, grad, local_step, source):
        """The operation that keeps the first IndexedSlices of a source for the accumulator's step,
        rows of one index summed."""
        shape = [] if grad.dense_shape is None else grad.dense_shape
        return accumulator_ops._SparseAccumulatorApplyFrom(
            self._accumulator_ref, local_step, source, tensors.cast(grad.indices, dtypes.int64),
            graph.convert_to_tensor(grad.values, dtype=self._dtype),
            tensors.cast(graph.convert_to_tensor(shape), dtypes.int64),
            has_known_shape=grad.dense_shape is not None)

    def _take_at(self, num_required, step):
        """As take_indexed_slices_grad, of gradients summed in the order of sources; AbortedError at
        another step."""
        return self._slices(*accumulator_ops._SparseAccumulatorTakeAt(
            self._accumulator_ref, num_required, step, dtype=self._dtype))

    def take_indexed_slices_grad(self, num_required, name=None):
        """The mean as IndexedSlices."""
        return self._slices(*self.take_grad(num_required, name))

    def _slices(self, indices, values, shape):
        values.set_shape(TensorShape([None]).concatenate(self._shape[1:])
                         if self._shape.ndims else values.shape)
        return graph.IndexedSlices(values, indices, shape)


PUBLIC = {
    "ConditionalAccumulatorBase": ConditionalAccumulatorBase,
    "ConditionalAccumulator": ConditionalAccumulator,
    "SparseConditionalAccumulator": SparseConditionalAccumulator,
    "sparse.SparseConditionalAccumulator": SparseConditionalAccumulator,
}
