"""A results file of run.py or of elementwise.py as Markdown tables.

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
    """The cases of run.py, and the machine."""
    yield "| per | " + " | ".join(PEERS) + " | pyflow against peers |"
    yield "|---" * (len(PEERS) + 2) + "|"
    for name, case in report["cases"].items():
        cells = [human(case["seconds"][p]) if p in case["seconds"] else "" for p in PEERS]
        yield f"| {name}, {case['unit']} | " + " | ".join(cells) + f" | {case['verdict']} |"
    if "ratio" in report.get("wide_graph", {}):
        wide = report["wide_graph"]
        yield (f"\n64 kernels of {wide['kernel_ms']:.2f} ms on two threads against one: C threads "
               f"{wide['c_speedup']:.3f}x, pyflow {wide['pyflow_speedup']:.3f}x: "
               f"{wide['ratio']:.3f} of it (wanted 0.95).")
    machine = report["machine"]
    yield (f"\nFloors in C, ns: {report['floors_ns']}.  Machine: {machine['cpu']}, "
           f"{machine['cores']} cores, load {machine['load'][0]:.1f} before and "
           f"{machine['load_after'][0]:.1f} after; {report['versions']}.")


def elementwise_table(rows):
    """elementwise.py's rows: ratio to the streaming loop / to the case's own bound."""
    cases = {}
    for row in rows:
        cases.setdefault(row["case"], {})[row["threads"]] = row
    yield "| case | 1 thread: streaming / bound | 2 threads | torch, 1 thread | what binds it |"
    yield "|---" * 5 + "|"
    for name, by_threads in cases.items():
        if name.startswith("chain"):
            continue
        one = by_threads.get(1, {})
        torch = f"{one['against_torch']:.1f}" if "against_torch" in one else ""
        yield (f"| {name} | {ratios(one)} | {ratios(by_threads.get(2, {}))} | {torch} | "
               f"{one.get('bound', '')} |")


def ratios(row):
    return " / ".join(f"{row[key]:.2f}" for key in ("ratio", "bound_ratio") if key in row)


def main(path):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    if "cases" in report:
        print(*table(report), sep="\n")
    rows = report.get("rows") or report.get("elementwise", {}).get("rows")
    if rows:
        print("", *elementwise_table(rows), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
