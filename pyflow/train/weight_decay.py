"""Weights that decay beside the optimizer's step, not through its gradient; and LARS, whose rate
follows the ratio of weights to gradients.

    var -= weight_decay * var        then the base optimizer's step

Invariants
  1. weight_decay is not multiplied by the learning rate: a schedule of one needs one of the other.
  2. Of a sparse gradient only its rows decay.

Thread: the one building the graph.  Sources: TF 1.15, contrib/opt; Loshchilov and Hutter 2017
(arXiv:1711.05101); You et al. 2017 (arXiv:1708.03888), LARS.

Example:
    tf.contrib.opt.AdamWOptimizer(weight_decay=1e-4, learning_rate=1e-3).minimize(loss)
"""
from pyflow.framework import graph as ops
from pyflow.framework.shown import ShowsArguments
from pyflow.lib.math import logic_functions, reductions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import logic_ops, unary_ops
from pyflow.ops.state import training_ops
from pyflow.train import row_steps
from pyflow.train.adam import AdamOptimizer
from pyflow.train.momentum import MomentumOptimizer
from pyflow.train.optimizer import cast_like, hyperparameter


class DecoupledWeightDecayExtension(ShowsArguments):
    """Put before an optimizer in a class's bases, it decays weights before each step.
    TF: tf.contrib.opt.DecoupledWeightDecayExtension.

        class AdamW(tf.contrib.opt.DecoupledWeightDecayExtension, tf.train.AdamOptimizer):
            def __init__(self, weight_decay, *args, **kwargs):
                super().__init__(weight_decay, *args, **kwargs)
    """

    def __init__(self, weight_decay, *args, **kwargs):
        """weight_decay: a float, scalar tensor, or function of no arguments; the rest is the base
        optimizer's."""
        self._weight_decay, self._decay_var_list = weight_decay, None
        super().__init__(*args, **kwargs)

    def minimize(self, loss, global_step=None, var_list=None, *args, decay_var_list=None, **kwargs):
        """As the base optimizer's. decay_var_list: the variables that decay, default all."""
        self._decay_var_list = decay_var_list
        return super().minimize(loss, global_step, var_list, *args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, decay_var_list=None):
        """As the base optimizer's. decay_var_list: the variables that decay, default all."""
        if decay_var_list is not None:
            self._decay_var_list = decay_var_list
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _prepare(self):
        self._decay_t = hyperparameter(self._weight_decay, "weight_decay")
        super()._prepare()

    def _decays(self, var):
        return not self._decay_var_list or any(var is one for one in self._decay_var_list)

    def _after_decay(self, var, indices=None):
        """The operation that decays a variable, or its rows; as context for what comes after."""
        if not self._decays(var):
            return ops.control_dependencies([])
        decay = cast_like(self._decay_t, var)
        if indices is None:
            done = var.assign_sub(decay * var, use_locking=self._use_locking, read_value=False)
        else:
            done = row_steps.add_rows(var, indices, -decay * row_steps.rows(var, indices))
        return ops.control_dependencies([done])

    def _apply_dense(self, grad, var):
        with self._after_decay(var):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad, handle):
        with self._after_decay(handle):
            return super()._resource_apply_dense(grad, handle)

    def _apply_sparse(self, grad, var):
        with self._after_decay(var, grad.indices):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad, handle, indices):
        with self._after_decay(handle, indices):
            return super()._resource_apply_sparse(grad, handle, indices)


def extend_with_decoupled_weight_decay(base_optimizer):
    """A class of `base_optimizer`, an Optimizer class, whose weights decay: weight_decay, a float,
    comes before its arguments. TF: tf.contrib.opt.extend_with_decoupled_weight_decay."""
    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        """The base optimizer with decoupled weight decay."""

        def __init__(self, weight_decay, *args, **kwargs):
            super().__init__(weight_decay, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum with decoupled weight decay. TF: tf.contrib.opt.MomentumWOptimizer."""

    def __init__(self, weight_decay, learning_rate, momentum, use_locking=False, name="MomentumW",
                 use_nesterov=False):
        super().__init__(weight_decay, learning_rate=learning_rate, momentum=momentum,
                         use_locking=use_locking, name=name, use_nesterov=use_nesterov)


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with decoupled weight decay. TF: tf.contrib.opt.AdamWOptimizer."""

    def __init__(self, weight_decay, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8,
                 use_locking=False, name="AdamW"):
        super().__init__(weight_decay, learning_rate=learning_rate, beta1=beta1, beta2=beta2,
                         epsilon=epsilon, use_locking=use_locking, name=name)


class LARSOptimizer(MomentumOptimizer):
    """Momentum whose rate is, for each variable, learning_rate eeta |var| / (|gradient| +
    weight_decay |var| + epsilon). The momentum is the sum of gradients times their steps' rates.
    TF: tf.contrib.opt.LARSOptimizer."""

    def __init__(self, learning_rate, momentum=0.9, weight_decay=0.0001, eeta=0.001, epsilon=0.0,
                 name="LARSOptimizer", skip_list=None, use_nesterov=False):
        """momentum, at least 0, else ValueError; weight_decay is added to the gradient; skip_list:
        parts of names of variables that take plain momentum steps. Sparse gradients take plain
        momentum steps, too."""
        if momentum < 0.0:
            raise ValueError(f"momentum should be positive: {momentum}")
        super().__init__(learning_rate, momentum, False, name, use_nesterov)
        self._weight_decay, self._eeta, self._epsilon = weight_decay, eeta, epsilon
        self._skip_list = skip_list

    def _scaled(self, grad, var):
        """(rate, gradient with the weights' decay)."""
        rate = cast_like(self._rate, var)
        if self._skip_list is not None and any(part in var.name for part in self._skip_list):
            return rate, grad
        weight, slope = (unary_ops.Sqrt(reductions.reduce_sum(unary_ops.Square(x)))
                         for x in (ops.convert_to_tensor(var), grad))
        ratio = self._eeta * weight / (slope + self._weight_decay * weight + self._epsilon)
        both = logic_ops.LogicalAnd(weight > 0, slope > 0)
        rate = rate * logic_functions.where(both, ratio, tensors.ones_like(ratio))
        return rate, grad + self._weight_decay * var

    def _scaled_step(self, grad, var):
        rate, grad = self._scaled(grad, var)
        return row_steps.apply_op(
            training_ops.ApplyMomentum, training_ops.ResourceApplyMomentum, var,
            [self.get_slot(var, "momentum")],
            [tensors.cast(1.0, var.dtype.base_dtype), rate * grad, cast_like(self._momentum_tensor, var)],
            **self._options())

    _apply_dense = _resource_apply_dense = _scaled_step


PUBLIC = {f"contrib.opt.{made.__name__}": made for made in (
    AdamWOptimizer, DecoupledWeightDecayExtension, LARSOptimizer, MomentumWOptimizer,
    extend_with_decoupled_weight_decay)}
