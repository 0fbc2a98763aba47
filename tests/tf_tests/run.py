"""Runs TensorFlow 1.15.0's own tests of the library on pyflow and counts the tests that pass.

    python tests/tf_tests/run.py --from FOLDER_OR_URL --json results.json     # `long.py tf-tests`
    python tests/tf_tests/run.py --from ... --only adam_test --show
    python tests/tf_tests/run.py --table results.json --report tests/tf_tests/results.md

tf_tests.txt lists them as repository@commit:path. Nothing of them is kept in this tree: a file is
read out of FOLDER where that is a checkout of TensorFlow, else fetched into build/tf_tests
(tests/kernel_tests/run.py), and runs unchanged in a process of its own (child.py).

Invariants
    1. Each test counts once, as one of these, by the first rule that holds:
         passed    unittest says so
         skipped   the test itself says so (no GPU, TensorFlow 2's behaviour)
         absent    it asks for what does not exist here; ABSENT and `asked_for` say by which rule
         worded    the error has TensorFlow's type and another text (docs/differences.md)
         dropped   its own NumPy or Python code fails, as it uses what they have dropped since
         failed    all others; of a file that cannot be imported, or did not end, each test
    2. `absent` is decided by what the test could not find, never by a list of tests: a name of a
       module of TensorFlow's that its source does not export (no @tf_export: no public meaning), one
       that is exported under names of ABSENT alone, an attribute that begins with "_" of an object,
       an eager tensor's numpy(), a kernel of test_ops.cc, or a module of C++ that Python only
       wraps.
    3. Asked for are passed, worded, dropped and failed; `share` is passed of passed and failed.
"""
import argparse
import ast
import collections
import concurrent.futures
import functools
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
_spec = importlib.util.spec_from_file_location("kernel_tests_run",
                                               HERE.parent / "kernel_tests/run.py")
shared = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(shared)
LIST = HERE / "tf_tests.txt"

ABSENT = {              # exported names that docs/differences.md, "Not here", lists, by a pattern
    r"keras\.|estimator\.": "layers and models of tf.keras",
    r"GradientTape|enable_eager_execution|enable_v2_\w+|config\.|experimental_\w+|"
    r"(dis|en)able_tensor_equality|wrap_function": "eager execution and version 2's behaviour",
    r"distribute\.|tpu\.|lite\.|autograph\.|xla\.|contrib\.": "TensorFlow's other runtimes",
    r"\w*TypeSpec|(SparseTensor|IndexedSlices|RaggedTensor)Spec|Module$|"
    r"data\.experimental\.\w*Structure": "tf.TypeSpec, tf.Module",
    r"(vectorized_map|nondifferentiable_batch_function|load_file_system_library)$|"
    r"train\.experimental\.|random\.(experimental\.)?(Generator|create_rng_state)":
        "pfor, batching, loss scales, random generators",
}
STATES = "passed", "failed", "worded", "dropped", "absent", "skipped"


# ---------------------------------------------------------------- what a test asked for

class Sources:
    """The files of the tests and of the modules that they ask for."""

    def __init__(self, place, folder):
        self.place, self.folder = place, folder
        self.local = pathlib.Path(place, "tensorflow/python/framework/ops.py").exists()

    def path(self, source):
        """A file's path, or None where the repository has none of that name."""
        if self.local:
            found = pathlib.Path(self.place, source.path)
            return found if found.exists() else None
        try:
            return shared.fetch(source, self.place, self.folder)
        except subprocess.CalledProcessError:
            return None

    @functools.lru_cache(maxsize=None)
    def exported(self, repository, commit, module):
        """{name: its public names} of the functions and classes of a module of TensorFlow's; None
        where there is no such module."""
        path = f"tensorflow/{module.replace('.', '/')}.py"
        found = self.path(shared.Source(repository, commit, path, ""))
        if found is None:
            return None
        return exports(found.read_text(encoding="utf-8"))


def exports(text):
    """{name: public names of 1.x} by @tf_export, tf_export(...)(f) and X.export_constant."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "tf_export":
                    found.setdefault(node.name, []).extend(_public(call))
        for call in ast.walk(node) if isinstance(node, (ast.Expr, ast.Assign)) else ():
            if not isinstance(call, ast.Call):
                continue
            if isinstance(call.func, ast.Call) and getattr(call.func.func, "id", "") == "tf_export":
                for target in [*call.args, *getattr(node, "targets", ())]:
                    found.setdefault(getattr(target, "id", ""), []).extend(_public(call.func))
            elif getattr(call.func, "attr", "") == "export_constant":
                found.setdefault(call.args[1].value, []).extend(_public(call.func.value))
    return found


def _public(call):
    v1 = next((k.value for k in call.keywords if k.arg == "v1"), None)
    names = call.args if v1 is None else v1.elts
    return [n.value for n in names if isinstance(n, ast.Constant)]


def asked_for(missing, exported):
    """Why what a test could not find is no fault of pyflow's, or "".  `missing`: "module.path.name"
    of TensorFlow's, or "module:Class.attribute" of an object. exported(module): see Sources."""
    name = missing.rpartition(".")[2]
    if not missing:
        return ""
    if ":" in missing:
        if missing.endswith(":Tensor.numpy"):
            return "eager execution and version 2's behaviour: a tensor's numpy()"
        return f"a private attribute, {name}" if name.startswith("_") else ""
    if missing.startswith("core.framework/test_ops."):
        return f"a kernel of TensorFlow's library for its tests, test_ops.cc: {name}"
    parts = missing.split(".")
    if parts[0] not in ("python", "core", "compiler", "contrib"):
        return _absent([missing])                          # tf.name, from the root
    if parts[0] != "python":
        return "" if "_pb2" in missing else f"{'.'.join(parts[:2])}, no part of the Python library"
    for n in range(len(parts) - 1, 1, -1):                 # the longest part that is a module
        names = exported(".".join(parts[:n]))
        if names is not None:
            public = names.get(parts[n], [])
            return _absent(public) if public else f"a name that TensorFlow does not export, " \
                                                  f"{'.'.join(parts[1:n + 1])}"
    return f"a name that TensorFlow does not export, {'.'.join(parts[1:])}"


