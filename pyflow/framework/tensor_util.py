"""Between Python values, NumPy arrays, TensorProtos and the constants of a graph.

Invariants:
1. `make_array` follows TF 1.x: Python floats become float32, ints int32 where they fit, strings
   bytes; a Python value that does not fit the requested type is a TypeError, never silently cast.
2. `constant_value` never runs anything: it looks at Const nodes and a few ops over static shapes.

Pure functions; any thread.
"""

import numpy as np

from pyflow.framework import dtypes, foreign_arrays
from pyflow.framework.tensor import Tensor
from pyflow.framework.tensor_shape import Dimension, as_shape

# NumPy kinds of a Python value that each kind of DType accepts.
_ACCEPTED_KINDS = {"i": "biu", "u": "biu", "f": "biuf", "c": "biufc", "b": "b", "q": "biu"}


def make_array(values, dtype=None, shape=None, verify_shape=False):
    """(ndarray, DType) of a Python or NumPy value; the array is a fresh copy.

    Raises ValueError (None, ragged, too many elements) or TypeError (wrong type).
    """
    if dtype is not None:
        dtype = dtypes.as_dtype(dtype).base_dtype
    with np.errstate(over="ignore"):  # 1e300 as float32 is infinite, as in TF
        array = _plain_array(values, dtype)
    found = dtypes.as_dtype(array.dtype)
    if found is dtypes.string:
        array = _as_bytes(array, values)
    if dtype is not None and dtype is not found:
        raise TypeError(f"Incompatible types: {dtype.name} vs. {found.name}. Value is {values!r}")
    if shape is not None:
        given = isinstance(values, (np.ndarray, np.generic))
        array = _with_shape(array, shape, verify_shape, given)
    return array, found


def _plain_array(values, dtype):
    kind = type(values)
    if kind is float and (dtype is None or dtype is dtypes.float32):
        return np.array(values, dtype=np.float32)
    if kind is int and dtype is None and -2**31 <= values < 2**31:
        return np.array(values, dtype=np.int32)
    if isinstance(values, (np.ndarray, np.generic)):
        return _from_numpy(values, dtype)
    return _from_python(foreign_arrays.as_numpy(values), dtype)


def _from_numpy(values, dtype):
    if dtype is None:
        array = np.array(values)
        return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if dtype is dtypes.string:
        if values.size and values.dtype.kind not in "SUO":
            raise TypeError(f"Expected string, got an array of {values.dtype.name}")
        return np.array(values) if values.dtype.kind in "SUO" else np.array(values, dtype=object)
    if values.dtype.kind in "SUO" and values.dtype.names is None and values.size:
        raise TypeError(f"Expected {dtype.name}, got an array of {values.dtype.name}")
    return np.array(values).astype(dtype.as_numpy_dtype)


def _from_python(values, dtype):
    if values is None:
        raise ValueError("None values not supported.")
    if isinstance(values, Tensor):
        raise TypeError(f"Expected a Python or NumPy value, got the tensor {values!r}")
    try:
        # As objects, strings keep trailing zero bytes, which NumPy's own string types drop.
        natural = np.array(values, dtype=object if isinstance(_first_leaf(values),
                                                              (str, bytes)) else None)
    except ValueError as error:
        raise ValueError(f"Argument must be a dense tensor: {values!r} - {error}") from None
    except NotImplementedError as error:  # a symbolic tensor inside a list
        raise TypeError(f"List of Tensors when single Tensor expected: {error}") from None
    if natural.dtype.kind == "O":
        natural = _object_array(values, natural, dtype)
    if natural.dtype.kind == "U":
        # NumPy turns [1, "a"] into strings; TF does not.
        _check_elements(values, (str, bytes, np.str_, np.bytes_), "string")
    if dtype is None:
        return _default_type(natural)
    if natural.size and dtype is not dtypes.string \
            and natural.dtype.kind not in _ACCEPTED_KINDS.get(dtype._kind, ""):
        if dtypes.as_dtype(natural.dtype) is not dtype:
            raise TypeError(_expected(values, dtype, natural))
    if dtype is dtypes.string:
        if natural.size and natural.dtype.kind not in "SUO":
            raise TypeError(_expected(values, dtype, natural))
        return natural if natural.size else natural.astype(object)
    if dtype.is_quantized and _ends_in_tuples(values):
        return np.array(values, dtype=dtype.as_numpy_dtype)     # (21,) is one element
    if dtype.is_quantized:
        return natural.astype(dtype.as_numpy_dtype[0]).view(dtype.as_numpy_dtype)
    if dtype._kind in "iu" and natural.size and natural.dtype.kind != "b":
        _check_range(values, natural, dtype)
    return natural.astype(dtype.as_numpy_dtype)


def _first_leaf(values):
    while isinstance(values, (list, tuple)) and values:
        values = values[0]
    return values


def _ends_in_tuples(values):
    """Whether the innermost sequences are tuples of one: elements of NumPy's structured types."""
    while isinstance(values, list) and values:
        values = values[0]
    return isinstance(values, tuple) and len(values) == 1 and not isinstance(values[0],
                                                                             (list, tuple))


def _default_type(array):
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype == np.int64:
        small = array.astype(np.int32)
        return small if np.array_equal(small, array) else array
    return array


def _check_range(values, array, dtype):
    low, high = dtype.limits
    if array.min() < low or array.max() > high:
        raise ValueError(f"{values!r} does not fit {dtype.name}, whose values are {low} to {high}")


