"""Cython to C, several modules in one process; those whose C is newer than what it came from are left alone.

    python cythonize.py --package pyflow._executor --prefix api_ --out DIR --depfile api.d -I core [-I dir ...] api/values.pyx ...

A process spends three times as long on starting Cython as on a module, so the build hands over many at
once: this file for the API's modules, slice.py (which uses `outdated`, `each` and `compile_module`) for the core's.
The build knows outputs of one command only together; whoever edits one module waits for one, since
`outdated` reads what each came from.  `api.pyx` is the package itself, the others are its modules.

What modules cimport from outside their package (headers' declarations, NumPy's) is read once for all that
cimport the same: Cython compiles one module in a context, so each is compiled by a child of the process
that has read them.
"""

import argparse
import contextlib
import functools
import gc
import io
import os
import pathlib
import re
import sys
import traceback

import Cython
from Cython.Compiler import Errors, Options
from Cython.Compiler.Main import CompilationOptions, Context, compile_single, default_options

SELF = pathlib.Path(__file__).resolve()
CIMPORT = re.compile(r"^(?:from\s+([\w.]+)\s+cimport|cimport\s+([\w.]+))\b", re.M)
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


def cython_options(includes, **more):
    return CompilationOptions(default_options, include_path=list(includes), language_level=3, **more)


def read_ahead(names, includes):
    """A context that has read the modules `names`; None: Cython has something to say about them."""
    Errors.reset()
    Errors.open_listing_file(None, echo_to_stderr=False)
    context = Context.from_options(cython_options(includes))
    for name in names:
        context.find_module(name)
    return None if Errors.get_errors_count() else context


def cimported(pyx, package):
    """What `pyx` cimports from outside `package`, in its order."""
    names = ("".join(found) for found in CIMPORT.findall(pyx.read_text(encoding="utf-8")))
    return tuple(dict.fromkeys(n for n in names if n.partition(".")[0] not in ("cython", package)))


def in_child(work, *arguments):
    """Whether work(*arguments) returned something true in a child of this process."""
    sys.stderr.flush()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done = False
    try:
        done = work(*arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(0 if done else 1)


def each(jobs, includes, package=None):
    """work(context) of each (pyx, work) until one returns something false; -> whether none did.

    The first runs in this process: children begin with what Cython then keeps of its own files.
    """
    contexts = {}
    for number, (pyx, work) in enumerate(jobs):
        if number == 0:
            if not work(None):
                return False
            continue
        names = cimported(pyx, package)
        if names not in contexts:
            contexts[names] = read_ahead(names, includes)
        if not in_child(work, contexts[names]):
            return False
    return True


def compile_module(pyx, output, name, includes, context=None):
    """C of module `name` in `output`, its rule in `depfile_of(output)`; -> whether Cython agreed.

    What Cython has to say goes to stderr.
    """
    options = cython_options(includes, output_file=str(output), depfile=True)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        if context is not None:
            context.options = options
        done = compile_single(str(pyx), options, name, context=context)
    for line in said.getvalue().splitlines():
        if NOISE not in line and line.strip():
            print(line, file=sys.stderr)
    return done.num_errors == 0


def whole_module(pyx, output, name, includes, context):
    """compile_module that leaves no output behind where Cython disagreed."""
    done = compile_module(pyx, output, name, includes, context)
    if not done:
        output.unlink(missing_ok=True)
    return done


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
    outputs, jobs = [], []
    for pyx in arguments.pyx:
        output = arguments.out / f"{arguments.prefix}{pyx.stem}.c"
        outputs.append(output)
        name = arguments.package if pyx.stem == "api" else f"{arguments.package}.{pyx.stem}"
        if outdated(output):
            jobs.append((pyx, functools.partial(whole_module, pyx, output, name, arguments.includes)))
    if not each(jobs, arguments.includes, arguments.package.partition(".")[0]):
        return 1
    if arguments.depfile:
        write_rule(arguments.depfile, outputs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
