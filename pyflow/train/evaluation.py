"""One evaluation of a checkpoint in a monitored session, counted and ended by a hook.

Invariants
  1. The count is a local variable in the collection EVAL_STEP; each run of eval_ops adds 1.
  2. final_ops run once, after the last run of eval_ops.

Thread: the one that calls.  Callers: tf_slim, by `tensorflow.python.training.evaluation`.
Source: TF 1.15 tensorflow/python/training/evaluation.py.

Example:
    update = tf.metrics.accuracy(labels, guesses)[1]
    evaluate_once(path, eval_ops=update, hooks=[StopAfterNEvalsHook(10)], final_ops=update.name)
"""
from pyflow.framework import dtypes, graph as ops
from pyflow.lib.variables import initializers, variable_scope
from pyflow.train import hooks as hooks_lib, monitored_session, session_run_hook

_log = hooks_lib._log


def get_or_create_eval_step():
    """The graph's count of runs, an int64 scalar variable. ValueError where there are several.

    TF: tf.contrib.training.get_or_create_eval_step."""
    graph = ops.get_default_graph()
    found = graph.get_collection(ops.GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError(f"expected one variable in the collection EVAL_STEP, got {len(found)}: "
                         f"{[v.name for v in found]}")
    if found:
        return found[0]
    return variable_scope.get_variable(
        "eval_step", [], dtypes.int64, initializers.Zeros(), trainable=False,
        collections=[ops.GraphKeys.LOCAL_VARIABLES, ops.GraphKeys.EVAL_STEP])


class StopAfterNEvalsHook(session_run_hook.SessionRunHook):
    """Asks for the end after num_evals runs, None for never.

    TF: tf.contrib.training.StopAfterNEvalsHook."""

    def __init__(self, num_evals, log_progress=True):
        self._num_evals, self._told, self._count = num_evals, log_progress, None

    def _set_evals_completed_tensor(self, updated_eval_step):
        self._count = updated_eval_step

    def before_run(self, run_context):
        return session_run_hook.SessionRunArgs({"evals_completed": self._count})

    def after_run(self, run_context, run_values):
        done = run_values.results["evals_completed"]
        if self._told:
            _log.info("Evaluation [%d/%s]", done, self._num_evals or "?")
        if self._num_evals is not None and done >= self._num_evals:
            run_context.request_stop()


def evaluate_once(checkpoint_path, master="", scaffold=None, eval_ops=None, feed_dict=None,
                  final_ops=None, final_ops_feed_dict=None, hooks=None, config=None):
    """What final_ops give after eval_ops ran until a hook asked for the end; None without them.

    checkpoint_path: its prefix, None for initial values. eval_ops: a tensor or operation, a list
    or dict of them. TF: tf.contrib.training.evaluate_once."""
    step, hooks = get_or_create_eval_step(), list(hooks or [])
    if eval_ops is not None:
        counted = step.assign_add(1, use_locking=True)
        if isinstance(eval_ops, dict):
            eval_ops = {**eval_ops, "update_eval_step": counted}
        else:
            several = isinstance(eval_ops, (list, tuple))
            eval_ops = [*(eval_ops if several else [eval_ops]), counted]
        for hook in hooks:
            if isinstance(hook, StopAfterNEvalsHook):
                hook._set_evals_completed_tensor(counted)
    last = hooks_lib.FinalOpsHook(final_ops, final_ops_feed_dict)
    creator = monitored_session.ChiefSessionCreator(
        scaffold=scaffold, checkpoint_filename_with_path=checkpoint_path, master=master,
        config=config)
    with monitored_session.MonitoredSession(session_creator=creator,
                                            hooks=[*hooks, last]) as session:
        while eval_ops is not None and not session.should_stop():
            session.run(eval_ops, feed_dict)
    return last.final_ops_values


PUBLIC = {
    "contrib.training.evaluate_once": evaluate_once,
    "contrib.training.get_or_create_eval_step": get_or_create_eval_step,
    "contrib.training.StopAfterNEvalsHook": StopAfterNEvalsHook,
}
