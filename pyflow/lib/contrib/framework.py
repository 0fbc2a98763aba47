"""tf.contrib.framework: small checks of tensors' kinds and shapes.

    tf.contrib.framework.with_shape([2, None], tensor)      # the tensor, checked
"""
from pyflow.framework import graph
from pyflow.framework.sparse_values import SparseTensor, SparseTensorValue
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array import identity_functions
from pyflow.lib.control_flow import check_functions
from pyflow.lib.math import binary_functions, reductions
from pyflow.lib.nn import embedding_functions
from pyflow.ops.base import tensors


def is_tensor(x):
    """True of tensors, variables and sparse tensors.  TF: contrib.framework.is_tensor.
    Any shape and dtype; never an error.
    """
    return isinstance(x, (graph.Tensor, SparseTensor)) or hasattr(x, "_as_graph_element") or (
        hasattr(x, "value") and hasattr(x, "initializer"))


def convert_to_tensor_or_sparse_tensor(value, dtype=None, name=None):
    """`value` if it is sparse (a SparseTensorValue as SparseTensor), else a tensor of it.
    TF: contrib.framework.convert_to_tensor_or_sparse_tensor.  RuntimeError where a sparse one has
    another type than `dtype`.
    Any shape.
    """
    if isinstance(value, SparseTensorValue):
        value = SparseTensor.from_value(value)
    if isinstance(value, SparseTensor):
        if dtype is not None and value.dtype.base_dtype != dtype:
            raise RuntimeError(f"Sparse dtype: requested = {dtype}, actual = {value.dtype}")
        return value
    return graph.convert_to_tensor(value, dtype=dtype, name=name)


def assert_scalar_int(tensor, name=None):
    """`tensor`, int32 or int64 and without dimensions.  ValueError otherwise.
    TF: contrib.framework.assert_scalar_int.
    Any integer dtype.
    """
    tensor = graph.convert_to_tensor(tensor, name=name)
    if tensor.dtype.base_dtype.name not in ("int32", "int64"):
        raise ValueError(f"Expected int32 or int64 type for tensor: {tensor.name}, got: "
                         f"{tensor.dtype.name}")
    if tensor.shape.ndims != 0:
        raise ValueError(f"Expected scalar shape for tensor: {tensor.name}, saw shape: "
                         f"{tensor.shape}")
    return tensor


def with_shape(expected_shape, tensor):
    """`tensor`, checked to have a shape: when the graph is built as far as that is known, the rest
    when it runs.  TF: contrib.framework.with_shape.  expected_shape: ints, a TensorShape or an
    int32 tensor. ValueError or InvalidArgumentError where it differs."""
    if not isinstance(expected_shape, graph.Tensor):
        expected = TensorShape(expected_shape)
        if not tensor.shape.is_compatible_with(expected):
            raise ValueError(f"Invalid shape for tensor {tensor.name}, expected {expected}, got "
                             f"{tensor.shape}.")
        return identity_functions.ensure_shape(tensor, expected)
    same = check_functions.assert_equal(tensors.shape(tensor), expected_shape, message=(
        f"Wrong shape for {tensor.name}"))
    with graph.control_dependencies([same]):
        return identity_functions.identity(tensor)


def with_same_shape(expected_tensor, tensor):
    """`tensor`, checked to have the shape of another.  TF: contrib.framework.with_same_shape.
    Any dtype; ValueError where the shapes are known to differ.
    """
    if expected_tensor.shape.is_fully_defined():
        return with_shape(expected_tensor.shape, tensor)
    return with_shape(tensors.shape(expected_tensor), tensor)


def reduce_sum_n(tensors, name=None):
    """The sum of all elements of a list of tensors of one type.  ValueError for an empty list.
    TF: contrib.framework.reduce_sum_n.
    Numbers of any shape.
    """
    if not tensors:
        raise ValueError("No tensors provided.")
    with graph.name_scope(name, "reduce_sum_n", tensors):
        each = [reductions.reduce_sum(t, name=f"{t.op.name.rpartition('/')[2]}/sum")
                for t in map(graph.convert_to_tensor, tensors)]
        return each[0] if len(each) == 1 else binary_functions.add_n(each)


PUBLIC = {f"contrib.framework.{f.__name__}": f for f in (
    is_tensor, convert_to_tensor_or_sparse_tensor, assert_scalar_int, with_shape, with_same_shape,
    reduce_sum_n)}
PUBLIC["contrib.framework.assert_same_float_dtype"] = check_functions.PUBLIC[
    "assert_same_float_dtype"]
PUBLIC["contrib.framework.is_numeric_tensor"] = check_functions.PUBLIC["is_numeric_tensor"]
PUBLIC["contrib.framework.safe_embedding_lookup_sparse"] = embedding_functions.PUBLIC[
    "nn.safe_embedding_lookup_sparse"]
