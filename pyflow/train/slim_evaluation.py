"""slim.evaluation: a model's checkpoints evaluated, one or each new one.

Invariants
  1. An evaluation restores a checkpoint, runs eval_op num_evals times and final_op once.
  2. Waiting for checkpoints looks into the folder about once a second.

Threads: the one that calls; sessions are its own.  Source: TF 1.15 tf.contrib.slim.evaluation.

Example:
    accuracy, update = tf.metrics.accuracy(labels, predictions)
    slim.evaluation.evaluate_once("", path, logdir, num_evals=10, eval_op=update, final_op=accuracy)
"""
import logging
import os
import time

from pyflow.framework import graph as ops
from pyflow.lib.control_flow import grouping
from pyflow.lib.summary import file_writer, summary_functions as summary
from pyflow.lib.variables import variables
from pyflow.train import checkpoint_state, monitored_session, saver as savers, scaffold

_log = logging.getLogger("tensorflow")
_USE_DEFAULT = 0


def wait_for_new_checkpoint(checkpoint_dir, last_checkpoint=None, seconds_to_sleep=1, timeout=None):
    """The newest checkpoint's prefix once it is not `last_checkpoint`; None after `timeout` seconds.

    TF: tf.contrib.training.wait_for_new_checkpoint."""
    stop = None if timeout is None else time.monotonic() + timeout
    while True:
        found = checkpoint_state.latest_checkpoint(checkpoint_dir)
        if found is not None and found != last_checkpoint:
            return found
        if stop is not None and time.monotonic() + seconds_to_sleep > stop:
            return None
        time.sleep(seconds_to_sleep)


def checkpoints_iterator(checkpoint_dir, min_interval_secs=0, timeout=None, timeout_fn=None):
    """Prefixes of new checkpoints, one after another, at least min_interval_secs apart.

    timeout: seconds to wait for one; then it ends, unless timeout_fn() is False.
    TF: tf.train.checkpoints_iterator, tf.contrib.training.checkpoints_iterator."""
    path = None
    while True:
        found = wait_for_new_checkpoint(checkpoint_dir, path, timeout=timeout)
        if found is None:
            if timeout_fn is None or timeout_fn():
                return
            continue
        begin, path = time.monotonic(), found
        yield path
        time.sleep(max(0.0, begin + min_interval_secs - time.monotonic()))


def evaluate_once(master, checkpoint_path, logdir, num_evals=1, initial_op=None,
                  initial_op_feed_dict=None, eval_op=None, eval_op_feed_dict=None, final_op=None,
                  final_op_feed_dict=None, summary_op=_USE_DEFAULT, summary_op_feed_dict=None,
                  variables_to_restore=None, session_config=None, hooks=None):
    """What final_op gives after num_evals runs of eval_op on a checkpoint.

    checkpoint_path: its prefix. logdir: where summary_op's summary (all summaries by default) goes,
    None for nowhere. initial_op: runs first, after the initial values. variables_to_restore: all
    global ones where None. hooks: SessionRunHooks. TF: tf.contrib.slim.evaluation.evaluate_once."""
    evaluate = _prepared(master, logdir, num_evals, initial_op, initial_op_feed_dict, eval_op,
                         eval_op_feed_dict, final_op, final_op_feed_dict, summary_op,
                         summary_op_feed_dict, variables_to_restore, session_config, hooks)
    return evaluate(checkpoint_path)


def _prepared(master, logdir, num_evals, initial_op, initial_op_feed_dict, eval_op,
              eval_op_feed_dict, final_op, final_op_feed_dict, summary_op, summary_op_feed_dict,
              variables_to_restore, session_config, hooks):
    """A function of a checkpoint's prefix: what final_op gives. All ops are made here, once."""
    if summary_op is _USE_DEFAULT:
        summary_op = summary.merge_all() if logdir is not None else None
    restorer, step, current = savers.Saver(variables_to_restore), _global_step(), []
    parts = scaffold.Scaffold(
        init_op=grouping.group(variables.global_variables_initializer(),
                               *([] if initial_op is None else [initial_op])),
        init_feed_dict=initial_op_feed_dict, saver=restorer,
        init_fn=lambda _, session: restorer.restore(session, current[-1]))

    def evaluate(path):
        current.append(path)
        creator = monitored_session.ChiefSessionCreator(scaffold=parts, master=master,
                                                        config=session_config)
        with monitored_session.MonitoredSession(session_creator=creator, hooks=hooks) as session:
            for i in range(num_evals if eval_op is not None else 0):
                session.run(eval_op, eval_op_feed_dict)
                _log.info("Evaluation [%d/%d]", i + 1, num_evals)
            said = None if final_op is None else session.run(final_op, final_op_feed_dict)
            if summary_op is not None and logdir is not None:
                text = session.run(summary_op, summary_op_feed_dict)
                with file_writer.FileWriter(os.fspath(logdir)) as writer:
                    writer.add_summary(text, None if step is None else session.run(step))
        return said
    return evaluate


def _global_step():
    found = ops.get_collection(ops.GraphKeys.GLOBAL_STEP)
    return found[0] if found else None


def evaluation_loop(master, checkpoint_dir, logdir, num_evals=1, initial_op=None,
                    initial_op_feed_dict=None, init_fn=None, eval_op=None, eval_op_feed_dict=None, final_op=None,
                    final_op_feed_dict=None, summary_op=_USE_DEFAULT, summary_op_feed_dict=None,
                    variables_to_restore=None, eval_interval_secs=60,
                    max_number_of_evaluations=None, session_config=None, timeout=None,
                    timeout_fn=None, hooks=None):
    """evaluate_once of each new checkpoint of a folder; what the last final_op gave.

    max_number_of_evaluations: None goes on until `timeout` seconds without a new one.
    init_fn must be None, else ValueError. TF: tf.contrib.slim.evaluation.evaluation_loop."""
    if init_fn is not None:
        raise ValueError("evaluation_loop: init_fn is not in this version; the checkpoint is what "
                         "is evaluated")
    evaluate = _prepared(master, logdir, num_evals, initial_op, initial_op_feed_dict, eval_op,
                         eval_op_feed_dict, final_op, final_op_feed_dict, summary_op,
                         summary_op_feed_dict, variables_to_restore, session_config, hooks)
    said = None
    for count, path in enumerate(checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout,
                                                      timeout_fn), 1):
        said = evaluate(path)
        if max_number_of_evaluations is not None and count >= max_number_of_evaluations:
            break
    return said


PUBLIC = {
    "contrib.training.wait_for_new_checkpoint": wait_for_new_checkpoint,
    "contrib.training.checkpoints_iterator": checkpoints_iterator,
    "train.checkpoints_iterator": checkpoints_iterator,
    "contrib.slim.evaluation.wait_for_new_checkpoint": wait_for_new_checkpoint,
    "contrib.slim.evaluation.checkpoints_iterator": checkpoints_iterator,
    "contrib.slim.evaluation.evaluate_once": evaluate_once,
    "contrib.slim.evaluation.evaluation_loop": evaluation_loop,
}
