"""Makes the modules of TensorFlow's paths when they are imported, and finds names in them.

    finder = Finder("tensorflow")           # install() puts it first of sys.meta_path
    sys.meta_path.insert(0, finder)
    from tensorflow.python.ops import array_ops     # made by finder.find_spec

Invariants
    1. `tensorflow` and `tensorflow.nn` are modules of their own, not pyflow's: what a program sets
       on them does not reach pyflow, and the names of TensorFlow 0.x are only here.
    2. Values are pyflow's own; a module of pyflow is given as the module of this root at that path.
    3. A name is looked up when it is first asked for, and kept (not the old names, which are told of).
    4. What is missing is an ImportError or AttributeError that says what and, where that is known,
       what to use.

Threads: any; the import system's locks guard the making of modules.
"""
import importlib
import importlib.abc
import importlib.machinery
import types

import pyflow as tf
from pyflow import _names
from pyflow.framework import late_text
from pyflow.framework.table_module import TableModule, held
from pyflow.interop.tensorflow import exported, paths, renamed

_MISSING = object()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finder and loader of the modules below one root: "tensorflow", or "pyflow", which has none of
    TensorFlow 0.x's names, and asks only for what is below pyflow.python and pyflow.core."""

    def __init__(self, root):
        self.root = root
        self.old_names = root != "pyflow"

    def find_spec(self, full_name, path=None, target=None):
        root, _, below = full_name.partition(".")
        if root != self.root:
            return None
        below = _of_v1(below)
        homes = homes_of(below)
        if homes is None:
            outer, _, name = full_name.rpartition(".")
            # By the outer name: of a missing `outer.name` Python hides the text.
            raise late_text.error(ModuleNotFoundError, lambda: (
                f"pyflow has no module or name {name!r} in {outer!r}{_why(below)}"), name=outer)
        spec = importlib.machinery.ModuleSpec(full_name, self, is_package=True)
        spec.loader_state = below, homes
        return spec

    def create_module(self, spec):
        return _Module(spec.name, self, *spec.loader_state)

    def exec_module(self, module):
        if not module._path:
            module.__version__ = tf.__version__
            module.__git_version__ = tf.GIT_VERSION
            module.__compiler_version__ = tf.COMPILER_VERSION


_VERSIONS = {"__version__": "VERSION", "__git_version__": "GIT_VERSION",
             "__compiler_version__": "COMPILER_VERSION", "__cxx11_abi_flag__": "CXX11_ABI_FLAG",
             "__monolithic_build__": "MONOLITHIC_BUILD"}


class _Module(TableModule):
    """A module at a path of TensorFlow; names come from its homes."""

    def __init__(self, full_name, finder, path, homes):
        super().__init__(full_name, f"{full_name}, as pyflow gives it.")
        self._finder, self._path, self._homes = finder, path, homes

    def __getattr__(self, name):
        if name == "__all__":
            old = renamed.names_in(self._path) if self._finder.old_names else ()
            return [known for known in dir(self) if not known.startswith("_") and known not in old]
        path = f"{self._path}.{name}".lstrip(".")
        if self._finder.old_names and path in renamed.NAMES:
            return renamed.value(path)
        value = _MISSING
        if self._path == "python.framework.versions" and name in _VERSIONS:
            value = getattr(tf, _VERSIONS[name])
        elif not name.startswith("__") or path in _names.ELSEWHERE:
            value = self._below(name, path)
        if value is _MISSING:
            raise late_text.error(AttributeError, lambda: (
                f"module {self.__name__!r} has no attribute {name!r} in pyflow{_why(path)}"),
                name=name)
        setattr(self, name, value)
        return value

    def _below(self, name, path):
        """The value of a name, a module of this root if it is one; or _MISSING."""
        value = _MISSING
        for home in (*exported_homes(path), *self._homes):
            home, _, known_as = home.partition("=")
            value = value_in(home, known_as or name)
            if value is not _MISSING:
                break
        module = isinstance(value, types.ModuleType) and value.__name__.startswith("pyflow")
        if module or value is _MISSING and name[0].islower():
            if homes_of(path) is not None:
                return importlib.import_module(f"{self.__name__}.{name}")
            sibling = paths.sibling(self._path, name)
            if sibling and homes_of(sibling) is not None:
                if sibling == "python.util.tf_export":
                    return getattr(importlib.import_module(f"{self._finder.root}.{sibling}"), name)
                return importlib.import_module(f"{self._finder.root}.{sibling}")
            if module:                      # a namespace of tf, found in a module below python
                return importlib.import_module(
                    f"{self._finder.root}.{value.__name__.partition('.')[2]}")
        return value

    def __dir__(self):
        found = {name for name in held(self) if name.startswith("__")}
        for home in self._homes:
            if not home.endswith(".gen_ops") or home is self._homes[0]:     # 1,200 names
                found |= set(names_in(home))
        if self._path != "compat":
            found.discard("v1")
        if self._finder.old_names:
            found |= renamed.names_in(self._path)
        return sorted(found)


