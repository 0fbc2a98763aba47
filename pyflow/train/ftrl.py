"""FTRL-Proximal.  Source: McMahan et al. 2013, as TF's FtrlOptimizer.

Example:  `tf.train.FtrlOptimizer(0.05, l1_regularization_strength=0.001).minimize(loss)`
"""
from pyflow.lib.variables import initializers
from pyflow.ops.state import training_ops
from pyflow.train.optimizer import Optimizer, cast_like, hyperparameter


class FtrlOptimizer(Optimizer):
    """Follow the regularised leader, with L1, L2 and (on gradients) L2 shrinkage penalties."""

    def __init__(self, learning_rate, learning_rate_power=-0.5, initial_accumulator_value=0.1,
                 l1_regularization_strength=0.0, l2_regularization_strength=0.0, use_locking=False,
                 name="Ftrl", accum_name=None, linear_name=None,
                 l2_shrinkage_regularization_strength=0.0):
        super().__init__(use_locking, name)
        if initial_accumulator_value < 0.0:
            raise ValueError(f"initial_accumulator_value {initial_accumulator_value} needs to be "
                             "positive or zero")
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or "
                             f"zero")
        for what, value in (("l1", l1_regularization_strength), ("l2", l2_regularization_strength),
                            ("l2_shrinkage", l2_shrinkage_regularization_strength)):
            if value < 0.0:
                raise ValueError(f"{what}_regularization_strength {value} needs to be positive or "
                                 f"zero")
        self._learning_rate, self._power = learning_rate, learning_rate_power
        self._initial = initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength
        self._shrinkage = l2_shrinkage_regularization_strength
        self._accum_name, self._linear_name = accum_name, linear_name

    def _create_slots(self, var_list):
        for var in var_list:
            dtype = var.dtype.base_dtype
            self._get_or_make_slot_with_initializer(
                var, initializers.Constant(self._initial, dtype=dtype), var.shape, dtype, "accum",
                self._accum_name or self._name)
            self._zeros_slot(var, "linear", self._linear_name or self._name)

    def _prepare(self):
        self._scalars = [hyperparameter(value, name) for value, name in (
            (self._learning_rate, "learning_rate"), (self._l1, "l1_regularization_strength"),
            (self._l2, "l2_regularization_strength"))]
        if self._shrinkage > 0:
            self._scalars.append(hyperparameter(self._shrinkage,
                                                "l2_shrinkage_regularization_strength"))
        self._scalars.append(hyperparameter(self._power, "learning_rate_power"))

    def _step(self, prefix, var, grads, handles=False):
        state = [var, self.get_slot(var, "accum"), self.get_slot(var, "linear")]
        if handles:
            state = [variable.handle for variable in state]
        block = getattr(training_ops, prefix + ("FtrlV2" if self._shrinkage > 0 else "Ftrl"))
        scalars = [cast_like(scalar, var) for scalar in self._scalars]
        return block(*state, *grads, *scalars, use_locking=self._use_locking)

    def _apply_dense(self, grad, var):
        return self._step("Apply", var, [grad]).op

    def _resource_apply_dense(self, grad, handle):
        return self._step("ResourceApply", handle, [grad], handles=True)

    def _apply_sparse(self, grad, var):
        return self._step("SparseApply", var, [grad.values, grad.indices]).op

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._step("ResourceSparseApply", handle, [grad, indices], handles=True)


PUBLIC = {"train.FtrlOptimizer": FtrlOptimizer}
