"""Builds the wheel into dist/ and says how far it is: `compiling 120 of 318`.

    python _executor/build_wheel.py [-Csetup-args=-Disa=baseline ...]

pip alone is silent for the minutes that the kernels take.  Options are pip's.  If the build fails, what it
printed last is shown.  On a terminal the count stays on one line; elsewhere a line says each tenth.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
COUNT = re.compile(r"^\s*\[(\d+)/(\d+)\] (?=Compiling|Generating|Linking)")   # ninja's; packing counts its files alike
LAST = 60                              # lines shown of a build that failed


def say(text, done=True):
    """A line; on a terminal, where `done` is false, the next one takes its place."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="\n" if done else "", flush=True)
    elif done:
        print(text, flush=True)


def show(lines):
    """Progress, from the build's own lines; -> the last ones."""
    last, tenth = collections.deque(maxlen=LAST), 0
    for line in lines:
        last.append(line)
        if match := COUNT.match(line):
            at, of = map(int, match.groups())
            tenth, before = 10 * at // of, tenth
            say(f"compiling {at} of {of}", done=tenth != before or at == of)
    return last


def main(options):
    """pip's exit status."""
    start = time.monotonic()
    cores = len(os.sched_getaffinity(0))
    baseline = any("isa=baseline" in option for option in options)
    built = any((ROOT / option.partition("=")[2] / "build.ninja").is_file()
                for option in options if option.startswith("-Cbuild-dir="))
    say(f"building the wheel on {cores} cores" + (": what has changed since the last build" if built else ""))
    if not (baseline or built):
        say("kernels are compiled for up to three instruction sets, about 4 minutes on two cores; for the machine's "
            "plainest alone a third of it: make demo ISA=baseline (-Csetup-args=-Disa=baseline)")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-v", "wheel", "--no-deps", "-w", "dist",
               *options, "."]
    with subprocess.Popen(command, cwd=ROOT, text=True, errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as pip:
        last = show(pip.stdout)
    if pip.returncode:
        sys.stdout.writelines(last)
    else:
        say(f"built in {time.monotonic() - start:.0f} s")
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