# ---------------------------------------------------------------- homes

def _of_v1(path):
    """compat.v1.nn is nn."""
    return path[len("compat.v1."):] if f"{path}.".startswith("compat.v1.") else path


def homes_of(path):
    """The homes of a path of TensorFlow, None where there is nothing of that name."""
    path = _of_v1(path)
    homes = paths.homes_of(path)
    if path.partition(".")[0] not in ("python", "core"):
        home = path or "."
        if isinstance(owner(home), types.ModuleType):
            return (home, *(homes or ()))
    if homes and not any(owner(home) for home in homes):
        return None                         # what they stand for is not in pyflow
    if homes is None and any(map(_is_public, exported.ROWS.get(path, {}).values())):
        return ()
    return homes


def exported_homes(path):
    """("home=name",) of what has another name in tf than in TensorFlow's module, else ()."""
    name = exported.public_name(path)
    home, _, name = (name or "").rpartition(".")
    return (f"{home or '.'}={name}",) if name else ()


def _is_public(name):
    home, _, name = name.rpartition(".")
    return value_in(home or ".", name) is not _MISSING


def owner(home):
    """The module of a home; None if pyflow has none."""
    if home.startswith("pyflow:"):
        try:
            return importlib.import_module(home.replace(":", ".", 1))
        except ModuleNotFoundError as e:
            if e.name and home.replace(":", ".").startswith(e.name):
                return None
            raise
    found = tf
    for part in home.split(".") if home not in (".", "") else ():
        found = _public_value(found, part)
        if found is _MISSING:
            return None
    return found


def value_in(home, name):
    """The public value `name` of a home, or _MISSING."""
    module = owner(home)
    if module is None:
        return _MISSING
    if not home.startswith("pyflow:"):
        return _public_value(module, name)
    if name.startswith("_") and ":interop.tensorflow." not in home and (
            name not in getattr(module, "__all__", ())):
        return _MISSING
    value = getattr(module, name, _MISSING)
    if isinstance(value, types.ModuleType) and not value.__name__.startswith(module.__name__):
        return _MISSING                     # what the module itself imports
    return value


def _public_value(module, name):
    """`name` of tf or of something in it, without the search for near names; or _MISSING."""
    if name in held(module):
        value = held(module)[name]
        shown = not isinstance(value, types.ModuleType) or (
            value.__name__.startswith("pyflow.") or name in held(module).get("__all__", ()))
        return value if shown else _MISSING
    if isinstance(module, types.ModuleType) and module.__name__.startswith("pyflow"):
        path = (module.__name__ + ".").partition(".")[2] + name
        known = _names.ELSEWHERE, _names.HOMES, _names.NAMESPACES
        if module is tf or module.__name__.partition(".")[2] in _names.NAMESPACES:
            return getattr(module, name) if any(path in table for table in known) else _MISSING
    if module.__name__.startswith("pyflow.examples"):
        return _MISSING
    return getattr(module, name, _MISSING)


def names_in(home):
    """The public names of a home."""
    module = owner(home)
    return [] if module is None else [
        name for name in dir(module) if not name.startswith("_")
        and value_in_dir(module, name, home.startswith("pyflow:"))]


def value_in_dir(module, name, is_file):
    """False for what is only imported there; `is_file`: a module of pyflow, no namespace of tf."""
    value = held(module).get(name)
    return not isinstance(value, types.ModuleType) or value.__name__.startswith(
        module.__name__ if is_file else "pyflow")


def _why(path):
    """What to do about a path that pyflow lacks, as the end of a sentence."""
    where, _, name = path.rpartition(".")
    hint = _names.hint(path)
    if hint or not name:
        return f": {hint}" if hint else ""
    home = tf
    if where and not where.startswith(("python", "core")):
        home = owner(where)
    if not isinstance(home, types.ModuleType) or not home.__name__.startswith("pyflow"):
        home = tf
    return _names.near(home, name)
