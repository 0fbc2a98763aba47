"""Runs public TensorFlow 1.x programs on pyflow and compares their end values with TensorFlow's.

    python tests/programs/run.py --from FOLDER_OR_URL                # all; `make programs`
    python tests/programs/run.py --from ... --only char-rnn --show   # some, with what they print
    python tests/programs/run.py --from ... --tf PYTHON              # records TensorFlow's end values

programs.txt lists them. Nothing of them is kept in this tree: repositories are fetched into
build/programs, at the commit listed, and programs run in a copy.

Invariants
    1. A program is changed in three ways only, the same for both runtimes: constants that
       programs.txt names (`set`) get its values, which make it short; random seeds are set below the
       first import of tensorflow; nothing else.
    2. On pyflow it runs by `python -m pyflow exec`, on TensorFlow by oracle.py; each in a process of
       its own, in its folder, with MNIST where it looks for it.
    3. The end value is the last number that `value`, a regular expression, finds in the output; it
       passes within `within` of the median of TensorFlow's values.
"""
import argparse
import ast
import configparser
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "programs.txt"
SEEDS = "import random; random.seed(1); import numpy; numpy.random.seed(1); {}set_random_seed(1)"


class Program(typing.NamedTuple):
    """A section of programs.txt: owner/name:path."""

    repository: str
    path: str
    options: typing.Mapping

    @property
    def name(self):
        return f"{self.repository.partition('/')[2]}:{self.path}"


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
            found.append(Program(repository, path.partition("#")[0], parser[section]))
    return commits, found


# ---------------------------------------------------------------- fetching

def fetch(repository, commit, source, folder):
    """The folder with a repository's files at a commit, fetched once."""
    into = folder / repository.replace("/", "+")
    mark = into / ".commit"
    if mark.exists() and mark.read_text() == commit:
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
    _unpack(str(where), commit, into)
    mark.write_text(commit)
    return into


def _unpack(git, commit, into):
    """Writes a commit's files, without those that the repository at hand lacks (large ones)."""
    listed = subprocess.run(["git", "-C", git, "ls-tree", "-r", "-z", commit], check=True,
                            stdout=subprocess.PIPE).stdout.decode("utf-8", "replace")
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


# ---------------------------------------------------------------- shortening

def shortened(text, constants):
    """The program with other values for constants, and seeds.  ValueError for a name that it does
    not assign."""
    lines, changes, left = text.splitlines(keepends=True), [], set(constants)
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            name = ast.unparse(node.targets[0])
            if name in constants:
                changes.append((node.value, constants[name]))
                left.discard(name)
        elif isinstance(node, ast.keyword) and f"{node.arg}=" in constants:
            changes.append((node.value, constants[f"{node.arg}="]))
            left.discard(f"{node.arg}=")
        elif isinstance(node, (ast.Call, ast.BoolOp, ast.BinOp)) and ast.unparse(node) in constants:
            changes.append((node, constants[ast.unparse(node)]))
            left.discard(ast.unparse(node))
    if left:
        raise ValueError(f"no assignment, keyword or call {', '.join(sorted(left))}")
    for value, new in sorted(changes, key=lambda c: (c[0].lineno, c[0].col_offset), reverse=True):
        _replace(lines, value, new)
    return "".join(_seeded(tree, lines))


def _replace(lines, node, new):
    first, last = node.lineno - 1, node.end_lineno - 1
    start = len(lines[first].encode()[:node.col_offset].decode())
    end = len(lines[last].encode()[:node.end_col_offset].decode())
    lines[first] = lines[first][:start] + new + lines[last][end:]
    for at in range(first + 1, last + 1):
        lines[at] = ""


def _seeded(tree, lines):
    for node in tree.body:
        if isinstance(node, ast.Import) and node.names[0].name == "tensorflow":
            tf = node.names[0].asname or "tensorflow"
            at = node.end_lineno
            return [*lines[:at], SEEDS.format(tf + ".") + "\n", *lines[at:]]
    return lines


# ---------------------------------------------------------------- running

