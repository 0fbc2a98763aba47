"""EstimatorSpec: what a model function gives.

Invariants
    1. All it holds is checked when it is made: kinds, the graph, what its mode needs.
    2. Tensors and operations are of the default graph of that moment.

Thread: the one building the graph.  Source: TF 1.15 tf.estimator.EstimatorSpec.

    def model_fn(features, labels, mode):
        ...
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
"""
import collections

import pyflow as tf
from pyflow.estimator import outputs
from pyflow.estimator.modes import ModeKeys

LOSS_METRIC_KEY = "loss"
AVERAGE_LOSS_METRIC_KEY = "average_loss"
_FIELDS = ("mode predictions loss train_op eval_metric_ops export_outputs training_chief_hooks "
           "training_hooks scaffold evaluation_hooks prediction_hooks")


class EstimatorSpec(collections.namedtuple("EstimatorSpec", _FIELDS)):
    """What a model function returns.

    mode: a ModeKeys. predictions: a tensor or {name: tensor}, needed to predict. loss: a scalar,
    needed to train and evaluate. train_op: a tensor or operation, needed to train.
    eval_metric_ops: {name: (value, update_op)} as tf.metrics gives. export_outputs: {name:
    ExportOutput}; default one PredictOutput of the predictions. training_chief_hooks,
    training_hooks, evaluation_hooks, prediction_hooks: SessionRunHooks. scaffold: a
    tf.train.Scaffold. ValueError for what is missing or of another graph, TypeError for other
    kinds. TF: tf.estimator.EstimatorSpec.

        >>> x = tf.constant([[1.0], [2.0]])
        >>> spec = tf.estimator.EstimatorSpec("infer", predictions={"x": x})
        >>> sorted(spec.export_outputs)
        ['serving_default']
    """

    __slots__ = ()

    def __new__(cls, mode, predictions=None, loss=None, train_op=None, eval_metric_ops=None,
                export_outputs=None, training_chief_hooks=None, training_hooks=None, scaffold=None,
                evaluation_hooks=None, prediction_hooks=None):
        train_op = _train_op(train_op, mode)
        loss = _loss(loss, mode)
        predictions = _predictions(predictions, mode)
        if mode == ModeKeys.PREDICT:
            export_outputs = outputs.checked_outputs(export_outputs, predictions)
        hooks = [tuple(given or ()) for given in (
            training_hooks, evaluation_hooks, prediction_hooks, training_chief_hooks)]
        for hook in sum(hooks, ()):
            if not isinstance(hook, tf.train.SessionRunHook):
                raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook}")
        scaffold = scaffold or tf.train.Scaffold()
        if not isinstance(scaffold, tf.train.Scaffold):
            raise TypeError(f"scaffold must be tf.train.Scaffold. Given: {scaffold}")
        return super().__new__(
            cls, mode=mode, predictions=predictions, loss=loss, train_op=train_op,
            eval_metric_ops=_metrics(eval_metric_ops), export_outputs=export_outputs,
            training_chief_hooks=hooks[3], training_hooks=hooks[0], scaffold=scaffold,
            evaluation_hooks=hooks[1], prediction_hooks=hooks[2])

    def _replace(self, **kwds):
        """A new, checked spec with some fields changed; ValueError for another mode."""
        if "mode" in kwds and kwds["mode"] != self.mode:
            raise ValueError("mode of EstimatorSpec cannot be changed.")
        return EstimatorSpec(**{**self._asdict(), **kwds})


def _here(item, what, name=None):
    """ValueError unless `item` is of the default graph."""
    if item.graph is not tf.get_default_graph():
        raise ValueError(
            f'{what} with "{name or item.name}" must be from the default graph. Possible causes of '
            f"this error include: \n\n1) {what} was created outside the context of the default "
            "graph.\n\n2) The object passed through to EstimatorSpec was not created in the most "
            'recent call to "model_fn".')


def _tensor(x, name):
    if isinstance(x, tf.Variable):
        return tf.convert_to_tensor(x)
    if not isinstance(x, tf.Tensor):
        raise TypeError(f"{name} must be Tensor, given: {x}")
    return x


def _train_op(train_op, mode):
    if train_op is None:
        if mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        return None
    if not isinstance(train_op, (tf.Tensor, tf.Operation, tf.Variable)):
        raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
    if isinstance(train_op, tf.Variable):
        train_op = train_op.op
    _here(train_op, "train_op")
    return train_op


def _loss(loss, mode):
    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss.")
        return None
    loss = _tensor(loss, "loss")
    shape = loss.get_shape()
    if shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {loss}")
    _here(loss, "loss")
    return loss if shape.is_compatible_with([]) else tf.reshape(loss, [])


def _predictions(predictions, mode):
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions.")
        return {}
    if not isinstance(predictions, dict):
        predictions = _tensor(predictions, "predictions")
        _here(predictions, "prediction values")
        return predictions
    found = {key: _tensor(value, f"predictions[{key}]") for key, value in predictions.items()}
    for key, value in found.items():
        _here(value, "prediction values", f"{key}: {value.name}")
    return found


def _metrics(eval_metric_ops):
    if eval_metric_ops is None:
        return {}
    if not isinstance(eval_metric_ops, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {eval_metric_ops}")
    for key, value in eval_metric_ops.items():
        if not isinstance(value, tuple) or len(value) != 2:
            raise TypeError("Values of eval_metric_ops must be (metric_value, update_op) tuples, "
                            f"given: {value} for key: {key}")
        for item in value:
            if not isinstance(item, (tf.Tensor, tf.Operation, tf.Variable)):
                raise TypeError(f"eval_metric_ops[{key}] must be Operation or Tensor, given: "
                                f"{item}")
            _here(item, "eval_metric_ops", f"{key}: {item.name}")
    return dict(eval_metric_ops)


PUBLIC = {"estimator.EstimatorSpec": EstimatorSpec}
