"""RunConfig: where an estimator keeps its model, how often it saves, with which session.

Invariants
    1. A RunConfig is checked when it is made, and when `replace` makes another.
    2. TF_CONFIG may name a model_dir, a cluster, this process's task in it, and a service;
       cluster_roles.py says what follows.

Thread: any.  Source: TF 1.15 tf.estimator.RunConfig.

    config = tf.estimator.RunConfig(model_dir="train", save_checkpoints_steps=500)
"""
import copy
import inspect
import json
import os

import pyflow as tf
from pyflow.estimator import cluster_roles

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

    MASTER, PS, WORKER = cluster_roles.MASTER, cluster_roles.PS, cluster_roles.WORKER
    CHIEF, EVALUATOR = cluster_roles.CHIEF, cluster_roles.EVALUATOR


def _property(name, doc):
    return property(lambda self: getattr(self, "_" + name), doc=doc)


class RunConfig:
    """How an Estimator runs.

    model_dir: the folder of checkpoints and summaries. tf_random_seed: of the graphs.
    save_summary_steps; save_checkpoints_steps or save_checkpoints_secs (default 600 seconds; 0 and
    None: never; ValueError for both). session_config: a tf.ConfigProto. keep_checkpoint_max,
    keep_checkpoint_every_n_hours: as tf.train.Saver's. log_step_count_steps: how often loss and
    speed are logged. device_fn(op): a device for each operation; default, in a cluster with
    parameter servers: tf.train.replica_device_setter. protocol: of the server, "grpc".
    experimental_max_worker_delay_secs: how long a worker waits at most before it begins.
    train_distribute, eval_distribute, experimental_distribute: ValueError unless None.
    A cluster in TF_CONFIG: see tf.estimator.train_and_evaluate. TF: tf.estimator.RunConfig.

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
        self._service, self._role = tf_config.get("service"), cluster_roles.role_of(tf_config)
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
                raise ValueError(f"RunConfig: {name}={getattr(self, '_' + name)!r}: expected None: "
                                 "there are no strategies here; leave it out")

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

    @property
    def master(self):
        """The target of the sessions that train: of the task's own server, "" without a
        cluster."""
        return self._role.master

    @property
    def evaluation_master(self):
        """The target of evaluations: "" unless TF_CONFIG gives an evaluator another."""
        return self._role.evaluation_master

    @property
    def is_chief(self):
        """True for the task that initialises and saves, and without a cluster."""
        return self._role.is_chief

    @property
    def task_type(self):
        """The job of this process: "worker" without a cluster, or "chief", "master", "ps",
        "evaluator"."""
        return self._role.task_type

    @property
    def task_id(self):
        """The number of the task in its job."""
        return self._role.task_id

    @property
    def global_id_in_cluster(self):
        """Its number of all tasks: the chief's is 0, parameter servers are last; None for an
        evaluator."""
        return self._role.number

    @property
    def num_ps_replicas(self):
        """How many parameter servers the cluster has."""
        return self._role.num_ps

    @property
    def num_worker_replicas(self):
        """How many workers the cluster has, the chief among them."""
        return self._role.num_workers

    @property
    def cluster_spec(self):
        """The tf.train.ClusterSpec; {} without a cluster, and for an evaluator, which is in
        none."""
        return self._role.cluster


for _name in _REPLACEABLE:
    setattr(RunConfig, _name, _property(_name, f"The {_name} given, or its default."))


def _tf_config():
    """The fields of TF_CONFIG. ValueError, TypeError for what is none."""
    text = os.environ.get("TF_CONFIG") or "{}"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"TF_CONFIG is no JSON: {error}: {text[:200]!r}") from error
    if not isinstance(found, dict):
        raise ValueError(f"TF_CONFIG must be a JSON object, got {text[:200]!r}")
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


def _session_config(config):
    """A ConfigProto with soft placement; in a cluster sessions speak to parameter servers alone,
    besides their own task."""
    made, own = tf.ConfigProto(allow_soft_placement=True), config.task_type
    if config.cluster_spec:
        made.device_filters.extend({
            TaskType.WORKER: ["/job:ps", f"/job:worker/task:{config.task_id}"],
            TaskType.PS: ["/job:ps", "/job:worker", "/job:chief", "/job:master"],
        }.get(own, ["/job:ps", f"/job:{own}"]))
    return made


def with_defaults(config, model_dir):
    """The RunConfig of an Estimator: with a folder and a session's options.

    ValueError for another class, or two different folders."""
    import logging
    import tempfile
    config = RunConfig() if config is None else config
    if not isinstance(config, RunConfig):
        raise ValueError(f"config must be an instance of `RunConfig`, but provided {config}.")
    if config.session_config is None:
        config = RunConfig.replace(config, session_config=_session_config(config))
    if model_dir is not None:
        model_dir = os.fspath(model_dir)
        if config.model_dir is not None and config.model_dir != model_dir:
            raise ValueError(
                "`model_dir` are set both in constructor and `RunConfig`, but with different "
                f"values. In constructor: '{model_dir}', in `RunConfig`: '{config.model_dir}' ")
    folder = model_dir or config.model_dir
    if folder is None:
        folder = tempfile.mkdtemp()
        logging.getLogger("tensorflow").warning("Using temporary folder as model directory: %s", folder)
    return RunConfig.replace(config, model_dir=folder)


PUBLIC = {"estimator.RunConfig": RunConfig}
