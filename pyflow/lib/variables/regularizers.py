"""Regularizers: functions from a variable to a scalar loss, for `get_variable(regularizer=...)`.

Source: TF 1.x tf.contrib.layers and tf.keras.regularizers.  Thread: the one building the graph.

Example:
    w = tf.get_variable("w", [3], regularizer=tf.contrib.layers.l2_regularizer(0.01))
    loss = error + tf.add_n(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES))
"""
import numbers

from pyflow.framework import graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.math import binary_functions, reductions
from pyflow.lib.variables import variable_scope
from pyflow.ops.elementwise import binary_ops, unary_ops
from pyflow.ops.norm import softmax_ops


def _checked(scale, name):
    if isinstance(scale, numbers.Integral) and not isinstance(scale, bool):
        raise ValueError(f"scale cannot be an integer: {scale}; write {float(scale)}")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise ValueError(f"Setting a scale less than 0 on a regularizer: {name}({scale})")
    return scale


def l1_regularizer(scale, scope=None):
    """scale * sum |w|. ValueError for a negative or integer scale.

    TF: tf.contrib.layers.l1_regularizer.
    The regularizer takes floats of any shape and returns a scalar."""
    if _checked(scale, "l1_regularizer") == 0.0:
        return variable_scope.no_regularizer

    def l1(weights, name=None):
        with ops.name_scope(scope, "l1_regularizer", [weights]) as name:
            factor = ops.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            size = reductions.reduce_sum(unary_ops.Abs(weights))
            return binary_ops.Mul(factor, size, name=name)
    return l1


def l2_regularizer(scale, scope=None):
    """scale * sum w^2 / 2. ValueError for a negative or integer scale.

    TF: tf.contrib.layers.l2_regularizer.
    The regularizer takes floats of any shape and returns a scalar."""
    if _checked(scale, "l2_regularizer") == 0.0:
        return variable_scope.no_regularizer

    def l2(weights):
        with ops.name_scope(scope, "l2_regularizer", [weights]) as name:
            factor = ops.convert_to_tensor(scale, dtype=weights.dtype.base_dtype, name="scale")
            return binary_ops.Mul(factor, softmax_ops.L2Loss(weights), name=name)
    return l2


def sum_regularizer(regularizer_list, scope=None):
    """The sum of several regularizers; None among them counts nothing.
    The regularizer takes floats of any shape and returns a scalar; its errors are the parts'."""
    used = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not used:
        return None

    def total(weights):
        with ops.name_scope(scope, "sum_regularizer", [weights]) as name:
            losses = [loss for loss in (r(weights) for r in used) if loss is not None]
            return binary_functions.add_n(losses, name=name) if losses else None
    return total


def l1_l2_regularizer(scale_l1=1.0, scale_l2=1.0, scope=None):
    """scale_l1 * sum |w| + scale_l2 * sum w^2 / 2. TF: tf.contrib.layers.l1_l2_regularizer.
    The regularizer takes floats of any shape and returns a scalar. ValueError for a negative or
    integer scale."""
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)],
                           scope or "l1_l2_regularizer")


def apply_regularization(regularizer, weights_list=None):
    """The sum of `regularizer` over variables (the WEIGHTS collection), added to
    REGULARIZATION_LOSSES. TF: tf.contrib.layers.apply_regularization.
    Variables of any shape and float dtype; a float scalar. ValueError for penalties of
    different shapes."""
    if weights_list is None:
        weights_list = ops.get_collection(GraphKeys.WEIGHTS)
    losses = [regularizer(weights) for weights in weights_list]
    losses = [ops.constant(0.0) if loss is None else loss for loss in losses]
    if not losses:
        raise ValueError("No weights to regularize.")
    total = binary_functions.add_n(losses, name="regularization_penalty")
    ops.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total


PUBLIC = {f"contrib.{home}.{f.__name__}": f for home in ("layers", "slim") for f in (
    l1_regularizer, l2_regularizer, l1_l2_regularizer, sum_regularizer, apply_regularization)}
