"""Exporters: which of a training's models are exported, and which exports are kept.

Invariant: of a folder's exports the oldest are deleted, never one that is being written.

Thread: the one that trains.  Source: TF 1.15 tf.estimator.{Final,Latest,Best}Exporter.
"""
import abc
import glob
import inspect
import os
import shutil

from pyflow.lib.summary.file_writer import summary_iterator


class Exporter(abc.ABC):
    """What train_and_evaluate exports after an evaluation. TF: tf.estimator.Exporter."""

    @property
    @abc.abstractmethod
    def name(self):
        """The folder's name below model_dir/export."""

    @abc.abstractmethod
    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        """Exports a checkpoint into export_path, or does not; returns the path or None.

        eval_result: the metrics. is_the_final_export: whether training is over."""


class _Exporter(Exporter):
    """Exports with a receiver function."""

    def __init__(self, name, serving_input_receiver_fn, assets_extra=None, as_text=False):
        self._name, self._receiver_fn = name, serving_input_receiver_fn
        self._assets_extra, self._as_text = assets_extra, as_text

    @property
    def name(self):
        """The folder's name below model_dir/export."""
        return self._name

    def __repr__(self):
        return f"<tf.estimator.{type(self).__name__} {self.name!r}>"

    def _write(self, estimator, export_path, checkpoint_path):
        return estimator.export_saved_model(
            export_path, self._receiver_fn, assets_extra=self._assets_extra,
            as_text=self._as_text, checkpoint_path=checkpoint_path)


def _delete_oldest(folder, keep):
    if keep is None:
        return
    done = sorted((int(name) for name in os.listdir(folder) if name.isdigit()))
    for name in done[:max(0, len(done) - keep)]:
        shutil.rmtree(os.path.join(folder, str(name)))


def _check_keep(exports_to_keep):
    if exports_to_keep is not None and exports_to_keep <= 0:
        raise ValueError("`exports_to_keep`, if provided, must be a positive number. Got "
                         f"{exports_to_keep}")


class FinalExporter(_Exporter):
    """Exports once, when training is over. TF: tf.estimator.FinalExporter."""

    def __init__(self, name, serving_input_receiver_fn, assets_extra=None, as_text=False):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if not is_the_final_export:
            return None
        return self._write(estimator, export_path, checkpoint_path)


class LatestExporter(_Exporter):
    """Exports after each evaluation, and keeps the newest exports_to_keep (None: all).
    ValueError for none or less. TF: tf.estimator.LatestExporter."""

    def __init__(self, name, serving_input_receiver_fn, assets_extra=None, as_text=False,
                 exports_to_keep=5):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        _check_keep(exports_to_keep)
        self._keep = exports_to_keep

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        made = self._write(estimator, export_path, checkpoint_path)
        _delete_oldest(export_path, self._keep)
        return made


def _loss_smaller(best_eval_result, current_eval_result):
    for name, result in (("best", best_eval_result), ("current", current_eval_result)):
        if not result or "loss" not in result:
            raise ValueError(f"{name}_eval_result cannot be empty or no loss is found in it.")
    return best_eval_result["loss"] > current_eval_result["loss"]


class BestExporter(_Exporter):
    """Exports a model that is better than all before it.

    compare_fn(best_eval_result, current_eval_result): whether the second is better; default by
    loss. event_file_pattern: of files below model_dir with results of a training before. ValueError
    for another compare_fn. TF: tf.estimator.BestExporter."""

    def __init__(self, name="best_exporter", serving_input_receiver_fn=None,
                 event_file_pattern=None, compare_fn=_loss_smaller, assets_extra=None,
                 as_text=False, exports_to_keep=5):
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if compare_fn is None:
            raise ValueError("`compare_fn` must not be None.")
        names = set(inspect.signature(compare_fn).parameters)
        for wanted in ("best_eval_result", "current_eval_result"):
            if wanted not in names:
                raise ValueError(f"compare_fn ({compare_fn}) must include {wanted} argument.")
        strange = sorted(names - {"best_eval_result", "current_eval_result"})
        if strange:
            raise ValueError(f"compare_fn ({compare_fn}) has following not expected args: "
                             f"{strange}")
        _check_keep(exports_to_keep)
        self._keep, self._better, self._pattern = exports_to_keep, compare_fn, event_file_pattern
        self._best, self._looked = None, False

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if not self._looked and self._pattern:
            self._best = self._best_before(os.path.join(estimator.model_dir, self._pattern))
        self._looked = True
        if self._best is not None and not self._better(
                best_eval_result=self._best, current_eval_result=eval_result):
            return None
        self._best = eval_result
        made = self._write(estimator, export_path, checkpoint_path)
        _delete_oldest(export_path, self._keep)
        return made

    def _best_before(self, pattern):
        """The best of the results in event files of evaluations before."""
        best = None
        for path in sorted(glob.glob(pattern)):
            for event in summary_iterator(path):
                result = {value.tag: value.simple_value for value in event.summary.value
                          if value.HasField("simple_value")}
                if result and (best is None or self._better(
                        best_eval_result=best, current_eval_result=result)):
                    best = result
        return best


PUBLIC = {f"estimator.{made.__name__}": made for made in (
    Exporter, FinalExporter, LatestExporter, BestExporter)}
