"""The ops pyflow ships, in folders by family, named like the kernels' folders.

Importing this package loads no op.  Who looks an op type up (`framework.op.find_op`) or imports a
module has that module loaded, and those it imports; `registered_ops` loads all.

Invariants:
1. Every OpDef found in a listed module is registered under its name, once; two ops of one name are
   an error. Nothing else registers ops, and no listed module may be missing.
2. op_types.py says which module has which op; `make tables` writes it from what lies in the
   folders.
3. Modules import each other without circles at their top, so threads that need several at once
   wait for each other in one order. No module looks up ops while it is loaded.

Threads: any.

    from pyflow.ops.gemm import matmul_ops
"""

import importlib

from pyflow.framework import op as _op
from pyflow.ops import op_types as _op_types

MODULES = tuple(_op_types.OP_TYPES)     # "gemm.matmul_ops", ...: the modules of OpDefs
_registered = set()


def load(name):
    """The module pyflow.ops.`name`, its ops registered."""
    module = importlib.import_module(f"pyflow.ops.{name}")
    if name not in _registered:
        for op_def in ops_of(module):
            _op.register(op_def)
        _registered.add(name)
    return module


def ops_of(module):
    """The OpDefs that a module defines."""
    return [value for value in vars(module).values()
            if isinstance(value, _op.OpDef) and value.module == module.__name__]


def _load_for_ops(module):
    names = MODULES if module is None else [module.removeprefix("pyflow.ops.")]
    for name in names:
        load(name)


_op.declare({op_type: f"pyflow.ops.{module}" for module, op_types in _op_types.OP_TYPES.items()
             for op_type in op_types.split()}, _load_for_ops)
