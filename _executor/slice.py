"""Cython to C without Python: compile core `.pyx` files and keep only the C of their functions.

    python slice.py core/plan/plan.pyx core/plan/emit.pyx --out DIR -I core [-I dir ...] [--depfile plan.d]

`plan.pyx` becomes DIR/plan.c; a module whose C is newer than all it came from is left alone.

Purpose.  `_executor/core/**/*.pyx` holds no Python object, so all of what Cython adds for Python -
Python.h, module init, string tables, exception utilities - can be left out.  What remains compiles
as plain C11, into the one static library that both the Python extension and `libpyflow_rt` link.

Invariants of the output
1. It includes what the `.pyx` and its `.pxd` include, in their order, and nothing else.
2. It holds the module's type declarations, its C string constants, its function prototypes and its
functions.
3. No name starting with Py or __Pyx_ (or a macro made from one) is left: an op that needs the
interpreter
   (a division without `cdivision`, `raise`, `assert`, `with gil`, `**`) fails HERE, with the line
   of the `.pyx`.
4. No code runs at import time, because there is no import: a module-level statement such as `cdef
int g = 5`
   would be dropped and read 0, so it is refused.  Constants are enums or live in a C header.

Cython marks the sections of its output (`/* #### Code section: NAME ### */`); the format was
checked for the versions in TESTED, and another version stops the build with advice rather than with
strange C.
"""

import functools
import pathlib
import re
import sys
import tempfile

import Cython

SELF = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(SELF.parent))  # under PYTHONSAFEPATH it is not there
import cythonize  # noqa: E402

TESTED = (3, 3)

PROLOGUE = """\
/* {name}.c: sliced from {name}.pyx by _executor/slice.py (Cython {version}).  Plain C11, no Python.  Do not edit. */
#ifndef CYTHON_INLINE
#define CYTHON_INLINE inline
#endif
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define CYTHON_UNUSED __attribute__((unused))
#define CYTHON_NCP_UNUSED
#define CYTHON_MAYBE_UNUSED_VAR(x) (void)(x)
#define CYTHON_UNUSED_VAR(x) (void)(x)
#define CYTHON_FALLTHROUGH __attribute__((fallthrough))
#define CYTHON_SMALL_CODE
#define __PYX_EXTERN_C extern
#define DL_IMPORT(t) t
#define PY_LONG_LONG long long
#include <stddef.h>
"""

SECTION = re.compile(r"/\* #### Code section: (\w+) ### \*/\n")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
PYTHON_NAME = re.compile(r"\b(_?Py[A-Z_]\w*|__Pyx_\w+|__PYX_ERR\w*|__pyx_mstate\w*)")
POSITION = re.compile(r'/\* "([^"]*\.(?:pyx|pxd|pxi))":(\d+)\n')


class SliceError(Exception):
    """The module cannot be built without Python; the message says where and why."""


def check_version():
    """The sections of Cython's output are known for the pinned versions only."""
    version = tuple(int(x) for x in Cython.__version__.split(".")[:2])
    if version != TESTED:
        raise SliceError(
            f"Cython {Cython.__version__} found, but slice.py is checked with {TESTED[0]}.{TESTED[1]}.x "
            "only: install that (pyproject.toml pins it), or check the sections and extend TESTED"
        )


def split_sections(text):
    """-> (what precedes the first section, {section: its text})."""
    parts = SECTION.split(text)
    return parts[0], dict(zip(parts[1::2], parts[2::2]))


def included(preamble, name):
    """The #include lines and verbatim C blocks of the module and its .pxd files."""
    found = re.search(rf"#define __PYX_HAVE_API__{name}\n(.*?)#ifdef _OPENMP", preamble, re.S)
    if not found:
        raise SliceError(f"{name}: no include block in Cython's output; was its layout changed?")
    return found.group(1).replace("/* Early includes */\n", "")


def declarations(section, name):
    """Prototypes and static variables of the module itself (cimported modules declare nothing of
    their own)."""
    mark = f'/* Module declarations from "{name}" */'
    text = section[section.index(mark) + len(mark) :]
    return text.split("#define __Pyx_MODULE_NAME")[0]


