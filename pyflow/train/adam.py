"""Adam.  Source: Kingma and Ba 2015 (arXiv:1412.6980), as TF's AdamOptimizer.

Invariant: beta1_power and beta2_power, two variables per optimizer and graph, hold beta^t for the
step t being taken; they are multiplied after all updates.

Example:  `tf.train.AdamOptimizer(1e-3).minimize(loss)`
"""
from pyflow.framework import graph as ops
from pyflow.lib.variables.resource_variables import is_resource_variable
from pyflow.lib.control_flow import grouping
from pyflow.ops.elementwise import unary_ops
from pyflow.lib.variables import state_functions
from pyflow.ops.state import resource_handles, training_ops
from pyflow.train.optimizer import Optimizer, cast_like, hyperparameter


class AdamOptimizer(Optimizer):
    """Steps scaled by running means of the gradient ("m") and of its square ("v").

    learning_rate: a number or scalar tensor. beta1, beta2: decay of the two means. epsilon: added
    to the root of v. use_locking: accepted; updates are atomic whatever it says. A sparse gradient
    decays m and v, and moves var, in all rows, as if it were dense.

        >>> w = tf.Variable([1.0, 2.0])
        >>> step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w * w))
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(step)
        ...     sess.run(w).round(4)
        array([0.9, 1.9], dtype=float32)
    """

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False,
                 name="Adam"):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def _powers(self):
        graph = ops.get_default_graph()
        return (self._get_non_slot_variable("beta1_power", graph),
                self._get_non_slot_variable("beta2_power", graph))

    _get_beta_accumulators = _powers     # the name that TensorFlow's own tests use

    def _create_slots(self, var_list):
        first = min(var_list, key=lambda var: var.name)
        self._create_non_slot_variable(self._initial(self._beta1), "beta1_power", first)
        self._create_non_slot_variable(self._initial(self._beta2), "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    @staticmethod
    def _initial(beta):
        return beta() if callable(beta) else beta

    def _prepare(self):
        self._lr_t = hyperparameter(self._lr, "learning_rate")
        self._beta1_t = hyperparameter(self._beta1, "beta1")
        self._beta2_t = hyperparameter(self._beta2, "beta2")
        self._epsilon_t = hyperparameter(self._epsilon, "epsilon")

    def _scalars(self, var):
        power1, power2 = self._powers()
        scalars = (power1, power2, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)
        return [cast_like(scalar, var) for scalar in scalars]

    def _apply_dense(self, grad, var):
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        return training_ops.ApplyAdam(var, m, v, *self._scalars(var), grad,
                                      use_locking=self._use_locking).op

    def _resource_apply_dense(self, grad, handle):
        m, v = self.get_slot(handle, "m"), self.get_slot(handle, "v")
        return training_ops.ResourceApplyAdam(handle.handle, m.handle, v.handle,
                                              *self._scalars(handle), grad,
                                              use_locking=self._use_locking)

    def _apply_sparse(self, grad, var):
        return self._step_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._step_rows(grad, handle, indices)

    def _step_rows(self, grad, var, indices):
        power1, power2, lr, beta1, beta2, epsilon = self._scalars(var)
        rate = lr * unary_ops.Sqrt(1 - power2) / (1 - power1)
        m = self._decayed(self.get_slot(var, "m"), beta1, indices, grad * (1 - beta1))
        v = self._decayed(self.get_slot(var, "v"), beta2, indices, (grad * grad) * (1 - beta2))
        moved = var.assign_sub(rate * m / (unary_ops.Sqrt(v) + epsilon),
                               use_locking=self._use_locking)
        return grouping.group(moved.op, m.op, v.op)

    def _decayed(self, slot, beta, indices, rows):
        """slot * beta, plus `rows` at `indices`; returns the new value."""
        decayed = slot.assign(slot * beta, use_locking=self._use_locking, read_value=False)
        with ops.control_dependencies([decayed]):
            if not is_resource_variable(slot):
                return state_functions.scatter_add(slot, indices, rows,
                                                   use_locking=self._use_locking)
            added = resource_handles.ResourceScatterAdd(slot.handle, indices, rows)
        with ops.control_dependencies([added]):
            return slot.value()

    def _finish(self, update_ops, name_scope):
        with ops.control_dependencies(update_ops):
            power1, power2 = self._powers()
            with ops.colocate_with(power1.op):
                advance = [power.assign(power * beta, use_locking=self._use_locking).op
                           for power, beta in ((power1, self._beta1_t), (power2, self._beta2_t))]
        return grouping.group(*update_ops, *advance, name=name_scope)


PUBLIC = {"train.AdamOptimizer": AdamOptimizer}
