"""Builds the fake accelerator (examples/plugin_accelerator) once per process and loads it by path."""

import importlib.util
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fake_build import EXAMPLE, SOURCES, cc


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Path of the loaded plugin."""
    import pyflow as tf

    target = tmp_path_factory.mktemp("fake") / "libpyflow_fake.so"
    cc(target, sorted(SOURCES.glob("*.c")), "-O2", "-shared", "-fPIC", "-fvisibility=hidden")
    undefined = subprocess.check_output(["nm", "-D", "--undefined-only", str(target)], text=True)
    assert " pf_" not in undefined, "a plugin needs nothing of the host's symbols"
    tf.load_op_library(str(target))
    return target


@pytest.fixture(scope="session")
def devices(library):
    """FAKE:0 and FAKE:1 of the loaded plugin, with their knobs and counters."""
    spec = importlib.util.spec_from_file_location(
        "pyflow_fake", EXAMPLE / "pyflow_fake" / "__init__.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.open_library(library)
