"""Compiles the core, the runtime and all CPU kernels with every compiler named, each for the machine
it compiles for: no error, no warning.

    python tests/portability/compile_all.py BUILD gcc-11 clang-19:syntax aarch64-linux-gnu-gcc

BUILD is a folder that meson has set up; its compile_commands.json says what is compiled with which
warnings, its generated C is made here where it is missing.  A compiler for x86-64 and glibc compiles
the kernels of all instruction sets and the Python extension, others the kernels once and no
extension.  `:syntax` reads the source only, `:O1` optimises; else -O0.  Objects are left in
BUILD/portable/COMPILER, where run_emulated.py finds them.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

PACKAGES = {                           # Debian's package of a command, where the names differ
    "musl-gcc": "musl-tools",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
}
MODES = {"": ["-O0", "-c"], "O1": ["-O1", "-c"], "syntax": ["-fsyntax-only"]}
# What decides which code is seen, and what is warned of; optimisation and dependency files are not
# taken over.
KEPT = ("-I", "-isystem", "-D", "-std=", "-W", "-m", "-fPIC", "-fvisibility", "-ffp-contract",
        "-fno-math-errno", "-fno-strict-aliasing", "-ffunction-sections", "-fdata-sections",
        "-pthread")
FOREIGN = ("avx2", "avx512")           # instruction sets of x86-64
JOBS = len(os.sched_getaffinity(0))


def missing(compilers):
    """Packages to install for the compilers that are not on PATH."""
    return [PACKAGES.get(c, c) for c in compilers if shutil.which(c) is None]


def generate(build):
    """Cython's C, which the compile commands name."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    made = sorted({c["file"] for c in commands if c["file"].startswith("_executor/")})
    subprocess.run(["ninja", "-C", build, *made], check=True, stdout=subprocess.DEVNULL)
    return commands


def flags(command, native):
    """The compile command's flags that count here."""
    words = [w for w in shlex.split(command) if w.startswith(KEPT)]
    if not native:
        # Neither this machine's instruction sets nor its libraries.
        words = [w for w in words if not w.startswith(("-m", "-DPF_HAVE_AVX", "-DPF_ZLIB"))]
    return words


def compile_one(build, compiler, mode, command, native):
    """-> (file, what the compiler said, its exit status), None if it said nothing."""
    out = build / "portable" / compiler / command["output"]
    out.parent.mkdir(parents=True, exist_ok=True)
    line = [compiler, *flags(command["command"], native), *MODES[mode], command["file"]]
    if "clang" in compiler:             # GCC's warnings that it does not know are no news
        line += ["-Wno-unknown-warning-option"]
    if mode != "syntax":
        line += ["-o", str(out)]
    done = subprocess.run(line, cwd=build, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return (command["output"], done.stdout, done.returncode) if done.returncode or done.stdout else None


def compile_all(build, compiler, mode, commands):
    """Compiles everything; -> number of files with errors or warnings."""
    machine = subprocess.check_output([compiler, "-dumpmachine"], text=True).strip()
    native = machine.startswith("x86_64") and "musl" not in machine and compiler != "musl-gcc"
    if not native:
        commands = [c for c in commands if "_executor.abi3" not in c["output"] and "libpyflow_api" not in c["output"]
                    and not any(f"_{isa}." in c["output"] for isa in FOREIGN)]
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        said = [s for s in pool.map(lambda c: compile_one(build, compiler, mode, c, native), commands) if s]
    for output, text, code in said:
        print(f"{compiler}: {output}: {'error' if code else 'warning'}\n{text}")
    print(f"{compiler} ({machine}{', ' + mode if mode else ''}): {len(commands)} files, {len(said)} with"
          f" errors or warnings, {time.monotonic() - start:.0f} s", flush=True)
    return len(said)


def main(build, *wanted):
    build = pathlib.Path(build).resolve()
    compilers = [w.partition(":")[::2] for w in wanted]
    if lacking := missing([c for c, _ in compilers]):
        raise SystemExit("compile-all: compilers are missing: apt-get install " + " ".join(lacking)
                         + "\n(or name others: make compile-all COMPILERS=\"gcc-12 clang-16:syntax\")")
    commands = generate(build)
    raise SystemExit(min(sum(compile_all(build, *c, commands) for c in compilers), 99))


if __name__ == "__main__":
    main(*sys.argv[1:])
