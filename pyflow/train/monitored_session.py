"""Monitored sessions: a session that is initialised or restored, watched by hooks, and made anew
when it is lost.

    MonitoredSession -> [recoverable] -> coordinated -> hooked -> tf.Session

    run: hooks' before_run -> one Session.run with what they add -> hooks' after_run

Invariants
  1. Queue runners start with each session, and stop with it.
  2. AbortedError and UnavailableError lose a session, not the training: the next one is restored
     from the newest checkpoint.
  3. Leaving `with` by OutOfRangeError or StopIteration is a normal end; hooks' `end` runs then.

Thread: the one that trains.  Source: TF 1.15 monitored_session.

Example:
    with tf.train.MonitoredTrainingSession(checkpoint_dir="train", hooks=hooks) as sess:
        while not sess.should_stop():
            sess.run(train_op)
"""
import inspect
import logging
import time

from pyflow.framework import errors, graph as ops, protos
from pyflow.framework.graph import GraphKeys
from pyflow.framework.run_metadata import RunMetadata
from pyflow.session import Session
from pyflow.train import coordinator, hooks as hook_lib, queue_runners, session_manager
from pyflow.train.scaffold import Scaffold
from pyflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunValues

_LOST = (errors.AbortedError, errors.UnavailableError)
_log = logging.getLogger("tensorflow")
USE_DEFAULT = object()


# ------------------------------------------------------------------------------------------ creators
class SessionCreator:
    """What makes a monitored session's sessions. TF: tf.train.SessionCreator."""

    def __repr__(self):
        return f"<tf.train.{type(self).__name__}>"

    def create_session(self):
        """A tf.Session whose variables have values; subclasses give it."""
        raise NotImplementedError(f"create_session is not implemented for {self}.")


class ScaffoldedCreator(SessionCreator):
    """What makes a scaffold's sessions at a master: the base of those below and of distributed
    trainings'.  What subclasses may say: recovery_wait_secs, new_session, create_session."""

    recovery_wait_secs = 30         # the most between looks while it waits for the model

    def __init__(self, scaffold, master, config):
        self.scaffold, self.master, self.config = scaffold or Scaffold(), master, config
        self._manager = None

    def new_session(self, target, graph, config):
        """A session whose variables have no values yet."""
        return Session(target, graph=graph, config=config)

    def session_manager(self):
        """The SessionManager, made once; the scaffold is finalized."""
        if self._manager is None:
            scaffold = self.scaffold
            self._manager = session_manager.SessionManager(
                local_init_op=scaffold.local_init_op, ready_op=scaffold.ready_op,
                ready_for_local_init_op=scaffold.ready_for_local_init_op,
                graph=ops.get_default_graph(), recovery_wait_secs=self.recovery_wait_secs,
                local_init_feed_dict=scaffold.local_init_feed_dict, new_session=self.new_session)
        return self._manager


class ChiefSessionCreator(ScaffoldedCreator):
    """Sessions restored from checkpoint_dir or checkpoint_filename_with_path, else initialised.
    TF: tf.train.ChiefSessionCreator."""

    def __init__(self, scaffold=None, master="", config=None, checkpoint_dir=None,
                 checkpoint_filename_with_path=None):
        super().__init__(scaffold, master, config)
        self._folder, self._path = checkpoint_dir, checkpoint_filename_with_path

    def create_session(self):
        """The Session."""
        scaffold = self.scaffold.finalize()
        return self.session_manager().prepare_session(
            self.master, saver=scaffold.saver, checkpoint_dir=self._folder,
            checkpoint_filename_with_path=self._path, config=self.config,
            init_op=scaffold.init_op, init_feed_dict=scaffold.init_feed_dict,
            init_fn=scaffold.init_fn)


class WorkerSessionCreator(ScaffoldedCreator):
    """Sessions that wait until the chief has initialised the model. TF:
    tf.train.WorkerSessionCreator."""

    def __init__(self, scaffold=None, master="", config=None, max_wait_secs=30 * 60):
        super().__init__(scaffold, master, config)
        self.max_wait_secs = max_wait_secs

    def create_session(self):
        """The Session."""
        self.scaffold.finalize()
        return self.session_manager().wait_for_session(
            self.master, config=self.config, max_wait_secs=self.max_wait_secs)


