"""Which test exercises which symbol of TensorFlow: writes pyflow/interop/tensorflow/exercised.csv.

    python tests/porting/index_tests.py

A test counts for a symbol if it calls it with an argument that is not its default (of a function
that has none but name: if it calls it; of a constant: if it uses it) and compares values. That is
read from the tests' text: a test function with an assertion, or a case of tests/oracle, of which
the value is compared with TensorFlow's.
"""
import ast
import csv
import functools
import inspect
import pathlib
import sys
import typing
import warnings

from pyflow.framework.op import OpDef
from pyflow.tools import coverage, program_names

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPARING = ("assert", "check", "compare", "same", "close", "equal", "raises")


class Use(typing.NamedTuple):
    """A program_names.Use, and whether it is the base of a class."""

    path: str
    line: int
    node: ast.AST
    call: ast.Call | None
    is_base: bool


class Case(typing.NamedTuple):
    """A test: its id, "tests/ops/test_x.py::test_y", and the names it uses."""

    id: str
    uses: list


def cases(names=None):
    """All cases of the tests (of the files `names` alone), those compared with TensorFlow first."""
    files = sorted((ROOT / "tests").rglob("*.py"),
                   key=lambda p: (p.parent.name != "oracle", str(p)))
    for path in files:
        if names is not None and path.relative_to(ROOT).as_posix() not in names:
            continue
        if path.parent.name == "oracle" or path.name.startswith("test_"):
            yield from cases_of(path)


def cases_of(path):
    """The cases of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(path.read_text(encoding="utf-8"))
    name = path.relative_to(ROOT).as_posix()
    oracle = path.parent.name == "oracle" and path.name.startswith(("cases_", "scripts"))
    aliases = {"tf": "", **program_names._aliases(tree)}
    aliases = {name: path.removeprefix("platform.") for name, path in aliases.items()}
    for node in ast.walk(tree):
        if oracle and isinstance(node, ast.Call) and _is_op(node):
            yield Case(f"{name}::{node.args[0].value}", _uses(node, aliases))
        elif isinstance(node, ast.FunctionDef) and (
                oracle or node.name.startswith("test") and _compares(node)):
            yield Case(f"{name}::{node.name}", _uses(node, aliases))
        elif isinstance(node, ast.ClassDef) and _compares(node):
            uses = [use._replace(is_base=True) for base in node.bases for use in _uses(base, aliases)]
            yield Case(f"{name}::{node.name}", uses)


def _is_op(node):
    return isinstance(node.func, ast.Name) and node.func.id == "op" and node.args and (
        isinstance(node.args[0], ast.Constant))


def _uses(node, aliases):
    finder = program_names._Finder(aliases)
    finder.visit(node)
    return [Use(*use, False) for use in finder.uses]


def _compares(function):
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).lower()
            if any(word in called for word in COMPARING):
                return True
    return False


def exercises(use, value):
    """True if one use of a symbol counts."""
    if not callable(value):
        return True
    try:
        parameters = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return True
    optional = {name: p.default for name, p in parameters.items()
                if p.default is not p.empty and name != "name"}
    if not optional or any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
                           for p in parameters.values()):
        return True
    if use.call is None:
        return use.is_base or not (inspect.isroutine(value) or isinstance(value, (type, OpDef)))
    return any(name in optional and not _is_default(node, optional[name])
               for name, node in _bound(use.call, list(parameters)))


def _bound(call, names):
    yield from zip(names, call.args)
    for word in call.keywords:
        if word.arg:
            yield word.arg, word.value


def _is_default(node, default):
    try:
        given = ast.literal_eval(node)
    except ValueError:
        return False
    return type(given) is type(default) and given == default


def index(names=None):
    """{symbol: [ids of the cases that exercise it]} for the symbols of usage.csv that exist."""
    symbols = {}                            # path: (value, the symbols that mean it)
    for symbol, _ in coverage.usage():
        found = coverage.lookup(symbol.removeprefix("tf."))
        if found.exists:
            path = found.renamed or symbol.removeprefix("tf.")
            symbols.setdefault(path, (found.value, []))[1].append(symbol)
    same = {}                               # functions and classes under several names
    for path, (value, _) in symbols.items():
        if callable(value):
            same.setdefault(id(value), []).append(path)
    named = {}
    for case in cases(names):
        for use in case.uses:
            for path in _meant(use.path, symbols, same):
                if path != use.path and use.path.startswith(path + ".") or exercises(
                        use, symbols[path][0]):
                    for symbol in symbols[path][1]:
                        named.setdefault(symbol, []).append(case.id)
    return {symbol: list(dict.fromkeys(ids)) for symbol, ids in named.items()}


@functools.cache
def _value(path):
    return coverage.lookup(path).value


@functools.cache
def _last_parts(paths):
    return {path.rpartition(".")[2] for path in paths}


def _meant(path, symbols, same):
    """The symbols' paths that a use is one of: itself, another name of the same function or class,
    and modules, classes and constants it lies in."""
    found = {path} & set(symbols)
    if path.rpartition(".")[2] in _last_parts(tuple(symbols)) and _value(path) is not None:
        found |= set(same.get(id(_value(path)), ()))
    parts = path.split(".")
    for n in range(1, len(parts)):
        outer = ".".join(parts[:n])
        if outer in symbols and not inspect.isroutine(symbols[outer][0]):
            found.add(outer)
    return found


def main():
    found = index()
    path = ROOT / "pyflow/interop/tensorflow/exercised.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["symbol", "test"])
        writer.writerows((symbol, tests[0]) for symbol, tests in sorted(found.items()))
    print(f"{len(found)} of {len(coverage.usage())} symbols")


if __name__ == "__main__":
    sys.exit(main())