def _absent(public):
    """The reason of ABSENT under which all of a name's public names fall, or ""."""
    reasons = [next((why for words, why in ABSENT.items() if re.match(words, name)), "")
               for name in public]
    return f"{reasons[0]}: tf.{public[0]}" if all(reasons) else ""


# ---------------------------------------------------------------- running

def run(file, args):
    """[lines of child.py] of a file; a child that died or hung is started again without the test
    that it was at."""
    where = args.folder / "running" / f"{file.parent.name}-{file.stem}-{os.getpid()}"
    subprocess.run(["rm", "-rf", str(where)], check=True)
    where.mkdir(parents=True)
    root = file.resolve().parents[str(file).partition("/tensorflow/")[2].count("/") + 1]
    (where / "tensorflow").symlink_to(root / "tensorflow")      # test data, from a checkout's root
    (where / "org_tensorflow").symlink_to(root)
    results = where.parent / f"{where.name}.json"
    results.unlink(missing_ok=True)
    paths = os.pathsep.join(filter(None, [str(HERE.parent / "kernel_tests"),
                                          os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "TMPDIR": str(where),
           "TEST_TMPDIR": str(where), "TEST_SRCDIR": str(where), "PYTHONIOENCODING": "utf-8"}
    skip, rows, printed, until = [], [], "", time.monotonic() + args.timeout
    while True:
        process = subprocess.Popen(
            [args.python, str(HERE / "child.py"), str(file.resolve()), str(results),
             str(args.seconds), *skip], cwd=where, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        code, said = _ended(process, results, until, args.seconds)
        printed += said
        rows = _last_rows(results)
        if "(the file)" in rows:
            break
        at = [test for test, row in rows.items() if row["state"] == "running"]
        if not at or at[-1] in skip or time.monotonic() > until:
            break
        with results.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"test": at[-1], "state": "failed", "kind": "Ended", "missing": "",
                                  "said": code}) + "\n")
        skip += [test for test in rows if test not in skip]
    subprocess.run(["rm", "-rf", str(where), str(results)], check=False)
    return rows, printed


def _ended(process, results, until, seconds):
    """(how it ended, what it printed): killed where a test stands still longer than it may."""
    while True:
        try:
            printed, _ = process.communicate(timeout=5)
            return f"the process ended with {process.returncode}", printed.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            still = time.time() - results.stat().st_mtime if results.exists() else 0
            if time.monotonic() > until or still > 2 * seconds:
                os.killpg(process.pid, signal.SIGKILL)
                printed = process.communicate()[0].decode("utf-8", "replace")
                return "longer than it may take", printed


def _last_rows(results):
    rows = {}
    if results.exists():
        for line in results.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            rows[row["test"]] = row
    return rows


def counted(rows, text, why):
    """{test: {state, said}} of a file's lines; text: the file's; why(missing): asked_for's."""
    whole = rows.pop("(the file)", None)
    tests = {test: _judged(row, why) for test, row in rows.items()}
    if whole is not None and whole["state"] == "done":
        return tests
    cause = whole or {"state": "failed", "kind": "Ended", "said": "the file did not end",
                      "missing": ""}
    names = [f"{c.name}.{f.name}" for c in ast.parse(text).body if isinstance(c, ast.ClassDef)
             for f in c.body if isinstance(f, ast.FunctionDef) and f.name.startswith("test")]
    return {**{name: _judged(cause, why) for name in names}, **tests}


def _judged(row, why):
    if row["state"] in ("passed", "skipped"):
        return {"state": row["state"], "said": row.get("said", "")}
    if row["state"] == "running":
        return {"state": "failed", "said": "the process ended"}
    said = shared._cause(f"{row['kind']}Error: {' '.join(row['said'].split())}"
                         if not row["kind"].endswith(("Error", "Exception"))
                         else f"{row['kind']}: {' '.join(row['said'].split())}")
    if reason := why(row["missing"]):
        return {"state": "absent", "said": reason}
    return {"state": shared.kind(said), "said": said}


