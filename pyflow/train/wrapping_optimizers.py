"""Optimizers around another: one that keeps averages of the variables and saves them in their
place, one that clips variables after each step.

Invariants
  1. compute_gradients, slots and variables are the wrapped optimizer's.
  2. swapping_saver writes each variable's average under the variable's name and its value under
     the average's, so that a program without averages evaluates averaged weights.

Thread: the one building the graph.  Sources: TF 1.15, contrib/opt; Polyak and Juditsky 1992.

Example:
    optimizer = tf.contrib.opt.MovingAverageOptimizer(tf.train.AdamOptimizer(), 0.999)
    train = optimizer.minimize(loss)
    saver = optimizer.swapping_saver()
"""
from pyflow.framework import graph as ops
from pyflow.lib.control_flow import grouping
from pyflow.lib.nn import nn_functions
from pyflow.lib.variables import variables
from pyflow.train import moving_averages, row_steps, saver
from pyflow.train.optimizer import Optimizer, summed_rows


class _Around(Optimizer):
    """An Optimizer whose work another does."""

    def __init__(self, opt, use_locking, name):
        super().__init__(use_locking, name)
        self._optimizer = opt

    def compute_gradients(self, *args, **kwargs):
        """As of the wrapped optimizer."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def get_slot(self, *args, **kwargs):
        """As of the wrapped optimizer."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        """As of the wrapped optimizer."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self):
        """The wrapped optimizer's variables."""
        return self._optimizer.variables()

    def _no_step(self, *unused):
        raise TypeError(f"{self._name} takes no steps itself; its wrapped optimizer does")

    _apply_dense = _resource_apply_dense = _no_step
    _apply_sparse = _resource_apply_sparse = _no_step


class MovingAverageOptimizer(_Around):
    """Keeps an exponential moving average of each variable the wrapped optimizer trains.
    TF: tf.contrib.opt.MovingAverageOptimizer."""

    def __init__(self, opt, average_decay=0.9999, num_updates=None, sequential_update=True):
        """opt: an Optimizer; average_decay: a float; num_updates: a scalar that makes the first
        averages faster, as in ExponentialMovingAverage; sequential_update: averages after the step,
        else beside it."""
        super().__init__(opt, False, "MovingAverageOptimizer")
        self._average = moving_averages.ExponentialMovingAverage(average_decay,
                                                                 num_updates=num_updates)
        self._sequential, self._average_of = sequential_update, None

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that trains and averages."""
        pairs = list(grads_and_vars)
        train = self._optimizer.apply_gradients(pairs, global_step=global_step, name=name)
        trained = [var for grad, var in pairs if grad is not None]
        with ops.control_dependencies([train] if self._sequential else []):
            average = self._average.apply(trained)
        self._average_of = {var.op.name: self._average.average(var) for var in trained}
        return grouping.group(train, average, name="train_with_avg")

    def swapping_saver(self, var_list=None, name="swapping_saver", **kwargs):
        """A Saver of var_list, default all variables, with averages and variables swapped.
        RuntimeError before apply_gradients, ValueError if an average is not in var_list. kwargs:
        Saver's."""
        if self._average_of is None:
            raise RuntimeError("Must call apply_gradients or minimize before creating the "
                               "swapping_saver")
        given = variables.global_variables() if var_list is None else var_list
        found = dict(given) if isinstance(given, dict) else {v.op.name: v for v in given}
        name_of = {id(var): key for key, var in found.items()}
        swapped = dict(found)
        for key, var in found.items():
            average = self._average_of.get(var.op.name)
            if average is None:
                continue
            if id(average) not in name_of:
                raise ValueError(f"Variable to swap {average.op.name} is not in variables to save.")
            swapped[key], swapped[name_of[id(average)]] = average, var
        return saver.Saver(swapped, name=name, **kwargs)


class VariableClippingOptimizer(_Around):
    """Clips variables, along dimensions, to a norm after each of the wrapped optimizer's steps.
    TF: tf.contrib.opt.VariableClippingOptimizer."""

    def __init__(self, opt, vars_to_clip_dims, max_norm, use_locking=False,
                 colocate_clip_ops_with_vars=False, name="VariableClipping"):
        """vars_to_clip_dims: {variable: [dimension]}: the norm is over those dimensions; max_norm:
        a float. With a sparse gradient, and dimensions that leave out 0, its rows alone are
        clipped."""
        super().__init__(opt, use_locking, name)
        self._clip_dims = [(var, list(dims)) for var, dims in vars_to_clip_dims.items()]
        self._max_norm, self._colocate = max_norm, colocate_clip_ops_with_vars

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation that trains and clips."""
        pairs = list(grads_and_vars)
        with ops.name_scope(name, self._name) as scope:
            train = self._optimizer.apply_gradients(pairs, global_step=global_step)
            clips = []
            with ops.control_dependencies([train]):
                for grad, var in pairs:
                    clips += [self._clip(var, grad, dims) for clipped, dims in self._clip_dims
                              if clipped is var and grad is not None]
            return grouping.group(train, *clips, name=scope)

    def _clip(self, var, grad, dims):
        if isinstance(grad, ops.IndexedSlices) and 0 not in dims:
            _, indices = summed_rows(grad.values, grad.indices)
            held = row_steps.rows(var, indices)
            return row_steps.put_rows(var, indices, self._clipped(held, dims))
        return row_steps.put(var, self._clipped(ops.convert_to_tensor(var), dims))

    def _clipped(self, value, dims):
        return nn_functions.clip_by_norm(value, self._max_norm, dims)


PUBLIC = {"contrib.opt.MovingAverageOptimizer": MovingAverageOptimizer,
          "contrib.opt.VariableClippingOptimizer": VariableClippingOptimizer}
