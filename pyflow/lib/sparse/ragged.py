"""Ragged tensors: rows of different lengths, as values and the places where rows begin and end.

Invariants
  1. Row i of a RaggedTensor is values[row_splits[i]:row_splits[i + 1]]; row_splits is a vector that
     starts at 0, never falls and ends at the number of values.  `values` may be ragged itself.
  2. It is a view of tensors in a graph: making one adds no checks of the splits at run time, except
     where the op that makes them has its own.
  3. Ordinary ops do not take ragged tensors; `tf.ragged.map_flat_values(op, r)` applies one to the
     values, `to_tensor` and `to_sparse` lead to the other kinds.

Who calls it: users, the string ops.  Thread: the one building the graph.  Source: TF 1.15
`tf.RaggedTensor`, of which slicing, dispatch and the segment operations are not here.

Example:  `tf.ragged.constant([[1, 2], [], [3]]).to_tensor()`  # [[1, 2], [0, 0], [3, 0]]
"""
import numpy as np

from pyflow.framework import dtypes, graph
from pyflow.framework.default_graph import session_for
from pyflow.framework.tensor_shape import TensorShape
from pyflow.lib.array import array_functions
from pyflow.lib.control_flow import logging_functions
from pyflow.lib.math import logic_functions, reductions
from pyflow.ops.base import tensors
from pyflow.ops.control import identity_ops
from pyflow.ops.elementwise import logic_ops
from pyflow.ops.reduce import lookup_ops, reduction_ops


class RaggedTensorValue:
    """A fetched RaggedTensor: NumPy arrays.  `values` is an array or a RaggedTensorValue."""

    def __init__(self, values, row_splits):
        self.values, self.row_splits = values, np.asarray(row_splits)

    flat_values = property(lambda self: _flat(self), doc="The innermost values, an array.")
    nested_row_splits = property(lambda self: _splits(self), doc="Splits, the outermost first.")
    ragged_rank = property(lambda self: len(_splits(self)), doc="How many dimensions are ragged.")
    dtype = property(lambda self: _flat(self).dtype, doc="The values' NumPy dtype.")

    def to_list(self):
        """The rows as nested lists."""
        inner = self.values.to_list() if isinstance(self.values, RaggedTensorValue) \
            else np.asarray(self.values).tolist()
        return [inner[a:b] for a, b in zip(self.row_splits[:-1], self.row_splits[1:])]

    def __repr__(self):
        return f"tf.RaggedTensorValue(values={self.values!r}, row_splits={self.row_splits!r})"


def _flat(ragged):
    while isinstance(ragged, (RaggedTensor, RaggedTensorValue)):
        ragged = ragged.values
    return ragged


def _splits(ragged):
    found = []
    while isinstance(ragged, (RaggedTensor, RaggedTensorValue)):
        found.append(ragged.row_splits)
        ragged = ragged.values
    return tuple(found)


def product(sizes):
    """The product of a vector of sizes, 1 of none."""
    return reductions.reduce_prod(sizes)


def _long(value, name):
    return graph.convert_to_tensor(value, dtype=dtypes.int64, name=name)


def _rows(values):
    """How many values there are, int64 [1]; of ragged ones their rows."""
    count = values.nrows() if isinstance(values, RaggedTensor) else tensors.shape(values)[0]
    return tensors.reshape(tensors.cast(count, dtypes.int64), [1])


def _checked(splits, values, maker):
    """The splits, asserted to begin at 0, never to fall, and to end where the values do."""
    fine = reductions.reduce_all(tensors.concat([
        tensors.reshape(logic_ops.LessEqual(splits[:-1], splits[1:]), [-1]),
        logic_ops.Equal(splits[:1], np.int64(0)), logic_ops.Equal(splits[-1:], _rows(values))], 0))
    said = f"Arguments to {maker} do not form a valid RaggedTensor"
    with graph.control_dependencies([logging_functions.Assert(fine, [said, splits])]):
        return identity_ops.Identity(splits)


