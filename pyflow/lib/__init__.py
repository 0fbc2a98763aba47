"""The TF 1.x library on top of the ops: what builds graphs out of them.

Importing this package loads no function and no op, but from then on tensors have their operators,
lists with tensors inside and IndexedSlices convert, and imported functions get their contexts and
bodies: `_hook_in` hands over what loads the rest.  A class of a module (variables) registers its
conversion itself, where it is defined.

Modules bring tables `PUBLIC = {"nn.dropout": function}`; _public.py says which module has which
name.  They import each other without circles at their top, so threads that need several at once
wait for each other in one order.

Threads: any.
"""

import importlib

from pyflow.framework import function_library as _function_library
from pyflow.framework import function_lower as _function_lower
from pyflow.lib import conversions as _conversions
from pyflow.lib import operators as _operators


def _make_contexts(*args):
    """imported_contexts.make_contexts, loaded when a graph with such contexts is imported."""
    importlib.import_module("pyflow.lib.control_flow.imported_contexts").make_contexts(*args)


def _body_of(*args):
    """function_import.body_of, loaded when a function of an imported library is first asked for."""
    return importlib.import_module("pyflow.framework.function_import").body_of(*args)


def _hook_in():
    _operators.install()
    _conversions.install()
    _function_lower.make_contexts = _make_contexts
    _function_library.body_of = _body_of


_hook_in()
