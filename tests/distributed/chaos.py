"""Does ill to processes of a synchronous training at random moments, and compares the sha256 of all
variables at every step with an undisturbed run's.

    python tests/long.py chaos                              # 100 of each kind, 20 pairs, among steps
                                                            # of milliseconds and of 3 seconds
    python -P tests/distributed/chaos.py --kills 5          # 5 each of worker, ps and chief
    python -P tests/distributed/chaos.py --kills 100 --of worker --workers 3 --shards 4 --begun
    python -P tests/distributed/chaos.py --how freeze --kills 30 --json report.json

How: kill    kill -9; the launcher starts the next epoch
     crash   a kernel ends the process by SIGSEGV
     hold    a thread holds the GIL for --seconds and lets it go
     freeze  SIGSTOP, a successor at another address, and after its first step SIGCONT

Prints a line per hit, then per kind: what the process was doing, how long it was to the next step,
and what became of the survivors: processes, sessions, plans they registered.  Exit status 1 if any
step's variables differ, no step came within PATIENCE of a hit, one that was thawed was not refused
or did not end, or one that nobody had hit ended.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import signal
import statistics
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fuzz"))
import plugins_of_fuzz  # noqa: E402 - of the tests

from pyflow.distributed.launch import local  # noqa: E402

TASK = HERE / "chaos_task.py"
KINDS = ("worker", "ps", "chief")
PATIENCE = 60.0             # seconds for the next step after a hit
REFUSED = re.compile(r"epoch (\d+)(?: of job '[^']*')? was replaced by (?:epoch )?(\d+)")


class Training:
    """A training under way.  folder: what chaos_task.py writes."""

    _read, _steps = 0, ()           # of its steps: bytes read so far, and what they say

    def __init__(self, folder, steps, workers=2, ps=1, shards=0, save_steps=5, kernels=None,
                 standby=False, lasting=0.0):
        self.folder, self.workers, self.ps = pathlib.Path(folder), workers, ps
        self.output, self.log = [], []  # lines; (seconds, line)
        words = ["--softmax", "--steps", str(steps), "--save-steps", str(save_steps),
                 "--folder", os.path.join(folder, "run"), "--shards", str(shards)]
        jobs = {"ps": ps, "worker": workers, **({"ps_standby": ps} if standby else {})}
        self.cluster = local.LocalCluster(
            [sys.executable, "-P", str(TASK), *words, *(["--standby"] if standby else [])], jobs,
            restarts=1_000_000, backoff=(0.05, 0.05),
            environment={"PYFLOW_CHAOS": str(folder), "PYFLOW_CHAOS_KERNELS": kernels or "",
                         "PYFLOW_CHAOS_LASTING": str(lasting)},
            output=self._keep)

    def _keep(self, label, line):
        self.output.append(f"[{label}] {line}")
        self.log.append((time.monotonic(), self.output[-1]))

    def write_log(self, path):
        """All that the processes printed, each line with its second; a process's errors are
        there, too."""
        text = "".join(f"{at:.3f} {line}\n" for at, line in self.log)
        pathlib.Path(path).write_text(text, encoding="utf-8")

    def steps(self):
        """[(seconds, step, sha256)] so far."""
        try:
            with open(self.folder / "steps", "rb") as f:
                f.seek(self._read)
                text = f.read()
        except FileNotFoundError:
            return []
        text = text[:text.rfind(b"\n") + 1]         # the last may be half written
        self._read += len(text)
        self._steps = self._steps + tuple(
            (float(at), int(step), sha) for at, step, sha in
            map(str.split, text.decode("ascii").splitlines()))
        return list(self._steps)

    def _lines(self, name):
        try:
            text = (self.folder / name).read_text(encoding="ascii")
        except FileNotFoundError:
            return []
        return text.split("\n")[:-1]            # the last may be half written

    def sessions(self, label):
        """How many sessions a worker has made."""
        return len(self._lines(f"{label}.session"))

    def marks(self, task):
        """(process, sessions) of a task."""
        return self.cluster.pid(*task), self.sessions("{}-{}".format(*task))

    def has_begun(self, task):
        """It is not just coming back: its process has made a session, if it makes any."""
        made = self._lines("{}-{}.session".format(*task))
        pid = self.cluster.pid(*task)
        return pid is not None and (task[0] == "ps" or made and int(made[-1].split()[1]) == pid)

    def wait_for_sessions(self, tasks):
        """Until all of them have begun, and each had a moment to take part in a step."""
        until = time.monotonic() + PATIENCE
        while not all(self.has_begun(task) for task in tasks):
            if time.monotonic() > until:
                raise RuntimeError(f"{tasks} do not begin:\n" + "\n".join(self.output[-40:]))
            time.sleep(0.002)
        time.sleep(0.1)

    def plans(self):
        """{(task, master, session, sha256): how often that plan was registered}."""
        return collections.Counter((task, *line.split()[1:]) for task in self.tasks()
                                   for line in self._lines("{}-{}.plan".format(*task)))

    def tasks(self):
        """[(job, index)]."""
        return [(job, index) for job, count in (("ps", self.ps), ("worker", self.workers))
                for index in range(count)]

    def phase(self, task):
        """What a process was doing last."""
        return (self.folder / "phase.{}-{}".format(*task)).read_bytes().decode().strip()

    def alive(self, task, and_begun):
        """The process of a task, once there is one; and_begun: once it does what it is for."""
        until = time.monotonic() + PATIENCE
        while (pid := self.cluster.pid(*task)) is None or and_begun and self.phase(task) == "start":
            if time.monotonic() > until:
                raise RuntimeError(f"{task} does not begin:\n" + "\n".join(self.output[-40:]))
            time.sleep(0.002)
        return pid

    def ask(self):
        """Has every process print what it waits for, and where its threads are."""
        for task in self.tasks():
            for number in (signal.SIGUSR1, signal.SIGUSR2):
                self.cluster.kill(*task, number)
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

    def step_seconds(self):
        """The median time of a step, of the last hundred."""
        times = [at for at, _, _ in self.steps()[-100:]]
        return statistics.median(b - a for a, b in zip(times, times[1:])) if times[1:] else 0.0

    def refusals(self):
        """{epoch that was replaced} as the processes' logs say it, with both epochs."""
        return [found.groups() for line in list(self.output) if (found := REFUSED.search(line))]


