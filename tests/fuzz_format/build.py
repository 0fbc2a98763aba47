"""Builds the fuzz targets: the core, sliced to C, and the CPU kernels, under ASan and UBSan.

    python tests/fuzz_format/build.py FOLDER            # -> FOLDER/fuzz_graph, fuzz_checkpoint
    python tests/fuzz_format/build.py FOLDER --types    # -> FOLDER/fuzz_types

Needs Cython, and clang for its libFuzzer; fuzz_types draws its graphs by itself, and gcc will do.
Only what changed is compiled again.  The lists of sources are those of the meson.build files, so a
new module is fuzzed without a word here.  Kernels are built for the baseline instruction set;
coverage is collected in the core and in the checkpoint's reader, sanitizers watch all.
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORE = ROOT / "_executor" / "core"
KERNELS = ROOT / "plugins" / "cpu" / "kernels"
ACCELERATOR = ROOT / "examples" / "plugin_accelerator" / "src"
SANITIZE = "-fsanitize=address,undefined"
FLAGS = [
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-O1",
    "-g1",
    "-w",
    "-fno-omit-frame-pointer",
    "-fno-sanitize-recover=all",
    "-DPF_NO_BLOCK_CACHE",
    "-DPF_HAVE_BASELINE=1",
    "-DPF_ISA=baseline",
    f"-I{ROOT / 'include'}",
    f"-I{CORE}",
    f"-I{KERNELS}",
]
COVERED = "-fsanitize=fuzzer-no-link"
EMPTY = "-fno-sanitize=pointer-overflow"  # plugins add 0 to the NULL of a tensor without elements
TARGETS = {"clang": ("fuzz_graph", "fuzz_checkpoint"), "gcc": ("fuzz_types",)}


def listed(text, name):
    """The quoted names of one list of a meson.build."""
    body = re.search(rf"^{name} = \[(.*?)\]", text, re.S | re.M).group(1)
    return re.findall(r"'([^']+)'", re.sub(r"#.*", "", body))


def cpu_kernels(folder):
    """The kernels' files; tables.h is written into `folder`, as meson.build has it."""
    tables, found = [], []
    for build in sorted(KERNELS.glob("*/meson.build")):
        for kind, body in re.findall(r"^(\w+) \+= files\((.*?)\)", build.read_text(), re.S | re.M):
            if kind == "tuned":  # flags of files that another list has
                continue
            files = [build.parent / name for name in re.findall(r"'([^']+)'", body)]
            found += files
            if kind.endswith("kernels"):
                once = {"isa_kernels": "ISA", "avx2_kernels": "AVX2"}.get(kind, "ONCE")
                tables += [f"  {once}({file.stem})" for file in files]
    text = (KERNELS / "tables.h.in").read_text().replace("@TABLES@", " \\\n".join(tables))
    target = folder / "include" / "tables.h"
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)
    return found


def run(command):
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(x) for x in command)}\n{done.stdout}{done.stderr}")


def older(target, *sources):
    return not target.exists() or any(s.stat().st_mtime > target.stat().st_mtime for s in sources)


def slice_modules(folder, names):
    """Core modules as C; those that nothing has changed for stay as they are."""
    sources = [CORE / f"{name}.pyx" for name in names]
    run([sys.executable, ROOT / "_executor" / "slice.py", *sources, "--out", folder, "-I", CORE, "-I", folder])
    return [folder / f"{source.stem}.c" for source in sources]


def compile_one(cc, folder, source, newest, covered, *extra):
    target = folder / f"{source.stem}.o"
    if older(target, source, newest):
        flags = [SANITIZE, COVERED] if covered and cc == "clang" else [SANITIZE]
        run([cc, *FLAGS, *flags, *extra, "-c", source, "-o", target])
    return target


def one_plugin(target, jobs, entry):
    """A plugin as one object that shows nothing but its entry, as a library would."""
    run(["ld", "-r", "-o", target, *[job.result() for job in jobs]])
    run(["objcopy", f"--keep-global-symbol={entry}", target])
    return target


def latest(paths):
    return max(paths, key=lambda path: path.stat().st_mtime)


def main(folder, cc):
    folder = pathlib.Path(folder)
    for part in ("cpu", "fake"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    modules = listed((ROOT / "_executor" / "meson.build").read_text(), "core_modules")
    kernels = cpu_kernels(folder)
    accelerator = sorted(ACCELERATOR.glob("*.c"))
    headers = listed((ROOT / "_executor" / "meson.build").read_text(), "core_headers")
    run([sys.executable, ROOT / "_executor" / "gen_pxd.py", "-I", CORE, "-I", ROOT / "include",
         "--out", folder, *(CORE / name for name in headers)])
    newest = latest(p for p in CORE.rglob("*") if p.suffix in (".h", ".pxd", ".pxi"))
    header = latest([*KERNELS.rglob("*.h"), *(ROOT / "include" / "pyflow").glob("*.h")])
    table = folder / "op_table.c"
    run([sys.executable, ROOT / "_executor" / "gen_op_table.py", table, folder / "op_table.d"])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        halves = list(pool.map(lambda names: slice_modules(folder, names), (modules[::2], modules[1::2])))
        sliced = [c for half in halves for c in half]
        jobs = [pool.submit(compile_one, cc, folder, c, newest, True) for c in [*sliced, table]]
        jobs += [
            pool.submit(compile_one, cc, folder, HERE / name, newest, False)
            for name in ("common.c", "mutate_graph.c", "typed_graphs.c")
        ]
        cpu = [
            pool.submit(compile_one, cc, folder / "cpu", c, header, "checkpoint" in c.name, EMPTY,
                        f"-I{folder / 'include'}")
            for c in kernels
        ]
        rename = ["-Dpyflow_plugin_v1=pyflow_fake_plugin", f"-I{ACCELERATOR}", EMPTY]
        fake = [
            pool.submit(compile_one, cc, folder / "fake", c, header, False, *rename)
            for c in accelerator
        ]
        shared = [job.result() for job in jobs]
        shared.append(one_plugin(folder / "cpu.o", cpu, "pyflow_plugin_v1"))
        shared.append(one_plugin(folder / "fake.o", fake, "pyflow_fake_plugin"))
    for name in TARGETS[cc]:
        main_o = compile_one(cc, folder, HERE / f"{name}.c", newest, True)
        run(
            [
                cc,
                SANITIZE,
                *(["-fsanitize=fuzzer"] if cc == "clang" else []),
                main_o,
                *shared,
                "-o",
                folder / name,
                "-pthread",
                "-ldl",
                "-lm",
            ]
        )
    print(f"built {', '.join(str(folder / name) for name in TARGETS[cc])}")


if __name__ == "__main__":
    main(sys.argv[1], "gcc" if "--types" in sys.argv else "clang")
