"""Runs public TensorFlow 1.x programs on pyflow and compares their end values with TensorFlow's.

    python tests/programs/run.py --from FOLDER_OR_URL           # all; `long.py programs`
    python tests/programs/run.py --from ... --only char-rnn     # some
    python tests/programs/run.py --judge --table FILE           # what was printed, judged anew
    python tests/programs/run.py --from ... --tf PYTHON         # records TensorFlow's end values
    python tests/programs/run.py --from ... --tf PYTHON --untrained

programs.txt lists them. Nothing of them is kept in this tree: repositories are fetched into
build/programs, at the commit listed, programs run in a copy, and what they print is left in
build/programs/printed.

Invariants
    1. A program's text is never changed. It is made short by its arguments, by less data (`mnist`,
       `data`), or by ending it when it has printed what `until` says, the same for both runtimes.
       Random seeds are set before it begins (seeded.py).
    2. On pyflow it runs by `python -m pyflow exec`, on TensorFlow by oracle.py; each in its own
       process, in its folder, with MNIST where it looks for it.
    3. The end value is the last number that `value`, a regular expression, finds in the output; it
       passes within `within` of the median of TensorFlow's values.
"""
import argparse
import concurrent.futures
import configparser
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import threading
import time
import typing

import data

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "programs.txt"
RECORDING = threading.Lock()


class Program(typing.NamedTuple):
    """A section of programs.txt: owner/name:path."""

    repository: str
    path: str
    options: typing.Mapping
    run: str = ""               # "#2" of the second run of a program

    @property
    def section(self):
        return f"[{self.repository}:{self.path}{self.run}]"

    @property
    def name(self):
        return f"{self.repository.partition('/')[2]}:{self.path}{self.run}"

    @property
    def short(self):
        return re.sub(r"\W+", "_", self.name)


def programs():
    """(repositories {owner/name: commit}, [Program]) of programs.txt."""
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str
    parser.read(LIST, encoding="utf-8")
    commits = dict(parser["repositories"])
    found = []
    for section in parser.sections():
        if section != "repositories":
            repository, _, path = section.partition(":")
            path, mark, number = path.partition("#")
            found.append(Program(repository, path, parser[section], mark + number))
    return commits, found


# ---------------------------------------------------------------- fetching

def fetch(repository, wanted, source, folder):
    """The folder with a repository's files at a commit, fetched once; `wanted` is the commit, or
    the commit and the folder of the repository that is needed."""
    commit, _, part = wanted.partition(" ")
    into = folder / repository.replace("/", "+")
    mark = into / ".commit"
    if mark.exists() and mark.read_text() == wanted:
        return into
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    local = [pathlib.Path(source, repository.replace("/", "+"), rest)
             for rest in ("", "repo", "repo/.git")]
    where = next((p for p in local if (p / "objects").is_dir()), None)
    if where is None:
        where = into / ".fetched"
        git = ["git", "-C", str(where)]
        subprocess.run(["git", "init", "-q", "--bare", str(where)], check=True)
        subprocess.run([*git, "fetch", "-q", "--depth", "1", f"{source}/{repository}", commit],
                       check=True)
    _unpack(str(where), commit, part, into)
    mark.write_text(wanted)
    return into


def _unpack(git, commit, part, into):
    """Writes a commit's files (below the folder `part`), without those that the repository at hand
    lacks (large ones)."""
    listed = subprocess.run(
        ["git", "-C", git, "ls-tree", "-r", "-z", commit, *([f"{part}/"] if part else [])],
        check=True, stdout=subprocess.PIPE).stdout.decode("utf-8", "replace")
    rows = [row.split(None, 3) for row in listed.split("\0") if row]
    asked = "".join(f"{row[2]}\n" for row in rows if row[1] == "blob").encode()
    out = subprocess.run(["git", "-C", git, "cat-file", "--batch"], check=True, input=asked,
                         stdout=subprocess.PIPE).stdout
    at = 0
    for row in rows:
        if row[1] != "blob":
            continue
        end = out.index(b"\n", at)
        head, at = out[at:end].split(), end + 1
        if head[1] == b"missing":
            continue
        size = int(head[2])
        path = (into / row[3]).resolve()
        if into.resolve() in path.parents and row[0] != "120000":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(out[at:at + size])
        at += size + 1


