"""assign_moving_average: one step of a variable that follows a value.

Thread: the one building the graph.  Source: TF 1.15 moving_averages.assign_moving_average.

Example:  `update = assign_moving_average(mean, batch_mean, 0.99, zero_debias=False)`.
"""
from pyflow.framework import graph as ops
from pyflow.lib.variables import initializers, state_functions, variable_scope, variables
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops


def assign_moving_average(variable, value, decay, zero_debias=True, name=None):
    """variable -= (1 - decay) * (variable - value); returns the update.

    zero_debias divides by 1 - decay^t, for averages that start at zero."""
    with ops.name_scope(name, "AssignMovingAvg", [variable, value, decay]) as scope:
        with ops.colocate_with(variable.op):
            decay = ops.convert_to_tensor(1.0 - decay, name="decay")
            decay = tensors.cast(decay, variable.dtype.base_dtype)
            if zero_debias:
                delta = _unbiased_delta(variable, value, decay)
            else:
                delta = (variable - value) * decay
            return state_functions.assign_sub(variable, delta, name=scope)


def _unbiased_delta(variable, value, decay):
    """What to subtract so that `variable` becomes the corrected average of values seen so far."""
    with variable_scope.variable_scope(variable.op.name) as scope:
        with ops.colocate_with(variable.op):
            biased = _zeros(scope, "biased", variable.shape, variable.dtype.base_dtype)
            count = _zeros(scope, "local_step", [], variable.dtype.base_dtype)
    moved = biased.assign_sub((biased - value) * decay)
    counted = count.assign_add(1)
    with ops.control_dependencies([moved.op, counted.op]):
        seen = 1 - binary_ops.Pow(1.0 - decay, count.read_value())
        return variable - biased.read_value() / seen


def _zeros(scope, name, shape, dtype):
    """A new variable of the scope, its name made unique; the first of the name on reuse."""
    taken = {v.op.name for v in variables.global_variables()}
    unique, n = name, 0
    while not scope.reuse and f"{scope.name}/{unique}" in taken:
        n += 1
        unique = f"{name}_{n}"
    return variable_scope.get_variable(unique, shape=shape, dtype=dtype, trainable=False,
                                       initializer=initializers.zeros_initializer())