def refuse_module_code(init, pyx):
    """Invariant 4: the import-time code of a sliced module would never run."""
    body = init.split("/*--- Execution code ---*/")[-1].split("/*--- Wrapped vars code ---*/")[0]
    for match in POSITION.finditer(body):
        statement = body[match.end() :].split("*/", 1)
        if "__pyx_n_u_test" in statement[1].split("/* \"", 1)[0]:
            continue  # Cython's own empty __test__ dictionary
        line = next((x for x in statement[0].splitlines() if "<<<<<<" in x), "")
        line = line.lstrip(" *").split("#")[0].strip()
        raise SliceError(
            f"{pyx}:{match.group(2)}: module-level statement `{line}` never runs in the Python-free build "
            "(an initialised global reads 0): use an enum, a C header, or set it in an init function"
        )


def refuse_python(code, pyx):
    """Invariant 3: report each use of the interpreter with its .pyx line."""
    problems, where = [], "?"
    for line in code.splitlines():
        position = re.match(r'/\* "([^"]*)":(\d+)', line.strip())
        if position:
            where = f"{position.group(1)}:{position.group(2)}"
        elif (found := PYTHON_NAME.search(line)) and not line.lstrip().startswith(("*", "/*")):
            problems.append(f"{where}: needs Python: `{found.group(1)}` in `{line.strip()[:100]}`")
    if problems:
        raise SliceError("\n".join(dict.fromkeys(problems)))


def line_directives(code, pyx):
    """Cython's source comments become `#line N "file"`, so that compilers and debuggers show the
    .pyx."""

    def directive(match):
        source = pyx.with_name(pathlib.PurePath(match.group(1)).name)
        return f'\n#line {match.group(2)} "{"/".join(source.parts[-4:])}"\n'

    code = re.sub(r'/\* "([^"\n]*)":(\d+)\n.*?\*/', directive, code, flags=re.S)
    return re.sub(r"\n\s*\n+", "\n", COMMENT.sub("", code))


def slice_module(text, pyx):
    """The Python-free C of one module, from Cython's output `text`."""
    name = pyx.stem
    preamble, section = split_sections(text)
    refuse_module_code(section["init_module"], pyx)
    head = "\n".join(
        [
            included(preamble, name),
            section["type_declarations"],
            declarations(section["module_declarations"], name),
            section["global_var"],
            section["string_decls"],
            section["decls"],
            section["late_includes"],
        ]
    )
    code = section["module_code"]
    refuse_python(head + code, pyx)
    head = re.sub(r"\n\s*\n+", "\n", COMMENT.sub("", head))
    return (
        PROLOGUE.format(name=name, version=Cython.__version__) + head + line_directives(code, pyx)
    )


def slice_file(pyx, output, includes, context=None):
    """`pyx` as C in `output`, and beside it the rule of what it came from."""
    with tempfile.TemporaryDirectory() as folder:
        full = pathlib.Path(folder, pyx.stem + ".c")
        if not cythonize.compile_module(pyx, full, pyx.stem, includes, context):
            raise SliceError(f"{pyx}: Cython failed")
        text = slice_module(full.read_text(encoding="utf-8"), pyx)
        rule = cythonize.depfile_of(full).read_text(encoding="utf-8")
    cythonize.depfile_of(output).write_text(f"{output}:{rule.partition(':')[2]}", encoding="utf-8")
    output.write_text(text, encoding="utf-8")


def sliced(pyx, output, includes, context):
    """slice_file, whose error is printed; -> whether there was none."""
    try:
        slice_file(pyx, output, includes, context)
    except SliceError as error:
        print(error, file=sys.stderr)
        return False
    return True


def main(argv=None):
    arguments = cythonize.options(__doc__.split("\n")[0]).parse_args(argv)
    outputs = [arguments.out / f"{pyx.stem}.c" for pyx in arguments.pyx]
    try:
        check_version()
        cythonize.begin()
        jobs = [(pyx, functools.partial(sliced, pyx, output, arguments.includes))
                for pyx, output in zip(arguments.pyx, outputs) if cythonize.outdated(output, SELF)]
        if not cythonize.each(jobs, arguments.includes):
            return 1
    except SliceError as error:
        print(error, file=sys.stderr)
        return 1
    if arguments.depfile:
        cythonize.write_rule(arguments.depfile, outputs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
