"""python -m pyflow op [NAME]: everything known about an op."""
import argparse
import difflib
import inspect
import os
import sys
import textwrap

from pyflow.tools import as_json


def main(argv):
    """Prints the schema, kernels, gradient and source of an op, or all names."""
    parser = argparse.ArgumentParser(prog="python -m pyflow op", description=__doc__)
    parser.add_argument(
        "name", nargs="?", help="an op type such as MatMul; a part of a name lists the matches"
    )
    as_json.add_option(parser)
    args = parser.parse_args(argv)
    name = args.name
    import pyflow  # noqa: F401 - registers the ops
    from pyflow.framework import op as op_lib
    from pyflow.session import runtime
    executor = runtime.start()
    names = op_lib.op_names()
    if name is None:
        as_json.show({"ops": names}) if args.json else print("\n".join(names))
        return 0
    op_def = op_lib.find_op(name)
    if op_def is None:
        return _not_found(name, names)
    from_plugin = op_def.name in {name for name, *_ in executor.plugin_ops()}
    if args.json:
        as_json.show(facts(op_def, executor, from_plugin))
        return 0
    _print_schema(op_def)
    _print_kernels(op_def, executor)
    print(f"gradient\n  {_gradient(op_def, from_plugin)}")
    _print_source(op_def, from_plugin)
    return 0


def facts(op_def, executor, from_plugin):
    """What is printed, as an object of JSON's types."""
    return {"name": op_def.name, "stateful": bool(op_def.stateful),
            "doc": inspect.cleandoc(op_def.doc or ""),
            "inputs": [str(item) for item in op_def.inputs],
            "outputs": [str(item) for item in op_def.outputs],
            "attrs": [str(item) for item in op_def.attrs.values()],
            "kernels": [{key: k[key] for key in ("device", "where", "plugin", "priority")}
                        for k in _kernels(op_def, executor)],
            "gradient": _gradient(op_def, from_plugin),
            "shape_function": _shape_function(op_def, from_plugin),
            "source": op_def.module or None}


def _not_found(name, names):
    matches = [n for n in names if name.lower() in n.lower()] or difflib.get_close_matches(
        name, names, n=5
    )
    there = f"; there are: {', '.join(matches)}" if matches else (
        f"; python -m pyflow op lists all {len(names)}")
    print(f"no op is called {name!r}{there}", file=sys.stderr)
    return 1


def _print_schema(op_def):
    print(op_def.name + (" (stateful)" if op_def.stateful else ""))
    print(textwrap.indent(inspect.cleandoc(op_def.doc or ""), "  "))
    print("schema")
    for title, items in (
        ("in", op_def.inputs),
        ("out", op_def.outputs),
        ("attr", op_def.attrs.values()),
    ):
        for item in items:
            print(f"  {title:5}{item}")


def _kernels(op_def, executor):
    return sorted(executor.kernels(op_def.name),
                  key=lambda k: (k["device"], -k["priority"], k["where"] or ""))


def _print_kernels(op_def, executor):
    from pyflow.session.missing import CORE_OPS
    kernels = _kernels(op_def, executor)
    print("kernels")
    for k in kernels:
        print(
            f"  {k['device']:5}{k['where'] or 'any type'}  ({k['plugin']}, priority"
            f" {k['priority']})"
        )
    if not kernels:
        print("  in the executor itself" if op_def.name in CORE_OPS else "  none")


def _gradient(op_def, from_plugin):
    """Where the gradient stands, or that there is none."""
    from pyflow.framework import gradient_registry
    gradient = (
        gradient_registry.registered(op_def.name)
        if hasattr(gradient_registry, "registered")
        else None
    )
    gradient = gradient or op_def.gradient
    if not gradient and from_plugin:
        return "none here; the plugin's package may register one when it is imported"
    if gradient is None:
        return "none, on purpose: it stops here"
    return _where(gradient) if gradient else "none: tf.gradients through it is a LookupError"


def _where(function):
    try:
        file, line = inspect.getsourcefile(function), inspect.getsourcelines(function)[1]
    except (TypeError, OSError):
        return getattr(function, "__module__", "?")
    return f"{os.path.relpath(file) if len(os.path.relpath(file)) < len(file) else file}:{line}"


def _shape_function(op_def, from_plugin):
    """Where it stands; None without one.  A plugin's is C: what is registered only asks that."""
    if op_def.shape is None:
        return None
    if not from_plugin:
        return _where(op_def.shape)
    return f"in the plugin's library{f', package {op_def.package}' if op_def.package else ''}"


def _print_source(op_def, from_plugin):
    if op_def.shape:
        print(f"shape function\n  {_shape_function(op_def, from_plugin)}")
    if op_def.module:
        print(f"source\n  {op_def.module}")
