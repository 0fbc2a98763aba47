"""Metrics of yes or no: counts of right and wrong answers, precision, recall, areas under curves.

Invariants: those of streaming.py.  Four kinds of answers are told by two letters: tp (true
positive), fn, tn, fp.  A threshold t says yes to predictions > t.

Thread: the one building the graph.  Source: TF 1.15 tf.metrics; Davis and Goadrich 2006 for the
area under precision and recall.

Example:  `auc, update = tf.metrics.auc(labels, probabilities, num_thresholds=500)`.
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.lib.control_flow import check_functions
from pyflow.lib.math import binary_functions, reductions
from pyflow.lib.metrics import streaming
from pyflow.lib.metrics.streaming import collected, metric, metric_variable
from pyflow.lib.variables import state_functions, variable_scope
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, logic_ops, unary_ops

_NAMES = {"tp": "true_positives", "fn": "false_negatives", "tn": "true_negatives",
          "fp": "false_positives"}
_EDGE = 1e-7                            # beyond 0 and 1, so that the outer thresholds take all
_SMALL = 1e-6


# -------------------------------------------------------------------------------------- one count
def _count_of(kind):
    label_says, answer_says = kind[1] == "p" if kind[0] == "t" else kind[1] == "n", kind[1] == "p"
    name = _NAMES[kind]

    def count(labels, predictions, weights=None, metrics_collections=None,
              updates_collections=None, name=None):
        with variable_scope.variable_scope(name, _NAMES[kind], (predictions, labels, weights)):
            labels, predictions, weights = streaming.aligned(
                tensors.cast(labels, dtypes.bool), tensors.cast(predictions, dtypes.bool), weights)
            hits = logic_ops.LogicalAnd(_is(labels, label_says), _is(predictions, answer_says))
            return _counted(hits, weights, metrics_collections, updates_collections)

    count.__name__ = count.__qualname__ = name
    count.__doc__ = (
        f"How many {name.replace('_', ' ')} there were: (value, update_op), float32 scalars.\n\n"
        "    labels, predictions: of one shape (ValueError else), taken as bool. weights: broadcast to\n"
        "    it.\n"
        f"    TF: tf.metrics.{name}.")
    return count


def _is(values, wanted):
    return values if wanted else logic_ops.LogicalNot(values)


def _counted(hits, weights, value_collections, update_collections):
    count = metric_variable([], dtypes.float32, "count")
    values = tensors.cast(hits, dtypes.float32)
    if weights is not None:
        with ops.control_dependencies([check_functions.assert_rank_in(
                weights, (0, tensors.rank(values)))]):
            values = values * tensors.cast(weights, dtypes.float32)
    update = state_functions.assign_add(count, reductions.reduce_sum(values))
    with ops.control_dependencies(None):
        value = count.read_value()
    return collected(value, update, value_collections, update_collections)


true_positives, false_negatives, true_negatives, false_positives = map(_count_of, _NAMES)


def _share(default, other, labels, predictions, weights, value_collections, update_collections,
           name):
    """tp / (tp + other), 0 where there was nothing."""
    with variable_scope.variable_scope(name, default, (predictions, labels, weights)):
        labels, predictions, weights = streaming.aligned(
            tensors.cast(labels, dtypes.bool), tensors.cast(predictions, dtypes.bool), weights)
        counts = [function(labels, predictions, weights) for function in
                  (true_positives, {"fp": false_positives, "fn": false_negatives}[other])]
        values, updates = zip(*counts)

        def share(pair, name):
            return logic_ops.Select(
                logic_ops.Greater(pair[0] + pair[1], 0.0),
                binary_functions.divide(pair[0], pair[0] + pair[1]), tensors.zeros_like(pair[0]),
                name=name)
        return metric(share, values, updates, value_collections, update_collections)


def precision(labels, predictions, weights=None, metrics_collections=None,
              updates_collections=None, name=None):
    """The share of positive answers that are right: (value, update_op), float32 scalars.

    labels, predictions: of one shape, taken as bool. weights: broadcast to it.
    TF: tf.metrics.precision.
    ValueError for shapes that do not fit.
    """
    return _share("precision", "fp", labels, predictions, weights, metrics_collections,
                  updates_collections, name)


def recall(labels, predictions, weights=None, metrics_collections=None, updates_collections=None,
           name=None):
    """The share of positive labels that were found: (value, update_op), float32 scalars.

    labels, predictions: of one shape, taken as bool. weights: broadcast to it.
    TF: tf.metrics.recall.
    ValueError for shapes that do not fit.
    """
    return _share("recall", "fn", labels, predictions, weights, metrics_collections,
                  updates_collections, name)


# ---------------------------------------------------------------------------------- at thresholds
def _at_thresholds(labels, predictions, thresholds, weights, kinds=("tp", "fn", "tn", "fp")):
    """({kind: variable}, {kind: update}), each a vector with an entry per threshold."""
    predictions = ops.convert_to_tensor(predictions)
    inside = [check(predictions, tensors.cast(bound, predictions.dtype),
                    message="predictions must be in [0, 1]")
              for check, bound in ((check_functions.assert_greater_equal, 0.0),
                                   (check_functions.assert_less_equal, 1.0))]
    with ops.control_dependencies(inside):
        labels, predictions, weights = streaming.aligned(
            tensors.cast(labels, dtypes.bool), tensors.cast(predictions, dtypes.float32), weights)
    above = logic_ops.Greater(tensors.reshape(predictions, [1, -1]),
                                tensors.reshape(ops.convert_to_tensor(
                                    thresholds, dtypes.float32), [-1, 1]))
    positive = tensors.reshape(labels, [1, -1])
    if weights is not None:
        weights = tensors.reshape(streaming.spread(weights, predictions), [1, -1])
    values, updates = {}, {}
    for kind in kinds:
        says_yes = kind[1] == "p"
        label = positive if says_yes == (kind[0] == "t") else logic_ops.LogicalNot(positive)
        hits = tensors.cast(logic_ops.LogicalAnd(label, _is(above, says_yes)), dtypes.float32)
        values[kind] = metric_variable([len(thresholds)], dtypes.float32, _NAMES[kind])
        updates[kind] = state_functions.assign_add(
            values[kind], reductions.reduce_sum(hits if weights is None else hits * weights, 1))
    return values, updates


def _counts_at_thresholds(kind):
    name = f"{_NAMES[kind]}_at_thresholds"

    def counts(labels, predictions, thresholds, weights=None, metrics_collections=None,
               updates_collections=None, name=None):
        with variable_scope.variable_scope(name, _NAMES[kind], (predictions, labels, weights)):
            values, updates = _at_thresholds(labels, predictions, thresholds, weights, (kind,))
            with ops.control_dependencies(None):
                value = values[kind].read_value()
            return collected(value, updates[kind], metrics_collections, updates_collections)

    counts.__name__ = counts.__qualname__ = name
    counts.__doc__ = (
        f"How many {_NAMES[kind].replace('_', ' ')} there were at each threshold.\n\n"
        "    labels: taken as bool; predictions: floats in [0, 1] of the same shape; thresholds: a\n"
        "    list of floats. weights: broadcast to the predictions. ValueError for shapes that do not\n"
        "    fit. Returns (values, update_op),\n"
        f"    float32 [len(thresholds)]. TF: tf.metrics.{name}.")
    return counts


true_positives_at_thresholds, false_negatives_at_thresholds, true_negatives_at_thresholds, \
    false_positives_at_thresholds = map(_counts_at_thresholds, _NAMES)


def _shares_at_thresholds(default, other, labels, predictions, thresholds, weights,
                          value_collections, update_collections, name):
    with variable_scope.variable_scope(name, default, (predictions, labels, weights)):
        values, updates = _at_thresholds(labels, predictions, thresholds, weights, ("tp", other))

        def share(counts, name):
            total = counts["tp"] + counts[other]
            return binary_functions.divide(
                ops.convert_to_tensor(counts["tp"]), total + _EDGE,
                name=f"{default.split('_')[0]}_{name}")
        return metric(share, values, updates, value_collections, update_collections)


def precision_at_thresholds(labels, predictions, thresholds, weights=None,
                            metrics_collections=None, updates_collections=None, name=None):
    """The precision at each threshold: (values, update_op), float32 [len(thresholds)].

    labels: taken as bool; predictions: floats in [0, 1] of that shape; weights broadcast to it.
    TF: tf.metrics.precision_at_thresholds.
    ValueError for shapes that do not fit.
    """
    return _shares_at_thresholds("precision_at_thresholds", "fp", labels, predictions, thresholds,
                                 weights, metrics_collections, updates_collections, name)


def recall_at_thresholds(labels, predictions, thresholds, weights=None, metrics_collections=None,
                         updates_collections=None, name=None):
    """The recall at each threshold: (values, update_op), float32 [len(thresholds)].

    labels: taken as bool; predictions: floats in [0, 1] of that shape; weights broadcast to it.
    TF: tf.metrics.recall_at_thresholds.
    ValueError for shapes that do not fit.
    """
    return _shares_at_thresholds("recall_at_thresholds", "fn", labels, predictions, thresholds,
                                 weights, metrics_collections, updates_collections, name)


# ------------------------------------------------------------------------------------------ curves
def _even_thresholds(number, last=1.0 + _EDGE):
    inner = [(i + 1) * 1.0 / (number - 1) for i in range(number - 2)]
    return [0.0 - _EDGE, *inner, last]


def auc(labels, predictions, weights=None, num_thresholds=200, metrics_collections=None,
        updates_collections=None, curve="ROC", name=None, summation_method="trapezoidal",
        thresholds=None):
    """The area under the ROC or the precision-recall curve: (value, update_op), float32 scalars.

    labels: taken as bool; predictions: floats in [0, 1] of that shape; weights broadcast to it.
    num_thresholds: how many points the curve has, evenly in [0, 1], or `thresholds`: which.
    curve: "ROC" or "PR". summation_method: "trapezoidal", "minoring", "majoring", or
    "careful_interpolation" (the one for "PR"). ValueError for others. TF: tf.metrics.auc.

        >>> value, update = tf.metrics.auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
        >>> with tf.Session() as sess:
        ...     sess.run(tf.local_variables_initializer())
        ...     print(f"{sess.run(update):.3f}")
        0.750
    """
    with variable_scope.variable_scope(name, "auc", (labels, predictions, weights)):
        if curve not in ("ROC", "PR"):
            raise ValueError(f"curve must be either ROC or PR. Curve {curve} is unknown.")
        if summation_method not in _SUMS and summation_method != "careful_interpolation":
            raise ValueError(f"Invalid summation_method: {summation_method} summation_method "
                             f"should be careful_interpolation, {', '.join(_SUMS)}.")
        if thresholds is not None:
            thresholds = [0.0 - _EDGE, *sorted(thresholds), 1.0 + _EDGE]
        else:
            thresholds = _even_thresholds(num_thresholds)
        values, updates = _at_thresholds(labels, predictions, thresholds, weights)

        def area(counts, name):
            tp, fn, tn, fp = (ops.convert_to_tensor(counts[kind]) for kind in _NAMES)
            if curve == "PR" and summation_method == "careful_interpolation":
                return _interpolated(tp, fp, fn)
            found = (tp + _SMALL) / (tp + fn + _SMALL)
            if curve == "ROC":
                x, y = fp / (fp + tn + _SMALL), found
            else:
                x, y = found, (tp + _SMALL) / (tp + fp + _SMALL)
            heights = _SUMS.get(summation_method, _SUMS["trapezoidal"])(y[:-1], y[1:])
            return reductions.reduce_sum((x[:-1] - x[1:]) * heights, name=name)
        return metric(area, values, updates, metrics_collections, updates_collections)


_SUMS = {"trapezoidal": lambda a, b: (a + b) / 2.0, "minoring": binary_ops.Minimum,
         "majoring": binary_ops.Maximum}


def _interpolated(tp, fp, fn):
    """The area under precision and recall, both linear in the weight of positive answers between
    two thresholds: within one, precision is (tp + slope * (p - p0)) / p, whose integral has a
    logarithm."""
    def positive(x):
        return binary_ops.Maximum(x, 0.0)
    divide = binary_functions.div_no_nan
    gained, p = tp[:-1] - tp[1:], tp + fp
    slope = divide(gained, positive(p[:-1] - p[1:]))
    offset = tp[1:] - slope * p[1:]
    both = logic_ops.LogicalAnd(logic_ops.Greater(p[:-1], 0.0), logic_ops.Greater(p[1:], 0.0))
    steps = logic_ops.Select(both, divide(p[:-1], positive(p[1:])), tensors.ones_like(p[1:]))
    parts = divide(slope * (gained + offset * unary_ops.Log(steps)), positive(tp[1:] + fn[1:]))
    return reductions.reduce_sum(parts, name="interpolate_pr_auc")


def sensitivity_at_specificity(labels, predictions, specificity, weights=None, num_thresholds=200,
                               metrics_collections=None, updates_collections=None, name=None):
    """The sensitivity tp / (tp + fn) at the threshold whose specificity is nearest.

    labels: taken as bool; predictions: floats in [0, 1]; specificity: in [0, 1] (ValueError).
    Returns (value, update_op). TF: tf.metrics.sensitivity_at_specificity."""
    if not 0 <= specificity <= 1:
        raise ValueError("`specificity` must be in the range [0, 1]. Currently, `specificity` got "
                         f"{specificity}.")
    with variable_scope.variable_scope(name, "sensitivity_at_specificity",
                                       (predictions, labels, weights)):
        values, updates = _at_thresholds(labels, predictions, _even_thresholds(num_thresholds),
                                         weights)

        def sensitivity(counts, name):
            tp, fn, tn, fp = (ops.convert_to_tensor(counts[kind]) for kind in _NAMES)
            distance = unary_ops.Abs(tn / (tn + fp + _EDGE) - specificity)
            at = tensors.cast(reductions.argmin(distance, 0), dtypes.int32)
            return binary_functions.divide(tp[at], tp[at] + fn[at] + _EDGE, name=name)
        return metric(sensitivity, values, updates, metrics_collections, updates_collections)


def specificity_at_sensitivity(labels, predictions, sensitivity, weights=None, num_thresholds=200,
                               metrics_collections=None, updates_collections=None, name=None):
    """The specificity tn / (tn + fp) at the last threshold whose sensitivity is nearest.

    labels: taken as bool; predictions: floats in [0, 1]; sensitivity: in [0, 1] (ValueError).
    Returns (value, update_op). TF: tf.metrics.specificity_at_sensitivity."""
    if not 0 <= sensitivity <= 1:
        raise ValueError("`sensitivity` must be in the range [0, 1]. Currently, `sensitivity` is "
                         f"{sensitivity}.")
    with variable_scope.variable_scope(name, "specificity_at_sensitivity",
                                       (predictions, labels, weights)):
        thresholds = _even_thresholds(num_thresholds, 1.0 - _EDGE)
        values, updates = _at_thresholds(labels, predictions, thresholds, weights)

        def specificity(counts, name):
            tp, fn, tn, fp = (ops.convert_to_tensor(counts[kind]) for kind in _NAMES)
            distance = unary_ops.Abs(tp / (tp + fn + _EDGE) - sensitivity)
            nearest = logic_ops.Equal(distance, reductions.reduce_min(distance))
            seen = reductions.cumsum(tensors.cast(nearest, dtypes.int64))
            at = tensors.cast(reductions.argmax(seen, 0), dtypes.int32)
            return binary_functions.divide(tn[at], tn[at] + fp[at] + _EDGE, name=name)
        return metric(specificity, values, updates, metrics_collections, updates_collections)


PUBLIC = {f"metrics.{function.__name__}": function for function in (
    true_positives, false_negatives, true_negatives, false_positives, precision, recall,
    true_positives_at_thresholds, false_negatives_at_thresholds, true_negatives_at_thresholds,
    false_positives_at_thresholds, precision_at_thresholds, recall_at_thresholds, auc,
    sensitivity_at_specificity, specificity_at_sensitivity)}