# ------------------------------------------------------------------------------------------- layers
class _Hooked:
    """A session whose runs the hooks see."""

    def __init__(self, sess, hooks):
        self.sess, self._hooks, self._stop = sess, hooks, False

    def should_stop(self):
        return self._stop

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        if self._stop:
            raise RuntimeError("Run called even after should_stop requested.")
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self.sess)
        asked = {"caller": fetches}
        wanted = protos.RunOptions()
        if options is not None:
            wanted.CopyFrom(options)
        feeds = self._ask(context, asked, feed_dict, wanted)
        traced = run_metadata is not None or wanted.trace_level
        metadata = run_metadata if run_metadata is not None else RunMetadata()
        results = self.sess.run(asked, feeds, wanted if wanted.ByteSize() else None,
                                metadata if traced else None)
        for i, hook in enumerate(self._hooks):
            hook.after_run(context, SessionRunValues(results.get(i), wanted, metadata))
        self._stop = self._stop or context.stop_requested
        return results["caller"]

    def _ask(self, context, asked, feed_dict, options):
        """Adds what the hooks want to `asked` and the options; returns all feeds."""
        added = {}
        for i, hook in enumerate(self._hooks):
            request = hook.before_run(context)
            if request is None:
                continue
            if request.fetches is not None:
                asked[i] = request.fetches
            if request.feed_dict:
                _refuse_twice(added, request.feed_dict, "Same tensor is fed by two hooks.")
                added.update(request.feed_dict)
            if request.options is not None:
                _merge_options(options, request.options)
        if not added:
            return feed_dict
        _refuse_twice(feed_dict or {}, added, "Same tensor is fed by a SessionRunHook and user.")
        return {**added, **(feed_dict or {})}


def _merge_options(options, added):
    """Adds to RunOptions what others ask for: of numbers the larger, of switches either."""
    for name in ("trace_level", "timeout_in_ms", "inter_op_thread_pool",
                 "output_partition_graphs", "report_tensor_allocations_upon_oom"):
        largest = max(getattr(options, name), getattr(added, name))
        if largest:
            setattr(options, name, largest)
    debug, more = options.debug_options, added.debug_options
    debug.debug_tensor_watch_opts.extend(more.debug_tensor_watch_opts)
    if more.reset_disk_byte_usage:
        debug.reset_disk_byte_usage = True


def _refuse_twice(one, other, message):
    both = set(one) & set(other)
    if both:
        raise RuntimeError(f"{message} Conflict(s): {list(both)}")


class _Coordinated:
    """A hooked session and the coordinator of its threads."""

    def __init__(self, creator, hooks, grace_secs):
        self._grace_secs = grace_secs
        self.sess = creator.create_session()
        self.coord = coordinator.Coordinator(clean_stop_exception_types=())
        try:
            if ops.get_collection(GraphKeys.QUEUE_RUNNERS):
                queue_runners.start_queue_runners(sess=self.sess, coord=self.coord)
            for hook in hooks:
                hook.after_create_session(self.sess, self.coord)
        except Exception as error:
            self.coord.request_stop()
            self.sess.close()
            self._raise_cause(error)
            raise
        self._hooked = _Hooked(self.sess, hooks)

    def should_stop(self):
        self.coord.raise_requested_exception()
        return self.coord.should_stop() or self._hooked.should_stop()

    def run(self, *args, **kwargs):
        try:
            return self._hooked.run(*args, **kwargs)
        except Exception as error:
            self._raise_cause(error)
            raise

    def _raise_cause(self, error):
        """Raises that the session was lost, if a thread has said so: what this thread fails with
        afterwards, in a session that is closed, says less. A thread's other errors say less than
        this one's own."""
        try:
            if not isinstance(error, _LOST):
                self.coord.raise_requested_exception()
        except _LOST as lost:
            raise lost from None
        except Exception:
            pass

    def close(self):
        self.coord.request_stop()
        try:
            self.coord.join(stop_grace_period_secs=self._grace_secs, ignore_live_threads=True)
        finally:
            self.sess.close()


