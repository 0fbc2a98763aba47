"""Supervisor: a session that is initialised or restored, with threads that save and count.

    managed_session: prepare_or_wait_for_session -> the user's loop -> stop, close

Invariants
  1. The graph is finalized when the supervisor is made.
  2. Threads stop before the session is closed; what one raised is raised by `stop`.
  3. Parts that are not given come from their collections, and are made where these are empty.

Threads: summaries, steps per second and checkpoints each have a LooperThread.
Source: TF 1.15 tf.train.Supervisor (which tf.train.MonitoredTrainingSession replaces).

Example:
    supervisor = tf.train.Supervisor(logdir="train")
    with supervisor.managed_session() as sess:
        while not supervisor.should_stop():
            sess.run(train_op)
"""
import contextlib
import logging
import os
import time

from pyflow.framework import graph as ops, protos
from pyflow.framework.graph import GraphKeys
from pyflow.lib.control_flow import grouping
from pyflow.lib.summary import summary_functions
from pyflow.lib.summary.file_writer import FileWriter
from pyflow.lib.variables import lookup_tables, variables
from pyflow.train import coordinator, meta_graph, random_streams, saver as saver_lib
from pyflow.train import session_manager as session_managers, training_util

_log = logging.getLogger("tensorflow")
USE_DEFAULT = 0


