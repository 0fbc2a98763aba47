"""tf.contrib.learn: estimators as they were before tf.estimator, on top of it.

    learn.Estimator(model_fn).fit(x, y, steps=100)      model_fn -> ModelFnOps or a tuple
      `-> tf.estimator.Estimator of the same folder, with EstimatorSpecs

Invariants
    1. An estimator of arrays gives model_fn the array itself; canned ones give it as feature "".
    2. Losses are means over a batch; metrics have contrib's names.

Thread: one.  Source: TF 1.15 tf.contrib.learn.

    columns = tf.contrib.learn.infer_real_valued_columns_from_input(x)
    tf.contrib.learn.DNNClassifier([10, 20], columns, n_classes=3).fit(x, y, steps=200)
"""
import collections
import inspect

import numpy as np

import pyflow as tf
from pyflow.estimator import array_inputs, heads, input_results, run_config
from pyflow.estimator.contrib_columns import real_valued_column
from pyflow.estimator.dnn import dnn_logits
from pyflow.estimator.estimators import Estimator as Core
from pyflow.estimator.linear import linear_logits, partitioner_of
from pyflow.estimator.spec import EstimatorSpec

_MEAN = tf.losses.Reduction.SUM_OVER_BATCH_SIZE


class ModeKeys:
    """"train", "eval" or "infer". TF: tf.contrib.learn.ModeKeys."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"

    @classmethod
    def validate(cls, key):
        """ValueError for another mode."""
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")


class RunConfig(run_config.RunConfig):
    """A tf.estimator.RunConfig of contrib's arguments.

    master, evaluation_master: "" or None; protocol: taken without effect. num_cores (0: all),
    log_device_placement, gpu_memory_fraction: of the session, unless session_config is given.
    TF: tf.contrib.learn.RunConfig.

        >>> config = tf.contrib.learn.RunConfig(num_cores=2, save_checkpoints_steps=50)
        >>> config.tf_config.intra_op_parallelism_threads, config.save_checkpoints_secs
        (2, None)
    """

    def __init__(self, master=None, num_cores=0, log_device_placement=False,
                 gpu_memory_fraction=1.0, tf_random_seed=None, save_summary_steps=100,
                 save_checkpoints_secs=600, save_checkpoints_steps=None, keep_checkpoint_max=5,
                 keep_checkpoint_every_n_hours=10000, log_step_count_steps=100, protocol=None,
                 evaluation_master="", model_dir=None, session_config=None,
                 session_creation_timeout_secs=7200):
        if master or evaluation_master:
            raise ValueError(f"RunConfig: master={master!r}, evaluation_master="
                             f"{evaluation_master!r}: expected none; a cluster is TF_CONFIG's, "
                             "which tf.estimator.RunConfig reads")
        if save_checkpoints_steps is not None:
            secs = None if save_checkpoints_secs == 600 else save_checkpoints_secs
        else:
            secs = save_checkpoints_secs
        super().__init__(model_dir, tf_random_seed, save_summary_steps, save_checkpoints_steps,
                         secs, session_config, keep_checkpoint_max, keep_checkpoint_every_n_hours,
                         log_step_count_steps,
                         session_creation_timeout_secs=session_creation_timeout_secs)
        self._tf_config = tf.ConfigProto(
            log_device_placement=log_device_placement, inter_op_parallelism_threads=num_cores,
            intra_op_parallelism_threads=num_cores, allow_soft_placement=True,
            gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=gpu_memory_fraction))
        if session_config is None:
            self._session_config = self._tf_config

    @property
    def tf_config(self):
        """The session's options."""
        return self._tf_config


