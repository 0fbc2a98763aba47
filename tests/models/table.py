"""Writes the table of docs/onnx.md from a file of run.py's.

    python tests/models/table.py benchmarks/results/models.json docs/onnx.md

What lies between the lines `<!-- models -->` and `<!-- end of models -->` is replaced.
"""
import json
import math
import pathlib
import sys

from catalog import MODELS

BEGIN, END = "<!-- models -->\n", "<!-- end of models -->\n"


def lines(results):
    """The table, a line a model."""
    said = {row["model"]: row for row in results["answers"]}
    taken = {(row["model"], row["threads"]): row for row in results["times"]}
    counts = sorted({row["threads"] for row in results["times"]})
    yield "| package and file | " + "".join(
        f"{n} thread{'s' if n > 1 else ''}, ms | ratio | " for n in counts) + "noise | its |"
    yield "|---" * (3 + 2 * len(counts)) + "|"
    package = None
    for model in MODELS:
        if model.name not in said:
            continue
        if model.package != package:
            package = model.package
            yield f"| **{package.replace('npm:', '')}** |" + " |" * (2 + 2 * len(counts))
        cells = [pathlib.PurePath(model.file).name]
        for threads in counts:
            row = taken.get((model.name, threads), {})
            cells += [f"{row['pyflow'] * 1e3:.3g}", f"{row['ratio']:.2f}"] if "ratio" in row else \
                ["", ""]
        row = said[model.name]
        cells += [f"{row[who]:.0e}".replace("e-0", "e-") if "error" not in row else "fails"
                  for who in ("ours", "theirs")]
        yield "| " + " | ".join(cells) + " |"
    means = []
    for threads in counts:
        ratios = [row["ratio"] for (_, n), row in taken.items() if n == threads and "ratio" in row]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
        means += ["", f"**{mean:.2f}**"]
    yield "| geometric mean | " + " | ".join(means) + " | | |"


def main(results, page):
    page = pathlib.Path(page)
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    found = json.loads(pathlib.Path(results).read_text(encoding="utf-8"))
    page.write_text(before + BEGIN + "\n".join(lines(found)) + "\n" + END + after,
                    encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:3])
