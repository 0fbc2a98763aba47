"""Old and new plugins, old and new hosts: the header grows, and nothing that was built breaks.

`v1/` is the frozen copy of the headers of version 1.0; it never changes.  A header of the future is
made here: today's with fields appended to every struct that may grow, and the next minor version.

    old plugin, this host       the exercise plugin built from v1/ passes its whole test file
    new plugin, this host       the same built from the header of the future
    new plugin that needs more  is refused by name, what it offers besides is used
    abidiff                     v1's types in today's header: nothing removed, nothing moved
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TODAY, FROZEN = HERE.parents[1] / "include", HERE / "v1"
GROWS = re.compile(r"(\{(?: */\*[^\n]*)?\s*uint32_t size, (?:flags|minor);.*?)(\n?\} *pf_\w+;|\n\};)", re.S)


def future(folder, fields="const void *future_a, *future_b;\n  int64_t future_c;"):
    """Writes the headers of the next minor version."""
    (folder / "pyflow").mkdir(parents=True)
    for name in ("kernel.h", "tensor.h"):
        text = (TODAY / "pyflow" / name).read_text(encoding="utf-8")
        text, minors = re.subn(r"PF_ABI_MINOR = (\d+)", lambda m: f"PF_ABI_MINOR = {int(m[1]) + 1}", text)
        text, grown = GROWS.subn(lambda m: f"{m[1]}\n  {fields}{m[2]}", text)
        if name == "kernel.h":
            assert minors == 1 and grown >= 12, grown
        (folder / "pyflow" / name).write_text(text, encoding="utf-8")
    return folder


def exercise(include):
    """The exercise plugin's test file, the plugin built with this folder's headers."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / "test_exercise.py")],
        capture_output=True, text=True, env={**os.environ, "PYFLOW_TEST_INCLUDE": str(include)})


def test_a_plugin_built_with_version_1_0_works_on_this_host():
    done = exercise(FROZEN)
    assert done.returncode == 0 and "100%" in done.stdout, done.stdout[-3000:]


def test_a_plugin_of_the_next_version_works_on_this_host(tmp_path):
    done = exercise(future(tmp_path))
    assert done.returncode == 0 and "100%" in done.stdout, done.stdout[-3000:]


NEEDY = r"""
#include <pyflow/kernel.h>
static pf_status seven(pf_ctx *c, const void *s) {
  (void)s;
  DLTensor *y = c->host->output(c, 0, NULL, 0);
  if (!y) return PF_RESOURCE_EXHAUSTED;
  *PF_DATA(int64_t, y) = 7;
  return PF_OK;
}
static const pf_op *const ops[] = {
  &(const pf_op){sizeof(pf_op), 0, "needy.Seven", " -> y: int64", NULL, 0, 0, ""},
  &(const pf_op){sizeof(pf_op), 0, "needy.Later", " -> y: int64", NULL, PF_ABI_MINOR, 0, ""}, NULL};
static const pf_kernel *const kernels[] = {
  &(const pf_kernel){.size = sizeof(pf_kernel), .op = "needy.Seven", .device = "CPU", .compute = seven},
  &(const pf_kernel){.size = sizeof(pf_kernel), .op = "needy.Seven", .device = "CPU", .compute = seven, .priority = 9,
                     .min_minor = PF_ABI_MINOR}, NULL};
PF_EXPORT const pf_plugin *pyflow_plugin_v1(const pf_host *h) {
  (void)h;
  static const pf_plugin p = {.size = sizeof p, .id = "needy", .version = "1", .ops = ops, .kernels = kernels,
                              .abi_major = PF_ABI_MAJOR, .abi_minor = PF_ABI_MINOR};
  return &p;
}
"""
USE = """
import sys, warnings
import pyflow as tf, logging
from pyflow import plugins
said = []
class Keep(logging.Handler):
    def emit(self, record): said.append(record.getMessage())
logging.getLogger("pyflow").addHandler(Keep())
tf.load_op_library(sys.argv[1])
print(tf.Session().run(plugins.op("needy.Seven")()))
print("\\n".join(said))
"""


def build(target, source, include, *flags):
    done = subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-shared", "-fPIC",
                           "-fvisibility=hidden", "-I", str(include), *flags, "-x", "c", "-", "-o", str(target)],
                          input=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def test_what_needs_a_later_version_is_refused_by_name_and_the_rest_is_used(tmp_path):
    library = build(tmp_path / "needy.so", NEEDY, future(tmp_path / "future"))
    done = subprocess.run([sys.executable, "-c", USE, str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    seven, said = done.stdout.split("\n", 1)
    assert seven == "7"
    assert re.search(r"needy\.Later.* needs v1\.\d+, this host offers v1\.\d+", said), said
    assert re.search(r"needy\.Seven.* needs v1\.\d+, this host offers v1\.\d+", said), said


TYPES = ("pf_plugin", "pf_op", "pf_kernel", "pf_attr", "pf_arg", "pf_device", "pf_type", "pf_host", "pf_ctx", "pf_shape",
         "pf_const", "pf_list", "pf_str", "pf_var", "pf_transport", "pf_group_api", "pf_compiler", "DLTensor",
         "DLManagedTensorVersioned")


def typed(folder, include):
    source = "#include <pyflow/kernel.h>\n" + "".join(
        f"PF_EXPORT void use_{t}({t} *x) {{ (void)x; }}\n" for t in TYPES)
    folder.mkdir(exist_ok=True)
    return build(folder / "libtypes.so", source, include, "-g", "-Wno-unused-parameter")


def abidiff(old, new):
    done = subprocess.run(["abidiff", "--fail-no-debug-info", str(old), str(new)], capture_output=True, text=True)
    assert done.returncode & 3 == 0, done.stdout + done.stderr
    return bool(done.returncode & 8), done.stdout


@pytest.mark.skipif(not shutil.which("abidiff"), reason="abigail-tools is not installed")
def test_abidiff_finds_nothing_removed_or_moved(tmp_path):
    old, new = typed(tmp_path / "old", FROZEN), typed(tmp_path / "new", TODAY)
    broken, report = abidiff(old, new)
    assert not broken, report
    moved = tmp_path / "moved" / "include"
    shutil.copytree(FROZEN, moved)
    header = moved / "pyflow" / "kernel.h"
    text = header.read_text(encoding="utf-8")
    header.write_text(text.replace("  int32_t priority;", "  int64_t priority;", 1), encoding="utf-8")
    assert abidiff(old, typed(tmp_path / "moved", moved))[1] != report, "the check can fail"
