"""ExponentialMovingAverage: shadow variables that follow others.

Invariants
  1. average -= (1 - decay) * (average - value); with `num_updates`, decay is at most
     (1 + num_updates) / (10 + num_updates).
  2. A variable's average starts at its initial value; a tensor's at zero (with zero_debias
     corrected).

Source: TF 1.x tf.train.ExponentialMovingAverage.

Example:
    ema = tf.train.ExponentialMovingAverage(0.99)
    train = tf.group(step, ema.apply([w]))
    ema.average(w)
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.framework.shown import ShowsArguments
from pyflow.lib.variables import variables
from pyflow.lib.control_flow import grouping
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops
from pyflow.lib.variables.moving_average import assign_moving_average
from pyflow.train import slot_creator


class ExponentialMovingAverage(ShowsArguments):
    """Moving averages of variables and tensors. TF: tf.train.ExponentialMovingAverage.

    average = decay * average + (1 - decay) * value at each run of apply(). num_updates: a counter;
    the decay is then at most (1 + n) / (10 + n). zero_debias: averages of tensors, which begin at
    0, are corrected for that.

        >>> v = tf.Variable(1.0)
        >>> ema = tf.train.ExponentialMovingAverage(decay=0.9)
        >>> update = ema.apply([v])
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(v.assign(2.0))
        ...     sess.run(update)
        ...     sess.run(ema.average(v))
        np.float32(2.0)
        np.float32(1.1)
    """

    def __init__(self, decay, num_updates=None, zero_debias=False, name="ExponentialMovingAverage"):
        self._decay = decay
        self._num_updates = num_updates
        self._zero_debias = zero_debias
        self._name = name
        self._averages = {}

    @property
    def name(self):
        """The name the averages' slots are called by."""
        return self._name

    def apply(self, var_list=None):
        """The operation that updates the averages of `var_list` (the trainable variables).

        Makes a shadow variable for each on first use. Raises TypeError for a dtype that is not
        floating."""
        if var_list is None:
            var_list = variables.trainable_variables()
        for var in var_list:
            if not var.dtype.base_dtype.is_floating:
                raise TypeError(f"The variables must be half, float, or double: {var.name}")
            if _key(var) not in self._averages:
                self._averages[_key(var)] = self._shadow(var)
        with ops.name_scope(self._name) as scope:
            decay = ops.convert_to_tensor(self._decay, dtype=dtypes.float32, name="decay")
            if self._num_updates is not None:
                updates = tensors.cast(self._num_updates, dtypes.float32)
                decay = binary_ops.Minimum(decay, (1.0 + updates) / (10.0 + updates))
            steps = [self._step(var, decay) for var in var_list]
            return grouping.group(*steps, name=scope)

    def _shadow(self, var):
        with ops.control_dependencies(None):
            if isinstance(var, variables.Variable):
                average = slot_creator.create_slot(var, var.initialized_value(), self._name)
                ops.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, var)
                return average
            return slot_creator.create_zeros_slot(
                var, self._name, colocate_with_primary=var.op.type in ("Variable", "VariableV2",
                                                                       "VarHandleOp"))

    def _step(self, var, decay):
        zero_debias = self._zero_debias and not isinstance(var, variables.Variable)
        # A fresh read, so that `with control_dependencies([train]): ema.apply()` sees the new
        # value.
        value = var.read_value() if isinstance(var, variables.Variable) else var
        update = assign_moving_average(self._averages[_key(var)], value, decay, zero_debias)
        return update.op

    def average(self, var):
        """The shadow variable of `var`, or None."""
        return self._averages.get(_key(var))

    def average_name(self, var):
        """The name its shadow variable has, or would have."""
        known = self._averages.get(_key(var))
        if known is not None:
            return known.op.name
        name = f"{var.op.name}/{self._name}"
        return ops.get_default_graph().unique_name(name, mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables=None):
        """{name in a checkpoint: variable}, averaged variables under their averages' names."""
        if moving_avg_variables is None:
            moving_avg_variables = (variables.trainable_variables()
                                    + variables.moving_average_variables())
        averaged = dict.fromkeys(moving_avg_variables)
        restore = {self.average_name(v): v for v in averaged}
        done = {v.op.name for v in averaged}
        for v in variables.global_variables():
            if v.op.name not in done and v.op.name not in restore:
                restore[v.op.name] = v
        return restore


def _key(var):
    return var.graph, var.op.name


PUBLIC = {"train.ExponentialMovingAverage": ExponentialMovingAverage}
