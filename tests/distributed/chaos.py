"""Kills processes of a synchronous training at random moments, and compares the sha256 of all
variables at every step with an undisturbed run's.

    make chaos                                              # 100 of each kind; half an hour
    python -P tests/distributed/chaos.py --kills 5          # 5 each of worker, ps and chief
    python -P tests/distributed/chaos.py --kills 0 --pairs 20 --json report.json

Prints a line per kill, then a histogram of what the killed process was doing, how long it was to
the next step, and how many sessions the survivors of a lost worker made (none).  Exit status 1 if
any step's variables differ, or no step came within 60 s of a kill.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import time

from pyflow.distributed.launch import local

TASK = pathlib.Path(__file__).with_name("chaos_task.py")
KINDS = ("worker", "ps", "chief")
PATIENCE = 60.0             # seconds for the next step after a kill


class Training:
    """A training under way.  folder: what chaos_task.py writes."""

    def __init__(self, folder, steps, workers=2, ps=1, shards=0, save_steps=5, say=None,
                 standby=False):
        self.folder, self.workers, self.ps = pathlib.Path(folder), workers, ps
        self.output = []
        words = ["--softmax", "--steps", str(steps), "--save-steps", str(save_steps),
                 "--folder", os.path.join(folder, "run"), "--shards", str(shards)]
        jobs = {"ps": ps, "worker": workers, **({"ps_standby": ps} if standby else {})}
        self.cluster = local.LocalCluster(
            [sys.executable, "-P", str(TASK), *words, *(["--standby"] if standby else [])], jobs,
            restarts=1_000_000, environment={"PYFLOW_CHAOS": folder}, backoff=(0.05, 0.05),
            output=lambda label, line: self.output.append(f"[{label}] {line}"))

    def steps(self):
        """[(seconds, step, sha256)] so far."""
        try:
            text = (self.folder / "steps").read_text(encoding="ascii")
        except FileNotFoundError:
            return []
        lines = text.split("\n")[:-1]           # the last may be half written
        return [(float(at), int(step), sha) for at, step, sha in map(str.split, lines)]

    def sessions(self, label):
        """How many sessions a worker has made."""
        try:
            return len((self.folder / f"{label}.session").read_text().split("\n")) - 1
        except FileNotFoundError:
            return 0

    def phase(self, label):
        """What the process was doing last."""
        return (self.folder / f"phase.{label}").read_bytes().decode().strip()

    def ask(self):
        """Has every process print what it waits for, and where its threads are."""
        for job, count in (("ps", self.ps), ("worker", self.workers)):
            for index in range(count):
                for number in (signal.SIGUSR1, signal.SIGUSR2):
                    self.cluster.kill(job, index, number)
        time.sleep(2)

    def wait_for_step(self, after, patience=PATIENCE):
        """The first (seconds, step, sha256) after a time; None if there is none."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            found = self.steps()
            if found and found[-1][0] > after:
                return next(line for line in found if line[0] > after)
            if self.cluster.wait(0.005) is not None:
                break
        return None


def victim(kind, training, rng):
    """(job, index) of a process of a kind."""
    if kind == "chief":
        return "worker", 0
    if kind == "ps":
        return "ps", rng.randrange(training.ps)
    return "worker", rng.randrange(1, training.workers)


def kill(training, kinds, rng):
    """Kills one process of each kind at once; what happened, a dict."""
    time.sleep(rng.random() * 0.5)
    victims = sorted({victim(kind, training, rng) for kind in kinds})
    phases = [training.phase(f"{job}-{index}") for job, index in victims]
    before = {n: training.sessions(f"worker-{n}") for n in range(training.workers)}
    for job, index in victims:
        training.cluster.kill(job, index)
    at = time.monotonic() + 0.01            # a step that was being noted is none after the kill
    found = training.wait_for_step(at)
    survivors = [n for n in before if ("worker", n) not in victims]
    return {"kinds": list(kinds), "phases": phases, "at": at,
            "seconds": None if found is None else found[0] - at,
            "new_sessions": sum(training.sessions(f"worker-{n}") - before[n] for n in survivors)}


