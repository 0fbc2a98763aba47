"""onnxruntime's SessionOptions and RunOptions, and the enumerations that they hold.

What has an effect here: threads (`intra_op_num_threads`), `use_deterministic_compute`, free
dimension overrides, added initializers, `enable_profiling`.  What only steers how onnxruntime works
inside (arenas, memory patterns, levels of optimisation, log levels) is kept and has none: pyflow
always plans memory and always fuses.
"""

import enum

from pyflow.interop.onnxruntime.errors import Fail


class GraphOptimizationLevel(enum.IntEnum):
    """How far a graph is rewritten; kept, without effect."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.IntEnum):
    """Whether independent nodes run side by side; here they always may."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.IntEnum):
    """The order of nodes; kept, without effect."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Entries:
    """Configuration entries: kept, and read back."""

    __slots__ = ()

    def _add(self, key, value):
        self._entries[str(key)] = str(value)

    def _get(self, key):
        if key not in self._entries:
            raise Fail(f"Session config entry {key!r} was not set")
        return self._entries[key]


class SessionOptions(_Entries):
    """How a session is made; attributes as onnxruntime's, one that it lacks is an AttributeError."""

    _DEFAULTS = {
        "enable_cpu_mem_arena": True, "enable_mem_pattern": True, "enable_mem_reuse": True,
        "enable_profiling": False, "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0, "intra_op_num_threads": 0, "log_severity_level": -1,
        "log_verbosity_level": 0, "logid": "", "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_", "use_deterministic_compute": False,
        "use_per_session_threads": True}
    __slots__ = (*_DEFAULTS, "_entries", "free_dimensions", "initializers")

    def __init__(self):
        for name, value in self._DEFAULTS.items():
            setattr(self, name, value)
        self._entries = {}
        self.free_dimensions = {}       # symbolic name -> size
        self.initializers = {}          # name -> OrtValue

    def add_session_config_entry(self, key, value):
        """Keeps an entry; none has an effect."""
        self._add(key, value)

    def get_session_config_entry(self, key):
        """The entry that was added.  Raises Fail if there is none."""
        return self._get(key)

    def add_free_dimension_override_by_name(self, name, size):
        """Inputs' dimensions called `name` are of `size`."""
        if int(size) < 0:
            raise Fail(f"free dimension {name!r}: size {size} is negative")
        self.free_dimensions[str(name)] = int(size)

    def add_initializer(self, name, value):
        """An OrtValue in place of the model's initializer `name`."""
        self.initializers[str(name)] = value

    def register_custom_ops_library(self, path):
        """Fail: libraries of onnxruntime's kernels cannot run here (pyflow has plugins)."""
        raise Fail(f"{path}: kernels made for onnxruntime cannot be loaded; pyflow loads plugins of "
                   "its own (docs/plugins.md)")


class RunOptions(_Entries):
    """How one run goes; `terminate` set before it begins ends it."""

    __slots__ = ("_entries", "log_severity_level", "log_verbosity_level", "logid",
                 "only_execute_path_to_fetches", "terminate")

    def __init__(self):
        self._entries = {}
        self.log_severity_level, self.log_verbosity_level, self.logid = -1, 0, ""
        self.only_execute_path_to_fetches = self.terminate = False

    def add_run_config_entry(self, key, value):
        """Keeps an entry; none has an effect."""
        self._add(key, value)

    def get_run_config_entry(self, key):
        """The entry that was added.  Raises Fail if there is none."""
        return self._get(key)
