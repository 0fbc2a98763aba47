"""Cython to C without Python: compile one core `.pyx` and keep only the C of its functions.

    python slice.py core/plan/plan.pyx plan.c -I core/plan [-I dir ...] [--depfile plan.c.dep]

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

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import Cython

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


def cythonize(pyx, includes, output):
    """Run the pinned Cython on `pyx`; C goes to `output`, with #line directives to the source."""
    version = tuple(int(x) for x in Cython.__version__.split(".")[:2])
    if version != TESTED:
        raise SliceError(
            f"Cython {Cython.__version__} found, but slice.py is checked with {TESTED[0]}.{TESTED[1]}.x "
            "only: install that (pyproject.toml pins it), or check the sections and extend TESTED"
        )
    command = [
        sys.executable,
        "-m",
        "cython",
        "-3",
        "-M",
        "--fast-fail",
        "--module-name",
        pyx.stem,
        "-o",
        str(output),
    ]
    for folder in includes:
        command += ["-I", folder]
    done = subprocess.run(
        command + [str(pyx)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    noise = "previously declared as 'extern', now as 'public'"  # a core module defines what its .pxd declares
    text = "\n".join(line for line in done.stdout.splitlines() if noise not in line)
    if text.strip():
        print(text, file=sys.stderr)
    if done.returncode:
        raise SliceError(f"{pyx}: Cython failed")


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


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pyx", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument(
        "--depfile", type=pathlib.Path, help="make rule: what the output depends on"
    )
    parser.add_argument(
        "-I", dest="includes", action="append", default=[], help="where .pxd files are found"
    )
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        full = pathlib.Path(folder, arguments.pyx.stem + ".c")
        try:
            cythonize(arguments.pyx, arguments.includes, full)
            if arguments.depfile:
                rule = pathlib.Path(f"{full}.dep").read_text(encoding="utf-8")
                arguments.depfile.write_text(
                    f"{arguments.output}:{rule.partition(':')[2]}", encoding="utf-8"
                )
            text = slice_module(full.read_text(encoding="utf-8"), arguments.pyx)
        except SliceError as error:
            print(error, file=sys.stderr)
            return 1
    arguments.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
