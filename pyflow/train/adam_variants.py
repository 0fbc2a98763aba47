"""Relatives of Adam in tf.contrib.opt: AdaMax, Nadam, and Adam that is lazy about rows.

Invariants
  1. Slots and names are AdamOptimizer's ("m", "v"; beta1_power, beta2_power), so that checkpoints
     go from one to the other.
  2. Rows without a gradient: lazy ones and AdaMax leave their m and v; Nadam decays them and, as
     TensorFlow's, leaves the variable.

Thread: the one building the graph.  Sources: TF 1.15, contrib/opt; Kingma and Ba 2015
(arXiv:1412.6980) section 7.1; Dozat 2016 (Incorporating Nesterov Momentum into Adam).

Example:  `tf.contrib.opt.LazyAdamOptimizer(1e-3).minimize(loss)`
"""
from pyflow.framework import graph as ops
from pyflow.lib.control_flow import grouping
from pyflow.ops.elementwise import binary_ops, unary_ops
from pyflow.ops.state import training_ops
from pyflow.train import row_steps
from pyflow.train.adam import AdamOptimizer
from pyflow.train.optimizer import cast_like


class LazyAdamOptimizer(AdamOptimizer):
    """Adam that for a sparse gradient touches its rows only: m, v and var of other rows stay.
    TF: tf.contrib.opt.LazyAdamOptimizer. Arguments: AdamOptimizer's."""

    def _step_rows(self, grad, var, indices):
        power1, power2, lr, beta1, beta2, epsilon = self._scalars(var)
        rate = lr * unary_ops.Sqrt(1 - power2) / (1 - power1)
        m_slot, v_slot = self.get_slot(var, "m"), self.get_slot(var, "v")
        m = beta1 * row_steps.rows(m_slot, indices) + (1 - beta1) * grad
        v = beta2 * row_steps.rows(v_slot, indices) + (1 - beta2) * unary_ops.Square(grad)
        step = -rate * m / (unary_ops.Sqrt(v) + epsilon)
        return grouping.group(row_steps.put_rows(m_slot, indices, m),
                              row_steps.put_rows(v_slot, indices, v),
                              row_steps.add_rows(var, indices, step))


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's momentum. TF: tf.contrib.opt.NadamOptimizer. Arguments:
    AdamOptimizer's."""

    def _nesterov(self, grad, var):
        state = [self.get_slot(var, "m"), self.get_slot(var, "v")]
        return row_steps.apply_op(
            training_ops.ApplyAdam, training_ops.ResourceApplyAdam, var, state,
            [*self._scalars(var), grad], use_locking=self._use_locking, use_nesterov=True)

    _apply_dense = _resource_apply_dense = _nesterov

    def _step_rows(self, grad, var, indices):
        power1, power2, lr, beta1, beta2, epsilon = self._scalars(var)
        rate = lr * unary_ops.Sqrt(1 - power2) / (1 - power1)
        given = grad * (1 - beta1)
        m = self._decayed(self.get_slot(var, "m"), beta1, indices, given)
        v = self._decayed(self.get_slot(var, "v"), beta2, indices, (grad * grad) * (1 - beta2))
        ahead = given + beta1 * row_steps.rows(m, indices)
        step = -rate * ahead / (unary_ops.Sqrt(row_steps.rows(v, indices)) + epsilon)
        return grouping.group(row_steps.add_rows(var, indices, step), m.op, v.op)


class AdaMaxOptimizer(AdamOptimizer):
    """Adam by the largest gradient so far: v = max(beta2 v, |gradient|).
    TF: tf.contrib.opt.AdaMaxOptimizer. Arguments: AdamOptimizer's."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False,
                 name="AdaMax"):
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _create_slots(self, var_list):
        first = min(var_list, key=lambda var: var.name)
        self._create_non_slot_variable(self._initial(self._beta1), "beta1_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _power(self):
        return self._get_non_slot_variable("beta1_power", ops.get_default_graph())

    _get_beta_accumulators = _power

    def _max_scalars(self, var):
        return [cast_like(scalar, var) for scalar in (
            self._power(), self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)]

    def _max_step(self, grad, var):
        state = [self.get_slot(var, "m"), self.get_slot(var, "v")]
        return row_steps.apply_op(
            training_ops.ApplyAdaMax, training_ops.ResourceApplyAdaMax, var, state,
            [*self._max_scalars(var), grad], use_locking=self._use_locking)

    _apply_dense = _resource_apply_dense = _max_step

    def _step_rows(self, grad, var, indices):
        power, lr, beta1, beta2, epsilon = self._max_scalars(var)
        m_slot, v_slot = self.get_slot(var, "m"), self.get_slot(var, "v")
        m = beta1 * row_steps.rows(m_slot, indices) + (1 - beta1) * grad
        v = binary_ops.Maximum(beta2 * row_steps.rows(v_slot, indices), unary_ops.Abs(grad))
        step = -lr / (1 - power) * (m / (v + epsilon))
        return grouping.group(row_steps.put_rows(m_slot, indices, m),
                              row_steps.put_rows(v_slot, indices, v),
                              row_steps.add_rows(var, indices, step))

    def _finish(self, update_ops, name_scope):
        with ops.control_dependencies(update_ops):
            power = self._power()
            with ops.colocate_with(power.op):
                advance = power.assign(power * self._beta1_t, use_locking=self._use_locking).op
        return grouping.group(*update_ops, advance, name=name_scope)


PUBLIC = {f"contrib.opt.{made.__name__}": made for made in (
    AdaMaxOptimizer, LazyAdamOptimizer, NadamOptimizer)}
