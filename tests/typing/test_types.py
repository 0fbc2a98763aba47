"""The public types: the stub is what the package is; mypy --strict takes it and a program."""

import importlib.metadata
import importlib.resources
import inspect
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import pyflow as tf

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """{path: text} of the package's stubs; where it is a tree that nothing was built in, of what a
    build would write."""
    package = pathlib.Path(str(importlib.resources.files("pyflow")))
    assert (package / "py.typed").is_file(), "py.typed is part of the wheel"
    if not (package / "__init__.pyi").is_file():
        package = tmp_path_factory.mktemp("stubs")
        subprocess.run([sys.executable, "-m", "pyflow.tools.stubs", str(package)], check=True)
    return {str(path.relative_to(package)): path.read_text(encoding="utf-8")
            for path in package.rglob("*.pyi")}


def test_the_wheel_carries_the_types():
    """By the installed wheel's own list; in a developer's tree by what the build leaves out and adds."""
    try:
        installed = {str(f) for f in importlib.metadata.files("pyflow-dataflow") or ()}
    except importlib.metadata.PackageNotFoundError:     # built by meson alone
        installed = set()
    for name in ("py.typed", "__init__.pyi"):
        if "pyflow/__init__.py" in installed:
            assert f"pyflow/{name}" in installed
            continue
        if name == "__init__.pyi":      # made by _executor/build_backend.py, whose test asks for it
            continue
        build = (HERE.parents[1] / "meson.build").read_text(encoding="utf-8")
        [copied] = re.findall(r"install_subdir\('pyflow',.*?\)\n", build, re.S)
        [left_out] = re.findall(r"exclude_files: \[(.*?)\]", copied, re.S)
        assert "lib/libpyflow_rt.so" in left_out and name not in left_out, copied


def test_the_tables_are_current(stubs, tmp_path):
    """What tells where names and ops are, and the stub, against the modules themselves.  A child
    writes them anew: other tests may have added names to this process's tf."""
    subprocess.run([sys.executable, "-m", "pyflow.tools.tables", str(tmp_path)], check=True)
    package = importlib.resources.files("pyflow")
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.pyi")} == stubs.keys()
    for name in ("_public.py", "ops/op_types.py", "interop/onnx/op_families.py"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (package / name).read_text(
            encoding="utf-8"), f"public names or ops changed, {name} is old: make tables"
    for name, text in stubs.items():
        assert (tmp_path / name).read_text(encoding="utf-8") == text, f"{name} is old: build again"


def test_members_that_python_calls(stubs):
    """Operators, iteration, indexing, calls: the classes that have them say so in the stub."""
    blocks = dict(re.findall(r"^class (\w+).*:\n((?:    .*\n)+)", stubs["__init__.pyi"], re.M))
    lacking = {"Tensor": {"__bool__", "__iter__", "__len__"}, "Variable": {"__iter__"}}  # they raise
    seen = 0
    for name, block in blocks.items():
        cls = getattr(tf, name, None)
        if not inspect.isclass(cls):
            continue
        ours = {key for base in cls.__mro__ if base.__module__.startswith("pyflow")
                for key in vars(base) if re.fullmatch(CALLED, key)}
        typed = set(re.findall(r"^    def (__\w+__)\(", block, re.M))
        assert ours - lacking.get(name, set()) <= typed, (name, ours - typed)
        assert not lacking.get(name, set()) & typed
        seen += len(ours)
    assert seen > 90


# What a program calls without its name.
CALLED = ("__(r?(add|sub|mul|truediv|floordiv|mod|pow|matmul|and|or|xor)|neg|abs|invert|lt|le|gt|ge|len|iter|"
          "getitem|call|int|index|bool)__")


def test_mypy(stubs, tmp_path):
    """Strict, on the stubs and on the program, with and without what it has kept of them; wrong
    lines are found, so it is not all Any."""
    package = tmp_path / "pyflow"
    for name, text in stubs.items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    (package / "py.typed").touch()
    shutil.copy(HERE / "program.py", tmp_path)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import pyflow as tf, pyflow.nn, pyflow.compat.v1 as tf1\n"
        "x: int = tf.matmul([[1.0]], [[1.0]])\n"
        "tf.matmul([[1.0]], [[1.0]], transpose=True)\n"
        "tf.Session().sess_run\n"
        "tf.add(1.0, {'a': 1.0})\n"
        "tf.matmul(object(), [[1.0]])\n"
        "tf.constant([1.0]) + open\n"
        "tf.reshape([1.0], 'x')\n"
        "tf.rleu\n"
        "tf.nn.rleu\n"
        "tf1.rleu\n"
        "tf.compat.v1.nn.rleu\n"
        "from pyflow.nn import rleu\n"
        "from pyflow.contrib.rnn import LSTMCel\n"
        "for row in tf.constant([1]): pass\n"
        "len(tf.constant([1]))\n"
        "tf.TensorShape([1])['a']\n"
        "tf.Dimension(1) - 'a'\n"
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--python-version",
        "3.11",
        "--follow-imports",
        "silent",
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    right = subprocess.run(
        [*command, "program.py", *(f"pyflow/{name}" for name in stubs)],
        cwd=tmp_path,
        text=True,
        capture_output=True,
    )
    assert right.returncode == 0, right.stdout + right.stderr
    with (tmp_path / "program.py").open("a") as program:        # checked by what is kept of the stubs
        program.write("cell: rnn.LSTMCell = tf.contrib.rnn.LSTMCell(4)\n")
    again = subprocess.run([*command, "program.py"], cwd=tmp_path, text=True, capture_output=True)
    assert again.returncode == 0, again.stdout + again.stderr
    found = subprocess.run([*command, "wrong.py"], cwd=tmp_path, text=True, capture_output=True)
    errors = [int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error:" in line]
    assert errors == list(range(2, 2 + len(errors))) and len(errors) == 17, found.stdout
