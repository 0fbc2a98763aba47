"""Readers: records of the files whose names come from a queue.

Invariants
  1. A reader is state of the session: its steps read on where the last one stopped; names and
     counts are TensorFlow's.
  2. A read that needs a file waits on the queue without a thread; a queue that is closed and empty
     ends it with OutOfRangeError.
  3. Of a reader one read is under way at a time; others wait in line.

Who calls it: users.  Thread: the one building the graph.  Source: TF 1.15 `tf.ReaderBase` and its
kinds; tf.data's datasets of files do the same and more.

Example:
    files = tf.train.string_input_producer(["a.csv", "b.csv"], num_epochs=1)
    key, line = tf.TextLineReader(skip_header_lines=1).read(files)
"""
from pyflow.framework import dtypes, graph
from pyflow.framework.shown import ShowsArguments
from pyflow.lib.files.record_files import TFRecordOptions
from pyflow.ops.reader import reader_ops


class ReaderBase(ShowsArguments):
    """What readers have in common. TF: tf.ReaderBase.

    reader_ref: the handle; supports_serialize: whether serialize_state works."""

    def __init__(self, reader_ref, supports_serialize=False):
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    reader_ref = property(lambda self: self._reader_ref, doc="The handle, a scalar resource.")
    supports_serialize = property(lambda self: self._supports_serialize,
                                  doc="Whether serialize_state and restore_state work.")

    def _op(self, block, *arguments, name):
        """The op on this reader: with a reference for a handle TensorFlow's first one."""
        of_reference = self._reader_ref.dtype.base_dtype == dtypes.string
        opdef = getattr(reader_ops, block if of_reference else f"{block}V2")
        return opdef(self._reader_ref, *arguments, name=name)

    def read(self, queue, name=None):
        """(key, value), scalar strings: the next record. queue: a tf.QueueBase, or the handle of
        one, of scalar strings, the files' names. OutOfRangeError in the step once the queue is
        closed and empty; NotFoundError for no such file, DataLossError for damaged records."""
        return self._op("ReaderRead", _handle(queue), name=name)

    def read_up_to(self, queue, num_records, name=None):
        """(keys, values), vectors of strings: up to num_records (an int64 scalar above 0) records
        of one file, at least one. Errors: as of `read`."""
        return self._op("ReaderReadUpTo", _handle(queue), num_records, name=name)

    def num_records_produced(self, name=None):
        """How many records the reader has given, an int64 scalar."""
        return self._op("ReaderNumRecordsProduced", name=name)

    def num_work_units_completed(self, name=None):
        """How many files were read to their end, an int64 scalar."""
        return self._op("ReaderNumWorkUnitsCompleted", name=name)

    def serialize_state(self, name=None):
        """Where the reader is, a scalar string. UnimplementedError in the step unless
        supports_serialize."""
        return self._op("ReaderSerializeState", name=name)

    def restore_state(self, state, name=None):
        """The Operation after which the reader goes on where the one that gave `state` was.
        InvalidArgumentError in the step for what is no state."""
        return self._op("ReaderRestoreState", state, name=name)

    def reset(self, name=None):
        """The Operation after which the reader is as it was made."""
        return self._op("ReaderReset", name=name)


def _handle(queue):
    return queue if isinstance(queue, graph.Tensor) else queue.queue_ref


class WholeFileReader(ReaderBase):
    """Reads files whole: (name, contents). TF: tf.WholeFileReader."""

    def __init__(self, name=None):
        super().__init__(reader_ops.WholeFileReaderV2(name=name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """Reads lines without their ends, LF or CR LF: ("file:line", line), lines from 1 on.

    skip_header_lines: of each file. TF: tf.TextLineReader."""

    def __init__(self, skip_header_lines=None, name=None):
        super().__init__(reader_ops.TextLineReaderV2(skip_header_lines=skip_header_lines or 0,
                                                     name=name))


class FixedLengthRecordReader(ReaderBase):
    """Reads records of record_bytes each: ("file:number", bytes), numbers from 0 on.

    header_bytes, footer_bytes: of each file, not read; hop_bytes: from one record to the next,
    record_bytes where None; encoding: "ZLIB", or none. InvalidArgumentError in the step for sizes
    below 0. TF: tf.FixedLengthRecordReader."""

    def __init__(self, record_bytes, header_bytes=None, footer_bytes=None, hop_bytes=None,
                 name=None, encoding=None):
        super().__init__(reader_ops.FixedLengthRecordReaderV2(
            header_bytes=header_bytes or 0, record_bytes=record_bytes,
            footer_bytes=footer_bytes or 0, hop_bytes=hop_bytes or 0, encoding=encoding or "",
            name=name))


class TFRecordReader(ReaderBase):
    """Reads the records of TFRecord files, their checksums verified: ("file:offset", bytes).

    options: a tf.python_io.TFRecordOptions, for compressed files. TF: tf.TFRecordReader.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/data"
        >>> with tf.python_io.TFRecordWriter(path) as writer:
        ...     writer.write(b"first")
        >>> names = tf.FIFOQueue(1, tf.string, [[]])
        >>> key, value = tf.TFRecordReader().read(names)
        >>> with tf.Session() as sess:
        ...     sess.run(names.enqueue([path]))
        ...     print(sess.run(value))
        b'first'
    """

    def __init__(self, name=None, options=None):
        super().__init__(reader_ops.TFRecordReaderV2(
            compression_type=TFRecordOptions.get_compression_type_string(options), name=name))


class IdentityReader(ReaderBase):
    """Gives the queue's strings themselves, as key and value. TF: tf.IdentityReader."""

    def __init__(self, name=None):
        super().__init__(reader_ops.IdentityReaderV2(name=name), supports_serialize=True)


PUBLIC = {kind.__name__: kind for kind in (
    ReaderBase, WholeFileReader, TextLineReader, FixedLengthRecordReader, TFRecordReader,
    IdentityReader)}
