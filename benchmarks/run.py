"""pyflow beside its peers, in one run: best of many, interleaved, kept as JSON.

    python benchmarks/run.py --tf TF_PYTHON --torch TORCH_PYTHON [--only noop while] [--rounds 8]
    [--seconds 0.25]
    python benchmarks/run.py --only one_add                 # without peers: pyflow and NumPy

Every peer is one process that stays alive; a round asks each of them in turn, and the best of all
rounds counts.  Figures are time per unit (op, iteration, step, call).  The count of kernels
executed is printed beside what it must be.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import resultfile
from marks import below

HERE = pathlib.Path(__file__).resolve().parent

# case -> (unit, [(peer, wanted)]): pyflow's time must be at most the peer's divided by `wanted`.
TARGETS = {
    "noop_chain": ("op", [("tf", 2.5)]),
    "noop_fan_out": ("op", [("tf", 2)]),
    "noop_layered": ("op", [("tf", 1.5)]),
    "add_chain": ("op", [("tf", 8)]),
    "add_fan_out": ("op", [("tf", 8)]),
    "add_layered": ("op", [("tf", 8)]),
    "one_add_callable": ("call", [("numpy", 0.4)]),
    "one_add_run": ("call", []),
    "null_callable": ("call", []),
    "while_counter": ("iteration", [("tf", 8)]),
    "while_matmul": ("iteration", [("tf", 5)]),
    "while_gradient": ("iteration", [("tf", 5)]),
    "train_softmax": ("step", [("tf", 1), ("torch", 1)]),
    "train_mlp": ("step", [("tf", 1), ("torch", 1)]),
    "train_lenet": ("step", [("tf", 1), ("torch", 1)]),
    "train_ptb": ("step", [("tf", 1), ("torch", 1)]),
    "build_graph": ("op", []),
    "first_run": ("op", []),
}
# Programs of their own beside this file -> {option of theirs: whose Python it takes}; and what else
# they are told.
SCRIPTS = {
    "gemm": {"--torch": "torch"},
    "elementwise": {"--jax": "ort", "--torch": "torch"},
    "halves": {"--torch": "torch"},
    "pools": {"--torch": "torch", "--ort": "ort"},
    "conv": {"--ort": "ort", "--torch": "torch"},
    "onnx_models": {"--ort": "ort"},
}
OPTIONS = {"conv": ["--all", "--threads", "1", "2"]}
QUICK = {                # --quick: a third of the time, figures that wander more
    "gemm": ["--rounds", "2", "--seconds", "0.04"],
    "elementwise": ["--again", "2"],
    "conv": ["--rounds", "2", "--seconds", "0.015"],
    "pools": ["--rounds", "2", "--seconds", "0.05"],
    "halves": ["--rounds", "6"],
    "onnx_models": ["--rounds", "4", "--seconds", "0.25"],
}
SAME = {"Add": ("Add", "AddV2")}  # op types that do the same


class Peer:
    def __init__(self, name, python):
        self.name = name
        self.process = subprocess.Popen(
            [python, str(HERE / "server.py"), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=tempfile.TemporaryFile(),
            text=True,
        )
        line = self.process.stdout.readline()
        self.version = json.loads(line)["version"] if line else None

    def ask(self, **request):
        if self.version is None:
            return {"error": "did not start"}
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": "the peer died"}

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)


def human(seconds):
    for scale, unit in ((1, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns")):
        if seconds * scale >= 1:
            break
    return f"{seconds * scale:.3g} {unit}"


def measure_case(name, peers, rounds, seconds):
    """-> {peer: seconds per unit}, {peer: problem}."""
    best, problems = {}, {}
    for _ in range(rounds):
        for peer in peers:
            if peer.name in problems:
                continue
            found = peer.ask(case=name, seconds=seconds)
            if "best" in found:
                best[peer.name] = min(
                    best.get(peer.name, float("inf")), found["best"] / found["units"]
                )
            elif "error" in found:
                problems[peer.name] = found["error"]
    return best, problems


def check_counts(name, peers):
    """Kernels executed in one run, by the system's own trace -> {peer: {op: n}}, sentences about
    what is off."""
    counts, remarks = {}, []
    for peer in peers:
        if peer.name not in ("pyflow", "tf"):
            continue
        found = peer.ask(case=name, count=True)
        expected, kernels = found.get("expected"), found.get("kernels")
        if not expected:
            continue
        if kernels is None:
            remarks.append(f"{peer.name}: no count ({found.get('error')})")
            continue
        if "all" in kernels:  # every node of the loop counts, Merge, Switch and NextIteration too
            got, enough = kernels, kernels["all"] >= sum(expected.values())
        else:
            got = {op: sum(kernels.get(k, 0) for k in SAME.get(op, (op,))) for op in expected}
            enough = got == expected
        counts[peer.name] = got
        if not enough:
            remarks.append(f"{peer.name}: executed {got}, expected {expected}")
    return counts, remarks


def verdicts(name, best):
    lines, ok = [], True
    for peer, wanted in TARGETS[name][1]:
        if peer in best and "pyflow" in best:
            ratio = best[peer] / best["pyflow"]
            ok &= ratio >= wanted
            lines.append(
                f"{ratio:.2f}x {peer} (wanted {wanted}x{'' if ratio >= wanted else ': MISSED'})"
            )
    return ", ".join(lines), ok


def spin_speedups(rounds):
    """Two threads against one: pyflow's wide graph of 1 ms kernels, and plain C threads."""
    try:
        import spin

        return spin.measure(rounds)
    except Exception as error:  # noqa: BLE001  the other figures are worth having
        return {"error": f"{type(error).__name__}: {error}"}


