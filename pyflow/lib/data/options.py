"""tf.data.Options: taken, kept and given back; what they ask for is as it is anyway.

Elements come in one order whatever runs in parallel, so `experimental_deterministic` changes
nothing; rewrites of pipelines and tuning of threads have nothing to work on here.
"""


class _Fields:
    """Attributes of fixed names, None at first; another name is an AttributeError."""

    _names = ()

    def __init__(self):
        for name in self._names:
            object.__setattr__(self, name, None)

    def __setattr__(self, name, value):
        if name not in self._names:
            raise AttributeError(f"Cannot set the property {name} on {type(self).__name__}.")
        object.__setattr__(self, name, value)

    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None

    def __repr__(self):
        given = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if v is not None)
        return f"{type(self).__name__}({given})"


class OptimizationOptions(_Fields):
    """Accepted without effect. TF: tf.data.experimental.OptimizationOptions."""

    _names = ("apply_default_optimizations", "autotune", "autotune_buffers", "autotune_cpu_budget",
              "filter_fusion", "filter_with_random_uniform_fusion", "hoist_random_uniform",
              "map_and_batch_fusion", "map_and_filter_fusion", "map_fusion", "map_parallelization",
              "map_vectorization", "noop_elimination", "parallel_batch",
              "shuffle_and_repeat_fusion")


class ThreadingOptions(_Fields):
    """Accepted without effect: the session's pool runs pipelines. TF: tf.data.experimental."""

    _names = ("max_intra_op_parallelism", "private_threadpool_size")


class Options(_Fields):
    """How a pipeline is to be run; everything here is without effect on elements.
    TF: tf.data.Options."""

    _names = ("experimental_deterministic", "experimental_distribute",
              "experimental_external_state_policy",
              "experimental_optimization", "experimental_slack", "experimental_stats",
              "experimental_stateful_whitelist", "experimental_threading",
              "experimental_allow_stateful")

    def __init__(self):
        super().__init__()
        self.experimental_optimization = OptimizationOptions()
        self.experimental_threading = ThreadingOptions()

    def merge(self, options):
        """These, and what the others set where they set it. TF: tf.data.Options.merge."""
        merged = Options()
        for source in (self, options):
            for name, value in vars(source).items():
                if isinstance(value, _Fields):
                    for key, inner in vars(value).items():
                        if inner is not None:
                            setattr(getattr(merged, name), key, inner)
                elif value is not None:
                    setattr(merged, name, value)
        return merged


PUBLIC = {"data.Options": Options, "data.experimental.OptimizationOptions": OptimizationOptions,
          "data.experimental.ThreadingOptions": ThreadingOptions}
