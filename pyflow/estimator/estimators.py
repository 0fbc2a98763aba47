"""tf.estimator.Estimator: trains, evaluates, predicts and exports a model function's model.

    train    graph [input_fn, model_fn] -> MonitoredTrainingSession -> checkpoints of model_dir
    evaluate graph -> newest checkpoint -> metrics, and events below model_dir/eval
    predict  graph -> newest checkpoint -> values, one example after the other
    export   graph [serving_input_receiver_fn] -> newest checkpoint -> SavedModel

Invariants
  1. Each of them builds a graph of its own; between them nothing is kept but model_dir.
  2. A training that ends, is stopped or killed goes on from its last checkpoint, random streams
     included; its input begins anew.

Thread: one at a time per model_dir.  Source: TF 1.15 tf.estimator.Estimator.

Example:
    estimator = tf.estimator.Estimator(model_fn, "train", params={"rate": 0.1})
    estimator.train(input_fn, steps=1000)
    print(estimator.evaluate(eval_input_fn))
"""
import copy
import logging
import os

import numpy as np

import pyflow as tf
from pyflow.estimator import exporting, input_checkpoints, input_results, run_config
from pyflow.estimator import spec as spec_lib
from pyflow.estimator import warm_starting
from pyflow.estimator.modes import ModeKeys

_log = logging.getLogger("tensorflow")
_VALID = {"features", "labels", "mode", "params", "self", "config"}


class _StopAfter(tf.train.SessionRunHook):
    """Stops an evaluation after some runs."""

    def __init__(self, steps):
        self._left = steps

    def after_run(self, run_context, run_values):
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


class _Restored(tf.train.SessionCreator):
    """Sessions with a checkpoint's values, or initialised ones without a path. Random streams are
    the training's and stay out."""

    def __init__(self, scaffold, master, config, path):
        self.scaffold, self._master, self._config, self._path = scaffold, master, config, path

    def create_session(self):
        scaffold = self.scaffold.finalize()
        manager = tf.train.SessionManager(
            local_init_op=scaffold.local_init_op, ready_op=scaffold.ready_op,
            ready_for_local_init_op=scaffold.ready_for_local_init_op,
            local_init_feed_dict=scaffold.local_init_feed_dict)
        if self._path is None:
            return manager.prepare_session(
                self._master, init_op=scaffold.init_op, config=self._config,
                init_feed_dict=scaffold.init_feed_dict, init_fn=scaffold.init_fn)
        return manager.prepare_session(
            self._master, config=self._config,
            init_fn=lambda sess: scaffold.saver.restore(sess, self._path))


