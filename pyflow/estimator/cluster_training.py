"""tf.estimator.train_and_evaluate in a cluster: what each task does.

    ps                serves
    chief, worker     serve, and train between-graph; the chief initialises, saves, ends the job
    master            as a chief that evaluates its own checkpoints
    evaluator         is in no cluster: evaluates the newest checkpoint again and again

Invariants
1. The job ends by itself: workers say that they are done, the chief waits for them and stops all
   servers, whose join returns (job_end.py). TensorFlow leaves its parameter servers running, and so
   does a chief whose workers train on.
2. A worker begins later the higher its number, as in TensorFlow, so that the first ones have moved
   the model; workers that wait for the chief need no more than that.

Threads: the caller's.  Source: TF 1.15 tensorflow_estimator/python/estimator/training.py.
Caller: local_training.py.

    run(estimator, train_spec, eval_spec, evaluator)
"""
import logging
import time

import pyflow as tf
from pyflow.distributed import launch
from pyflow.distributed.launch import job_end
from pyflow.estimator import cluster_roles as roles

DELAY, LONGEST_DELAY = 5, 60            # seconds a worker waits for each that is before it; at most
LOOK = 0.2                              # seconds between looks for a checkpoint
_log = logging.getLogger("tensorflow")


class EvaluateAtCheckpoints(tf.train.CheckpointSaverListener):
    """Evaluates what was saved, but for the first checkpoint, from which training began."""

    def __init__(self, evaluator, throttle_secs):
        self._evaluator, self._first = evaluator, True
        self._timer = tf.train.SecondOrStepTimer(every_secs=throttle_secs)

    def begin(self):
        self._timer.reset()
        self._first = True

    def after_save(self, session, global_step_value):
        if self._first:
            self._first = False
            self._timer.update_last_triggered_step(global_step_value)
        elif self._timer.should_trigger_for_step(global_step_value):
            self._evaluator.evaluate()
            self._timer.update_last_triggered_step(global_step_value)

    def end(self, session, global_step_value):
        self._evaluator.evaluate()


def run(estimator, train_spec, eval_spec, evaluator):
    """Does the part of estimator.config's task. evaluator: evaluates the newest checkpoint, and
    keeps the metrics. ValueError for a second evaluator, or a job that has no part."""
    config = estimator.config
    if config.task_type == roles.EVALUATOR:
        if config.task_id > 0:
            raise ValueError("For distributed training, there can only be one `evaluator` task "
                             f"(with task id 0).  Given task id {config.task_id}")
        _evaluate_on(evaluator, train_spec.max_steps, eval_spec)
    elif config.task_type == roles.PS:
        _server(config).join()
    elif config.task_type in (roles.CHIEF, roles.WORKER, roles.MASTER):
        _train(estimator, train_spec, eval_spec, evaluator)
    else:
        raise ValueError(f"Task type {config.task_type} is not supported. Supported task types are "
                         "['chief', 'evaluator', 'master', 'ps', 'worker']")


def _train(estimator, train_spec, eval_spec, evaluator):
    config, listeners = estimator.config, list(train_spec.saving_listeners)
    server = _server(config) if config.master else None      # a cluster of one needs none
    if config.task_type == roles.MASTER:
        listeners.append(EvaluateAtCheckpoints(evaluator, eval_spec.throttle_secs))
    elif config.task_type == roles.WORKER:
        longest = config.experimental_max_worker_delay_secs
        longest = LONGEST_DELAY if longest is None else int(longest)
        time.sleep(min(longest, (config.task_id + 1) * DELAY))
    estimator.train(train_spec.input_fn, hooks=train_spec.hooks, max_steps=train_spec.max_steps,
                    saving_listeners=listeners)
    if server is not None:
        job_end.end_job(server, _task(config), always=False)


def _server(config):
    """The server of this process's task. RuntimeError where TF_CONFIG gives sessions another
    target than its address."""
    if not config.master:
        raise RuntimeError("Could not start server; be sure to specify master in RunConfig or set "
                           "the TF_CONFIG environment variable.")
    return _task(config).server(protocol=config.protocol)


def _task(config):
    """The launch.Task: all of what a launcher says, or what RunConfig knows of it."""
    told = launch.task()
    place = config.task_type, config.task_id
    if told is not None and (told.job, told.index) == place and \
            told.cluster == config.cluster_spec:
        return told
    return launch.Task(config.cluster_spec, *place)


def _evaluate_on(evaluator, max_steps, eval_spec):
    """Evaluates each newest checkpoint, until one is at max_steps."""
    time.sleep(eval_spec.start_delay_secs)
    while True:
        began = time.monotonic()
        before = evaluator.metrics
        evaluator.evaluate()
        if evaluator.metrics is not before and max_steps is not None:
            step = evaluator.metrics[tf.GraphKeys.GLOBAL_STEP]
            if step >= max_steps:
                _log.info("Exiting evaluation, global_step=%s >= train max_steps=%s", step,
                          max_steps)
                return
        left = eval_spec.throttle_secs - (time.monotonic() - began)
        time.sleep(max(LOOK, left))
