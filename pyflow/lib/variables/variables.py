"""`tf.Variable` and the functions over all variables of a graph: lists, initializers, reports.

Variables of both kinds (variable_base.py, resource_variables.py) are known where this is imported.

Thread: the one building the graph.

Example:  `session.run(tf.global_variables_initializer())`
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow import grouping
from pyflow.lib.math import logic_functions
from pyflow.lib.variables import resource_variables     # noqa: F401 - adds its kind
from pyflow.lib.variables import state_functions
from pyflow.lib.variables.variable_base import (Variable, VariableAggregation,
                                                VariableSynchronization)
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import logic_ops
from pyflow.ops.move import array_ops


# ------------------------------------------------------------------------- collections of variables
def _getter(key, name, what):
    def variables(scope=None):
        return ops.get_collection(key, scope)
    variables.__name__ = variables.__qualname__ = name
    variables.__doc__ = f"""{what} of the default graph; with `scope`, those whose name the regex
    matches. TF: tf.{name}.

        >>> v = tf.Variable(1.0, name="v", collections=[{key!r}])
        >>> [v.name for v in tf.{name}()]
        ['v:0']
    """
    return variables


global_variables = _getter(GraphKeys.GLOBAL_VARIABLES, "global_variables", "Variables")
local_variables = _getter(GraphKeys.LOCAL_VARIABLES, "local_variables", "Local variables")
trainable_variables = _getter(GraphKeys.TRAINABLE_VARIABLES, "trainable_variables",
                              "Trainable variables")
model_variables = _getter(GraphKeys.MODEL_VARIABLES, "model_variables", "Model variables")
moving_average_variables = _getter(GraphKeys.MOVING_AVERAGE_VARIABLES, "moving_average_variables",
                                   "Variables with moving averages")


def variables_initializer(var_list, name="init"):
    """The operation that initialises the variables of `var_list`. TF: tf.variables_initializer."""
    if not var_list:
        return grouping.no_op(name=name)
    return grouping.group(*[variable.initializer for variable in var_list], name=name)


def global_variables_initializer():
    """The operation that initialises all global variables. TF: tf.global_variables_initializer.

        >>> v = tf.Variable([1.0, 2.0])
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     sess.run(v)
        array([1., 2.], dtype=float32)
    """
    return variables_initializer(global_variables())


def local_variables_initializer():
    """The operation that initialises all local variables. TF: tf.local_variables_initializer."""
    return variables_initializer(local_variables())


def report_uninitialized_variables(var_list=None, name="report_uninitialized_variables"):
    """A 1-D string tensor: names of variables without value. TF:
    tf.report_uninitialized_variables.
    Variables of any shape and dtype. TypeError for what is no variable."""
    if var_list is None:
        var_list = global_variables() + local_variables()
    with ops.name_scope(name):
        if not var_list:
            return ops.constant([], dtype=dtypes.string)
        known = [state_functions.is_variable_initialized(variable) for variable in var_list]
        with ops.device("/cpu:0"):
            missing = logic_ops.LogicalNot(tensors.stack(known))
            names = ops.constant([variable.op.name for variable in var_list])
            return logic_functions.boolean_mask(names, missing)


def assert_variables_initialized(var_list=None):
    """A tensor, the variables' ranks, that fails unless all of them have a value. TF:
    tf.assert_variables_initialized.
    Variables of any shape and dtype. Evaluating it raises FailedPreconditionError."""
    if var_list is None:
        var_list = global_variables() + local_variables()
    var_list = list(var_list)
    if not var_list:
        return None
    with var_list[0].graph.as_default():
        ranks = []
        for variable in var_list:
            with ops.colocate_with(variable.op):
                # the value is read: a rank alone may be known without one
                value = variable.value()
                with ops.control_dependencies([identity_functions.identity(value)]):
                    ranks.append(array_ops.Rank(value))
        return ranks[0] if len(ranks) == 1 else tensors.stack(ranks)


PUBLIC = {
    "Variable": Variable, "VariableSynchronization": VariableSynchronization,
    "VariableAggregation": VariableAggregation,
    "global_variables": global_variables, "all_variables": global_variables,
    "local_variables": local_variables, "trainable_variables": trainable_variables,
    "model_variables": model_variables, "moving_average_variables": moving_average_variables,
    "variables_initializer": variables_initializer, "initialize_variables": variables_initializer,
    "global_variables_initializer": global_variables_initializer,
    "initialize_all_variables": global_variables_initializer,
    "local_variables_initializer": local_variables_initializer,
    "initialize_local_variables": local_variables_initializer,
    "report_uninitialized_variables": report_uninitialized_variables,
    "assert_variables_initialized": assert_variables_initialized,
}
