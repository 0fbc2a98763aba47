# cython: language_level=3, binding=False
"""pyflow._executor: what Python sees of the executor, from the modules of this folder.

They are one shared library: each is initialised from it under its own name, pyflow._executor.NAME, in the order of PARTS,
so the core exists once in the process.  Their public names are this module's.
"""
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec

PARTS = ("values", "steps", "tasks", "options", "host", "started", "explain", "plans", "records", "step_stats", "spool", "callbacks", "net", "streams")
ONLY_LINUX = {"net", "streams"}


def _initialise(name):
    """The module PyInit_NAME of this library makes."""
    full = f"{__name__}.{name}"
    loader = ExtensionFileLoader(full, __file__)
    module = module_from_spec(ModuleSpec(full, loader, origin=__file__))
    sys.modules[full] = module
    loader.exec_module(module)
    return module


def _public(module):
    """Its classes and functions, without what it imported."""
    for name, value in vars(module).items():
        owner = getattr(value, "__module__", None)
        if not name.startswith("_") and (owner is None or owner == module.__name__) and callable(value):
            yield name, value


for _part in PARTS:
    if _part in ONLY_LINUX and not sys.platform.startswith("linux"):
        continue
    _module = _initialise(_part)
    globals()[_part] = _module
    globals().update(_public(_module))
