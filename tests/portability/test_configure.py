"""What a machine lacks for the build is said at once, before anything is compiled."""
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def configure(folder, source=ROOT, **env):
    done = subprocess.run([sys.executable, "-m", "mesonbuild.mesonmain", "setup", str(folder / "build"), str(source)],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, **env})
    assert done.returncode, done.stdout
    return done.stdout


def gcc(folder, rule):
    """A compiler that is GCC but for a shell script's `rule`."""
    made = folder / "other-gcc"
    made.write_text(f'#!/bin/sh\ngcc={shutil.which("gcc")}\n{rule}\nexec $gcc "$@"\n')
    made.chmod(0o755)
    return str(made)


@pytest.mark.parametrize("source", [ROOT, ROOT / "plugins/cpu"])
def test_an_old_compiler(tmp_path, source):
    """It says that it is GCC 10 in the macros meson asks for."""
    old = gcc(tmp_path, """case "$*" in *-dM*) $gcc "$@" | sed 's/__GNUC__ .*/__GNUC__ 10/'; exit;; esac""")
    said = configure(tmp_path, source, CC=old)
    assert "built by GCC 11, clang 14 or later; this is gcc 10." in said and "CC=gcc-12" in said


def test_no_python_headers(tmp_path):
    """As without python3-dev: the compiler does not find Python.h."""
    blind = gcc(tmp_path, 'for f; do case "$f" in *.c) grep -q Python.h "$f" && exit 1;; esac; done')
    said = configure(tmp_path, CC=blind, PKG_CONFIG="false")
    assert "Python.h was not found" in said and "python3-dev" in said
