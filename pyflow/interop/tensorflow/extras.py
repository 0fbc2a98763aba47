"""What modules of tensorflow.python.* have beside the names of `tf`, and libraries use.

    from tensorflow.python.ops.control_flow_ops import with_dependencies

Threads: as the functions of `tf` they are made of.
"""
import abc
import contextlib
import re

import pyflow as tf
from pyflow.framework.graph import graph_of
from pyflow.lib.rnn.rnn_cell import LayerRNNCell  # noqa: F401 - rnn_cell_impl.LayerRNNCell
from pyflow.lib.rnn.rnn_cell_base import RNNCell, zero_states
from pyflow.ops.base.tensors import shape_internal  # noqa: F401 - array_ops.shape_internal


# ---------------------------------------------------------------- control flow

def with_dependencies(dependencies, output_tensor, name=None):
    """output_tensor, after all of `dependencies` have run.  As
    tensorflow.python.ops.control_flow_ops.with_dependencies."""
    with tf.name_scope(name, "control_dependency", [*dependencies, output_tensor]) as scope:
        with tf.colocate_with(output_tensor), tf.control_dependencies(dependencies):
            tensor = tf.convert_to_tensor_or_indexed_slices(output_tensor)
            if isinstance(tensor, tf.IndexedSlices):
                return tf.IndexedSlices(tf.identity(tensor.values), tensor.indices,
                                        tensor.dense_shape)
            return tf.identity(tensor, name=scope)


def smart_constant_value(pred):
    """True or False where `pred` is known when the graph is built, else None.  TypeError for what
    is neither a boolean, 0, 1 nor a tensor."""
    if isinstance(pred, tf.Tensor):
        value = tf.get_static_value(pred)
        return None if value is None else bool(value)
    if pred in (0, 1):
        return bool(pred)
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {pred!r}")


constant_value = smart_constant_value       # python.layers.utils.constant_value


def smart_cond(pred, true_fn=None, false_fn=None, name=None):
    """true_fn() or false_fn(): at once where `pred` is known, else tf.cond of it."""
    for branch, what in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        if not callable(branch):
            raise TypeError(f"`{what}` must be callable.")
    known = smart_constant_value(pred)
    if known is None:
        return tf.cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if known else false_fn()


# ---------------------------------------------------------------- tensors

class _TensorLike(abc.ABC):
    """framework.ops._TensorLike: what isinstance() knows as a tensor, dense or not."""


for _kind in (tf.Tensor, tf.SparseTensor, tf.IndexedSlices):
    _TensorLike.register(_kind)


def _as_graph_element(obj):
    """framework.ops._as_graph_element: the tensor that an object such as a variable stands for, or
    None."""
    convert = getattr(obj, "_as_graph_element", None)
    return convert() if convert else None


def _get_graph_from_inputs(op_input_list, graph=None):
    """framework.ops._get_graph_from_inputs: the graph of the inputs, or `graph`, or the default."""
    return graph_of(op_input_list, graph)


def size_internal(input, name=None, optimize=True, out_type=tf.int32):
    """array_ops.size_internal: tf.size, which may be told not to fold."""
    if optimize or is_sparse(input):
        return tf.size(input, name=name, out_type=out_type)
    return tf.raw_ops.Size(input=tf.convert_to_tensor(input), out_type=out_type, name=name)


def rank_internal(input, name=None, optimize=True):
    """array_ops.rank_internal: tf.rank, which may be told not to fold."""
    if optimize or is_sparse(input):
        return tf.rank(input, name=name)
    return tf.raw_ops.Rank(input=tf.convert_to_tensor(input), name=name)


# ---------------------------------------------------------------- sparse tensors, weights

def convert_to_tensor_or_sparse_tensor(value, dtype=None, name=None):
    """`value` if it is sparse (a SparseTensorValue as SparseTensor), else a tensor of it."""
    if isinstance(value, tf.SparseTensorValue):
        value = tf.SparseTensor.from_value(value)
    if isinstance(value, tf.SparseTensor):
        if dtype and not tf.as_dtype(dtype).is_compatible_with(value.dtype):
            raise RuntimeError(f"Sparse dtype: requested = {tf.as_dtype(dtype).name}, "
                               f"actual = {value.dtype.name}")
        return value
    return tf.convert_to_tensor(value, dtype=dtype, name=name)


def is_sparse(x):
    """True of a SparseTensor or SparseTensorValue."""
    return isinstance(x, (tf.SparseTensor, tf.SparseTensorValue))


