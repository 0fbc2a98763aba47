"""A results file of run.py as a Markdown table.

python benchmarks/report.py benchmarks/results/NAME.json
"""

import json
import sys

PEERS = ("pyflow", "tf", "tf_single", "torch", "numpy")


def human(seconds):
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns")):
        if seconds * scale >= 1:
            break
    return f"{seconds * scale:.3g} {unit}"


def table(report):
    yield "| per | " + " | ".join(PEERS) + " | pyflow against peers |"
    yield "|---" * (len(PEERS) + 2) + "|"
    for name, case in report["cases"].items():
        cells = [human(case["seconds"][p]) if p in case["seconds"] else "" for p in PEERS]
        yield f"| {name}, {case['unit']} | " + " | ".join(cells) + f" | {case['verdict']} |"
    if "ratio" in report.get("wide_graph", {}):
        wide = report["wide_graph"]
        yield (
            f"\n64 kernels of {wide['kernel_ms']:.2f} ms on two threads against one: C threads {wide['c_speedup']:.3f}x, "
            f"pyflow {wide['pyflow_speedup']:.3f}x: {wide['ratio']:.3f} of it (wanted 0.95)."
        )
    yield f"\nFloors in C, ns: {report['floors_ns']}.  Machine: {report['machine']['cpu']}, {report['machine']['cores']} cores, "
    yield f"load {report['machine']['load'][0]:.1f} before and {report['machine']['load_after'][0]:.1f} after; {report['versions']}."


if __name__ == "__main__":
    print("\n".join(table(json.load(open(sys.argv[1], encoding="utf-8")))))
