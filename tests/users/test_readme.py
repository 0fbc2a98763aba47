"""What README says is so: its program runs, its links lead somewhere, its tables are complete."""
import pathlib
import re
import subprocess
import sys

from pyflow import config
from pyflow.framework.op_schema import parse_signature

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title):
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_twenty_lines_run(tmp_path):
    [code] = re.findall(r"```python\n(.*?)```", section("Twenty lines"), re.S)
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    code = code.replace("/tmp/quadrants", str(tmp_path / "quadrants"))
    code = code.replace("import pyflow as tf\n", "import pyflow as tf\ntf.set_random_seed(1)\n")
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    right = float(re.search(r"([\d.]+)% right", done.stdout)[1])
    assert right > 95 and (tmp_path / "quadrants.index").is_file(), done.stdout
    for what in (tmp_path / "quadrants", tmp_path / "quadrants.meta"):
        done = subprocess.run([sys.executable, "-m", "pyflow", "explain", str(what)], text=True,
                              capture_output=True)
        assert done.returncode == 0 and "w1" in done.stdout, done.stderr


def test_links_and_files_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert target.startswith("http") or (ROOT / target).exists(), target
    for name in re.findall(r"`((?:tests|examples|benchmarks|plugins|include)/[\w/.]+)`", TEXT):
        assert (ROOT / name).exists(), name


def test_the_excerpt_of_the_plugin_is_the_plugin():
    [excerpt] = re.findall(r"```c\n(.*?)```", TEXT, re.S)
    source = (ROOT / "examples/plugin_hello/hello.c").read_text(encoding="utf-8")
    for line in excerpt.splitlines():
        assert line.strip() in source, line


def test_the_signature_parses():
    signature = re.search(r'^    "(a: T.*)"$', section("Signatures"), re.M)[1]
    parse_signature(signature)


def test_every_environment_variable_is_listed():
    listed = re.findall(r"^\| `(PYFLOW_\w+)`", section("Environment variables"), re.M)
    assert sorted(listed) == sorted(config.VARIABLES)


def test_the_map_names_every_folder_and_core_module():
    text = section("Map of the code")
    for package in (ROOT / "pyflow").iterdir():
        if (package / "__init__.py").is_file():
            assert f"{package.name}/" in text, package.name
    for module in (ROOT / "_executor/core").rglob("*.pyx"):
        assert re.search(rf"\b{module.stem}\b", text), module.stem
