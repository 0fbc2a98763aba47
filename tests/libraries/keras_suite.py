"""Runs Keras 2.2.4's own tests with pyflow in TensorFlow's place: `long.py keras-tests`.

    .venv-keras/bin/python -P tests/libraries/keras_suite.py [--only REGEX] [--folder build/keras]

Keras is installed unmodified from the package index; its tests come out of the same release's
source archive, which is fetched into the folder, never kept in this tree. Each file of tests runs
in a process of its own by `python -m pyflow exec --old-python -m pytest`, with a limit of time.

Invariants
    1. A failure is "before pyflow" only if no frame of it is pyflow's and it is of a kind that
       BEFORE lists: the reason, what the error says, and where its last frame is. All others are
       ours, those of TENSORFLOW_TOO included.
    2. Left out are what Keras's own continuous integration leaves out (integration tests, which
       download data; documentation; legacy layers), and nothing else.

Exit status 1 where fewer than 95 % of the tests that reach pyflow pass, or fewer than 70 % of all,
and where a file of tests was not run to its end: as one failure it would hide all that it has.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RELEASE = "Keras==2.2.4"
LEFT_OUT = re.compile(r"integration_tests|legacy/layers_test|test_documentation|doc_auto_gen")
AREAS = {                               # the first pattern found in a file's path
    "backend": r"keras/backend/",
    "layers": r"keras/layers/",
    "optimizers": r"optimizers_test",
    "losses": r"losses_test|metrics_test|test_loss_",
    "models": r"keras/engine/|sequential_model|test_model_|test_dynamic_|test_multiprocessing",
    "others": r"",
}
BEFORE = [                              # (reason, what the error says, file of the last frame)
    ("compares with Theano or CNTK, which are not here",
     r"'NoneType' object has no attribute "
     r"'(th_sparse_module|variable|placeholder|resize_images|eval)'",
     r"/tests/keras/backend/"),
    ("scipy.misc is no longer in SciPy", r"has no attribute 'misc'", r"/scipy/__init__\.py"),
    ("NumPy no longer takes a list of slices as index", r"IndexError: only integers, slices",
     r"/keras/utils/conv_utils\.py"),
    ("NumPy's functions have no __code__", r"has no attribute '__code__'",
     r"generic_utils_test\.py"),
    ("h5py 3's files have no fid", r"'File' object has no attribute 'fid'",
     r"test_model_saving\.py"),
    ("pydot or graphviz is not here", r"pydot|GraphViz|graphviz", r"/keras/utils/vis_utils\.py"),
    ("PyYAML loads no arrays", r"ConstructorError", r"/yaml/constructor\.py"),
    ("pytest.warns(None) is gone", r"exceptions must be derived from Warning", r""),
]
TENSORFLOW_TOO = {                      # TensorFlow 2.15 (compat.v1) fails at the same assertion
    "tests/keras/backend/backend_test.py::TestBackend::test_ctc_decode_beam_search":
        "expects log probabilities of before 1.10; TensorFlow 2.15's are pyflow's",
    "tests/keras/engine/test_topology.py::test_recursion":
        "a product of a tensor of unknown rank may be a batch's since TensorFlow 1.14",
    "tests/keras/activations_test.py::test_selu": "compares with NumPy's exp() to the last bit",
}


# ---------------------------------------------------------------- fetching

def fetch(folder, python):
    """The folder with the release's tests, out of its source archive."""
    name = RELEASE.replace("==", "-")
    into = folder / name
    if (into / "pytest.ini").is_file():
        return into
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "-q", "download",
                    "--no-deps", "--no-binary", ":all:", "-d", str(folder), RELEASE], check=True)
    with tarfile.open(folder / f"{name}.tar.gz") as archive:
        for member in archive.getmembers():     # tarfile of Python 3.11.2 knows no filter
            at = pathlib.PurePosixPath(member.name)
            if member.isfile() and at.parts[:2] == (name, "tests") and ".." not in at.parts and \
                    at.suffix != ".pyc":
                target = folder / at
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.extractfile(member).read())
    (into / "pytest.ini").write_text("[pytest]\n")       # else pytest asks this tree's pyproject.toml
    return into


def files(root):
    """The files of tests, as paths below `root`."""
    found = [p.relative_to(root).as_posix() for p in sorted((root / "tests").rglob("*.py"))]
    return [p for p in found if re.search(r"/test_[^/]*$|_test\.py$", p) and not LEFT_OUT.search(p)]


# ---------------------------------------------------------------- running

