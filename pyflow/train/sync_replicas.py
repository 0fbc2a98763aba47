"""SyncReplicasOptimizer: replicas compute gradients at once, and one step is made of their mean.

    replica   apply_grad(local_step) for each variable -> waits for the step after -> local_step
    chief     take_grad(replicas_to_aggregate) of each -> the wrapped optimizer's step, global_step
              += 1 -> lets the replicas through

Replicas that are tasks of a cluster (their device names one, or `task` does) wait at a GATE
(lib/queue/step_gate.py), and each gradient names its task; others, as threads of one session, and
those that give several gradients a step, wait for TensorFlow's tokens.

Invariants
  1. A gradient whose local step is before its accumulator's is dropped, without an error: of
     total_num_replicas the first replicas_to_aggregate count, the others are backups.
  2. Replicas' accumulators, gate and queue are the same by shared name ("W:0/grad_accum",
     "sync_gate", "sync_token_q"), whatever graph each builds, as far as their sessions share state;
     a group's begin with its name.
  3. With a gate, a step takes each task's (or shard's) first gradient alone and sums them in the
     order of tasks (shards): who came when changes no bit, nor does a replica that was restarted
     and gives its gradient again.
  4. With a gate, nothing that was computed before the chief began, or began anew, counts.
  5. With a gate, a step's update begins when all gradients of all variables are there: a replica
     that was restarted in the midst of giving its own finds the variables as they were.
  6. The chief's part runs in a thread, through get_chief_queue_runner or the hook.
  7. At a gate a chief that ends lets the others through first, to the step whose update they may
     see: else they would wait for ever for a step that nobody takes.
  8. With tokens, how old a gradient is counts in its group's own steps: a group whose replicas
     begin while others train would drop what they give first, and wait for ever.

Threads: graphs are built by one; replicas' steps may run from any.  Source: TF 1.15,
training/sync_replicas_optimizer.py; Chen et al. 2016 (arXiv:1604.00981).

Example:
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1),
                                               replicas_to_aggregate=2, total_num_replicas=2)
    train = optimizer.minimize(loss, global_step=step)
    hooks = [optimizer.make_session_run_hook(is_chief=True)]
"""
import contextlib
import dataclasses
import logging
import threading
import time
import typing

from pyflow.framework import device as device_lib
from pyflow.framework import dtypes, protos
from pyflow.framework import graph as ops
from pyflow.framework.graph import GraphKeys, IndexedSlices
from pyflow.lib.array import array_functions, identity_functions
from pyflow.lib.control_flow import grouping
from pyflow.lib.queue import accumulators, queues, step_gate
from pyflow.lib.variables import state_functions, variables
from pyflow.ops.base import tensors
from pyflow.ops.control import control_flow_ops
from pyflow.train import queue_runners, session_manager
from pyflow.train.optimizer import Optimizer
from pyflow.train.session_run_hook import SessionRunHook

_log = logging.getLogger("pyflow")
_CHIEFS = ("chief", "master")
STEPS = (1 << step_gate.STEP_BITS) - 1          # what of a label is the step
SETTLES = 5.0                   # seconds until a chief knows of an update that is to be seen


def _accumulator_of(grad, var, prefix):
    """The accumulator of a variable's gradients; None where there are none. prefix: of its
    shared name."""
    shared_name = f"{prefix}{var.name}/grad_accum"
    if grad is None:
        return None
    if isinstance(grad, IndexedSlices):
        return accumulators.SparseConditionalAccumulator(grad.dtype, shape=(),
                                                         shared_name=shared_name)
    if not isinstance(grad, ops.Tensor):
        raise ValueError(f"Unknown grad type! {grad!r} of {var.name}: expected a Tensor, "
                         "IndexedSlices or None")
    return accumulators.ConditionalAccumulator(grad.dtype, shape=var.get_shape(),
                                               shared_name=shared_name)


def _all_at_once(means):
    """The same once all are there: no variable changes while a gradient of its step is missing,
    which somebody may yet have to compute with it."""
    means = [(_passed(mean), var) for mean, var in means]
    flat = [part for mean, _ in means for part in tensors_of(mean)]
    with ops.control_dependencies([part.op for part in flat]):
        return [(_passed(mean), var) for mean, var in means]


def tensors_of(gradient):
    """The tensors of a Tensor, IndexedSlices or None."""
    if not isinstance(gradient, IndexedSlices):
        return [] if gradient is None else [gradient]
    return [part for part in (gradient.values, gradient.indices, gradient.dense_shape)
            if part is not None]