def victim(kind, training, rng):
    """(job, index) of a process of a kind."""
    if kind == "chief":
        return "worker", 0
    if kind == "ps":
        return "ps", rng.randrange(training.ps)
    return "worker", rng.randrange(1, training.workers)


# ---------------------------------------------------------------- what is done to them

def kill(training, victims, asked):
    for task in victims:
        training.cluster.kill(*task)


def crash(training, victims, asked):
    for task in victims:
        (training.folder / "crash.{}-{}".format(*task)).touch()
    until = time.monotonic() + 10
    while any((training.folder / "crash.{}-{}".format(*task)).exists() for task in victims):
        assert time.monotonic() < until, "nobody crashed"
        time.sleep(0.001)


def hold(training, victims, asked):
    for task in victims:
        path = training.folder / "hold.{}-{}".format(*task)
        path.with_suffix(".tmp").write_text(str(asked.seconds))
        os.replace(path.with_suffix(".tmp"), path)


def freeze(training, victims, asked):
    for task in victims:
        os.killpg(training.cluster.pid(*task), signal.SIGSTOP)
    for task in victims:
        training.cluster.replace(*task)


HOW = {"kill": kill, "crash": crash, "hold": hold, "freeze": freeze}


def thaw(training, pids, rng):
    """Wakes those that were replaced, and waits until they have ended, as they must: True."""
    time.sleep(rng.random())
    for pid in pids:
        os.killpg(pid, signal.SIGCONT)
    until = time.monotonic() + 20
    while any(pid == process.pid for process in list(training.cluster._strays()) for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def hit(training, kinds, rng, asked):
    """Does it to one process of each kind at once; what happened, a dict."""
    time.sleep(rng.random() * 0.5)
    victims = sorted({victim(kind, training, rng) for kind in kinds})
    if asked.begun:
        training.wait_for_sessions(victims)
    pids = [training.alive(task, asked.how != "kill") for task in victims]
    phases = [training.phase(task) for task in victims]
    usual, before = training.step_seconds(), {t: training.marks(t) for t in training.tasks()}
    plans = training.plans()
    begun = [t for t in before if t not in victims and training.has_begun(t)]
    at = time.monotonic()
    HOW[asked.how](training, victims, asked)
    done = time.monotonic()
    found = training.wait_for_step(done + 0.01)     # one that was being noted is none after it
    if asked.how == "hold":
        found = training.wait_for_step(at + asked.seconds, asked.seconds + PATIENCE)
    gone = asked.how != "freeze" or found is not None and thaw(training, pids, rng)
    after = {t: training.marks(t) for t in begun}
    changed = [sum(after[t][k] != before[t][k] for t in after) for k in range(2)]
    hit_ones = {f"/job:{job}/replica:0/task:{index}" for job, index in victims}
    changed.append(sum(n - plans[plan] for plan, n in training.plans().items()
                       if plans[plan] and plan[1] not in hit_ones))
    return {"kinds": list(kinds), "phases": phases, "at": at, "usual": usual,
            "seconds": None if found is None or not gone else found[0] - done,
            "new_processes": changed[0], "new_sessions": changed[1], "new_plans": changed[2]}


# ---------------------------------------------------------------- a training with hits

def run(plan, asked, say=lambda line: None):
    """The report of a training with hits.  plan: a list of kinds that are hit at once."""
    rng, hits = random.Random(asked.seed), []
    with tempfile.TemporaryDirectory() as folder:
        training = Training(folder, 10**9, asked.workers, asked.ps, asked.shards,
                            kernels=asked.kernels, lasting=asked.lasting)
        with training.cluster:
            if training.wait_for_step(0.0) is None:
                raise RuntimeError("no step was made:\n" + "\n".join(training.output[-40:]))
            for number, kinds in enumerate(plan):
                hits.append(hit(training, kinds, rng, asked))
                if hits[-1]["seconds"] is None:
                    training.ask()
                    say("no step after that:\n" + "\n".join(training.output[-400:]))
                    break
                say(f"{number + 1:4d}  {'+'.join(kinds):12s} {'+'.join(hits[-1]['phases']):16s} "
                    f"next step after {hits[-1]['seconds']:.2f} s")
            seen, told = training.steps(), raised(training.output)
        if asked.logs is not None and (told or hits[-1]["seconds"] is None):
            path = os.path.join(asked.logs, f"chaos-{os.getpid()}-{asked.seed}.log")
            training.write_log(path)
            say(f"what all processes printed is in {path}")
        return {"hits": hits, "seen": [(step, sha) for _, step, sha in seen],
                "times": [at for at, _, _ in seen],
                "refusals": training.refusals(),
                "ends": [line for line in training.output if re.match(r"\[launch\] .*epoch", line)],
                "raised": told,
                "output": training.output}


def raised(output):
    """What processes said last that ended by themselves, though nobody had done anything to them:
    their survival is promised."""
    found = []
    for at, line in enumerate(output):
        if ended := re.match(r"\[launch\] (\S+) \(epoch \d+\): exit status", line):
            said = [words for words in output[:at] if words.startswith(f"[{ended[1]}]")]
            found.append("\n".join([*said[-80:], line]))
    return found


def several(plan, asked, say=lambda line: None):
    """The report of asked.jobs trainings at once, each with its share of the hits; asked: what
    `arguments` gives."""
    if asked.how == "crash" and asked.kernels is None:
        with tempfile.TemporaryDirectory() as folder:
            asked.kernels = str(plugins_of_fuzz.build(folder, "libfuzz_kernels.so"))
            return several(plan, asked, say)
    shares = [plan[k::asked.jobs] for k in range(asked.jobs)]
    asked_of = [argparse.Namespace(**{**vars(asked), "seed": asked.seed + 1000 * k})
                for k in range(asked.jobs)]
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        found = list(pool.map(run, shares, asked_of, [say] * asked.jobs))
    seen = [pair for one in found for pair in one["seen"]]
    last = max(step for step, _ in seen)
    like = asked.workers, asked.ps, asked.shards, asked.kernels
    wanted = reference(last, *like)
    wrong = [step for step, sha in seen if wanted[step] != sha]
    repeats = not wrong or reference(last, *like) == wanted
    return {"hits": [one for f in found for one in f["hits"]], "how": asked.how,
            "reference_repeats": repeats, "steps": last, "compared": len(seen),
            "wrong_steps": wrong, "refusals": [r for f in found for r in f["refusals"]],
            "ends": [line for f in found for line in f["ends"]],
            "raised": [text for f in found for text in f["raised"]],
            "times": [f["times"] for f in found],
            **({"output": [line for f in found for line in f["output"]]} if asked.verbose else {}),
            **{k: v for k, v in vars(asked).items() if k in ("seed", "workers", "ps", "shards",
                                                              "jobs", "seconds")}}


def reference(steps, workers=2, ps=1, shards=0, kernels=None):
    """{step: sha256} of an undisturbed run."""
    with tempfile.TemporaryDirectory() as folder:
        training = Training(folder, steps, workers, ps, shards, 1000, kernels)
        with training.cluster as cluster:
            if cluster.wait(60 + steps) != 0:
                raise RuntimeError("the reference failed:\n" + "\n".join(training.output[-40:]))
        return {step: sha for _, step, sha in training.steps()}


def holds(report):
    """Whether nothing is wrong."""
    fenced = report["how"] != "freeze" or len(report["refusals"]) >= len(report["hits"])
    crashed = report["how"] != "crash" or len(
        [line for line in report["ends"] if "SIGSEGV" in line]) >= len(report["hits"])
    return not report["wrong_steps"] and not report["raised"] and fenced and crashed and all(
        one["seconds"] is not None for one in report["hits"])


# ---------------------------------------------------------------- the report as text

def p99(values):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * 0.99))] if values else float("nan")


