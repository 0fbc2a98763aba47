"""libpyflow_rt, the Python-free runtime: no symbol of Python's, none undefined but the C
library's."""

import importlib.resources
import re
import subprocess

import pytest


@pytest.fixture(scope="module")
def library():
    path = importlib.resources.files("pyflow") / "lib" / "libpyflow_rt.so"
    assert path.is_file(), "libpyflow_rt.so is part of every build"
    return path


def symbols(path, *flags):
    return subprocess.check_output(["nm", *flags, str(path)], text=True).split("\n")


def test_no_python_symbol(library):
    found = [
        line
        for line in symbols(library) + symbols(library, "-D")
        if re.search(r"\b_?Py[A-Z_]", line)
    ]
    assert not found, found


def test_needs_only_the_c_library(library):
    text = subprocess.check_output(["readelf", "-d", str(library)], text=True)
    needed = re.findall(r"NEEDED.*\[(.*?)\]", text)
    assert all(
        re.match(r"(libc|libm|libdl|libpthread|ld-linux.*)\.so", name) for name in needed
    ), needed


def test_exports_only_pf_names(library):
    names = [line.split()[-1] for line in symbols(library, "-D", "--defined-only") if line]
    assert names and all(name.startswith("pf_") for name in names), names


def test_no_initialised_variable_of_a_core_module(library):
    """slice.py drops the code that would set them: Cython's variables may only be in .bss."""
    found = [line for line in symbols(library) if re.search(r" [dD] __pyx_v_", line)]
    assert not found, found
