"""Runs TensorFlow's own public kernel tests on pyflow and counts the tests that pass.

    python tests/kernel_tests/run.py --from FOLDER_OR_URL            # all; `long.py kernel-tests`
    python tests/kernel_tests/run.py --from ... --only concat --show # some, with what they print
    python tests/kernel_tests/run.py --from ... --json results.json  # adds to a file of results
    python tests/kernel_tests/run.py --table results.json            # prints it, sorted by cause
    python tests/kernel_tests/run.py --table results.json --report tests/kernel_tests/results.md

kernel_tests.txt lists them as repository@commit:path. Nothing of them is kept in this tree: a file
is fetched into build/kernel_tests and runs there, unchanged, by `python -m pyflow exec FILE`.

Invariants
    1. A file runs in a process of its own, in an empty folder, on two threads.
    2. A test counts as passed only if unittest says so; one that its file skips (no GPU, say)
       counts for neither side; of a file that cannot be imported none counts, and it is named.
    3. A cause is the last frame's message without names and numbers, so that one fault is one row.
    4. Two kinds of failure are counted apart: `worded`, the error has TensorFlow's type and another
       text (docs/differences.md); `dropped`, the test's own NumPy or Python code fails, as it uses
       what they have dropped since and sitecustomize.py cannot give back.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "kernel_tests.txt"
VERDICT = re.compile(r"^(\w+) \((\S+?)\)(?:\n.*?)?? \.\.\. .*?(ok|FAIL|ERROR|skipped.*)$",
                     re.MULTILINE | re.DOTALL)
FAILURE = re.compile(r"^=+\n(?:FAIL|ERROR): (\w+) \((\S+?)\).*?\n-+\n(.*?)(?=^=+\n|^-+\nRan )",
                     re.MULTILINE | re.DOTALL)


class Source(typing.NamedTuple):
    """A line of kernel_tests.txt: owner/name@commit:path, and what is said behind it."""

    repository: str
    commit: str
    path: str
    note: str

    @property
    def name(self):
        return pathlib.PurePosixPath(self.path).stem


def sources(path=LIST):
    """The list's lines, in its order."""
    found, where = [], None
    for line in path.read_text(encoding="utf-8").splitlines():
        line, _, note = line.partition("#")
        if "@" in line:
            where = line.strip().removesuffix(":")
        elif line.strip():
            repository, _, commit = where.partition("@")
            found.append(Source(repository, commit, line.strip(), note.strip()))
    return found


# ---------------------------------------------------------------- fetching

def fetch(source, place, folder):
    """The file of a Source below `folder`, fetched once."""
    into = folder / source.repository.replace("/", "+") / source.commit[:12] / source.path
    if not into.exists():
        git = _repository(source, place, folder)
        text = subprocess.run(["git", "-C", git, "show", f"{source.commit}:{source.path}"],
                              check=True, stdout=subprocess.PIPE).stdout
        into.parent.mkdir(parents=True, exist_ok=True)
        into.write_bytes(text)
    return into


def _repository(source, place, folder):
    """A git folder that has the commit: one at `place`, or one made here without files' contents,
    which git fetches when asked for them."""
    name = source.repository.replace("/", "+")
    for rest in ("", "repo", "repo/.git"):
        if (local := pathlib.Path(place, name, rest)).joinpath("objects").is_dir():
            return str(local)
    git = folder / name / "git"
    if not git.exists():
        subprocess.run(["git", "init", "-q", "--bare", str(git)], check=True)
        subprocess.run(["git", "-C", str(git), "remote", "add", "origin",
                        f"{place}/{source.repository}"], check=True)
    subprocess.run(["git", "-C", str(git), "fetch", "-q", "--depth", "1", "--filter=blob:none",
                    "origin", source.commit], check=True)
    return str(git)


# ---------------------------------------------------------------- running