# ---------------------------------------------------------------- running

def run(program, files, args, python=None):
    """(seconds, what it printed, exit code or "timeout")."""
    side = f"tf{args.untrained:d}" if python else "pyflow"
    copy = args.folder / "running" / f"{side}_{program.short}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(files, copy, symlinks=True, ignore=shutil.ignore_patterns(".fetched", ".git"))
    options = program.options
    folder = (copy / program.path).parent if options.get("folder") is None else (
        copy / options["folder"])
    for line in options.get("make", "").split():
        (folder / line).mkdir(parents=True, exist_ok=True)
    given = data.give(options, folder, args.folder)
    command = ([python, str(HERE / "oracle.py")] if python else
               [args.python, "-P", "-m", "pyflow", "exec", str(HERE / "seeded.py")])
    env = _environment(args, {**given, "PROGRAM_FILES": str(copy)}, options)
    began, before = time.perf_counter(), ""
    if "first" in options:
        path, *words = shlex.split(options["first"])
        before, _ = _watched([*command, str(copy / path), *words], folder, env, None, args.timeout)
    command += [str(copy / program.path), *shlex.split(options.get("arguments", ""))]
    printed, code = _watched(command, folder, env, options.get("until"), args.timeout,
                             int(options.get("count", "1")))
    printed = before + printed
    seconds = time.perf_counter() - began
    shutil.rmtree(copy, ignore_errors=True)
    return seconds, printed, code


def end_value(program, printed):
    found = re.findall(program.options["value"], printed, re.MULTILINE)
    return float(found[-1]) if found else None


def _environment(args, given, options):
    env = {**os.environ, "PYTHONPATH": str(HERE / "backend"), "MPLBACKEND": "module://unattended",
           "PYTHONHASHSEED": "0", "PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1",
           "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": "",
           "PROGRAM_SEED": str(args.seed), "PROGRAM_UNTRAINED": "1" * args.untrained, **given}
    env.update(word.split("=", 1) for word in shlex.split(options.get("env", "")))
    return env


def _watched(command, folder, env, until, timeout, count=1):
    """(what a command printed, its exit code); it is ended, with code 0, when it has printed so
    many lines that the regular expression `until` finds, and with "timeout" after some seconds."""
    lines, code = [], None
    with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        late = threading.Event()
        clock = threading.Timer(timeout, lambda: (late.set(), process.kill()))
        clock.start()
        for line in process.stdout:
            lines.append(line.decode("utf-8", "replace"))
            count -= bool(until and re.search(until, lines[-1]))
            if count == 0:
                code = 0
                process.kill()
                break
        process.wait()
        clock.cancel()
    return "".join(lines), ("timeout" if late.is_set() else
                            process.returncode if code is None else code)


def record(program, key, value, most=1):
    """Puts TensorFlow's value into programs.txt, with the last ones if there may be so many."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    first = lines.index(program.section) + 1
    last = next((k for k in range(first, len(lines)) if not lines[k]), len(lines))
    at = next((k for k in range(first, last) if lines[k].startswith(f"{key} =")), None)
    if at is None:
        lines.insert(last, f"{key} =")
        at = last
    values = [*lines[at].partition("=")[2].split(), f"{value:.6g}"]
    lines[at] = f"{key} = {' '.join(values[-most:])}"
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")


def check(program, value, printed, code):
    """"ok", "ran" where TensorFlow's end value is not recorded yet, or why the program fails."""
    if code != 0:
        last = " ".join([line for line in printed.splitlines() if line.strip()][-1:])
        # results are kept, without the paths of the machine
        last = re.sub(r"(?<![\w.])/[\w.+-]+/\S*", "FILE", last)
        return f"exit {code}: {last[:200]}"
    if value is None:
        return "no end value in its output"
    if not program.options["tf"]:
        return "ran"
    wanted = statistics.median(map(float, program.options["tf"].split()))
    within = float(program.options["within"])
    if not abs(value - wanted) <= within:
        return f"end value {value:g}, TensorFlow's {wanted:g} within {within:g}"
    return "ok"


