"""Feeds: checks a value against the tensor it replaces, converts it at most once.

Invariants
    1. A contiguous, aligned ndarray of the right type passes through uncopied; the executor never
       writes to it.
    2. What reaches the executor is an ndarray of exactly the tensor's type; strings are object
       arrays of bytes and str.
       What was kept in the session goes in as it is, a Kept.
    3. A conversion that would lose values (1.5 -> int32, 300 -> uint8, complex -> float) is a
       TypeError.

Threads: a `Feed` is shared by concurrent runs; `shape`, the last shape accepted, is a hint that any
thread may replace.
"""
import numpy as np

from pyflow.framework import dtypes, foreign_arrays
from pyflow.framework import graph as graph_lib
from pyflow.framework import late_text, tensor_util
from pyflow.framework.user_traceback import told_to_users
from pyflow.session import fetches as fetches_lib
from pyflow.session import handles, runtime


class Feed:
    """How values for one fed tensor are checked.  `dtype` and `shape` make the fast test of
    `Step.run`."""

    __slots__ = ("tensor", "dtype", "shape", "_state", "_dims", "_is_string", "_is_handle")

    def __init__(self, tensor, state):
        """state: the session's, where handles are looked up."""
        self.tensor, self._state = tensor, state
        base = tensor.dtype.base_dtype
        self._is_string = base == dtypes.string
        self._is_handle = base in (dtypes.resource, dtypes.variant)
        self.dtype = np.dtype(object if self._is_string or self._is_handle else base.as_numpy_dtype)
        self._dims = tensor.get_shape().as_tuple()
        known = self._dims is not None and None not in self._dims
        self.shape = self._dims if known and not self._is_string else None

    @told_to_users
    def convert(self, value):
        """`value` as an ndarray of the tensor's type and a shape it accepts; a TensorHandle as a
        Kept.

        Raises TypeError for another type, ValueError for another shape.
        """
        if isinstance(value, (graph_lib.Tensor, graph_lib.Operation)):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include"
                " Python scalars, strings, lists, numpy ndarrays, or TensorHandles. For reference,"
                f" the tensor object was {value} which was passed to the feed with key"
                f" {self.tensor}. Fetch its value first, or build the graph with it."
            )
        if isinstance(value, handles.TensorHandle):
            return handles.fed(value, self.tensor, self._state)
        if value is None:
            raise TypeError(f"The value fed for {self._name()} is None. Leave the tensor out of "
                            "feed_dict, or feed an array")
        if self._is_handle:
            return value                      # what a step returned for it; the executor checks
        array = self._strings(value) if self._is_string else self._numbers(value)
        if not self._fits(array.shape):
            raise ValueError(
                f"Cannot feed value of shape {array.shape} for Tensor {self.tensor.name!r}, which"
                f" has shape '{self.tensor.get_shape()}' and was made at"
                f" {self.tensor.op.user_frame}{self._advice(array.shape)}"
            )
        if not self._is_string:
            self.shape = array.shape
        return array

    def _numbers(self, value):
        if isinstance(value, np.ndarray) and value.dtype == self.dtype:
            return value
        try:
            array = np.asarray(foreign_arrays.as_numpy(value))
            if array.dtype == object:
                return np.asarray(value, dtype=self.dtype)  # ragged lists: NumPy's error says where
            return self._cast(array, value)
        except (ValueError, TypeError, OverflowError, RuntimeError) as e:
            if isinstance(e, TypeError) and e.args and str(e.args[0]).startswith("Type of feed"):
                raise
            kind = ValueError if isinstance(e, ValueError) else TypeError
            raise kind(f"The value fed for {self._name()} cannot become an array of it: {e}. Got "
                       f"{_shown(value)}") from None

    def _cast(self, array, value):
        wanted = self.dtype
        if array.dtype == wanted:
            return array
        if _always_fits(array.dtype, wanted):
            with np.errstate(over="ignore"):            # 1e300 as float32 is infinite
                return array.astype(wanted, copy=False)
        with np.errstate(all="ignore"):
            cast = array.astype(wanted) if array.dtype.kind != "c" or wanted.kind == "c" else None
        if cast is None or array.dtype.kind in "USM" or not _equal(cast, array):
            raise TypeError(
                f"Type of feed value {_shown(value)} with type {_type_name(value)} is not"
                f" compatible with Tensor type {self.tensor.dtype.base_dtype.as_numpy_dtype} of"
                f" {self._name()}: values would change. Try explicitly setting the type of the feed"
                f" tensor to {_wider(array, wanted)}, or convert the value first."
            )
        return cast

    def _strings(self, value):
        array = np.asarray(value, dtype=None if isinstance(value, np.ndarray) else object)
        if array.dtype.kind == "S" and isinstance(value, np.ndarray):
            return array.astype(object)
        if array.dtype.kind not in "USO" and array.size:
            raise TypeError(
                f"The value fed for {self._name()} must be strings, got {_shown(value)} of type "
                f"{_type_name(value)}"
            )
        array = np.asarray(value, dtype=object)
        at = runtime.executor().first_not_text(array)
        if at >= 0:
            text = array.reshape(-1)[at]
            if isinstance(text, str):
                tensor_util.utf8(text, at, array.shape, f" of the value fed for {self._name()}")
            raise TypeError(
                f"The value fed for {self._name()} must be strings, got {text!r} at"
                f" {[int(i) for i in np.unravel_index(at, array.shape)]}"
            )
        return array

    def kept(self, value):
        """`value` converted, as a Kept of its own; a Kept and a resource's handle as they are."""
        executor = runtime.executor()
        if isinstance(value, executor.Kept):
            return value                      # the plan that takes it checks type and shape
        value = self.convert(value)
        if self._is_handle or isinstance(value, executor.Kept):
            return value
        return executor.Kept.of(value, self.tensor.dtype.base_dtype.as_datatype_enum)

    def fetched(self, array):
        """What fetching the fed tensor gives: strings as bytes."""
        if isinstance(array, runtime.executor().Kept):
            return array.array()
        return runtime.executor().bytes_of_text(array) if self._is_string else array

    def _fits(self, shape):
        dims = self._dims
        if dims is None:
            return True
        return len(dims) == len(shape) and all(d is None or d == s for d, s in zip(dims, shape))

    def _name(self):
        t = self.tensor
        return (
            f"Tensor {t.name!r} ({t.dtype.base_dtype.name}, shape {t.get_shape()}, made at"
            f" {t.op.user_frame})"
        )

    def _advice(self, shape):
        dims, got = self._dims, tuple(shape)
        if len(got) == len(dims) + 1 and self._fits(got[1:]):
            return ". To feed a batch, give the placeholder a first dimension of None."
        if len(got) + 1 == len(dims) and self._fits((1, *got)):
            return f". Feed a batch of one: value[None], shape {(1, *got)}."
        if None not in dims and int(np.prod(dims)) == int(np.prod(got)):
            return f". It has as many elements: reshape the value to {tuple(dims)}."
        return ". Reshape the value, or declare the placeholder with None for dimensions that vary."


