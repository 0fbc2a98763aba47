"""RunConfig: where an estimator keeps its model, how often it saves, with which session.

Invariants
    1. A RunConfig is checked when it is made, and when `replace` makes another.
    2. TF_CONFIG may name a model_dir, task and service; a cluster in it is refused.

Thread: any.  Source: TF 1.15 tf.estimator.RunConfig.

    config = tf.estimator.RunConfig(model_dir="train", save_checkpoints_steps=500)
"""
import copy
import inspect
import json
import os

import pyflow as tf

_DEFAULT = object()
_BOTH = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."
_REPLACEABLE = (
    "model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps",
    "save_checkpoints_secs", "session_config", "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours", "log_step_count_steps", "train_distribute", "device_fn",
    "protocol", "eval_distribute", "experimental_distribute", "experimental_max_worker_delay_secs",
    "session_creation_timeout_secs")
_CHECKS = (
    ("model_dir", bool, "model_dir should be non-empty."),
    ("save_summary_steps", lambda n: n >= 0, "save_summary_steps should be >= 0"),
    ("save_checkpoints_steps", lambda n: n >= 0, "save_checkpoints_steps should be >= 0"),
    ("save_checkpoints_secs", lambda n: n >= 0, "save_checkpoints_secs should be >= 0"),
    ("session_config", lambda c: hasattr(c, "allow_soft_placement"),
     "session_config must be instance of ConfigProto"),
    ("keep_checkpoint_max", lambda n: n >= 0, "keep_checkpoint_max should be >= 0"),
    ("keep_checkpoint_every_n_hours", lambda n: n > 0,
     "keep_checkpoint_every_n_hours should be > 0"),
    ("log_step_count_steps", lambda n: n > 0, "log_step_count_steps should be > 0"),
    ("tf_random_seed", lambda n: isinstance(n, int), "tf_random_seed must be integer."),
    ("device_fn", lambda f: callable(f) and list(inspect.signature(f).parameters) == ["op"],
     'device_fn must be callable with exactly one argument "op".'),
    ("protocol", lambda p: p in ("grpc", "grpc+verbs"), "protocol should be grpc or grpc+verbs"),
    ("session_creation_timeout_secs", lambda n: n > 0,
     "session_creation_timeout_secs should be > 0"),
)


class TaskType:
    """The names of a cluster's tasks."""

    MASTER, PS, WORKER, CHIEF, EVALUATOR = "master", "ps", "worker", "chief", "evaluator"


def _property(name, doc):
    return property(lambda self: getattr(self, "_" + name), doc=doc)


class RunConfig:
    """How an Estimator runs.

    model_dir: the folder of checkpoints and summaries. tf_random_seed: of the graphs.
    save_summary_steps; save_checkpoints_steps or save_checkpoints_secs (default 600 seconds; 0 and
    None: never; ValueError for both). session_config: a tf.ConfigProto. keep_checkpoint_max,
    keep_checkpoint_every_n_hours: as tf.train.Saver's. log_step_count_steps: how often loss and
    speed are logged. device_fn(op): a device for each operation. train_distribute,
    eval_distribute, experimental_distribute: ValueError unless None, and so is a cluster in
    TF_CONFIG, for training is in one process. TF: tf.estimator.RunConfig.

        >>> config = tf.estimator.RunConfig(save_checkpoints_steps=10)
        >>> config.save_checkpoints_secs is None, config.is_chief, config.task_type
        (True, True, 'worker')
    """

    def __init__(self, model_dir=None, tf_random_seed=None, save_summary_steps=100,
                 save_checkpoints_steps=_DEFAULT, save_checkpoints_secs=_DEFAULT,
                 session_config=None, keep_checkpoint_max=5, keep_checkpoint_every_n_hours=10000,
                 log_step_count_steps=100, train_distribute=None, device_fn=None, protocol=None,
                 eval_distribute=None, experimental_distribute=None,
                 experimental_max_worker_delay_secs=None, session_creation_timeout_secs=7200):
        given = save_checkpoints_steps is not _DEFAULT, save_checkpoints_secs is not _DEFAULT
        if not any(given):
            save_checkpoints_steps, save_checkpoints_secs = None, 600
        steps = None if save_checkpoints_steps is _DEFAULT else save_checkpoints_steps
        secs = None if save_checkpoints_secs is _DEFAULT else save_checkpoints_secs
        if steps is not None and secs is not None:
            raise ValueError(_BOTH)
        values = {name: value for name, value in locals().items() if name in _REPLACEABLE}
        values.update(save_checkpoints_steps=steps, save_checkpoints_secs=secs)
        tf_config = _tf_config()
        values["model_dir"] = _model_dir(tf_config, model_dir)
        for name, value in values.items():
            setattr(self, "_" + name, value)
        self._service = tf_config.get("service")
        self._master = tf_config.get("session_master", "")
        self._evaluation_master = tf_config.get("eval_session_master", "")
        self._check()

    def __repr__(self):
        return f"<tf.estimator.RunConfig of {self.model_dir!r}>"

    def _check(self):
        for name, holds, message in _CHECKS:
            value = getattr(self, "_" + name)
            if value is not None and not holds(value):
                raise ValueError(message)
        for name in ("train_distribute", "eval_distribute", "experimental_distribute"):
            if getattr(self, "_" + name) is not None:
                raise ValueError(f"RunConfig: {name}={getattr(self, '_' + name)!r}: expected None, "
                                 "for an Estimator trains in one process here; leave it out")

    def replace(self, **kwargs):
        """A copy with these properties changed. ValueError for others, and for both times of
        saving; setting one of them clears the other.

            >>> tf.estimator.RunConfig().replace(save_summary_steps=7).save_summary_steps
            7
        """
        made = copy.copy(self)
        for key, value in kwargs.items():
            if key not in _REPLACEABLE:
                raise ValueError(f"Replacing {key} is not supported. Allowed properties are "
                                 f"{list(_REPLACEABLE)}.")
            setattr(made, "_" + key, value)
        steps, secs = (kwargs.get(f"save_checkpoints_{unit}") for unit in ("steps", "secs"))
        if steps is not None and secs is not None:
            raise ValueError(_BOTH)
        if steps is not None:
            made._save_checkpoints_secs = None
        elif secs is not None:
            made._save_checkpoints_steps = None
        made._check()
        return made

    service = _property("service", "The dict `service` of TF_CONFIG, or None.")
    master = _property("master", "The session's target: \"\".")
    evaluation_master = _property("evaluation_master", "The target of evaluation: \"\".")

    @property
    def is_chief(self):
        """True: there is one process."""
        return True

    @property
    def task_type(self):
        """"worker"."""
        return TaskType.WORKER

    @property
    def task_id(self):
        """0."""
        return 0

    @property
    def global_id_in_cluster(self):
        """0."""
        return 0

    @property
    def num_ps_replicas(self):
        """0."""
        return 0

    @property
    def num_worker_replicas(self):
        """1."""
        return 1

    @property
    def cluster_spec(self):
        """{}: there is no cluster."""
        return {}


