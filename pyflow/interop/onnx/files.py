"""Files of models, mapped: weights are read where they lie, and their pages given back.

Invariants
1. A mapping is private to the process's reading: nobody writes to it.
2. Whoever looks at bytes of a file later than when it was opened asks `check` before: a file that
   changed meanwhile is an error, not other numbers.
3. `aligned` arrays have memory of their own, 64-aligned, which goes back to the system as soon as
   nobody holds them.

    file = ModelFile("model.onnx");  proto = messages.read(file)
    file_of(array).forget(array)            # its pages are read again where they are needed
"""

import mmap
import os
import threading

import numpy as np

from pyflow.interop.onnx.errors import OnnxError

MAPPED_BYTES = 1 << 20      # arrays from here on get mappings of their own
_HUGE = 2 << 20
# memory of this process alone: pages that could be shared cost more, and are never huge
_PRIVATE = ({"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS")
            else {})


class ModelFile(mmap.mmap):
    """A file's bytes, from `offset` on, `length` of them (0: all)."""

    def __new__(cls, path, offset=0, length=0):
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        try:
            made = super().__new__(cls, descriptor, length and length + offset - start,
                                   access=mmap.ACCESS_READ, offset=start)
        except BaseException:
            os.close(descriptor)
            raise
        made.path, made.skip, made._descriptor = path, offset - start, descriptor
        made._stamp = made._now()
        return made

    def __del__(self):
        descriptor = self.__dict__.pop("_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    def _now(self):
        about = os.fstat(self._descriptor)
        return about.st_size, about.st_mtime_ns

    def check(self):
        """Raises OnnxError if the file was written to since it was opened."""
        if self._now() != self._stamp:
            raise OnnxError(f"{self.path} was changed while the model is in use; open the model "
                            f"anew, and replace files rather than write into them")

    def forget(self, array):
        """Gives the pages of an array over this file back to the system."""
        if not hasattr(self, "madvise") or array.nbytes < MAPPED_BYTES:
            return
        first = _address(array) - _address(np.frombuffer(self, np.uint8, 1))
        page = mmap.PAGESIZE
        begin, end = -(-first // page) * page, (first + array.nbytes) // page * page
        if end > begin:
            self.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def file_of(array):
    """The ModelFile that an array lies in, or None."""
    while isinstance(array, (np.ndarray, memoryview)):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return array if isinstance(array, ModelFile) else None


def _address(array):
    return array.__array_interface__["data"][0]


def aligned(shape, dtype):
    """A new array, uninitialised."""
    dtype = np.dtype(dtype)
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if size >= MAPPED_BYTES:
        memory = mmap.mmap(-1, size, **_PRIVATE)
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(memory, dtype).reshape(shape)
    memory = np.empty(size + 63, np.uint8)
    start = -_address(memory) % 64
    return memory[start:start + size].view(dtype).reshape(shape)


def frozen(array):
    """A compact copy of its own memory, which nobody can write to."""
    if array.dtype == object:
        made = np.array(array, order="C")
    else:
        made = aligned(array.shape, array.dtype)
        turn(array, made)
    made.flags.writeable = False
    return made


_room = threading.local()   # memory for what is turned twice: new pages cost more than the turning


def _lent(shape, dtype):
    """An array for the moment: the next call has the same memory."""
    size = np.dtype(dtype).itemsize * int(np.prod(shape))
    if getattr(_room, "bytes", np.empty(0)).nbytes < size:
        _room.bytes = None
        _room.bytes = aligned((size,), np.uint8)
    return _room.bytes[:size].view(dtype).reshape(shape)


def give_back():
    """The memory of `turn` goes; an import is over."""
    _room.__dict__.clear()


_STRIP = 32                 # columns that are turned at once


def turn(array, out):
    """out[...] = array, in strips where that reads along columns."""
    if array.nbytes < MAPPED_BYTES or array.flags.c_contiguous:
        np.copyto(out, array)
    elif array.ndim == 2 and array.T.flags.c_contiguous:
        for i in range(0, array.shape[1], _STRIP):
            out[:, i:i + _STRIP] = array[:, i:i + _STRIP]
    elif array.ndim == 4 and array.transpose(3, 2, 0, 1).flags.c_contiguous:
        _turn_filter(array, out)
    else:
        np.copyto(out, array)


def _turn_filter(array, out):
    """Of [H, W, I, O] that lies as [O, I, H, W]: a matrix, then blocks of whole rows."""
    h, w, inner, outer = array.shape
    rows = array.transpose(3, 2, 0, 1).reshape(outer, -1)
    if h * w == 1:
        return turn(rows.T, out.reshape(-1, outer))
    made = _lent((inner, h, w, outer), array.dtype)
    turn(rows.T, made.reshape(-1, outer))
    np.copyto(out, made.transpose(1, 2, 0, 3))
