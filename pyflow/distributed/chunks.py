"""Large tensors on a Connect stream: their bytes go between messages, neither packed nor joined.

    ConnectMessage(put=TensorPut(..., transfer=7))      type and shape; the bytes follow
    00  7 u64  offset u64  bytes                        a chunk, up to CHUNK bytes, in order
    ...                                                 other messages, and chunks of other tensors

No message of ours begins with a zero byte.

Invariants
1. A chunk is copied once on either side beyond what grpc does: out of the tensor's memory, and into
   that of the tensor that its reader gets.
2. What comes is checked: a known transfer, the next offset, no byte beyond its end; of memory that
   a peer only promises at most LIMIT bytes are set aside for one stream, and not touched.

Threads: a Sending is for the thread that sends, an Incoming for the one that reads the stream.
"""
import ctypes
import functools
import math
import struct

import numpy as np

from pyflow.distributed import tensors
from pyflow.framework import dtypes, errors
from pyflow.session import runtime

LARGE = 1 << 16                         # bytes from which on a tensor goes in chunks
CHUNK = 1 << 20
LIMIT = 1 << 32
KEPT = 1 << 26
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3       # malloc.h
_HEAD = struct.Struct("<BQQ")
_BOOL = dtypes.bool.as_datatype_enum


@functools.cache
def keep_blocks():
    """The C library keeps freed blocks of a chunk's size, up to KEPT bytes of an arena, for the next
    chunk.  Else it gives each back to the system, and the next one's pages are new and zeroed, on
    both sides and in every copy that grpc makes."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return                              # not glibc
    mallopt(_M_MMAP_THRESHOLD, 8 * CHUNK)
    mallopt(_M_TRIM_THRESHOLD, KEPT)


def is_chunk(data):
    """These bytes of a stream are a chunk, no message."""
    return data[:1] == b"\0"


def to_bytes(message):
    """What grpc sends of a message, or of a chunk."""
    return message if type(message) is bytes else message.SerializeToString()


class Sending:
    """The chunks of one tensor.  data: its bytes, as an array that keeps them."""

    __slots__ = ("number", "_data", "_at")

    def __init__(self, number, data):
        self.number, self._data, self._at = number, memoryview(data), 0
        keep_blocks()

    def next(self):
        """The next chunk, and how many bytes of the tensor are in it."""
        piece = self._data[self._at:self._at + CHUNK]
        frame = b"".join((_HEAD.pack(0, self.number, self._at), piece))
        self._at += len(piece)
        return frame, len(piece)

    @property
    def over(self):
        """All of it was sent."""
        return self._at >= len(self._data)


class _Transfer:
    __slots__ = ("kept", "room", "got", "size", "arrived")

    def __init__(self, size, arrived):
        self.kept = self.room = None
        self.got, self.size, self.arrived = 0, size, arrived


class Incoming:
    """The tensors that come in chunks on one stream."""

    def __init__(self):
        self._open, self._bytes = {}, 0

    def begin(self, number, message, arrived):
        """A tensor of a TensorMessage's type and shape follows; arrived(Kept) once it is there.
        Raises InvalidArgumentError, or ResourceExhaustedError: then its chunks are dropped."""
        shape = tuple(message.shape)
        dtype = tensors.numpy_type(message.dtype)
        size = tensors.count_of(shape) * dtype.itemsize
        if number in self._open or not size or dtype.hasobject or message.content \
                or message.strings:
            raise _wrong(f"transfer {number} of {size} bytes begins")
        transfer = self._open[number] = _Transfer(size, arrived)
        if size > LIMIT - self._bytes:
            raise errors.ResourceExhaustedError(
                None, None, f"a tensor of {size} bytes is announced where {self._bytes} are on "
                f"their way: of {LIMIT} allowed from one peer that is too much")
        try:
            transfer.kept = runtime.executor().Kept.empty(message.dtype, shape)
        except MemoryError:
            raise errors.ResourceExhaustedError(
                None, None, f"out of memory for a tensor of {size} bytes") from None
        keep_blocks()
        transfer.room = memoryview(transfer.kept.data(writable=True))
        self._bytes += size

    def take(self, data):
        """A chunk.  Raises InvalidArgumentError."""
        if len(data) <= _HEAD.size:
            raise _wrong("it is empty")
        _, number, offset = _HEAD.unpack_from(data)
        transfer, n = self._open.get(number), len(data) - _HEAD.size
        if transfer is None or offset != transfer.got or n > transfer.size - offset:
            raise _wrong(f"{n} bytes at {offset} of transfer {number}")
        if transfer.room is not None:
            transfer.room[offset:offset + n] = memoryview(data)[_HEAD.size:]
        transfer.got += n
        if transfer.got == transfer.size:
            self._end(number, transfer)

    def _end(self, number, transfer):
        del self._open[number]
        kept, transfer.kept = transfer.kept, None
        if kept is None:
            return
        self._bytes -= transfer.size
        if kept.type == _BOOL and np.frombuffer(transfer.room, np.uint8).max() > 1:
            raise _wrong("a truth value that is neither 0 nor 1")
        transfer.room = None
        transfer.arrived(kept)


def size_of(kept):
    """Bytes of a Kept of numbers; 0 for others, and where its memory is not the host's."""
    if not kept.on_host or kept.type == dtypes.string.as_datatype_enum:
        return 0
    return math.prod(kept.shape) * tensors.numpy_type(kept.type).itemsize


def _wrong(text):
    return errors.InvalidArgumentError(None, None, f"a chunk of a tensor is wrong: {text}")
