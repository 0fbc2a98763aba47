"""tf.estimator.experimental: hooks that end a training by what evaluations said.

    evaluations -> event files of eval_dir -> {step: {metric: value}} -> stop or go on

Invariant: a hook looks at files, so evaluations may come from anywhere, other processes included.

Thread: the one that trains.  Source: TF 1.15 tf.estimator.experimental early stopping.

    hook = tf.estimator.experimental.stop_if_no_decrease_hook(estimator, "loss", 1000)
    estimator.train(input_fn, hooks=[hook])
"""
import glob
import logging
import operator
import os

import pyflow as tf
from pyflow.estimator.estimators import Estimator
from pyflow.lib.summary.file_writer import summary_iterator

_log = logging.getLogger("tensorflow")


def read_eval_metrics(eval_dir):
    """{global step: {metric: value}} of the event files of a folder, sorted.
    TF: tf.estimator.experimental's read_eval_metrics."""
    found = {}
    for path in sorted(glob.glob(os.path.join(eval_dir, "*tfevents*"))):
        for event in summary_iterator(path):
            values = {value.tag: value.simple_value for value in event.summary.value
                      if value.HasField("simple_value")}
            if values:
                found.setdefault(event.step, {}).update(values)
    return dict(sorted(found.items()))


class _StopWhen(tf.train.SessionRunHook):
    """Asks should_stop_fn every so often."""

    def __init__(self, should_stop_fn, every_secs, every_steps):
        self._should_stop = should_stop_fn
        self._timer = tf.train.SecondOrStepTimer(every_secs, every_steps)

    def begin(self):
        self._timer.reset()
        self._step = tf.train.get_global_step()

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        step = run_values.results
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._should_stop():
                _log.info("Requesting early stopping at global step %d", step)
                run_context.request_stop()


def make_early_stopping_hook(estimator, should_stop_fn, run_every_secs=60, run_every_steps=None):
    """A hook that stops the training when should_stop_fn() is true, asked every run_every_secs
    seconds or run_every_steps steps.

    TypeError for another estimator, ValueError for both times.
    TF: tf.estimator.experimental.make_early_stopping_hook."""
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `tf.estimator.Estimator`. Got: "
                        f"{type(estimator)}")
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError("Only one of `run_every_secs` and `run_every_steps` must be set.")
    return _StopWhen(should_stop_fn, run_every_secs, run_every_steps)


def _threshold(higher, name):
    beats = operator.gt if higher else operator.lt

    def hook(estimator, metric_name, threshold, eval_dir=None, min_steps=0, run_every_secs=60,
             run_every_steps=None):
        folder = eval_dir or estimator.eval_dir()

        def should_stop():
            return any(beats(metrics[metric_name], threshold)
                       for step, metrics in read_eval_metrics(folder).items()
                       if step >= min_steps and metric_name in metrics)
        return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)
    hook.__name__ = hook.__qualname__ = name
    how = "higher" if higher else "lower"
    hook.__doc__ = (f"A hook that stops when an evaluation's metric_name is {how} "
                    "than threshold, min_steps at the earliest.\n"
                    "\n    eval_dir: default the estimator's. The rest as "
                    "make_early_stopping_hook's.\n"
                    f"    TF: tf.estimator.experimental.{name}.")
    return hook


def stop_if_no_increase_hook(estimator, metric_name, max_steps_without_increase, eval_dir=None,
                             min_steps=0, run_every_secs=60, run_every_steps=None):
    """A hook that stops when metric_name has not increased for that many steps of evaluations.

    eval_dir: default the estimator's. min_steps: evaluations before do not count. The rest as
    make_early_stopping_hook's. TF: tf.estimator.experimental.stop_if_no_increase_hook."""
    return _stagnation(True, estimator, metric_name, max_steps_without_increase, eval_dir,
                       min_steps, run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(estimator, metric_name, max_steps_without_decrease, eval_dir=None,
                             min_steps=0, run_every_secs=60, run_every_steps=None):
    """A hook that stops when metric_name has not decreased for that many steps of evaluations.

    eval_dir: default the estimator's. min_steps: evaluations before do not count. The rest as
    make_early_stopping_hook's. TF: tf.estimator.experimental.stop_if_no_decrease_hook."""
    return _stagnation(False, estimator, metric_name, max_steps_without_decrease, eval_dir,
                       min_steps, run_every_secs, run_every_steps)


def _stagnation(higher, estimator, metric_name, max_steps, eval_dir, min_steps, run_every_secs,
                run_every_steps):
    beats = operator.gt if higher else operator.lt
    folder = eval_dir or estimator.eval_dir()

    def should_stop():
        best = best_step = None
        for step, metrics in read_eval_metrics(folder).items():
            if step < min_steps or metric_name not in metrics:
                continue
            value = metrics[metric_name]
            if best is None or beats(value, best):
                best, best_step = value, step
            if step - best_step >= max_steps:
                _log.info("No %s in metric %r for %d steps, which is greater than or equal to "
                          "max steps (%d) configured for early stopping.",
                          "increase" if higher else "decrease", metric_name, step - best_step,
                          max_steps)
                return True
        return False
    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


stop_if_higher_hook = _threshold(True, "stop_if_higher_hook")
stop_if_lower_hook = _threshold(False, "stop_if_lower_hook")

_HOOKS = {"make_early_stopping_hook": make_early_stopping_hook,
          "stop_if_higher_hook": stop_if_higher_hook, "stop_if_lower_hook": stop_if_lower_hook,
          "stop_if_no_increase_hook": stop_if_no_increase_hook,
          "stop_if_no_decrease_hook": stop_if_no_decrease_hook}
PUBLIC = {f"{place}.{name}": hook for name, hook in _HOOKS.items()
          for place in ("estimator.experimental", "contrib.estimator")}
