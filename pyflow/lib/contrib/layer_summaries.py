"""Summaries of a model's tensors by collection: activations, weights, biases, variables.

Functions only.  Thread: the one building the graph.  Source: TF 1.15 tf.contrib.layers.

Example:  `tf.contrib.layers.summarize_variables("conv")`.
"""
import functools
import re

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.graph import GraphKeys
from pyflow.lib.contrib.arg_scope import tables
from pyflow.lib.math import reductions
from pyflow.lib.summary import summary_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import logic_ops


def _share(found, tag):
    summary_functions.scalar(tag, reductions.reduce_mean(tensors.cast(found, dtypes.float32)))


def summarize_activation(op):
    """A histogram of a tensor, and of a relu's the share of zeros (and sixes, of relu6).

    op: a tensor of numbers of any shape; TypeError for strings and others. The result: a scalar
    string. TF: tf.contrib.layers.summarize_activation."""
    name = op.op.name
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        before = op.op.inputs[0]
        _share(logic_ops.Less(before, tensors.cast(0.0, before.dtype)), f"{name}/zeros")
        if op.op.type == "Relu6":
            _share(logic_ops.Greater(before, tensors.cast(6.0, before.dtype)), f"{name}/sixes")
    return summary_functions.histogram(f"{name}/activation", op)


def summarize_tensor(tensor, tag=None):
    """A scalar summary of a scalar, else a histogram; None for strings and bools.

    tensor: real numbers, else TypeError. The result: a scalar string.
    tag: the tensor's name with "_summary" where None. TF: tf.contrib.layers.summarize_tensor."""
    if tensor.dtype.base_dtype in (dtypes.string, dtypes.bool):
        return None
    made = summary_functions.scalar if tensor.shape.ndims == 0 else summary_functions.histogram
    return made(tag or f"{tensor.op.name}_summary", tensor)


def summarize_tensors(tensors, summarizer=summarize_tensor):
    """The summaries of a list of tensors: shapes, dtypes and errors are the summarizer's.
    TF: tf.contrib.layers.summarize_tensors."""
    return [summarizer(tensor) for tensor in tensors]


def summarize_collection(collection, name_filter=None, summarizer=summarize_tensor):
    """Summaries of a graph collection. name_filter: a regular expression that names begin with.

    Shapes, dtypes, errors: the summarizer's.
    TF: tf.contrib.layers.summarize_collection."""
    return summarize_tensors([t for t in ops.get_collection(collection) if name_filter is None
                              or re.match(name_filter, t.op.name)], summarizer)


def summarize_activations(name_filter=None, summarizer=summarize_activation):
    """Those of the collection ACTIVATIONS: shapes, dtypes and errors are the summarizer's.
    TF: tf.contrib.layers.summarize_activations."""
    return summarize_collection(GraphKeys.ACTIVATIONS, name_filter, summarizer)


summarize_variables = functools.partial(summarize_collection, GraphKeys.GLOBAL_VARIABLES)
summarize_weights = functools.partial(summarize_collection, GraphKeys.WEIGHTS)
summarize_biases = functools.partial(summarize_collection, GraphKeys.BIASES)
_PARTIAL = {"summarize_variables": summarize_variables, "summarize_weights": summarize_weights,
            "summarize_biases": summarize_biases}
for _name, _function in _PARTIAL.items():
    _function.__doc__ = (f"Those of the collection {_function.args[0]!r}. "
                         f"TF: tf.contrib.layers.{_name}.")
PUBLIC = {
    **tables(summarize_activation, summarize_tensor, summarize_tensors, summarize_collection,
             summarize_activations, layers=True),
    **{f"contrib.{home}.{name}": f for name, f in _PARTIAL.items() for home in ("layers", "slim")}}
PUBLIC.update({f"contrib.layers.summaries.{name.rpartition('.')[2]}": f       # the module's name
               for name, f in list(PUBLIC.items())})
