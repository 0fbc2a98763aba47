"""Adagrad by dual averaging: each step starts from 0 with the sums of all gradients, so that an L1
penalty makes weights exactly 0.

Source: Duchi et al. 2011 (JMLR 12), as TF's AdagradDAOptimizer.

Example:  `tf.train.AdagradDAOptimizer(0.1, step, l1_regularization_strength=0.01)`
"""
from pyflow.framework import graph as ops
from pyflow.lib.control_flow import grouping
from pyflow.lib.variables import initializers
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, unary_ops
from pyflow.train import row_steps
from pyflow.train.optimizer import Optimizer, cast_like, hyperparameter


class AdagradDAOptimizer(Optimizer):
    """var = -learning_rate shrunk / (l2 t learning_rate + sqrt(squares)), where `shrunk` is the sum
    of gradients, moved towards 0 by l1 t, and t the global step plus one.
    TF: tf.train.AdagradDAOptimizer."""

    def __init__(self, learning_rate, global_step, initial_gradient_squared_accumulator_value=0.1,
                 l1_regularization_strength=0.0, l2_regularization_strength=0.0, use_locking=False,
                 name="AdagradDA"):
        """learning_rate: a float or scalar tensor; global_step: a scalar of ints. ValueError unless
        the squares start above 0."""
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError("initial_gradient_squared_accumulator_value must be positive: "
                             f"{initial_gradient_squared_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate, self._global_step = learning_rate, global_step
        self._initial = initial_gradient_squared_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    # Optimizer itself is its base, as in TensorFlow: gpflow 1.5 refuses tf.train's others.
    _apply_dense = row_steps.RowOptimizer._apply_dense
    _resource_apply_dense = row_steps.RowOptimizer._resource_apply_dense
    _apply_sparse = row_steps.RowOptimizer._apply_sparse
    _resource_apply_sparse = row_steps.RowOptimizer._resource_apply_sparse

    def _create_slots(self, var_list):
        for var in var_list:
            dtype = var.dtype.base_dtype
            self._zeros_slot(var, "gradient_accumulator", self._name)
            self._get_or_make_slot_with_initializer(
                var, initializers.Constant(self._initial, dtype=dtype), var.shape, dtype,
                "gradient_squared_accumulator", self._name)

    def _prepare(self):
        self._rate = hyperparameter(self._learning_rate, "learning_rate")
        self._steps = tensors.cast(ops.convert_to_tensor(self._global_step), self._rate.dtype) + 1

    def _slots_of(self, var):
        return (self.get_slot(var, "gradient_accumulator"),
                self.get_slot(var, "gradient_squared_accumulator"))

    def _from_sums(self, var, total, squares):
        """The variable's (rows') value."""
        rate, steps = cast_like(self._rate, var), cast_like(self._steps, var)
        shrunk = total
        if self._l1 > 0:
            shrunk = unary_ops.Sign(total) * binary_ops.Maximum(
                unary_ops.Abs(total) - self._l1 * steps, tensors.zeros_like(total))
        divisor = unary_ops.Sqrt(squares)
        if self._l2:
            divisor = divisor + self._l2 * steps * rate
        return -rate * shrunk / divisor

    def _step(self, grad, var):
        sums, squares = self._slots_of(var)
        total, square = sums + grad, squares + unary_ops.Square(grad)
        return grouping.group(row_steps.put(sums, total), row_steps.put(squares, square),
                              row_steps.put(var, self._from_sums(var, total, square)))

    def _step_rows(self, grad, var, indices):
        sums, squares = self._slots_of(var)
        total = row_steps.rows(sums, indices) + grad
        square = row_steps.rows(squares, indices) + unary_ops.Square(grad)
        value = self._from_sums(var, total, square)
        return grouping.group(*(row_steps.put_rows(slot, indices, x) for slot, x in (
            (sums, total), (squares, square), (var, value))))


PUBLIC = {"train.AdagradDAOptimizer": AdagradDAOptimizer}
