"""SessionManager: a session whose variables have values, from a checkpoint or from initializers.

    new Session -> restored from the newest checkpoint, and its random streams with it
                `-> or initialised [init_op, init_fn]
                -> local_init_op, once what it needs is ready -> ready

Invariants
  1. Who asks is told which variables have no value, by name.
  2. Random streams saved beside a checkpoint (random_streams.py) are set with it.

Thread: any, one at a time.  Source: TF 1.15 tf.train.SessionManager.

Example:
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    sess = manager.prepare_session("", init_op, saver=saver, checkpoint_dir="train")
"""
import logging
import time

import numpy as np

from pyflow.framework import errors, graph as graph_lib
from pyflow.session import Session
from pyflow.train import checkpoint_state, random_streams

_log = logging.getLogger("tensorflow")
_FIRST_WAIT = 0.1                       # seconds


class SessionManager:
    """Makes sessions that are ready to train. TF: tf.train.SessionManager.

    local_init_op: run in each new session. ready_op: names of variables without values; none when
    it is ready. ready_for_local_init_op: the same before local_init_op. recovery_wait_secs: the
    most between looks while it waits, which begin at 0.1 s. new_session: function(target, graph=,
    config=) that makes its sessions, in place of tf.Session. ValueError for ready_for_local_init_op
    without local_init_op."""

    def __init__(self, local_init_op=None, ready_op=None, ready_for_local_init_op=None, graph=None,
                 recovery_wait_secs=30, local_init_run_options=None, local_init_feed_dict=None,
                 new_session=Session):
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError("If you pass a ready_for_local_init_op you must also pass a "
                             f"local_init_op , ready_for_local_init_op [{ready_for_local_init_op}]")
        self._local_init_op, self._ready_op = local_init_op, ready_op
        self._ready_for_local_init_op = ready_for_local_init_op
        self._graph = graph or graph_lib.get_default_graph()
        self._wait_secs = recovery_wait_secs
        self._local_options, self._local_feeds = local_init_run_options, local_init_feed_dict
        self._make_session = new_session

    def _new_session(self, master, config):
        return self._make_session(master, graph=self._graph, config=config)

    def __repr__(self):
        return f"<tf.train.SessionManager of {self._graph!r}>"

    def prepare_session(self, master, init_op=None, saver=None, checkpoint_dir=None,
                        checkpoint_filename_with_path=None, wait_for_checkpoint=False,
                        max_wait_secs=7200, config=None, init_feed_dict=None, init_fn=None):
        """A Session restored from a checkpoint, or initialised where there is none.

        checkpoint_dir: the folder whose newest checkpoint counts, or
        checkpoint_filename_with_path: which (ValueError for both). init_fn: called with the
        session after init_op. RuntimeError where variables are left without values, naming them."""
        sess, restored = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint,
            max_wait_secs, config)
        if not restored:
            if init_op is None and not init_fn and self._local_init_op is None:
                raise RuntimeError("Model is not initialized and no init_op or init_fn or "
                                   "local_init_op was given")
            if init_op is not None:
                sess.run(init_op, feed_dict=init_feed_dict)
            if init_fn:
                init_fn(sess)
        done, why = self._local_init(sess)
        if not done:
            raise RuntimeError(
                "Init operations did not make model ready for local_init.  Init op: "
                f"{_name(init_op)}, init fn: {init_fn}, error: {why}")
        ready, why = _ready(self._ready_op, sess, "Model not ready")
        if not ready:
            raise RuntimeError(
                f"Init operations did not make model ready.  Init op: {_name(init_op)}, init fn: "
                f"{init_fn}, local_init_op: {_name(self._local_init_op)}, error: {why}")
        return sess

    def recover_session(self, master, saver=None, checkpoint_dir=None,
                        checkpoint_filename_with_path=None, wait_for_checkpoint=False,
                        max_wait_secs=7200, config=None):
        """(a Session, whether it was restored and is ready). Arguments as prepare_session's."""
        sess, restored = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint,
            max_wait_secs, config)
        done, why = self._local_init(sess)
        if not restored:
            return sess, False
        source = checkpoint_dir or checkpoint_filename_with_path
        if not done:
            _log.info("Restoring model from %s did not make model ready for local init: %s", source,
                      why)
            return sess, False
        ready, why = _ready(self._ready_op, sess, "Model not ready")
        if not ready:
            _log.info("Restoring model from %s did not make model ready: %s", source, why)
            return sess, False
        _log.info("Restored model from %s", source)
        return sess, True

    def wait_for_session(self, master, config=None, max_wait_secs=float("inf")):
        """A Session once somebody else has initialised the model.

        It looks soon and often at first, then every recovery_wait_secs (TF: only those).
        DeadlineExceededError after max_wait_secs, saying what is missing."""
        until = time.monotonic() + (float("inf") if max_wait_secs is None else max_wait_secs)
        wait = min(_FIRST_WAIT, self._wait_secs)
        while True:
            sess = self._new_session(master, config)
            done, why = self._local_init(sess)
            if done:
                done, why = _ready(self._ready_op, sess, "Model not ready")
                if done:
                    return sess
            sess.close()
            if time.monotonic() + wait > until:
                raise errors.DeadlineExceededError(
                    None, None, f"Session was not ready after waiting {max_wait_secs} secs. {why}")
            _log.info("Waiting for model to be ready: %s", why)
            time.sleep(wait)
            wait = min(1.5 * wait, self._wait_secs)

    def _restored(self, master, saver, folder, path, wait, max_wait_secs, config):
        if folder and path:
            raise ValueError("Can not provide both checkpoint_dir and "
                             "checkpoint_filename_with_path.")
        sess = self._new_session(master, config)
        if not saver or not (folder or path):
            return sess, False
        if path:
            restore(sess, saver, path)
            return sess, True
        waited = 0
        found = checkpoint_state.get_checkpoint_state(folder)
        while not found or not found.model_checkpoint_path:
            if not wait or waited >= max_wait_secs:
                return sess, False
            _log.info("Waiting for checkpoint to be available.")
            time.sleep(self._wait_secs)
            waited += self._wait_secs
            found = checkpoint_state.get_checkpoint_state(folder)
        restore(sess, saver, found.model_checkpoint_path)
        saver.recover_last_checkpoints(found.all_model_checkpoint_paths)
        return sess, True

    def _local_init(self, sess):
        """(whether local_init_op has run, or there is none; why not)."""
        if self._local_init_op is None:
            return True, None
        ready, why = _ready(self._ready_for_local_init_op, sess, "Model not ready for local init")
        if not ready:
            return False, why
        sess.run(self._local_init_op, feed_dict=self._local_feeds, options=self._local_options)
        return True, None


def restore(sess, saver, path):
    """Gives a session the variables of a checkpoint, and the random streams saved beside it."""
    initializers = sess.graph.get_collection("saved_model_initializers")
    if initializers:
        sess.run(initializers)
    saver.restore(sess, path)
    random_streams.restore(sess, path)


def _name(op):
    return "None" if op is None else getattr(op, "name", f"<no name for {type(op)}>")


def _ready(op, sess, what):
    """(whether `op`, names of variables without values, gives none; which)."""
    if op is None:
        return True, None
    try:
        names = sess.run(op)
    except errors.FailedPreconditionError as error:
        if "uninitialized" not in str(error):
            _log.warning("%s : error [%s]", what, error)
            raise
        return False, str(error)
    if names is None or names.dtype == np.int32 or names.size == 0:
        return True, None
    return False, "Variables not initialized: " + ", ".join(name.decode() for name in names)


PUBLIC = {"train.SessionManager": SessionManager}
