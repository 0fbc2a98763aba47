"""docs/paths.md and the kernels agree: which files are fast paths, which benchmark rows pay for them, what they gain."""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "plugins" / "cpu" / "kernels"
PAGE = (ROOT / "docs" / "paths.md").read_text(encoding="utf-8")
ROWS = {file: (set(rows.split(", ")), gain) for file, rows, gain in
        re.findall(r"^\| `(\w+/\w+\.[ch])` \| ([\w, ]+) \| ([^|]+) \|", PAGE, re.M)}
# Files for one instruction set alone that are the only way to what they do, with a plain half of their own.
NO_PATHS = {"conv/conv_tile.h", "gemm/tile.h", "reduce/reduce_loops.h", "vec/simd.h"}


def sources():
    """{path: text} of kernel files of over 100 lines."""
    found = {p.relative_to(KERNELS).as_posix(): p.read_text(encoding="utf-8") for p in KERNELS.rglob("*.[ch]")}
    return {name: text for name, text in found.items() if text.count("\n") > 100}


def benchmark_rows():
    """Every row of a recorded result: what `case`, `model` or a key calls it."""
    names = set()

    def walk(value):
        if isinstance(value, dict):
            names.update(key.partition("/")[0] for key in value)
            names.update(value[key] for key in ("case", "model") if isinstance(value.get(key), str))
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                walk(item)
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        walk(json.loads(path.read_text(encoding="utf-8")))
    return names


def test_the_page_lists_the_files_that_say_so():
    said = {name: match[1] for name, text in sources().items()
            if (match := re.search(r"\* Fast path: ([\w, ]+) \(docs/paths\.md\)\.", text))}
    assert said.keys() == ROWS.keys() and len(said) >= 20
    assert {name: set(rows.split(", ")) for name, rows in said.items()} == {n: rows for n, (rows, _) in ROWS.items()}


def test_rows_are_measured():
    known = benchmark_rows()
    for name, (rows, _) in ROWS.items():
        assert rows <= known, f"{name}: no benchmark has {rows - known}"


def test_every_path_is_worth_its_lines():
    for name, (_, gain) in ROWS.items():
        if gain.strip() == "as above":
            continue
        assert max(map(float, re.findall(r"(?<![\d-])(\d+\.?\d*)(?![\d-]*-\d\d)", gain.partition("(")[0])), default=0) >= 1.1, \
            f"{name} gains {gain}: below 1.1 everywhere it goes"


def test_files_for_one_instruction_set_are_paths():
    """Over 100 lines behind `#if defined(__AVX512...`: listed, or known to be the only way."""
    found = set()
    for name, text in sources().items():
        code = re.sub(r"/\*.*?\*/", "", text, count=1, flags=re.S).strip().splitlines()
        if any(re.match(r"#if .*(AVX512|GEMM_AMX|PAIRS)", line) for line in [line for line in code if line.strip()][:6]):
            found.add(name)
    assert found - ROWS.keys() == NO_PATHS and len(found) > 8
