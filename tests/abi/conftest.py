"""What the tests of this folder share: plugins built from C with nothing but pyflow/kernel.h."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FLAGS = """-std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-parameter
 -Wno-missing-field-initializers -g -shared -fPIC -fvisibility=hidden -ffp-contract=off""".split()


def build(sources, target, *flags):
    """Compiles C files into the shared library `target`; returns its path as text."""
    flags = [*flags, *os.environ.get("PYFLOW_TEST_CFLAGS", "").split()]  # sanitizers, say
    command = ["cc", *FLAGS, *flags, "-I", HERE.parents[1] / "include", *sources, "-o", target]
    done = subprocess.run(
        [str(c) for c in [*command, "-pthread", "-lm"]], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    undefined = subprocess.check_output(["nm", "-D", "--undefined-only", str(target)], text=True)
    assert " pf_" not in undefined, "a plugin needs nothing of the host's symbols"
    return str(target)


@pytest.fixture(scope="module")
def build_plugin(tmp_path_factory):
    """build_plugin("queue", *flags): the path of a library made of all C files of that folder."""

    def make(folder, *flags, name=None, sources=None):
        target = tmp_path_factory.mktemp(folder) / f"lib{name or folder}.so"
        return build(sources or sorted((HERE / folder).glob("*.c")), target, *flags)

    return make
