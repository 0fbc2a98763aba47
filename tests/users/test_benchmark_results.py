"""benchmarks/results: a row a line, written by resultfile.py, read by whoever reads results."""
import ast
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCHMARKS = ROOT / "benchmarks"
FILES = sorted((BENCHMARKS / "results").glob("*.json"))


@pytest.fixture(scope="module")
def resultfile():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import resultfile
    finally:
        sys.path.remove(str(BENCHMARKS))
    return resultfile


def test_a_row_is_a_line(resultfile, tmp_path):
    row = {"case": "add", "ratio": 1 / 3, "bytes": 33554432, "kept": [0.1, True, None]}
    found = {"machine": {"cpu": "x"}, "rows": [row] * 40, "empty": []}
    resultfile.write(tmp_path / "r.json", found)
    lines = (tmp_path / "r.json").read_text().splitlines()
    assert len(lines) == 2 + 2 + 2 + 40 and lines[1] == ' "machine": {"cpu": "x"},'
    assert lines[3] == ('  {"case": "add", "ratio": 0.333333, "bytes": 33554432, '
                        '"kept": [0.1, true, null]},')
    again = json.loads("\n".join(lines))
    assert again["rows"][7]["ratio"] == pytest.approx(1 / 3, rel=1e-5)
    assert {**again["rows"][7], "ratio": 0} == {**row, "ratio": 0} and again["empty"] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_kept_results_are_as_the_writer_writes_them(resultfile, path):
    text = path.read_text(encoding="utf-8")
    assert text == resultfile.text(json.loads(text)), f"json.load and resultfile.write {path.name}"


def test_every_benchmark_writes_its_rows_so():
    """ab.py, which runs with -P and finds no module beside itself, writes its one line a row."""
    for path in BENCHMARKS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "indent=" not in text and "json.dump(" not in text, path.name
        if re.search(r'add_argument\("--(json|out)"', text) and path.name != "ab.py":
            names = {node.func.attr for node in ast.walk(ast.parse(text))
                     if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                     and getattr(node.func.value, "id", "") == "resultfile"}
            assert "write" in names, path.name


def test_readers_read_them():
    """As `make bench` runs them: with their own folder on the path, unlike the tests'."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    newest = BENCHMARKS / "results" / "2026-11-23-intel-quick.json"
    for reader, says in (("report.py", "| noop_chain, op |"),
                         ("marks.py", "small_16/1 threads: 0.96 of numpy")):
        done = subprocess.run([sys.executable, BENCHMARKS / reader, newest], text=True,
                              capture_output=True, env=environment)
        assert done.returncode == 0 and says in done.stdout, (reader, done.stderr, done.stdout)
