"""tf.raw_ops: every op as a function of keyword arguments, by its type and with the argument names
that TensorFlow's have.

    tf.raw_ops.MatMul(a=x, b=y, transpose_b=True)
    tf.raw_ops.Sum(input=x, axis=[0])           # the schema says reduction_indices

Invariant: a function is made when it is first asked for, and kept.
"""
import sys as _sys

from pyflow.framework import late_text as _late_text
from pyflow.framework import op as _op
from pyflow.framework import op_functions as _op_functions
from pyflow.framework.table_module import TableModule as _TableModule


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    found = _op.find_op(name)
    if found is None:
        raise _late_text.error(AttributeError, lambda: _no_op(name))
    function = globals()[name] = _op_functions.OpFunction(found, name, __name__)
    return function


def _no_op(name):
    import difflib
    near = difflib.get_close_matches(name, _op.op_names(), n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"there is no op {name!r}; {hint}python -m pyflow op lists all"


def __dir__():
    return _op.op_names()


_sys.modules[__name__].__class__ = _TableModule
