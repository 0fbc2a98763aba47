"""Modules whose names come from tables, loaded when first used, and that look like modules all the
same.

Invariants
    1. `module.name` loads one name; dir() lists all and loads none.
    2. vars(module) and module.__dict__ have all names: asking loads them. What cannot be loaded here
       (an extra that is not installed) is left out. `held` is the dictionary as it is.

Threads: any.

    sys.modules[__name__].__class__ = TableModule       # of a module with __getattr__ and __dir__
"""

import types

_held = types.ModuleType.__dict__["__dict__"]


def held(module):
    """The names that a module holds already: its dictionary, of which nothing is loaded."""
    return _held.__get__(module)


class TableModule(types.ModuleType):
    """A module that finds its names by the `__getattr__` and lists them by the `__dir__` it holds."""

    @property
    def __dict__(self):
        found = _held.__get__(self)
        for name in dir(self):
            if name not in found:
                try:
                    getattr(self, name)
                except (AttributeError, ImportError):
                    pass
        return found

    def __dir__(self):
        found = _held.__get__(self)
        return found["__dir__"]() if "__dir__" in found else sorted(found)
