"""The hooks of monitored sessions: logging, stopping, saving, counting, profiling.

Invariants
  1. Timers fire by the global step's value, or by the clock; the first look always fires.
  2. A checkpoint is written when the session is new, when its timer fires, and at the end.

Thread: the one that runs the session.  Source: TF 1.15 basic_session_run_hooks.

Example:  `hooks=[tf.train.StopAtStepHook(last_step=1000), tf.train.NanTensorHook(loss)]`
"""
import logging
import os
import time

import numpy as np

from pyflow import progress, timeline
from pyflow.framework import errors, graph as ops, protos
from pyflow.framework.graph import GraphKeys
from pyflow.lib.files import remote
from pyflow.lib.summary.file_writer import FileWriterCache
from pyflow.train import meta_graph, random_streams, training_util
from pyflow.train.session_run_hook import SessionRunArgs, SessionRunHook

_log = logging.getLogger("tensorflow")


# ------------------------------------------------------------------------------------------- timers
class SecondOrStepTimer:
    """Fires every `every_secs` seconds or every `every_steps` steps: give one (ValueError).
    TF: tf.train.SecondOrStepTimer."""

    def __init__(self, every_secs=None, every_steps=None):
        if every_secs is None and every_steps is None:
            raise ValueError("Either every_secs or every_steps should be provided.")
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can not provide both every_secs and every_steps.")
        self._every_secs, self._every_steps = every_secs, every_steps
        self.reset()

    def __repr__(self):
        every = f"{self._every_secs} s" if self._every_secs is not None else \
            f"{self._every_steps} steps"
        return f"<tf.train.SecondOrStepTimer every {every}, last {self._last_triggered_step}>"

    def reset(self):
        """Forgets the last time: the next look fires."""
        self._last_triggered_step = self._last_triggered_time = None

    def should_trigger_for_step(self, step):
        """Whether it is time; once per step."""
        if self._last_triggered_step is None:
            return True
        if step == self._last_triggered_step:
            return False
        if self._every_secs is not None:
            return time.time() >= self._last_triggered_time + self._every_secs
        return step >= self._last_triggered_step + self._every_steps

    def update_last_triggered_step(self, step):
        """It fired now; returns (seconds, steps) since it did before, None for the first time."""
        now, before = time.time(), (self._last_triggered_time, self._last_triggered_step)
        self._last_triggered_time, self._last_triggered_step = now, step
        if before[0] is None:
            return None, None
        return now - before[0], step - before[1]

    def last_triggered_step(self):
        """The step at which it fired last, or None."""
        return self._last_triggered_step


class _Never:
    def reset(self):
        pass

    def should_trigger_for_step(self, step):
        return False

    def update_last_triggered_step(self, step):
        return None, None

    def last_triggered_step(self):
        return None


def _global_step(who):
    found = training_util.get_global_step()
    if found is None:
        raise RuntimeError(f"Global step should be created to use {who}.")
    return found


def _element(obj):
    """A tensor or operation of the default graph, by itself or by name."""
    graph = ops.get_default_graph()
    if not isinstance(obj, str):
        if getattr(obj, "graph", None) is not graph:
            raise ValueError(f"Passed {obj} should have graph attribute that is equal to current "
                             f"graph {graph}.")
        return obj
    if ":" in obj:
        return graph.as_graph_element(obj)
    element = graph.as_graph_element(obj + ":0")
    if len(element.op.outputs) > 1:
        raise ValueError(f"Name {obj} is ambiguous, as this `Operation` has multiple outputs (at "
                         "least 2).")
    return element