def run(path, root, args):
    """[how each test of a file ended], as keras_frames.py writes them."""
    out = args.folder / "ends.jsonl"
    out.unlink(missing_ok=True)
    env = {**os.environ, "KERAS_BACKEND": "tensorflow", "KERAS_FRAMES": str(out),
           "KERAS_HOME": str(args.folder / "home"), "PYTHONPATH": str(HERE),
           "MPLBACKEND": "Agg", "CUDA_VISIBLE_DEVICES": ""}
    command = [args.python, "-P", "-m", "pyflow", "exec", "--old-python", "-m", "pytest", path,
               "-q", "-p", "keras_frames", "-p", "no:cacheprovider", f"--timeout={args.each:g}"]
    with open(args.folder / "log.txt", "a", encoding="utf-8") as log:
        print("#", path, file=log, flush=True)
        try:
            subprocess.run(command, cwd=root, env=env, stdout=log, stderr=subprocess.STDOUT,
                           stdin=subprocess.DEVNULL, timeout=args.timeout)
        except subprocess.TimeoutExpired:
            print("# timeout", file=log, flush=True)
            return [*_ends(out), {"test": path, "outcome": "failed", "seconds": args.timeout,
                                  "error": f"timeout of {args.timeout:g} s", "frames": []}]
    return _ends(out) or [{"test": path, "outcome": "failed", "seconds": 0.0, "frames": [],
                           "error": f"no test ran: see {args.folder / 'log.txt'}"}]


def _ends(out):
    if not out.exists():
        return []
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


# ---------------------------------------------------------------- classifying

def verdict(end):
    """("passed" | "skipped" | "before" | "ours", the reason or None) of a test's end."""
    if end["outcome"] != "failed":
        return end["outcome"], None
    frames = end["frames"]
    last = frames[-1] if frames else ""
    starting = r"/pyflow/(?!tools/exec\.py|tools/command\.py|__main__)"
    if not any(re.search(starting, frame) for frame in frames):
        for reason, said, where in BEFORE:
            if re.search(said, end["error"]) and re.search(where, last):
                return "before", reason
    return "ours", TENSORFLOW_TOO.get(end["test"])


def area(test):
    path = test.partition("::")[0]
    return next(name for name, pattern in AREAS.items() if re.search(pattern, path))


def table(ends):
    """Lines: a row per area; then the failures, with reason and last frame."""
    counts = collections.defaultdict(collections.Counter)
    for end in ends:
        counts[area(end["test"])][verdict(end)[0]] += 1
        counts["all"][verdict(end)[0]] += 1
    kinds = "passed", "ours", "before", "skipped"
    yield f"{'':12}{'passed':>8}{'failed':>8}{'before pyflow':>15}{'skipped':>9}"
    for name in [*AREAS, "all"]:
        c = [counts[name][kind] for kind in kinds]
        yield f"{name:12}{c[0]:8}{c[1]:8}{c[2]:15}{c[3]:9}"
    for end in ends:
        kind, reason = verdict(end)
        if kind in ("before", "ours"):
            last = end["frames"][-1] if end["frames"] else "no frame"
            where = re.sub(r"\S*/(site-packages|tests/keras|tests)/", "", last)
            yield (f"{kind:7} {end['test']}\n        {reason or end['error'].splitlines()[0]}\n"
                   f"        last frame: {where}")


def shares(ends):
    """(passed of those that reached pyflow, passed of all that ran)."""
    kinds = collections.Counter(verdict(end)[0] for end in ends)
    reached = kinds["passed"] + kinds["ours"]
    return kinds["passed"] / max(reached, 1), kinds["passed"] / max(reached + kinds["before"], 1)


def not_run(ends):
    """Files that could not be read, or took too long."""
    return [end["test"] for end in ends if "::" not in end["test"] and end["outcome"] == "failed"
            and verdict(end)[0] == "ours"]


def main(argv=None):
    args = _arguments(argv)
    root, ends, began = fetch(args.folder, args.python), [], time.perf_counter()
    (args.folder / "log.txt").unlink(missing_ok=True)
    for path in files(root):
        if re.search(args.only, path):
            found = run(path, root, args)
            kinds = collections.Counter(verdict(end)[0] for end in found)
            seconds = sum(end["seconds"] for end in found)
            print(f"{seconds:7.1f} s  {path}  "
                  + ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())), flush=True)
            ends += found
    (args.folder / "results.json").write_text(json.dumps(ends, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(ends)))
    reached, everything = shares(ends)
    print(f"{reached:.2%} of the tests that reach pyflow pass, {everything:.2%} of all that run "
          f"({time.perf_counter() - began:.0f} s)")
    for path in not_run(ends):
        print(f"not run to its end: {path}: see {args.folder / 'log.txt'}")
    return 0 if reached >= 0.95 and everything >= 0.70 and not not_run(ends) else 1


def _arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--folder", type=pathlib.Path, default=HERE.parents[1] / "build/keras")
    parser.add_argument("--only", default="", help="files whose path this regular expression finds")
    parser.add_argument("--python", default=sys.executable, help="the Python with pyflow and Keras")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds for a file")
    parser.add_argument("--each", type=float, default=300, help="seconds for a test")
    args = parser.parse_args(argv)
    args.folder = args.folder.resolve()
    return args


if __name__ == "__main__":
    sys.exit(main())