class Supervisor:
    """A training's session and the threads around it. TF: tf.train.Supervisor.

    logdir: where checkpoints (every save_model_secs) and summaries (every save_summaries_secs) go,
    and from where the session is restored. is_chief: only the chief initialises, saves and writes.
    ready_op, ready_for_local_init_op, init_op, local_init_op, summary_op, saver, global_step: given,
    None for none, else found or made. init_fn: a function of the session, after init_op.
    graph: default the default graph; init_feed_dict: fed to init_op. recovery_wait_secs: between
    looks for a session that the chief has made ready; stop_grace_secs: for threads to end.
    checkpoint_basename: the checkpoint's name in logdir. session_manager, summary_writer: own ones,
    else made. local_init_run_options: the RunOptions of local_init_op.

        >>> import tempfile
        >>> step = tf.train.get_or_create_global_step()
        >>> up = tf.assign_add(step, 1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     supervisor = tf.train.Supervisor(logdir=folder, summary_op=None)
        ...     with supervisor.managed_session() as sess:
        ...         while not supervisor.should_stop() and sess.run(up) < 3:
        ...             pass
        ...         int(sess.run(step))
        3
    """

    USE_DEFAULT = USE_DEFAULT

    def __init__(self, graph=None, ready_op=USE_DEFAULT, ready_for_local_init_op=USE_DEFAULT,
                 is_chief=True, init_op=USE_DEFAULT, init_feed_dict=None,
                 local_init_op=USE_DEFAULT, logdir=None, summary_op=USE_DEFAULT,
                 saver=USE_DEFAULT, global_step=USE_DEFAULT, save_summaries_secs=120,
                 save_model_secs=600, recovery_wait_secs=30, stop_grace_secs=120,
                 checkpoint_basename="model.ckpt", session_manager=None,
                 summary_writer=USE_DEFAULT, init_fn=None, local_init_run_options=None):
        self._graph = graph or ops.get_default_graph()
        self._is_chief, self._coord = is_chief, coordinator.Coordinator()
        self._stop_grace_secs, self._init_fn = stop_grace_secs, init_fn
        self._init_feed_dict = init_feed_dict
        with self._graph.as_default():
            self._find_parts(ready_op, ready_for_local_init_op, init_op, local_init_op, saver,
                             summary_op, global_step)
        self._logdir = logdir if is_chief else None
        self._save_summaries_secs = save_summaries_secs if is_chief else None
        self._save_model_secs = save_model_secs if is_chief else None
        self._save_path = os.path.join(logdir, checkpoint_basename) if self._logdir else None
        self._summary_writer, self._graph_written = None, False
        if is_chief:
            default = summary_writer is USE_DEFAULT
            self._summary_writer = (FileWriter(logdir) if logdir else None) if default \
                else summary_writer
        self._session_manager = session_manager or session_managers.SessionManager(
            local_init_op=self._local_init_op, ready_op=self._ready_op,
            ready_for_local_init_op=self._ready_for_local_init_op, graph=self._graph,
            recovery_wait_secs=recovery_wait_secs, local_init_run_options=local_init_run_options)
        self._check_devices()
        self._graph.finalize()

    def __repr__(self):
        return f"<tf.train.Supervisor logdir={self._logdir!r} is_chief={self._is_chief}>"

    # -------------------------------------------------------------------------------- its parts
    def _find_parts(self, ready_op, ready_for_local_init_op, init_op, local_init_op, saver,
                    summary_op, global_step):
        keys = GraphKeys
        self._ready_op = _part(ready_op, keys.READY_OP, variables.report_uninitialized_variables)
        self._ready_for_local_init_op = _part(ready_for_local_init_op,
                                              keys.READY_FOR_LOCAL_INIT_OP, None)
        self._init_op = _part(init_op, keys.INIT_OP, variables.global_variables_initializer)
        self._local_init_op = _part(local_init_op, keys.LOCAL_INIT_OP, lambda: grouping.group(
            variables.local_variables_initializer(), lookup_tables.tables_initializer()))
        self._saver = _part(saver, keys.SAVERS, lambda: (
            saver_lib.Saver() if variables.global_variables() else None))
        self._summary_op = _part(summary_op, keys.SUMMARY_OP, summary_functions.merge_all)
        self._global_step = _part(global_step, keys.GLOBAL_STEP, _named_global_step)

    def _check_devices(self):
        if self._is_chief:
            return
        for op in self._graph.get_operations():
            if op.type in ("Variable", "VariableV2") and not op.device:
                raise ValueError("When using replicas, all Variables must have their device set: "
                                 f"{op.name}")

    @property
    def is_chief(self):
        """Whether this one initialises, saves and writes."""
        return self._is_chief

    @property
    def session_manager(self):
        """The SessionManager."""
        return self._session_manager

    @property
    def coord(self):
        """The tf.train.Coordinator of the threads."""
        return self._coord

    @property
    def init_op(self):
        """What initialises the model."""
        return self._init_op

    @property
    def init_feed_dict(self):
        """What init_op is fed."""
        return self._init_feed_dict

    @property
    def ready_op(self):
        """Names of variables without values."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self):
        """The same, before local_init_op."""
        return self._ready_for_local_init_op

    @property
    def summary_writer(self):
        """The tf.summary.FileWriter, or None."""
        return self._summary_writer

    @property
    def summary_op(self):
        """What the summary thread runs."""
        return self._summary_op

    @property
    def save_summaries_secs(self):
        """Seconds between summaries."""
        return self._save_summaries_secs

    @property
    def global_step(self):
        """The global step, or None."""
        return self._global_step

    @property
    def saver(self):
        """The tf.train.Saver, or None."""
        return self._saver

    @property
    def save_model_secs(self):
        """Seconds between checkpoints."""
        return self._save_model_secs

    @property
    def save_path(self):
        """Where checkpoints go, without the step."""
        return self._save_path

    # -------------------------------------------------------------------------------- sessions
    def prepare_or_wait_for_session(self, master="", config=None, wait_for_checkpoint=False,
                                    max_wait_secs=7200, start_standard_services=True):
        """A Session that is ready: restored or initialised by the chief, waited for by others.

        start_standard_services: the threads of summaries, steps and checkpoints (the chief's), and
        the queue runners."""
        self._coord.clear_stop()
        if self._summary_writer:
            self._summary_writer.reopen()
        if self._is_chief:
            sess = self._session_manager.prepare_session(
                master, init_op=self._init_op, saver=self._saver, checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint, max_wait_secs=max_wait_secs,
                config=config, init_feed_dict=self._init_feed_dict, init_fn=self._init_fn)
            self._write_graph()
            if start_standard_services:
                self.start_standard_services(sess)
        else:
            sess = self._session_manager.wait_for_session(master, config=config,
                                                          max_wait_secs=max_wait_secs)
        if start_standard_services:
            self.start_queue_runners(sess)
        return sess

    @contextlib.contextmanager
    def managed_session(self, master="", config=None, start_standard_services=True,
                        close_summary_writer=True):
        """Context with a Session that is ready; at its end threads stop and it is closed.

        What the block or a thread raised is raised, but for OutOfRangeError, which is an end."""
        sess = None
        try:
            sess = self.prepare_or_wait_for_session(
                master=master, config=config, start_standard_services=start_standard_services)
            yield sess
        except Exception as error:
            self.request_stop(error)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if sess is not None:
                    sess.close()

    def start_standard_services(self, sess):
        """The started threads of summaries, steps per second and checkpoints.

        RuntimeError where it is not the chief; None, and a warning, without logdir."""
        if not self._is_chief:
            raise RuntimeError("Only chief supervisor can start standard services. Because only "
                               "chief supervisors can write events.")
        if not self._logdir:
            _log.warning("Standard services need a 'logdir' passed to the SessionManager")
            return None
        if self._global_step is not None and self._summary_writer:
            self._say(sess, protos.SessionLog.START)
        threads = []
        if self._save_summaries_secs and self._summary_writer:
            if self._summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self._saver and self._save_model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    def _say(self, sess, status, path=""):
        self._summary_writer.add_session_log(
            protos.SessionLog(status=status, checkpoint_path=path),
            training_util.global_step(sess, self._global_step))

    def start_queue_runners(self, sess, queue_runners=None):
        """The started threads of the runners, default those of QUEUE_RUNNERS."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [thread for runner in queue_runners for thread in
                runner.create_threads(sess, coord=self._coord, daemon=True, start=True)]

    def _write_graph(self):
        if self._logdir:
            meta_graph.write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir,
                                   "graph.pbtxt")
        if self._summary_writer and not self._graph_written:
            self._summary_writer.add_graph(self._graph)
            self._summary_writer.add_meta_graph(meta_graph.export_meta_graph(
                graph=self._graph, saver_def=self._saver.saver_def if self._saver else None,
                collection_list=[]))
            self._graph_written = True

    # ------------------------------------------------------------------------------- stopping
    def loop(self, timer_interval_secs, target, args=None, kwargs=None):
        """A started LooperThread that calls target(*args) every timer_interval_secs."""
        return coordinator.LooperThread.loop(self._coord, timer_interval_secs, target, args, kwargs)

    def stop(self, threads=None, close_summary_writer=True, ignore_live_threads=False):
        """Stops and joins the threads, and raises what one of them did."""
        self._coord.request_stop()
        try:
            self._coord.join(threads, stop_grace_period_secs=self._stop_grace_secs,
                             ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self._summary_writer:
                self._summary_writer.add_session_log(
                    protos.SessionLog(status=protos.SessionLog.STOP))
                self._summary_writer.close()
                self._graph_written = False

    def request_stop(self, ex=None):
        """As Coordinator.request_stop."""
        self._coord.request_stop(ex=ex)

    def should_stop(self):
        """As Coordinator.should_stop."""
        return self._coord.should_stop()

    def stop_on_exception(self):
        """As Coordinator.stop_on_exception."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self):
        """Returns when a stop was asked for."""
        self._coord.wait_for_stop()

    def summary_computed(self, sess, summary, global_step=None):
        """Writes a summary of `global_step`, default the current one. RuntimeError without a
        writer."""
        if not self._summary_writer:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._global_step is not None:
            global_step = training_util.global_step(sess, self._global_step)
        self._summary_writer.add_summary(summary, global_step)

    # names of TensorFlow 0.x
    PrepareSession, StartQueueRunners = prepare_or_wait_for_session, start_queue_runners
    StartStandardServices, Stop, RequestStop = start_standard_services, stop, request_stop
    Loop, ShouldStop, StopOnException = loop, should_stop, stop_on_exception
    WaitForStop, SummaryComputed = wait_for_stop, summary_computed


def _part(given, collection, make):
    """`given`, the first of the collection, or what `make` makes, which joins it."""
    if given is not USE_DEFAULT and not (isinstance(given, int) and given == USE_DEFAULT):
        return given
    found = ops.get_collection(collection)
    if found:
        return found[0]
    made = None if make is None else make()
    if made is not None:
        ops.add_to_collection(collection, made)
    return made


def _named_global_step():
    try:
        found = ops.get_default_graph().get_tensor_by_name("global_step:0")
    except KeyError:
        return None
    if found.dtype.base_dtype.is_integer:
        return found
    _log.warning("Found 'global_step' is not an int type: %s", found.dtype)
    return None


class _Thread(coordinator.LooperThread):
    def __init__(self, sv, sess, seconds):
        super().__init__(sv.coord, seconds)
        self._sv, self._sess = sv, sess


class SVSummaryThread(_Thread):
    """Writes summaries every save_summaries_secs."""

    def __init__(self, sv, sess):
        super().__init__(sv, sess, sv.save_summaries_secs)

    def run_loop(self):
        """One summary."""
        step = self._sv.global_step
        asked = [self._sv.summary_op] if step is None else [self._sv.summary_op, step]
        values = self._sess.run(asked)
        if self._sv.summary_writer:
            self._sv.summary_writer.add_summary(values[0], None if step is None else values[1])


class SVStepCounterThread(_Thread):
    """Writes steps per second every save_summaries_secs."""

    def __init__(self, sv, sess, step_counter=None):
        super().__init__(sv, sess, sv.save_summaries_secs)
        self._counter = sv.global_step if step_counter is None else step_counter
        self._tag = f"{self._counter.op.name}/sec"

    def start_loop(self):
        """Begins to count."""
        self._time, self._step = time.time(), training_util.global_step(self._sess, self._counter)

    def run_loop(self):
        """One rate."""
        step, now = training_util.global_step(self._sess, self._counter), time.time()
        elapsed = now - self._time
        rate = (step - self._step) / elapsed if elapsed > 0 else float("inf")
        self._time, self._step = now, step
        if self._sv.summary_writer:
            self._sv.summary_writer.add_summary(protos.Summary(value=[protos.Summary.Value(
                tag=self._tag, simple_value=rate)]), step)


class SVTimerCheckpointThread(_Thread):
    """Saves a checkpoint every save_model_secs."""

    def __init__(self, sv, sess):
        super().__init__(sv, sess, sv.save_model_secs)

    def run_loop(self):
        """One checkpoint, with the random streams. Steps may run meanwhile: what they change while
        variables are read is in it or not, as in TF."""
        sv, step = self._sv, None
        if sv.global_step is not None:
            step = training_util.global_step(self._sess, sv.global_step)
            random_streams.save(self._sess, f"{sv.save_path}-{step}")
        sv.saver.save(self._sess, sv.save_path, global_step=step)
        random_streams.remove_stale(sv.saver.last_checkpoints)
        if sv.summary_writer and step is not None:
            sv._say(self._sess, protos.SessionLog.CHECKPOINT, sv.save_path)


PUBLIC = {"train.Supervisor": Supervisor}
