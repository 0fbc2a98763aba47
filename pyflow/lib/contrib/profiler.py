"""tf.profiler: parameters and multiplications of a graph, as tf.contrib.tfprof counts them.

    options = tf.profiler.ProfileOptionBuilder.float_operation()
    tf.profiler.profile(tf.get_default_graph(), options=options).total_float_ops

What a step took, in time and memory, is shown by its RunMetadata (docs/metadata.md) and by
`python -m pyflow trace`.
"""
import copy

from pyflow.framework.graph import get_default_graph
from pyflow.framework.shown import ShowsArguments
from pyflow.lib.contrib import tfprof

_PARAMETERS, _OPERATIONS = (tfprof.TRAINABLE_VARS_PARAMS_STAT_OPTIONS, tfprof.FLOAT_OPS_OPTIONS)


class ProfileOptionBuilder(ShowsArguments):
    """Options of `profile`: begun from one of the two static methods, or from a dict of options, and
    changed by the with_... methods; build() gives them."""

    def __init__(self, options=None):
        self._options = copy.deepcopy(_PARAMETERS if options is None else options)

    @staticmethod
    def trainable_variables_parameter():
        """Counts the parameters of trainable variables."""
        return copy.deepcopy(_PARAMETERS)

    @staticmethod
    def float_operation():
        """Counts additions and multiplications."""
        return copy.deepcopy(_OPERATIONS)

    def build(self):
        """The options, a dict."""
        return copy.deepcopy(self._options)

    def _with(self, **options):
        self._options.update(options)
        return self

    def with_max_depth(self, max_depth):
        """Shows scopes down to a depth."""
        return self._with(max_depth=max_depth)

    def with_empty_output(self):
        """Shows nothing."""
        return self._with(output="none")

    def with_stdout_output(self):
        """Writes to the standard output."""
        return self._with(output="stdout")

    def select(self, attributes):
        """Counts these: "params", "float_ops"."""
        return self._with(select=list(attributes))

    def order_by(self, attribute):
        """Sorts what is shown by "name", "params" or "float_ops"."""
        return self._with(order_by=attribute)

    def with_accounted_types(self, account_type_regexes):
        """Counts ops of these types alone."""
        return self._with(account_type_regexes=list(account_type_regexes))


def profile(graph=None, run_meta=None, op_log=None, cmd="scope", options=None):
    """The root of a tree of scopes, with total_parameters and total_float_ops; it is shown, too.

    graph: default the default graph. cmd: "scope", or "graph", which counts the same. options:
    ProfileOptionBuilder's; default the parameters of trainable variables. run_meta and op_log add
    nothing here. Ops of any dtype count, if their shapes are known. ValueError for another cmd. TF: tf.profiler.profile."""
    if cmd not in ("scope", "graph"):
        raise ValueError(f"cmd is 'scope' or 'graph', got {cmd!r}; times by op and line are in a "
                         "step's trace: python -m pyflow trace")
    return tfprof.print_model_analysis(get_default_graph() if graph is None else graph, run_meta,
                                       op_log, cmd, options or _PARAMETERS)


PUBLIC = {"profiler.profile": profile, "profiler.ProfileOptionBuilder": ProfileOptionBuilder}