# ------------------------------------------------------------------------------ logging and stopping
class LoggingTensorHook(SessionRunHook):
    """Logs tensors every_n_iter runs or every_n_secs seconds, and at the end with at_end.

    tensors: a dict tag -> tensor or name, or a list of them. formatter: a function of the values to
    text. ValueError unless one of the two times, or at_end, is given. TF:
    tf.train.LoggingTensorHook."""

    def __init__(self, tensors, every_n_iter=None, every_n_secs=None, at_end=False,
                 formatter=None):
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs "
                             "must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        named = isinstance(tensors, dict)
        self._order = sorted(tensors) if named else list(tensors)
        self._tensors = dict(tensors) if named else {item: item for item in tensors}
        self._formatter, self._at_end = formatter, at_end
        self._timer = _Never() if only_at_end else SecondOrStepTimer(every_n_secs, every_n_iter)

    def begin(self):
        self._timer.reset()
        self._count = 0
        self._current = {tag: _element(tensor) for tag, tensor in self._tensors.items()}

    def before_run(self, run_context):
        self._due = self._timer.should_trigger_for_step(self._count)
        return SessionRunArgs(self._current) if self._due else None

    def after_run(self, run_context, run_values):
        if self._due:
            self._say(run_values.results)
        self._count += 1

    def end(self, session):
        if self._at_end:
            self._say(session.run(self._current))

    def _say(self, values):
        seconds, _ = self._timer.update_last_triggered_step(self._count)
        with np.printoptions(suppress=True):
            if self._formatter:
                _log.info("%s", self._formatter(values))
                return
            said = ", ".join(f"{tag} = {values[tag]!s}" for tag in self._order)
            _log.info("%s", said if seconds is None else f"{said} ({seconds:.3f} sec)")


class StopAtStepHook(SessionRunHook):
    """Stops after num_steps steps from the start, or at global step last_step: give one
    (ValueError).

    A session that begins at last_step, restored from a finished training's checkpoint, should stop
    at once; TensorFlow's runs one more step.  How far it is shows as pyflow/progress.py says: a bar
    on a terminal, lines in a log. TF: tf.train.StopAtStepHook."""

    def __init__(self, num_steps=None, last_step=None):
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps, self._last_step = num_steps, last_step
        self._first, self._shown = 0, None

    def begin(self):
        self._step = _global_step("StopAtStepHook")

    def after_create_session(self, session, coord):
        step = int(session.run(self._step))
        if self._last_step is None:
            self._last_step = step + self._num_steps
        elif step >= self._last_step and coord is not None:
            coord.request_stop()
        self.end(session)
        self._first = step
        self._shown = progress.of("training", max(0, self._last_step - step))

    def before_run(self, run_context):
        return SessionRunArgs(self._step)

    def end(self, session):
        if self._shown is not None:
            self._shown.close()

    def after_run(self, run_context, run_values):
        self._show(run_values.results)
        if run_values.results + 1 >= self._last_step:   # read before or after this run's update
            if run_context.session.run(self._step) >= self._last_step:
                self._show(self._last_step)
                run_context.request_stop()

    def _show(self, step):
        if self._shown is not None:
            self._shown.set(int(step) - self._first)


class NanLossDuringTrainingError(RuntimeError):
    """A NanTensorHook saw NaN. TF: tf.train.NanLossDuringTrainingError."""

    def __str__(self):
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Watches a loss: NaN raises NanLossDuringTrainingError, or stops the loop without
    fail_on_nan_loss. TF: tf.train.NanTensorHook."""

    def __init__(self, loss_tensor, fail_on_nan_loss=True):
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context):
        return SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        if np.isnan(run_values.results).any():
            message = "Model diverged with loss = NaN."
            if self._fail:
                _log.error("%s", message)
                raise NanLossDuringTrainingError
            _log.warning("%s", message)
            run_context.request_stop()


class FinalOpsHook(SessionRunHook):
    """Runs final_ops at the end; their values are final_ops_values. TF: tf.train.FinalOpsHook."""

    def __init__(self, final_ops, final_ops_feed_dict=None):
        self._final_ops, self._feeds, self._values = final_ops, final_ops_feed_dict, None

    @property
    def final_ops_values(self):
        """The values, after the end."""
        return self._values

    def end(self, session):
        if self._final_ops is None:
            return
        try:
            self._values = session.run(self._final_ops, feed_dict=self._feeds)
        except (errors.OutOfRangeError, StopIteration):
            _log.warning("FinalOpsHook: its operations ask for input, which has ended. They should "
                         "depend on variables alone, as the value of a tf.metrics does.")
            raise


class FeedFnHook(SessionRunHook):
    """Feeds what feed_fn() returns in each run. TF: tf.train.FeedFnHook."""

    def __init__(self, feed_fn):
        self.feed_fn = feed_fn

    def before_run(self, run_context):
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())


class GlobalStepWaiterHook(SessionRunHook):
    """Waits until the global step has reached wait_until_step. TF:
    tf.train.GlobalStepWaiterHook."""

    def __init__(self, wait_until_step):
        self._wait_until = wait_until_step

    def begin(self):
        self._worker_is_started = False
        self._step = _global_step("GlobalStepWaiterHook")

    def before_run(self, run_context):
        if self._worker_is_started:
            return None
        logged = None
        while self._wait_until > 0:
            step = run_context.session.run(self._step)
            if step >= self._wait_until:
                break
            if logged is None or step - logged >= 1000:
                _log.info("Waiting for global step %d before starting training. Current step is "
                          "%d.", self._wait_until, step)
                logged = step
            time.sleep(0.5)
        self._worker_is_started = True
        return None


# ------------------------------------------------------------------------------------------- saving
class CheckpointSaverListener:
    """What is done around a CheckpointSaverHook's saves. TF: tf.train.CheckpointSaverListener."""

    def __repr__(self):
        return f"<tf.train.{type(self).__name__}>"

    def begin(self):
        """As a hook's."""

    def before_save(self, session, global_step_value):
        """Before a checkpoint is written."""

    def after_save(self, session, global_step_value):
        """After it; a true result asks the training to stop."""

    def end(self, session, global_step_value):
        """As a hook's."""