class ModelFnOps(collections.namedtuple("ModelFnOps", (
        "mode predictions loss train_op eval_metric_ops output_alternatives training_chief_hooks "
        "training_hooks scaffold"))):
    """What contrib's model functions return. TF: tf.contrib.learn.ModelFnOps."""

    __slots__ = ()

    def __new__(cls, mode, predictions=None, loss=None, train_op=None, eval_metric_ops=None,
                output_alternatives=None, training_chief_hooks=None, training_hooks=None,
                scaffold=None):
        ModeKeys.validate(mode)
        return super().__new__(cls, mode, predictions, loss, train_op, eval_metric_ops or {},
                               output_alternatives, training_chief_hooks or [],
                               training_hooks or [], scaffold)

    def as_spec(self, more_metrics):
        """The EstimatorSpec."""
        predictions = self.predictions
        return EstimatorSpec(
            self.mode, predictions, self.loss if self.mode != "infer" else None, self.train_op,
            {**self.eval_metric_ops, **more_metrics}, None, self.training_chief_hooks,
            self.training_hooks, self.scaffold)


class MetricSpec:
    """A metric to evaluate: metric_fn of one prediction and one label.

    prediction_key, label_key: which, if there are several; weight_key: the feature that weighs.
    TF: tf.contrib.learn.MetricSpec."""

    def __init__(self, metric_fn, prediction_key=None, label_key=None, weight_key=None):
        self._metric_fn, self._prediction_key = metric_fn, prediction_key
        self._label_key, self._weight_key = label_key, weight_key

    def __repr__(self):
        return f"<tf.contrib.learn.MetricSpec {getattr(self._metric_fn, '__name__', '?')}>"

    @property
    def metric_fn(self):
        """The function."""
        return self._metric_fn

    def create_metric_ops(self, inputs, labels, predictions):
        """(value, update_op). ValueError for keys that are needed or not there."""
        prediction = _one(predictions, self._prediction_key, "prediction")
        label = _one(labels, self._label_key, "label")
        more = {}
        if self._weight_key is not None:
            more["weights"] = _one(inputs, self._weight_key, "weight")
        names = list(inspect.signature(self._metric_fn).parameters)
        if "labels" in names and "predictions" in names:
            return self._metric_fn(labels=labels if label is None else label,
                                   predictions=prediction, **more)
        if "targets" in names:
            return self._metric_fn(targets=label, predictions=prediction, **more)
        return self._metric_fn(prediction, label, **more)


def _one(values, key, what):
    if not isinstance(values, dict):
        return values
    if key is None:
        if len(values) != 1:
            raise ValueError(f"MetricSpec without {what}_key specified requires predictions tensor "
                             f"or single element dict, got {sorted(values)}")
        return next(iter(values.values()))
    if key not in values:
        raise ValueError(f"MetricSpec with {what}_key specified requires {what}s dict with the "
                         f"key, got {sorted(values)}: {key}")
    return values[key]


