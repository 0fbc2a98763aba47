"""The random graphs under ThreadSanitizer, and under AddressSanitizer with UBSan and LeakSanitizer.

    python tests/fuzz/sanitize.py thread --count 10000      # long.py sanitize runs both
    python tests/fuzz/sanitize.py address --minutes 5 --keep /tmp/asan

    python tests/fuzz/sanitize.py thread --script step_orders.c --count 100000
    python tests/fuzz/sanitize.py thread --script ../queues/schedules.py --count 100000
    python tests/fuzz/sanitize.py thread --script ../queues/schedules.py --threads 3
    python tests/fuzz/sanitize.py address --script ../data/random_pipelines.py --count 200

Builds the core, the CPU plugin, the fake accelerator and the kernels of this folder with gcc's
sanitizer into a folder of its own, runs graphs.py there with the sanitizer preloaded (the
interpreter itself is not instrumented), and prints every report.  Exit status 1 if there was one,
or a graph differed.

Leaks: what CPython and NumPy keep to the end is left out by the names of their allocation functions
(LEAKS); whatever the core or a plugin allocates itself and nobody points to any more is a leak.
Races: no suppression.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FLAGS = {"thread": ["-fsanitize=thread"], "address": ["-fsanitize=address,undefined"]}
RUNTIME = {"thread": ["libtsan.so"], "address": ["libasan.so", "libubsan.so"]}

# Allocations below these functions belong to the interpreter or to NumPy: objects that live as long
# as the process (interned strings, types, code, dtypes), to which the interpreter's tables point.
LEAKS = """
leak:_PyObject_Malloc
leak:_PyObject_Realloc
leak:_PyObject_Calloc
leak:PyObject_Malloc
leak:PyObject_Calloc
leak:PyObject_Realloc
leak:_PyMem_RawMalloc
leak:_PyMem_RawCalloc
leak:PyMem_RawMalloc
leak:PyMem_Malloc
leak:PyMem_Calloc
leak:PyMem_Realloc
leak:_PyObject_GC_
leak:PyFloat_FromDouble
leak:PyThread_allocate_lock
leak:_multiarray_umath
leak:_umath_linalg
"""
OPTIONS = {
    "thread": {"TSAN_OPTIONS": "exitcode=0 history_size=4 second_deadlock_stack=1"
                               " report_signal_unsafe=0 ignore_noninstrumented_modules=1"},
    "address": {"ASAN_OPTIONS": "detect_leaks=1:exitcode=0:detect_stack_use_after_return=0"
                                ":allocator_may_return_null=1:handle_segv=1:halt_on_error=0",
                "UBSAN_OPTIONS": "print_stacktrace=1",
                "LSAN_OPTIONS": "exitcode=0:max_leaks=20:print_suppressions=0",
                "PYTHONMALLOC": "malloc"},
}


def build(folder, kind, isa):
    """folder/tree is then importable: pyflow and pyflow_cpu with sanitized binaries."""
    made, tree = folder / "build", folder / "tree"
    meson = [sys.executable, "-m", "mesonbuild.mesonmain"]
    if not (made / "build.ninja").exists():
        run([*meson, "setup", made, ROOT, f"-Db_{FLAGS[kind][0][2:]}",
             "-Db_lundef=false", "-Dbuildtype=debugoptimized", f"-Disa={isa}"])
    cpu = "plugins/cpu/kernels/libpyflow_cpu.so"
    run(["ninja", "-C", made, "_executor/_executor.abi3.so", cpu])
    shutil.rmtree(tree, ignore_errors=True)
    left_out = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "pyflow", tree / "pyflow", ignore=left_out)
    shutil.copytree(ROOT / "plugins" / "cpu" / "pyflow_cpu", tree / "pyflow_cpu", ignore=left_out)
    shutil.copy(made / "_executor" / "_executor.abi3.so", tree / "pyflow")
    library = pathlib.Path(shutil.copy(made / cpu, tree / "pyflow_cpu"))
    run([sys.executable, ROOT / "include" / "pyflow" / "make_plugin_json.py", library,
         library.with_name("plugin.json"), "--preload",
         "scipy_openblas32:lib/libscipy_openblas.so"],
        LD_PRELOAD=preloaded(kind), ASAN_OPTIONS="detect_leaks=0")
    return tree


def build_plugins(folder, kind):
    import plugins_of_fuzz
    folder.mkdir(exist_ok=True)
    for name in plugins_of_fuzz.LIBRARIES:
        (folder / name).unlink(missing_ok=True)
        plugins_of_fuzz.build(folder, name, *FLAGS[kind])


def preloaded(kind):
    return " ".join(subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
                    for name in RUNTIME[kind])


def run(command, **more):
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          env={**os.environ, "PATH": path, **more})
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{(done.stdout + done.stderr)[-4000:]}")


def environment(folder, tree, kind):
    env = {**os.environ, **OPTIONS[kind], "PYTHONPATH": str(tree), "PYFLOW_PLUGIN_PROBE": "0"}
    env["LD_PRELOAD"] = preloaded(kind)
    (folder / "leaks.txt").write_text(LEAKS)
    if kind == "address":
        env["LSAN_OPTIONS"] += f":suppressions={folder / 'leaks.txt'}"
    which = next(iter(OPTIONS[kind]))
    env[which] += f"{' ' if kind == 'thread' else ':'}log_path={folder / 'report'}"
    return env


def run_c(folder, kind, count, seed, script):
    """A program in C on the core's own functions, which Python does not see: its exit status."""
    made, program = folder / "build", folder / pathlib.Path(script).stem
    if not (made / "build.ninja").exists():
        run([sys.executable, "-m", "mesonbuild.mesonmain", "setup", made, ROOT,
             f"-Db_{FLAGS[kind][0][2:]}", "-Db_lundef=false", "-Dbuildtype=debugoptimized"])
    libraries = ["_executor/libpyflow_net.a", "_executor/libpyflow_core.a"]
    run(["ninja", "-C", made, *libraries])
    run(["gcc", "-std=gnu11", "-O1", "-g", *FLAGS[kind], f"-I{ROOT / '_executor' / 'core'}",
         f"-I{ROOT / 'include'}", HERE / script, *(made / name for name in libraries),
         "-lpthread", "-ldl", "-lm", "-o", program])
    options = {"TSAN_OPTIONS": "exitcode=66", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
    return subprocess.run([str(program), str(count), str(seed)], text=True,
                          env={**os.environ, **options}).returncode


def main(kind, count, minutes, seed, keep, isa, script, threads):
    folder = pathlib.Path(keep or tempfile.mkdtemp(prefix=f"pyflow-{kind}-"))
    folder.mkdir(exist_ok=True, parents=True)
    if script.endswith(".c"):
        status = run_c(folder, kind, count, seed, script)
        print(f"{kind}: {script}: exit status {status}")
        return status
    tree = build(folder, kind, isa)
    sys.path.insert(0, str(HERE))
    build_plugins(folder / "libraries", kind)
    for old in folder.glob("report*"):
        old.unlink()
    command = [sys.executable, HERE / script, "--seed", seed]
    if script == "graphs.py":
        command += ["--libraries", folder / "libraries"]
        command += ["--minutes", minutes] if minutes else ["--count", count]
    else:
        command += ["--count", count, *(["--threads", threads] if threads else [])]
    done = subprocess.run([str(part) for part in command], env=environment(folder, tree, kind),
                          stderr=subprocess.PIPE, text=True, errors="replace")
    reports = "".join(path.read_text(errors="replace") for path in sorted(folder.glob("report*")))
    reports += "\n".join(line for line in done.stderr.splitlines() if "runtime error:" in line)
    print(done.stderr[-2000:], reports[:20000], sep="\n")
    n = sum(reports.count(mark) for mark in ("WARNING: ThreadSanitizer", "ERROR: AddressSanitizer",
                                             "ERROR: LeakSanitizer", "runtime error:"))
    print(f"{kind}: exit status {done.returncode}, {n} reports")
    if not keep:
        shutil.rmtree(folder)
    return 1 if n or done.returncode else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=list(FLAGS))
    parser.add_argument("--count", type=int, default=10**4)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", help="a folder to build in, which stays")
    parser.add_argument("--isa", choices=["all", "baseline"], default="all")
    parser.add_argument("--script", default="graphs.py")
    parser.add_argument("--threads", type=int, help="for a script that has such an argument")
    sys.exit(main(**vars(parser.parse_args())))