def _passed(mean):
    if mean is None:
        return None
    if not isinstance(mean, IndexedSlices):
        with ops.device(mean.device):
            return identity_functions.identity(mean)
    with ops.device(mean.values.device):
        parts = [None if part is None else identity_functions.identity(part) for part in
                 (mean.values, mean.indices, mean.dense_shape)]
        return IndexedSlices(*parts)


def source_of(device):
    """The number that a replica's gradients are summed by: that of its task, -1 for a job chief or
    master, which comes first; None where the device names no task."""
    spec = device_lib.parsed(device or "")
    if spec.job is None or spec.task is None:
        return None
    return -1 if spec.job in _CHIEFS else spec.task


@dataclasses.dataclass(frozen=True)
class Boundary:
    """What a chief's graph does between two steps, for who moves the parameters then.

    global_step, label: the variables of the step that is made, and of the chief's own count.
    taken: [(mean of a step's gradients or None, variable)].  apply: the operation that applies them;
    update: takes and applies them, and counts; restart: begins the step anew."""

    global_step: typing.Any
    label: typing.Any
    taken: tuple
    apply: ops.Operation
    update: ops.Operation
    restart: ops.Operation


class SyncReplicasOptimizer(Optimizer):
    """An optimizer around another that waits for gradients of several replicas.
    TF: tf.train.SyncReplicasOptimizer."""

    def __init__(self, opt, replicas_to_aggregate, total_num_replicas=None, variable_averages=None,
                 variables_to_average=None, use_locking=False, name="sync_replicas", task=None,
                 shards=0, group=""):
        """opt: the optimizer that takes the steps. replicas_to_aggregate: gradients per step.
        total_num_replicas: default as many; more are backups, with fewer each replica computes
        several per step. variable_averages: an ExponentialMovingAverage, kept by the chief, of
        variables_to_average.

        task: which replica this is, 0 and up; default: the task of the device that operations get
            here, as from replica_device_setter(worker_device="/job:worker/task:1").
        shards: a step is the mean of so many gradients, whichever replicas are there to compute
            them: `position` says for which shard of which step each has to. ValueError unless
            replicas_to_aggregate is the same.
        group: a name. Replicas of one group take steps together, with a chief of their own (the
            hook's is_chief); groups do so asynchronously, on the same variables, slots and global
            step. The wrapped optimizer needs use_locking=True if no update may be lost."""
        super().__init__(use_locking, name)
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        _log.info("SyncReplicas: replicas_to_aggregate=%s; total_num_replicas=%s",
                  replicas_to_aggregate, total)
        if shards and shards != replicas_to_aggregate:
            raise ValueError(f"a step of {shards} shards aggregates as many gradients: "
                             f"replicas_to_aggregate is {replicas_to_aggregate}")
        self._opt, self._averages, self._averaged = opt, variable_averages, variables_to_average
        self._replicas_to_aggregate, self._total_num_replicas = replicas_to_aggregate, total
        self._tokens_per_step = max(total, replicas_to_aggregate)
        self._task, self._shards = task, shards
        self._prefix = f"{group}/" if group else ""         # of shared names
        self._gradients_applied = False
        self._global_step = self._local_step = self._sync_token_queue = self._group_step = None
        self._local_source = self._chief_label = self._gate = self._owner = None
        self._update_op = self._open_op = self._generation = self._position = None
        self._taken, self._applied_op, self._restart_op = (), None, None
        self._chief_queue_runner = self.chief_init_op = self.local_step_init_op = None
        self.ready_for_local_init_op = None
        self._accumulator_list = []              # (accumulator, its variable's device)

    def compute_gradients(self, *args, **kwargs):
        """As of the wrapped optimizer; this replica's own gradients."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """The operation of a replica's step: gives its gradients and waits for the chief's step.

        ValueError without pairs or without a global_step. Sets chief_init_op, local_step_init_op
        and ready_for_local_init_op, which the hook or a Supervisor runs."""
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        anchor = control_flow_ops.NoOp(name="local_anchor")     # on the replica's own device
        anchor._set_attr("_own_task", protos.AttrValue(b=True))     # without one: its session's
        self._owner = source_of(anchor.device) if self._task is None else self._task
        if self._shards and self._owner is None:
            self._owner = 0
        with_gate = self._shards or (self._owner is not None and
                                     self._replicas_to_aggregate <= self._total_num_replicas)
        with ops.colocate_with(anchor):
            self._local_variables(with_gate)
        self.ready_for_local_init_op = variables.report_uninitialized_variables(
            variables.global_variables())
        with ops.name_scope(name, self._name):
            if with_gate:
                train_op = self._apply_at_gate(pairs)
            else:
                train_op = self._apply_with_tokens(pairs)
        self._gradients_applied = True
        return train_op

    def _local_variables(self, with_gate):
        """On the replica's device: its step and, with a gate, what it computes, and the chief's."""
        def local(name, value, dtype):
            return variables.Variable(tensors.cast(value, dtype), trainable=False, name=name,
                                      collections=[GraphKeys.LOCAL_VARIABLES])
        dtype = self._global_step.dtype.base_dtype
        self._local_step = local("sync_rep_local_step", 0, dtype)
        if not with_gate:
            if self._prefix:                    # the chief's: others' steps count for global_step
                self._group_step = local("sync_rep_group_step", 0, dtype)
            return
        self._local_label = local("sync_rep_local_label", -1, dtypes.int64)
        self._local_source = local("sync_rep_local_source", -1, dtypes.int64)
        self._chief_label = local("sync_rep_chief_step", -1, dtypes.int64)

    def _accumulated(self, pairs):
        """([operation that gives a gradient], [(mean gradient, variable)])."""
        given, means = [], []
        for grad, var in pairs:
            mean = None
            with ops.device(var.device):
                accumulator = _accumulator_of(grad, var, self._prefix)
                if accumulator is not None:
                    self._accumulator_list.append((accumulator, var.device))
                    applied, mean = self._of_accumulator(accumulator, grad)
                    given.append(applied)
            means.append((mean, var))
        return given, means

    def _of_accumulator(self, accumulator, grad):
        """(operation that gives a gradient, the mean)."""
        needed = self._replicas_to_aggregate
        if self._gate is not None:
            return (accumulator._apply_from(grad, self._local_label, self._local_source),
                    accumulator._take_at(needed, self._chief_label))
        if isinstance(grad, IndexedSlices):
            return (accumulator.apply_indexed_slices_grad(grad, local_step=self._local_step),
                    accumulator.take_indexed_slices_grad(needed))
        return (accumulator.apply_grad(grad, local_step=self._local_step),
                accumulator.take_grad(needed))

    # ------------------------------------------------------------ at a gate

    def _apply_at_gate(self, pairs):
        step = self._global_step
        with ops.device(step.device), ops.name_scope(""):
            self._gate = step_gate.StepGate(self._prefix + "sync_gate", self._shards,
                                            name="sync_gate")
        given, self._taken = self._accumulated(pairs)
        means = _all_at_once(self._taken)
        with ops.device(step.device), ops.name_scope(""):
            update = self._opt.apply_gradients(means, step)
            with ops.control_dependencies(given):
                after = self._gate.next(self._local_label, self._local_source, self._owner)
            self._chiefs_part(update)
            first = self._gate.next(-1, -1, self._owner)
        self._position = step_gate.step_of(self._local_label.value()), self._local_source.value()
        train_op = self._set_local(*after)
        self.local_step_init_op = grouping.group(       # all of a replica's local variables
            self._set_local(*first), self._chief_label.initializer)
        self._begin_op()
        return train_op

    def _set_local(self, label, source):
        """The step, once this replica's next work is set."""
        step = step_gate.step_of(label)
        shown = tensors.cast(step, self._local_step.dtype.base_dtype)
        with ops.control_dependencies([state_functions.assign(self._local_label, label),
                                       state_functions.assign(self._local_source, source),
                                       state_functions.assign(self._local_step, shown)]):
            return identity_functions.identity(step)

    def _chiefs_part(self, update):
        """The chief's step, in two operations: the update, and letting replicas through."""
        if self._averages is not None:
            with ops.control_dependencies([update]):
                update = self._averages.apply(self._averaged)
        self._applied_op = update
        with ops.control_dependencies([update]):
            label = self._chief_label.assign_add(1)
        self._update_op = label.op
        with ops.control_dependencies([self._update_op]):
            both = self._gate.open(label)
        self._open_op = self._gate.open(self._chief_label)
        self._sync_token_queue = queues.FIFOQueue(
            -1, self._global_step.dtype.base_dtype, shapes=(), name="sync_token_q",
            shared_name=self._prefix + "sync_token_q")
        self._chief_queue_runner = queue_runners.QueueRunner(self._sync_token_queue, [both])

    def _begin_op(self):
        """Makes chief_init_op: a generation begins at the global step."""
        self._generation = identity_functions.placeholder_with_default(
            tensors.cast(-1, dtypes.int64), shape=(), name="generation")
        with ops.device(self._global_step.device), ops.name_scope(""):
            label = self._gate.begin(self._global_step, self._generation)
        ready = [state_functions.assign(self._chief_label, label)]
        ready += self._accumulators_at(label)
        with ops.control_dependencies(ready), ops.device(self._global_step.device):
            opened = self._gate.open(label)
        self._restart_op = opened.op if isinstance(opened, ops.Tensor) else opened
        with ops.control_dependencies([opened]), ops.device(self._global_step.device), \
                ops.name_scope(""):
            first = self._gate.next(-1, -1, self._owner)
        self.chief_init_op = self._set_local(*first).op

    @property
    def boundary(self):
        """The Boundary, after apply_gradients, where replicas have a gate."""
        return Boundary(self._global_step, self._chief_label, tuple(self._taken), self._applied_op,
                        self._update_op, self._restart_op)

    @property
    def group(self):
        """The name of its group of replicas, which has a chief of its own; "": there is one."""
        return self._prefix.rstrip("/")

    @property
    def position(self):
        """(step, source), int64 scalars: what this replica computes now. source: its task's number
        or, with shards, the shard. None before apply_gradients, and for replicas without a
        gate."""
        return self._position

    # ------------------------------------------------------------ tokens

    def _apply_with_tokens(self, pairs):
        step = self._global_step
        if self._group_step is None:
            self.local_step_init_op = state_functions.assign(self._local_step, step)
        else:                                   # its first gradient is never late
            self.local_step_init_op = state_functions.assign(self._local_step, step.dtype.max)
        given, means = self._accumulated(pairs)
        with ops.device(step.device), ops.name_scope(""):
            update = self._opt.apply_gradients(means, step)
            if self._group_step is not None:
                with ops.control_dependencies([update]):
                    update = self._group_step.assign_add(1).op
            train_op = self._tokens(given, update)
        began = [self.local_step_init_op]
        if self._group_step is None:
            began += self._accumulators_at(step)
        else:
            began += [self._group_step.initializer,
                      *self._accumulators_at(tensors.cast(0, step.dtype.base_dtype))]
        self.chief_init_op = grouping.group(*began)
        return train_op

    def _tokens(self, given, update):
        """The replica's operation; makes the queue of tokens and the chief's runner."""
        step = self._global_step if self._group_step is None else self._group_step
        queue = self._sync_token_queue = queues.FIFOQueue(
            -1, step.dtype.base_dtype, shapes=(), name="sync_token_q",
            shared_name=self._prefix + "sync_token_q")
        with ops.control_dependencies(given):
            token = queue.dequeue()
        train_op = state_functions.assign(self._local_step, token)
        with ops.control_dependencies([update]):
            sync = queue.enqueue_many((array_functions.fill([self._tokens_per_step], step),))
        if self._averages is not None:
            with ops.control_dependencies([sync]):
                sync = self._averages.apply(self._averaged)
        self._chief_queue_runner = queue_runners.QueueRunner(queue, [sync])
        return train_op

    def _accumulators_at(self, step):
        found = []
        for accumulator, device in self._accumulator_list:
            with ops.device(device):
                found.append(accumulator.set_global_step(step, name="SetGlobalStep"))
        return found

    def get_chief_queue_runner(self):
        """The QueueRunner that takes the steps; one replica, the chief, starts it. ValueError
        before apply_gradients."""
        self._require_applied("get_chief_queue_runner()")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens=-1):
        """The operation that puts the first tokens into the queue, once, by the chief; replicas at
        a gate need none.

        num_tokens: default replicas_to_aggregate. ValueError before apply_gradients, or for fewer
        than replicas_to_aggregate - total_num_replicas, with which the first step would wait for
        ever."""
        self._require_applied("get_init_tokens_op()")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(f"Too few tokens to finish the first step: {num_tokens} (given) vs "
                             f"{needed} (needed)")
        with ops.device(self._global_step.device), ops.name_scope(""):
            if num_tokens <= 0:
                return control_flow_ops.NoOp(name="no_init_tokens")
            return self._sync_token_queue.enqueue_many(
                (array_functions.fill([num_tokens], self._global_step if self._group_step is None
                                      else self._group_step),))

    def make_session_run_hook(self, is_chief, num_tokens=-1):
        """The hook that initialises a session for this optimizer and, as the chief, runs the
        steps. num_tokens: as of get_init_tokens_op."""
        return _SyncReplicasOptimizerHook(self, is_chief, num_tokens)

    def get_slot(self, *args, **kwargs):
        """As of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        """As of the wrapped optimizer."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self):
        """The wrapped optimizer's variables."""
        return self._opt.variables()

    def _require_applied(self, what):
        if not self._gradients_applied:
            raise ValueError(f"{what} should be called after apply_gradients().")

    def _no_step(self, *unused):
        raise TypeError(f"{self._name} takes no steps itself; its wrapped optimizer does")

    _apply_dense = _resource_apply_dense = _no_step
    _apply_sparse = _resource_apply_sparse = _no_step