def shown(report):
    """The report as text."""
    lines, by_kind = [], collections.defaultdict(list)
    for found in report["hits"]:
        by_kind["+".join(found["kinds"])].append(found)
    for kind, hits in by_kind.items():
        phases = collections.Counter(p for one in hits for p in one["phases"])
        times = [one["seconds"] for one in hits if one["seconds"] is not None]
        beyond = [one["seconds"] - 2 * one["usual"] for one in hits if one["seconds"] is not None]
        half = statistics.median(times) if times else float("nan")
        usual = statistics.median(one["usual"] for one in hits)
        new = [sum(one[f"new_{what}"] for one in hits)
               for what in ("processes", "sessions", "plans")]
        lines.append(f"{kind}: {len(hits)} x {report['how']}; next step after {half:.2f} s "
                     f"(median), {p99(times):.2f} s (p99), {max(times, default=0):.2f} s (most); "
                     f"beyond two median steps ({usual * 1e3:.0f} ms): {p99(beyond) * 1e3:.0f} ms "
                     f"(p99); survivors with a new process {new[0]}, session {new[1]}, plan "
                     f"{new[2]}")
        lines += [f"    {phase:10s} {count:4d} {'#' * min(count, 60)}"
                  for phase, count in phases.most_common()]
    how = collections.Counter(line.split(": ")[1] for line in report["ends"])
    lines.append("processes ended with " + ", ".join(f"{k} {n}" for k, n in how.most_common()))
    lines += [f"A SURVIVOR ENDED:\n{text}" for text in report["raised"]]
    if report["refusals"]:
        pairs = collections.Counter(tuple(r) for r in report["refusals"])
        lines.append(f"{len(report['refusals'])} refusals logged with both epochs: " + ", ".join(
            f"{a} by {b}: {n}" for (a, b), n in sorted(pairs.items())[:12]))
    lines.append(f"{report['compared']} steps compared with those of an undisturbed run of "
                 f"{report['steps']}: {len(report['wrong_steps'])} differ" + (
                     "" if report["reference_repeats"] else "; that run itself cannot be repeated"))
    return "\n".join(lines)


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="of each kind")
    parser.add_argument("--of", default=",".join(KINDS), help="kinds: worker, ps, chief")
    parser.add_argument("--pairs", type=int, default=0, help="how often two are hit at once")
    parser.add_argument("--how", choices=list(HOW), default="kill")
    parser.add_argument("--seconds", type=float, default=70.0, help="that the GIL is held")
    parser.add_argument("--lasting", type=float, default=0.0,
                        help="every so many steps one lasts so many seconds longer, for a loop at "
                        "one of the tasks; 0: none does")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at once")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--shards", type=int, default=0)
    parser.add_argument("--begun", action="store_true", help="hit workers that have a session, "
                        "not those that are still starting")
    parser.set_defaults(kernels=None)
    parser.add_argument("--verbose", action="store_true", help="what the processes printed, too")
    parser.add_argument("--logs", default=tempfile.gettempdir(), help="the folder for what the "
                        "processes of a training printed that goes wrong")
    parser.add_argument("--json", help="a file for the report")
    return parser.parse_args(words)


def main():
    asked = arguments()
    rng = random.Random(asked.seed)
    plan = [(kind,) for kind in asked.of.split(",") for _ in range(asked.kills)]
    plan += [tuple(rng.sample(KINDS, 2)) for _ in range(asked.pairs)]
    rng.shuffle(plan)
    report = several(plan, asked, lambda line: print(line, flush=True))
    print(shown(report))
    if asked.verbose:
        print(*report["output"], sep="\n")
    if asked.json:
        pathlib.Path(asked.json).write_text(json.dumps(report, indent=1))
    raise SystemExit(not holds(report))


if __name__ == "__main__":
    main()