class StepContext:
    """What `run_step_fn` gives its function: the session, and a way to stop."""

    def __init__(self, session, run_with_hooks):
        self._session, self._run_with_hooks = session, run_with_hooks

    @property
    def session(self):
        """The tf.Session, without hooks."""
        return self._session

    def run_with_hooks(self, *args, **kwargs):
        """As MonitoredSession.run."""
        return self._run_with_hooks(*args, **kwargs)

    def request_stop(self):
        """Ends the step function, and the loop."""
        raise StopIteration("step_fn has requested the iterations to stop.")


# ------------------------------------------------------------------------------ monitored sessions
class _Monitored:
    StepContext = StepContext

    def __init__(self, session_creator, hooks, should_recover, stop_grace_period_secs):
        self._was_finalized = ops.get_default_graph().finalized
        self._graph = ops.get_default_graph()
        self._hooks = list(hooks or ())
        for hook in self._hooks:
            hook.begin()
        self._creator, self._recovers = session_creator or ChiefSessionCreator(), should_recover
        self._grace_secs = stop_grace_period_secs
        self._closed = False
        self._inner = self._create()

    def __repr__(self):
        return f"<tf.train.{type(self).__name__} {'closed' if self._closed else 'open'}>"

    def _create(self):
        nap = 0.05
        while True:
            try:
                return _Coordinated(self._creator, self._hooks, self._grace_secs)
            except _LOST as error:
                if not self._recovers:
                    raise
                _log.info("A session was lost while it was made, and is made again: %s", error)
            time.sleep(nap)
            nap = min(2 * nap, 1.0)

    def _lose(self, error):
        """The session is gone; the next use makes another one."""
        _log.info("The session was lost; another one is made and restored: %s", error)
        lost, self._inner = self._inner, None
        try:
            lost.close()
        except _LOST as again:
            _log.info("While the lost session was closed: %s", again)

    def _session(self):
        if self._closed:
            raise RuntimeError("Session is already closed.")
        if self._inner is None:
            self._inner = self._create()
        return self._inner

    def _recovering(self, act):
        while True:
            try:
                return act(self._session())
            except _LOST as error:
                if not self._recovers or self._inner is None:
                    raise
                self._lose(error)

    @property
    def graph(self):
        """The session's graph; None once it is closed."""
        return None if self._closed else self._graph

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """As tf.Session.run, seen by the hooks. RuntimeError after the last run or close."""
        return self._recovering(
            lambda inner: inner.run(fetches, feed_dict, options, run_metadata))

    def run_step_fn(self, step_fn):
        """step_fn(step_context): several runs as one step, some of them without hooks.

        ValueError for a function of other arguments. StopIteration ends the loop.
        TF: tf.train.MonitoredSession.run_step_fn."""
        given = tuple(inspect.signature(step_fn).parameters)
        if given != ("step_context",):
            raise ValueError("`step_fn` may either have one `step_context` argument, or `self` and "
                             "`step_context` arguments if it's an instance method. Got "
                             f"{given} instead.")
        return self._recovering(lambda inner: step_fn(StepContext(inner.sess, inner.run)))

    def should_stop(self):
        """Whether the loop is over: a hook or thread asked to stop, or it is closed."""
        if self._closed:
            return True
        try:
            return self._session().should_stop()
        except _LOST as error:
            if not self._recovers:
                return True
            self._lose(error)
            self._session()
            return False
        except Exception:
            return True

    def close(self):
        """Runs the hooks' `end`, stops the threads and closes the session."""
        self._end(None)

    def __enter__(self):
        return self

    def __exit__(self, exception_type, exception_value, traceback):
        if exception_type in (errors.OutOfRangeError, StopIteration):
            exception_type = None
        self._end(exception_type)
        return exception_type is None

    def _end(self, exception_type):
        if self._closed:
            raise RuntimeError("Session is already closed.")
        try:
            if exception_type is None:
                inner = self._session()
                for hook in self._hooks:
                    hook.end(inner.sess)
        finally:
            self._closed = True
            inner, self._inner = self._inner, None
            try:
                if inner is not None:
                    inner.close()
            finally:
                if not self._was_finalized:
                    self._graph._unsafe_unfinalize()


