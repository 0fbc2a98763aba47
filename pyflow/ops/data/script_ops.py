"""py_func: Python functions as operations.

Invariants
  1. A graph keeps the functions its nodes call alive; the node holds only a token.
  2. The function gets and returns NumPy arrays, on a thread that holds the GIL; it may call
     session.run.
  3. What it returns must have the declared dtypes; an exception it raises ends the step.

Who calls it: users.  Thread of the call: see _executor (the Python lane).  No gradient, on
purpose: use tf.custom_gradient or gradient_override_map.

Example:  `y = tf.py_func(np.sinh, [x], tf.float32)`
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
