"""Training between-graph, with recovery: sessions whose steps are the same however often a process
dies.

    chief    begins a generation -> restores the newest committed checkpoint -> takes the steps,
             and commits each save_steps-th before anybody computes the next
    worker   waits until the model is there -> computes what the gate gives it, step by step
    keeper   where the parameters are, if they may come to be elsewhere (standby.py, resharding.py)
    all      input and random numbers are functions of (seed, step, source): nothing else is kept

An asynchronous training has no gate and no generations.  Each task that has variables has a mark
then, set once they are whole; a chief that finds all marks set goes on with what is there, and
workers wait for them.

Invariants
1. Of a synchronous training the variables at step N are those of any other run of N steps, bit by
   bit, whatever was killed meanwhile; without backup workers.
2. A checkpoint is of a step's boundary, and counts once it is committed (commits.py).
3. The loss of a worker costs the others neither session nor plans; the loss of a parameter server
   takes the training back to the newest committed checkpoint, as does that of the chief if it is
   synchronous; with a standby the loss of a parameter server does not.
4. Of an asynchronous training no step is lost but by the loss of a parameter server.

Threads: the one that trains, and the chief's of steps (train/sync_replicas.py).
Callers: programs; examples/distributed/digits.py.

    with training_session(server, is_chief, sync=optimizer, checkpoint_dir="run", last_step=1000,
                          feed=lambda step, source: {x: batch(step, source)}) as sess:
        while not sess.should_stop():
            sess.run(train_op)
"""
import hashlib
import logging
import os
import re
import shutil
import time

import numpy as np

from pyflow.distributed.train import commits, layouts, resharding
from pyflow.distributed.train import standby as standby_lib
from pyflow.framework import errors
from pyflow.framework import graph as ops
from pyflow.lib.variables import state_functions, variables
from pyflow.session import Session, random_state
from pyflow.train import checkpoint, training_util
from pyflow.train import hooks as hook_lib
from pyflow.train import monitored_session as monitored
from pyflow.train import session_manager
from pyflow.train.scaffold import Scaffold
from pyflow.train.session_run_hook import SessionRunArgs, SessionRunHook

_LOOK = 0.1                     # seconds between looks whether the variables are whole
_log = logging.getLogger("pyflow.distributed")


