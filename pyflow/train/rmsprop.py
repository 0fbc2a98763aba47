"""RMSProp.  Source: Tieleman and Hinton 2012 (lecture 6.5), as TF's RMSPropOptimizer.

Example:  `tf.train.RMSPropOptimizer(1e-3, decay=0.9, momentum=0.5).minimize(loss)`
"""
from pyflow.lib.variables import initializers
from pyflow.ops.base import tensors
from pyflow.ops.state import training_ops
from pyflow.train.optimizer import Optimizer, cast_like, hyperparameter


class RMSPropOptimizer(Optimizer):
    """Gradient over the root of a running mean of its square (variance with `centered`), with
    momentum.

    learning_rate: a number or scalar tensor. decay: of the mean. momentum: of the steps. epsilon:
    added under the root. use_locking: accepted; updates are atomic whatever it says.
    Slots: "rms" (starts at one), "momentum", and "mg" if centered.

        >>> w = tf.Variable([1.0, 2.0])
        >>> step = tf.train.RMSPropOptimizer(0.1, decay=0.0).minimize(tf.reduce_sum(w * w))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(step)
        ...     sess.run(w).round(4)
        array([0.9, 1.9], dtype=float32)
    """

    def __init__(self, learning_rate, decay=0.9, momentum=0.0, epsilon=1e-10, use_locking=False,
                 centered=False, name="RMSProp"):
        super().__init__(use_locking, name)
        self._learning_rate, self._decay = learning_rate, decay
        self._momentum, self._epsilon, self._centered = momentum, epsilon, centered

    def _create_slots(self, var_list):
        for var in var_list:
            dtype = var.dtype.base_dtype
            ones = (initializers.ones_initializer(dtype=dtype) if var.shape.is_fully_defined()
                    else tensors.ones_like(var))
            self._get_or_make_slot_with_initializer(var, ones, var.shape, dtype, "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _prepare(self):
        self._scalars = [hyperparameter(value, name) for value, name in (
            (self._learning_rate, "learning_rate"), (self._decay, "decay"),
            (self._momentum, "momentum"), (self._epsilon, "epsilon"))]

    def _step(self, prefix, var, rest, handles=False):
        """Builds <prefix>RMSProp or <prefix>CenteredRMSProp."""
        names = (["mg"] if self._centered else []) + ["rms", "momentum"]
        state = [var] + [self.get_slot(var, name) for name in names]
        if handles:
            state = [variable.handle for variable in state]
        block = getattr(training_ops, prefix + ("Centered" if self._centered else "") + "RMSProp")
        scalars = [cast_like(scalar, var) for scalar in self._scalars]
        return block(*state, *scalars, *rest, use_locking=self._use_locking)

    def _apply_dense(self, grad, var):
        return self._step("Apply", var, [grad]).op

    def _resource_apply_dense(self, grad, handle):
        return self._step("ResourceApply", handle, [grad], handles=True)

    def _apply_sparse(self, grad, var):
        return self._step("SparseApply", var, [grad.values, grad.indices]).op

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._step("ResourceSparseApply", handle, [grad, indices], handles=True)


PUBLIC = {"train.RMSPropOptimizer": RMSPropOptimizer}
