"""The distribution is `pyflow-dataflow`, imported as pyflow: texts, metadata and versions agree.

`pyflow` on the package registry is another project, which `pip install pyflow` would put in our place.
"""
import pathlib
import re
import tomllib

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
