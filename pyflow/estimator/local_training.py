"""tf.estimator.train_and_evaluate: training with evaluations and exports at its checkpoints.

    train -> checkpoint -> [throttle_secs since the last] evaluate -> exporters -> train ...
          `-> end: evaluate the last checkpoint, exporters for the last time

Invariant: a checkpoint is evaluated once at most; the last one always.

Thread: one.  Source: TF 1.15 tf.estimator.train_and_evaluate; cluster_training.py is for tasks of a
cluster.

    tf.estimator.train_and_evaluate(estimator, tf.estimator.TrainSpec(train_fn, max_steps=1000),
                                    tf.estimator.EvalSpec(eval_fn))
"""
import collections
import os

import pyflow as tf
from pyflow.estimator import cluster_roles, cluster_training, estimators
from pyflow.estimator import exporters as exporter_lib


def _check_callable(input_fn):
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn}")


def _checked(items, kind, what):
    items = tuple(items or ())
    for item in items:
        if not isinstance(item, kind):
            raise TypeError(f"All {what} must be `{kind.__name__}` instances, given: {item}")
    return items


class TrainSpec(collections.namedtuple("TrainSpec", "input_fn max_steps hooks saving_listeners")):
    """What to train with.

    input_fn: as Estimator.train's. max_steps: the global step to stop at; None: until the input
    ends. hooks, saving_listeners: for the training. ValueError, TypeError for others.
    TF: tf.estimator.TrainSpec."""

    __slots__ = ()

    def __new__(cls, input_fn, max_steps=None, hooks=None, saving_listeners=None):
        _check_callable(input_fn)
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        return super().__new__(
            cls, input_fn, max_steps, _checked(hooks, tf.train.SessionRunHook, "hooks"),
            _checked(saving_listeners, tf.train.CheckpointSaverListener, "saving_listeners"))


class EvalSpec(collections.namedtuple(
        "EvalSpec",
        "input_fn steps name hooks exporters start_delay_secs throttle_secs")):
    """What to evaluate with.

    input_fn, steps (100), name, hooks: as Estimator.evaluate's. exporters: an Exporter or several
    of different names. throttle_secs (600): at least between two evaluations.
    start_delay_secs (120): before an evaluator of a cluster begins. ValueError, TypeError for others.
    TF: tf.estimator.EvalSpec.

        >>> tf.estimator.EvalSpec(lambda: None, steps=5).throttle_secs
        600
    """

    __slots__ = ()

    def __new__(cls, input_fn, steps=100, name=None, hooks=None, exporters=None,
                start_delay_secs=120, throttle_secs=600):
        _check_callable(input_fn)
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name}")
        if start_delay_secs < 0:
            raise ValueError(f"Must specify start_delay_secs >= 0, given: {start_delay_secs}")
        if throttle_secs < 0:
            raise ValueError(f"Must specify throttle_secs >= 0, given: {throttle_secs}")
        return super().__new__(
            cls, input_fn, steps, name, _checked(hooks, tf.train.SessionRunHook, "hooks"),
            _checked_exporters(exporters), start_delay_secs, throttle_secs)


def _checked_exporters(exporters):
    if not exporters:
        return ()
    if isinstance(exporters, exporter_lib.Exporter):
        exporters = [exporters]
    try:
        exporters = tuple(exporters)
    except TypeError:
        exporters = (exporters,)
    if not all(isinstance(item, exporter_lib.Exporter) for item in exporters):
        raise TypeError("`exporters` must be an Exporter, an iterable of Exporter, or `None`, "
                        f"found {exporters}.")
    names = [item.name for item in exporters]
    if len(set(names)) < len(names) or not all(names):
        raise ValueError("`exporters` must have unique names. Such a name cannot be `None`. All "
                         f"exporter names: {names}")
    return exporters


class Evaluator:
    """Evaluates each checkpoint once. metrics, exported: of the last."""

    def __init__(self, estimator, eval_spec, max_steps):
        self._estimator, self._spec, self._max_steps = estimator, eval_spec, max_steps
        self._seen, self.metrics, self.exported = None, None, []

    def evaluate(self):
        path = self._estimator.latest_checkpoint()
        if path is None or path == self._seen:
            return
        self._seen, spec = path, self._spec
        self.metrics = self._estimator.evaluate(
            spec.input_fn, steps=spec.steps, hooks=spec.hooks, checkpoint_path=path,
            name=spec.name)
        step = self.metrics[tf.GraphKeys.GLOBAL_STEP]
        last = self._max_steps is not None and step >= self._max_steps
        self.exported = [exporter.export(
            estimator=self._estimator, checkpoint_path=path, eval_result=self.metrics,
            export_path=os.path.join(self._estimator.model_dir, "export", exporter.name),
            is_the_final_export=last) for exporter in spec.exporters]


def train_and_evaluate(estimator, train_spec, eval_spec):
    """Trains, and evaluates and exports at checkpoints; returns (the last metrics, the exporters'
    last results), or (None, []) if nothing was evaluated.

    In a cluster (TF_CONFIG) it does this task's part: a parameter server serves until the job is
    over, chief and workers train between-graph, asynchronously unless model_fn's optimizer says
    otherwise, with variables on the parameter servers; an evaluator evaluates the chief's
    checkpoints until max_steps. A master does what chief and evaluator do.

    TypeError for other kinds, ValueError for an evaluator beside the first. TF:
    tf.estimator.train_and_evaluate."""
    if not isinstance(estimator, estimators.Estimator):
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: "
                        f"{type(estimator)}")
    if not isinstance(train_spec, TrainSpec):
        raise TypeError(f"`train_spec` must have type `tf.estimator.TrainSpec`. Got: "
                        f"{type(train_spec)}")
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError("`eval_spec` must be either `None` or have type `tf.estimator.EvalSpec`. "
                        f"Got: {type(eval_spec)}")
    evaluator = Evaluator(estimator, eval_spec, train_spec.max_steps)
    if estimator.config.cluster_spec or estimator.config.task_type == cluster_roles.EVALUATOR:
        cluster_training.run(estimator, train_spec, eval_spec, evaluator)
        return evaluator.metrics, evaluator.exported
    listener = cluster_training.EvaluateAtCheckpoints(evaluator, eval_spec.throttle_secs)
    estimator.train(train_spec.input_fn, hooks=train_spec.hooks, max_steps=train_spec.max_steps,
                    saving_listeners=[*train_spec.saving_listeners, listener])
    return evaluator.metrics, evaluator.exported


PUBLIC = {f"estimator.{made.__name__}": made for made in (
    TrainSpec, EvalSpec, train_and_evaluate)}