def run(program, files, args, python=None):
    """(end value or None, seconds, what it printed, exit code)."""
    copy = args.folder / "running" / re.sub(r"\W+", "_", program.name)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(files, copy, symlinks=True, ignore=shutil.ignore_patterns(".fetched", ".git"))
    path = copy / program.path
    constants = dict(line.split(" = ", 1) for line in program.options.get("set", "").splitlines()
                     if line.strip())
    path.write_text(shortened(path.read_text(encoding="utf-8"), constants), encoding="utf-8")
    folder = path.parent if program.options.get("folder") is None else (
        copy / program.options["folder"])
    for line in program.options.get("make", "").split():
        (folder / line).mkdir(parents=True, exist_ok=True)
    command = ([python, str(HERE / "oracle.py")] if python else
               [args.python, "-P", "-m", "pyflow", "exec"])
    env = {**os.environ, "MPLBACKEND": "Agg", "PYTHONHASHSEED": "0", "PYTHONIOENCODING": "utf-8",
           "TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1", "CUDA_VISIBLE_DEVICES": ""}
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [*command, str(path), *program.options.get("arguments", "").split()], cwd=folder,
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=args.timeout,
            stdin=subprocess.DEVNULL)
        printed, code = done.stdout.decode("utf-8", "replace"), done.returncode
    except subprocess.TimeoutExpired as e:
        printed, code = (e.stdout or b"").decode("utf-8", "replace"), "timeout"
    seconds = time.perf_counter() - began
    shutil.rmtree(copy, ignore_errors=True)
    found = re.findall(program.options["value"], printed, re.MULTILINE)
    return float(found[-1]) if found else None, seconds, printed, code


def record(program, value):
    """Adds TensorFlow's end value to programs.txt, at most three."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    section = f"[{program.repository}:{program.path}]"
    at = next(k for k in range(lines.index(section), len(lines)) if lines[k].startswith("tf ="))
    values = lines[at].partition("=")[2].split()
    lines[at] = f"tf = {' '.join([*values, f'{value:.6g}'][-3:])}"
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")


def check(program, value, printed, code):
    """"ok", "ran" where TensorFlow's end value is not recorded yet, or why the program fails."""
    if code != 0:
        last = [line for line in printed.splitlines() if line.strip()][-1:]
        return f"exit {code}: {' '.join(last)[:200]}"
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
    chosen = [p for p in listed if re.search(args.only, f"{p.repository}:{p.path}")]
    results = []
    for program in chosen:
        if args.missing and program.options["tf"]:
            continue
        if program.options.get("waits") and not args.all:
            print(f"waits   {program.name}: {program.options['waits']}")
            continue
        files = fetch(program.repository, commits[program.repository], args.source, args.folder)
        value, seconds, printed, code = run(program, files, args, args.tf)
        if args.show:
            print(printed)
        said = ("recorded" if args.tf and code == 0 and value is not None else
                check(program, value, printed, code))
        if said == "recorded":
            record(program, value)
        results.append((program, said))
        word = said if said in ("ok", "ran", "recorded") else "FAIL"
        print(f"{word:8} {seconds:6.1f} s  {program.name}  "
              f"{'' if value is None else f'{value:.6g}'}{'  ' + said if word == 'FAIL' else ''}",
              flush=True)
    return summary(results)


def summary(results):
    """Prints how many programs agree.  Returns 1 if fewer than 95 % do."""
    good = [program for program, said in results if said in ("ok", "recorded")]
    ran = [program for program, said in results if said == "ran"]
    print(f"{len(good)} of {len(results) - len(ran)} programs end as TensorFlow's do, from "
          f"{len({p.repository for p in good})} repositories; {len(ran)} more ran, without a "
          "recorded value to compare")
    return 0 if len(good) >= 0.95 * (len(results) - len(ran)) else 1


def _arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--from", dest="source", default="https://github.com",
                        help="where repositories are: a URL, or a folder of owner+name folders")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE.parents[1] / "build/programs")
    parser.add_argument("--only", default="", help="programs whose name this regular expression finds")
    parser.add_argument("--all", action="store_true", help="those that wait for a part, too")
    parser.add_argument("--show", action="store_true", help="print what they print")
    parser.add_argument("--tf", metavar="PYTHON", help="run on TensorFlow, of this Python")
    parser.add_argument("--python", default=sys.executable, help="the Python with pyflow")
    parser.add_argument("--missing", action="store_true",
                        help="only those of which TensorFlow's end value is not recorded")
    parser.add_argument("--timeout", type=float, default=300)
    args = parser.parse_args(argv)
    args.folder = args.folder.resolve()
    return args


if __name__ == "__main__":
    sys.exit(main())
