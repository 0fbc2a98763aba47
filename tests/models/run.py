"""Trained models out of published packages: pyflow's answers and time beside onnxruntime's.

    python tests/models/run.py --ort ORT_PYTHON [--only NAME ...] [--threads 1 2] [--rounds 3]
        [--seconds 0.3] [--check | --times] [--json FILE] [--folder build/models]

ORT_PYTHON has onnxruntime and onnx.  Both systems run the same program (child.py), in pyflow's
`import onnxruntime` finds pyflow.  Each round starts a fresh process of each per model; the two are
timed in turn, a time is the median of the rounds'.  A ratio is pyflow's time divided by
onnxruntime's: below 1 pyflow is faster.

Noise: the model is also computed in float64 (doubles.py), and each system's distance from that is
the root of the mean square of its outputs' differences, relative to the outputs' own, over SEEDS
inputs of each case.  pyflow's may be at most twice onnxruntime's, or FLOOR.  Whole numbers must be
equal.

Exits with 1 if a model does not run, differs, or is above WORST, or their mean above MEAN.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "benchmarks")]

import resultfile  # noqa: E402
from catalog import MODELS  # noqa: E402
from fetch import fetch  # noqa: E402

FLOOR = 1e-6            # of the outputs: eight roundings of float32
SEEDS = 3
MEAN, WORST = 0.7, 1.25     # ratios wanted


class Child:
    """One process of child.py."""

    def __init__(self, python, system):
        self.process = subprocess.Popen([python, "-P", str(HERE / "child.py"), system], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": "the process died"}

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


# ------------------------------------------------------------------------------------------ answers
def drawn(model):
    """The cases, each as often as it is drawn; what is timed is first."""
    return [case for _ in range(SEEDS) for case in model.cases]


def write_feeds(model, folder):
    """Files of the cases' arrays, as they are and in float64."""
    paths = []
    for i, case in enumerate(drawn(model)):
        rng = np.random.default_rng(i)
        arrays = {name: make(rng) for name, make in case.items()}
        wide = {name: a.astype(np.float64) if a.dtype.kind == "f" else a
                for name, a in arrays.items()}
        paths.append(folder / f"case{i}.npz")
        for kind, values in (("", arrays), ("64", wide)):
            np.savez(folder / f"case{i}{kind}.npz", **values)
    return paths


def reference(model, path, ort):
    """Files of the answers in float64, kept for the next run; the reason if there are none."""
    folder = path.parent
    saved = [folder / f"reference{i}.npz" for i in range(len(drawn(model)))]
    if all(s.exists() for s in saved):
        return saved, None
    wide = folder / "model64.onnx"
    made = subprocess.run([ort, "-P", str(HERE / "doubles.py"), str(path), str(wide)], text=True,
                          capture_output=True)
    if made.returncode:
        return None, made.stderr.strip().split("\n")[-1]
    child = Child(sys.executable, "pyflow")
    said = child.ask(load=str(wide), threads=1, save=[str(s) for s in saved],
                     feeds=[str(folder / f"case{i}64.npz") for i in range(len(saved))])
    child.close()
    wide.unlink()
    return (None, said["error"]) if "error" in said else (saved, None)


def distance(found, wanted):
    """How far the float outputs lie from the reference's, and how many whole numbers differ."""
    worst, unequal = 0.0, 0
    for key in wanted.files:
        a, b = found[key], wanted[key]
        if a.shape != b.shape:
            return math.inf, a.size
        if b.dtype.kind not in "fc":
            unequal += int((a != b).sum())
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        odd = ~np.isfinite(b)
        if not np.array_equal(a[odd], b[odd], equal_nan=True) or not np.isfinite(a[~odd]).all():
            return math.inf, unequal
        size = math.sqrt(np.mean(b[~odd] ** 2)) if (~odd).any() else 0
        error = math.sqrt(np.mean((a - b)[~odd] ** 2)) if (~odd).any() else 0
        worst = max(worst, error / size if size else error)
    return worst, unequal


def compare(model, folder, saved):
    """{"ours", "theirs": noise against float64; "apart": from each other; "unequal": integers}."""
    row = {"ours": 0.0, "theirs": 0.0, "apart": 0.0, "unequal": 0, "unequal_ort": 0}
    count = len(drawn(model))
    for i in range(count):
        ours, theirs = (np.load(folder / f"{s}{i}.npz") for s in ("pyflow", "ort"))
        apart, unequal = distance(ours, theirs)
        row["apart"], row["unequal"] = max(row["apart"], apart), row["unequal"] + unequal
        if saved:
            wanted = np.load(saved[i])
            row["ours"] += distance(ours, wanted)[0] ** 2 / count
            noise, unequal = distance(theirs, wanted)
            row["theirs"] += noise ** 2 / count
            row["unequal_ort"] += unequal
    return {**row, "ours": math.sqrt(row["ours"]), "theirs": math.sqrt(row["theirs"])}


def agrees(row):
    """Whether a row's answers are onnxruntime's."""
    if "error" in row:
        return False
    noise = row["apart"] <= 1e-5 if row.get("no_reference") else \
        row["ours"] <= max(2 * row["theirs"], FLOOR)
    return noise and row["unequal"] <= 2 * row["unequal_ort"]


