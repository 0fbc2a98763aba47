"""What of a report of run.py is below its mark, a line each.

    python benchmarks/marks.py benchmarks/results/NAME.json

The marks: run.py's cases and elementwise.py's rows carry theirs; products as gemm.py says;
a wide graph's speed-up on two threads 0.95 of what C threads get; networks' convolutions 0.9 of the
peer's speed in geometric mean; ONNX models at most 1.1 of onnxruntime's time in geometric mean and
1.3 each; a training step's peak of memory no higher than TensorFlow's (as users run it: with its
rewrites) or torch's.
"""

import json
import math
import sys

from gemm import missed

WIDE_GRAPH = 0.95           # of the speed-up that C threads have
CONVOLUTIONS = 0.9          # of the peer's speed
MODELS, EACH_MODEL = 1.1, 1.3      # of the peer's time
MEMORY = 1.02               # of the least peer's peak: pages are not all told apart


def below(report):
    for name, case in report.get("cases", {}).items():
        if not case["ok"]:
            yield f"{name}: {case['verdict']}"
    wide = report.get("wide_graph", {}).get("ratio", WIDE_GRAPH)
    if wide < WIDE_GRAPH:
        yield f"wide_graph: {wide:.2f} of the speed-up of C threads"
    for part in (memory, products, elementwise, convolutions, models):
        yield from part(report)


def memory(report):
    for model, found in report.get("memory", {}).items():
        peaks = {peer: found[peer]["rss"] for peer in ("pyflow", "tf", "torch")
                 if "rss" in found.get(peer, {})}
        ours = peaks.pop("pyflow", None)
        for peer, peak in peaks.items() if ours else ():
            if ours > MEMORY * peak:
                yield f"memory of {model}: {ours / peak:.2f} of {peer}'s"


def products(report):
    for name, row in report.get("gemm", {}).items():
        for peer in missed(name, row.get("ratios", {})):
            yield f"{name} threads: {row['ratios'][peer]:.2f} of {peer}"


def elementwise(report):
    for row in report.get("elementwise", {}).get("rows", []):
        best = max(row["ratio"], row.get("bound_ratio", 0))
        if best < (row["wanted"] or 0):
            yield f"{row['case']}, {row['threads']} threads: {best:.2f} of {row['wanted']}"


def convolutions(report):
    for row in report.get("conv", {}).get("means", []):
        if row["ratio"] < CONVOLUTIONS:
            yield (f"convolutions of {row['net']}, {row['which']}, batch {row['batch']}, "
                   f"{row['threads']} threads: {row['ratio']:.2f} of the peer")


def models(report):
    by_threads = {}
    for row in report.get("onnx_models") or []:
        by_threads.setdefault(row["threads"], []).append(row["ratio"])
        if row["ratio"] > EACH_MODEL:
            yield f"{row['model']}, {row['threads']} threads: {row['ratio']:.2f} of the peer's time"
    for threads, ratios in by_threads.items():
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        if mean > MODELS:
            yield f"ONNX models, {threads} threads: {mean:.2f} of onnxruntime's time (mean)"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(*(list(below(json.load(file))) or ["nothing"]), sep="\n")
