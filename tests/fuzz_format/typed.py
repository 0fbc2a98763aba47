"""Graphs whose nodes disagree about element types (typed_graphs.c), under ASan and UBSan.

    python tests/fuzz_format/typed.py FOLDER --count 1000000    # long.py fuzz-types
    python tests/fuzz_format/typed.py FOLDER --again 4711       # one graph, its nodes in words

Builds fuzz_types into FOLDER (build.py), runs it, and starts it again behind a graph that killed it
or on which it hangs.  Prints each finding with the sanitizer's first lines; exit status 1 if there
was one.
"""

import argparse
import os
import pathlib
import struct
import subprocess
import sys
import time

import build

HANG = 60.0  # seconds on one graph
OPTIONS = {
    "ASAN_OPTIONS": "quarantine_size_mb=16:allocator_may_return_null=1:detect_leaks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def start(program, log, *arguments):
    command = [str(x) for x in (program, *arguments)]
    return subprocess.Popen(command, stderr=log, env={**os.environ, **OPTIONS})


def number(mark):
    data = mark.read_bytes() if mark.exists() else b""
    return struct.unpack("Q", data)[0] if len(data) == 8 else 0


def wait(child, mark):
    """The exit status, or "hang"."""
    last, since = None, time.monotonic()
    while child.poll() is None:
        time.sleep(0.05)
        now = number(mark)
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > HANG:
            child.kill()
            child.wait()
            return "hang"
    return child.returncode


def reason(log):
    lines = log.read_text(errors="replace").splitlines()
    for i, line in enumerate(lines):
        if any(mark in line for mark in ("ERROR: ", "runtime error:", " took ", "returned ")):
            return "\n    ".join(lines[i : i + 14])
    return "\n    ".join(lines[-3:])


def fuzz(program, folder, count, first):
    mark, log, findings, at = folder / "mark", folder / "log", 0, first
    while at < first + count:
        mark.unlink(missing_ok=True)
        with open(log, "wb") as file:
            code = wait(start(program, file, first + count - at, at, mark), mark)
        if code == 0:
            print(log.read_text(errors="replace").strip().splitlines()[-1], flush=True)
            break
        found = number(mark)
        findings += 1
        where = f"graph {found}" if found < first + count else "at the end"
        print(f"FOUND {where}: {code}\n    {reason(log)}", flush=True)
        at = found + 1
    print(f"{count} graphs ({first}..{first + count - 1}), {findings} findings")
    return findings


def main(folder, count, first, again):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    build.main(folder, "gcc")
    program = folder / "fuzz_types"
    if again is not None:
        return start(program, None, 1, again).wait()
    return 1 if fuzz(program, folder, count, first) else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--first", type=int, default=0, help="the number of the first graph")
    parser.add_argument("--again", type=int, metavar="NUMBER", help="one graph alone")
    sys.exit(main(**vars(parser.parse_args())))
