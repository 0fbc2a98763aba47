"""What a newcomer waits for: the build, the wheel's installation, the first import and first step.

    python benchmarks/install.py [--json benchmarks/results/install.json] [--baseline] [--wheel FILE]

In a fresh clone of this tree's last commit, in a folder that goes again, each once:

    make_demo    `make demo`: environment, downloads of the build's tools, build, training, seconds
    wheel        pip installs the wheel that it built, with NumPy and protobuf, into an empty
                 environment, which is made meanwhile; downloads count
    import       a process that imports pyflow, right after that, the best of three
    first_step   `import` and a session's first step: plugins are opened, a graph is compiled

--baseline builds with ISA=baseline; --wheel builds nothing and installs that one.  With --json the machine's row joins those of other machines
that the file has: the same processor's and number of cores', its figures replaced.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import time

import resultfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEP = "import pyflow as tf; tf.Session().run(tf.add(1.0, 2.0))"


def processor():
    """The processor's kind."""
    text = pathlib.Path("/proc/cpuinfo").read_text("utf-8")
    named = re.search(r"^model name\s*: (.+)", text, re.M)
    return f"{platform.machine()}, {named[1].strip() if named else 'unnamed'}"


def timed(words, cwd, **variables):
    """Seconds that a command takes, which has to succeed; what it prints goes to standard error."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "CC", "CXX")}
    start = time.perf_counter()
    subprocess.run(words, cwd=cwd, check=True, stdout=sys.stderr, env={**kept, **variables})
    return time.perf_counter() - start


def built(folder, isa):
    """(the wheel of a clone, seconds that `make demo` took there)."""
    clone = folder / "clone"
    timed(["git", "clone", "-q", "--depth", "1", ROOT.as_uri(), clone], folder)
    took = timed(["make", "demo", *([f"ISA={isa}"] if isa else [])], clone)
    [wheel] = (clone / "dist").glob("*.whl")
    return wheel, took


def measure(folder, isa, wheel):
    """The row of this machine, in seconds."""
    row, fresh = {}, folder / "fresh"
    if wheel is None:
        wheel, row["make_demo"] = built(folder, isa)
    row["wheel"] = timed(["sh", "-c", f"{sys.executable} -m venv {fresh} && "
                          f"{fresh}/bin/python -m pip install -q --no-cache-dir {wheel}"], folder)
    for name, code in (("import", "import pyflow"), ("first_step", STEP)):
        row[name] = min(timed([fresh / "bin/python", "-P", "-c", code], folder) for _ in range(3))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--baseline", action="store_true", help="kernels of one instruction set")
    parser.add_argument("--wheel", type=pathlib.Path, help="installed without a build")
    options = parser.parse_args()
    machine = {"processor": processor(), "cores": os.cpu_count(),
               "isa": "baseline" if options.baseline else "all"}
    with tempfile.TemporaryDirectory() as folder:
        row = measure(pathlib.Path(folder), "baseline" if options.baseline else "",
                      options.wheel and options.wheel.resolve())
    found = {**machine, "date": time.strftime("%Y-%m-%d"), **row}
    print(json.dumps(found))
    if options.json:
        rows = json.loads(options.json.read_text("utf-8")) if options.json.exists() else []
        same = [r for r in rows if {k: r[k] for k in machine} == machine]
        kept = [r for r in rows if r not in same]
        resultfile.write(options.json, [*kept, {**(same[0] if same else {}), **found}])


if __name__ == "__main__":
    main()
