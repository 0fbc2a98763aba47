"""CheckpointInputPipelineHook: a training goes on at the place of its datasets where it stopped.

    model.ckpt-N is about to be written -> input-N is written -> model.ckpt-N
    a session begins at step N -> its iterators start -> input-N is restored, if it is there

Invariant: a model's checkpoint has its input's; whoever is killed between them leaves an input's
too many, which nobody asks for.

Thread: the one that trains.  Source: TF 1.15 tf.data.experimental.CheckpointInputPipelineHook.
"""
import contextlib
import logging
import os

import pyflow as tf
from pyflow.estimator.input_results import ITERATORS

_log = logging.getLogger("tensorflow")


class _SaveInput(tf.train.CheckpointSaverListener):
    """Writes the iterators before the model."""

    def __init__(self, hook):
        self._hook = hook

    def before_save(self, session, global_step_value):
        self._hook._save(session, global_step_value)


class CheckpointInputPipelineHook(tf.train.SessionRunHook):
    """Saves the place of an Estimator's datasets with each of its checkpoints, and restores it.

    estimator: whose `train` gets this hook. A dataset that gives (features, labels) through
    from_generator is read over up to its place.
    TF: tf.data.experimental.CheckpointInputPipelineHook.

        hook = tf.data.experimental.CheckpointInputPipelineHook(estimator)
        estimator.train(input_fn, hooks=[hook])
    """

    def __init__(self, estimator):
        self._config = estimator.config
        self.listener = _SaveInput(self)

    def begin(self):
        iterators = tf.get_collection(ITERATORS)
        if not iterators:
            raise ValueError("CheckpointInputPipelineHook: the input is no tf.data.Dataset, so it "
                             "has no place to save; give one from input_fn, or leave the hook out")
        make = tf.data.experimental.make_saveable_from_iterator
        self._saver = tf.train.Saver([make(iterator) for iterator in iterators],
                                     max_to_keep=self._config.keep_checkpoint_max + 1)
        self._step = tf.train.get_global_step()

    def _path(self, step):
        return os.path.join(self._config.model_dir, f"input-{int(step)}")

    def _save(self, session, step):
        """Writes input-N once.  Iterators that have not begun, at a session's first checkpoint, have no
        place: who resumes from there begins them."""
        if tf.train.checkpoint_exists(self._path(step)):
            return
        with contextlib.suppress(tf.errors.FailedPreconditionError):
            self._saver.save(session, os.path.join(self._config.model_dir, "input"),
                             global_step=int(step), latest_filename="checkpoint_input",
                             write_meta_graph=False)

    def after_create_session(self, session, coord):
        path = self._path(session.run(self._step))
        if tf.train.checkpoint_exists(path):
            self._saver.restore(session, path)
            _log.info("The input goes on from %s", path)


PUBLIC = {"data.experimental.CheckpointInputPipelineHook": CheckpointInputPipelineHook,
          "contrib.data.CheckpointInputPipelineHook": CheckpointInputPipelineHook}