def _object_array(values, array, dtype):
    """An object array is fine if it holds bytes or strings, or objects NumPy can turn into
    numbers."""
    flat = array.ravel()
    none = [item is None for item in flat]
    if any(none):
        raise TypeError(f"Failed to convert {values!r} to a tensor: None values not supported, and "
                        f"element {none.index(True)} of {len(none)} is None.")
    if dtype is not None and (dtype.is_floating or dtype.is_complex) \
            and all(isinstance(item, (int, float)) for item in flat):
        return array.astype(np.float64)  # integers beyond 64 bits
    if any(isinstance(item, Dimension) for item in flat):
        sizes = [i.value if isinstance(i, Dimension) else i for i in flat]
        if all(isinstance(i, int) for i in sizes):
            return np.array(sizes, dtype=np.int64).reshape(array.shape)
    for item in flat:
        if isinstance(item, Tensor):
            raise TypeError("List of Tensors when single Tensor expected")
        if isinstance(item, int) and not isinstance(item, bool):
            raise ValueError(f"{item!r} does not fit 64 bits")
        if isinstance(item, (list, tuple)):
            raise ValueError(f"Argument must be a dense tensor: {values!r} - its rows differ in "
                             f"length")
        if not isinstance(item, (str, bytes)):
            raise TypeError(f"Failed to convert object of type {type(item).__name__} to a tensor: "
                            f"{values!r}. Consider casting elements to a supported type.")
    return array


def _check_elements(values, types, what):
    stack = [values]
    while stack:
        value = stack.pop()
        if isinstance(value, (list, tuple)):
            stack.extend(value)
        elif not isinstance(value, types) and not (isinstance(value, np.ndarray)):
            raise TypeError(f"Expected {what}, got {value!r} of type {type(value).__name__!r} "
                            f"instead.")


def _expected(values, dtype, natural):
    bad = values
    accepted = _ACCEPTED_KINDS.get(dtype._kind, "SUO")
    stack = [values]
    while stack:
        value = stack.pop()
        if isinstance(value, (list, tuple)):
            stack.extend(reversed(value))
        elif np.asarray(value).dtype.kind not in accepted:
            bad = value
            break
    return f"Expected {dtype.name}, got {bad!r} of type {type(bad).__name__!r} instead."


def _as_bytes(array, values):
    """An object array of bytes."""
    result = np.empty(array.shape, dtype=object)
    source, target = array.ravel(), result.ravel()
    for i, item in enumerate(source.tolist()):
        if isinstance(item, str):
            item = utf8(item, i, array.shape)
        elif not isinstance(item, bytes):
            raise TypeError(f"Expected string, got {item!r} of type {type(item).__name__!r} in "
                            f"{values!r}")
        target[i] = item
    return result


def utf8(text, flat, shape, where=""):
    """`text` as bytes; what has none, a lone surrogate, is named with its place in an array."""
    try:
        return text.encode()
    except UnicodeEncodeError as e:
        place = f" at {[int(i) for i in np.unravel_index(flat, shape)]}" if shape else ""
        raise UnicodeEncodeError(
            e.encoding, e.object, e.start, e.end,
            f"{e.reason}; the string{place}{where} has no UTF-8, give bytes") from None


def _with_shape(array, shape, verify_shape, given):
    """given: as an array, of which nothing is left out; a list fits a shape without elements."""
    sizes = tuple(int(d) for d in as_shape(shape).as_list())
    if verify_shape and array.shape != sizes:
        raise TypeError(f"Expected Tensor's shape: {sizes}, got {array.shape}.")
    total = 1
    for d in sizes:
        total *= d
    if array.size > total and (total or given):
        raise ValueError(f"Too many elements provided. Needed at most {total}, but received "
                         f"{array.size}")
    if array.size == total:
        return array.reshape(sizes)
    if total == 0:
        return np.empty(sizes, dtype=array.dtype)
    if array.size == 0:
        return np.full(sizes, b"", object) if array.dtype == object else np.zeros(sizes, array.dtype)
    filled = np.empty(total, dtype=array.dtype)
    flat = array.ravel()
    filled[:array.size] = flat
    filled[array.size:] = flat[-1]
    return filled.reshape(sizes)


def make_tensor_proto(values, dtype=None, shape=None, verify_shape=False, allow_broadcast=False):
    """A TensorProto of a Python or NumPy value (arguments and errors as `tf.constant`).

    allow_broadcast: the value must be one element or fill `shape`; TypeError otherwise."""
    from pyflow.framework import protos, wire
    if hasattr(values, "tensor_shape") and hasattr(values, "tensor_content"):
        return values
    array, _ = make_array(values, dtype, None, False)
    if shape is None:
        return protos.TensorProto.FromString(wire.encode_whole(array, array.shape))
    whole, _ = make_array(values, dtype, shape, verify_shape)
    if allow_broadcast and array.shape not in ((), (1,), whole.shape):
        raise TypeError(f"Expected Tensor's shape: {whole.shape}, got {array.shape}.")
    if not whole.size and (array.dtype != object or isinstance(values, np.ndarray)):
        array = whole               # of Python's strings TensorFlow writes also what has no place
    return protos.TensorProto.FromString(wire.encode_whole(array, whole.shape))


def MakeNdarray(tensor):  # noqa: N802 - TF's name
    """The ndarray of a TensorProto. TypeError or ValueError for a malformed or oversized one."""
    from pyflow.framework.tensor_proto import decode_tensor
    return decode_tensor(tensor)


from pyflow.framework.static_value import (  # noqa: E402,F401 - one door for tensor values
    constant_value, constant_value_as_shape)
