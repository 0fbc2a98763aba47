"""What the layers of tf.contrib.layers share: collections of variables and of named results.

Invariants
  1. A result that joins a collection carries its scope's name in `aliases`, by which
     convert_collection_to_dict calls it.
  2. variables_collections is a list for all variables of a layer, or a dict {variable: list}.
  3. Variables of tf.layers are made as model variables, renamed: kernel to weights, bias to biases.

Thread: the one building the graph.  Source: TF 1.15 tf.contrib.layers.utils.

Example:
    y = collect_named_outputs(["ends"], "conv1", y)
    ends = slim.utils.convert_collection_to_dict("ends")        # {"conv1": y}
"""
import collections as containers

from pyflow.framework import graph as ops
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.contrib.model_variables import model_variable
from pyflow.lib.control_flow.smart_cond import smart_cond, smart_constant_value
from pyflow.lib.nn import norm_functions
from pyflow.lib.variables import partitioned_variables

WEIGHTS_AND_BIASES = {"kernel": "weights", "bias": "biases"}
_PASSED = ("shape", "dtype", "initializer", "regularizer", "trainable", "collections",
           "caching_device", "partitioner", "use_resource", "synchronization", "aggregation")
FORMATS = {2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


# ------------------------------------------------------------------------------- named results
def append_tensor_alias(tensor, alias):
    """Adds `alias`, a string, to the names of a tensor of any shape; never an error.
    TF: tf.contrib.layers.utils.append_tensor_alias."""
    if hasattr(tensor, "aliases"):
        tensor.aliases.append(alias[:-1] if alias.endswith("/") else alias)
    else:
        tensor.aliases = [alias[:-1] if alias.endswith("/") else alias]
    return tensor


def get_tensor_aliases(tensor):
    """The names given to a tensor; its op's where there are none: a list of strings.

    tensor: of any shape and dtype; AttributeError for what is no tensor.
    TF: tf.contrib.layers.utils.get_tensor_aliases."""
    if getattr(tensor, "aliases", None):
        return tensor.aliases
    return [tensor.op.name]


def gather_tensors_aliases(tensors):
    """The names of several tensors of any shapes: a list of strings.
    AttributeError for what is no tensor. TF: tf.contrib.layers.utils.gather_tensors_aliases."""
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def collect_named_outputs(collections, alias, outputs):
    """Adds `outputs`, called `alias`, to `collections` (a name, names, or None); returns it.

    outputs: of any shape and dtype; never an error.
    TF: tf.contrib.layers.utils.collect_named_outputs."""
    if collections:
        append_tensor_alias(outputs, alias)
        ops.add_to_collections(collections, outputs)
    return outputs


def convert_collection_to_dict(collection, clear_collection=False):
    """An OrderedDict {name: tensor} of a collection. clear_collection: which is then emptied.

    Tensors of any shape and dtype; AttributeError where the collection has something else.
    TF: tf.contrib.layers.utils.convert_collection_to_dict."""
    found = containers.OrderedDict((alias, tensor) for tensor in ops.get_collection(collection)
                                   for alias in get_tensor_aliases(tensor))
    if clear_collection:
        ops.get_default_graph().clear_collection(collection)
    return found


# ---------------------------------------------------------------------------------- variables
def get_variable_collections(variables_collections, name):
    """Those of variable `name`, a string, whatever its shape: the list, or the dict's; no error.
    TF: tf.contrib.layers.utils.get_variable_collections."""
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def add_to_collections(variable, variables_collections, name):
    """A layer's variable `name` joins its collections once."""
    parts = list(variable) if isinstance(variable, partitioned_variables.PartitionedVariable) \
        else [variable]
    for collection in get_variable_collections(variables_collections, name) or ():
        known = ops.get_collection_ref(collection)
        known.extend(part for part in parts if not any(part is other for other in known))


def model_getter(rename=None):
    """A custom getter for variables of tf.layers: model variables, renamed by their last part."""
    def getter(getter, name, *unused, **kwargs):
        outer, slash, last = name.rpartition("/")
        passed = {key: kwargs[key] for key in _PASSED if key in kwargs}
        return model_variable(outer + slash + (rename or {}).get(last, last),
                              custom_getter=getter, **passed)
    return getter


# -------------------------------------------------------------------------------------- numbers
def constant_value(value_or_tensor_or_var, dtype=None):
    """The value where it is known while the graph is built, else None.

    value_or_tensor_or_var: a scalar. dtype: what a tensor must have. ValueError for None, or
    another dtype.
    TF: tf.contrib.layers.utils.constant_value."""
    if value_or_tensor_or_var is None:
        raise ValueError("value_or_tensor_or_var cannot be None")
    known = getattr(value_or_tensor_or_var, "dtype", None)
    if dtype is not None and known is not None and known.base_dtype != dtype:
        raise ValueError(f"It has the wrong type {known} instead of {dtype}")
    return smart_constant_value(value_or_tensor_or_var)


def two_element_tuple(int_or_tuple):
    """(n, n) of an int, or a pair of ints, a TensorShape too. ValueError for others.

    Such are a window's sizes, one for each dimension.
    TF: tf.contrib.layers.utils.two_element_tuple."""
    try:
        return n_positive_integers(2, int_or_tuple)
    except (ValueError, TypeError):
        raise ValueError("Must be an int, a list with 2 elements or a TensorShape of length 2, "
                         f"got {int_or_tuple!r}") from None


def n_positive_integers(n, value):
    """A tuple of n positive ints, of one int, n of them, or a TensorShape. ValueError for others.

    Such are a window's sizes, one for each dimension.
    TF: tf.contrib.layers.utils.n_positive_integers."""
    values = value.as_list() if isinstance(value, TensorShape) else value
    values = tuple(int(v) for v in values) if isinstance(values, (list, tuple)) else \
        (int(values),) * n
    if len(values) != n or any(v < 1 for v in values):
        raise ValueError(f"Expected sequence of {n} positive integers, but received {value!r}")
    return values


def last_dimension(shape, min_rank=1):
    """The static size of the last dimension, an int. ValueError if it is unknown, or if the rank
    is less than min_rank. TF: tf.contrib.layers.utils.last_dimension."""
    return channel_dimension(shape, "channels_last", min_rank)


def channel_dimension(shape, data_format, min_rank=1):
    """The static number of channels. ValueError where it is unknown.

    data_format: NCHW, NCDHW, channels_first: dimension 1; others: the last.
    TF: tf.contrib.layers.utils.channel_dimension."""
    shape = TensorShape(shape)
    if shape.ndims is None:
        raise ValueError("The rank of the shape should be defined, got an unknown one")
    if shape.ndims < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {shape.ndims}")
    axis = 1 if str(data_format).startswith("NC") or data_format == "channels_first" else -1
    size = shape.as_list()[axis]
    if size is None:
        raise ValueError(f"The channel dimension of the shape {shape} should be defined. "
                         "Found `None`.")
    return size


def checked_format(data_format, rank=2):
    """"channels_first" or "channels_last". ValueError for others than NHWC, NCHW (or their like of
    three dimensions)."""
    last, first = FORMATS[rank]
    if data_format not in (last, first):
        raise ValueError(f"data_format has to be either {first} or {last}, got {data_format!r}.")
    return "channels_first" if data_format == first else "channels_last"


# --------------------------------------------------------------------------------------- layers
def finished(outputs, scope, normalizer_fn=None, normalizer_params=None, activation_fn=None,
             outputs_collections=None):
    """What ends a layer: normalisation, activation, collections."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    if activation_fn is not None:
        outputs = activation_fn(outputs)
    return collect_named_outputs(outputs_collections, scope, outputs)


def with_biases(outputs, size, initializer, regularizer=None, trainable=True, collections=None,
                data_format=None):
    """outputs + the model variable `biases`."""
    biases = model_variable(
        "biases", shape=[size], dtype=outputs.dtype.base_dtype, initializer=initializer,
        regularizer=regularizer, trainable=trainable,
        collections=get_variable_collections(collections, "biases"))
    return norm_functions.bias_add(outputs, biases, data_format=data_format)


_TOOLS = (append_tensor_alias, get_tensor_aliases, gather_tensors_aliases, collect_named_outputs,
          convert_collection_to_dict, get_variable_collections, constant_value, two_element_tuple,
          n_positive_integers, last_dimension, channel_dimension, smart_cond)
PUBLIC = {f"contrib.{home}.utils.{f.__name__}": f for f in _TOOLS for home in ("layers", "slim")}
