"""python -m pyflow coverage [FILE ...] [--rewrite [--in-place]]: what of TensorFlow 1.x is here.

    python -m pyflow coverage                       # the symbols public programs use, by how many
    python -m pyflow coverage train.py model.py     # what these files need and pyflow lacks, by line
    python -m pyflow coverage train.py --rewrite    # a diff: imports, old names, Python 2 leftovers
    python -m pyflow coverage notebook.ipynb        # the code of a notebook

Without files, each symbol of pyflow/interop/tensorflow/usage.csv (479 symbols of 319 public
programs) is printed with the number of programs that use it, whether it exists, and a test that
calls it with an argument that is not the default and compares what comes out
(exercised.csv, from the tests by tests/porting/index_tests.py).

Nothing of the files is run. Returns 1 where something is missing.
"""
import argparse
import ast
import csv
import difflib
import functools
import importlib
import inspect
import pathlib
import sys
import types
import typing

from pyflow.interop.tensorflow import finder, renamed
from pyflow.tools import program_names, program_text, python2

DATA = pathlib.Path(finder.__file__).parent


def main(argv):
    """Prints the report.  Returns 0, 1 where something is missing, 2 for files that cannot be read."""
    args = _parser().parse_args(argv)
    if args.in_place and not args.rewrite or args.rewrite and not args.files:
        print("python -m pyflow coverage: --rewrite needs files, --in-place needs --rewrite",
              file=sys.stderr)
        return 2
    if not args.files:
        return list_symbols(args.missing)
    status = 0
    for name in _python_files(args.files):
        try:
            program = program_text.read(name)
        except (OSError, SyntaxError, UnicodeError) as e:
            print(f"{name}: {e}", file=sys.stderr)
            status = 2
            continue
        if args.rewrite:
            status = max(status, rewrite_file(program, args.in_place))
        else:
            status = max(status, report(program))
    return status


def _parser():
    parser = argparse.ArgumentParser(prog="python -m pyflow coverage",
                                     description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help="programs, notebooks, or folders of them")
    parser.add_argument("--missing", action="store_true",
                        help="without files: only symbols that are missing or not exercised")
    parser.add_argument("--rewrite", action="store_true",
                        help="changes imports, names that TensorFlow 0.x had, and what Python 2 "
                             "left; shows a diff")
    parser.add_argument("--in-place", action="store_true", help="with --rewrite: writes the files")
    return parser


def _python_files(names):
    for name in names:
        path = pathlib.Path(name)
        yield from sorted([*path.rglob("*.py"), *path.rglob("*.ipynb")]) if path.is_dir() else [path]


# ---------------------------------------------------------------- without files

def usage():
    """[(symbol, programs that use it)], most used first."""
    with open(DATA / "usage.csv", encoding="utf-8", newline="") as file:
        return [(row["symbol"], int(row["programs"])) for row in csv.DictReader(file)]


def exercised():
    """{symbol: the test that exercises it}."""
    with open(DATA / "exercised.csv", encoding="utf-8", newline="") as file:
        return {row["symbol"]: row["test"] for row in csv.DictReader(file)}


def list_symbols(missing_only=False):
    """Prints the symbols.  Returns 1 if one that two programs use is missing."""
    tests, here, often = exercised(), 0, []
    symbols = usage()
    for symbol, programs in symbols:
        found = lookup(symbol.removeprefix("tf."))
        here += found.exists
        if not found.exists and programs >= 2:
            often.append(symbol)
        test = tests.get(symbol, "not exercised by a test" if found.exists else "")
        if not missing_only or not found.exists or symbol not in tests:
            print(f"{symbol:52} {programs:4}  {'yes' if found.exists else 'MISSING':8} {test}")
    shown = sum(symbol in tests for symbol, _ in symbols)
    print(f"{here} of {len(symbols)} symbols exist, {shown} are exercised by a test; of those that "
          f"two programs or more use {len(often)} are missing")
    return 1 if often else 0


@functools.cache
def _tensorflow():
    """What `import tensorflow` gives under exec, by another name: TensorFlow itself may be here."""
    sys.meta_path.append(finder.Finder("pyflow_as_tensorflow"))
    return importlib.import_module("pyflow_as_tensorflow")


