"""Tests that say how long something may take read a clock that other work of the machine does not move,
and run when no other test does."""
import ast
import pathlib

TESTS = pathlib.Path(__file__).parents[1]
SHORT = 3.0                         # seconds; what may take longer is a hang that is looked for
CLOCKS = {"time", "monotonic", "perf_counter"}


def is_clock(node, names):
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return isinstance(function.value, ast.Name) and function.value.id == "time" \
            and function.attr in names
    return isinstance(function, ast.Name) and function.id in names


def constant(node):
    """The value of a number, or of a sum that begins with numbers."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [constant(node.left), constant(node.right)]
        return sum(p for p in parts if p is not None)
    return node.value if isinstance(node, ast.Constant) and type(node.value) in (int, float) \
        else None


def bounds(function, names):
    """Seconds below which a difference of clocks is asserted to be."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assert):
            continue
        for compared in ast.walk(node.test):
            if not isinstance(compared, ast.Compare):
                continue
            sides = [compared.left, *compared.comparators]
            for left, op, right in zip(sides, compared.ops, sides[1:]):
                if isinstance(op, (ast.Lt, ast.LtE)) and isinstance(left, ast.BinOp) \
                        and isinstance(left.op, ast.Sub) and is_clock(left.left, names):
                    yield constant(right)


def is_alone(function):
    return any("mark.alone" in ast.unparse(d) for d in function.decorator_list)


def functions(tree):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node)


def test_short_times_are_asserted_alone_and_by_the_quiet_clock():
    wrong = []
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole = any("mark.alone" in ast.unparse(node) for node in tree.body
                    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark")
        for function in functions(tree):
            if not function.name.startswith("test"):
                continue
            where = f"{path.relative_to(TESTS)}:{function.lineno} {function.name}"
            for names, what in ((CLOCKS, "reads a clock that other work moves: use quiet.clock"),
                                ({"clock"}, "is not marked alone")):
                found = [b for b in bounds(function, names) if b is not None and b < SHORT]
                if found and (names is CLOCKS or not (whole or is_alone(function))):
                    wrong.append(f"{where}: < {min(found)} s, {what}")
    assert not wrong, "\n".join(wrong)
