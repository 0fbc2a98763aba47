"""Tables from keys to values: filled once by an initializer, or changed by steps.

Invariant: a StaticHashTable answers after its initializer has run (`tf.tables_initializer()`);
running that again does nothing.

Who calls it: users.  Thread: the one building the graph.  Source: TF 1.15 `tf.lookup`.

Example:  `ids = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(["a", "b"], [0, 1]), -1).lookup(words)`
"""
from pyflow.framework import dtypes, graph
from pyflow.framework.shown import ShowsArguments
from pyflow.lib.control_flow import grouping
from pyflow.lib.math import logic_functions
from pyflow.ops.base import tensors
from pyflow.ops.elementwise import binary_ops, logic_ops
from pyflow.ops.state.lookup_table_ops import (HashTableV2, InitializeTableFromTextFileV2,
                                               InitializeTableV2, LookupTableExportV2,
                                               LookupTableFindV2, LookupTableInsertV2,
                                               LookupTableRemoveV2, LookupTableSizeV2,
                                               MutableHashTableV2)
from pyflow.ops.strings import string_data_ops, string_ops


# ------------------------------------------------------------------------------- initializers
class TextFileIndex:
    """Columns of a text file that are no columns: the number of the line, the whole line."""
    LINE_NUMBER = -1
    WHOLE_LINE = -2


class KeyValueTensorInitializer(ShowsArguments):
    """Entries from two vectors. TF: lookup.KeyValueTensorInitializer.
    keys, values: lists or tensors of equal lengths; dtypes: theirs unless given."""

    def __init__(self, keys, values, key_dtype=None, value_dtype=None, name=None):
        with graph.name_scope(name, "key_value_init", [keys, values]):
            self.keys = graph.convert_to_tensor(keys, dtype=key_dtype, name="keys")
            self.values = graph.convert_to_tensor(values, dtype=value_dtype, name="values")
        self.key_dtype, self.value_dtype = self.keys.dtype, self.values.dtype

    def initialize(self, table):
        """The operation that fills the table."""
        return InitializeTableV2(table.resource_handle, self.keys, self.values)


class TextFileInitializer(ShowsArguments):
    """Entries from the lines of a file. TF: lookup.TextFileInitializer.
    key_index, value_index: a column, TextFileIndex.LINE_NUMBER (int64) or WHOLE_LINE (string);
    vocab_size: how many lines, all by default; ValueError for indices below -2 and for dtypes that
    do not go with LINE_NUMBER and WHOLE_LINE."""

    def __init__(self, filename, key_dtype, key_index, value_dtype, value_index, vocab_size=None,
                 delimiter="\t", name=None, value_index_offset=0):
        self.key_dtype, self.value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        for what, index, dtype in (("key", key_index, self.key_dtype),
                                   ("value", value_index, self.value_dtype)):
            wanted = {-1: dtypes.int64, -2: dtypes.string}.get(index, dtype)
            if index < -2 or dtype != wanted:
                raise ValueError(f"{what}_index {index} does not go with {what}_dtype {dtype!r}: a "
                                 "line's number (-1) is int64, a whole line (-2) string")
        self.filename = graph.convert_to_tensor(filename, dtype=dtypes.string,
                                                name="asset_filepath")
        graph.add_to_collection(graph.GraphKeys.ASSET_FILEPATHS, self.filename)
        self._attrs = dict(key_index=key_index, value_index=value_index, delimiter=delimiter,
                           vocab_size=-1 if vocab_size is None else vocab_size,
                           offset=value_index_offset)

    def initialize(self, table):
        """The operation that fills the table."""
        return InitializeTableFromTextFileV2(table.resource_handle, self.filename, **self._attrs)


# ------------------------------------------------------------------------------- tables
class _Table(ShowsArguments):
    """What tables have in common: a handle, types, a default value.  `shared`: sessions of one
    server have it in common, under its node's name, as its variables."""

    def __init__(self, opdef, key_dtype, value_dtype, default_value, name, shared=True):
        self.key_dtype, self.value_dtype = dtypes.as_dtype(key_dtype), dtypes.as_dtype(value_dtype)
        self.resource_handle = opdef(key_dtype=self.key_dtype, value_dtype=self.value_dtype,
                                     use_node_name_sharing=shared, name=name)
        self.default_value = graph.convert_to_tensor(default_value, dtype=self.value_dtype)
        self.name = self.resource_handle.op.name.rsplit("/", 1)[-1]

    def lookup(self, keys, name=None):
        """The values of `keys` (a Tensor, or a SparseTensor: its values'), the default value where
        there is none. TypeError for keys of another dtype."""
        if isinstance(keys, graph.SparseTensor):
            return graph.SparseTensor(keys.indices, self.lookup(keys.values, name),
                                      keys.dense_shape)
        with graph.name_scope(name, f"{self.name}_Lookup", [keys]):
            keys = graph.convert_to_tensor(keys, dtype=None if isinstance(keys, graph.Tensor)
                                           else self.key_dtype, name="keys")
            if keys.dtype != self.key_dtype:
                raise TypeError(f"Dtype of argument `keys` must be {self.key_dtype!r}, got "
                                f"{keys.dtype!r}")
            return LookupTableFindV2(self.resource_handle, keys, self.default_value)

    def size(self, name=None):
        """The number of entries, an int64 scalar."""
        return LookupTableSizeV2(self.resource_handle, name=name or f"{self.name}_Size")

    def export(self, name=None):
        """All keys and values, two vectors, in no order."""
        return tuple(LookupTableExportV2(self.resource_handle, Tkeys=self.key_dtype,
                                         Tvalues=self.value_dtype, name=name))