class RaggedTensor:
    """Rows of different lengths; made by the from_... functions. TF: tf.RaggedTensor."""

    def __init__(self, values, row_splits):
        self._values, self._row_splits = values, row_splits

    values = property(lambda self: self._values, doc="All rows one after the other.")
    row_splits = property(lambda self: self._row_splits, doc="Where rows begin and end, int64.")
    flat_values = property(_flat, doc="The innermost values, a Tensor.")
    nested_row_splits = property(_splits, doc="Splits, the outermost first.")
    ragged_rank = property(lambda self: len(_splits(self)), doc="How many dimensions are ragged.")
    dtype = property(lambda self: _flat(self).dtype, doc="The values' DType.")
    graph = property(lambda self: _flat(self).graph, doc="The graph of all parts.")
    op = property(lambda self: _flat(self).op, doc="The operation that makes the values.")

    # ------------------------------------------------------------------------ ways to make one
    @classmethod
    def from_row_splits(cls, values, row_splits, name=None, validate=True):
        """Rows values[row_splits[i]:row_splits[i + 1]]. ValueError for splits of another rank."""
        with graph.name_scope(name, "RaggedFromRowSplits", [row_splits]):
            splits = _long(row_splits, "row_splits")
            splits.shape.assert_has_rank(1)
            return cls(_as_values(values), splits)

    @classmethod
    def from_row_lengths(cls, values, row_lengths, name=None, validate=True):
        """Rows of these lengths (an integer vector, whose sum is the number of values)."""
        with graph.name_scope(name, "RaggedFromRowLengths", [row_lengths]):
            lengths = _long(row_lengths, "row_lengths")
            ends = reduction_ops.Cumsum(lengths, 0)
            return cls(_as_values(values), tensors.concat([[np.int64(0)], ends], 0))

    @classmethod
    def from_row_starts(cls, values, row_starts, name=None, validate=True):
        """Rows that begin at these places of the values, the first at 0 (an integer vector)."""
        with graph.name_scope(name, "RaggedFromRowStarts", [values, row_starts]):
            starts, values = _long(row_starts, "row_starts"), _as_values(values)
            starts.shape.assert_has_rank(1)
            splits = tensors.concat([starts, _rows(values)], 0)
            return cls(values, _checked(splits, values, "from_row_starts") if validate else splits)

    @classmethod
    def from_row_limits(cls, values, row_limits, name=None, validate=True):
        """Rows that end before these places of the values, the last at their end (an integer
        vector)."""
        with graph.name_scope(name, "RaggedFromRowLimits", [values, row_limits]):
            limits, values = _long(row_limits, "row_limits"), _as_values(values)
            limits.shape.assert_has_rank(1)
            splits = tensors.concat([[np.int64(0)], limits], 0)
            return cls(values, _checked(splits, values, "from_row_limits") if validate else splits)

    @classmethod
    def from_value_rowids(cls, values, value_rowids, nrows=None, name=None, validate=True):
        """Value i belongs to row value_rowids[i], which never falls; nrows: one more than the last
        row unless given."""
        with graph.name_scope(name, "RaggedFromValueRowIds", [value_rowids]):
            ids = _long(value_rowids, "value_rowids")
            return cls(_as_values(values), segment_ids_to_row_splits(ids, nrows))

    @classmethod
    def from_nested_row_splits(cls, flat_values, nested_row_splits, name=None, validate=True):
        """Ragged in several dimensions, whose splits are given from the outermost on."""
        for splits in reversed(nested_row_splits):
            flat_values = cls.from_row_splits(flat_values, splits, name=name)
        return flat_values

    @classmethod
    def from_tensor(cls, tensor, lengths=None, padding=None, ragged_rank=1, name=None):
        """The rows of a tensor of rank 2 or more, or of each the first `lengths[i]` elements.
        ValueError for padding, for ragged_rank other than 1 and for tensors of rank below 2."""
        if padding is not None or ragged_rank != 1:
            raise ValueError("from_tensor takes lengths and ragged_rank=1; not padding, nor other "
                             "ranks")
        with graph.name_scope(name, "RaggedFromTensor", [tensor]):
            tensor = graph.convert_to_tensor(tensor, name="tensor")
            tensor.shape.with_rank_at_least(2)
            size = tensors.shape(tensor, out_type=dtypes.int64)
            rows = tensors.reshape(tensor, tensors.concat([[size[0] * size[1]], size[2:]], 0))
            if lengths is None:
                return of_uniform_rows(rows, size[1], size[:1])
            lengths = _long(lengths, "lengths")
            kept = tensors.expand_dims(lengths, 1) > tensors.range_(size[1])
            places = tensors.reshape(logic_ops.Where(tensors.reshape(kept, [-1])), [-1])
            return cls.from_row_lengths(tensors.gather(rows, places),
                                        reductions.reduce_sum(_as_long(kept), 1))

    @classmethod
    def from_sparse(cls, st_input, name=None):
        """The values of a SparseTensor of rank 2 by rows, whose columns must have no holes."""
        with graph.name_scope(name, "RaggedFromSparse", [st_input.values]):
            return cls.from_value_rowids(st_input.values, st_input.indices[:, 0],
                                         st_input.dense_shape[0])

    # ------------------------------------------------------------------------ what there is of it
    @property
    def shape(self):
        """The static shape: ragged dimensions are None."""
        inner = self._values.shape
        size = self._row_splits.shape.num_elements()
        if inner.ndims is None:
            return TensorShape(None)
        return TensorShape([None if size is None else size - 1, None]).concatenate(inner[1:])

    def get_shape(self):
        """Same as `shape`."""
        return self.shape

    def nrows(self, out_type=dtypes.int64, name=None):
        """The number of rows, a scalar."""
        return tensors.size(self._row_splits, out_type=out_type) - 1

    def row_starts(self, name=None):
        """Where each row begins, int64."""
        return self._row_splits[:-1]

    def row_limits(self, name=None):
        """Where each row ends, int64."""
        return self._row_splits[1:]

    def row_lengths(self, axis=1, name=None):
        """The length of each row, int64; of `axis` 2 and more, of the rows of the values."""
        if axis > 1:
            return self.with_values(self._values.row_lengths(axis - 1))
        return self._row_splits[1:] - self._row_splits[:-1]

    def value_rowids(self, name=None):
        """The row of each value, int64."""
        return row_splits_to_segment_ids(self._row_splits)

    def bounding_shape(self, name=None):
        """The shape of `to_tensor`, int64."""
        longest = reductions.reduce_max(tensors.concat([[np.int64(0)], self.row_lengths()], 0))
        inner = self._values.bounding_shape() if isinstance(self._values, RaggedTensor) \
            else tensors.shape(self._values, out_type=dtypes.int64)
        return tensors.concat([tensors.stack([self.nrows(), longest]), inner[1:]], 0)

    # ------------------------------------------------------------------------ ways on from it
    def with_values(self, new_values):
        """The same rows of other values."""
        return RaggedTensor(_as_values(new_values), self._row_splits)

    def with_flat_values(self, new_values):
        """The same rows, in all dimensions, of other innermost values."""
        if isinstance(self._values, RaggedTensor):
            return self.with_values(self._values.with_flat_values(new_values))
        return self.with_values(new_values)

    def to_tensor(self, default_value=None, name=None):
        """The rows as long as the longest, filled up with `default_value` (0, False or "")."""
        with graph.name_scope(name, "RaggedToTensor", [self.flat_values]):
            values = self._values
            if isinstance(values, RaggedTensor):
                values = values.to_tensor(default_value)
            return _padded(values, self._row_splits, default_value)

    def to_sparse(self, name=None):
        """A SparseTensor of the values, its dense_shape as bounding_shape. ValueError for values
        that are not scalars."""
        if self.flat_values.shape.ndims != 1:
            raise ValueError("to_sparse takes ragged tensors of scalars, whose flat_values are a "
                             f"vector, got shape {self.flat_values.shape}")
        with graph.name_scope(name, "RaggedToSparse", [self.flat_values]):
            columns, at = [], None
            for splits in reversed(self.nested_row_splits):
                ids = row_splits_to_segment_ids(splits)
                own = tensors.range_(tensors.size(ids, out_type=dtypes.int64)) \
                    - tensors.gather(splits, ids)
                columns.append(own if at is None else tensors.gather(own, at))
                at = ids if at is None else tensors.gather(ids, at)
            places = tensors.stack([at] + columns[::-1], 1)
            return graph.SparseTensor(places, self.flat_values, self.bounding_shape())

    def eval(self, feed_dict=None, session=None):
        """A RaggedTensorValue, from `session` or the default session."""
        return session_for("eval tensor", self.graph, session).run(self, feed_dict)

    def __repr__(self):
        return f"tf.RaggedTensor(values={self._values!r}, row_splits={self._row_splits!r})"


