"""Variables cut along one axis into several: partitioners, PartitionedVariable.

    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        v = tf.get_variable("v", [5, 2])        # s/v/part_0 [3, 2], s/v/part_1 [2, 2]

Invariants
  1. The parts are ordinary variables: collections, optimizers and sessions know only them.
  2. Parts differ by at most one in size, the larger ones first (TF's rule).
  3. A Saver writes them as one tensor under the whole variable's name, so a checkpoint does not
     depend on how many parts there were.

Thread: the one building the graph.  Who calls it: variable_scope, saveable, users.
Source: TF 1.x partitioned_variables.
"""
import math
from collections import abc

from pyflow.framework import dtypes, graph as ops
from pyflow.framework.convert import register_tensor_conversion_function
from pyflow.framework.tensor_shape import TensorShape, as_shape
from pyflow.lib.array import identity_functions, join_functions
from pyflow.ops.base import tensors


class SaveSliceInfo:
    """Which part of which whole variable a variable is."""

    def __init__(self, full_name=None, full_shape=None, var_offset=None, var_shape=None):
        self.full_name, self.full_shape = full_name, full_shape
        self.var_offset, self.var_shape = var_offset, var_shape

    @property
    def spec(self):
        """TF's text for it: the full shape, then offset,size of each axis."""
        sizes = " ".join(str(d) for d in self.full_shape)
        return sizes + " " + ":".join(f"{o},{s}" for o, s in zip(self.var_offset, self.var_shape))

    @property
    def axis(self):
        """The axis that is cut; 0 for a variable of one part."""
        cut = [i for i, (whole, part) in enumerate(zip(self.full_shape, self.var_shape))
               if whole != part]
        return cut[0] if cut else 0


class PartitionInfo:
    """What an initializer is told: full_shape of the whole variable, var_offset of this part."""

    def __init__(self, full_shape, var_offset):
        self.full_shape, self.var_offset = full_shape, var_offset


class PartitionedVariable:
    """A variable of several parts, which iterating gives. As a tensor it is their concatenation.

    It has no operators, as in TF: `tf.convert_to_tensor(v) * 2.`"""

    def __init__(self, name, shape, dtype, variable_list, partitions):
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError(f"variable_list is not a list or tuple: {variable_list}")
        if not isinstance(partitions, (list, tuple)) or not all(p >= 1 for p in partitions):
            raise ValueError(f"partition values must be positive: {partitions}")
        if sum(p > 1 for p in partitions) > 1:
            raise ValueError("Cannot concatenate along more than one dimension: "
                             f"{list(partitions)}")
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        self._name, self._shape, self._dtype = name, as_shape(shape), dtypes.as_dtype(dtype)
        self._variable_list, self._partitions = list(variable_list), list(partitions)

    def __iter__(self):
        return iter(self._variable_list)

    def __len__(self):
        return len(self._variable_list)

    def __repr__(self):
        return (f"<tf.PartitionedVariable '{self.name}' shape={self.shape} dtype={self.dtype.name} "
                f"parts={len(self)}>")

    @property
    def name(self):
        """The whole variable's name."""
        return self._name

    @property
    def dtype(self):
        """The parts' dtype."""
        return self._dtype

    @property
    def shape(self):
        """The whole variable's shape."""
        return self._shape

    def get_shape(self):
        """Same as `shape`."""
        return self._shape

    @property
    def graph(self):
        """The graph of the parts."""
        return self._variable_list[0].graph

    def _get_variable_list(self):
        return self._variable_list

    def _get_partitions(self):
        return self._partitions

    @property
    def _axis(self):
        return next((i for i, p in enumerate(self._partitions) if p > 1), 0)

    def as_tensor(self):
        """The parts end to end, outside all control dependencies."""
        with ops.control_dependencies(None):
            if len(self) == 1:
                whole = self._variable_list[0]
            else:
                with ops.name_scope(self._name + "/ConcatPartitions/"):
                    whole = tensors.concat(self._variable_list, self._axis)
            with ops.name_scope(None):
                return identity_functions.identity(whole, name=self._name)

    def _each(self, method, value, read_value, **more):
        if isinstance(value, (list, PartitionedVariable)):
            values = list(value)
            if len(values) != len(self):
                raise ValueError(f"{self.name} has {len(self)} parts, the value {len(values)}")
        else:
            sizes = [part.shape.as_list()[self._axis] for part in self]
            values = join_functions.split(value, sizes, axis=self._axis)
        done = [getattr(part, method)(v, **more) for part, v in zip(self, values)]
        return done if read_value else [d.op for d in done]

    def assign(self, value, use_locking=False, name=None, read_value=True):
        """Sets the parts to a whole value or a list of parts; a list of results, one per part."""
        return self._each("assign", value, read_value, use_locking=use_locking, name=name)

    def assign_add(self, value, use_locking=False, name=None, read_value=True):
        """Adds to the parts; as `assign`."""
        return self._each("assign_add", value, read_value, use_locking=use_locking, name=name)

    def assign_sub(self, value, use_locking=False, name=None, read_value=True):
        """Subtracts from the parts; as `assign`."""
        return self._each("assign_sub", value, read_value, use_locking=use_locking, name=name)


