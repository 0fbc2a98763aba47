"""Nobody reads a struct beyond the size its writer stated: structs cut to every legal size, with an
untouchable page or poison right behind them (guard/guard.c).

Each case runs in a child process of its own kind (one child per struct): a read too far is a crash
of that child, with the sizes it had passed printed.
"""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
STRUCTS = ("pf_plugin", "pf_op", "pf_kernel", "pf_attr", "pf_arg", "pf_device", "pf_type")

CHILD = """
import ctypes, sys
import numpy as np
import pyflow as tf
from pyflow import _executor, plugins
library, struct, poison = sys.argv[1], sys.argv[2], int(sys.argv[3])
guard = ctypes.CDLL(library)
guard.guard_sizes.restype = ctypes.c_uint32
guard.guard_make.restype = ctypes.c_void_p
full = guard.guard_sizes(struct.encode())
worked, number = [], 0
for size in range(8, full + 65, 8):
    plugin = guard.guard_make(struct.encode(), ctypes.c_uint32(size), poison)
    problems = _executor.register_plugin(plugin, f"guard {struct} {size}")
    print(struct, size, problems[:1], flush=True)
    plugins._adopt_ops()
    name, number = f"guard.Sum{number}", number + 1
    if any(o[0] == name for o in _executor.plugin_ops()) and any(
            k["op"] == name for k in _executor.kernels(name)):
        try:
            with tf.Graph().as_default(), tf.Session() as session:
                found = session.run(plugins.op(name)(np.int64([1, 2]), k=40)[0])
        except (tf.errors.OpError, ValueError) as refused:
            assert size < full, refused
            continue
        worked.append(size)
        assert found.tolist() in ([41, 42], [1, 2]) and (size < full or found[0] == 41), (size, found)
assert set(range(full, full + 65, 8)) <= set(worked), (full, worked)
print("OK", worked[0], full)
"""

HOST = """
import ctypes, sys
from pyflow import _executor
guard, plugin = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
guard.guard_host.restype = plugin[sys.argv[3]].restype = ctypes.c_void_p
guard.guard_host.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int32]
plugin[sys.argv[3]].argtypes = [ctypes.c_void_p]
real = _executor.host_address()
full = ctypes.c_uint32.from_address(real).value
for size in (full, full + 8, full + 64):
    for poison in (0, 1):
        host = guard.guard_host(real, size, poison)
        assert plugin[sys.argv[3]](host)
print("OK", full)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    target = tmp_path_factory.mktemp("guard") / "libguard.so"
    done = subprocess.run(
        ["cc", "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-shared", "-fPIC",
         "-fvisibility=hidden", "-Wno-missing-field-initializers", "-I", str(HERE.parents[1] / "include"),
         str(HERE / "guard" / "guard.c"), "-o", str(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def child(*arguments):
    return subprocess.run([sys.executable, "-c", *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("poison", [0, 1], ids=["page", "poison"])
@pytest.mark.parametrize("struct", STRUCTS)
def test_the_host_reads_no_further_than_size(library, struct, poison):
    done = child(CHILD, library, struct, poison)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("OK"), (
        done.stdout[-2000:] + done.stderr[-2000:])


def test_plugins_read_no_further_than_the_hosts_size(library):
    from pyflow import plugins
    entry = "pyflow_plugin_v1"
    path, = (p.path for p in plugins.load_all() if p.path and "pyflow_cpu" in p.path)
    done = child(HOST, library, path, entry)
    assert done.returncode == 0 and done.stdout.startswith("OK"), done.stdout + done.stderr