def _as_values(values):
    return values if isinstance(values, RaggedTensor) else graph.convert_to_tensor(
        values, name="values")


def _as_long(flags):
    return tensors.cast(flags, dtypes.int64)


def _padded(values, splits, default_value):
    """Each row gathered at its own places, and at that of one default value behind the last."""
    size = tensors.shape(values, out_type=dtypes.int64)
    if default_value is None:
        default_value = "" if values.dtype == dtypes.string else values.dtype.as_numpy_dtype(0)
    filler = array_functions.fill(tensors.concat([[np.int64(1)], size[1:]], 0),
                                  graph.convert_to_tensor(default_value, dtype=values.dtype))
    starts = tensors.expand_dims(splits[:-1], 1)
    lengths = splits[1:] - splits[:-1]
    longest = reductions.reduce_max(tensors.concat([[np.int64(0)], lengths], 0))
    column = tensors.expand_dims(tensors.range_(longest), 0)
    inside = column < tensors.expand_dims(lengths, 1)
    places = logic_functions.where(inside, starts + column, tensors.zeros_like(starts + column)
                                   + size[0])
    return tensors.gather(tensors.concat([values, filler], 0), places)


# ------------------------------------------------------------------------------- functions
def of_uniform_rows(values, size, rows_of):
    """`values` in rows of `size`, as many as the product of the sizes `rows_of`."""
    splits = tensors.range_(product(rows_of) + 1) * size
    return RaggedTensor(values, splits)