class Estimator:
    """A model function with fit, evaluate and predict of arrays or input functions.

    model_fn(features, labels, mode, params, config): of which it takes what it wants; returns
    ModelFnOps or (predictions, loss, train_op). feature_engineering_fn(features, labels): applied
    before. The rest as tf.estimator.Estimator's. TF: tf.contrib.learn.Estimator."""

    _array_key = None           # the feature's name for an array; None: the array is the features

    def __init__(self, model_fn=None, model_dir=None, config=None, params=None,
                 feature_engineering_fn=None):
        if model_fn is None:
            raise ValueError("model_fn must be provided to Estimator.")
        self._model_fn, self._params = model_fn, params
        self._engineer = feature_engineering_fn
        self._config = run_config.with_defaults(config, model_dir)

    def __repr__(self):
        return f"<tf.contrib.learn.{type(self).__name__} of {self.model_dir!r}>"

    @property
    def model_dir(self):
        """The folder of checkpoints and events."""
        return self._config.model_dir

    @property
    def config(self):
        """The RunConfig."""
        return self._config

    # ------------------------------------------------------------ work

    def fit(self, x=None, y=None, input_fn=None, steps=None, batch_size=None, monitors=None,
            max_steps=None):
        """Trains with arrays x, y in batches of batch_size (32), shuffled, or with input_fn, for
        `steps` or to max_steps. monitors: SessionRunHooks. Returns self. ValueError for both or
        none of x and input_fn, or of steps and max_steps."""
        if steps is not None and max_steps is not None:
            raise ValueError("Can not provide both steps and max_steps.")
        batches = self._input(x, y, input_fn, batch_size or 32, None, True)
        self._core().train(batches, hooks=monitors, steps=steps, max_steps=max_steps)
        return self

    def partial_fit(self, x=None, y=None, input_fn=None, steps=1, batch_size=None, monitors=None):
        """fit, for one step unless `steps` says more."""
        return self.fit(x, y, input_fn, steps, batch_size, monitors)

    def evaluate(self, x=None, y=None, input_fn=None, feed_fn=None, batch_size=None, steps=None,
                 metrics=None, name=None, checkpoint_path=None, hooks=None, log_progress=True):
        """{metric: value}. metrics: {name: MetricSpec or metric_fn} beside the model's own.
        ValueError for feed_fn, which is not taken."""
        if feed_fn is not None:
            raise ValueError("feed_fn is not taken: give input_fn")
        batches = self._input(x, y, input_fn, batch_size or 128, 1, False)
        return self._core(metrics).evaluate(batches, steps=steps, hooks=hooks, name=name,
                                            checkpoint_path=checkpoint_path)

    def predict(self, x=None, input_fn=None, batch_size=None, outputs=None, as_iterable=True,
                iterate_batches=False):
        """Predictions, one by one (as_iterable) or as arrays: of all of x, of an input_fn's first
        batch, for it may go on for ever. outputs: which of them."""
        batches = self._input(x, None, input_fn, batch_size or 128, 1, False)
        found = self._core().predict(batches, predict_keys=outputs,
                                     yield_single_examples=not iterate_batches and as_iterable)
        if as_iterable:
            return found
        if x is None:
            first = next(found, [])
            found.close()
            return first
        found = list(found)
        if found and isinstance(found[0], dict):
            return {key: np.concatenate([one[key] for one in found]) for key in found[0]}
        return np.concatenate(found)

    def get_variable_names(self):
        """Names of the newest checkpoint's tensors."""
        return self._core().get_variable_names()

    def get_variable_value(self, name):
        """A variable's value, a NumPy array."""
        return self._core().get_variable_value(name)

    def export_savedmodel(self, export_dir_base, serving_input_fn, assets_extra=None, as_text=False,
                          checkpoint_path=None, strip_default_attrs=False):
        """As tf.estimator.Estimator's; serving_input_fn(): a ServingInputReceiver."""
        return self._core().export_savedmodel(export_dir_base, serving_input_fn, assets_extra,
                                              as_text, checkpoint_path, strip_default_attrs)

    # ------------------------------------------------------------ below it

    def _core(self, metrics=None):
        """The tf.estimator.Estimator of the same folder, which measures `metrics` too."""
        def model_fn(features, labels, mode):
            if self._engineer is not None:
                features, labels = self._engineer(features, labels)
            made = self._called(features, labels, mode)
            if isinstance(made, EstimatorSpec):
                return made if mode != ModeKeys.EVAL else made._replace(eval_metric_ops={
                    **made.eval_metric_ops, **_measured(metrics, features, labels, made)})
            if isinstance(made, tuple) and not isinstance(made, ModelFnOps):
                made = _from_tuple(made, mode)
            more = _measured(metrics, features, labels, made) if mode == ModeKeys.EVAL else {}
            return made.as_spec(more)
        return Core(model_fn, config=self._config)

    def _called(self, features, labels, mode):
        wanted = input_results.arguments_of(self._model_fn)
        there = {"mode": mode, "params": self._params or {}, "config": self._config,
                 "model_dir": self.model_dir}
        return self._model_fn(features, labels, **{
            name: value for name, value in there.items() if name in wanted})

    def _input(self, x, y, input_fn, batch_size, epochs, shuffle):
        if input_fn is not None:
            if x is not None or y is not None:
                raise ValueError("Can not provide both input_fn and x or y.")
            return input_fn
        if x is None:
            raise ValueError("Either x or input_fn must be provided.")
        x = {key: np.asarray(value) for key, value in x.items()} if isinstance(x, dict) \
            else np.asarray(x)
        if not isinstance(x, dict) and self._array_key is not None:
            x = {self._array_key: x}
        y = {key: np.asarray(value) for key, value in y.items()} if isinstance(y, dict) \
            else None if y is None else np.asarray(y)
        return array_inputs.numpy_input_fn(x, y, batch_size=batch_size, num_epochs=epochs,
                                           shuffle=shuffle)


