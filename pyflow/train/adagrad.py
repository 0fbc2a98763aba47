"""Adagrad and Adadelta.  Sources: Duchi et al. 2011; Zeiler 2012; as TF's optimizers.

Example:  `tf.train.AdagradOptimizer(0.1).minimize(loss)`
"""
from pyflow.lib.variables import initializers
from pyflow.ops.state import training_ops
from pyflow.train.optimizer import Optimizer, cast_like, hyperparameter


class AdagradOptimizer(Optimizer):
    """accumulator += gradient^2; var -= learning_rate * gradient / sqrt(accumulator).
    learning_rate: a number or a tensor. initial_accumulator_value: above 0, what accumulators begin
    with; use_locking: updates of one variable do not run at the same time. TF:
    tf.train.AdagradOptimizer.

        >>> x = tf.Variable(1.0)
        >>> step = tf.train.AdagradOptimizer(0.5).minimize(x * x)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     for _ in range(50):
        ...         sess.run(step)
        ...     print(abs(sess.run(x)) < 0.01)
        True
    """

    def __init__(self, learning_rate, initial_accumulator_value=0.1, use_locking=False,
                 name="Adagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: "
                             f"{initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial = initial_accumulator_value

    def _create_slots(self, var_list):
        for var in var_list:
            dtype = var.dtype.base_dtype
            self._get_or_make_slot_with_initializer(
                var, initializers.Constant(self._initial, dtype=dtype), var.shape, dtype, "accumulator",
                self._name)

    def _prepare(self):
        self._rate = hyperparameter(self._learning_rate, "learning_rate")

    def _apply_dense(self, grad, var):
        return training_ops.ApplyAdagrad(
            var, self.get_slot(var, "accumulator"), cast_like(self._rate, var), grad,
            use_locking=self._use_locking).op

    def _resource_apply_dense(self, grad, handle):
        return training_ops.ResourceApplyAdagrad(
            handle.handle, self.get_slot(handle, "accumulator").handle,
            cast_like(self._rate, handle), grad, use_locking=self._use_locking)

    def _apply_sparse(self, grad, var):
        return training_ops.SparseApplyAdagrad(
            var, self.get_slot(var, "accumulator"), cast_like(self._rate, var), grad.values,
            grad.indices, use_locking=self._use_locking).op

    def _resource_apply_sparse(self, grad, handle, indices):
        return training_ops.ResourceSparseApplyAdagrad(
            handle.handle, self.get_slot(handle, "accumulator").handle,
            cast_like(self._rate, handle), grad, indices, use_locking=self._use_locking)


class AdadeltaOptimizer(Optimizer):
    """Steps by the ratio of running root mean squares of updates and gradients."""

    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-8, use_locking=False,
                 name="Adadelta"):
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _create_slots(self, var_list):
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)

    def _prepare(self):
        self._scalars = [hyperparameter(value, name) for value, name in (
            (self._lr, "lr"), (self._rho, "rho"), (self._epsilon, "epsilon"))]

    def _step(self, block, var, rest, handles=False):
        state = [var, self.get_slot(var, "accum"), self.get_slot(var, "accum_update")]
        if handles:
            state = [variable.handle for variable in state]
        scalars = [cast_like(scalar, var) for scalar in self._scalars]
        return block(*state, *scalars, *rest, use_locking=self._use_locking)

    def _apply_dense(self, grad, var):
        return self._step(training_ops.ApplyAdadelta, var, [grad]).op

    def _resource_apply_dense(self, grad, handle):
        return self._step(training_ops.ResourceApplyAdadelta, handle, [grad], handles=True)

    def _apply_sparse(self, grad, var):
        return self._step(training_ops.SparseApplyAdadelta, var, [grad.values, grad.indices]).op

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._step(training_ops.ResourceSparseApplyAdadelta, handle, [grad, indices],
                          handles=True)


PUBLIC = {"train.AdagradOptimizer": AdagradOptimizer, "train.AdadeltaOptimizer": AdadeltaOptimizer}