class MonitoredSession(_Monitored):
    """A session with hooks that is made anew when it is lost. TF: tf.train.MonitoredSession.

    session_creator: default ChiefSessionCreator(). hooks: SessionRunHooks.
    stop_grace_period_secs: how long threads may take to stop."""

    def __init__(self, session_creator=None, hooks=None, stop_grace_period_secs=120):
        super().__init__(session_creator, hooks, True, stop_grace_period_secs)


class SingularMonitoredSession(_Monitored):
    """A session with hooks that ends when it is lost. TF: tf.train.SingularMonitoredSession."""

    def __init__(self, hooks=None, scaffold=None, master="", config=None, checkpoint_dir=None,
                 stop_grace_period_secs=120, checkpoint_filename_with_path=None):
        super().__init__(ChiefSessionCreator(scaffold, master, config, checkpoint_dir,
                                             checkpoint_filename_with_path),
                         hooks, False, stop_grace_period_secs)

    def raw_session(self):
        """The tf.Session."""
        return None if self._inner is None else self._inner.sess


def MonitoredTrainingSession(
        master="", is_chief=True, checkpoint_dir=None, scaffold=None, hooks=None,
        chief_only_hooks=None, save_checkpoint_secs=USE_DEFAULT, save_summaries_steps=USE_DEFAULT,
        save_summaries_secs=USE_DEFAULT, config=None, stop_grace_period_secs=120,
        log_step_count_steps=100, max_wait_secs=7200, save_checkpoint_steps=USE_DEFAULT,
        summary_dir=None, save_graph_def=True):
    """A MonitoredSession for training, with hooks that save checkpoints and summaries.

    checkpoint_dir: restored from where there is a checkpoint, saved into every save_checkpoint_secs
    (600) seconds or save_checkpoint_steps; summaries every save_summaries_steps (100) or
    save_summaries_secs into summary_dir (checkpoint_dir); steps per second every
    log_step_count_steps. Not the chief: waits for its model, has `hooks` only. The random streams
    are saved and restored with the checkpoint, so that a killed training goes on bit for bit; a
    tf.data iterator's place with make_saveable_from_iterator. TF: tf.train.MonitoredTrainingSession.
    """
    summaries_steps, summaries_secs = _either(save_summaries_steps, save_summaries_secs, 100, None)
    steps, secs = _either(save_checkpoint_steps, save_checkpoint_secs, None, 600)
    scaffold = scaffold or Scaffold()
    if not is_chief:
        creator = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(creator, hooks or [], stop_grace_period_secs)
    made = list(chief_only_hooks or ())
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir and log_step_count_steps and log_step_count_steps > 0:
        made.append(hook_lib.StepCounterHook(output_dir=summary_dir,
                                             every_n_steps=log_step_count_steps))
    if summary_dir and ((summaries_steps or 0) > 0 or (summaries_secs or 0) > 0):
        made.append(hook_lib.SummarySaverHook(
            scaffold=scaffold, save_steps=summaries_steps, save_secs=summaries_secs,
            output_dir=summary_dir))
    if checkpoint_dir and ((secs or 0) > 0 or (steps or 0) > 0):
        made.append(hook_lib.CheckpointSaverHook(
            checkpoint_dir, save_steps=steps, save_secs=secs, scaffold=scaffold,
            save_graph_def=save_graph_def))
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(creator, made + list(hooks or ()), stop_grace_period_secs)


def _either(steps, secs, default_steps, default_secs):
    """Two times of which one counts: what was given, else the defaults."""
    if steps is USE_DEFAULT and secs is USE_DEFAULT:
        return default_steps, default_secs
    return None if steps is USE_DEFAULT else steps, None if secs is USE_DEFAULT else secs


PUBLIC = {f"train.{made.__name__}": made for made in (
    SessionCreator, ChiefSessionCreator, WorkerSessionCreator, MonitoredSession,
    SingularMonitoredSession, MonitoredTrainingSession)}