def traced_steps(rounds):
    """What tracing costs -> ratios to the untraced steps by case, and lines about them."""
    try:
        import tracing

        found = tracing.measure(rounds * 3)
        return found, list(tracing.lines(found))
    except Exception as error:  # noqa: BLE001  the other figures are worth having
        problem = f"{type(error).__name__}: {error}"
        return {"error": problem}, [f"tracing: {problem}"]


# What a training graph of 36,000 nodes may cost pyflow: seconds.
BIG_GRAPH = {"session_to_first_result": 2.0, "all_ops": 100e-6}


def big_graph(pythons, rounds):
    """Least of `rounds` fresh processes each -> {peer: {figure: least}}, verdicts."""
    found, verdicts = {}, []
    for peer, python, options in (
        ("pyflow", pythons["pyflow"], []),
        ("pyflow, plain", pythons["pyflow"], ["--plain"]),
        ("tf, plain", pythons["tf"], ["--plain"]),
        ("tf", pythons["tf"], []),
    ):
        command = [python, str(HERE / "big_graph.py"), peer.split(",")[0], *options]
        for _ in range(1 if peer == "tf" else rounds) if python else ():
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                verdicts.append(f"{peer}: {done.stderr.strip().splitlines()[-1:]}")
                break
            figures = json.loads(done.stdout.splitlines()[-1])
            best = found.setdefault(peer, figures)
            best.update({k: min(v, best[k]) for k, v in figures.items()})
    for name, limit in BIG_GRAPH.items() if "pyflow" in found else ():
        value = found["pyflow"][name]
        alone = human(found["pyflow"][f"{name}_cpu"])
        verdicts.append(
            f"{name} {human(value)}, of the processor {alone}"
            f" (wanted {human(limit)}{'' if value <= limit else ': MISSED'})"
        )
    return found, verdicts


def print_big_graph(found, verdicts):
    for peer, figures in found.items():
        print(f"big_graph {peer:14s} {figures['nodes']} nodes", "  ".join(
            f"{name} {human(figures[name])}"
            for name in ("build", "gradients", "all_ops", "init", "first_run",
                         "session_to_first_result", "session_to_first_result_cpu", "second_run")
        ), f" memory {figures['peak_growth']:.0f} MB")
    for line in verdicts:
        print("     ", line)


