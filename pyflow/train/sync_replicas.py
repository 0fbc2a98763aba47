"""SyncReplicasOptimizer: replicas compute gradients at once, and one step is made of their mean.

    replica   apply_grad(local_step) for each variable -> waits for a token -> local_step = token
    chief     take_grad(replicas_to_aggregate) of each -> the wrapped optimizer's step, global_step
              += 1 -> as many tokens as replicas, each the new global step

Invariants
  1. A gradient whose local step is before its accumulator's is dropped, without an error: of
     total_num_replicas the first replicas_to_aggregate count, the others are backups.
  2. Replicas' accumulators and queue are the same by shared name ("W:0/grad_accum",
     "sync_token_q"), whatever graph each builds, as far as their sessions share state.
  3. The chief's part runs in a QueueRunner's thread, through get_chief_queue_runner or the hook.

Threads: graphs are built by one; replicas' steps may run from any.  Source: TF 1.15,
training/sync_replicas_optimizer.py; Chen et al. 2016 (arXiv:1604.00981).

Example:
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1),
                                               replicas_to_aggregate=2, total_num_replicas=2)
    train = optimizer.minimize(loss, global_step=step)
    hooks = [optimizer.make_session_run_hook(is_chief=True)]
"""
import logging

from pyflow.framework import graph as ops
from pyflow.framework.graph import GraphKeys, IndexedSlices
from pyflow.lib.array import array_functions
from pyflow.lib.control_flow import grouping
from pyflow.lib.queue import accumulators, queues
from pyflow.lib.variables import state_functions, variables
from pyflow.ops.control import control_flow_ops
from pyflow.train import queue_runners, session_manager
from pyflow.train.optimizer import Optimizer
from pyflow.train.session_run_hook import SessionRunHook

_log = logging.getLogger("pyflow")


class SyncReplicasOptimizer(Optimizer):
    """An optimizer around another that waits for gradients of several replicas.
    TF: tf.train.SyncReplicasOptimizer."""

    def __init__(self, opt, replicas_to_aggregate, total_num_replicas=None, variable_averages=None,
                 variables_to_average=None, use_locking=False, name="sync_replicas"):
        """opt: the optimizer that takes the steps. replicas_to_aggregate: gradients per step.
        total_num_replicas: default as many; more are backups, with fewer each replica computes
        several per step. variable_averages: an ExponentialMovingAverage, kept by the chief, of
        variables_to_average."""
        super().__init__(use_locking, name)
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        _log.info("SyncReplicas: replicas_to_aggregate=%s; total_num_replicas=%s",
                  replicas_to_aggregate, total)
        self._opt, self._averages, self._averaged = opt, variable_averages, variables_to_average
        self._replicas_to_aggregate, self._total_num_replicas = replicas_to_aggregate, total
        self._tokens_per_step = max(total, replicas_to_aggregate)
        self._gradients_applied = False
        self._global_step = self._local_step = self._sync_token_queue = None
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
        self._local_step = variables.Variable(
            0, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES],
            dtype=global_step.dtype.base_dtype, name="sync_rep_local_step")
        self.local_step_init_op = state_functions.assign(self._local_step, global_step)
        self.ready_for_local_init_op = variables.report_uninitialized_variables(
            variables.global_variables())
        with ops.name_scope(name, self._name):
            given, means = self._accumulated(pairs)
            with ops.device(global_step.device), ops.name_scope(""):
                update = self._opt.apply_gradients(means, global_step)
                train_op = self._tokens(given, update)
            self.chief_init_op = grouping.group(
                self.local_step_init_op, *self._accumulators_at_step())
        self._gradients_applied = True
        return train_op

    def _accumulated(self, pairs):
        """([operation that gives a gradient], [(mean gradient, variable)])."""
        given, means = [], []
        for grad, var in pairs:
            mean = None
            with ops.device(var.device):
                if isinstance(grad, IndexedSlices):
                    accumulator = accumulators.SparseConditionalAccumulator(
                        grad.dtype, shape=(), shared_name=f"{var.name}/grad_accum")
                    given.append(accumulator.apply_indexed_slices_grad(
                        grad, local_step=self._local_step))
                    mean = accumulator.take_indexed_slices_grad(self._replicas_to_aggregate)
                elif isinstance(grad, ops.Tensor):
                    accumulator = accumulators.ConditionalAccumulator(
                        grad.dtype, shape=var.get_shape(), shared_name=f"{var.name}/grad_accum")
                    given.append(accumulator.apply_grad(grad, local_step=self._local_step))
                    mean = accumulator.take_grad(self._replicas_to_aggregate)
                elif grad is not None:
                    raise ValueError(f"Unknown grad type! {grad!r} of {var.name}: expected a "
                                     "Tensor, IndexedSlices or None")
            if mean is not None:
                self._accumulator_list.append((accumulator, var.device))
            means.append((mean, var))
        return given, means

    def _tokens(self, given, update):
        """The replica's operation; makes the queue of tokens and the chief's runner."""
        step = self._global_step
        queue = self._sync_token_queue = queues.FIFOQueue(
            -1, step.dtype.base_dtype, shapes=(), name="sync_token_q", shared_name="sync_token_q")
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

    def _accumulators_at_step(self):
        found = []
        for accumulator, device in self._accumulator_list:
            with ops.device(device):
                found.append(accumulator.set_global_step(self._global_step, name="SetGlobalStep"))
        return found

    def get_chief_queue_runner(self):
        """The QueueRunner that takes the steps; one replica, the chief, starts it. ValueError
        before apply_gradients."""
        self._require_applied("get_chief_queue_runner()")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens=-1):
        """The operation that puts the first tokens into the queue, once, by the chief.

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
                (array_functions.fill([num_tokens], self._global_step),))

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
    """What make_session_run_hook gives."""

    def __init__(self, sync_optimizer, is_chief, num_tokens):
        self._optimizer, self._is_chief, self._num_tokens = sync_optimizer, is_chief, num_tokens
        self._init_op = self._tokens_op = self._runner = None

    def begin(self):
        """Takes the optimizer's operations. ValueError before apply_gradients."""
        if not self._optimizer._gradients_applied:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using "
                             "the hook.")
        if self._is_chief:
            self._init_op = self._optimizer.chief_init_op
            self._runner = self._optimizer.get_chief_queue_runner()
            self._tokens_op = self._optimizer.get_init_tokens_op(self._num_tokens)
        else:
            self._init_op = self._optimizer.local_step_init_op

    def after_create_session(self, session, coord):
        """Initialises, puts the first tokens, starts the chief's thread. RuntimeError while
        variables have no values."""
        ready, why = session_manager._ready(
            self._optimizer.ready_for_local_init_op, session,
            "Model is not ready for SyncReplicasOptimizer local init.")
        if not ready:
            raise RuntimeError("Init operations did not make model ready for SyncReplicasOptimizer "
                               f"local_init. Init op: {self._init_op.name}, error: {why}")
        session.run(self._init_op)
        if self._tokens_op is not None:
            session.run(self._tokens_op)
        if self._runner is not None:
            for thread in self._runner.create_threads(session, coord=coord, daemon=True,
                                                      start=True):
                coord._unregister_thread(thread)       # it waits for gradients to the last


PUBLIC = {"train.SyncReplicasOptimizer": SyncReplicasOptimizer}
