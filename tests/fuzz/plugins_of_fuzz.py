"""Builds and loads what the random programs run on beside the CPU plugin: kernels.c of this folder
and the fake accelerator (examples/plugin_accelerator).

    op = load_kernels(folder)           # op("Later")(x, us=20)
    knobs = load_accelerator(folder)    # FAKE:0 and FAKE:1; knobs[0].set(delay_us=100)

A library that lies in `folder` already is used as it is, so sanitize.py can put its own there.
"""
import importlib.util
import os
import pathlib
import subprocess

import pyflow as tf
from pyflow import plugins

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACCELERATOR = ROOT / "examples" / "plugin_accelerator"
LIBRARIES = {
    "libfuzz_kernels.so": [pathlib.Path(__file__).with_name("kernels.c")],
    "libpyflow_fake.so": sorted((ACCELERATOR / "src").glob("*.c")),
}


def build(folder, name, *flags):
    """Compiles the library `name` into the folder unless it is there; returns its path."""
    target = pathlib.Path(folder) / name
    if not target.exists():
        command = ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-g", "-shared", "-fPIC",
                   "-fvisibility=hidden", "-I", ROOT / "include", "-I", ACCELERATOR / "src", *flags,
                   *LIBRARIES[name], "-o", target.with_suffix(f".{os.getpid()}"), "-pthread", "-lm"]
        subprocess.run([str(part) for part in command], check=True)
        os.replace(target.with_suffix(f".{os.getpid()}"), target)
    return target


def load_kernels(folder):
    """A function from the short name of an op of kernels.c to the op."""
    library = str(build(folder, "libfuzz_kernels.so"))
    if not any(plugin.id == "pyflow.test.fuzz" for plugin in plugins.load_all()):
        tf.load_op_library(library)
    return lambda name: plugins.op("fuzz." + name)


def load_accelerator(folder):
    """[FAKE:0, FAKE:1] with their knobs and counters."""
    library = build(folder, "libpyflow_fake.so")
    tf.load_op_library(str(library))
    path = ACCELERATOR / "pyflow_fake" / "__init__.py"
    spec = importlib.util.spec_from_file_location("pyflow_fake", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.open_library(library)
