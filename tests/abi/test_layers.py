"""Dependencies run one way: parses every import, cimport and #include of the tree."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A layer may import itself and what is listed; everything not listed is above all of these.
FRAMEWORK = {"framework", "config"}
OPS = FRAMEWORK | {"ops"}
ALLOWED = {
    "framework": FRAMEWORK,
    "config": {"config"},
    "ops": OPS,
    "gradients": OPS | {"gradients"},
    "passes": OPS | {"passes", "_executor"},
    "plugins": FRAMEWORK | {"plugins", "plugin_probe", "_executor", "_plugin_entry"},
    "plugin_probe": {"plugin_probe", "plugins", "_executor"},
    "session": OPS | {"session", "passes", "plugins", "_executor"},
}
EXCEPTIONS = {
    ("script_ops", "_executor"): "py_func hands its callables to the executor, when a node is made"
}
ONLY_IN_DISTRIBUTED = {"grpc", "ray"}


def python_files():
    return sorted(p for p in (ROOT / "pyflow").rglob("*.py"))


def imported(path):
    """-> {(dotted module, line)} of absolute and relative imports, inside functions too."""
    package = path.relative_to(ROOT).with_suffix("").parts
    package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            yield module, node.lineno
            for alias in node.names:
                yield f"{module}.{alias.name}", node.lineno


def layer(dotted):
    parts = dotted.split(".")
    return parts[1] if parts[0] == "pyflow" and len(parts) > 1 else None


@pytest.mark.parametrize("path", python_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_python_layers(path):
    parts = path.relative_to(ROOT / "pyflow").with_suffix("").parts
    own, problems = parts[0], []
    layers = {p.stem for p in (ROOT / "pyflow").iterdir()} | {"_executor"}
    for module, line in imported(path):
        top = module.split(".")[0]
        if top in ONLY_IN_DISTRIBUTED and own != "distributed":
            problems.append(f"line {line}: {top} belongs to pyflow.distributed and plugins/")
        used = layer(module)
        if (
            own in ALLOWED
            and used in layers
            and used not in ALLOWED[own]
            and (path.stem, used) not in EXCEPTIONS
        ):
            problems.append(f"line {line}: {own} imports {used}")
    assert not problems, "\n".join(problems)


def test_the_executor_never_imports_pyflow():
    for path in sorted((ROOT / "_executor").rglob("*.p[yx][xd]")):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert not re.match(r"\s*(from|import|cimport)\s+pyflow\b", line), f"{path}: {line}"


def test_the_core_has_no_python():
    for path in sorted((ROOT / "_executor" / "core").iterdir()):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        assert not re.search(
            r"#include\s*[<\"](Python|numpy)|cimport\s+(cpython|numpy)|from\s+cpython", text
        ), path


def test_core_modules_meet_in_headers_only():
    """A core module cimports declarations (.pxd without .pyx), never another module."""
    core = ROOT / "_executor" / "core"
    modules = {p.stem for p in core.glob("*.pyx")}
    for path in sorted(core.glob("*.p[yx][xd]")):
        for name in re.findall(
            r"^\s*(?:from|cimport)\s+(\w+)", path.read_text(encoding="utf-8"), re.M
        ):
            assert name not in modules, f"{path.name} cimports module {name}"


def test_plugins_use_nothing_but_the_header():
    for path in sorted((ROOT / "plugins").rglob("*.[ch]")):
        for include in re.findall(r'#\s*include\s*["<]([^">]+)', path.read_text(encoding="utf-8")):
            assert (
                "pf_core" not in include
                and "runtime.h" not in include
                and "Python.h" not in include
            ), f"{path}: {include}"
            if include.startswith("pyflow/"):
                assert include in ("pyflow/kernel.h", "pyflow/tensor.h"), f"{path}: {include}"
