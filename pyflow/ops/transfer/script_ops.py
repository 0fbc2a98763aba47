"""Python functions as operations: the blocks (tf.py_func: lib/control_flow/script_functions.py).

Invariant: a node holds the token of a function, not the function.  No gradient, on purpose: use
tf.custom_gradient or gradient_override_map.

Thread of the call: see _executor (the Python lane).
"""
from pyflow.framework.op import UNREGISTERED, op
from pyflow.framework.tensor_shape import unknown_shape

_ATTRS = "token: string, Tin: list(type) >= 0, Tout: list(type) >= 0"


def _unknown(op):
    return [unknown_shape() for _ in op.outputs]


@op("PyFunc", inputs="input: Tin", outputs="output: Tout", attrs=_ATTRS, stateful=True)
class PyFunc:
    """Outputs of the Python function registered as `token`. TF: PyFunc."""
    shape = _unknown
    gradient = None
    reference = None
    samples = None


@op("PyFuncStateless", inputs="input: Tin", outputs="output: Tout", attrs=_ATTRS)
class PyFuncStateless:
    """PyFunc of a function that depends on its arguments only. TF: PyFuncStateless."""
    shape = _unknown
    gradient = None
    reference = None
    samples = None


@op("EagerPyFunc", inputs="input: Tin", outputs="output: Tout", stateful=True,
    attrs="token: string, is_async: bool = false, Tin: list(type) >= 0, Tout: list(type) >= 0")
class EagerPyFunc:
    """PyFunc, under the name newer graphs use; TF's gradient, by an eager tape, is not offered.
    TF: EagerPyFunc."""
    shape = _unknown
    gradient = UNREGISTERED
    reference = None
    samples = None
