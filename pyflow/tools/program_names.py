"""Which names of tensorflow a program uses, and where: for `python -m pyflow coverage FILE`.

    uses, edits = names_of(ast.parse(text))

Invariants
    1. An alias is what imports and plain assignments make one: `import tensorflow as tf`,
       `from tensorflow.contrib import rnn`, `slim = tf.contrib.slim`. `pyflow` counts as tensorflow.
    2. Paths are as in `tensorflow.PATH`, without compat.v1 in front.
    3. Nothing of the program is run.

Threads: any.
"""
import ast
import typing

ROOTS = ("tensorflow", "pyflow")


class Use(typing.NamedTuple):
    """One use of a name: its path below tensorflow, the line, the node, and the call it is the
    function of, or None."""

    path: str
    line: int
    node: ast.AST
    call: ast.Call | None


def names_of(tree):
    """[Use] of a program, by line.  Imports count as uses, too."""
    aliases = _aliases(tree)
    finder = _Finder(aliases)
    finder.visit(tree)
    return sorted(finder.uses, key=lambda use: (use.line, use.path))


def path_of(dotted):
    """The path below tensorflow of a dotted module name, None if it is another package's."""
    root, _, path = dotted.partition(".")
    if root not in ROOTS:
        return None
    for prefix in ("compat.v1", "compat.v2"):
        if path == prefix or path.startswith(prefix + "."):
            return path[len(prefix) + 1:]
    return path


def _aliases(tree):
    """{name: path} of imports and assignments."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = path_of(alias.name)
                if path is not None:
                    found[alias.asname or alias.name.partition(".")[0]] = (
                        path if alias.asname else "")
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            path = path_of(node.module)
            if path is not None:
                for alias in node.names:
                    found[alias.asname or alias.name] = _joined(path, alias.name)
    written = [ast.unparse(target) for node in ast.walk(tree) if isinstance(node, ast.Assign)
               for target in node.targets]
    for node in ast.walk(tree):             # slim = tf.contrib.slim, assigned once
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = ast.unparse(node.targets[0])
            path = _chain(node.value, found)
            if path and isinstance(node.targets[0], ast.Name) and written.count(target) == 1:
                found.setdefault(target, path)
    return found


def _joined(path, name):
    path = f"{path}.{name}".lstrip(".")
    return "" if path == "compat.v1" else path.removeprefix("compat.v1.")


def _chain(node, aliases):
    """The path of tf.nn.relu, by its aliases; None for anything else."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return None
    path = ".".join([aliases[node.id], *reversed(parts)]).lstrip(".")
    for prefix in ("compat.v1.", "compat.v2."):
        path = path.removeprefix(prefix)
    return path


class _Finder(ast.NodeVisitor):
    def __init__(self, aliases):
        self.aliases, self.uses = aliases, []

    def visit_Import(self, node):
        for alias in node.names:
            path = path_of(alias.name)
            if path:
                self.uses.append(Use(path, node.lineno, node, None))

    def visit_ImportFrom(self, node):
        path = path_of(node.module) if node.module and not node.level else None
        for alias in node.names if path is not None else ():
            if alias.name == "*":
                self.uses.append(Use(path, node.lineno, node, None))
            elif _joined(path, alias.name):
                self.uses.append(Use(_joined(path, alias.name), node.lineno, node, None))

    def visit_Call(self, node):
        path = _chain(node.func, self.aliases)
        if path:
            self.uses.append(Use(path, node.lineno, node.func, node))
        else:
            self.visit(node.func)
        for child in [*node.args, *node.keywords]:
            self.visit(child)

    def visit_Attribute(self, node):
        path = _chain(node, self.aliases)
        if path:
            self.uses.append(Use(path, node.lineno, node, None))
        else:
            self.generic_visit(node)