class Estimator:
    """A model, its training and what can be done with it.

    model_fn(features, labels, mode, params, config), of which it takes what it wants: returns an
    EstimatorSpec. model_dir: the folder of checkpoints and events; default config's, or a temporary
    one. config: a RunConfig. params: a dict for model_fn. warm_start_from: a checkpoint's path or
    WarmStartSettings. ValueError for a model_fn of other arguments. TF: tf.estimator.Estimator.

        >>> def model_fn(features, labels, mode):
        ...     w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        ...     loss = tf.reduce_mean(tf.square(features["x"] * w - labels))
        ...     step = tf.train.get_global_step()
        ...     train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        ...     return tf.estimator.EstimatorSpec(mode, {"w": w}, loss, train_op)
        >>> def input_fn():
        ...     return {"x": tf.constant([1.0, 2.0])}, tf.constant([3.0, 6.0])
        >>> estimator = tf.estimator.Estimator(model_fn).train(input_fn, steps=50)
        >>> round(float(estimator.get_variable_value("w")), 3)
        3.0
    """

    def __init__(self, model_fn, model_dir=None, config=None, params=None, warm_start_from=None):
        _check_overrides(self)
        self._config = run_config.with_defaults(config, model_dir)
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        _check_model_fn(model_fn, params)
        self._model_fn = model_fn
        self._params = copy.deepcopy(params or {})
        self._warm_start = warm_starting.default_settings(warm_start_from)

    def __repr__(self):
        return f"<tf.estimator.{type(self).__name__} of {self.model_dir!r}>"

    # ------------------------------------------------------------ what it is

    @property
    def model_dir(self):
        """The folder of checkpoints and events."""
        return self._config.model_dir

    @property
    def config(self):
        """A copy of the RunConfig."""
        return copy.copy(self._config)

    @property
    def params(self):
        """A copy of the parameters."""
        return copy.deepcopy(self._params)

    @property
    def model_fn(self):
        """model_fn(features, labels, mode, config) with this estimator's params."""
        def public_model_fn(features, labels, mode, config):
            return self._call_model_fn(features, labels, mode, config)
        return public_model_fn

    def latest_checkpoint(self):
        """The newest checkpoint's prefix, or None."""
        return tf.train.latest_checkpoint(self.model_dir)

    def get_variable_names(self):
        """The names of the newest checkpoint's tensors. ValueError if there is none."""
        return [name for name, _ in tf.train.list_variables(self._trained())]

    def get_variable_value(self, name):
        """A variable's value in the newest checkpoint, a NumPy array. ValueError if there is
        none."""
        return tf.train.load_variable(self._trained(), name)

    def eval_dir(self, name=None):
        """Where evaluation writes its events: model_dir/eval, or model_dir/eval_NAME."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    def _trained(self):
        path = self.latest_checkpoint()
        if path is None:
            raise ValueError(f"Could not find trained model in model_dir: {self.model_dir}.")
        return path

    # ------------------------------------------------------------ training

    def train(self, input_fn, hooks=None, steps=None, max_steps=None, saving_listeners=None):
        """Trains until the input ends, for `steps` more steps, or to global step max_steps.

        input_fn(): a tf.data.Dataset of (features, labels), or these tensors; it may take mode,
        params, config. hooks: SessionRunHooks. saving_listeners: CheckpointSaverListeners. Returns
        self. ValueError for both or negative steps; NanLossDuringTrainingError for a NaN loss."""
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        if max_steps is not None and max_steps <= self._saved_step():
            _log.info("Skipping training since max_steps has already saved.")
            return self
        hooks = _checked_hooks(hooks)
        if steps is not None or max_steps is not None:
            hooks.append(tf.train.StopAtStepHook(steps, max_steps))
        loss = self._train(input_fn, hooks, _checked_listeners(saving_listeners))
        _log.info("Loss for final step: %s.", loss)
        return self

    def _saved_step(self):
        path = self.latest_checkpoint()
        try:
            return int(tf.train.load_variable(path, tf.GraphKeys.GLOBAL_STEP)) if path else 0
        except (KeyError, ValueError, tf.errors.OpError):
            return 0

    def _train(self, input_fn, hooks, listeners):
        with self._new_graph() as graph, graph.device(_device_of_training(self._config)):
            tf.train.create_global_step(graph)
            made = input_results.called(input_fn, ModeKeys.TRAIN, self.params, self.config)
            features, labels, input_hooks = input_results.parsed(made)
            spec = self._call_model_fn(features, labels, ModeKeys.TRAIN, self.config)
            if self._warm_start:
                warm_starting.warm_start(*self._warm_start)
            if spec.loss.graph is graph and spec.loss not in tf.get_collection(
                    tf.GraphKeys.LOSSES):
                tf.add_to_collection(tf.GraphKeys.LOSSES, spec.loss)
            self._summarise_loss(spec.loss)
            every = [*input_hooks, *hooks, *self._watching(spec), *spec.training_hooks]
            return self._run_training(spec, every, listeners)

    def _new_graph(self):
        graph = tf.Graph()
        if self._config.tf_random_seed is not None:
            graph.seed = self._config.tf_random_seed
        return graph.as_default()

    @staticmethod
    def _summarise_loss(loss):
        there = tf.get_collection(tf.GraphKeys.SUMMARIES)
        if not any(x.op.name == "loss" for x in there if hasattr(x, "op")):
            tf.summary.scalar("loss", loss)

    def _watching(self, spec):
        hooks = [tf.train.NanTensorHook(spec.loss)]
        if self._config.log_step_count_steps is not None:
            hooks.append(tf.train.LoggingTensorHook(
                {"loss": spec.loss, "step": tf.train.get_global_step()},
                every_n_iter=self._config.log_step_count_steps))
        return hooks

    def _run_training(self, spec, hooks, listeners):
        config = self._config
        if not (spec.scaffold.saver or tf.get_collection(tf.GraphKeys.SAVERS)):
            tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(
                sharded=True, max_to_keep=config.keep_checkpoint_max,
                keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
                defer_build=True, save_relative_paths=True))
        chief = self._saving(spec, hooks, listeners)
        loss = steps = None
        with tf.train.MonitoredTrainingSession(
                master=config.master, is_chief=config.is_chief, checkpoint_dir=self.model_dir,
                scaffold=spec.scaffold, hooks=hooks,
                chief_only_hooks=[*chief, *spec.training_chief_hooks], save_checkpoint_secs=0,
                save_summaries_steps=config.save_summary_steps, config=config.session_config,
                max_wait_secs=config.session_creation_timeout_secs,
                log_step_count_steps=config.log_step_count_steps) as session:
            while not session.should_stop():
                _, loss = session.run([spec.train_op, spec.loss])
                steps = True
        if not steps:
            _log.warning("Training with estimator made no steps. Perhaps input is empty or "
                         "misspecified.")
        return loss

    def _saving(self, spec, hooks, listeners):
        """The hooks that save: those given, or a new one; listeners hear the first."""
        there = [hook for hook in [*hooks, *spec.training_chief_hooks]
                 if isinstance(hook, tf.train.CheckpointSaverHook)]
        made = []
        secs, steps = self._config.save_checkpoints_secs, self._config.save_checkpoints_steps
        if (secs or steps) and not there:
            made = [tf.train.CheckpointSaverHook(
                self.model_dir, save_secs=secs, save_steps=steps, scaffold=spec.scaffold)]
        listeners = [*(hook.listener for hook in hooks
                       if isinstance(hook, input_checkpoints.CheckpointInputPipelineHook)),
                     *listeners]
        if listeners:
            if not there + made:
                raise ValueError(
                    "There should be a CheckpointSaverHook to use saving_listeners. Please set one "
                    "of the RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs.")
            (there + made)[0]._listeners.extend(listeners)
        return made

    # ------------------------------------------------------------ evaluation

    def evaluate(self, input_fn, steps=None, hooks=None, checkpoint_path=None, name=None):
        """The metrics of a checkpoint, {name: value}, with "loss" and "global_step".

        Until the input ends, or for `steps` batches. checkpoint_path: default the newest; without
        one the model is initialised. name: of the evaluation, for its folder of events. ValueError
        for negative steps."""
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        hooks = _checked_hooks(hooks)
        if steps is not None:
            hooks.append(_StopAfter(steps))
        path = checkpoint_path or self._latest_for("evaluate")
        with self._new_graph() as graph, graph.device(self._config.device_fn):
            scaffold, update_op, values, more = self._evaluation(input_fn, path)
            final = tf.train.FinalOpsHook(values)
            with tf.train.MonitoredSession(
                    session_creator=_Restored(scaffold, self._config.evaluation_master,
                                              self._config.session_config, path),
                    hooks=[final, *more, *hooks]) as session:
                while not session.should_stop():
                    session.run(update_op)
        results = final.final_ops_values
        _write_events(self.eval_dir(name), results, path)
        return results

    def _evaluation(self, input_fn, path):
        """(scaffold, what each batch runs, {name: metric's value}, hooks)."""
        step = tf.train.create_global_step()
        made = input_results.called(input_fn, ModeKeys.EVAL, self.params, self.config)
        features, labels, input_hooks = input_results.parsed(made)
        spec = self._call_model_fn(features, labels, ModeKeys.EVAL, self.config)
        if self._warm_start and path is None:
            warm_starting.warm_start(*self._warm_start)
        metrics = dict(spec.eval_metric_ops)
        for key in (spec_lib.LOSS_METRIC_KEY, tf.GraphKeys.GLOBAL_STEP):
            if key in metrics:
                raise ValueError(f'Metric with name "{key}" is not allowed, because Estimator '
                                 "already defines a default metric with the same name.")
        metrics[spec_lib.LOSS_METRIC_KEY] = tf.metrics.mean(spec.loss)
        values = {key: value for key, (value, _) in sorted(metrics.items())}
        updates = tf.group(*(update for _, update in metrics.values()))
        values[tf.GraphKeys.GLOBAL_STEP] = step
        scaffold = spec.scaffold
        if scaffold.local_init_op is not None:      # metrics' variables came after it was made
            scaffold = tf.train.Scaffold(
                local_init_op=tf.group(scaffold.local_init_op,
                                       tf.train.Scaffold.default_local_init_op()),
                copy_from_scaffold=scaffold)
        return scaffold, updates, values, [*input_hooks, *spec.evaluation_hooks]

    def _latest_for(self, what):
        path = self.latest_checkpoint()
        if path is None:
            _log.info("Could not find trained model in model_dir: %s, running initialization to "
                      "%s.", self.model_dir, what)
        return path

    # ------------------------------------------------------------ prediction

    def predict(self, input_fn, predict_keys=None, hooks=None, checkpoint_path=None,
                yield_single_examples=True):
        """Yields the predictions for each example: arrays without the batch's dimension, in a dict
        where model_fn gives one.

        input_fn(): a Dataset or tensors of features; labels are left out. predict_keys: which
        predictions. yield_single_examples: False yields whole batches. checkpoint_path: default the
        newest. ValueError for unknown keys, or outputs of different batch sizes."""
        hooks = _checked_hooks(hooks)
        path = checkpoint_path or self._latest_for("predict")
        with self._new_graph() as graph, graph.device(self._config.device_fn):
            tf.train.create_global_step()
            made = input_results.called(input_fn, ModeKeys.PREDICT, self.params, self.config)
            features, input_hooks, ends = input_results.features_alone(made)
            spec = self._call_model_fn(features, None, ModeKeys.PREDICT, self.config)
            if self._warm_start and path is None:
                warm_starting.warm_start(*self._warm_start)
            if not ends and not _may_end(graph):
                _log.warning("Input graph does not use tf.data.Dataset or contain a QueueRunner. "
                             "That means predict yields forever. This is probably a mistake.")
            predictions = _wanted(spec.predictions, predict_keys)
            session = tf.train.MonitoredSession(
                session_creator=_Restored(spec.scaffold, self._config.master,
                                          self._config.session_config, path),
                hooks=[*input_hooks, *hooks, *spec.prediction_hooks])
        # The graph is the default one while it runs, not while the caller has a value.
        for batch in _batches(graph, session, predictions):
            if yield_single_examples:
                yield from _examples(batch)
            else:
                yield batch

    # ------------------------------------------------------------ export

    def export_saved_model(self, export_dir_base, serving_input_receiver_fn, assets_extra=None,
                           as_text=False, checkpoint_path=None,
                           experimental_mode=ModeKeys.PREDICT):
        """Writes a SavedModel into a folder export_dir_base/SECONDS; returns its path, bytes.

        serving_input_receiver_fn(): a ServingInputReceiver. assets_extra: {path below assets.extra:
        file}. as_text: write saved_model.pbtxt. checkpoint_path: default the newest; ValueError if
        there is none. experimental_mode: what model_fn is asked for."""
        if not serving_input_receiver_fn:
            raise ValueError("An input_receiver_fn must be defined.")
        return exporting.export(self, export_dir_base, serving_input_receiver_fn, assets_extra,
                                as_text, checkpoint_path, True, experimental_mode)

    def export_savedmodel(self, export_dir_base, serving_input_receiver_fn, assets_extra=None,
                          as_text=False, checkpoint_path=None, strip_default_attrs=False):
        """export_saved_model by its older name; strip_default_attrs: leave attributes at their
        defaults out."""
        if not serving_input_receiver_fn:
            raise ValueError("An input_receiver_fn must be defined.")
        return exporting.export(self, export_dir_base, serving_input_receiver_fn, assets_extra,
                                as_text, checkpoint_path, strip_default_attrs, ModeKeys.PREDICT)

    # ------------------------------------------------------------ the model

    def _call_model_fn(self, features, labels, mode, config):
        wanted = input_results.arguments_of(self._model_fn)
        given = {"mode": mode, "params": self.params, "config": config}
        given = {name: value for name, value in given.items() if name in wanted}
        if "labels" in wanted:
            given["labels"] = labels
        elif labels is not None:
            raise ValueError("model_fn does not take labels, but input_fn returns labels.")
        _log.info("Calling model_fn.")
        result = self._model_fn(features=features, **given)
        if not isinstance(result, spec_lib.EstimatorSpec):
            raise ValueError("model_fn should return an EstimatorSpec.")
        _log.info("Done calling model_fn.")
        return result


def _device_of_training(config):
    """A function or name for Graph.device: variables go to the cluster's parameter servers."""
    if config.device_fn is not None or not config.num_ps_replicas:
        return config.device_fn
    return tf.train.replica_device_setter(
        ps_tasks=config.num_ps_replicas, cluster=config.cluster_spec,
        worker_device=f"/job:{config.task_type}/task:{config.task_id}")


# ---------------------------------------------------------------- checks

_OPEN = {"_call_model_fn", "_train", "__init__", "__repr__", "__doc__", "__module__"}


def _check_overrides(estimator):
    """ValueError where a class made of Estimator changes what Estimator does."""
    members = {name for name in vars(Estimator) if not name.startswith("_")}
    changed = {name for cls in type(estimator).__mro__
               if cls is not Estimator and issubclass(cls, Estimator)
               for name in members & set(vars(cls))}
    if changed - {"model_fn"}:
        raise ValueError("Subclasses of Estimator cannot override members of Estimator. "
                         f"{type(estimator)} does override {changed}")


def _check_model_fn(model_fn, params):
    names = set(input_results.arguments_of(model_fn))
    if "features" not in names:
        raise ValueError(f"model_fn ({model_fn}) must include features argument.")
    if params is not None and "params" not in names:
        raise ValueError(f"model_fn ({model_fn}) does not include params argument, but params "
                         f"({params}) is passed to Estimator.")
    if params is None and "params" in names:
        _log.warning("Estimator's model_fn (%s) includes params argument, but params are not "
                     "passed to Estimator.", model_fn)
    strange = sorted(names - _VALID)
    if strange:
        raise ValueError(f"model_fn ({model_fn}) has following not expected args: {strange}")


def _checked_hooks(hooks):
    hooks = list(hooks or ())
    for hook in hooks:
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return hooks


def _checked_listeners(listeners):
    listeners = list(listeners or ())
    for listener in listeners:
        if not isinstance(listener, tf.train.CheckpointSaverListener):
            raise TypeError("saving_listeners must be a list of CheckpointSaverListener, given: "
                            f"{listener}")
    return listeners


# ---------------------------------------------------------------- predictions and events

def _may_end(graph):
    return bool(graph.get_collection(tf.GraphKeys.QUEUE_RUNNERS)) or any(
        op.type.startswith("Iterator") or op.type == "OneShotIterator"
        for op in graph.get_operations())


def _batches(graph, session, predictions):
    """The values of each run, until the session stops or its input ends."""
    ended = None
    try:
        while True:
            with graph.as_default():
                try:
                    if session.should_stop():
                        break
                    batch = session.run(predictions)
                except (tf.errors.OutOfRangeError, StopIteration):
                    break
            yield batch
    except BaseException as error:
        ended = error
        raise
    finally:
        with graph.as_default():
            session.__exit__(type(ended) if ended else None, ended, None)


def _examples(batch):
    if not isinstance(batch, dict):
        yield from batch
        return
    sizes = {key: np.shape(value)[0] if np.ndim(value) else None for key, value in batch.items()}
    size = next(iter(sizes.values()))
    for key, other in sizes.items():
        if other is None or other != size:
            raise ValueError(f"Batch length of predictions should be same. {key} has different "
                             "batch length than others.")
    for at in range(size):
        yield {key: value[at] for key, value in batch.items()}


def _wanted(predictions, keys):
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    found = {key: value for key, value in predictions.items() if key in keys}
    if not found:
        raise ValueError(f"Expected to run at least one output from {predictions.keys()}, "
                         f"provided {keys}.")
    return found


def _write_events(folder, results, path):
    """The metrics as summaries of the global step, and which checkpoint they are of."""
    summary = tf.Summary()
    for key in sorted(set(results) - {tf.GraphKeys.GLOBAL_STEP}):
        value = results[key]
        if isinstance(value, bytes):
            try:
                summary.value.extend(tf.Summary.FromString(value).value)
            except Exception:                   # a text, not a Summary
                _log.warning("Skipping summary for %s, cannot parse string to Summary.", key)
        elif np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiub":
            summary.value.add(tag=key, simple_value=float(value))
        else:
            _log.warning("Skipping summary for %s, must be a number or bytes.", key)
    step = results.get(tf.GraphKeys.GLOBAL_STEP, 0)
    shown = ", ".join(f"{key} = {value}" for key, value in sorted(results.items())
                      if not isinstance(value, bytes))
    _log.info("Saving dict for global step %d: %s", step, shown)
    writer = tf.summary.FileWriterCache.get(folder)
    writer.add_summary(summary, step)
    writer.flush()
    _log.info("Saving 'checkpoint_path' summary for global step %d: %s", step, path)


PUBLIC = {"estimator.Estimator": Estimator}
