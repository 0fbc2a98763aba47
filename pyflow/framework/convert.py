"""Turning Python values into tensors: `convert_to_tensor` and its registry.

Invariants:
1. Functions are tried by priority (low first), then in order of registration; one that answers
   NotImplemented passes on to the next.
2. A Tensor converts to itself. Anything else that nobody registered becomes a Const.

The registry is filled while modules are set up and read from any thread afterwards.
"""

from pyflow.framework import dtypes, user_traceback
from pyflow.framework.default_graph import get_default_graph, in_function
from pyflow.framework.operation import Operation
from pyflow.framework.tensor import Tensor

_registry = []   # (priority, order, types, function), sorted
_by_type = {}    # type -> list of functions
make_constant = None    # constant(value, dtype, name=...): constant.py puts it here


def register_tensor_conversion_function(base_type, conversion_func, priority=100):
    """Registers `conversion_func(value, dtype=None, name=None, as_ref=False)` for a type or tuple.

    It returns a Tensor of `dtype` if that is given, or NotImplemented.
    """
    types = base_type if isinstance(base_type, tuple) else (base_type,)
    if not types or not all(isinstance(t, type) for t in types):
        raise TypeError(f"base_type must be a type or a tuple of types, got {base_type!r}")
    if not callable(conversion_func):
        raise TypeError("conversion_func must be callable.")
    _registry.append((priority, len(_registry), types, conversion_func))
    _registry.sort(key=lambda entry: entry[:2])
    _by_type.clear()


def _functions_for(value_type):
    found = _by_type.get(value_type)
    if found is None:
        found = [function for _, _, types, function in _registry if issubclass(value_type, types)]
        found.append(_as_constant)
        _by_type[value_type] = found
    return found


def _as_constant(value, dtype=None, name=None, as_ref=False):
    return make_constant(value, dtype, name=name or "Const")


def convert_to_tensor(value, dtype=None, name=None, preferred_dtype=None, dtype_hint=None):
    """`value` as a Tensor: tensors pass through, variables are read, Python and NumPy values become
    constants.

    dtype: required type (ValueError or TypeError if the value does not fit). preferred_dtype: used
    if the value fits it, otherwise ignored; dtype_hint is its other name.
    Any shape; ValueError for a ragged list, TypeError for a value that `dtype` cannot hold.

        >>> tf.convert_to_tensor([1, 2], preferred_dtype=tf.float32)
        <tf.Tensor 'Const:0' shape=(2,) dtype=float32>
    """
    try:
        if dtype is not None:
            dtype = dtypes.as_dtype(dtype)
        return to_tensor(value, dtype, name, False, preferred_dtype or dtype_hint)
    except Exception as error:
        user_traceback.mark(error)
        raise


def to_tensor(value, dtype=None, name=None, as_ref=False, preferred_dtype=None):
    """As `convert_to_tensor`; `as_ref` asks variables for their reference."""
    if isinstance(value, Tensor):
        if dtype is not None and not dtype.is_compatible_with(value.dtype):
            raise ValueError(f"Tensor conversion requested dtype {dtype.name} for Tensor with "
                             f"dtype {value.dtype.name}: {value!r}. Use tf.cast.")
        return value
    if preferred_dtype is not None and dtype is None:
        try:
            return to_tensor(value, dtypes.as_dtype(preferred_dtype), name, as_ref)
        except (TypeError, ValueError):
            pass  # a preference only
    for function in _functions_for(type(value)):
        tensor = function(value, dtype=dtype, name=name, as_ref=as_ref)
        if tensor is NotImplemented:
            continue
        _check_converted(tensor, value, dtype, function)
        return tensor
    raise TypeError(f"Cannot convert {value!r} with type {type(value)} to Tensor: "
                    f"no conversion function registered.")


def _check_converted(tensor, value, dtype, function):
    if not isinstance(tensor, Tensor):
        raise RuntimeError(f"Conversion function {function!r} for type {type(value)} returned "
                           f"non-Tensor: {tensor!r}")
    if dtype is not None and not dtype.is_compatible_with(tensor.dtype):
        raise RuntimeError(f"Conversion function {function!r} for type {type(value)} returned "
                           f"incompatible dtype: requested = {dtype.name}, actual = "
                           f"{tensor.dtype.name}")


def convert_n_to_tensor(values, dtype=None, name=None, preferred_dtype=None):
    """`convert_to_tensor` of each value; names get `_0`, `_1`, ..."""
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"values must be a sequence, got {values!r}")
    return [convert_to_tensor(value, dtype, None if name is None else f"{name}_{i}",
                              preferred_dtype)
            for i, value in enumerate(values)]


def is_dense_tensor_like(value):
    """True for tensors and for objects (variables) that stand for one."""
    return isinstance(value, Tensor) or hasattr(value, "_as_graph_element")


def graph_of(values, graph=None):
    """The one graph of the tensors, operations and variables among `values` (nested lists allowed).

    `graph` if given, the default graph if there are none. ValueError if they belong to two graphs.
    While a function is built its graph, which takes in tensors of others.
    """
    if graph is None and in_function():
        return get_default_graph()
    first = None
    for value in _flatten(values):
        owner = value.op.graph if type(value) is Tensor else _owner(value)
        if owner is None:
            continue
        if graph is None:
            graph, first = owner, value
        elif owner is not graph:
            said = "the given graph" if first is None else f"{first.name!r}"
            raise ValueError(f"{getattr(value, 'name', value)!r} must be from the same graph as "
                             f"{said}: {owner.describe()} against {graph.describe()}")
    return graph if graph is not None else get_default_graph()


def _flatten(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flatten(value)
        else:
            yield value


def _owner(value):
    if isinstance(value, (Tensor, Operation)) or hasattr(value, "_as_graph_element") \
            or type(value).__name__ in ("IndexedSlices", "SparseTensor"):
        return value.graph
    return None