class CheckpointSaverHook(SessionRunHook):
    """Saves a checkpoint every save_secs seconds or save_steps steps, with the random streams.

    checkpoint_dir: the folder. saver or scaffold: what saves (ValueError for both), else the one in
    the collection SAVERS. listeners: CheckpointSaverListeners. save_graph_def: whether the graph
    is written too. TF: tf.train.CheckpointSaverHook."""

    def __init__(self, checkpoint_dir, save_secs=None, save_steps=None, saver=None,
                 checkpoint_basename="model.ckpt", scaffold=None, listeners=None,
                 save_graph_def=True):
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._saver, self._scaffold = saver, scaffold
        self._folder = remote.local_name(checkpoint_dir)
        self._save_path = os.path.join(self._folder, checkpoint_basename)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners, self._save_graph_def = list(listeners or ()), save_graph_def

    def begin(self):
        self._writer = FileWriterCache.get(self._folder)
        self._step = _global_step("CheckpointSaverHook")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session, coord):
        step = session.run(self._step)
        graph = ops.get_default_graph()
        if self._save_graph_def:
            meta_graph.write_graph(graph.as_graph_def(add_shapes=True), self._folder,
                                   "graph.pbtxt")
        self._writer.add_graph(graph)
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context):
        return SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = run_context.session.run(self._step)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session):
        step = session.run(self._step)
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session, step):
        """Whether a listener asks to stop."""
        for listener in self._listeners:
            listener.before_save(session, step)
        saver = self._get_saver()
        _log.info("Saving checkpoints for %d into %s.", step, self._save_path)
        random_streams.save(session, f"{self._save_path}-{int(step)}")
        saver.save(session, self._save_path, global_step=int(step),
                   write_meta_graph=self._save_graph_def)
        random_streams.remove_stale(saver.last_checkpoints)
        self._writer.add_session_log(protos.SessionLog(
            status=protos.SessionLog.CHECKPOINT, checkpoint_path=self._save_path), int(step))
        return any([listener.after_save(session, step) for listener in self._listeners])

    def _get_saver(self):
        if self._saver is None and self._scaffold is not None:
            return self._scaffold.saver
        if self._saver is None:
            found = ops.get_collection(GraphKeys.SAVERS)
            if len(found) != 1:
                some = "More than one item" if found else "No items"
                raise RuntimeError(f"{some} in collection {GraphKeys.SAVERS}. Please indicate "
                                   "which saver to use by passing it, or a scaffold.")
            self._saver = found[0]
        return self._saver


# ----------------------------------------------------------------------------------- for TensorBoard
class StepCounterHook(SessionRunHook):
    """Writes steps per second (tag global_step/sec) every_n_steps or every_n_secs.

    output_dir or summary_writer: where to; it is logged, too. ValueError unless one time is given.
    TF: tf.train.StepCounterHook."""

    def __init__(self, every_n_steps=100, every_n_secs=None, output_dir=None, summary_writer=None):
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_steps=every_n_steps, every_secs=every_n_secs)
        self._writer, self._output_dir = summary_writer, output_dir

    def begin(self):
        if self._writer is None and self._output_dir:
            self._writer = FileWriterCache.get(self._output_dir)
        self._step = _global_step("StepCounterHook")
        self._tag = self._step.op.name + "/sec"

    def before_run(self, run_context):
        return SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        if not self._timer.should_trigger_for_step(run_values.results + 1):
            return
        step = run_context.session.run(self._step)
        if not self._timer.should_trigger_for_step(step):
            return
        seconds, steps = self._timer.update_last_triggered_step(step)
        if seconds:
            self._log_and_record(steps, seconds, step)

    def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
        rate = elapsed_steps / elapsed_time
        if self._writer is not None:
            self._writer.add_summary(protos.Summary(value=[protos.Summary.Value(
                tag=self._tag, simple_value=rate)]), int(global_step))
        _log.info("%s: %g", self._tag, rate)


