"""TFRecord files: records of bytes, each with its length and checksums; event files are some.

Invariants
  1. A record is: length (8 bytes), the masked CRC-32C of these, data, the masked CRC-32C of the
     data; numbers little endian.  Compressed files are such a file in one ZLIB or GZIP stream.
  2. What is damaged or cut off raises DataLossError with its offset; no length is believed before
     so many bytes were read.

Threads: a writer or an iterator is for one.

    with tf.io.TFRecordWriter("data.tfrecord") as writer:
        writer.write(b"one")
    list(tf.io.tf_record_iterator("data.tfrecord"))         # [b"one"]
"""
import os
import struct
import zlib

from pyflow.framework import errors
from pyflow.lib.files import remote
from pyflow.lib.files.crc32c import masked

_PIECE = 1 << 20
_WINDOW = {"ZLIB": 15, "GZIP": 31}


class TFRecordCompressionType:
    """How a file of records is compressed. TF: tf.io.TFRecordCompressionType."""
    NONE, ZLIB, GZIP = 0, 1, 2


_NAMES = {TFRecordCompressionType.NONE: "", TFRecordCompressionType.ZLIB: "ZLIB",
          TFRecordCompressionType.GZIP: "GZIP", None: "", "": "", "ZLIB": "ZLIB", "GZIP": "GZIP"}


class TFRecordOptions:
    """How a file of records is compressed; ValueError for a type that there is not.

    compression_type: "", "ZLIB", "GZIP" or a TFRecordCompressionType; window_bits 8 to 15,
    compression_level -1 to 9, mem_level 1 to 9, compression_strategy: zlib's. Flush modes, sizes of
    buffers and the method are kept without effect. TF: tf.io.TFRecordOptions."""
    compression_type_map = _NAMES

    def __init__(self, compression_type=None, flush_mode=None, input_buffer_size=None,
                 output_buffer_size=None, window_bits=None, compression_level=None,
                 compression_method=None, mem_level=None, compression_strategy=None):
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        self.flush_mode, self.compression_method = flush_mode, compression_method
        self.input_buffer_size, self.output_buffer_size = input_buffer_size, output_buffer_size
        self.window_bits, self.compression_level = window_bits, compression_level
        self.mem_level, self.compression_strategy = mem_level, compression_strategy

    def __repr__(self):
        kind = self.get_compression_type_string(self.compression_type)
        return f"<tf.io.TFRecordOptions compression {kind or 'none'}>"

    @classmethod
    def get_compression_type_string(cls, options):
        """"", "ZLIB" or "GZIP" of options, a name or a number."""
        if isinstance(options, TFRecordOptions):
            options = options.compression_type
        if isinstance(options, bool) or options not in _NAMES:
            raise ValueError(f"Not a valid compression_type: {options!r}; expected '', 'ZLIB' or "
                             f"'GZIP'")
        return _NAMES[options]


def _options(given):
    return given if isinstance(given, TFRecordOptions) else TFRecordOptions(given)


def _opened(path, mode):
    path = os.fspath(path)
    if remote.is_remote(path):
        return remote.open_file(path, mode)
    try:
        return open(remote.local(path), mode)
    except OSError as error:
        raise errors.of_os_error(error) from None


def _compressor(options):
    kind = options.get_compression_type_string(options)
    if not kind:
        return None
    bits = _WINDOW[kind]
    if options.window_bits is not None:
        bits += options.window_bits - 15
    level = -1 if options.compression_level is None else options.compression_level
    return zlib.compressobj(level, zlib.DEFLATED, bits, options.mem_level or zlib.DEF_MEM_LEVEL,
                            options.compression_strategy or zlib.Z_DEFAULT_STRATEGY)


