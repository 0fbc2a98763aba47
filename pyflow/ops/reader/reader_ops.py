"""Readers, records of the files that a queue names: the blocks (classes: lib/reader/readers.py).

Invariant: each op is there twice, as in TensorFlow: with handles that are references
(`ReaderRead`) and with resources (`ReaderReadV2`); both do the same.

No samples and no reference, on purpose: their effect is state and files; tests/readers runs them.
Who calls it: lib/reader.  Source: TF 1.15 io_ops.

Example:  `key, line = ReaderReadV2(TextLineReaderV2(), queue.queue_ref)`.
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import TensorShape

NAMED = "container: string = '', shared_name: string = ''"
SIZES = "header_bytes: int = 0, record_bytes: int, footer_bytes: int = 0, hop_bytes: int = 0, "


def _scalar(op):
    return TensorShape([])


def _reference(op):
    return TensorShape([2])             # container and name, as in TF


def _nothing(op):
    return []


def _one(op):
    return [TensorShape([]), TensorShape([])]


def _many(op):
    op.inputs[2].shape.assert_has_rank(0)
    return [TensorShape([None]), TensorShape([None])]


def _restored(op):
    op.inputs[1].shape.assert_has_rank(0)
    return []


def _reader(name, doc, attrs, more=""):
    made = []
    for suffix, handle, shape_of in (("", "reader_handle: Ref(string)", _reference),
                                     ("V2", "reader_handle: resource", _scalar)):
        said = UNREGISTERED if suffix else None     # as TF registers them

        @op(name + suffix, outputs=handle, attrs=attrs + (more if suffix else ""), stateful=True,
            doc=f"{doc} TF: {name}{suffix}.")
        class Reader:
            shape = shape_of
            gradient = said
            reference = None
            samples = None
        made.append(Reader)
    return made


TextLineReader, TextLineReaderV2 = _reader(
    "TextLineReader", "Reads lines; keys are file:line.", f"skip_header_lines: int = 0, {NAMED}")
WholeFileReader, WholeFileReaderV2 = _reader(
    "WholeFileReader", "Reads files whole; keys are their names.", NAMED)
FixedLengthRecordReader, FixedLengthRecordReaderV2 = _reader(
    "FixedLengthRecordReader", "Reads records of one length; keys are file:number.", SIZES + NAMED,
    ", encoding: string = ''")
TFRecordReader, TFRecordReaderV2 = _reader(
    "TFRecordReader", "Reads TFRecords; keys are file:offset.",
    f"{NAMED}, compression_type: string = ''")
IdentityReader, IdentityReaderV2 = _reader(
    "IdentityReader", "Gives the queue's strings, as keys and values.", NAMED)


def _block(name, doc, shape_of, outputs="", inputs="", queue=False):
    """The op `name` with references, and its V2 with resources."""
    made = []
    for suffix, kind in (("", "Ref(string)"), ("V2", "resource")):
        handles = f"reader_handle: {kind}" + (f", queue_handle: {kind}" if queue else "") + inputs
        given = {"outputs": outputs} if outputs else {}
        said = UNREGISTERED if suffix else None

        @op(name + suffix, inputs=handles, stateful=bool(suffix), doc=f"{doc} TF: {name}{suffix}.",
            **given)
        class Block:
            shape = shape_of
            gradient = said
            reference = None
            samples = None
        made.append(Block)
    return made


ReaderRead, ReaderReadV2 = _block(
    "ReaderRead", "The next record; takes a file from the queue where it needs one, and waits for "
    "it.", _one, "key: string, value: string", queue=True)
ReaderReadUpTo, ReaderReadUpToV2 = _block(
    "ReaderReadUpTo", "Up to num_records records of one file.", _many,
    "keys: string, values: string", ", num_records: int64", queue=True)
ReaderNumRecordsProduced, ReaderNumRecordsProducedV2 = _block(
    "ReaderNumRecordsProduced", "How many records were read.", _scalar, "records_produced: int64")
ReaderNumWorkUnitsCompleted, ReaderNumWorkUnitsCompletedV2 = _block(
    "ReaderNumWorkUnitsCompleted", "How many files were read to their end.", _scalar,
    "units_completed: int64")
ReaderSerializeState, ReaderSerializeStateV2 = _block(
    "ReaderSerializeState", "Where the reader is, a string.", _scalar, "state: string")
ReaderRestoreState, ReaderRestoreStateV2 = _block(
    "ReaderRestoreState", "The reader goes on where another was.", _restored,
    inputs=", state: string")
ReaderReset, ReaderResetV2 = _block("ReaderReset", "The reader is as it was made.", _nothing)
