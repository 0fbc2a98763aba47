"""Gradient functions by op type: what `@op` blocks give, and what programs register themselves.

Invariants:
1. `_gradient_op_type` on a node (from `gradient_override_map`) beats its type.
2. A program's `RegisterGradient` for a type that has none or declined one adds it; a second one
   under the same name is a KeyError.
3. What RegisterGradient is given lives as long as the process; a gradient that belongs to a graph
   (`give`) as long as graphs with nodes that name it.
4. None means "not differentiable, said on purpose"; a missing entry, and a block's UNREGISTERED
   (TF has none either), is a LookupError that says what would give one.

Filled while programs are set up, read from any thread.
"""

import sys

from pyflow.framework import held
from pyflow.framework.op import find_op

_functions = {}


class RegisterGradient:
    """Decorator: registers `function(op, *grads)` as the gradient of an op type, or under a name
    for `gradient_override_map` (TF 1.x `tf.RegisterGradient`)."""

    def __init__(self, op_type):
        if not isinstance(op_type, str):
            raise TypeError(f"op_type must be a string, got {op_type!r}")
        self._op_type = op_type

    def __call__(self, function):
        _register(self._op_type, function)
        return function


def NotDifferentiable(op_type):  # noqa: N802 - TF's name
    """Says that ops of this type have no gradient."""
    if not isinstance(op_type, str):
        raise TypeError(f"op_type must be a string, got {op_type!r}")
    _register(op_type, None)


NoGradient = NotDifferentiable


def _register(op_type, function):
    if op_type in _functions or getattr(find_op(op_type), "gradient", None):
        raise KeyError(f"Registering two gradients with name {op_type!r}. To use another gradient "
                       f"in one place, register it under a new name and use gradient_override_map.")
    _functions[op_type] = function


def give(name, function):
    """Makes `function` the gradient of nodes whose `_gradient_op_type` is `name`; they hold it."""
    held.table[name] = function


def registered(op_type):
    """The function a program registered for a type or name, or None."""
    return _functions.get(op_type) or held.table.get(op_type)


def gradient_of_type(op_type):
    """The gradient function of a name or op type, None if declined; LookupError if nobody gave
    one."""
    if op_type in _functions:
        return _functions[op_type]
    of_graph = held.table.get(op_type)
    if of_graph is not None:
        return of_graph
    op_def = find_op(op_type)
    if op_def is not None and (op_def.gradient or op_def.gradient is None):
        return op_def.gradient
    raise LookupError(f"gradient registry has no entry for: {op_type}. {_remedy(op_type, op_def)}")


def _remedy(op_type, op_def):
    """What the program can do about a missing gradient."""
    package = getattr(op_def, "package", None)
    if package and package not in sys.modules:
        return (f"The op is a plugin's, whose Python package may give it one: `import {package}` "
                "before tf.gradients or minimize.")
    return (f"Give one with @tf.RegisterGradient({op_type!r}), say that there is none with "
            f"tf.NotDifferentiable({op_type!r}), or cut the path with tf.stop_gradient.")


def get_gradient_function(op):
    """The gradient function for a node, or None if it is not differentiable."""
    if not op._inputs:
        return None
    if getattr(op.op_def, "is_function", False) and op.type not in _functions \
            and "_gradient_op_type" not in op.attrs:
        return op.op_def.gradient
    return gradient_of_type(op.attrs.get("_gradient_op_type") or op.type)
