"""The built library: what it exports, what it needs, and how it behaves without a driver.

`make cuda` builds it into build/cuda where nvcc is; PYFLOW_CUDA_LIBRARY names another one.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from plugin_build import ROOT, describe

BUILT = pathlib.Path(os.environ.get("PYFLOW_CUDA_LIBRARY")
                     or ROOT / "build" / "cuda" / "libpyflow_cuda.so")
built = pytest.mark.skipif(not BUILT.exists(), reason="not built here: `make cuda`, with nvcc")


def lines(*command):
    return subprocess.check_output(command, text=True).splitlines()


@built
@pytest.mark.skipif(not shutil.which("nm"), reason="no nm")
def test_exactly_one_symbol_is_exported():
    exported = [line.split()[-1] for line in lines("nm", "-D", "--defined-only", str(BUILT))]
    assert len(exported) == 1 and exported[0].startswith("pyflow_plugin_v")


@built
@pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf")
def test_neither_driver_nor_cuda_libraries_are_needed():
    needed = [line.split("[")[1].rstrip("]") for line in lines("readelf", "-d", str(BUILT))
              if "NEEDED" in line]
    assert all(name.startswith(("libc.", "libm.", "libdl.", "libpthread.", "librt.", "ld-linux"))
               for name in needed), needed


@built
def test_tables_are_read_without_a_gpu(tmp_path):
    describe(BUILT, tmp_path / "plugin.json")
    found = json.loads((tmp_path / "plugin.json").read_text())
    header = (ROOT / "include" / "pyflow" / "kernel.h").read_text()
    abi = re.search(r"PF_ABI_MAJOR = (\d+), PF_ABI_MINOR = (\d+)", header)
    assert found["devices"] == ["GPU"] and found["abi"] == [int(number) for number in abi.groups()]
    assert {"MatMul", "Conv2D", "ApplyAdam"} <= {k["op"] for k in found["kernels"]}


@built
def test_declines_politely_without_a_driver():
    """With no visible GPU the plugin loads, offers no device, and nothing is said at WARNING."""
    code = ("import logging; logging.basicConfig(level=logging.WARNING)\n"
            "import pyflow as tf\n"
            f"tf.load_op_library({str(BUILT)!r})\n"
            "from pyflow import _executor\n"
            "assert all(kind != 'GPU' for kind, *_ in _executor.devices())\n"
            "[(kind, reason)] = _executor.absent_devices()\n"
            "assert kind == 'GPU' and 'driver' in reason, reason\n"
            "with tf.device('/device:GPU:0'): x = tf.constant(20) + 22\n"
            "config = tf.ConfigProto(allow_soft_placement=True)\n"
            "print(tf.Session(config=config).run(x))\n")
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "42"
    assert "WARNING" not in run.stderr and "ERROR" not in run.stderr