class SummarySaverHook(SessionRunHook):
    """Writes the summaries of summary_op, or of the scaffold's, every save_steps or save_secs.

    output_dir or summary_writer: where to. ValueError unless exactly one of summary_op and scaffold
    is given. TF: tf.train.SummarySaverHook."""

    def __init__(self, save_steps=None, save_secs=None, output_dir=None, summary_writer=None,
                 scaffold=None, summary_op=None):
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._summary_op, self._scaffold = summary_op, scaffold
        self._writer, self._output_dir = summary_writer, output_dir
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)

    def begin(self):
        if self._writer is None and self._output_dir:
            self._writer = FileWriterCache.get(self._output_dir)
        self._next_step = None
        self._step = _global_step("SummarySaverHook")

    def before_run(self, run_context):
        self._due = self._next_step is None or self._timer.should_trigger_for_step(self._next_step)
        asked = {"global_step": self._step}
        summaries = self._summaries()
        if self._due and summaries:
            asked["summary"] = summaries
        return SessionRunArgs(asked)

    def after_run(self, run_context, run_values):
        if not self._writer:
            return
        step = run_values.results["global_step"] + 1
        if self._next_step is None or self._due:
            step = run_context.session.run(self._step)
        if self._next_step is None:
            self._writer.add_session_log(protos.SessionLog(status=protos.SessionLog.START),
                                         int(step))
        if self._due:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                self._writer.add_summary(summary, int(step))
        self._next_step = step + 1

    def end(self, session=None):
        if self._writer:
            self._writer.flush()

    def _summaries(self):
        op = self._summary_op if self._summary_op is not None else self._scaffold.summary_op
        if op is None:
            return None
        return list(op) if isinstance(op, (list, tuple)) else [op]


class ProfilerHook(SessionRunHook):
    """Writes a trace of a run, timeline-STEP.json, and its RunMetadata, every save_steps steps or
    save_secs seconds, into output_dir. TF: tf.train.ProfilerHook."""

    def __init__(self, save_steps=None, save_secs=None, output_dir="", show_dataflow=True,
                 show_memory=False):
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._file = os.path.join(output_dir, "timeline-{}.json")
        self._writer = FileWriterCache.get(output_dir or os.curdir)
        self._how = {"show_dataflow": show_dataflow, "show_memory": show_memory}

    def begin(self):
        self._next_step = None
        self._step = _global_step("ProfilerHook")

    def before_run(self, run_context):
        self._due = self._next_step is not None and self._timer.should_trigger_for_step(
            self._next_step)
        options = protos.RunOptions(trace_level=protos.RunOptions.FULL_TRACE) if self._due else None
        return SessionRunArgs({"global_step": self._step}, options=options)

    def after_run(self, run_context, run_values):
        step = run_values.results["global_step"]
        if self._next_step is None:
            self._timer.update_last_triggered_step(step)
        step += 1
        if self._due:
            step = int(run_context.session.run(self._step))
            self._timer.update_last_triggered_step(step)
            trace = timeline.Timeline(run_values.run_metadata.step_stats)
            with open(self._file.format(step), "w", encoding="utf-8") as file:
                file.write(trace.generate_chrome_trace_format(**self._how))
            self._writer.add_run_metadata(run_values.run_metadata, f"step_{step}", step)
        self._next_step = step + 1


PUBLIC = {f"train.{made.__name__}": made for made in (
    SecondOrStepTimer, LoggingTensorHook, StopAtStepHook, NanTensorHook,
    NanLossDuringTrainingError, FinalOpsHook, FeedFnHook, GlobalStepWaiterHook,
    CheckpointSaverListener, CheckpointSaverHook, StepCounterHook, SummarySaverHook, ProfilerHook)}