def training_session(server, is_chief, sync=None, feed=None, checkpoint_dir=None, save_steps=100,
                     last_step=None, epoch=0, job="", keep=5, scaffold=None, hooks=(),
                     chief_only_hooks=(), on_step=(), config=None, deterministic=False,
                     max_wait_secs=7200, standby=None, compare_steps=100, ps_tasks=None):
    """A MonitoredSession that trains at a server of this process.

    server: the tf.train.Server. is_chief: whether this task initialises, restores and saves.
    sync: the SyncReplicasOptimizer, after apply_gradients; None trains asynchronously.
    feed: function(step, source) -> feed_dict of this replica's run; source is its task's number or,
        with shards, the shard. What it gives must depend on these alone, as must all random
        numbers: those of operations with seeds do. Without sync: (global step, task).
    checkpoint_dir: a folder all chiefs reach; committed checkpoints of every save_steps-th step and
        of last_step are kept there, the newest `keep`. None: nothing survives.
    epoch, job: of `launch.task()`, against a process that was replaced and goes on.
    on_step: functions(session, step) that a synchronous training's chief calls at each step's
        boundary, after the checkpoint if there is one: no variable changes meanwhile.
    last_step: at this global step it stops. deterministic: as of tf.Session.
    standby: the name of a job whose tasks stand by for the parameter servers, in all processes'
        calls (standby.py); every compare_steps steps it is compared. Needs sync.
    ps_tasks: how many parameter tasks the graph has (replica_device_setter(ps_tasks=)): the
        parameter servers that there are hold them, and they can move to more or fewer of them
        (resharding.py). In all processes' calls; needs sync, and no standby.
    The others: as of tf.train.MonitoredTrainingSession.

    Raises ValueError for a standby that the cluster lacks, or without sync; OSError where is_chief
    and checkpoint_dir's folder cannot be made."""
    moves = _moves(sync, standby, ps_tasks)
    scaffold = scaffold or Scaffold()
    marks = None if sync is not None else _Marks(job)
    made, options = [_Position(sync, feed, server)], {"deterministic": deterministic}
    if last_step is not None:
        made.append(hook_lib.StopAtStepHook(last_step=last_step))
    if not is_chief:
        if sync is not None:
            made.append(sync.make_session_run_hook(False, num_tokens=0))
        followed = layouts.Followed(server, max_wait_secs) if moves else None
        creator = _Worker(scaffold, server.target, config, max_wait_secs, options, marks, followed)
        return monitored.MonitoredSession(creator, [*made, *hooks])
    store = None
    if checkpoint_dir is not None:
        os.makedirs(checkpoint_dir, exist_ok=True)
        store = commits.CheckpointFolder(checkpoint_dir, epoch=epoch, job=job, keep=keep)
    creator = _Chief(scaffold, server.target, config, store, options, marks)
    if moves:
        graph = ops.get_default_graph()
        creator.keeper = (
            standby_lib.Standby(server, sync, graph, standby, compare_steps, config, options)
            if standby is not None else
            resharding.Resharding(server, sync, graph, ps_tasks, config, options))
    saving = _Commits(creator, store, save_steps, last_step, sync is not None)
    made.append(saving)
    if sync is not None:
        hook = sync.make_session_run_hook(True, num_tokens=0)
        hook.generation = creator.generation
        hook.before_step += [saving.at_step, *on_step]
        if moves:
            hook.take = creator.keeper.take
            made.append(_Keeps(creator, hook))
        made.append(hook)
    return monitored.MonitoredSession(creator, [*made, *chief_only_hooks, *hooks])


def _moves(sync, standby, ps_tasks):
    """Whether the parameters may come to be elsewhere.  Raises ValueError where they cannot."""
    if standby is None and ps_tasks is None:
        return False
    if standby is not None and ps_tasks is not None:
        raise ValueError("a training has a standby, or parameters that move (ps_tasks), not both")
    if sync is None:
        raise ValueError("standby and ps_tasks: only a synchronous training has a time between two "
                         "steps: give sync, a SyncReplicasOptimizer")
    _require_gate(sync)
    if sync.group:
        raise ValueError(f"the group {sync.group!r} has a chief of its own: parameters that "
                         "several chiefs change have no standby, and do not move")
    return True


def _require_gate(sync):
    if sync.position is None:
        raise ValueError("training_session: this SyncReplicasOptimizer's replicas wait for tokens, "
                         "not at a gate, and cannot be recovered exactly: put them on devices of "
                         "tasks (replica_device_setter), or give task=, and aggregate at most one "
                         "gradient of each")


