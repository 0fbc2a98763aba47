"""tf.contrib.learn.Experiment and learn_runner: an estimator with its inputs, run by a schedule.

Thread: one.  Source: TF 1.15 tf.contrib.learn, in one process.

    tf.contrib.learn.learn_runner.run(experiment_fn, run_config=config, schedule="train")
"""
from pyflow.estimator import contrib_learn, estimators, run_config as configs

_SCHEDULES = ("train", "evaluate", "train_and_evaluate", "test", "local_run")


class Experiment:
    """What to train and evaluate.

    estimator: of tf.estimator or tf.contrib.learn. train_input_fn, eval_input_fn: its inputs.
    eval_metrics: {name: MetricSpec}, of contrib's. train_steps: None: until the input ends.
    eval_steps (100). train_monitors, eval_hooks: SessionRunHooks. min_eval_frequency: how many
    steps are between evaluations of train_and_evaluate; None: only at the end. ValueError
    for others. TF: tf.contrib.learn.Experiment."""

    def __init__(self, estimator, train_input_fn, eval_input_fn, eval_metrics=None,
                 train_steps=None, eval_steps=100, train_monitors=None, eval_hooks=None,
                 min_eval_frequency=None):
        if not isinstance(estimator, (estimators.Estimator, contrib_learn.Estimator)):
            raise ValueError("`estimator` must implement Evaluable and Trainable. Got: "
                             f"{type(estimator)}")
        self._is_core = isinstance(estimator, estimators.Estimator)
        if self._is_core and eval_metrics is not None:
            raise ValueError("`eval_metrics` must be `None` with `tf.estimator.Estimator`. Use "
                             "`eval_metric_ops` in `tf.estimator.EstimatorSpec` instead.")
        self._estimator, self._train_fn, self._eval_fn = estimator, train_input_fn, eval_input_fn
        self._metrics, self._train_steps, self._eval_steps = eval_metrics, train_steps, eval_steps
        self._monitors, self._eval_hooks = list(train_monitors or ()), list(eval_hooks or ())
        self._frequency = min_eval_frequency

    def __repr__(self):
        return f"<tf.contrib.learn.Experiment of {self._estimator!r}>"

    @property
    def estimator(self):
        """The estimator."""
        return self._estimator

    @property
    def train_steps(self):
        """The step to train to."""
        return self._train_steps

    @property
    def eval_steps(self):
        """The batches of an evaluation."""
        return self._eval_steps

    def train(self, delay_secs=None):
        """Trains to train_steps. Returns the estimator."""
        return self._train(self._train_steps)

    def _train(self, steps):
        if self._is_core:
            return self._estimator.train(self._train_fn, hooks=self._monitors, max_steps=steps)
        return self._estimator.fit(input_fn=self._train_fn, max_steps=steps,
                                   monitors=self._monitors)

    def evaluate(self, delay_secs=None, name=None):
        """The metrics of the newest checkpoint."""
        more = {} if self._is_core else {"metrics": self._metrics}
        return self._estimator.evaluate(input_fn=self._eval_fn, steps=self._eval_steps,
                                        hooks=self._eval_hooks, name=name, **more)

    def train_and_evaluate(self):
        """(metrics, []): trains to train_steps, evaluates every min_eval_frequency steps and at the
        end."""
        if self._frequency and self._train_steps:
            for steps in range(self._frequency, self._train_steps, self._frequency):
                self._train(steps)
                self.evaluate()
        self._train(self._train_steps)
        return self.evaluate(), []

    local_run = train_and_evaluate

    def test(self):
        """(metrics, []): one step of training and one of evaluation."""
        self._train(1)
        more = {} if self._is_core else {"metrics": self._metrics}
        return self._estimator.evaluate(input_fn=self._eval_fn, steps=1, name="one_pass",
                                        hooks=self._eval_hooks, **more), []


def run(experiment_fn, output_dir=None, schedule=None, run_config=None, hparams=None):
    """Makes an Experiment and runs it.

    experiment_fn(output_dir), or experiment_fn(run_config, hparams) with run_config, whose
    model_dir must be set. schedule: "train_and_evaluate" (default), "train", "evaluate", "test",
    "local_run". ValueError, TypeError for others. TF: tf.contrib.learn.learn_runner.run."""
    if not callable(experiment_fn):
        raise TypeError(f'Experiment builder "{experiment_fn}" is not callable.')
    if output_dir is not None and run_config is not None:
        raise ValueError("Cannot provide both `output_dir` and `run_config`")
    if run_config is not None:
        if not isinstance(run_config, configs.RunConfig):
            raise ValueError("`run_config` must be `tf.contrib.learn.RunConfig` instance")
        if not run_config.model_dir:
            raise ValueError("Must specify a model directory `model_dir` in `run_config`.")
        experiment = experiment_fn(run_config, hparams)
    else:
        if not output_dir:
            raise ValueError("Must specify an output directory")
        experiment = experiment_fn(output_dir)
    if not isinstance(experiment, Experiment):
        raise TypeError("Experiment builder did not return an Experiment instance, got "
                        f"{type(experiment)} instead.")
    schedule = schedule or "train_and_evaluate"
    if schedule not in _SCHEDULES:
        raise ValueError(f"Schedule references non-existent task {schedule}. Use one of "
                         f"{', '.join(_SCHEDULES)}")
    return getattr(experiment, schedule)()


PUBLIC = {"contrib.learn.Experiment": Experiment, "contrib.learn.learn_runner.run": run}