class _SyncReplicasOptimizerHook(SessionRunHook):
    """What make_session_run_hook gives.

    generation: function() -> the least number of the generation that the chief begins, or None.
    before_step: functions(session, global step) that the chief calls between a step's update and
    letting the replicas through: at a gate no variable changes meanwhile.
    take: function(session) that takes a step's gradients and updates the variables, at a gate."""

    def __init__(self, sync_optimizer, is_chief, num_tokens):
        self._optimizer, self._is_chief, self._num_tokens = sync_optimizer, is_chief, num_tokens
        self._init_op = self._tokens_op = self._runner = None
        self._thread, self._cond = None, threading.Condition()
        self._opened, self._at_boundary = -1, False     # the step that replicas were let through to
        self.generation, self.before_step = None, []
        self.take = lambda session: session.run(sync_optimizer._update_op)

    def begin(self):
        """Takes the optimizer's operations. ValueError before apply_gradients."""
        optimizer = self._optimizer
        if not optimizer._gradients_applied:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using "
                             "the hook.")
        self._init_op = optimizer.local_step_init_op
        if self._is_chief:
            self._init_op = optimizer.chief_init_op
            self._runner = optimizer.get_chief_queue_runner()
            self._tokens_op = optimizer.get_init_tokens_op(self._num_tokens)

    def after_create_session(self, session, coord):
        """Initialises, puts the first tokens, starts the chief's thread. RuntimeError while
        variables have no values."""
        ready, why = session_manager._ready(
            self._optimizer.ready_for_local_init_op, session,
            "Model is not ready for SyncReplicasOptimizer local init.")
        if not ready:
            raise RuntimeError("Init operations did not make model ready for SyncReplicasOptimizer "
                               f"local_init. Init op: {self._init_op.name}, error: {why}")
        if self._optimizer._gate is not None:
            self._at_gate(session, coord)
            return
        session.run(self._init_op)
        if self._tokens_op is not None:
            session.run(self._tokens_op)
        if self._runner is not None:
            for thread in self._runner.create_threads(session, coord=coord, daemon=True,
                                                      start=True):
                coord._unregister_thread(thread)       # it waits for gradients to the last

    def _at_gate(self, session, coord):
        if self._is_chief:
            least = None if self.generation is None else self.generation()
            session.run(self._init_op,
                        None if least is None else {self._optimizer._generation: least})
            self._note(session.run(self._optimizer._chief_label))
            self._thread = threading.Thread(target=self._take_steps, args=(session, coord),
                                            daemon=True, name="pyflow-sync-steps")
            self._thread.start()
        else:
            session.run(self._init_op)

    def _note(self, label):
        """Replicas were let through to the step of a label."""
        with self._cond:
            self._opened, self._at_boundary = int(label) & STEPS, False
            self._cond.notify_all()

    def _take_steps(self, session, coord):
        """The chief's steps, until the session ends.  A failure is the coordinator's, and ends the
        replica's own run, which may wait for a step that will not come."""
        optimizer = self._optimizer
        try:
            while not coord.should_stop():
                self.take(session)
                self._at_boundary = True
                if self.before_step:
                    step = int(session.run(optimizer._global_step))
                    for call in self.before_step:
                        call(session, step)
                self._note(session.run([optimizer._open_op, optimizer._chief_label])[1])
        except Exception as failure:
            if coord.should_stop():
                return                          # the session is being closed
            with contextlib.suppress(Exception):        # raised here if somebody was quicker
                coord.request_stop(failure)
            session.close()

    def end(self, session):
        """The chief's: a step of which the update is there is ended, too, before the session is
        closed: what is called at its boundary, and the others are let through.  Who looks at the
        global step, as StopAtStepHook does, may see it before."""
        if self._thread is None:
            return
        optimizer, until = self._optimizer, time.monotonic() + SETTLES
        label = optimizer._chief_label if optimizer._prefix else optimizer._global_step
        seen = int(session.run(label)) & STEPS
        with self._cond:
            while self._thread.is_alive() and self._opened < seen and (
                    self._at_boundary or time.monotonic() < until):
                self._cond.wait(0.1)            # a thread that fails tells nobody


PUBLIC = {"train.SyncReplicasOptimizer": SyncReplicasOptimizer}
