"""Arrays <-> TensorMessages: the form of tensors in control messages (the links have their own).

    content     numbers as in memory, little-endian, row by row
    strings     bytes of each element, where the type is a string

Invariants
1. What is read is checked: type, shape, and that as many bytes came as they say; nothing is made
   larger than what arrived.
2. Handles do not travel.

Threads: pure functions.
"""
import numpy as np

from pyflow.distributed.wire import messages
from pyflow.framework import dtypes, errors

MAX_RANK = 254
_STRING = dtypes.string.as_datatype_enum


def encode(value, type):
    """A TensorMessage.  value: an array, NumPy scalar, bytes, or the executor's Kept; type: its
    element type's number.  Raises InvalidArgumentError for handles."""
    if type in (dtypes.resource.as_datatype_enum, dtypes.variant.as_datatype_enum):
        raise errors.InvalidArgumentError(
            None, None, f"a tensor of type {dtypes.as_dtype(type).name} lives in its process and "
            "cannot be sent to another one")
    if hasattr(value, "on_host"):                   # a Kept
        if type != _STRING and value.on_host:
            return messages.TensorMessage(dtype=type, shape=value.shape,
                                          content=value.data().tobytes())
        value = value.array()
    if type == _STRING:
        array = np.asarray(value, dtype=object) if not isinstance(value, np.ndarray) else value
        items = [_bytes(item) for item in array.reshape(-1)]
        return messages.TensorMessage(dtype=type, shape=array.shape, strings=items)
    array = np.asarray(value)
    dtype = dtypes.as_dtype(type).as_numpy_dtype
    if array.dtype != dtype or not dtype_is_native(array):
        array = array.astype(dtype)
    return messages.TensorMessage(dtype=type, shape=array.shape,
                                  content=np.ascontiguousarray(array).tobytes())


def encode_array(value):
    """A TensorMessage of an array, NumPy scalar or bytes, of the type that it has."""
    if isinstance(value, bytes) or np.asarray(value).dtype == object:
        return encode(value, _STRING)
    return encode(value, dtypes.as_dtype(np.asarray(value).dtype).as_datatype_enum)


def decode_as(message, type):
    """As `decode`, where the type is known.  Raises InvalidArgumentError for another one."""
    if message.dtype != type:
        raise _wrong(f"element type {message.dtype} where {type} is expected")
    return decode(message)


def dtype_is_native(array):
    """The bytes are in the machine's order, which is little-endian wherever pyflow runs."""
    return array.dtype.isnative


def _bytes(item):
    return item if isinstance(item, bytes) else str(item).encode()


def decode(message):
    """The array of a TensorMessage (bytes for a scalar string), read-only.  Raises
    InvalidArgumentError for a message that does not say what it holds."""
    shape = tuple(message.shape)
    count = count_of(shape)
    if message.dtype == _STRING:
        if count != len(message.strings) or message.content:
            raise _wrong(f"{len(message.strings)} strings for shape {list(shape)}")
        if not shape:
            return message.strings[0]
        array = np.empty(count, object)
        array[:] = message.strings
        return array.reshape(shape)
    dtype = numpy_type(message.dtype)
    if len(message.content) != count * dtype.itemsize or message.strings:
        raise _wrong(f"{len(message.content)} bytes for shape {list(shape)} of {dtype.name}")
    array = np.frombuffer(message.content, dtype).reshape(shape)
    if dtype == np.bool_ and array.view(np.uint8).max(initial=0) > 1:
        raise _wrong("a truth value that is neither 0 nor 1")
    return array


def numpy_type(number):
    """The np.dtype of an element type's number, of those that travel as bytes.  Raises
    InvalidArgumentError."""
    try:
        found = dtypes.as_dtype(number)
        return np.dtype(found.as_numpy_dtype) if not found._is_ref_dtype else _none(number)
    except (TypeError, KeyError):
        return _none(number)


def _none(number):
    raise _wrong(f"element type {number}")


def count_of(shape):
    """How many elements a message's shape has.  Raises InvalidArgumentError."""
    if len(shape) > MAX_RANK or any(n < 0 for n in shape):
        raise _wrong(f"shape {list(shape)[:8]}")
    count = 1
    for n in shape:
        count *= n
    return count


def _wrong(text):
    return errors.InvalidArgumentError(None, None, f"a tensor's message is wrong: {text}")