def row_splits_to_segment_ids(splits, name=None, out_type=None):
    """The row of each value, from where rows begin and end. TF: ragged.row_splits_to_segment_ids.
    splits: integers [rows + 1]; the result is int64, or of dtype out_type. ValueError for other
    ranks."""
    with graph.name_scope(name, "RaggedSplitsToSegmentIds", [splits]):
        splits = _long(splits, "splits")
        values = tensors.range_(splits[-1])
        ids = lookup_ops.UpperBound(tensors.expand_dims(splits[1:], 0),
                                    tensors.expand_dims(values, 0), out_type=dtypes.int64)[0]
        return ids if out_type in (None, dtypes.int64) else tensors.cast(ids, out_type)


def segment_ids_to_row_splits(segment_ids, num_segments=None, out_type=None, name=None):
    """Where rows begin and end, from the row of each value (never falling). TF:
    ragged.segment_ids_to_row_splits. segment_ids: integers [n]; an int64 vector [num_segments + 1],
    or of dtype out_type. ValueError for other ranks."""
    with graph.name_scope(name, "SegmentIdsToRaggedSplits", [segment_ids]):
        ids = _long(segment_ids, "segment_ids")
        if num_segments is None:
            num_segments = reductions.reduce_max(tensors.concat([[np.int64(-1)], ids], 0)) + 1
        rows = tensors.range_(_long(num_segments, "num_segments") + 1)
        splits = lookup_ops.LowerBound(tensors.expand_dims(ids, 0),
                                       tensors.expand_dims(rows, 0), out_type=dtypes.int64)[0]
        return splits if out_type in (None, dtypes.int64) else tensors.cast(splits, out_type)


