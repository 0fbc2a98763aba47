"""PowerSign and AddSign: steps longer where the gradient and its running mean agree in sign, with
schedules for how much that counts.

Thread: the one building the graph.  Sources: TF 1.15, contrib/opt; Bello et al. 2017
(arXiv:1709.07417).

Example:
    decay = tf.contrib.opt.get_cosine_decay_fn(10000)
    tf.contrib.opt.PowerSignOptimizer(0.1, sign_decay_fn=decay).minimize(loss, global_step=step)
"""
import math

from pyflow.framework import dtypes, graph as ops
from pyflow.lib.control_flow import grouping
from pyflow.lib.math import logic_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, unary_ops
from pyflow.ops.state import training_ops
from pyflow.train import row_steps
from pyflow.train.optimizer import cast_like, hyperparameter


class _SignOptimizer(row_steps.RowOptimizer):
    """What both have in common: slot "m", the mean; sign_decay, of the global step."""

    def __init__(self, learning_rate, strength, beta, sign_decay_fn, use_locking, name):
        super().__init__(use_locking, name)
        self._lr, self._strength, self._beta = learning_rate, strength, beta
        self._sign_decay_fn, self._sign_decay = sign_decay_fn, None

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """As Optimizer's. ValueError with a sign_decay_fn but no global_step."""
        if self._sign_decay_fn is not None:
            if global_step is None:
                raise ValueError("global_step is required when sign_decay_fn is set: pass it to "
                                 "minimize or apply_gradients")
            self._sign_decay = self._sign_decay_fn(global_step)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _create_slots(self, var_list):
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _prepare(self):
        decay = 1.0 if self._sign_decay is None else self._sign_decay
        self._scalars = (hyperparameter(self._lr, "learning_rate"),
                         hyperparameter(self._strength, "strength"),
                         hyperparameter(decay, "sign_decay"), hyperparameter(self._beta, "beta"))

    def _cast(self, var):
        return [cast_like(scalar, var) for scalar in self._scalars]

    def _step(self, grad, var):
        return row_steps.apply_op(*self._ops, var, [self.get_slot(var, "m")],
                                  [*self._cast(var), grad], use_locking=self._use_locking)

    def _step_rows(self, grad, var, indices):
        lr, strength, decay, beta = self._cast(var)
        slot = self.get_slot(var, "m")
        shrunk = slot.assign(slot * beta, use_locking=self._use_locking, read_value=False)
        with ops.control_dependencies([shrunk]):
            added = row_steps.add_rows(slot, indices, grad * (1 - beta))
        with ops.control_dependencies([added]):
            agree = unary_ops.Sign(grad) * unary_ops.Sign(row_steps.rows(slot, indices))
        return grouping.group(row_steps.add_rows(
            var, indices, -lr * self._factor(strength, decay, agree) * grad))


class PowerSignOptimizer(_SignOptimizer):
    """var -= learning_rate base^(sign_decay sign(gradient) sign(mean)) gradient.
    TF: tf.contrib.opt.PowerSignOptimizer."""

    _ops = training_ops.ApplyPowerSign, training_ops.ResourceApplyPowerSign

    def __init__(self, learning_rate=0.1, base=math.e, beta=0.9, sign_decay_fn=None,
                 use_locking=False, name="PowerSignOptimizer"):
        """base: above 0; beta: decay of the mean; sign_decay_fn(global step) -> sign_decay, a
        scalar, default 1."""
        super().__init__(learning_rate, math.log(base), beta, sign_decay_fn, use_locking, name)

    @staticmethod
    def _factor(strength, decay, agree):
        return unary_ops.Exp(strength * decay * agree)


class AddSignOptimizer(_SignOptimizer):
    """var -= learning_rate (alpha + sign_decay sign(gradient) sign(mean)) gradient.
    TF: tf.contrib.opt.AddSignOptimizer."""

    _ops = training_ops.ApplyAddSign, training_ops.ResourceApplyAddSign

    def __init__(self, learning_rate=0.1, alpha=1.0, beta=0.9, sign_decay_fn=None,
                 use_locking=False, name="AddSignOptimizer"):
        """alpha: a float; beta: decay of the mean; sign_decay_fn(global step) -> sign_decay, a
        scalar, default 1."""
        super().__init__(learning_rate, alpha, beta, sign_decay_fn, use_locking, name)

    @staticmethod
    def _factor(strength, decay, agree):
        return strength + decay * agree


# ---------------------------------------------------------------- schedules

def _share(global_step, decay_steps):
    step = tensors.cast(ops.convert_to_tensor(global_step), dtypes.float32)
    return binary_ops.Minimum(step, float(decay_steps)) / float(decay_steps)


def get_linear_decay_fn(decay_steps):
    """A function of the global step: max(0, 1 - step / decay_steps), a float32 scalar. ValueError
    unless decay_steps is an int >= 1. TF: tf.contrib.opt.get_linear_decay_fn."""
    _require_steps(decay_steps)
    return lambda global_step: 1.0 - _share(global_step, decay_steps)


def get_cosine_decay_fn(decay_steps, num_periods=0.5, zero_after=None):
    """A function of the global step: (1 + cos(2 pi num_periods step / decay_steps)) / 2, a float32
    scalar; 0 from zero_after periods on. ValueError unless decay_steps is an int >= 1.
    TF: tf.contrib.opt.get_cosine_decay_fn."""
    _require_steps(decay_steps)

    def decay(global_step):
        share = _share(global_step, decay_steps)
        value = 0.5 * (1.0 + unary_ops.Cos(2.0 * math.pi * num_periods * share))
        return _zeroed(value, num_periods * share, zero_after)
    return decay


def get_restart_decay_fn(decay_steps, num_periods=1, zero_after=None):
    """A function of the global step: half cosines from 1 to 0, num_periods in decay_steps, a
    float32 scalar; 0 from zero_after periods on. ValueError unless decay_steps is an int >= 1.
    TF: tf.contrib.opt.get_restart_decay_fn."""
    _require_steps(decay_steps)

    def decay(global_step):
        periods = num_periods * _share(global_step, decay_steps)
        value = 0.5 * (1.0 + unary_ops.Cos(math.pi * binary_ops.FloorMod(periods, 1.0)))
        return _zeroed(value, periods, zero_after)
    return decay


def _zeroed(value, at, zero_after):
    if zero_after is None:
        return value
    return logic_functions.where(at >= float(zero_after), tensors.zeros_like(value), value)


def _require_steps(decay_steps):
    if not isinstance(decay_steps, int) or decay_steps < 1:
        raise ValueError(f"decay_steps must be an integer >= 1, got {decay_steps!r}")


PUBLIC = {f"contrib.opt.{made.__name__}": made for made in (
    AddSignOptimizer, PowerSignOptimizer, get_cosine_decay_fn, get_linear_decay_fn,
    get_restart_decay_fn)}