def remove_squeezable_dimensions(labels, predictions, expected_rank_diff=0, name=None):
    """(labels, predictions), of the one whose rank is one too large the last dimension removed."""
    with tf.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        labels, predictions = tf.convert_to_tensor(labels), tf.convert_to_tensor(predictions)
        ranks = predictions.get_shape().ndims, labels.get_shape().ndims
        if None not in ranks:
            difference = ranks[0] - ranks[1]
            if difference == expected_rank_diff + 1:
                predictions = tf.squeeze(predictions, [-1])
            elif difference == expected_rank_diff - 1:
                labels = tf.squeeze(labels, [-1])
            return labels, predictions
        difference = tf.rank(predictions) - tf.rank(labels)

        def squeezed(x, excess):
            if x.get_shape().ndims is not None and not (
                    x.get_shape().ndims and x.get_shape()[-1].is_compatible_with(1)):
                return x
            return tf.cond(tf.equal(difference, excess), lambda: tf.squeeze(x, [-1]), lambda: x)
        return (squeezed(labels, expected_rank_diff - 1),
                squeezed(predictions, expected_rank_diff + 1))


# ---------------------------------------------------------------- variables, shapes

def variable_op(shape, dtype, name="Variable", set_shape=True, container="", shared_name=""):
    """A reference to a new variable without a value, as state_ops.variable_op of TF 0.x and 1.x.
    set_shape: False leaves its static shape unknown."""
    shape = tf.TensorShape(shape)
    if not set_shape:
        shape = tf.TensorShape(None)
    return tf.raw_ops.VariableV2(shape=shape, dtype=dtype, name=name, container=container,
                                 shared_name=shared_name)


variable_op_v2 = variable_op


def reduced_shape(input_shape, axes):
    """The shape of a reduction of `axes` with keepdims, a vector of int32. As
    math_ops.reduced_shape."""
    input_shape = tf.cast(input_shape, tf.int32)
    axes = tf.reshape(tf.cast(axes, tf.int32), [-1])
    rank = tf.size(input_shape)
    axes = (axes + rank) % rank
    kept = tf.reduce_all(tf.not_equal(tf.range(rank)[:, tf.newaxis], axes), 1)
    return tf.where(kept, input_shape, tf.ones_like(input_shape))


# ---------------------------------------------------------------- cells

def _linear(args, output_size, bias, bias_initializer=None, kernel_initializer=None):
    """The sum of args[i] * W[i], [batch, output_size], with variables `kernel` and `bias` of the
    current scope.  As tensorflow.contrib.rnn.python.ops.core_rnn_cell._linear of 1.15."""
    parts = list(args) if isinstance(args, (list, tuple)) else [args]
    if args is None or not parts:
        raise ValueError("`args` must be specified")
    widths = [int(part.get_shape()[1]) for part in parts]
    kernel = tf.get_variable("kernel", [sum(widths), output_size], dtype=parts[0].dtype.base_dtype,
                             initializer=kernel_initializer)
    product = tf.matmul(parts[0] if len(parts) == 1 else tf.concat(parts, 1), kernel)
    if not bias:
        return product
    start = bias_initializer or tf.constant_initializer(0.0, dtype=parts[0].dtype.base_dtype)
    return tf.nn.bias_add(product, tf.get_variable(
        "bias", [output_size], dtype=parts[0].dtype.base_dtype, initializer=start))


_RNNCell = RNNCell                      # its name in TF 1.0 and 1.1's rnn_cell_impl


def _zero_state_tensors(state_size, batch_size, dtype):
    """rnn_cell_impl._zero_state_tensors: zeros [batch_size] + size for each size of a nest."""
    return zero_states(state_size, batch_size, dtype)


def assert_like_rnncell(cell_name, cell):
    """TypeError unless `cell` has what an RNNCell has."""
    wanted = [name for name in ("output_size", "state_size") if not hasattr(cell, name)]
    if wanted or not callable(cell) or not (hasattr(cell, "zero_state") or
                                            isinstance(cell, RNNCell)):
        raise TypeError(f"The argument {cell_name!r} ({cell}) is not an RNNCell: "
                        f"{', '.join(wanted) or 'zero_state or __call__'} missing")


# ---------------------------------------------------------------- graphs and eager execution

def executing_eagerly():
    """False: everything here builds graphs."""
    return False


def in_graph_mode():
    """True: everything here builds graphs."""
    return True


def in_eager_mode():
    """False: everything here builds graphs."""
    return False


def executing_eagerly_outside_functions():
    """False: everything here builds graphs."""
    return False


@contextlib.contextmanager
def graph_mode():
    """Context in which graphs are built, as everywhere here."""
    yield


@contextlib.contextmanager
def init_scope():
    """Context without control dependencies and name scopes, in which variables are initialised."""
    with tf.control_dependencies(None):
        yield


def strip_name_scope(name, export_scope):
    """`name` without the scope `export_scope` in front."""
    if not export_scope:
        return name
    scope = re.escape(export_scope.removesuffix("/"))
    return re.sub(rf"(\^|loc:@|^){scope}/+(.*)", r"\1\2", name, count=1)


def prepend_name_scope(name, import_scope):
    """`name` below the scope `import_scope`."""
    if not import_scope:
        return name
    scope = import_scope.removesuffix("/")
    return re.sub(r"(\^|loc:@|^)(.*)", lambda m: f"{m[1]}{scope}/{m[2]}", name, count=1)
