"""slim.learning: create_train_op and train, TensorFlow slim's training loop.

Invariants
  1. A train op is a loss behind the step and behind UPDATE_OPS; it joins TRAIN_OP.
  2. `train` is a tf.train.Supervisor's session that runs the train op until a step says stop; the
     model is saved when it ends.

Threads: the one building the graph; `train` starts the Supervisor's.
Source: TF 1.15 tf.contrib.slim.learning, tf.contrib.training.

Example:
    train_op = slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.1))
    slim.learning.train(train_op, logdir, number_of_steps=1000)
"""
import logging
import sys
import time

from pyflow.framework import errors, graph as ops
from pyflow.framework.graph import GraphKeys, IndexedSlices
from pyflow.lib.array.identity_functions import check_numerics as checked_numerics
from pyflow.lib.contrib.arg_scope import add_arg_scope
from pyflow.lib.control_flow import grouping
from pyflow.lib.nn import nn_functions
from pyflow.lib.summary import summary_functions as summary
from pyflow.lib.variables import lookup_tables, variables
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, logic_ops
from pyflow.train import contrib_optimizers, saver as savers, supervisor, training_util

_log = logging.getLogger("tensorflow")
_USE_DEFAULT = 0
_USE_GLOBAL_STEP = 0


def clip_gradient_norms(gradients_to_variables, max_norm):
    """[(gradient, variable)] with each gradient's norm at most max_norm; None stays.

    TF: tf.contrib.slim.learning.clip_gradient_norms."""
    def clipped(grad):
        if isinstance(grad, IndexedSlices):
            return IndexedSlices(nn_functions.clip_by_norm(grad.values, max_norm), grad.indices,
                                 grad.dense_shape)
        return None if grad is None else nn_functions.clip_by_norm(grad, max_norm)
    return [(clipped(grad), var) for grad, var in gradients_to_variables]


def clip_gradient_norms_fn(max_norm):
    """clip_gradient_norms as a function of the list alone.

    TF: tf.contrib.training.clip_gradient_norms_fn."""
    return lambda gradients_to_variables: clip_gradient_norms(gradients_to_variables, max_norm)


def multiply_gradients(grads_and_vars, gradient_multipliers):
    """[(gradient, variable)] with some gradients multiplied.

    gradient_multipliers: {variable or the name of its op: number or scalar tensor}. ValueError for
    what is no list or no dict, an empty dict, or a variable without a gradient.
    TF: tf.contrib.slim.learning.multiply_gradients."""
    if not isinstance(grads_and_vars, list):
        raise ValueError("`grads_and_vars` must be a list.")
    if not gradient_multipliers:
        raise ValueError("`gradient_multipliers` is empty.")
    if not isinstance(gradient_multipliers, dict):
        raise ValueError("`gradient_multipliers` must be a dict.")
    factors = {key if isinstance(key, str) else key.op.name: value
               for key, value in gradient_multipliers.items()}
    multiplied = []
    for grad, var in grads_and_vars:
        if var.op.name in factors:
            if grad is None:
                raise ValueError(f"Requested multiple of `None` gradient: the loss does not depend "
                                 f"on {var.op.name}.")
            grad = contrib_optimizers.scaled(grad, factors[var.op.name])
        multiplied.append((grad, var))
    return multiplied


def add_gradients_summaries(grads_and_vars):
    """A histogram and a norm for each gradient; the list of summaries.

    TF: tf.contrib.slim.learning.add_gradients_summaries."""
    return _gradient_summaries(grads_and_vars, "/")


def training_gradients_summaries(grads_and_vars):
    """The same with "_gradient" in the names, where slim.learning's has "/gradient".

    TF: tf.contrib.training.add_gradients_summaries."""
    return _gradient_summaries(grads_and_vars, "_")


def _gradient_summaries(grads_and_vars, mark):
    made = []
    for grad, var in grads_and_vars:
        if grad is None:
            _log.info("Var %s has no gradient", var.op.name)
            continue
        values = grad.values if isinstance(grad, IndexedSlices) else grad
        made.append(summary.histogram(f"{var.op.name}{mark}gradient", values))
        made.append(summary.scalar(f"{var.op.name}{mark}gradient_norm",
                                   nn_functions.global_norm([values])))
    return made


def create_train_op(total_loss, optimizer, global_step=_USE_GLOBAL_STEP, update_ops=None,
                    variables_to_train=None, clip_gradient_norm=0, summarize_gradients=False,
                    gate_gradients=1, aggregation_method=None, colocate_gradients_with_ops=False,
                    gradient_multipliers=None, check_numerics=True):
    """The tensor `total_loss` whose run trains one step.

    total_loss: a scalar float. global_step: a variable; None for none; the graph's where left out.
    update_ops: what runs before the loss, UPDATE_OPS where None. variables_to_train: all trainable
    ones where None. clip_gradient_norm: above 0, of each gradient. check_numerics: a loss that is
    not finite raises InvalidArgumentError. ValueError without variables, or with some that are not
    trained. TF: tf.contrib.slim.learning.create_train_op."""
    def changed(grads):
        if gradient_multipliers:
            with ops.name_scope("multiply_grads"):
                grads = multiply_gradients(grads, gradient_multipliers)
        if clip_gradient_norm > 0:
            with ops.name_scope("clip_grads"):
                grads = clip_gradient_norms(grads, clip_gradient_norm)
        return grads
    return training_create_train_op(
        total_loss, optimizer, global_step, update_ops, variables_to_train, changed,
        summarize_gradients, gate_gradients, aggregation_method, colocate_gradients_with_ops,
        check_numerics)


