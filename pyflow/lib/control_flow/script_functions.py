"""tf.py_func and tf.numpy_function: Python functions as operations.

Invariants
  1. A node holds only a token; the library of its graph holds the function (framework/held.py).
  2. The function gets and returns NumPy arrays, on a thread that holds the GIL; it may call
     session.run.
  3. What it returns must have the declared dtypes; an exception it raises ends the step.

Who calls it: users.

Example:  `y = tf.py_func(np.sinh, [x], tf.float32)`
"""
import itertools
import weakref
from collections import abc

import numpy as np

from pyflow.framework import dtypes, graph as ops, held
from pyflow.ops.transfer.script_ops import PyFunc, PyFuncStateless

_tokens = itertools.count()
_PYTHON_VALUES = (int, float, bool, complex, list, tuple)       # take the declared dtype


class _Function:
    """What the executor calls: checks what the user's function returns."""

    def __init__(self, function, token, types, single):
        self._function = function
        self._token = token
        self._types = types
        self._single = single

    def __call__(self, *arrays):
        returned = self._function(*arrays)
        if self._single and not isinstance(returned, (list, tuple)):
            returned = [returned]
        if returned is None:
            returned = []
        if not isinstance(returned, (list, tuple)):
            returned = [returned]
        if len(returned) != len(self._types):
            raise ValueError(f"{self._token} ({self._name()}) returns {len(returned)} values, but "
                             f"expects to see {len(self._types)} values.")
        return [self._array(value, dtype) for value, dtype in zip(returned, self._types)]

    def _name(self):
        return getattr(self._function, "__name__", repr(self._function))

    def _array(self, value, dtype):
        if dtype == dtypes.string:
            return np.asarray(value, dtype=object)
        wanted = dtype.as_numpy_dtype
        array = np.asarray(value)
        if array.dtype != wanted:
            if array.dtype == object or type(value) not in _PYTHON_VALUES:
                raise TypeError(
                    f"{self._token} ({self._name()}) returned {array.dtype}, but the py_func "
                    f"declares {dtype.name}: return an array of that dtype, or change Tout")
            array = np.asarray(value, dtype=wanted)
        return np.asarray(array, order="C")


def py_func(func, inp, Tout, stateful=True, name=None):
    """The results of Python function `func` called on the arrays of the tensors `inp`.

    `Tout` is a dtype or a list of them: one tensor or a list comes back, of unknown shape; for an
    empty list the Operation, with stateful=False an empty list. With stateful=False the call may be
    skipped or shared. Not differentiable, and not saved with the graph; `func` lives as long as
    graphs that call it.
    Raises TypeError if `func` is not callable. TF: tf.py_func.
    inp: tensors of any shape and dtype; results: dtypes Tout, shapes unknown. What func raises
    ends the step; InvalidArgumentError for results of other dtypes."""
    if not callable(func):
        raise TypeError(f"py_func: func must be callable, got {func!r}")
    single = not isinstance(Tout, (list, tuple))
    types = [dtypes.as_dtype(t) for t in ([Tout] if single else Tout)]
    token = f"pyfunc_{next(_tokens)}"
    function = _Function(func, token, types, single)
    _name(token, function)
    if isinstance(inp, ops.Tensor) or not isinstance(inp, abc.Iterable):
        inp = [inp]
    inp = list(inp)
    block = PyFunc if stateful else PyFuncStateless
    with ops.name_scope(name, block.name, inp) as scope:
        graph = ops.get_default_graph()
        result = block(inp, token=token, Tout=types, name=scope)
    if not types:
        return graph.get_operation_by_name(scope[:-1]) if stateful else []
    return result[0] if single else list(result)


def numpy_function(func, inp, Tout, name=None):
    """py_func under its later name. TF: tf.numpy_function.
    Shapes, dtypes and errors (InvalidArgumentError) as there."""
    return py_func(func, inp, Tout, stateful=True, name=name)


def _name(token, function):
    from pyflow import _executor
    reference = weakref.ref(function)
    held.table[token] = function
    _executor.register_py_func(token, lambda *arrays: reference()(*arrays))
    weakref.finalize(function, _executor.forget_py_func, token).atexit = False


PUBLIC = {"py_func": py_func, "numpy_function": numpy_function}
