"""How results are kept: JSON with a row a line; files are short, a diff shows what changed.

    resultfile.write("results/today.json", {"machine": {...}, "rows": [{...}, {...}]})
    json.load(open("results/today.json"))           # ordinary JSON

What fits in one line of ROW characters is a row; longer containers are opened, and so is the
outermost.  Floats keep DIGITS digits: of what is measured here the third already wanders.
"""
import json
import pathlib

ROW = 1000
DIGITS = 6


def text(found):
    """`found` as JSON, a row a line."""
    return _opened(_short(found), "") + "\n"


def write(path, found):
    """Writes `found` into the file `path`."""
    pathlib.Path(path).write_text(text(found), encoding="utf-8")


def _short(value):
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {str(key): _short(v) for key, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, (list, tuple)) else value


def _opened(value, indent):
    if not value or not isinstance(value, (dict, list)):
        return json.dumps(value)
    inner = indent + " "
    if isinstance(value, list):
        lines, ends = [inner + _line(v, inner) for v in value], "[]"
    else:
        lines = [f"{inner}{json.dumps(key)}: {_line(v, inner)}" for key, v in value.items()]
        ends = "{}"
    return ends[0] + "\n" + ",\n".join(lines) + f"\n{indent}{ends[1]}"


def _line(value, indent):
    found = json.dumps(value)
    return found if len(found) <= ROW else _opened(value, indent)