for _name in _REPLACEABLE:
    setattr(RunConfig, _name, _property(_name, f"The {_name} given, or its default."))


def _tf_config():
    """TF_CONFIG, checked. ValueError for a cluster, or a task that needs one."""
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG is no JSON: {error}: {text[:200]!r}") from error
    if not isinstance(found, dict):
        raise ValueError(f"TF_CONFIG must be a JSON object, got {text[:200]!r}")
    if found.get("cluster"):
        raise ValueError(
            f"TF_CONFIG names a cluster ({', '.join(sorted(found['cluster']))}); an Estimator runs "
            "in one process in this version: leave `cluster` out of TF_CONFIG, or unset it")
    task = found.get("task") or {}
    if task.get("type", TaskType.WORKER) != TaskType.WORKER:
        raise ValueError('If "cluster" is not set in TF_CONFIG, task type must be WORKER.')
    if int(task.get("index", 0)) != 0:
        raise ValueError('If "cluster" is not set in TF_CONFIG, task index must be 0.')
    if not isinstance(found.get("service", {}), dict):
        raise TypeError('If "service" is set in TF_CONFIG, it must be a dict. Given '
                        f"{type(found['service'])}")
    return found


def _model_dir(tf_config, model_dir):
    """The folder, of the argument or of TF_CONFIG. ValueError where they differ."""
    if model_dir is not None:
        model_dir = os.fspath(model_dir)
    if model_dir == "":
        raise ValueError("model_dir should be non-empty.")
    there = tf_config.get("model_dir")
    if there == "":
        raise ValueError("model_dir in TF_CONFIG should be non-empty.")
    if there and model_dir and there != model_dir:
        raise ValueError("`model_dir` provided in RunConfig construct, if set, must have the same "
                         f"value as the model_dir in TF_CONFIG. model_dir: {model_dir}\n"
                         f'TF_CONFIG["model_dir"]: {there}.\n')
    return model_dir or there


def with_defaults(config, model_dir):
    """The RunConfig of an Estimator: with a folder and a session's options.

    ValueError for another class, or two different folders."""
    import logging
    import tempfile
    config = RunConfig() if config is None else config
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    if config.session_config is None:
        config = RunConfig.replace(
            config, session_config=tf.ConfigProto(allow_soft_placement=True))
    if model_dir is not None:
        model_dir = os.fspath(model_dir)
        if config.model_dir is not None and config.model_dir != model_dir:
            raise ValueError(
                "`model_dir` are set both in constructor and `RunConfig`, but with different "
                f"values. In constructor: '{model_dir}', in `RunConfig`: '{config.model_dir}' ")
    folder = model_dir or config.model_dir
    if folder is None:
        folder = tempfile.mkdtemp()
        logging.getLogger("pyflow").warning("Using temporary folder as model directory: %s", folder)
    return RunConfig.replace(config, model_dir=folder)


PUBLIC = {"estimator.RunConfig": RunConfig}
