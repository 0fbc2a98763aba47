"""Proximal gradient descent and proximal Adagrad: steps that apply L1 and L2 penalties exactly.

Source: Duchi and Singer 2009 (FOBOS), as TF's ProximalGradientDescentOptimizer.

Example:  `tf.train.ProximalGradientDescentOptimizer(0.1, l1_regularization_strength=0.01)`
"""
from pyflow.lib.variables import initializers
from pyflow.ops.state import training_ops
from pyflow.train.optimizer import Optimizer, cast_like, hyperparameter

_NAMES = ("learning_rate", "l1_regularization_strength", "l2_regularization_strength")


class ProximalGradientDescentOptimizer(Optimizer):
    """var = prox(var - learning_rate * gradient), with both penalties weighted by the rate."""

    def __init__(self, learning_rate, l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False,
                 name="ProximalGradientDescent"):
        super().__init__(use_locking, name)
        self._values = (learning_rate, l1_regularization_strength, l2_regularization_strength)

    def _prepare(self):
        self._scalars = [hyperparameter(value, name) for value, name in zip(self._values, _NAMES)]

    def _step(self, block, var, grads, handles=False):
        scalars = [cast_like(scalar, var) for scalar in self._scalars]
        return block(var.handle if handles else var, *scalars, *grads,
                     use_locking=self._use_locking)

    def _apply_dense(self, grad, var):
        return self._step(training_ops.ApplyProximalGradientDescent, var, [grad]).op

    def _resource_apply_dense(self, grad, handle):
        return self._step(training_ops.ResourceApplyProximalGradientDescent, handle, [grad], True)

    def _apply_sparse(self, grad, var):
        return self._step(training_ops.SparseApplyProximalGradientDescent, var,
                          [grad.values, grad.indices]).op

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._step(training_ops.ResourceSparseApplyProximalGradientDescent, handle,
                          [grad, indices], True)


class ProximalAdagradOptimizer(Optimizer):
    """Adagrad whose steps apply the penalties, weighted by each element's own rate."""

    def __init__(self, learning_rate, initial_accumulator_value=0.1, l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False, name="ProximalAdagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError("initial_accumulator_value must be positive: "
                             f"{initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._initial = initial_accumulator_value
        self._values = (learning_rate, l1_regularization_strength, l2_regularization_strength)

    def _create_slots(self, var_list):
        for var in var_list:
            dtype = var.dtype.base_dtype
            self._get_or_make_slot_with_initializer(
                var, initializers.Constant(self._initial, dtype=dtype), var.shape, dtype, "accumulator",
                self._name)

    def _prepare(self):
        self._scalars = [hyperparameter(value, name) for value, name in zip(self._values, _NAMES)]

    def _step(self, block, var, grads, handles=False):
        state = [var, self.get_slot(var, "accumulator")]
        if handles:
            state = [variable.handle for variable in state]
        scalars = [cast_like(scalar, var) for scalar in self._scalars]
        return block(*state, *scalars, *grads, use_locking=self._use_locking)

    def _apply_dense(self, grad, var):
        return self._step(training_ops.ApplyProximalAdagrad, var, [grad]).op

    def _resource_apply_dense(self, grad, handle):
        return self._step(training_ops.ResourceApplyProximalAdagrad, handle, [grad], True)

    def _apply_sparse(self, grad, var):
        return self._step(training_ops.SparseApplyProximalAdagrad, var,
                          [grad.values, grad.indices]).op

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._step(training_ops.ResourceSparseApplyProximalAdagrad, handle, [grad, indices],
                          True)


PUBLIC = {"train.ProximalGradientDescentOptimizer": ProximalGradientDescentOptimizer,
          "train.ProximalAdagradOptimizer": ProximalAdagradOptimizer}