class StaticHashTable(_Table):
    """A table that its initializer fills once. TF: lookup.StaticHashTable.
    initializer: a KeyValueTensorInitializer or TextFileInitializer; default_value: a scalar of its
    value_dtype. The operation `initializer` is in GraphKeys.TABLE_INITIALIZERS."""

    def __init__(self, initializer, default_value, name=None, experimental_is_anonymous=False):
        super().__init__(HashTableV2, initializer.key_dtype, initializer.value_dtype, default_value,
                         name or "hash_table")
        self.initializer = initializer.initialize(self)
        graph.add_to_collection(graph.GraphKeys.TABLE_INITIALIZERS, self.initializer)


class MutableHashTable(_Table):
    """A table whose entries steps change. TF: lookup.experimental.MutableHashTable.
    default_value: a scalar of value_dtype."""

    def __init__(self, key_dtype, value_dtype, default_value, name="MutableHashTable",
                 checkpoint=True):
        super().__init__(MutableHashTableV2, key_dtype, value_dtype, default_value, name,
                         shared=bool(checkpoint))

    def insert(self, keys, values, name=None):
        """The operation that puts entries in; TypeError for other dtypes."""
        keys = graph.convert_to_tensor(keys, dtype=self.key_dtype, name="keys")
        values = graph.convert_to_tensor(values, dtype=self.value_dtype, name="values")
        return LookupTableInsertV2(self.resource_handle, keys, values, name=name)

    def remove(self, keys, name=None):
        """The operation that takes entries out; TypeError for keys of another dtype."""
        keys = graph.convert_to_tensor(keys, dtype=self.key_dtype, name="keys")
        return LookupTableRemoveV2(self.resource_handle, keys, name=name)


class StaticVocabularyTable(ShowsArguments):
    """Ids of a vocabulary, and of `num_oov_buckets` buckets by hash for what is not in it.
    TF: lookup.StaticVocabularyTable.
    initializer: of strings or int64 to int64, or None for buckets alone. ValueError for fewer than
    one bucket, TypeError for other types."""

    def __init__(self, initializer, num_oov_buckets, lookup_key_dtype=None, name=None):
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        self._buckets, self._table = num_oov_buckets, None
        self.value_dtype = dtypes.int64
        if initializer is not None:
            if initializer.value_dtype != dtypes.int64:
                raise TypeError(f"Invalid `value_dtype`, expected {dtypes.int64!r} but got "
                                f"{initializer.value_dtype!r}")
            self._table = StaticHashTable(initializer, -1, name=name)
        self.key_dtype = dtypes.as_dtype(lookup_key_dtype or (
            initializer.key_dtype if initializer is not None else dtypes.string))
        self.initializer = self._table.initializer if self._table else grouping.no_op()

    def size(self, name=None):
        """The number of ids, buckets included, an int64 scalar."""
        own = self._table.size() if self._table else 0
        return graph.convert_to_tensor(own + self._buckets, dtype=dtypes.int64, name=name)

    def lookup(self, keys, name=None):
        """The ids of `keys` (a Tensor or SparseTensor), int64. TypeError for other dtypes."""
        if isinstance(keys, graph.SparseTensor):
            return graph.SparseTensor(keys.indices, self.lookup(keys.values, name),
                                      keys.dense_shape)
        with graph.name_scope(name, "StaticVocabularyTable_Lookup", [keys]):
            keys = graph.convert_to_tensor(keys, dtype=None if isinstance(keys, graph.Tensor)
                                           else self.key_dtype)
            if keys.dtype != self.key_dtype:
                raise TypeError(f"Dtype of argument `keys` must be {self.key_dtype!r}, got "
                                f"{keys.dtype!r}")
            words = keys if keys.dtype == dtypes.string else string_ops.AsString(
                tensors.cast(keys, dtypes.int64))
            bucket = string_data_ops.StringToHashBucketFast(words, num_buckets=self._buckets)
            if self._table is None:
                return bucket
            if self._table.key_dtype != keys.dtype:
                keys = tensors.cast(keys, self._table.key_dtype)
            ids = self._table.lookup(keys)
            oov = binary_ops.Add(bucket, self._table.size())
            missing = graph.convert_to_tensor(-1, dtype=dtypes.int64)
            return logic_functions.where(logic_ops.NotEqual(ids, missing), ids, oov)


def tables_initializer(name="init_all_tables"):
    """The operation that fills all tables of the graph; no shape, no dtype, never an error. TF:
    tf.tables_initializer."""
    found = graph.get_collection(graph.GraphKeys.TABLE_INITIALIZERS)
    return grouping.group(*found, name=name)


PUBLIC = {
    "tables_initializer": tables_initializer, "initialize_all_tables": tables_initializer,
    "initializers.tables_initializer": tables_initializer,
    "lookup.KeyValueTensorInitializer": KeyValueTensorInitializer,
    "lookup.TextFileInitializer": TextFileInitializer, "lookup.TextFileIndex": TextFileIndex,
    "lookup.StaticHashTable": StaticHashTable,
    "lookup.StaticVocabularyTable": StaticVocabularyTable,
    "lookup.experimental.MutableHashTable": MutableHashTable,
}