def answers(model, path, args):
    """{"model", "ours", "theirs", ...} of a model's answers on one thread."""
    folder, row = path.parent, {"model": model.name}
    feeds = write_feeds(model, folder)
    for system, python in (("pyflow", sys.executable), ("ort", args.ort)):
        child = Child(python, system)
        said = child.ask(load=str(path), threads=1, feeds=[str(f) for f in feeds],
                         save=[str(folder / f"{system}{i}.npz") for i in range(len(feeds))])
        child.close()
        if "error" in said:
            return {**row, "error": f"{system}: {said['error']}"}
    saved, reason = reference(model, path, args.ort)
    return {**row, **compare(model, folder, saved), **({"no_reference": reason} if reason else {})}


# --------------------------------------------------------------------------------------------- time
def times(model, path, threads, args):
    """{"model", "threads", "pyflow", "ort", "ratio", load and peak of each} of the first case."""
    feed = str(path.parent / "case0.npz")
    write_feeds(model, path.parent)
    row = {"model": model.name, "threads": threads}
    taken, opened = {"pyflow": [], "ort": []}, {"pyflow": [], "ort": []}
    for _ in range(args.rounds):
        children = {"pyflow": Child(sys.executable, "pyflow"), "ort": Child(args.ort, "ort")}
        for system, child in children.items():
            said = child.ask(load=str(path), threads=threads, feeds=[feed], save=[])
            if "error" in said:
                return {**row, "error": f"{system}: {said['error']}"}
            opened[system].append(said)
        for _ in range(2):
            for system, child in children.items():
                taken[system].append(child.ask(seconds=args.seconds / 2))
        for child in children.values():
            child.close()
    for system, said in opened.items():
        for key in ("load", "first", "peak"):
            row[f"{key}_{system}"] = statistics.median(s[key] for s in said)
    row.update({s: statistics.median(t) for s, t in taken.items()})
    return {**row, "ratio": row["pyflow"] / row["ort"]}


# ------------------------------------------------------------------------------------------- report
def show(row):
    head = f"{row['model']:22}"
    if "error" in row:
        text = f"{head} FAILS  {row['error'][:400]}"
    elif "ratio" in row:
        opened = [row[f"load_{s}"] + row[f"first_{s}"] for s in ("pyflow", "ort")]
        text = f"{head} {row['threads']}  {row['pyflow'] * 1e3:9.3f} of {row['ort'] * 1e3:9.3f} " \
               f"ms, {row['ratio']:.2f}{'  SLOW' if row['ratio'] > WORST else ''}   load and " \
               f"first run {opened[0] / opened[1]:.1f}"
    else:
        text = f"{head} noise {row['ours']:.1e} of {row['theirs']:.1e}, apart {row['apart']:.1e}"
        text += f", {row['unequal']} unequal" if row["unequal"] else ""
        text += "" if agrees(row) else "  DIFFERS"
        text += f" (no reference: {row['no_reference'][:300]})" if row.get("no_reference") else ""
    print(text, flush=True)


def summary(rows):
    """Prints the means; -> whether all is well."""
    good = True
    for threads in sorted({row["threads"] for row in rows["times"]}):
        ratios = [r["ratio"] for r in rows["times"] if r["threads"] == threads and "ratio" in r]
        if ratios:
            mean = math.exp(statistics.fmean(map(math.log, ratios)))
            good &= mean <= MEAN and max(ratios) <= WORST
            print(f"{threads} threads: {len(ratios)} models, geometric mean {mean:.3f}, "
                  f"{sum(r > WORST for r in ratios)} above {WORST}, worst {max(ratios):.2f}")
    bad = [row["model"] for row in rows["answers"] if not agrees(row)]
    if rows["answers"]:
        print(f"{len(rows['answers']) - len(bad)} of {len(rows['answers'])} agree",
              "; not" if bad else "", ", ".join(bad))
    return good and not bad and not any("error" in row for row in rows["times"])


def kept(path):
    """The rows of an earlier run's file, for those that are not run now."""
    if path and pathlib.Path(path).exists():
        return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return {"answers": [], "times": []}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ort", required=True, help="a Python with onnxruntime and onnx")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--check", action="store_true", help="the answers alone")
    parser.add_argument("--times", action="store_true", help="the times alone")
    parser.add_argument("--json", help="rows of models that are not run now stay in it")
    parser.add_argument("--folder", default=str(ROOT / "build" / "models"))
    args = parser.parse_args()
    models = [m for m in MODELS if not args.only or m.name in args.only]
    paths, rows = fetch(models, args.folder), kept(args.json)
    for model in models:
        made = {"answers": [], "times": []}
        if model.name in paths and not args.times:
            made["answers"].append(answers(model, paths[model.name], args))
        if model.name in paths and not args.check:
            made["times"] += [times(model, paths[model.name], n, args) for n in args.threads]
        for kind, found in made.items():
            done = {(row["model"], row.get("threads")) for row in found}
            rows[kind] = [r for r in rows[kind] if (r["model"], r.get("threads")) not in done]
            rows[kind] += found
            for row in found:
                show(row)
        if args.json:
            resultfile.write(args.json, rows)
    return 0 if summary(rows) else 1


if __name__ == "__main__":
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    sys.exit(main())