def digest(prefix):
    """The sha256 (hex) of all variables of a checkpoint: names, types, shapes, bytes."""
    reader, found = checkpoint.CheckpointReader(prefix), hashlib.sha256()
    for name in sorted(reader.get_variable_to_shape_map()):
        value = np.asarray(reader.get_tensor(name))
        found.update(f"{name}:{value.dtype.str}:{value.shape};".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


# ---------------------------------------------------------------- sessions

class _Marks:
    """That the variables of each task are whole: those of an asynchronous training that began or
    was restored.  They are in no collection: nobody saves, initialises or waits for them but us."""

    def __init__(self, job):
        number = int.from_bytes(hashlib.sha256(job.encode()).digest()[:7], "big") | 1
        devices = sorted({v.device for v in variables.global_variables()})
        marks = []
        for device in devices:
            with ops.device(device):
                marks.append(variables.Variable(
                    np.int64(0), trainable=False, collections=[], name="training_mark"))
        self._are_there = [state_functions.is_variable_initialized(m) for m in marks]
        self._number, self._values = number, [m.value() for m in marks]
        self._clear = [m.initializer for m in marks]
        self._set = [state_functions.assign(m, np.int64(number)).op for m in marks]

    def are_set(self, sess):
        """Whether all are."""
        return all(sess.run(self._are_there)) and all(
            value == self._number for value in sess.run(self._values))

    def hold(self, sess, least):
        """All are set, and the training is not before step `least`."""
        step = training_util.get_global_step(sess.graph)
        return self.are_set(sess) and int(sess.run(step)) >= least

    def clear(self, sess):
        """Before anything is changed."""
        sess.run(self._clear)

    def set(self, sess):
        """All is there."""
        sess.run(self._set)


class _Chief(monitored.ChiefSessionCreator):
    """Sessions restored from the newest committed checkpoint, else initialised, always alike; an
    asynchronous training goes on with what is there."""

    recovery_wait_secs = 1

    def __init__(self, scaffold, master, config, store, options, marks):
        super().__init__(scaffold, master, config)
        self._store, self._options, self._marks = store, options, marks
        self.resumed, self.restored = None, False
        self.keeper, self.kept = None, False      # a Standby or a Resharding

    def create_session(self):
        """The Session."""
        self.scaffold.finalize()
        if self._store is not None:
            self.resumed = self._store.begin()
        if self.keeper is not None:
            self.master, self.kept = self.keeper.serve()
        return self.session_manager().prepare_session(
            self.master, config=self.config,
            init_fn=self._fill if not self.kept else lambda sess: None)

    def _fill(self, sess):
        """Gives the variables their values."""
        self.restored = self._marks is None or self.resumed is None or not self._marks.hold(
            sess, self.resumed.step)
        if not self.restored:
            return
        if self._marks is not None:
            self._marks.clear(sess)
        if self.resumed is None:
            self._initialise(sess)
        else:
            session_manager.restore(sess, self.scaffold.saver, self.resumed.prefix)
        if self._marks is not None:
            self._marks.set(sess)

    def _initialise(self, sess):
        """The same values whenever it is done: random streams begin anew, everywhere."""
        scaffold = self.scaffold
        init = sess.make_callable(scaffold.init_op, list(scaffold.init_feed_dict or ()))
        random_state.seek(sess, 0, everywhere=True)
        init(*(scaffold.init_feed_dict or {}).values())
        if scaffold.init_fn is not None:
            scaffold.init_fn(sess)

    def generation(self):
        """The least number of the generation that begins: the folder's epoch."""
        return None if self._store is None else self._store.epoch

    def new_session(self, target, graph, config):
        """With what the training says of its sessions."""
        return Session(target, graph=graph, config=config, **self._options)


class _Worker(monitored.WorkerSessionCreator):
    """Sessions that wait for the chief's model."""

    recovery_wait_secs = 1

    def __init__(self, scaffold, master, config, max_wait_secs, options, marks, followed):
        super().__init__(scaffold, master, config, max_wait_secs)
        self._options, self._marks, self._followed = options, marks, followed

    def create_session(self):
        """The Session; where the parameters are, if they may move."""
        if self._marks is not None:
            return self._once_whole(super().create_session())
        if self._followed is None:
            return super().create_session()
        self.scaffold.finalize()
        return self._followed.session(
            lambda target, seconds: self.session_manager().wait_for_session(
                target, config=self.config, max_wait_secs=seconds))

    def _once_whole(self, sess):
        """The session, once all variables are whole: some may be there, and others yet to be
        restored, where a parameter server was replaced."""
        until = time.monotonic() + self.max_wait_secs
        try:
            while not self._marks.are_set(sess):
                if time.monotonic() > until:
                    raise errors.DeadlineExceededError(
                        None, None, f"the chief did not make the variables in the "
                        f"{self.max_wait_secs} s of max_wait_secs")
                time.sleep(_LOOK)
        except BaseException:
            sess.close()
            raise
        return sess

    def new_session(self, target, graph, config):
        """With what the training says of its sessions; one of a layout, where parameters may
        move."""
        make = Session if self._followed is None else self._followed.opened
        return make(target, graph=graph, config=config, **self._options)


# ---------------------------------------------------------------- hooks

class _Position(SessionRunHook):
    """Before each run: random streams and feeds of what this replica computes now."""

    def __init__(self, sync, feed, server):
        self._sync, self._feed, self._server = sync, feed, server

    def begin(self):
        """Finds the tensors of the position."""
        if self._sync is not None:
            _require_gate(self._sync)
            self._at = self._sync.position
        else:
            self._at = None
            self._step = training_util.get_global_step()

    def before_run(self, run_context):
        if self._at is not None:
            step, source = (int(n) for n in run_context.session.run(self._at))
            random_state.seek(run_context.session, step, source + 1)
        elif self._feed is None:
            return None
        else:
            step = int(run_context.session.run(self._step))
            source = self._server.server_def.task_index
        return None if self._feed is None else SessionRunArgs(None, self._feed(step, source))


class _Commits(SessionRunHook):
    """The chief's checkpoints."""

    def __init__(self, creator, store, save_steps, last_step, is_sync):
        self._creator, self._store, self._every = creator, store, save_steps
        self._last, self._is_sync, self._saved = last_step, is_sync, None

    def begin(self):
        """Finds the global step."""
        self._step = training_util.get_global_step()

    def after_create_session(self, session, coord):
        """What begins without a checkpoint gets one, so that it begins once."""
        self._saved = None
        if self._creator.resumed is not None:
            self._saved = self._creator.resumed.step
        elif self._store is not None:
            self._save(session, int(session.run(self._step)))

    def at_step(self, session, step):
        """At a step's boundary."""
        if self._store is not None and (step % self._every == 0 or step == self._last):
            self._save(session, step)

    def before_run(self, run_context):
        return None if self._is_sync or self._store is None else SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        if self._is_sync or self._store is None:
            return
        step = int(run_values.results)
        if step // self._every > self._saved // self._every:
            self._save(run_context.session, int(run_context.session.run(self._step)))

    def end(self, session):
        if self._store is not None and not self._is_sync:
            step = int(session.run(self._step))
            if step != self._saved:
                self._save(session, step)

    def _save(self, session, step):
        self._creator.scaffold.saver.save(session, self._store.prefix(step),
                                           write_meta_graph=False, write_state=False)
        self._store.commit(step)
        self._saved = step
        _remove_unfinished(self._store)


class _Keeps(SessionRunHook):
    """Tells which task keeps the parameters of each session; makes the calls at the end of a step
    that an error cut short."""

    def __init__(self, creator, steps):
        self._creator, self._calls, self._seen = creator, list(steps.before_step), -1
        self._coord, self._steps = None, steps
        steps.before_step.append(self._note)

    def begin(self):
        """Finds the global step."""
        self._step = training_util.get_global_step()

    def _note(self, session, step):
        self._seen = step

    def after_create_session(self, session, coord):
        """The parameters are there, and do not change yet."""
        if self._creator.kept:
            step = int(session.run(self._step))
            for call in self._calls if step > self._seen else ():
                call(session, step)
        self._coord = coord
        self._creator.keeper.begin(session)

    def end(self, session):
        self._steps.end(session)            # before the keeper goes, whom its last step needs
        self._coord.request_stop()          # what the chief's thread says afterwards is no failure
        self._creator.keeper.close()


def _remove_unfinished(store):
    """Folders of shards whose checkpoint was not finished, because somebody died; none of a later
    epoch: who was frozen meanwhile has a successor, which may be at it."""
    pattern = re.compile(re.escape(store.name) + r"-[0-9]+\.e([0-9]+)_temp_[0-9a-f]+")
    for name in os.listdir(store.folder):
        found = pattern.fullmatch(name)
        if found and int(found[1]) <= store.epoch:
            shutil.rmtree(os.path.join(store.folder, name), ignore_errors=True)


PUBLIC = {}
