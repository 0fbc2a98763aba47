"""_executor/slice.py: what it keeps compiles without Python, what needs Python or would silently
read 0 is refused."""

import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("Cython", reason="the build's own dependency; `make test` installs it")

SLICE = pathlib.Path(__file__).resolve().parents[2] / "_executor" / "slice.py"
HEADER = """
#include <stdatomic.h>
#include <stdint.h>
typedef struct item { int32_t n; _Atomic int32_t count; struct item *next; } item;
static inline int32_t count_up(item *it) { return atomic_fetch_add(&it->count, 1) + 1; }
int32_t list_sum(item *first);
int32_t list_length(item *first);
"""
PXD = """
from libc.stdint cimport int32_t
cdef extern from "toy.h" nogil:
    ctypedef struct item:
        int32_t n
        item* next
    int32_t count_up(item*) noexcept
    int32_t list_sum(item*) noexcept
    int32_t list_length(item*) noexcept
"""
SUM = """
# cython: cdivision=True
from toy cimport *
cdef enum:
    SCALE = 2
cdef struct Pair:
    int32_t a
    int32_t b
cdef int32_t scaled(item* it) noexcept nogil:
    return it.n * SCALE // 2
cdef public int32_t list_sum(item* first) noexcept nogil:
    cdef Pair p
    p.a = 0
    while first != NULL:
        p.a += scaled(first) + count_up(first)
        first = first.next
    return p.a
"""
LENGTH = """
from toy cimport *
cdef extern from *:
    \"\"\"
    #define TOY_ONE 1
    \"\"\"
    enum: TOY_ONE
cdef public int32_t list_length(item* first) noexcept nogil:
    return 0 if first == NULL else TOY_ONE + list_length(first.next) + 0 * list_sum(first)
"""
MAIN = """
#include "toy.h"
int main(void) { item b = {7, 0, 0}, a = {5, 0, &b}; return list_sum(&a) == 14 && list_length(&a) == 2 ? 0 : 1; }
"""


@pytest.fixture
def toy(tmp_path):
    for name, text in {"toy.h": HEADER, "toy.pxd": PXD, "main.c": MAIN}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    def build(name, text):
        (tmp_path / (name + ".pyx")).write_text(text, encoding="utf-8")
        command = [
            sys.executable,
            str(SLICE),
            name + ".pyx",
            "--out",
            ".",
            "-I",
            ".",
            "--depfile",
            name + ".d",
        ]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    build.folder = tmp_path
    return build


def test_two_modules_link_without_python(toy):
    for name, text in {"summing": SUM, "counting": LENGTH}.items():
        done = toy(name, text)
        assert done.returncode == 0 and not done.stderr, done.stderr
    command = [
        "cc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "main.c",
        "summing.c",
        "counting.c",
        "-o",
        "main",
    ]
    done = subprocess.run(command, cwd=toy.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([toy.folder / "main"]).returncode == 0
    assert "toy.pxd" in (toy.folder / "summing.d").read_text(encoding="utf-8")
    assert "Python" not in (toy.folder / "summing.c").read_text(encoding="utf-8").split("*/", 1)[1]


@pytest.mark.parametrize(
    "line, message",
    [
        ("cdef int limit = 5", "bad.pyx:3: module-level statement `cdef int limit = 5`"),
        ("print('hello')", "bad.pyx:3: module-level statement"),
        ("cdef int half(int x) noexcept nogil:\n    return 7 // x", "bad.pyx:4: needs Python"),
        (
            "cdef double power(double x, int n) noexcept nogil:\n    assert x > 0\n    return x",
            "bad.pyx:4: needs Python",
        ),
        ("def f(): return 1", "module-level statement"),
    ],
)
def test_what_needs_python_is_refused_with_its_line(toy, line, message):
    done = toy("bad", "\nfrom libc.stdint cimport int32_t\n" + line + "\n")
    assert done.returncode == 1
    assert message in done.stderr