class Found(typing.NamedTuple):
    """What became of a path: exists; value; hint, what to do where it does not exist; renamed, its
    name since TensorFlow 1.0, or None."""

    exists: bool
    value: object
    hint: str
    renamed: str | None


def lookup(path):
    """Found for a path below tensorflow, as a program under `python -m pyflow exec` sees it."""
    value, walked = _tensorflow(), ""
    for part in path.split("."):
        walked = f"{walked}.{part}".lstrip(".")
        new = renamed.NAMES.get(walked) or renamed.BECAME.get(walked)
        if new:
            try:
                return Found(True, renamed.current(new, walked), "", new)
            except AttributeError as e:
                return Found(False, None, str(e), new)
        try:
            value = getattr(value, part)
        except (AttributeError, ImportError) as e:
            return Found(False, None, _hint(e), None)
        if not isinstance(value, (types.ModuleType, type)):
            break                           # what values have is not known before they are made
    return Found(True, value if walked == path else None, "", None)


def _hint(error):
    text = str(error)
    for mark in ("in pyflow: ", "in pyflow; ", "': ", "'; "):
        if mark in text:
            return text.partition(mark)[2]
    return "pyflow has nothing of that name"


# ---------------------------------------------------------------- files

def report(program):
    """Prints what a program needs and pyflow lacks, by line.  Returns 1 if there is something."""
    name = program.name
    tree, leftovers = parsed(program.text)
    if tree is None:
        print(f"{program.place(leftovers[0][0])}: {leftovers[0][1]}")
        return 1
    lines = [(line, f"Python 2: {what}; --rewrite changes it") for line, what in leftovers]
    uses = program_names.names_of(tree)
    missing, names = 0, set()
    for use in uses:
        names.add(use.path)
        found = lookup(use.path)
        if not found.exists:
            missing += 1
            lines.append((use.line, f"tf.{use.path} is missing: {found.hint}"))
        elif found.renamed:
            lines.append((use.line, f"tf.{use.path} became tf.{found.renamed}; it works under "
                                    "`python -m pyflow exec`, --rewrite changes it"))
        else:
            wrong = [] if use.call is None else _unknown_arguments(found.value, use.call)
            missing += len(wrong)
            lines += [(use.line, f"tf.{use.path} has no argument {word}") for word in wrong]
    for line, what in sorted(set(lines)):
        print(f"{program.place(line)}: {what}")
    print(f"{name}: {len(names)} names of tensorflow, {missing} "
          f"{'use' if missing == 1 else 'uses'} of what is missing, {len(leftovers)} Python 2 "
          f"leftovers")
    return 1 if missing or leftovers else 0


def parsed(text):
    """(tree, []) of a program, (tree, [(line, what)]) of one for Python 2, (None, [(line, error)])
    where it is neither."""
    try:
        return ast.parse(text), []
    except (SyntaxError, ValueError):
        out, changed = python2.converted(text)
    try:
        return ast.parse(out), changed
    except (SyntaxError, ValueError) as e:
        return None, [(getattr(e, "lineno", 0) or 0, f"neither Python 3 nor 2: {e}")]


def _unknown_arguments(function, call):
    """Keywords of a call that the function does not take."""
    if function is None or not callable(function):
        return []
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return []
    return [word.arg for word in call.keywords if word.arg and word.arg not in parameters]


def rewrite_file(program, in_place):
    """Shows, or writes, the program moved over.  Returns 1 for one that is not Python."""
    from pyflow.tools import rewrite
    name, text = program.name, program.text
    try:
        new, notes = rewrite.rewritten(text)
    except SyntaxError as e:
        print(f"{program.place(e.lineno)}: neither Python 3 nor 2: {e.msg}")
        return 1
    if in_place:
        if new != text:
            program.write(new)
        print(f"{name}: {'rewritten' if new != text else 'nothing to change'}")
    else:
        sys.stdout.writelines(difflib.unified_diff(
            text.splitlines(keepends=True), new.splitlines(keepends=True), str(name), str(name)))
    for line, note in notes:
        print(f"{program.place(line)}: {note}", file=sys.stderr)
    return 0