def _convert(variable, dtype=None, name=None, as_ref=False):
    if dtype is not None and not dtype.is_compatible_with(variable.dtype):
        raise ValueError(f"Incompatible type conversion requested to type '{dtype.name}' for "
                         f"variable of type '{variable.dtype.name}'. Use tf.cast.")
    if as_ref:
        raise NotImplementedError("PartitionedVariable doesn't support being used as a reference: "
                                  "use its assign, or its parts.")
    return variable.as_tensor()


register_tensor_conversion_function(PartitionedVariable, _convert, 99)


# ------------------------------------------------------------------------------------- cutting
def asked_parts(partitioner, shape, dtype):
    """The number of parts per axis, checked. Raises ValueError for what cannot be cut so."""
    if not callable(partitioner):
        raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
    shape = as_shape(shape)
    if not shape.is_fully_defined():
        raise ValueError(f"Shape of a new partitioned variable must be fully defined, but instead "
                         f"was {shape}.")
    if not shape.ndims:
        raise ValueError(f"A partitioned Variable must have rank at least 1, shape: {shape}")
    parts = partitioner(shape=shape, dtype=dtype)
    if not isinstance(parts, abc.Sequence):
        raise ValueError(f"Partitioner must return a sequence, but saw: {parts}")
    if len(parts) != shape.ndims:
        raise ValueError("Partitioner returned a partition list that does not match the Variable's "
                         f"rank: {parts} vs. {shape}")
    if any(p < 1 for p in parts):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {parts}")
    if sum(p > 1 for p in parts) > 1:
        raise ValueError("Can only slice a variable along one dimension: "
                         f"shape: {shape}, partitioning: {parts}")
    return [int(p) for p in parts]


def cuts(full_shape, parts):
    """[(offset, shape)] of the parts of a variable, `parts` being numbers per axis."""
    axis = next((i for i, p in enumerate(parts) if p > 1), 0)
    least, larger = divmod(full_shape[axis], parts[axis])
    offset, found = [0] * len(full_shape), []
    for i in range(parts[axis]):
        shape = list(full_shape)
        shape[axis] = least + (i < larger)
        found.append((list(offset), shape))
        offset[axis] += shape[axis]
    return found


# ------------------------------------------------------------------------------------- partitioners
def fixed_size_partitioner(num_shards, axis=0):
    """A partitioner that asks for `num_shards` parts on `axis`. TF: tf.fixed_size_partitioner.
    The result takes shape (all known) and dtype; not more parts than the axis has elements."""
    def partitioner(shape, **unused):
        parts = [1] * len(shape)
        parts[axis] = min(int(shape[axis]), num_shards)
        return parts
    return partitioner


def variable_axis_size_partitioner(max_shard_bytes, axis=0, bytes_per_string_element=16,
                                   max_shards=None):
    """A partitioner that asks for so many parts on `axis` that none takes more than
    `max_shard_bytes`, at most `max_shards`. TF: tf.variable_axis_size_partitioner.
    Any known shape and dtype. ValueError for sizes that are not positive."""
    for what, number in (("max_shard_bytes", max_shard_bytes),
                         ("bytes_per_string_element", bytes_per_string_element),
                         ("max_shards", 1 if max_shards is None else max_shards)):
        if number < 1 or int(number) != number:
            raise ValueError(f"{what} must be a positive integer; got {number}")

    def partitioner(shape, dtype):
        shape = TensorShape(shape)
        if not isinstance(dtype, dtypes.DType):
            raise ValueError("dtype is not a DType")
        element = bytes_per_string_element if dtype.base_dtype == dtypes.string else dtype.size
        size = shape.as_list()[axis]
        row_bytes = max(1, shape.num_elements() // max(size, 1)) * element
        if row_bytes < max_shard_bytes:
            wanted = math.ceil(size / max(1, math.floor(max_shard_bytes / row_bytes)))
        else:
            wanted = size
        parts = [1] * shape.ndims
        parts[axis] = max(1, min(wanted, size if max_shards is None else max_shards))
        return parts
    return partitioner


def min_max_variable_partitioner(max_partitions=1, axis=0, min_slice_size=256 << 10,
                                 bytes_per_string_element=16):
    """A partitioner that asks for as many parts on `axis` as have `min_slice_size` bytes each, at
    most `max_partitions`. TF: tf.min_max_variable_partitioner.
    Any known shape and dtype. ValueError for an axis that the shape does not have."""
    def partitioner(shape, dtype):
        shape = TensorShape(shape)
        if axis >= (shape.ndims or 0):
            raise ValueError("Cannot partition variable along axis %d when shape is only %s"
                             % (axis, shape))
        element = (bytes_per_string_element if dtypes.as_dtype(dtype).base_dtype == dtypes.string
                   else dtypes.as_dtype(dtype).size)
        wanted = max(1, math.ceil(shape.num_elements() * element / min_slice_size))
        parts = [1] * shape.ndims
        parts[axis] = min(shape.as_list()[axis], max_partitions, wanted)
        return parts
    return partitioner


PUBLIC = {
    "fixed_size_partitioner": fixed_size_partitioner,
    "variable_axis_size_partitioner": variable_axis_size_partitioner,
    "min_max_variable_partitioner": min_max_variable_partitioner,
}