def training_create_train_op(total_loss, optimizer, global_step=_USE_GLOBAL_STEP, update_ops=None,
                             variables_to_train=None, transform_grads_fn=None,
                             summarize_gradients=False, gate_gradients=1, aggregation_method=None,
                             colocate_gradients_with_ops=False, check_numerics=True):
    """slim.learning.create_train_op with transform_grads_fn, a function of [(gradient, variable)],
    in place of clipping and multipliers. TF: tf.contrib.training.create_train_op."""
    if global_step is _USE_GLOBAL_STEP:
        global_step = training_util.get_or_create_global_step()
    total_loss = _behind_updates(total_loss, update_ops)
    if variables_to_train is None:
        variables_to_train = variables.trainable_variables()
    known = {id(v) for v in variables.trainable_variables()}
    wrong = [v.op.name for v in variables_to_train if id(v) not in known]
    if wrong or not variables_to_train:
        raise ValueError("create_train_op: variables_to_train must be trainable variables, at "
                         f"least one; got {', '.join(wrong) or 'none'}")
    grads = optimizer.compute_gradients(
        total_loss, variables_to_train, gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops)
    if transform_grads_fn:
        grads = transform_grads_fn(grads)
    if summarize_gradients:
        with ops.name_scope("summarize_grads"):
            training_gradients_summaries(grads)
    step = optimizer.apply_gradients(grads, global_step=global_step)
    with ops.name_scope("train_op"):
        if check_numerics:
            total_loss = checked_numerics(total_loss, "LossTensor is inf or nan")
        train_op = grouping.with_dependencies([step], total_loss)
    ops.add_to_collection(GraphKeys.TRAIN_OP, train_op)
    return train_op


def _behind_updates(total_loss, update_ops):
    """`total_loss`, there once the updates ran."""
    every = list(dict.fromkeys(ops.get_collection(GraphKeys.UPDATE_OPS)))
    updates = every if update_ops is None else list(dict.fromkeys(update_ops))
    if not set(every) <= set(updates):
        _log.warning("update_ops in create_train_op does not contain all the update_ops in "
                     "GraphKeys.UPDATE_OPS")
    if not updates:
        return total_loss
    with ops.control_dependencies(updates):
        barrier = grouping.no_op(name="update_barrier")
    return grouping.with_dependencies([barrier], total_loss)


# -------------------------------------------------------------------------------------- the loop
def train_step(sess, train_op, global_step, train_step_kwargs):
    """One step: (loss, whether to stop). train_step_kwargs: "should_log", "should_stop", tensors.

    TF: tf.contrib.slim.learning.train_step."""
    begin = time.time()
    loss, step = sess.run([train_op, global_step])
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        _log.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, time.time() - begin)
    if "should_stop" in train_step_kwargs:
        return loss, sess.run(train_step_kwargs["should_stop"])
    return loss, False


