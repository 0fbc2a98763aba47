"""tf.contrib.metrics: tf.metrics' by their older names, with predictions before labels.

    accuracy, update = tf.contrib.metrics.streaming_accuracy(predictions, labels)

Functions only.  Thread: the one building the graph.  Source: TF 1.15 tf.contrib.metrics.
"""
import functools
import inspect
import re

from pyflow.framework import dtypes, graph as ops
from pyflow.lib.math import reductions
from pyflow.lib.metrics import counts, streaming, classes
from pyflow.ops.base import tensors

_METRICS = {**counts.PUBLIC, **streaming.PUBLIC, **classes.PUBLIC}
_SAME = {"streaming_mean": "mean", "streaming_mean_tensor": "mean_tensor",
         "streaming_percentage_less": "percentage_below"}
_SWAPPED = {f"streaming_{name}": name for name in (
    "accuracy", "auc", "false_negatives", "false_negatives_at_thresholds", "false_positives",
    "false_positives_at_thresholds", "mean_absolute_error", "mean_cosine_distance", "mean_iou",
    "mean_relative_error", "mean_squared_error", "precision", "precision_at_thresholds", "recall",
    "recall_at_thresholds", "root_mean_squared_error", "sensitivity_at_specificity",
    "specificity_at_sensitivity", "true_negatives", "true_negatives_at_thresholds",
    "true_positives", "true_positives_at_thresholds")}
_SWAPPED.update({"streaming_sparse_precision_at_k": "precision_at_k",
                 "streaming_sparse_recall_at_k": "recall_at_k",
                 "streaming_sparse_average_precision_at_k": "average_precision_at_k"})


def _swapped(name, function):
    """`function` with its first two arguments, labels and predictions, the other way round."""
    labels, predictions, *others = inspect.signature(function).parameters.values()

    @functools.wraps(function)
    def made(predictions, labels, *args, **kwargs):
        return function(labels, predictions, *args, **kwargs)
    made.__name__ = made.__qualname__ = name
    made.__signature__ = inspect.Signature([predictions, labels, *others])
    said = inspect.getdoc(function).split("\n\n    >>>")[0]
    made.__doc__ = (re.sub(r"\s*TF:\s+tf\.metrics\.\w+\.", "", said).rstrip() +
                    f"\n\ntf.metrics.{function.__name__} with predictions before labels.\n"
                    f"TF: tf.contrib.metrics.{name}.")
    return made


def accuracy(predictions, labels, weights=None, name=None):
    """The share of predictions that equal labels, of this batch alone: a scalar float32.

    predictions, labels: bools, integers or strings of one shape and dtype, else ValueError.
    weights: how much each counts. TF: tf.contrib.metrics.accuracy.

        >>> float(tf.Session().run(tf.contrib.metrics.accuracy(tf.constant([1, 2]), [1, 3])))
        0.5
    """
    with ops.name_scope(name, "accuracy", [predictions, labels]):
        predictions = ops.convert_to_tensor(predictions)
        labels = ops.convert_to_tensor(labels, predictions.dtype.base_dtype)
        if predictions.dtype.is_floating:
            raise ValueError("accuracy: predictions must be bools, integers or strings, got "
                             f"{predictions.dtype.name}")
        if not predictions.shape.is_compatible_with(labels.shape):
            raise ValueError(f"accuracy: shapes {predictions.shape} and {labels.shape} differ")
        right = tensors.cast(tensors.equal(predictions, labels), dtypes.float32)
        if weights is None:
            return reductions.reduce_mean(right)
        weights = tensors.cast(weights, dtypes.float32) * tensors.ones_like(right)
        return reductions.reduce_sum(right * weights) / reductions.reduce_sum(weights)


def aggregate_metrics(*value_update_tuples):
    """(list of values, list of updates) of pairs of tensors of any shapes and dtypes.
    ValueError without any.

    TF: tf.contrib.metrics.aggregate_metrics."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples):
    """({name: value}, {name: update}) of {name: (value, update)}.

    Tensors of any shapes and dtypes; TypeError for what is no pair.
    TF: tf.contrib.metrics.aggregate_metric_map."""
    return ({name: value for name, (value, _) in names_to_tuples.items()},
            {name: update for name, (_, update) in names_to_tuples.items()})


PUBLIC = {f"contrib.metrics.{f.__name__}": f
          for f in (accuracy, aggregate_metrics, aggregate_metric_map)}
PUBLIC.update({f"contrib.metrics.{name}": _METRICS[f"metrics.{of}"] for name, of in _SAME.items()})
PUBLIC.update({f"contrib.metrics.{name}": _swapped(name, _METRICS[f"metrics.{of}"])
               for name, of in _SWAPPED.items()})
