"""_executor/build_backend.py: what pip builds wheels with, and its no to an editable install that
could not be imported."""
import base64
import hashlib
import importlib.util
import pathlib
import re
import subprocess
import sys
import tomllib
import types
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = ROOT / "_executor" / "build_backend.py"


def load(monkeypatch, place):
    """The module beside a meson-python that lies at `place`."""
    mesonpy = types.ModuleType("mesonpy")
    mesonpy.__file__ = str(place)
    for hook in ("build_sdist", "get_requires_for_build_sdist", "get_requires_for_build_wheel",
                 "get_requires_for_build_editable", "build_editable", "build_wheel"):
        setattr(mesonpy, hook, lambda *args, hook=hook: hook)
    monkeypatch.setitem(sys.modules, "mesonpy", mesonpy)
    spec = importlib.util.spec_from_file_location("build_backend", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def backend(monkeypatch, tmp_path):
    return load(monkeypatch, tmp_path / "site-packages/mesonpy/__init__.py")


def test_pip_calls_it():
    system = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert system["build-backend"] == PATH.stem and system["backend-path"] == [PATH.parent.name]
    shadowed = {p.stem for p in PATH.parent.glob("*.py")} & sys.stdlib_module_names
    assert not shadowed, f"before the standard library on the build's path: {shadowed}"


@pytest.mark.parametrize("folder", ["tmp/pip-build-env-x1y2/overlay/lib", "cache/uv/builds-v0/.tmpA/lib"])
def test_an_editable_install_in_isolation_is_refused(monkeypatch, tmp_path, folder):
    backend = load(monkeypatch, tmp_path / folder / "mesonpy/__init__.py")
    for hook in (backend.get_requires_for_build_editable, lambda: backend.build_editable(tmp_path)):
        with pytest.raises(SystemExit) as caught:
            hook()
        text = str(caught.value)
        assert "make dev" in text and "pip install --no-build-isolation -e ." in text
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    for name in (tool.split()[0] for tool in tools):
        assert name in backend.REFUSED, f"the text lacks {name}, which a build needs"


def test_an_editable_install_with_the_tools_at_hand(backend, tmp_path, monkeypatch):
    """It has the types beside the modules, where editors look."""
    written = []
    monkeypatch.setattr(backend, "write_types", written.append)
    assert backend.build_editable(tmp_path) == "build_editable"
    assert written == [ROOT / "pyflow"]


def test_the_types_are_made_for_the_wheel(backend, tmp_path):
    """By the tree's modules alone, no executor; none is committed."""
    types = backend.write_types(tmp_path / "made")
    assert {"pyflow/__init__.pyi", "pyflow/nn/__init__.pyi", "pyflow/compat/v1.pyi"} <= types.keys()
    assert b"class Tensor" in types["pyflow/__init__.pyi"]
    assert re.search(r"(?m)^pyflow/\*\*/\*\.pyi$", (ROOT / ".gitignore").read_text(encoding="utf-8"))


@pytest.fixture
def library(tmp_path):
    """library(source): compiled with symbols and debugging sections, as bytes."""
    def compiled(source, *flags):
        (tmp_path / "a.c").write_text(source)
        subprocess.run(["cc", "-g", "-shared", "-fPIC", "-o", tmp_path / "a.so", tmp_path / "a.c", *flags], check=True)
        return (tmp_path / "a.so").read_bytes()
    return compiled


SOURCE = "#include <string.h>\nstatic __attribute__((noinline)) long hidden(const char *s) { return (long)strlen(s); }\n" \
         "long shown(const char *s) { return hidden(s) + 1; }\n"


def test_a_library_is_stripped(backend, library):
    whole = library(SOURCE)
    small = backend.stripped(whole)
    assert len(small) < len(whole) and b"hidden" in whole and b"hidden" not in small and b"shown" in small
    assert backend.stripped(b"\x7fELF, not really") == b"\x7fELF, not really"


def test_the_platform_tag(backend, library):
    def names(*words):
        return b"\0" + b"\0".join(words) + b"\0"
    old = names(b"libc.so.6", b"GLIBC_2.2.5", b"GLIBC_2.17", b"libpyflow_rt.so")
    new = names(b"libm.so.6", b"GLIBC_2.35", b"GLIBC_2.9")
    assert backend.platform_tag([old]) == "manylinux_2_17"
    assert backend.platform_tag([old, new]) == "manylinux_2_35"
    assert backend.platform_tag([old, names(b"libblas.so.3", b"GLIBC_2.4")]) is None
    assert backend.platform_tag([names(b"libc.musl-x86_64.so.1")]) is None
    assert backend.platform_tag([library(SOURCE)]).startswith("manylinux_2_")


def test_a_wheel_is_finished(backend, library, tmp_path):
    info = "p-1.dist-info"
    wheel = tmp_path / "p-1-cp311-abi3-linux_x86_64.whl"
    data = library(SOURCE)
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("p/lib.so", data)
        z.writestr("p/__init__.py", "x = 1\n")
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: cp311-abi3-linux_x86_64\n")
        z.writestr(f"{info}/RECORD", "")
        z.writestr("p/old.pyi", "y: int")           # of a developer's tree
    made = backend.finish(wheel, {"p/__init__.pyi": b"x: int"})
    assert made.name.startswith("p-1-cp311-abi3-manylinux_2_") and not wheel.exists()
    with zipfile.ZipFile(made) as z:
        tag = made.stem.rpartition("-")[2]
        assert f"Tag: cp311-abi3-{tag}\n" in z.read(f"{info}/WHEEL").decode()
        assert 0 < len(z.read("p/lib.so")) < len(data)
        assert z.read("p/__init__.pyi") == b"x: int" and "p/old.pyi" not in z.namelist()
        rows = [line.split(",") for line in z.read(f"{info}/RECORD").decode().splitlines()]
        assert sorted(row[0] for row in rows) == sorted(z.namelist())
        for name, digest, size in rows:
            if name != f"{info}/RECORD":
                got = hashlib.sha256(z.read(name)).digest()
                assert digest == "sha256=" + base64.urlsafe_b64encode(got).rstrip(b"=").decode()
                assert int(size) == len(z.read(name))


def test_the_installed_wheel_says_who_made_it():
    """The author; and no address, for there is none: nothing is invented."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["authors"] and project["license"] and "urls" not in project