def run(path, args):
    """What the file's tests printed, and the exit code ("timeout" after args.timeout seconds)."""
    where = args.folder / "running" / f"{path.stem}-{os.getpid()}"
    where.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": paths,
           "TMPDIR": str(where), "TEST_TMPDIR": str(where)}
    process = subprocess.Popen(
        [args.python, "-P", "-m", "pyflow", "exec", str(path), "-v"], cwd=where, env=env,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=args.timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        printed, code = process.communicate()[0], "timeout"
    subprocess.run(["rm", "-rf", str(where)], check=False)
    return printed.decode("utf-8", "replace"), code


WORDED = re.compile(
    r'AssertionError: ".*" does not match "|AssertionError: Exception of type <class ')
DROPPED = re.compile(r"IndexError: only integers, slices|arrays to stack must be passed as a|"
                     r"assertItemsEqual|module 'numpy' has no attribute|Python integer .* out of "
                     r"bounds for|dictionary keys changed|object too deep for desired array")


def kind(cause):
    """"worded", "dropped" or "failed"."""
    if WORDED.search(cause):
        return "worded"
    return "dropped" if DROPPED.search(cause) else "failed"


def counted(printed, code):
    """{passed, failed, skipped, worded, dropped: numbers, causes: {test: cause}, broken: why no
    test ran, or ""}"""
    verdicts = collections.Counter(
        m[3].split()[0].rstrip(",") for m in VERDICT.finditer(printed) if m[1] != "setUpClass")
    causes = {f"{m[2]}": _cause(m[3]) for m in FAILURE.finditer(printed)}
    ran = re.findall(r"^Ran (\d+) tests? in", printed, re.MULTILINE)
    result = {"passed": verdicts["ok"], "skipped": verdicts["skipped"],
              "failed": verdicts["FAIL"] + verdicts["ERROR"], "causes": causes, "broken": "",
              "worded": 0, "dropped": 0}
    if ran:
        tail = printed[printed.rindex("\nRan "):]
        numbers = {k: int(v) for k, v in re.findall(r"(failures|errors|skipped)=(\d+)", tail)}
        result["skipped"] = numbers.get("skipped", 0)
        result["failed"] = len(causes) or numbers.get("failures", 0) + numbers.get("errors", 0)
        result["passed"] = int(ran[-1]) - result["failed"] - result["skipped"]
        for cause in causes.values():
            if (what := kind(cause)) != "failed":
                result[what] += 1
                result["failed"] -= 1
    elif code == "timeout" or isinstance(code, int) and code < 0:
        result["failed"] += 1
        result["causes"]["(the file)"] = ("runs longer than it may" if code == "timeout"
                                          else f"died of signal {-code}")
    else:
        lines = [line for line in printed.splitlines() if line.strip()]
        result["broken"] = lines[-1][:200] if lines else f"exit {code}"
    return result


def _cause(text):
    """The error of a traceback, without what differs between tests of one fault."""
    errors = re.findall(r"^((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt|Exists|Found|Range|"
                        r"Argument|Aborted|Cancelled|Precondition|Unimplemented|Internal)\w*"
                        r"(?::.*)?)$", text, re.MULTILINE)
    said = errors[-1] if errors else text.strip().splitlines()[-1]
    said = re.sub(r"0x[0-9a-f]+|-?\d[\d.e+-]*", "N", said)
    return re.sub(r"(node|operation|tensor|op) ['\"][^'\"]*['\"]", r"\1 X", said)[:160]


# ---------------------------------------------------------------- results

def main(argv=None):
    args = _arguments(argv)
    if args.table:
        results = json.loads(args.table.read_text(encoding="utf-8"))
        if args.report:
            args.report.write_text(report(results), encoding="utf-8")
        return table(results)
    results = {}
    for source in sources():
        key = f"{source.repository}@{source.commit[:12]}:{source.path}"
        if not re.search(args.only, key):
            continue
        if source.note.startswith("not run") and not args.all:
            print(f"left     {source.name}: {source.note}")
            continue
        began = time.perf_counter()
        printed, code = run(fetch(source, args.source, args.folder), args)
        result = counted(printed, code)
        result["seconds"] = round(time.perf_counter() - began, 1)
        results[key] = result
        if args.show:
            print(printed)
        print(_row(key, result), flush=True)
        if args.json:
            add(args.json, key, result)
    return summary(results, args.least)


def add(path, key, result):
    """One more result in the file, which several runs may write in turn."""
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results[key] = result
    path.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _row(key, result):
    name = pathlib.PurePosixPath(key.rpartition(":")[2]).stem
    broken = f"  not run: {result['broken']}" if result["broken"] else ""
    return (f"{result['passed']:4} passed {result['failed']:3} failed {result['worded']:3} worded "
            f"{result['dropped']:2} dropped {result['skipped']:4} skipped "
            f"{result['seconds']:6.1f} s  {name}{broken}")


def table(results):
    """Prints results by file, then the causes of failures, the most frequent first."""
    for key in sorted(results):
        print(_row(key, results[key]))
    causes = collections.defaultdict(list)
    for key, result in results.items():
        name = pathlib.PurePosixPath(key.rpartition(":")[2]).stem
        for test, cause in result["causes"].items():
            causes[cause].append(f"{name}:{test.rpartition('.')[2]}")
    print()
    for cause, tests in sorted(causes.items(), key=lambda c: (kind(c[0]), -len(c[1]))):
        print(f"{len(tests):4} {kind(cause):8} {cause}\n              {', '.join(tests[:4])}")
    return summary(results, 0)


def report(results):
    """The results as a page of Markdown."""
    lines = ["# TensorFlow's own kernel tests on pyflow", "",
             "Written by `run.py --report`; `long.py kernel-tests` runs them. Worded: the right",
             "type of error in other words; dropped: the test uses what NumPy or Python dropped.", "",
             "| file | passed | failed | worded | dropped | skipped |", "|---|---|---|---|---|---|"]
    for key in sorted(results):
        r, (where, _, path) = results[key], key.partition(":")
        name = f"{path.removeprefix('tensorflow/')} @{where.partition('@')[2][:7]}"
        counts = [str(r[k]) for k in ("passed", "failed", "worded", "dropped", "skipped")]
        counts = [f"not run: {r['broken'][:60]}", "", "", "", ""] if r["broken"] else counts
        lines.append(f"| {name} | {' | '.join(counts)} |")
    causes = collections.Counter(cause for r in results.values() for cause in r["causes"].values()
                                 if kind(cause) == "failed")
    lines += ["", "What the failed ones say:", ""]
    for cause, count in causes.most_common():
        said = _without_paths(cause)[:80]
        lines.append(f"- {count} x `{said.replace('`', chr(39))}`")
    total = {k: sum(r[k] for r in results.values()) for k in ("passed", "failed")}
    lines[1:1] = ["", f"{total['passed']} of {sum(total.values())} tests pass."]
    return "\n".join(lines) + "\n"


def _without_paths(text):
    """Text in one line, without the paths of the machine that it was said on."""
    return " ".join(re.sub(r"\S*/\S*_test\S*|(?<![\w.])/[\w.+-]+/\S*", "FILE", text).split())


def summary(results, least):
    """Prints the totals.  Returns 1 if a smaller share than `least` of the tests passes."""
    passed = sum(r["passed"] for r in results.values())
    failed = sum(r["failed"] for r in results.values())
    worded, dropped = (sum(r[what] for r in results.values()) for what in ("worded", "dropped"))
    whole = sum(1 for r in results.values() if not r["failed"] and not r["broken"])
    broken = sum(1 for r in results.values() if r["broken"])
    print(f"{passed} of {passed + failed} tests pass ({passed / max(1, passed + failed):.1%}), in "
          f"{len(results) - broken} files, {whole} of which pass whole; {broken} more cannot be "
          f"imported. Apart: {worded} raise the right error in other words, {dropped} use what "
          "NumPy or Python dropped")
    return 0 if passed >= least * (passed + failed) else 1


def _interpreter(path):
    """It is run in other folders."""
    return os.path.abspath(shutil.which(path) or path)


def _arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--from", dest="source", default="https://github.com",
                        help="where repositories are: a URL, or a folder of owner+name folders")
    parser.add_argument("--folder", type=pathlib.Path,
                        default=HERE.parents[1] / "build/kernel_tests")
    parser.add_argument("--only", default="", help="files whose key this regular expression finds")
    parser.add_argument("--all", action="store_true", help="those marked `not run`, too")
    parser.add_argument("--show", action="store_true", help="print what they print")
    parser.add_argument("--json", type=pathlib.Path, help="a file of results, added to")
    parser.add_argument("--table", type=pathlib.Path, help="print such a file and end")
    parser.add_argument("--report", type=pathlib.Path, help="with --table: a page of Markdown")
    parser.add_argument("--least", type=float, default=0.9,
                        help="the share of tests that must pass")
    parser.add_argument("--timeout", type=float, default=240)
    parser.add_argument("--python", type=_interpreter, default=sys.executable,
                        help="the Python that has pyflow")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
