"""tf.estimator.add_metrics: an estimator that measures more.

Thread: one.  Source: TF 1.15 tf.estimator.add_metrics.
"""
from pyflow.estimator import input_results
from pyflow.estimator.estimators import Estimator
from pyflow.estimator.modes import ModeKeys

_ARGUMENTS = {"features", "predictions", "labels", "config"}


def add_metrics(estimator, metric_fn):
    """An Estimator of the same folder whose evaluation has the metrics of metric_fn, too.

    metric_fn(labels, predictions, features, config): of which it takes what it wants; returns
    {name: (value, update_op)}. ValueError for other arguments. TF: tf.estimator.add_metrics."""
    wanted = input_results.arguments_of(metric_fn)
    strange = sorted(set(wanted) - _ARGUMENTS)
    if strange:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: {strange}")

    def model_fn(features, labels, mode, config):
        spec = estimator._call_model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        there = {"features": features, "predictions": spec.predictions, "labels": labels,
                 "config": config}
        more = metric_fn(**{name: there[name] for name in wanted})
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **(more or {})})
    return Estimator(model_fn, estimator.model_dir, estimator.config)


PUBLIC = {"estimator.add_metrics": add_metrics, "contrib.estimator.add_metrics": add_metrics}