def main(argv=None):
    args = _arguments(argv)
    commits, listed = programs()
    key = "untrained" if args.untrained else "tf"
    chosen = [p for p in listed if re.search(args.only, f"{p.repository}:{p.path}{p.run}")
              and not (args.missing and p.options.get(key))]
    for repository in sorted({p.repository for p in chosen} if not args.judge else ()):
        fetch(repository, commits[repository], args.source, args.folder)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(lambda program: tried(program, args), chosen))
    if args.table and not args.only:
        args.table.write_text(table(results, commits), encoding="utf-8")
    return summary(results)


def tried(program, args):
    """(program, what is to be said of it, its end value), printed as well."""
    files = args.folder / program.repository.replace("/", "+")
    side = "untrained" if args.untrained else "tf" if args.tf else "pyflow"
    kept = args.folder / "printed" / f"{side}_{program.short}.txt"
    if args.judge:
        head, _, printed = kept.read_text(encoding="utf-8").partition("\n")
        code, seconds = json.loads(head)
    else:
        seconds, printed, code = run(program, files, args, args.tf)
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(f"{json.dumps([code, round(seconds, 1)])}\n{printed}", encoding="utf-8")
    value = end_value(program, printed)
    said = check(program, value, printed, code)
    if args.tf and value is not None and (code == 0 or args.untrained):
        said = "recorded"
        with RECORDING:
            record(program, *(["untrained", value, 1] if args.untrained else ["tf", value, 3]))
    word = said if said in ("ok", "ran", "recorded") else "FAIL"
    print(f"{word:8} {seconds:6.1f} s  {program.name}  "
          f"{'' if value is None else f'{value:.6g}'}{'  ' + said if word == 'FAIL' else ''}",
          flush=True)
    return program, said, value


def table(results, commits):
    """The results as a table in Markdown, repository by repository."""
    agree = sum(said == "ok" for _, said, _ in results)
    lines = ["# Public programs on pyflow beside TensorFlow", "",
             f"Made by run.py --table: {agree} of {len(results)} programs agree.  TensorFlow: the "
             "median of its end values;", "untrained: what it ends with when nothing is trained "
             "(programs.txt)."]
    before = None
    for program, said, value in results:
        if program.repository != before:
            before = program.repository
            lines += ["", f"## {before} at {commits[before].split()[0][:12]}", "",
                      "| program | TensorFlow | within | pyflow | untrained | |",
                      "|---|---|---|---|---|---|"]
        options = program.options
        values = [float(word) for word in options["tf"].split()]
        wanted = f"{statistics.median(values):.6g}" if values else ""
        found = "" if value is None else f"{value:.6g}"
        lines.append(f"| {program.path}{program.run} | {wanted} | {options['within']} | "
                     f"{found} | {options.get('untrained', '')} | {said} |")
    return "\n".join(lines).strip() + "\n"


def summary(results):
    """Prints how many programs agree.  Returns 1 if fewer than 95 % do."""
    good = [program for program, said, _ in results if said in ("ok", "recorded")]
    ran = [program for program, said, _ in results if said == "ran"]
    print(f"{len(good)} of {len(results) - len(ran)} programs end as TensorFlow's do, from "
          f"{len({p.repository for p in good})} repositories; {len(ran)} more ran, without a "
          "recorded value to compare")
    return 0 if len(good) >= 0.95 * (len(results) - len(ran)) else 1


def _interpreter(path):
    """It is run in other folders."""
    return os.path.abspath(shutil.which(path) or path)


def _arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--from", dest="source", default="https://github.com",
                        help="where repositories are: a URL, or a folder of owner+name folders")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE.parents[1] / "build/programs")
    parser.add_argument("--only", default="", help="programs whose name this expression finds")
    parser.add_argument("--tf", metavar="PYTHON", type=_interpreter,
                        help="run on TensorFlow, of this Python")
    parser.add_argument("--python", type=_interpreter, default=sys.executable,
                        help="the Python with pyflow")
    parser.add_argument("--missing", action="store_true",
                        help="only those of which TensorFlow's end value is not recorded")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    parser.add_argument("--judge", action="store_true",
                        help="runs nothing: judges what the last run printed by the list as it is")
    parser.add_argument("--table", type=pathlib.Path,
                        help="writes the results into this file, if all were run")
    parser.add_argument("--untrained", action="store_true",
                        help="with --tf: records what it ends with when optimizers change nothing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=150)
    args = parser.parse_args(argv)
    args.folder = args.folder.resolve()
    return args


if __name__ == "__main__":
    sys.exit(main())
