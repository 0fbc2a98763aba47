"""Momentum, plain and Nesterov's.  Source: Sutskever et al. 2013, as TF's MomentumOptimizer.

Example:  `tf.train.MomentumOptimizer(0.01, 0.9, use_nesterov=True).minimize(loss)`
"""
from pyflow.ops.state import training_ops
from pyflow.train.optimizer import Optimizer, cast_like, hyperparameter


class MomentumOptimizer(Optimizer):
    """accum = momentum * accum + gradient; var -= learning_rate * accum.

    learning_rate, momentum: numbers or scalar tensors. use_nesterov: the gradient is added once
    more, ahead of the step (Sutskever et al. 2013). use_locking: accepted; updates are atomic
    whatever it says.

        >>> w = tf.Variable([1.0, 2.0])
        >>> step = tf.train.MomentumOptimizer(0.25, 0.9).minimize(tf.reduce_sum(w * w))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(step)
        ...     sess.run(w).round(4)
        array([0.5, 1. ], dtype=float32)
    """

    def __init__(self, learning_rate, momentum, use_locking=False, name="Momentum",
                 use_nesterov=False):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def _create_slots(self, var_list):
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self):
        self._rate = hyperparameter(self._learning_rate, "learning_rate")
        self._momentum_tensor = hyperparameter(self._momentum, "momentum")

    def _options(self):
        return {"use_locking": self._use_locking, "use_nesterov": self._use_nesterov}

    def _apply_dense(self, grad, var):
        return training_ops.ApplyMomentum(
            var, self.get_slot(var, "momentum"), cast_like(self._rate, var), grad,
            cast_like(self._momentum_tensor, var), **self._options()).op

    def _resource_apply_dense(self, grad, handle):
        return training_ops.ResourceApplyMomentum(
            handle.handle, self.get_slot(handle, "momentum").handle, cast_like(self._rate, handle),
            grad, cast_like(self._momentum_tensor, handle), **self._options())

    def _apply_sparse(self, grad, var):
        return training_ops.SparseApplyMomentum(
            var, self.get_slot(var, "momentum"), cast_like(self._rate, var), grad.values,
            grad.indices, cast_like(self._momentum_tensor, var), **self._options()).op

    def _resource_apply_sparse(self, grad, handle, indices):
        return training_ops.ResourceSparseApplyMomentum(
            handle.handle, self.get_slot(handle, "momentum").handle, cast_like(self._rate, handle),
            grad, indices, cast_like(self._momentum_tensor, handle), **self._options())


PUBLIC = {"train.MomentumOptimizer": MomentumOptimizer}