def run(plan, seed=0, workers=2, ps=1, shards=0, say=print):
    """The report of a training with kills.  plan: a list of kinds that die at once, per kill."""
    rng, kills = random.Random(seed), []
    with tempfile.TemporaryDirectory() as folder:
        training = Training(folder, 10**9, workers, ps, shards)
        with training.cluster:
            if training.wait_for_step(0.0) is None:
                raise RuntimeError("no step was made:\n" + "\n".join(training.output[-40:]))
            for number, kinds in enumerate(plan):
                kills.append(kill(training, kinds, rng))
                if kills[-1]["seconds"] is None:
                    training.ask()
                    say("no step after a kill:\n" + "\n".join(training.output[-400:]))
                    break
                say(f"{number + 1:4d}  {'+'.join(kinds):12s} {'+'.join(kills[-1]['phases']):16s} "
                    f"next step after {kills[-1]['seconds']:.2f} s")
            seen = training.steps()
    wanted = reference(max(step for _, step, _ in seen), workers, ps, shards)
    wrong = [(at, step) for at, step, sha in seen if wanted[step] != sha]
    repeats = not wrong or reference(len(wanted), workers, ps, shards) == wanted
    return {"kills": kills, "reference_repeats": repeats, "steps": len(wanted),
            "compared": len(seen), "wrong_steps": wrong,
            "seed": seed, "workers": workers, "ps": ps, "shards": shards}


def reference(steps, workers=2, ps=1, shards=0):
    """{step: sha256} of an undisturbed run."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training(folder, steps, workers, ps, shards, save_steps=1000)
        with training.cluster as cluster:
            if cluster.wait(60 + steps) != 0:
                raise RuntimeError("the reference failed:\n" + "\n".join(training.output[-40:]))
        return {step: sha for _, step, sha in training.steps()}


def holds(report):
    """Whether nothing is wrong."""
    return not report["wrong_steps"] and all(k["seconds"] is not None for k in report["kills"])


def shown(report):
    """The report as text."""
    lines, by_kind = [], collections.defaultdict(list)
    for found in report["kills"]:
        by_kind["+".join(found["kinds"])].append(found)
    for kind, kills in by_kind.items():
        phases = collections.Counter(p for k in kills for p in k["phases"])
        times = sorted(k["seconds"] for k in kills if k["seconds"] is not None)
        p99 = times[min(len(times) - 1, int(len(times) * 0.99))] if times else float("nan")
        half = statistics.median(times) if times else float("nan")
        new = sum(k["new_sessions"] for k in kills)
        lines.append(f"{kind}: {len(kills)} kills; next step after {half:.2f} s (median), {p99:.2f}"
                     f" s (p99); new sessions of survivors: {new}")
        lines += [f"    {phase:10s} {count:4d} {'#' * min(count, 60)}"
                  for phase, count in phases.most_common()]
    lines.append(f"{report['compared']} steps compared with those of an undisturbed run of "
                 f"{report['steps']}: {len(report['wrong_steps'])} differ" + (
                     "" if report["reference_repeats"] else "; that run itself cannot be repeated"))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="of each kind")
    parser.add_argument("--of", default=",".join(KINDS), help="kinds: worker, ps, chief")
    parser.add_argument("--pairs", type=int, default=0, help="how often two die at once, besides")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--json", help="a file for the report")
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    plan = [(kind,) for kind in asked.of.split(",") for _ in range(asked.kills)]
    plan += [tuple(rng.sample(KINDS, 2)) for _ in range(asked.pairs)]
    rng.shuffle(plan)
    report = run(plan, asked.seed, asked.workers, asked.ps, asked.shards,
                 lambda line: print(line, flush=True))
    print(shown(report))
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(report, indent=1))
    raise SystemExit(not holds(report))


if __name__ == "__main__":
    main()
