"""tf.raw_ops: every op by its type, with the argument names of its schema: tf.raw_ops.MatMul(a=x,
b=y)."""
from pyflow.framework import late_text as _late_text
from pyflow.framework import op as _op


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    found = _op.find_op(name)
    if found is None:
        raise _late_text.error(AttributeError, lambda: _no_op(name))
    return found


def _no_op(name):
    import difflib
    near = difflib.get_close_matches(name, _op.op_names(), n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return f"there is no op {name!r}; {hint}python -m pyflow op lists all"


def __dir__():
    return _op.op_names()
