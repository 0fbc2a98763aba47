"""Metrics over a stream of batches: means, and errors that are means.

Invariants
  1. A metric is (value, update_op): the update adds a batch to local variables and returns the
     value after it; the value reads them alone, whatever the step else does.
  2. Its variables are float32 or float64, in LOCAL_VARIABLES and METRIC_VARIABLES; running
     tf.local_variables_initializer() begins a new stream.
  3. Weights have the values' rank or none, or lack the last dimension; 0 leaves values out.

Thread: the one building the graph.  Source: TF 1.15 tf.metrics.

Example:
    accuracy, update = tf.metrics.accuracy(labels, tf.argmax(logits, 1))
    sess.run(tf.local_variables_initializer())
    for batch in batches: sess.run(update, batch)
    print(sess.run(accuracy))
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.control_flow.cond import cond
from pyflow.lib.math import binary_functions, reductions
from pyflow.lib.nn import weights_broadcast
from pyflow.lib.variables import state_functions, variable_scope, variables
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops


# ---------------------------------------------------------------------------------- what all share
def metric_variable(shape, dtype, name):
    """A local variable of zeros, one of METRIC_VARIABLES."""
    return variables.Variable(
        lambda: tensors.zeros(shape, dtype), trainable=False, name=name,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES])


def metric(make, values, updates, value_collections, update_collections):
    """(make(values, "value"), make(updates, "update_op")), in their collections.

    values, updates: of one kind: variables, and what updates them returned."""
    with ops.control_dependencies(None):
        value = make(values, "value")
    return collected(value, make(updates, "update_op"), value_collections, update_collections)


def collected(value, update, value_collections, update_collections):
    """The pair; each joins its collections."""
    if value_collections:
        ops.add_to_collections(value_collections, value)
    if update_collections:
        ops.add_to_collections(update_collections, update)
    return value, update


def ratio(pair, name=None):
    """pair[0] / pair[1], 0 where the second is not positive."""
    return binary_functions.div_no_nan(pair[0], binary_ops.Maximum(pair[1], _zero(pair[1])),
                                       name=name)


def _zero(like):
    return ops.convert_to_tensor(0.0, dtype=like.dtype.base_dtype)


def squeezed(labels, predictions):
    """Both, without a last dimension of one that only one of them has."""
    labels, predictions = ops.convert_to_tensor(labels), ops.convert_to_tensor(predictions)
    ranks = labels.shape.ndims, predictions.shape.ndims
    if None not in ranks:
        if ranks[0] - ranks[1] == 1 and labels.shape[-1].is_compatible_with(1):
            labels = tensors.squeeze(labels, [-1])
        elif ranks[1] - ranks[0] == 1 and predictions.shape[-1].is_compatible_with(1):
            predictions = tensors.squeeze(predictions, [-1])
        return labels, predictions
    more = tensors.rank(predictions) - tensors.rank(labels)

    def without_last(x, difference):
        if x.shape.ndims is not None and not (
                x.shape.ndims and x.shape[-1].is_compatible_with(1)):
            return x
        return cond(logic_ops.Equal(more, difference), lambda: tensors.squeeze(x, [-1]),
                    lambda: x)
    return without_last(labels, -1), without_last(predictions, 1)


def aligned(labels, predictions, weights):
    """(labels, predictions, weights or None), squeezed and expanded so that they fit.

    labels None: there are none. ValueError for shapes that do not fit."""
    predictions = ops.convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = squeezed(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return labels, predictions, None
    return labels, predictions, _fitted(ops.convert_to_tensor(weights), predictions)


def _fitted(weights, predictions):
    ranks = weights.shape.ndims, predictions.shape.ndims
    if ranks[0] == 0:
        return weights
    if None not in ranks:
        if ranks[0] - ranks[1] == 1:
            return tensors.squeeze(weights, [-1])
        return tensors.expand_dims(weights, -1) if ranks[1] - ranks[0] == 1 else weights
    rank = tensors.rank(weights)
    more = rank - tensors.rank(predictions)
    one_last = ranks[0] is None or weights.shape[-1].is_compatible_with(1)

    def expanded():
        return cond(logic_ops.Equal(more, -1), lambda: tensors.expand_dims(weights, -1),
                    lambda: weights)

    def adjusted():
        return cond(logic_ops.Equal(more, 1),
                    lambda: tensors.squeeze(weights, [-1]) if one_last else weights, expanded)
    return cond(logic_ops.Equal(rank, 0), lambda: weights, adjusted)


def spread(weights, values):
    """Weights with the shape of `values`, as float32. ValueError where they do not fit."""
    weights = tensors.cast(weights, dtypes.float32)
    ranks = weights.shape.ndims, values.shape.ndims
    if ranks[0] == ranks[1] and weights.shape.is_fully_defined() and \
            weights.shape.as_list() == values.shape.as_list():
        return weights
    return binary_ops.Mul(weights_broadcast.checked(weights, values),
                          tensors.ones_like(values, dtypes.float32))


# ------------------------------------------------------------------------------------------- means
def mean(values, weights=None, metrics_collections=None, updates_collections=None, name=None):
    """The mean of all values seen: (value, update_op), float32 scalars.

    values: numbers of any shape. weights: of that shape, or broadcast to it. TF: tf.metrics.mean.
    ValueError for shapes that do not fit.

        >>> x = tf.placeholder(tf.float32, [None])
        >>> value, update = tf.metrics.mean(x)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.local_variables_initializer())
        ...     for batch in ([1.0, 2.0], [6.0]):
        ...         _ = sess.run(update, {x: batch})
        ...     print(sess.run(value))
        3.0
    """
    with variable_scope.variable_scope(name, "mean", (values, weights)):
        values = tensors.cast(values, dtypes.float32)
        total = metric_variable([], dtypes.float32, "total")
        count = metric_variable([], dtypes.float32, "count")
        if weights is None:
            number = tensors.cast(tensors.size(values), dtypes.float32)
        else:
            _, values, weights = aligned(None, values, weights)
            weights = spread(weights, values)
            values, number = values * weights, reductions.reduce_sum(weights)
        added = state_functions.assign_add(total, reductions.reduce_sum(values))
        with ops.control_dependencies([values]):
            counted = state_functions.assign_add(count, number)
        return metric(ratio, (total, count), (added, counted), metrics_collections,
                      updates_collections)


def mean_tensor(values, weights=None, metrics_collections=None, updates_collections=None,
                name=None):
    """The mean of each element over batches of one shape: (value, update_op), float32.

    values: numbers of a known shape. weights: broadcast to it. TF: tf.metrics.mean_tensor.
    ValueError for shapes that do not fit.
    """
    with variable_scope.variable_scope(name, "mean", (values, weights)):
        values = tensors.cast(values, dtypes.float32)
        total = metric_variable(values.shape.as_list(), dtypes.float32, "total_tensor")
        count = metric_variable(values.shape.as_list(), dtypes.float32, "count_tensor")
        number = tensors.ones_like(values)
        if weights is not None:
            _, values, weights = aligned(None, values, weights)
            weights = spread(weights, values)
            values, number = values * weights, number * weights
        added = state_functions.assign_add(total, values)
        with ops.control_dependencies([values]):
            counted = state_functions.assign_add(count, number)
        return metric(ratio, (total, count), (added, counted), metrics_collections,
                      updates_collections)


def accuracy(labels, predictions, weights=None, metrics_collections=None,
             updates_collections=None, name=None):
    """The share of predictions that equal their label: (value, update_op), float32 scalars.

    labels, predictions: of one shape, but for a last dimension of one; any types that compare.
    weights: of that shape, or broadcast to it. metrics_collections, updates_collections: where the
    two are put. TF: tf.metrics.accuracy.
    ValueError for shapes that do not fit.

        >>> value, update = tf.metrics.accuracy([1, 2, 3, 4], [1, 2, 0, 4])
        >>> with tf.Session() as sess:
        ...     sess.run(tf.local_variables_initializer())
        ...     sess.run(update)
        np.float32(0.75)
    """
    labels, predictions, weights = aligned(labels, predictions, weights)
    if labels.dtype != predictions.dtype:
        predictions = tensors.cast(predictions, labels.dtype)
    right = tensors.cast(logic_ops.Equal(predictions, labels), dtypes.float32)
    return mean(right, weights, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(labels, predictions, weights=None, metrics_collections=None,
                        updates_collections=None, name=None):
    """The mean of |predictions - labels|: (value, update_op).

    Numbers of one shape; weights broadcast to it. TF: tf.metrics.mean_absolute_error.
    ValueError for shapes that do not fit.
    """
    labels, predictions, weights = aligned(labels, predictions, weights)
    return mean(unary_ops.Abs(predictions - labels), weights, metrics_collections,
                updates_collections, name or "mean_absolute_error")


def mean_squared_error(labels, predictions, weights=None, metrics_collections=None,
                       updates_collections=None, name=None):
    """The mean of (predictions - labels)^2: (value, update_op).

    Numbers of one shape; weights broadcast to it. TF: tf.metrics.mean_squared_error.
    ValueError for shapes that do not fit.
    """
    labels, predictions, weights = aligned(labels, predictions, weights)
    return mean(binary_ops.SquaredDifference(labels, predictions), weights, metrics_collections,
                updates_collections, name or "mean_squared_error")


def root_mean_squared_error(labels, predictions, weights=None, metrics_collections=None,
                            updates_collections=None, name=None):
    """The root of the mean squared error: (value, update_op).

    Arguments as mean_squared_error's. TF: tf.metrics.root_mean_squared_error.
    Floats. ValueError for shapes that do not fit.
    """
    value, update = mean_squared_error(labels, predictions, weights, None, None,
                                       name or "root_mean_squared_error")
    with ops.control_dependencies(None):
        root = unary_ops.Sqrt(value)
    return collected(root, unary_ops.Sqrt(update), metrics_collections, updates_collections)


def mean_relative_error(labels, predictions, normalizer, weights=None, metrics_collections=None,
                        updates_collections=None, name=None):
    """The mean of |labels - predictions| / normalizer, 0 where that is 0: (value, update_op).

    Floats of one shape; weights broadcast to it. TF: tf.metrics.mean_relative_error.
    ValueError for shapes that do not fit.
    """
    labels, predictions, weights = aligned(labels, predictions, weights)
    predictions, normalizer = squeezed(predictions, normalizer)
    predictions.shape.assert_is_compatible_with(normalizer.shape)
    error = unary_ops.Abs(labels - predictions) / normalizer
    error = logic_ops.Select(logic_ops.Equal(normalizer, _zero(normalizer)),
                             tensors.zeros_like(labels), error)
    return mean(error, weights, metrics_collections, updates_collections,
                name or "mean_relative_error")


def mean_cosine_distance(labels, predictions, dim, weights=None, metrics_collections=None,
                         updates_collections=None, name=None):
    """1 - the mean inner product along `dim` of vectors of length one: (value, update_op).

    Floats of one shape; weights have 1 at `dim`. TF: tf.metrics.mean_cosine_distance.
    ValueError for shapes that do not fit.
    """
    labels, predictions, weights = aligned(labels, predictions, weights)
    product = reductions.reduce_sum(predictions * labels, [dim], keepdims=True)
    value, update = mean(product, weights, None, None, name or "mean_cosine_distance")
    with ops.control_dependencies(None):
        value = 1.0 - value
    return collected(value, 1.0 - update, metrics_collections, updates_collections)


def percentage_below(values, threshold, weights=None, metrics_collections=None,
                     updates_collections=None, name=None):
    """The share of values below `threshold`: (value, update_op).

    values: numbers of any shape; weights broadcast to it. TF: tf.metrics.percentage_below.
    ValueError for shapes that do not fit.
    """
    below = tensors.cast(logic_ops.Less(values, threshold), dtypes.float32)
    return mean(below, weights, metrics_collections, updates_collections,
                name or "percentage_below_threshold")


PUBLIC = {f"metrics.{function.__name__}": function for function in (
    mean, mean_tensor, accuracy, mean_absolute_error, mean_squared_error, root_mean_squared_error,
    mean_relative_error, mean_cosine_distance, percentage_below)}
