"""README's figures are those of a record, or of the tree: none is a memory of another day."""
import json
import math
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SPEED = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
# A row of the table of speed: the record it is from, and its cases in the order of the figures.
ROWS = {
    "10,000 scalar adds": ("2026-11-21", ["add_chain"]),
    "`session.run`": ("2026-11-21", ["one_add_run"]),
    "`while_loop`": ("2026-11-21", ["while_matmul"]),
    "training step": ("2026-11-21", ["train_mlp", "train_lenet"]),
    "PTB-small": ("2026-11-22", ["train_ptb"]),
}
PEERS = (("pyflow",), ("tf", "tf_single"), ("torch",))          # TensorFlow: its faster executor


def record(name):
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))


def table(text):
    """{first words of a row: its other cells} of the table that begins with `| work |`."""
    rows = re.search(r"^\| work \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M)[1].splitlines()
    return {cells[0]: cells[1:] for cells in ([c.strip() for c in row.strip("|").split("|")] for row in rows)}


def seconds(cell):
    """[value in seconds] of `0.53, 62 ms` or `1.6 us, 3 ms`."""
    found, unit = [], None
    for part in reversed(cell.split(",")) if not re.fullmatch(r"[\d,]+ ns", cell) else [cell.replace(",", "")]:
        number, *named = part.split()
        unit = UNITS[named[0]] if named else unit
        found.insert(0, float(number) * unit)
    return found


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_table_of_speed(row):
    name, cases = ROWS[row]
    [cells] = [cells for title, cells in table(README).items() if title.startswith(row)]
    found = record(name)["cases"]
    for cell, peers in zip(cells, PEERS, strict=True):
        measured = [min(found[case]["seconds"][p] for p in peers if p in found[case]["seconds"]) for case in cases]
        assert seconds(cell) == pytest.approx(measured, rel=0.04), (row, cell)


def test_every_row_is_looked_at():
    assert len(table(README)) == len(ROWS)


def test_nine_networks():
    """README's and speed.md's mean of the ratios of one image."""
    for threads, text in ((1, README), (1, SPEED), (2, SPEED)):
        ratios = [row["ratio"] for row in record("2026-11-22")["onnx_models"] if row["threads"] == threads]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        assert len(ratios) == 9 and re.search(rf"\b{mean:.2f}\b", text), (threads, mean)
    assert "nine ONNX networks takes 0.62 of" in README


def test_onnx_s_suite():
    """The share that README says is that of docs/onnx.md's counts, and these those of the known failures."""
    onnx = (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8")
    passed, of, share = re.search(r"([\d,]+) of ([\d,]+) cases pass\s+\(([\d.]+) %\)", onnx).groups()
    passed, of = (int(n.replace(",", "")) for n in (passed, of))
    known = json.loads((ROOT / "tests/onnx/known.json").read_text(encoding="utf-8"))
    assert f"{passed / of:.1%}".rstrip("%") == share and f"{share} %\nof" not in README
    assert f"{share} % of ONNX's own backend suite" in README.replace("\n", " ")
    missing = sum(len(names) for names in known["left out"].values()) + len(known["failing"])
    assert missing >= of - passed


def test_the_smallest_plugin():
    lines = (ROOT / "examples/plugin_hello/hello.c").read_text(encoding="utf-8").splitlines()
    assert "A complete one takes 30 lines of C" in README.replace("\n", " ") and 25 <= len(lines) <= 35


def test_the_digits():
    """What the demo asks for, and how many digits there are."""
    script = (ROOT / "examples/01_digits.py").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", README)
    assert "unless each reaches 97 %" in text and re.search(r"0\.97\b", script)
    import gzip
    with gzip.open(ROOT / "examples/data/digits.csv.gz", "rt") as file:
        rows = sum(1 for line in file if line[:1].isdigit())
    assert "1,437 real handwritten digits" in text and "the other 360" in text and rows == 1437 + 360


def test_no_other_figures_of_time_or_size():
    """Whoever adds one says here where it is from."""
    prose = re.sub(r"```.*?```|^    [^\n]*$|^\|[^\n]*$", "", README, flags=re.S | re.M)
    found = re.findall(r"\d[\d.,]* (?:ns|us|ms|s|MB|KB|minutes)\b", prose)
    assert sorted(found) == ["0.7 MB", "1.0 s", "142 s", "25 MB", "40 s", "6.7 MB"]


def test_times_of_builds_and_installations():
    """Those of benchmarks/install.py, each beside the processor that it was measured on."""
    text = re.sub(r"\s+", " ", README)
    rows = {row["processor"]: row for row in record("install") if row["isa"] == "all"}
    demo, kind = re.search(r"`make demo` took (\d+) s on two cores of an ([A-Z][\w ]+)\.", text).groups()
    assert float(demo) == round(rows[f"x86_64, {kind}"]["make_demo"])
    kind, wheel, step = re.search(r"on two busy cores of an ([A-Z][\w ]+) it was installed in (\d+) s, "
                                  r"import and first step took ([\d.]+) s", text).groups()
    row = rows[f"x86_64, {kind}"]
    assert row["cores"] == 2 and float(wheel) == round(row["wheel"])
    assert float(step) == round(row["first_step"], 1)


def test_sizes():
    """What README says of sizes is what the built files have, a tenth more or less."""
    import pyflow
    built = pathlib.Path(pyflow.__file__).parent / "lib" / "libpyflow_rt.so"
    assert built.stat().st_size / 1e6 == pytest.approx(0.7, rel=0.1)
    for wheel in (ROOT / "dist").glob("pyflow_dataflow-*.whl"):
        if wheel.stat().st_size > 5e6:              # not one of ISA=baseline
            assert wheel.stat().st_size / 1e6 == pytest.approx(6.7, rel=0.1)


def test_every_command_is_named():
    from pyflow.tools import command
    for name in command.COMMANDS:
        assert f"`{name}`" in README or f"`python -m pyflow {name}" in README, name