def floors():
    """What the work costs at least, in C (floors.c) -> {what: ns}."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "floors")
        subprocess.run(
            ["cc", "-std=gnu11", "-O3", str(HERE / "floors.c"), "-o", program], check=True
        )
        return json.loads(subprocess.check_output([program], text=True))


def machine():
    model = next(
        (
            line.split(":")[1].strip()
            for line in open("/proc/cpuinfo")
            if line.startswith("model name")
        ),
        "?",
    )
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tf", metavar="PYTHON", help="a Python with TensorFlow")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with torch")
    parser.add_argument("--ort", metavar="PYTHON", help="a Python with onnxruntime, onnx and jax")
    parser.add_argument(
        "--only", nargs="+", default=[""], help="cases whose name contains one of these"
    )
    parser.add_argument("--without", nargs="+", default=[], help="peers to leave out")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.25, help="per case, peer and round")
    parser.add_argument("--quick", action="store_true", help="all of it in a third of the time")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("bench-results.json"))
    asked = parser.parse_args()
    if asked.quick:
        asked.rounds, asked.seconds = min(asked.rounds, 4), min(asked.seconds, 0.1)
    return asked


def wanted(asked, name):
    return any(part in name for part in asked.only)


def run_cases(asked, peers, report):
    """The cases of TARGETS, each printed when it is measured."""
    for name, (unit, _) in TARGETS.items():
        if not wanted(asked, name):
            continue
        best, problems = measure_case(name, peers, asked.rounds, asked.seconds)
        counts, remarks = check_counts(name, peers)
        verdict, ok = verdicts(name, best)
        print(
            f"{name:18s} per {unit:9s} "
            + "  ".join(f"{p} {human(s)}" for p, s in best.items())
            + ("  -> " + verdict if verdict else "")
        )
        for line in remarks + [f"{p}: {e}" for p, e in problems.items()]:
            print("    ", line)
        if counts:
            print("     kernels executed:", counts)
        report["cases"][name] = {
            "unit": unit,
            "seconds": best,
            "kernels": counts,
            "verdict": verdict,
            "ok": ok,
            "problems": {**problems, **({"counts": remarks} if remarks else {})},
        }
        sys.stdout.flush()


def run_memory(asked, report):
    """Peak memory of training steps, each peer in a process of its own."""
    import memory

    for model in ("resnet50", "resnet50_recompute", "lstm", "lstm_recompute", "train_mlp",
                  "train_lenet", "train_ptb"):
        if wanted(asked, f"memory_{model}"):
            tf = None if "recompute" in model else asked.tf
            found, lines = memory.case(tf, model, torch_python=asked.torch)
            report.setdefault("memory", {})[model] = found
            print(f"memory_{model}", *lines, sep="\n      ")


def run_scripts(asked, report):
    """The benchmarks that are programs of their own, for one thread and for two."""
    for name, options in SCRIPTS.items():
        if not wanted(asked, name):
            continue
        given = {"torch": asked.torch, "ort": asked.ort}
        missing = [peer for peer in options.values() if not given[peer]]
        if missing:
            print(f"{name}: left out, it needs --{' and --'.join(missing)}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "found.json"
            command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(path)]
            command += OPTIONS.get(name, []) + (QUICK.get(name, []) if asked.quick else [])
            for option, peer in options.items():
                command += [option, given[peer]]
            print(f"{name}", flush=True)
            if subprocess.run(command).returncode == 0:
                report[name] = json.loads(path.read_text(encoding="utf-8"))
            else:
                report[name] = {"error": "see the output"}


def main():
    asked = arguments()
    pythons = {
        "pyflow": sys.executable,
        "tf": asked.tf,
        "tf_single": asked.tf,
        "torch": asked.torch,
        "numpy": sys.executable,
    }
    peers = [
        Peer(name, python)
        for name, python in pythons.items()
        if python and name not in asked.without
    ]
    report = {
        "machine": machine(),
        "versions": {p.name: p.version for p in peers},
        "rounds": asked.rounds,
        "cases": {},
        "floors_ns": floors(),
    }
    print("floors in C, ns:", report["floors_ns"])
    versions = "  ".join(f"{p.name} {p.version}" for p in peers)
    print(f"{versions} | time per unit, best of {asked.rounds} rounds")
    run_cases(asked, peers, report)
    if wanted(asked, "wide_graph_two_threads"):
        report["wide_graph"] = found = spin_speedups(asked.rounds)
        print("wide_graph         ", json.dumps(found))
    for peer in peers:
        peer.close()
    if wanted(asked, "big_graph"):
        found, lines = big_graph(pythons, rounds=2)
        report["big_graph"] = {"figures": found, "verdicts": lines}
        print_big_graph(found, lines)
    run_memory(asked, report)
    if wanted(asked, "tracing"):
        report["tracing"], lines = traced_steps(asked.rounds)
        print(*lines, sep="\n      ")
    run_scripts(asked, report)
    print("below what is wanted:", *(list(below(report)) or ["nothing"]), sep="\n    ")
    report["machine"]["load_after"] = os.getloadavg()
    resultfile.write(asked.json, report)
    print("written:", asked.json)


if __name__ == "__main__":
    main()
