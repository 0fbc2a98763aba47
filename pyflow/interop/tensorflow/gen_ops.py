"""tensorflow.python.ops.gen_*_ops: each op as a function by its type in snake_case, with positional
arguments: inputs first, attributes after them, in the order of the op's definition.

    gen_math_ops.mat_mul(a, b, transpose_b=True)        # tf.raw_ops.MatMul(a=a, b=b, ...)
"""
import functools
import sys

from pyflow.framework import op as _op
from pyflow.framework.table_module import TableModule
from pyflow.framework.op_functions import OpFunction


@functools.cache
def _by_snake():
    return {_snake(name): name for name in reversed(_op.op_names())}


def _snake(name):
    """conv2d of Conv2D, mat_mul of MatMul, as TensorFlow's generator names its functions."""
    text = ""
    for at, letter in enumerate(name):
        before, after = name[at - 1:at], name[at + 1:at + 2]
        if letter.isupper() and at and before != "_" and (
                before.islower() or after.islower()):
            text += "_"
        text += letter.lower()
    return text.lstrip("_")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    op_type = _by_snake().get(name.lstrip("_"))
    if op_type is None:
        raise AttributeError(f"there is no op {name!r}; python -m pyflow op lists all")
    function = globals()[name] = OpFunction(_op.find_op(op_type), name, __name__, by_position=True)
    return function


def __dir__():
    return sorted(_by_snake())


sys.modules[__name__].__class__ = TableModule