def _from_tuple(made, mode):
    if len(made) != 3:
        raise ValueError(f"Unrecognized value returned by model_fn, {made}.")
    predictions, loss, train_op = made
    return ModelFnOps(mode, predictions, loss, train_op if mode == ModeKeys.TRAIN else None)


def _measured(metrics, features, labels, made):
    found = {}
    for name, metric in (metrics or {}).items():
        if isinstance(name, tuple):
            name, metric = name[0], MetricSpec(metric, prediction_key=name[1])
        if not isinstance(metric, MetricSpec):
            metric = MetricSpec(metric)
        found[name] = metric.create_metric_ops(features, labels, made.predictions)
    return found


class SKCompat:
    """An estimator with fit, predict and score as scikit-learn's. TF: tf.contrib.learn.SKCompat."""

    def __init__(self, estimator):
        self._estimator = estimator

    def __repr__(self):
        return f"<tf.contrib.learn.SKCompat of {self._estimator!r}>"

    def fit(self, x, y, batch_size=128, steps=None, max_steps=None, monitors=None):
        """Trains; returns self."""
        self._estimator.fit(x, y, steps=steps, batch_size=batch_size, monitors=monitors,
                            max_steps=max_steps)
        return self

    def score(self, x, y, batch_size=128, steps=None, metrics=None, name=None):
        """The metrics, without the global step."""
        found = self._estimator.evaluate(x, y, batch_size=batch_size, steps=steps, metrics=metrics,
                                         name="score" if name is None else name)
        found.pop(tf.GraphKeys.GLOBAL_STEP, None)
        return found

    def predict(self, x, batch_size=128, outputs=None):
        """Arrays of all predictions, in a dict where the model gives one."""
        return Estimator.predict(self._estimator, x, batch_size=batch_size, outputs=outputs,
                                 as_iterable=False)


# ---------------------------------------------------------------- canned estimators

_OLD_NAMES = {"prediction/mean": "labels/prediction_mean", "label/mean": "labels/actual_label_mean",
              "accuracy_baseline": "accuracy/baseline_label_mean",
              "precision": "precision/positive_threshold_0.500000_mean",
              "recall": "recall/positive_threshold_0.500000_mean"}


