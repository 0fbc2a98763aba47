"""Cython to C, several modules in one process; those whose C is newer than what it came from are left alone.

    python cythonize.py --package pyflow._executor --prefix api_ --out DIR --depfile api.d -I core [-I dir ...] api/values.pyx ...

A process spends three times as long on starting Cython as on a module, so the build hands over many at
once: this file for the API's modules, slice.py (which uses `outdated` and `compile_module`) for the core's.
The build knows outputs of one command only together; whoever edits one module waits for one, since
`outdated` reads what each came from.  `api.pyx` is the package itself, the others are its modules.
"""

import argparse
import contextlib
import gc
import io
import pathlib
import sys

import Cython
from Cython.Compiler import Options
from Cython.Compiler.Main import CompilationOptions, compile_single, default_options

SELF = pathlib.Path(__file__).resolve()
NOISE = "previously declared as 'extern', now as 'public'"  # a core module defines what its .pxd declares


def depfile_of(output):
    """Where a module's own dependencies are kept."""
    return output.with_name(output.name + ".dep")


def dependencies(output):
    """The files that `output` came from, by its rule; none: unknown."""
    try:
        rule = depfile_of(output).read_text(encoding="utf-8").partition(":")[2]
    except OSError:
        return []
    return [pathlib.Path(name.replace("\\ ", " ")) for name in rule.replace("\\\n", " ").split()]


def outdated(output, *tools):
    """Whether `output` must be made: it is not there, or something that it came from is newer."""
    sources = dependencies(output)
    if not sources or not output.exists():
        return True
    made = output.stat().st_mtime_ns
    return any(not path.exists() or path.stat().st_mtime_ns >= made
               for path in (*sources, *tools, SELF, pathlib.Path(Cython.__file__)))


def compile_module(pyx, output, name, includes):
    """C of module `name` in `output`, its rule in `depfile_of(output)`; -> whether Cython agreed.

    What Cython has to say goes to stderr.
    """
    options = CompilationOptions(default_options, include_path=list(includes), language_level=3,
                                 output_file=str(output), depfile=True)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        done = compile_single(str(pyx), options, name)
    for line in said.getvalue().splitlines():
        if NOISE not in line and line.strip():
            print(line, file=sys.stderr)
    return done.num_errors == 0


def write_rule(path, outputs):
    """One make rule of all outputs, of what each of them came from."""
    sources = {str(source) for output in outputs for source in dependencies(output)}
    escaped = (text.replace(" ", "\\ ") for text in sorted(sources))
    path.write_text(f"{' '.join(map(str, outputs))}: {' '.join(escaped)}\n", encoding="utf-8")


def options(description):
    """What both commands take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("pyx", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the C files")
    parser.add_argument("--depfile", type=pathlib.Path, help="make rule: what the outputs depend on")
    parser.add_argument("-I", dest="includes", action="append", default=[],
                        help="where .pxd files are found")
    return parser


def begin():
    """For all modules: the first error ends one, and its many small objects are not looked through for garbage."""
    Options.fast_fail = True
    gc.disable()


def main(argv=None):
    parser = options(__doc__.split("\n")[0])
    parser.add_argument("--package", required=True, help="full name of api.pyx's module")
    parser.add_argument("--prefix", default="", help="of the C files' names")
    arguments = parser.parse_args(argv)
    begin()
    outputs = []
    for pyx in arguments.pyx:
        output = arguments.out / f"{arguments.prefix}{pyx.stem}.c"
        outputs.append(output)
        name = arguments.package if pyx.stem == "api" else f"{arguments.package}.{pyx.stem}"
        if outdated(output) and not compile_module(pyx, output, name, arguments.includes):
            output.unlink(missing_ok=True)
            return 1
    if arguments.depfile:
        write_rule(arguments.depfile, outputs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
