"""The core's floors: values, graph, host, plan, step, look, and net above them, which is C.  One header each, that includes lower
ones only."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = ROOT / "_executor" / "core"
FLOORS = ["values", "graph", "host", "plan", "step", "look", "net"]
HEADERS = sorted(p.relative_to(CORE).as_posix() for p in CORE.rglob("*.h"))
MODULES = sorted(p.relative_to(CORE).as_posix() for kind in ("*.pyx", "*.c") for p in CORE.rglob(kind))
PUBLIC = {"pyflow/kernel.h": "values", "pyflow/link.h": "net"}      # and the lowest floor that may include it
UPCALLS = 25        # functions in upcalls.h; a new one needs a reason there, and this number


def floor(name):
    """rt.pyx, the runtime's functions for C, stands above the floors; upcalls.h below all but the first."""
    return FLOORS.index(name.split("/")[0]) if "/" in name else len(FLOORS) if name == "rt.pyx" else 0


def text_of(name):
    return re.sub(r"/\*.*?\*/", " ", (CORE / name).read_text(encoding="utf-8"), flags=re.S)


def functions(name):
    """Those that a header declares, without the inline ones."""
    return set(re.findall(r"^(?!static|typedef|#|enum|extern)\w[\w ]*[ *](pf_\w+)\((?=[^;{]*\);)", text_of(name), re.M))


def test_every_floor_has_its_header():
    for name in FLOORS:
        assert f"{name}/{name}.h" in HEADERS
        assert any(floor(module) == FLOORS.index(name) for module in MODULES)
    assert {name.split("/")[0] for name in HEADERS if "/" in name} == set(FLOORS)


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_compiles_alone(name):
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
               "-Wno-unused-function", "-Wno-unused-parameter", "-Wno-missing-field-initializers",
               f"-I{CORE}", f"-I{ROOT / 'include'}", "-x", "c", "-"]
    done = subprocess.run(command, input=f'#include "{name}"\n', text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_headers_include_lower_floors_only():
    for name in HEADERS:
        for included in re.findall(r'#include "([^"]+)"', text_of(name)):
            if included.startswith("pyflow/"):
                assert floor(name) >= FLOORS.index(PUBLIC[included]) or name == "upcalls.h", name
                continue
            assert included in HEADERS, (name, included)
            assert floor(included) <= floor(name), f"{name} includes {included}"
            if "/" in included and floor(included) == floor(name):
                own = included.split("/")[0]
                assert name != f"{own}/{own}.h" or not own == FLOORS[0] or included in ("values/atomic.h", "values/digest.h")


def test_modules_see_their_floor_and_lower_ones():
    """A module cimports one header's declarations, and nothing else of ours."""
    stems = {pathlib.PurePath(name).stem + "_h": name for name in HEADERS}
    assert len(stems) == len(HEADERS)
    for module in MODULES:
        text = (CORE / module).read_text(encoding="utf-8")
        if module.endswith(".c"):
            included = re.findall(r'#include "([^"]+)"', text)
            assert included and {name.split("/")[0] for name in included} == {module.split("/")[0]}, module
            continue
        found = re.findall(r"^\s*(?:from|cimport) +(\w+)", text, re.M)
        [name] = [name for name in found if not name.startswith("libc")]
        assert floor(stems[name]) <= floor(module), f"{module} cimports {name}"
        own = re.findall(r'cdef extern from "([^<"]+)"', text)
        assert set(own) <= {"pyflow/runtime.h"}, f"{module} declares parts of {own} by hand"


def test_a_floor_defines_what_its_headers_declare():
    """So a function of a higher floor can be called from a lower one through upcalls.h alone."""
    defined = {}
    for module in MODULES:
        text = (CORE / module).read_text(encoding="utf-8")
        for function in re.findall(r"^cdef public [^\n(]*?(\w+)\(", text, re.M):
            assert defined.setdefault(function, module) == module
        for function in re.findall(r"^    (?!static)[\w ]+\W\*?(pf_\w+)\([^;]*\) \{", text, re.M):
            defined.setdefault(function, module)         # in a block of C
        if module.endswith(".c"):
            for function in re.findall(r"^(?!static)\w[\w ]*[ *](pf_\w+)\([^;{]*\) \{", text, re.M):
                assert defined.setdefault(function, module) == module
    upwards = functions("upcalls.h")
    assert len(upwards) == UPCALLS
    for name in HEADERS:
        for function in functions(name):
            assert function in defined, f"{name}: nobody defines {function}"
            if name != "upcalls.h":
                assert function not in upwards
                assert floor(defined[function]) == floor(name), f"{name}: {function} of {defined[function]}"


def test_upcalls_are_called_from_below():
    for function in functions("upcalls.h"):
        where = [module for module in MODULES
                 if re.search(rf"\b{function}\b", (CORE / module).read_text(encoding="utf-8"))]
        [home] = [m for m in where if re.search(rf"cdef public [^\n(]*\b{function}\(", (CORE / m).read_text())]
        assert any(floor(module) < floor(home) for module in where), f"{function} is no upcall"


HEADER = """
#include <stdint.h>
enum { TOY_N = 2 << 1, TOY_M };
typedef struct toy { int32_t in, n[TOY_N]; const char *const *names; void (*end)(struct toy *, int); } toy;
static inline __attribute__((always_inline)) int toy_twice(int x) { return 2 * x; }
#define TOY_MARK 0xffu
toy *toy_new(const char *name, ...);
"""


def generate(folder, text):
    (folder / "toy.h").write_text(text, encoding="utf-8")
    command = [sys.executable, ROOT / "_executor" / "gen_pxd.py", "--out", folder, folder / "toy.h"]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_pxd_declares_what_the_header_does(tmp_path):
    done = generate(tmp_path, HEADER)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "toy_h.pxd").read_text(encoding="utf-8")
    for line in ("TOY_N, TOY_M", 'int32_t ins "in"', "int32_t n[4]", "const char * const *names",
                 "void (*end)(toy*, int) noexcept nogil", "int toy_twice(int) noexcept",
                 "uint32_t TOY_MARK", "toy *toy_new(const char*, ...) noexcept"):
        assert line in text, f"{line}\n{text}"


def test_what_the_generator_cannot_read_stops_the_build(tmp_path):
    done = generate(tmp_path, "typedef struct { int32_t flag : 1; } bits;\n")
    assert done.returncode == 1 and "toy.h: typedef struct { int32_t flag : 1" in done.stderr
