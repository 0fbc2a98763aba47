"""The distribution is `pyflow-dataflow`, imported as pyflow: texts, metadata and versions agree.

`pyflow` on the package registry is another project, which `pip install pyflow` would put in our place.
"""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib
import types
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NAME = "pyflow-dataflow"
KINDS = ("*.md", "*.py", "*.pyx", "*.pxi", "*.toml", "*.build", "*.c", "*.h", "*.cu")


def texts():
    """(path, text) of what tells people what to install."""
    yield ROOT / "Makefile", (ROOT / "Makefile").read_text(encoding="utf-8")
    yield ROOT / "README.md", (ROOT / "README.md").read_text(encoding="utf-8")
    for folder in ("docs", "examples", "pyflow", "_executor", "plugins", "include", "benchmarks"):
        for kind in KINDS:
            for path in (ROOT / folder).rglob(kind):
                if "build" not in path.parts and "__pycache__" not in path.parts:
                    yield path, path.read_text(encoding="utf-8")


def test_the_name_is_our_own():
    assert PROJECT["name"] == NAME
    others = [tomllib.loads(p.read_text(encoding="utf-8"))["project"]
              for p in (ROOT / "plugins").glob("*/pyproject.toml")]
    assert sorted(p["name"] for p in others) == [f"{NAME}-cpu", f"{NAME}-cuda"]


def test_nobody_is_told_to_install_the_other_pyflow():
    asks = re.compile(r"(?:pip3? install|dependencies)[^\n]*?[\s\"'\[](pyflow(?![\w.-]*dataflow)(?:\[\w+\])?)"
                      r"(?=[\s\"'`,)\]=<>~]|$)", re.M)
    assert asks.search('pip install "pyflow[images]"') and asks.search("pip install pyflow pillow")
    found = {}
    for path, text in texts():
        if match := asks.search(text):
            found[str(path.relative_to(ROOT))] = match[0]
    assert not found
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"dist/([\w-]+)-\*\.whl", makefile)) == {NAME.replace("-", "_")}


def test_a_source_tree_that_hides_the_installed_package_says_so(monkeypatch):
    """README's twenty lines in the root of a tree, after `make demo`."""
    from pyflow.session import runtime
    monkeypatch.setattr(runtime, "__file__", str(ROOT / "pyflow/session/runtime.py"))
    monkeypatch.setitem(sys.modules, "pyflow._executor", None)
    monkeypatch.delattr("pyflow._executor", raising=False)
    with pytest.raises(ImportError) as caught:
        runtime.executor()
    assert f"is the source tree {ROOT}" in str(caught.value)
    assert "PYTHONSAFEPATH=1" in str(caught.value) and "pip install ." in str(caught.value)


def test_extras_in_texts_exist():
    for path, text in texts():
        for extra in re.findall(rf"{NAME}\[(\w+)\]", text):
            assert extra in PROJECT["optional-dependencies"], (path, extra)


def test_one_version():
    """tf.pyflow_version, the wheel, meson's projects and what a plugin is told agree."""
    version = PROJECT["version"]
    for path, pattern in {"pyflow/__init__.py": r'pyflow_version = "(.+)"', "meson.build": r"version: '(.+)',",
                          "_executor/core/step/host.pyx": r'table\.name = b"pyflow (.+)"'}.items():
        assert re.search(pattern, (ROOT / path).read_text(encoding="utf-8"))[1] == version, path


@pytest.mark.skipif(shutil.which("git") is None, reason="a checkout is made with git")
def test_a_wheel_names_its_commit(tmp_path, monkeypatch):
    """pyflow/commit.txt is the checkout's, with a plus where files were changed since."""
    spec = importlib.util.spec_from_file_location("backend", ROOT / "_executor" / "build_backend.py")
    monkeypatch.setitem(sys.modules, "mesonpy", types.SimpleNamespace(
        build_sdist=None, get_requires_for_build_sdist=None, get_requires_for_build_wheel=None))
    backend = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(backend)
    monkeypatch.setattr(backend, "ROOT", tmp_path)
    assert backend.commit() == ""

    def git(*words):
        return subprocess.run(["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b",
                               *words], check=True, capture_output=True, text=True).stdout
    git("init", "-q")
    (tmp_path / "x").write_text("1")
    git("add", "x")
    git("commit", "-qm", "one")
    assert backend.commit() == git("rev-parse", "--short=12", "HEAD").strip()
    (tmp_path / "x").write_text("2")
    assert backend.commit().endswith("+")
    wheel = tmp_path / "a-1-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("a-1.dist-info/WHEEL", "Tag: py3-none-linux_x86_64\n")
        archive.writestr("a-1.dist-info/RECORD", "")
    with zipfile.ZipFile(backend.finish(wheel)) as archive:
        assert archive.read("pyflow/commit.txt").decode() == backend.commit()
        assert "pyflow/commit.txt,sha256=" in archive.read("a-1.dist-info/RECORD").decode()
