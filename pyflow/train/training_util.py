"""The global step: one integer variable that counts training steps.

Invariant: a graph has at most one global step, in the collection GLOBAL_STEP; it is an integer
scalar.

Example:  `step = tf.train.get_or_create_global_step()`
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.variables import initializers, variable_scope, variables


def get_global_step(graph=None):
    """The graph's global step, or None. ValueError if there are several. TF:
    tf.train.get_global_step.

    graph: default the default graph.

        >>> step = tf.train.create_global_step()
        >>> tf.train.get_global_step() is step
        True
    """
    graph = graph or ops.get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple items found in global step collection: "
                         f"{[variable.name for variable in found]}")
    if not found:
        try:
            found = [graph.get_tensor_by_name("global_step:0")]
        except KeyError:
            return None
    assert_global_step(found[0])
    return found[0]


def create_global_step(graph=None):
    """Makes the graph's global step; ValueError if it has one. TF: tf.train.create_global_step."""
    graph = graph or ops.get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return variable_scope.get_variable(
            GraphKeys.GLOBAL_STEP, shape=[], dtype=dtypes.int64, trainable=False,
            initializer=initializers.zeros_initializer(),
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP])


def get_or_create_global_step(graph=None):
    """The graph's global step, made if needed. TF: tf.train.get_or_create_global_step."""
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def assert_global_step(global_step_tensor):
    """TypeError unless it is an integer scalar variable or tensor. TF:
    tf.train.assert_global_step."""
    if not isinstance(global_step_tensor, (variables.Variable, ops.Tensor)):
        raise TypeError("Existing \"global_step\" must be a Variable or Tensor: "
                        f"{global_step_tensor}.")
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError("Existing \"global_step\" does not have integer type: "
                        f"{global_step_tensor.dtype}")
    if global_step_tensor.shape.ndims not in (None, 0):
        raise TypeError("Existing \"global_step\" is not scalar: "
                        f"{global_step_tensor.shape}")


def global_step(sess, global_step_tensor):
    """The global step's value in session `sess`, an int. TF: tf.train.global_step."""
    return int(sess.run(global_step_tensor))


PUBLIC = {
    "train.get_global_step": get_global_step, "train.create_global_step": create_global_step,
    "train.get_or_create_global_step": get_or_create_global_step, "train.global_step": global_step,
    "train.assert_global_step": assert_global_step,
    "contrib.framework.get_global_step": get_global_step,
    "contrib.framework.create_global_step": create_global_step,
    "contrib.framework.get_or_create_global_step": get_or_create_global_step,
}
