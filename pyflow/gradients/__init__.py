"""tf.gradients and its kin.

Importing this package loads no module; calls of functions know from then on where their gradients
come from.
"""

import importlib

from pyflow.framework import function_library as _function_library


def _of_call(*args):
    """call_gradient.of_call, loaded when a gradient of a call is asked for."""
    return importlib.import_module("pyflow.gradients.call_gradient").of_call(*args)


def _gradient_body(*args):
    """call_gradient.gradient_body, loaded when a SymbolicGradient is run."""
    return importlib.import_module("pyflow.gradients.call_gradient").gradient_body(*args)


_function_library.call_gradient = _of_call
_function_library.gradient_body = _gradient_body