class _Canned(Estimator):
    """Estimators with a head, of which `_logits` says how logits are made."""

    _array_key = ""

    def __init__(self, head, model_dir, config, optimizer, clip_norm, feature_engineering_fn):
        self._head, self._optimizer, self._clip = head, optimizer, clip_norm
        super().__init__(self._head_model_fn, model_dir, config, None, feature_engineering_fn)

    def _head_model_fn(self, features, labels, mode):
        if not isinstance(features, dict):
            features = {"": features}
        logits, variables = self._logits(features, mode)

        def train_op_fn(loss):
            return self._minimize(loss, variables)
        spec = self._head.create_estimator_spec(features, mode, logits, labels,
                                                train_op_fn=train_op_fn)
        renamed = {_OLD_NAMES.get(name, name): pair for name, pair in spec.eval_metric_ops.items()
                   if name != "average_loss"}
        predictions = {**spec.predictions}
        if "class_ids" in predictions:
            predictions["classes"] = predictions["class_ids"]
        if "predictions" in predictions:
            predictions["scores"] = predictions.pop("predictions")
        return spec._replace(eval_metric_ops=renamed, predictions={
            key: tf.squeeze(value, [-1]) if key in ("classes", "scores") and
            value.shape[-1].value == 1 else value for key, value in predictions.items()})

    def _minimize(self, loss, variables):
        """A step of all optimisers, [(names' start, optimizer)]."""
        step, ops = tf.train.get_global_step(), []
        for start, optimizer in variables:
            pairs = optimizer.compute_gradients(loss, tf.get_collection(
                tf.GraphKeys.TRAINABLE_VARIABLES, scope=start + "/"))
            pairs = [(g, v) for g, v in pairs if g is not None]
            if self._clip is not None:
                clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], self._clip)
                pairs = list(zip(clipped, [v for _, v in pairs]))
            ops.append(optimizer.apply_gradients(pairs))
        with tf.control_dependencies(ops):
            return tf.assign_add(step, 1).op

    def predict_classes(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        """The classes' numbers."""
        return self._only("classes", x, input_fn, batch_size, as_iterable)

    def predict_proba(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        """The classes' probabilities."""
        return self._only("probabilities", x, input_fn, batch_size, as_iterable)

    def predict_scores(self, x=None, input_fn=None, batch_size=None, as_iterable=True):
        """The numbers that a regressor predicts."""
        return self._only("scores", x, input_fn, batch_size, as_iterable)

    def predict(self, x=None, input_fn=None, batch_size=None, outputs=None, as_iterable=True):
        """Classes or numbers; with `outputs` these predictions, in dicts."""
        if outputs is not None:
            return super().predict(x, input_fn, batch_size, outputs, as_iterable)
        key = "scores" if isinstance(self._head, heads.RegressionHead) else "classes"
        return self._only(key, x, input_fn, batch_size, as_iterable)

    def _only(self, key, x, input_fn, batch_size, as_iterable):
        found = super().predict(x, input_fn, batch_size, [key], as_iterable)
        return (one[key] for one in found) if as_iterable else found[key]


def _optimizer(given, make):
    if given is None:
        return make()
    from pyflow.estimator.optimizers import optimizer_of
    return optimizer_of(given, 0.05)


class _Linear:
    def _linear(self, features, scope="linear"):
        with tf.variable_scope(scope, values=tuple(features.values()),
                               partitioner=partitioner_of(self._config)):
            return linear_logits(features, self._wide, self._head.logits_dimension, "sum")


class _Deep:
    def _deep(self, features, mode, scope="dnn"):
        with tf.variable_scope(scope, values=tuple(features.values())):
            return dnn_logits(features, mode, self._head.logits_dimension, self._units, self._dense,
                              self._activation, self._dropout, False, partitioner_of(self._config))


def _classifier_head(n_classes, weights, label_keys):
    if n_classes < 2:
        raise ValueError(f"Classes should be greater than 1. Given: {n_classes}")
    return heads.binary_or_multi_class_head(n_classes, weights, label_keys, _MEAN)


class LinearClassifier(_Canned, _Linear):
    """A linear model of classes. gradient_clip_norm: of the gradients. label_keys: the classes'
    names. The rest as tf.estimator.LinearClassifier's. TF: tf.contrib.learn.LinearClassifier."""

    def __init__(self, feature_columns, model_dir=None, n_classes=2, weight_column_name=None,
                 optimizer=None, gradient_clip_norm=None, enable_centered_bias=False,
                 _joint_weight=False, config=None, feature_engineering_fn=None, label_keys=None):
        self._wide = list(feature_columns)
        super().__init__(_classifier_head(n_classes, weight_column_name, label_keys), model_dir,
                         config, optimizer, gradient_clip_norm, feature_engineering_fn)

    def _logits(self, features, mode):
        trainer = _optimizer(self._optimizer, lambda: tf.train.FtrlOptimizer(
            min(0.2, len(self._wide) ** -0.5)))
        return self._linear(features), [("linear", trainer)]

    @property
    def weights_(self):
        """{variable: value} of the columns."""
        return {name: self.get_variable_value(name) for name in self.get_variable_names()
                if name.endswith("/weights")}

    @property
    def bias_(self):
        """The bias."""
        return self.get_variable_value("linear/linear_model/bias_weights")


class LinearRegressor(LinearClassifier):
    """A linear model of label_dimension numbers. TF: tf.contrib.learn.LinearRegressor."""

    def __init__(self, feature_columns, model_dir=None, weight_column_name=None, optimizer=None,
                 gradient_clip_norm=None, enable_centered_bias=False, label_dimension=1,
                 _joint_weights=False, config=None, feature_engineering_fn=None):
        self._wide = list(feature_columns)
        _Canned.__init__(
            self, heads.RegressionHead(label_dimension, weight_column_name, _MEAN), model_dir,
            config, optimizer, gradient_clip_norm, feature_engineering_fn)


class DNNClassifier(_Canned, _Deep):
    """A network of dense layers for classes; arguments as tf.estimator.DNNClassifier's and
    LinearClassifier's. TF: tf.contrib.learn.DNNClassifier.

        >>> x = np.array([[0.0], [1.0]] * 20, np.float32)
        >>> columns = tf.contrib.learn.infer_real_valued_columns_from_input(x)
        >>> config = tf.contrib.learn.RunConfig(tf_random_seed=1)
        >>> model = tf.contrib.learn.DNNClassifier([8], columns, n_classes=2, config=config)
        >>> model = model.fit(x, np.array([0, 1] * 20), steps=100, batch_size=40)
        >>> [int(c) for c in model.predict(x[:4])]
        [0, 1, 0, 1]
    """

    def __init__(self, hidden_units, feature_columns, model_dir=None, n_classes=2,
                 weight_column_name=None, optimizer=None, activation_fn=tf.nn.relu, dropout=None,
                 gradient_clip_norm=None, enable_centered_bias=False, config=None,
                 feature_engineering_fn=None, embedding_lr_multipliers=None,
                 input_layer_min_slice_size=None, label_keys=None):
        self._set(hidden_units, feature_columns, activation_fn, dropout)
        super().__init__(_classifier_head(n_classes, weight_column_name, label_keys), model_dir,
                         config, optimizer, gradient_clip_norm, feature_engineering_fn)

    def _set(self, hidden_units, feature_columns, activation_fn, dropout):
        self._units, self._dense = list(hidden_units), list(feature_columns)
        self._activation, self._dropout = activation_fn, dropout

    def _logits(self, features, mode):
        trainer = _optimizer(self._optimizer, lambda: tf.train.AdagradOptimizer(0.05))
        return self._deep(features, mode), [("dnn", trainer)]


class DNNRegressor(DNNClassifier):
    """A network of dense layers for numbers. TF: tf.contrib.learn.DNNRegressor."""

    def __init__(self, hidden_units, feature_columns, model_dir=None, weight_column_name=None,
                 optimizer=None, activation_fn=tf.nn.relu, dropout=None, gradient_clip_norm=None,
                 enable_centered_bias=False, config=None, feature_engineering_fn=None,
                 label_dimension=1, embedding_lr_multipliers=None, input_layer_min_slice_size=None):
        self._set(hidden_units, feature_columns, activation_fn, dropout)
        _Canned.__init__(
            self, heads.RegressionHead(label_dimension, weight_column_name, _MEAN), model_dir,
            config, optimizer, gradient_clip_norm, feature_engineering_fn)


class DNNLinearCombinedClassifier(_Canned, _Deep, _Linear):
    """A linear model and a network of dense layers for classes.
    TF: tf.contrib.learn.DNNLinearCombinedClassifier."""

    def __init__(self, model_dir=None, n_classes=2, weight_column_name=None,
                 linear_feature_columns=None, linear_optimizer=None, _joint_linear_weights=False,
                 dnn_feature_columns=None, dnn_optimizer=None, dnn_hidden_units=None,
                 dnn_activation_fn=tf.nn.relu, dnn_dropout=None, gradient_clip_norm=None,
                 enable_centered_bias=False, config=None, feature_engineering_fn=None,
                 embedding_lr_multipliers=None, input_layer_min_slice_size=None, label_keys=None,
                 fix_global_step_increment_bug=True):
        self._set(linear_feature_columns, dnn_feature_columns, dnn_hidden_units, dnn_activation_fn,
                  dnn_dropout)
        super().__init__(_classifier_head(n_classes, weight_column_name, label_keys), model_dir,
                         config, (linear_optimizer, dnn_optimizer), gradient_clip_norm,
                         feature_engineering_fn)

    def _set(self, wide, deep, units, activation, dropout):
        self._wide, self._dense, self._units = list(wide or ()), list(deep or ()), list(units or ())
        self._activation, self._dropout = activation, dropout
        if not self._wide and not self._dense:
            raise ValueError("Either linear_feature_columns or dnn_feature_columns must be "
                             "defined.")

    def _logits(self, features, mode):
        parts, trainers = [], []
        if self._dense:
            parts.append(self._deep(features, mode))
            trainers.append(("dnn", _optimizer(
                self._optimizer[1], lambda: tf.train.AdagradOptimizer(0.05))))
        if self._wide:
            parts.append(self._linear(features))
            trainers.append(("linear", _optimizer(
                self._optimizer[0],
                lambda: tf.train.FtrlOptimizer(min(0.2, len(self._wide) ** -0.5)))))
        return tf.add_n(parts), trainers


class DNNLinearCombinedRegressor(DNNLinearCombinedClassifier):
    """The same for numbers. TF: tf.contrib.learn.DNNLinearCombinedRegressor."""

    def __init__(self, model_dir=None, weight_column_name=None, linear_feature_columns=None,
                 linear_optimizer=None, _joint_linear_weights=False, dnn_feature_columns=None,
                 dnn_optimizer=None, dnn_hidden_units=None, dnn_activation_fn=tf.nn.relu,
                 dnn_dropout=None, gradient_clip_norm=None, enable_centered_bias=False,
                 label_dimension=1, config=None, feature_engineering_fn=None,
                 embedding_lr_multipliers=None, input_layer_min_slice_size=None,
                 fix_global_step_increment_bug=True):
        self._set(linear_feature_columns, dnn_feature_columns, dnn_hidden_units, dnn_activation_fn,
                  dnn_dropout)
        _Canned.__init__(
            self, heads.RegressionHead(label_dimension, weight_column_name, _MEAN), model_dir,
            config, (linear_optimizer, dnn_optimizer), gradient_clip_norm, feature_engineering_fn)


# ---------------------------------------------------------------- columns of arrays

def infer_real_valued_columns_from_input(x):
    """[real_valued_column] of an array [rows, n], or of each array of a dict.
    TF: tf.contrib.learn.infer_real_valued_columns_from_input."""
    if isinstance(x, dict):
        return [_inferred(key, np.asarray(value)) for key, value in sorted(x.items())]
    return [_inferred("", np.asarray(x))]


def infer_real_valued_columns_from_input_fn(input_fn):
    """The same of the tensors that an input function gives.
    TF: tf.contrib.learn.infer_real_valued_columns_from_input_fn."""
    with tf.Graph().as_default():
        features, _, _ = input_results.parsed(input_fn())
        features = features if isinstance(features, dict) else {"": features}
        return [_inferred(key, value) for key, value in sorted(features.items())]


def _inferred(key, value):
    if isinstance(value, tf.SparseTensor):
        raise ValueError(f"SparseTensor is not supported for auto detection. Please define "
                         f"corresponding FeatureColumn for tensor {key} {value}.")
    dtype = tf.as_dtype(value.dtype)
    if not (dtype.is_floating or dtype.is_integer):
        raise ValueError(f"on integer or non floating types are not supported for auto detection. "
                         f"Please define corresponding FeatureColumn for tensor {key} {value}.")
    shape = value.shape.as_list() if isinstance(value, tf.Tensor) else list(value.shape)
    dimension = 1
    for size in shape[1:]:
        dimension *= size
    return real_valued_column(key, dimension=dimension, dtype=dtype)


PUBLIC = {f"contrib.learn.{made.__name__}": made for made in (
    ModeKeys, RunConfig, ModelFnOps, MetricSpec, Estimator, SKCompat, LinearClassifier,
    LinearRegressor, DNNClassifier, DNNRegressor, DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor, infer_real_valued_columns_from_input,
    infer_real_valued_columns_from_input_fn)}