def _always_fits(have, want):
    """Casts that TF users rely on: float64 to float32, complex128 to complex64, int64 to float,
    bool to number, and all safe ones."""
    if np.can_cast(have, want, "safe"):
        return True
    order = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
    return have.kind == want.kind == "c" or have.kind in "buif" and (
        want.kind in "fc"
        or (want.kind == "V" and order[have.kind] <= 2)
        or have.kind == "b"
        and want.kind in "ui"
    )


def _equal(cast, array):
    try:
        return bool(np.array_equal(cast, array)) and not (
            array.dtype.kind == "f" and cast.dtype.kind in "iu" and not np.isfinite(array).all()
        )
    except TypeError:
        return False


def _wider(array, wanted):
    """A type of tensors that would take the array."""
    if array.dtype.kind == "f" and wanted.kind in "iu":
        return "a floating one (e.g. tf.float32)"
    if array.dtype.kind == "c":
        return "a complex one (e.g. tf.complex64)"
    return "a larger type (e.g. int64)"


def _shown(value):
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _type_name(value):
    return f"ndarray of {value.dtype}" if isinstance(value, np.ndarray) else str(type(value))


# ---------------------------------------------------------------- from feed_dict to tensors

@told_to_users
def flatten(graph, feed_dict):
    """[(Tensor, value)] of a feed_dict: names looked up, composite keys taken apart.

    Raises TypeError for keys that are no tensors, ValueError for tensors that may not be fed.
    """
    if not hasattr(feed_dict, "items"):
        raise TypeError(
            f"feed_dict must be a dict from tensors to values, got {type(feed_dict).__name__}"
        )
    pairs = []
    for key, value in feed_dict.items():
        for tensor_like, part in _parts(key, value):
            pairs.append((feedable(graph, tensor_like), part))
    return pairs


def _parts(key, value):
    if isinstance(key, (tuple, list)) and not hasattr(key, "_fields") or isinstance(key, tuple):
        values = list(value) if isinstance(value, (list, tuple)) else None
        if values is None or len(values) != len(key):
            raise ValueError(
                f"feed_dict key {key!r} has {len(key)} parts, its value {_shown(value)} does not"
            )
        return [p for k, v in zip(key, values) for p in _parts(k, v)]
    if isinstance(key, graph_lib.SparseTensor):
        return list(zip((key.indices, key.values, key.dense_shape), value))
    if isinstance(key, graph_lib.IndexedSlices):
        parts = (key.values, key.indices) + (
            (key.dense_shape,) if key.dense_shape is not None else ()
        )
        return list(zip(parts, value))
    conversion = fetches_lib.conversion_for(key)
    if conversion is not None and conversion[2] is not None:
        return list(conversion[2](key, value))
    return [(key, value)]


def feedable(graph, key):
    """The Tensor that `key` names; TypeError if there is none, ValueError if it may not be fed."""
    try:
        tensor = graph.as_graph_element(key, allow_operation=False)
    except (TypeError, ValueError, KeyError) as e:
        problem = e                             # `e` is gone when its text is read
        raise late_text.error(TypeError, lambda: (
            "Cannot interpret feed_dict key as Tensor: "
            f"{problem.args[0] if problem.args else problem}")) from None
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor.name} may not be fed.")
    return tensor


def partial_feeds(graph, feeds):
    """The Tensors behind the `feeds` of partial_run_setup."""
    tensors = []
    for key in feeds:
        conversion = fetches_lib.conversion_for(key)
        if conversion is not None and conversion[3] is not None:
            tensors.extend(feedable(graph, t) for t in conversion[3](key))
        elif isinstance(key, graph_lib.SparseTensor):
            tensors.extend(feedable(graph, t) for t in (key.indices, key.values, key.dense_shape))
        else:
            tensors.append(feedable(graph, key))
    return tensors