# ---------------------------------------------------------------- results

def main(argv=None):
    args = _arguments(argv)
    if args.table:
        results = json.loads(args.table.read_text(encoding="utf-8"))
        if args.report:
            args.report.write_text(report(results), encoding="utf-8")
        return summary(results, 0)
    kept, results = Sources(args.source, args.folder), {}
    wanted = [s for s in shared.sources(LIST) if re.search(args.only, s.path)
              and not s.note.startswith("not run")]

    def one(source):
        file, began = kept.path(source), time.monotonic()
        exported = functools.partial(kept.exported, source.repository, source.commit)
        rows, printed = run(file, args)
        tests = counted(rows, file.read_text(encoding="utf-8"),
                        lambda missing: asked_for(missing, exported))
        return source, tests, rows, printed, round(time.monotonic() - began, 1)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for source, tests, rows, printed, seconds in pool.map(one, wanted):
            key = source.path.removeprefix("tensorflow/python/")
            results[key] = tests
            print(f"{_counts(tests)} {seconds:6.1f} s  {key}", flush=True)
            if args.show:
                _show(tests, rows, printed)
            if args.json:
                shared.add(args.json, key, tests)
    return summary(results, args.least)


def _show(tests, rows, printed):
    print(printed[-4000:])
    for test, found in tests.items():
        if found["state"] not in ("passed", "skipped"):
            print(f"--- {found['state']} {test}: {found['said']}")
            print(rows.get(test, {}).get("trace", ""))


def _counts(tests):
    states = collections.Counter(t["state"] for t in tests.values())
    return " ".join(f"{states[state]:4} {state}" for state in STATES)


RAGGED = "ops/ragged"        # a row of its own: of ragged tensors pyflow has a part (differences.md)
ALL = f"all but {RAGGED}"


def folders(results):
    """{folder: Counter of states}, the last one of all but RAGGED."""
    found = {}
    for key, tests in sorted(results.items()):
        states = collections.Counter(t["state"] for t in tests.values())
        names = [RAGGED] if key.startswith(RAGGED + "/") else [key.partition("/")[0], ALL]
        for name in names:
            found.setdefault(name, collections.Counter()).update(states)
    found[ALL] = found.pop(ALL, collections.Counter())
    return found


def _share(states):
    return states["passed"] / max(1, states["passed"] + states["failed"])


def report(results):
    """The results as a page of Markdown."""
    lines = ["# TensorFlow 1.15.0's own tests on pyflow", "",
             "Written by `run.py --report`; `long.py tf-tests` runs them. The head of `run.py` says",
             "by which rule a test counts as what. Share: passed of passed and failed.", "",
             "| folder | passed | failed | worded | dropped | absent | skipped | share |",
             "|---|---|---|---|---|---|---|---|"]
    for name, states in folders(results).items():
        counts = " | ".join(str(states[state]) for state in STATES)
        lines.append(f"| {name} | {counts} | {_share(states):.1%} |")
    lines += ["", "## Failed", "", f"Those of {RAGGED} apart.", ""]
    for key, tests in sorted(results.items()):
        failed = {test: t["said"] for test, t in tests.items() if t["state"] == "failed"}
        if failed and not key.startswith(RAGGED + "/"):
            lines += [f"- {key}"]
            lines += [f"  - {test}: `{_short(said)}`" for test, said in sorted(failed.items())]
    lines += ["", "## Absent", ""]
    reasons = collections.Counter(t["said"] for tests in results.values() for t in tests.values()
                                  if t["state"] == "absent")
    lines += [f"- {count} x {reason}" for reason, count in sorted(
        reasons.items(), key=lambda item: (-item[1], item[0]))]
    return "\n".join(lines) + "\n"


def _short(said):
    return shared._without_paths(said)[:100].replace("`", "'")


def summary(results, least):
    """Prints the shares.  Returns 1 if the share of all is below `least`."""
    for name, states in folders(results).items():
        counts = " ".join(f"{states[state]:4} {state}" for state in STATES)
        print(f"{name:18} {counts}  {_share(states):6.1%}")
    return 0 if _share(folders(results)[ALL]) >= least else 1


def _arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--from", dest="source", default="https://github.com",
                        help="a folder with TensorFlow's source, one of owner+name folders, or a URL")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE.parents[1] / "build/tf_tests")
    parser.add_argument("--only", default="", help="files whose path this regular expression finds")
    parser.add_argument("--show", action="store_true", help="print what they print, and tracebacks")
    parser.add_argument("--json", type=pathlib.Path, help="a file of results, added to")
    parser.add_argument("--table", type=pathlib.Path, help="print such a file and end")
    parser.add_argument("--report", type=pathlib.Path, help="with --table: a page of Markdown")
    parser.add_argument("--least", type=float, default=0.9, help="the share that must pass")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a file may take")
    parser.add_argument("--seconds", type=int, default=30, help="seconds a test may take")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--python", type=shared._interpreter, default=sys.executable,
                        help="the Python that has pyflow")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
