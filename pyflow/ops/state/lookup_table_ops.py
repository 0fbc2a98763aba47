"""Tables from keys to values: the blocks (classes: lib/variables/lookup_tables.py).

Invariants
  1. Keys are strings, int64 or int32, values strings or numbers; a table has one type of each.
  2. What is not in a table is its default value.

Source: TF 1.15 `tf.lookup`.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape

MAP = "container: string = '', shared_name: string = '', use_node_name_sharing: bool = false, " \
      "key_dtype: type, value_dtype: type"
HANDLE = "table_handle: resource"


def _table(name, doc):
    @op(name, outputs=HANDLE, attrs=MAP, stateful=True, doc=f"{doc} TF: {name}.")
    class Table:
        def shape(op): return TensorShape([])
        gradient = None
        reference = None
        samples = None
    return Table


HashTableV2 = _table("HashTableV2", "A table that is filled once, by the node's or shared name.")
MutableHashTableV2 = _table("MutableHashTableV2", "A table whose entries steps change.")


def _no_outputs(name, inputs, attrs, doc, gradient_of=None):
    @op(name, inputs=f"{HANDLE}, {inputs}", attrs=attrs, stateful=True, doc=f"{doc} TF: {name}.")
    class Change:
        def shape(op): return []
        gradient = gradient_of
        reference = None
        samples = None
    return Change


InitializeTableV2 = _no_outputs("InitializeTableV2", "keys: Tkey, values: Tval",
                                "Tkey: type, Tval: type", "Fills a table from two vectors.")
InitializeTableFromTextFileV2 = _no_outputs(
    "InitializeTableFromTextFileV2", "filename: string",
    "key_index: int >= -2, value_index: int >= -2, vocab_size: int >= -1 = -1, "
    "delimiter: string = '\\t', offset: int = 0",
    "Fills a table from columns (or, -2, the whole, or, -1, the number) of a file's lines.")
LookupTableInsertV2 = _no_outputs("LookupTableInsertV2", "keys: Tin, values: Tout",
                                  "Tin: type, Tout: type", "Puts entries into a mutable table.")
LookupTableImportV2 = _no_outputs("LookupTableImportV2", "keys: Tin, values: Tout",
                                  "Tin: type, Tout: type", "Replaces all of a table's entries.",
                                  UNREGISTERED)
LookupTableRemoveV2 = _no_outputs("LookupTableRemoveV2", "keys: Tin", "Tin: type",
                                  "Takes entries out of a mutable table.", UNREGISTERED)


@op("LookupTableFindV2", inputs=HANDLE + ", keys: Tin, default_value: Tout", outputs="values: Tout",
    attrs="Tin: type, Tout: type", stateful=True)
class LookupTableFindV2:
    """The values of keys, `default_value` where there is none. TF: LookupTableFindV2."""
    def shape(op): return op.inputs[1].shape
    gradient = None
    reference = None
    samples = None


@op("LookupTableSizeV2", inputs=HANDLE, outputs="size: int64", stateful=True)
class LookupTableSizeV2:
    """The number of entries. TF: LookupTableSizeV2."""
    def shape(op): return TensorShape([])
    gradient = None
    reference = None
    samples = None


@op("LookupTableExportV2", inputs=HANDLE, outputs="keys: Tkeys, values: Tvalues", stateful=True,
    attrs="Tkeys: type, Tvalues: type")
class LookupTableExportV2:
    """All keys and values, in no order. TF: LookupTableExportV2."""
    def shape(op): return [TensorShape([None]), TensorShape([None])]
    gradient = UNREGISTERED
    reference = None
    samples = None
