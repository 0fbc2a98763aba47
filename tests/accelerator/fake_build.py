"""How the fake accelerator (examples/plugin_accelerator) and its driver are compiled for tests."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "plugin_accelerator"
SOURCES = EXAMPLE / "src"
FLAGS = [
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-missing-field-initializers",
    "-g",
    "-I",
    ROOT / "include",
    "-I",
    SOURCES,
]


def cc(target, sources, *flags):
    command = ["cc", *FLAGS, *flags, *sources, "-o", target, "-pthread", "-lm"]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target
