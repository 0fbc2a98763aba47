"""tf.raw_ops: every op by its type, with the argument names of its schema: tf.raw_ops.MatMul(a=x,
b=y)."""
import difflib

from pyflow.framework import op as _op


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    found = _op.find_op(name)
    if found is None:
        near = difflib.get_close_matches(name, _op.op_names(), n=3)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise AttributeError(f"there is no op {name!r}; {hint}python -m pyflow op lists all")
    return found


def __dir__():
    return _op.op_names()