class TFRecordWriter:
    """Writes records to a file.

    path: the file, made anew, local or with a scheme of fsspec's; NotFoundError or PermissionDeniedError where it cannot be. options: a
    TFRecordOptions or a compression's name. TF: tf.io.TFRecordWriter.

        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/data"
        >>> with tf.python_io.TFRecordWriter(path, "GZIP") as writer:
        ...     writer.write(b"first")
        ...     writer.write(b"second")
        >>> list(tf.python_io.tf_record_iterator(path, "GZIP"))
        [b'first', b'second']
    """

    def __init__(self, path, options=None):
        self._squeeze = _compressor(_options(options))
        self._path, self._file = os.fspath(path), _opened(path, "wb")

    def write(self, record):
        """Adds a record, bytes or str; TypeError for others, FailedPreconditionError if closed."""
        if isinstance(record, str):
            record = record.encode()
        length = struct.pack("<Q", len(record))
        self._put(b"".join((length, struct.pack("<I", masked(length)), record,
                            struct.pack("<I", masked(record)))))

    def _put(self, data):
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed")
        try:
            self._file.write(data if self._squeeze is None else self._squeeze.compress(data))
        except OSError as error:
            raise errors.of_os_error(error) from None

    def flush(self):
        """Hands all records to the system."""
        if self._squeeze is not None and self._file is not None:
            self._file.write(self._squeeze.flush(zlib.Z_SYNC_FLUSH))
        self._put(b"")
        self._file.flush()

    def close(self):
        """Ends the file; a second call does nothing."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            with file:
                if self._squeeze is not None:
                    file.write(self._squeeze.flush())
        except OSError as error:
            raise errors.of_os_error(error) from None

    def __repr__(self):
        return f"<tf.io.TFRecordWriter {'closed' if self._file is None else repr(self._path)}>"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class _Inflated:
    """A compressed file, read as if it were not."""

    def __init__(self, file, kind, window_bits):
        bits = _WINDOW[kind] if window_bits is None else _WINDOW[kind] - 15 + window_bits
        self._file, self._machine, self._rest = file, zlib.decompressobj(bits), b""

    def read(self, count):
        """Up to `count` bytes, none at the end."""
        while True:
            data = self._machine.unconsumed_tail or self._file.read(_PIECE)
            try:
                made = self._machine.decompress(data, count)
            except zlib.error as error:
                raise errors.DataLossError(None, None, f"not compressed as said: {error}") from None
            if made or not data or self._machine.eof:
                return made


def _read(source, count):
    """`count` bytes, or fewer at the end."""
    pieces = []
    while count:
        piece = source.read(min(count, _PIECE))
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _checked(source, count, offset):
    """`count` bytes whose checksum follows."""
    data = _read(source, count + 4)
    if len(data) < count + 4:
        raise errors.DataLossError(None, None, f"truncated record at {offset}")
    if struct.unpack_from("<I", data, count)[0] != masked(data[:count]):
        raise errors.DataLossError(None, None, f"corrupted record at {offset}")
    return data[:count]


def _records(source):
    offset = 0
    while True:
        head = _read(source, 12)
        if not head:
            return
        if len(head) < 12:
            raise errors.DataLossError(None, None, f"truncated record at {offset}")
        if struct.unpack_from("<I", head, 8)[0] != masked(head[:8]):
            raise errors.DataLossError(None, None, f"corrupted record at {offset}")
        length, = struct.unpack_from("<Q", head)
        yield _checked(source, length, offset)
        offset += length + 16


def tf_record_iterator(path, options=None):
    """The records of a file, bytes, one by one.

    options: as TFRecordWriter takes them. NotFoundError for no such file, DataLossError where it is
    damaged or cut off. TF: tf.io.tf_record_iterator."""
    options = _options(options)
    kind = options.get_compression_type_string(options)
    with _opened(path, "rb") as file:
        yield from _records(_Inflated(file, kind, options.window_bits) if kind else file)


PUBLIC = {
    f"{space}.{name}": value for space in ("io", "python_io") for name, value in (
        ("TFRecordCompressionType", TFRecordCompressionType),
        ("TFRecordOptions", TFRecordOptions), ("TFRecordWriter", TFRecordWriter),
        ("tf_record_iterator", tf_record_iterator))}