def map_flat_values(op, *args, **kwargs):
    """op applied to the innermost values of the RaggedTensors among the arguments, which must have
    equal rows; the result has these rows, op's dtype and, without a RaggedTensor, op's shape.
    ValueError, or whatever else op raises. TF: ragged.map_flat_values."""
    ragged = [a for a in (*args, *kwargs.values()) if isinstance(a, RaggedTensor)]
    made = op(*[_flat(a) for a in args], **{k: _flat(a) for k, a in kwargs.items()})
    return ragged[0].with_flat_values(made) if ragged else made


def _levels(rows, depth):
    """(flat list, [lengths of the rows, the outermost first]) of lists nested `depth` deep."""
    lengths = []
    for _ in range(depth):
        if not all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
            raise ValueError("ragged.constant: all rows must be nested equally deep")
        lengths.append([len(row) for row in rows])
        rows = [x for row in rows for x in row]
    return rows, lengths


def _depth_of(rows):
    depths = [1 + _depth_of(row) for row in rows if isinstance(row, (list, tuple, np.ndarray))]
    return max(depths, default=0)


def constant_value(pylist, dtype=None, ragged_rank=None, inner_shape=None):
    """A RaggedTensorValue of nested lists. TF: ragged.constant_value.
    Numbers or strings of any dtype, int32 and float32 by default. ragged_rank: how many dimensions
    may be ragged, all but the first by default. ValueError for lists that are not nested equally
    deep, or an inner_shape."""
    if inner_shape is not None:
        raise ValueError("inner_shape is not supported; give ragged_rank")
    depth = _depth_of(pylist) if ragged_rank is None else ragged_rank
    flat, lengths = _levels(pylist, depth)
    dtype = None if dtype is None else dtypes.as_dtype(dtype).as_numpy_dtype
    made = np.array(flat, dtype) if flat else np.zeros(0, dtype or np.float32)
    made = made.astype(np.int32) if dtype is None and made.dtype == np.int64 else made
    made = made.astype(np.float32) if dtype is None and made.dtype == np.float64 else made
    for row_lengths in reversed(lengths):
        made = RaggedTensorValue(made, np.cumsum([0] + row_lengths, dtype=np.int64))
    return made


def constant(pylist, dtype=None, ragged_rank=None, inner_shape=None, name=None):
    """A RaggedTensor of nested lists; shapes, dtypes, any ValueError as of ragged.constant_value.
    TF: ragged.constant."""
    value = constant_value(pylist, dtype, ragged_rank, inner_shape)
    with graph.name_scope(name, "RaggedConstant"):
        flat = graph.convert_to_tensor(_flat(value), name="values",
                                       dtype=None if dtype is None else dtypes.as_dtype(dtype))
        return RaggedTensor.from_nested_row_splits(flat, _splits(value))


def _fetch(ragged):
    def contract(values):
        made = values[0]
        for row_splits in reversed(values[1:]):
            made = RaggedTensorValue(made, row_splits)
        return made
    return _parts(ragged), contract


def _feed(ragged, value):
    return list(zip(_parts(ragged), _parts(value)))


def _parts(ragged):
    return [ragged.flat_values, *ragged.nested_row_splits]


RaggedTensor.session_conversion = (_fetch, _feed, _parts)     # sessions fetch and feed them

PUBLIC = {
    "RaggedTensor": RaggedTensor, "ragged.RaggedTensorValue": RaggedTensorValue,
    "ragged.constant": constant, "ragged.constant_value": constant_value,
    "ragged.map_flat_values": map_flat_values,
    "ragged.row_splits_to_segment_ids": row_splits_to_segment_ids,
    "ragged.segment_ids_to_row_splits": segment_ids_to_row_splits,
}