@add_arg_scope
def train(train_op, logdir, train_step_fn=train_step, train_step_kwargs=_USE_DEFAULT,
          log_every_n_steps=1, graph=None, master="", is_chief=True, global_step=None,
          number_of_steps=None, init_op=_USE_DEFAULT, init_feed_dict=None,
          local_init_op=_USE_DEFAULT, init_fn=None, ready_op=_USE_DEFAULT, summary_op=_USE_DEFAULT,
          save_summaries_secs=600, summary_writer=_USE_DEFAULT, startup_delay_steps=0, saver=None,
          save_interval_secs=600, sync_optimizer=None, session_config=None, session_wrapper=None,
          trace_every_n_steps=None, ignore_live_threads=False):
    """Runs train_op until number_of_steps, or for ever; returns the last loss.

    logdir: where checkpoints and summaries go, None for nowhere; training goes on from a checkpoint
    that is there. train_step_fn(session, train_op, global_step, train_step_kwargs) -> (loss,
    whether to stop). init_fn: a function of the session, after init_op. save_summaries_secs,
    save_interval_secs: seconds. session_wrapper: a function of the session. ValueError for a
    number_of_steps below 1, a saver or summary_op without logdir, and what needs several processes
    (sync_optimizer) or traces (trace_every_n_steps), which are not in this version.
    TF: tf.contrib.slim.learning.train."""
    _check(train_op, logdir, summary_op, saver, number_of_steps, sync_optimizer,
           trace_every_n_steps)
    graph = graph or ops.get_default_graph()
    with graph.as_default():
        if global_step is None:
            global_step = training_util.get_or_create_global_step()
        saver = saver or savers.Saver()
        with ops.name_scope("init_ops"):
            init_op, ready_op, local_init_op = _init_ops(init_op, ready_op, local_init_op)
        if summary_op is _USE_DEFAULT:
            summary_op = summary.merge_all()
        if summary_writer is _USE_DEFAULT:
            summary_writer = supervisor.Supervisor.USE_DEFAULT
        if train_step_kwargs is _USE_DEFAULT:
            train_step_kwargs = _step_arguments(global_step, number_of_steps, log_every_n_steps)
    sv = supervisor.Supervisor(
        graph=graph, is_chief=is_chief, logdir=logdir, init_op=init_op,
        init_feed_dict=init_feed_dict, local_init_op=local_init_op, ready_op=ready_op,
        summary_op=summary_op, summary_writer=summary_writer, global_step=global_step, saver=saver,
        save_summaries_secs=save_summaries_secs, save_model_secs=save_interval_secs,
        init_fn=init_fn)
    if summary_writer is not None:
        train_step_kwargs["summary_writer"] = sv.summary_writer
    delay = min(startup_delay_steps, number_of_steps or sys.maxsize)
    while True:
        try:
            return _run(sv, train_op, train_step_fn, train_step_kwargs, global_step, logdir, master,
                        session_config, session_wrapper, delay, ignore_live_threads)
        except errors.AbortedError:
            _log.info("Retrying training!")


def _check(train_op, logdir, summary_op, saver, number_of_steps, sync_optimizer, trace):
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None:
        for what, given in (("summary_op", summary_op is not _USE_DEFAULT),
                            ("saver", saver is not None)):
            if given:
                raise ValueError(f"Cannot provide {what} because logdir=None")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number, got "
                         f"{number_of_steps}.")
    if sync_optimizer is not None:
        raise ValueError("slim.learning.train: sync_optimizer needs several processes, which are "
                         "not in this version; leave it out")
    if trace is not None:
        raise ValueError("slim.learning.train: trace_every_n_steps is not in this version; give "
                         "train_step_fn, with options=tf.RunOptions(trace_level=3) in its run")


def _init_ops(init_op, ready_op, local_init_op):
    if init_op is _USE_DEFAULT:
        init_op = variables.global_variables_initializer()
    if ready_op is _USE_DEFAULT:
        ready_op = variables.report_uninitialized_variables()
    if local_init_op is _USE_DEFAULT:
        local_init_op = grouping.group(variables.local_variables_initializer(),
                                       lookup_tables.tables_initializer())
    return init_op, ready_op, local_init_op


def _step_arguments(global_step, number_of_steps, log_every_n_steps):
    with ops.name_scope("train_step"):
        made = {"should_stop": logic_ops.GreaterEqual(global_step, number_of_steps)
                if number_of_steps else ops.constant(False)}
        if log_every_n_steps > 0:
            made["should_log"] = tensors.equal(
                binary_ops.FloorMod(global_step, log_every_n_steps), 0)
        return made


def _run(sv, train_op, train_step_fn, kwargs, global_step, logdir, master, config, wrapper, delay,
         ignore_live_threads):
    """The loop in one session; the last loss."""
    loss = None
    with sv.managed_session(master, start_standard_services=False, config=config) as sess:
        _log.info("Starting Session.")
        sess = sess if wrapper is None else wrapper(sess)
        if sv.is_chief and logdir:
            sv.start_standard_services(sess)
        while not sv.is_chief and delay > training_util.global_step(sess, global_step):
            time.sleep(1.0)
        threads = sv.start_queue_runners(sess)
        try:
            while not sv.should_stop():
                loss, should_stop = train_step_fn(sess, train_op, global_step, kwargs)
                if should_stop:
                    _log.info("Stopping Training.")
                    sv.request_stop()
                    break
        except errors.OutOfRangeError as e:         # a queue's epochs are over
            _log.info("Caught OutOfRangeError. Stopping Training. %s", e)
        if logdir and sv.is_chief:
            _log.info("Finished training! Saving model to disk.")
            try:                        # the thread that saves ends first: the last is the newest
                sv.stop(threads, close_summary_writer=False,
                        ignore_live_threads=ignore_live_threads)
            finally:
                sv.saver.save(sess, sv.save_path, global_step=sv.global_step)
    return loss


PUBLIC = {
    **{f"contrib.slim.learning.{f.__name__}": f for f in (
        clip_gradient_norms, multiply_gradients, add_gradients_summaries, create_train_op,
        train_step, train)},
    "contrib.training.create_train_op": training_create_train_op,
    "contrib.training.clip_gradient_norms": clip_gradient_norms,
    "contrib.training.clip_gradient_norms_fn": clip_gradient_norms_fn,
    "contrib.training.multiply_gradients": multiply_gradients,
    "contrib.training.add_gradients_summaries": training_gradients_summaries,
}
