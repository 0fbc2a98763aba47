"""Writes what follows from the modules of ops and of the library: `make tables`.

    python -m pyflow.tools.tables FOLDER        # pyflow, or a folder to compare with it

FOLDER/ops/op_types.py: which module of pyflow.ops declares which ops.  FOLDER/_public.py: which
module has which public name in its table PUBLIC.  FOLDER/interop/onnx/op_families.py: which
module converts which of ONNX's ops.  All come from the modules themselves, all that
lie in the folders of pyflow.ops and pyflow.lib; a name defined twice is an error.
These are committed: pyflow cannot be imported without them, nor written anew what it lacks.
FOLDER/__init__.pyi and the other .pyi files: the public types (stubs.py), by a process that finds
names by those tables. They are not: whoever builds a wheel makes them (_executor/build_backend.py).
Needs no executor.  tests/typing/test_types.py fails while the files differ from what this writes.
"""

import importlib
import os
import pathlib
import subprocess
import sys
import textwrap

import pyflow as tf
from pyflow import _names, estimator, feature_column, lib, ops, saved_model, train
from pyflow.interop.onnx import registry

OP_TYPES = '''"""Which module of pyflow.ops declares which ops.

Written by `make tables` (pyflow/tools/tables.py); do not edit.
"""

OP_TYPES = {
%s}
'''
PUBLIC = '''"""Which module has which public names in its table PUBLIC.

Written by `make tables` (pyflow/tools/tables.py); do not edit.
"""

PUBLIC = {
%s}
'''
OP_FAMILIES = '''"""Which module of pyflow.interop.onnx.ops converts which ops.

Written by `make tables` (pyflow/tools/tables.py); do not edit.
"""

OP_FAMILIES = {
%s}
'''


def modules_in(package):
    """The dotted names of a package's modules, in its folders too, sorted; op_types.py is none."""
    folder = pathlib.Path(package.__file__).parent
    found = (p.relative_to(folder.parents[1]).with_suffix("") for p in folder.rglob("*.py")
             if p.name not in ("__init__.py", "op_types.py"))
    return sorted(".".join(p.parts) for p in found)


OPS = modules_in(ops)
MODULES = (
    *OPS,
    *modules_in(lib),
    "pyflow.framework.nest",
    "pyflow.gradients.backprop",
    "pyflow.gradients.higher_order",
    "pyflow.distributed.run.server",
    *(f"pyflow.train.{name}" for name in train.MODULES),
    *modules_in(saved_model),
    *modules_in(feature_column),
    *modules_in(estimator),
)


def rows(table):
    """The lines of a dict from module to its names in one text; modules without names are left
    out."""
    lines = []
    for key, names in table.items():
        if names:
            parts = textwrap.wrap(" ".join(sorted(names)), 88)
            lines.append(f'    "{key}":\n')
            lines += [f'        "{part} "\n' for part in parts[:-1]]
            lines.append(f'        "{parts[-1]}",\n')
    return "".join(lines)


def op_types():
    return {name.removeprefix("pyflow.ops."):
            [op_def.name for op_def in ops.ops_of(importlib.import_module(name))] for name in OPS}


def public_names():
    """{module: its public names}.  ImportError for a name that two modules define differently."""
    found, homes = known_elsewhere(), {}
    for module in MODULES:
        table = getattr(importlib.import_module(module), "PUBLIC", {})
        homes[module] = []
        for name, value in table.items():
            if name not in found:
                found[name] = value, module
                homes[module].append(name)
            elif found[name][0] is not value:
                raise ImportError(f"tf.{name} is defined twice: by {found[name][1]} and {module}")
    both = {name.rpartition(".")[0] for name in found} & set(found)
    if both:
        raise ImportError(f"{sorted(both)} are namespaces and cannot be names, too")
    return homes


def known_elsewhere():
    """{dotted name: (value, where)} of the tables of _names.py."""
    found = {name: (getattr(tf, name), module)
             for module, words in _names.FRAMEWORK.items() for name in words.split()}
    for name, (module, attribute) in _names.ELSEWHERE.items():
        value = importlib.import_module(module)
        found[name] = (value if attribute is None else getattr(value, attribute)), module
    return found


def main(folder):
    folder = pathlib.Path(folder)
    for name in ("ops", "interop/onnx"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path, head, table in (("ops/op_types.py", OP_TYPES, op_types()),
                              ("interop/onnx/op_families.py", OP_FAMILIES, registry.families()),
                              ("_public.py", PUBLIC, public_names())):
        (folder / path).write_text(head % rows(table), encoding="utf-8")
    write_stubs(folder)


def write_stubs(folder):
    """By a new process: this one has found its names by the tables as they were."""
    home = pathlib.Path(tf.__file__).resolve().parents[1]
    subprocess.run([sys.executable, "-P", "-m", "pyflow.tools.stubs", str(folder)], check=True,
                   env={**os.environ, "PYTHONPATH": str(home)})


if __name__ == "__main__":
    main(sys.argv[1])
