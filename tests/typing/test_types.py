"""The public types: the stub is what the package is; mypy --strict takes it and a program."""

import importlib.metadata
import importlib.resources
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def stub():
    package = importlib.resources.files("pyflow")
    assert (package / "py.typed").is_file(), "py.typed is part of the wheel"
    return (package / "__init__.pyi").read_text(encoding="utf-8")


def test_the_wheel_carries_the_types():
    """By the installed wheel's own list; in a developer's tree by what the build leaves out."""
    try:
        installed = {str(f) for f in importlib.metadata.files("pyflow-dataflow") or ()}
    except importlib.metadata.PackageNotFoundError:     # built by meson alone
        installed = set()
    for name in ("py.typed", "__init__.pyi"):
        if "pyflow/__init__.py" in installed:
            assert f"pyflow/{name}" in installed
            continue
        build = (HERE.parents[1] / "meson.build").read_text(encoding="utf-8")
        [copied] = re.findall(r"install_subdir\('pyflow',.*?\)\n", build, re.S)
        [left_out] = re.findall(r"exclude_files: \[(.*?)\]", copied, re.S)
        assert "lib/libpyflow_rt.so" in left_out and name not in left_out, copied


def test_the_tables_are_current(tmp_path):
    """What tells where names and ops are, and the stub, against the modules themselves.  A child
    writes them anew: other tests may have added names to this process's tf."""
    subprocess.run([sys.executable, "-m", "pyflow.tools.tables", str(tmp_path)], check=True)
    package = importlib.resources.files("pyflow")
    for name in ("_public.py", "ops/op_types.py", "__init__.pyi"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (package / name).read_text(
            encoding="utf-8"), f"public names or ops changed, {name} is old: make tables"


def test_mypy(stub, tmp_path):
    """Strict, on the stub and on the program; seven wrong lines are found, so it is not all Any."""
    package = tmp_path / "pyflow"
    package.mkdir()
    (package / "__init__.pyi").write_text(stub, encoding="utf-8")
    (package / "py.typed").touch()
    shutil.copy(HERE / "program.py", tmp_path)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import pyflow as tf\n"
        "x: int = tf.matmul([[1.0]], [[1.0]])\n"
        "tf.matmul([[1.0]], [[1.0]], transpose=True)\n"
        "tf.Session().sess_run\n"
        "tf.add(1.0, {'a': 1.0})\n"
        "tf.matmul(object(), [[1.0]])\n"
        "tf.constant([1.0]) + open\n"
        "tf.reshape([1.0], 'x')\n"
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
        [*command, "program.py", "pyflow/__init__.pyi"],
        cwd=tmp_path,
        text=True,
        capture_output=True,
    )
    assert right.returncode == 0, right.stdout + right.stderr
    found = subprocess.run([*command, "wrong.py"], cwd=tmp_path, text=True, capture_output=True)
    assert [line.split(":")[1] for line in found.stdout.splitlines() if ": error:" in line] == [
        "2",
        "3",
        "4",
        "5",
        "6",
        "7",
        "8",
    ], found.stdout
