"""Builds the fake accelerator (examples/plugin_accelerator) once per process; loads it by path."""

import gc
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fake_build import EXAMPLE, SOURCES, cc


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """Path of the loaded plugin: a process has one, whichever folder's tests asked for it first."""
    import pyflow as tf
    from pyflow import plugins

    for plugin in plugins.load_all():
        if plugin.path and os.path.basename(plugin.path) == "libpyflow_fake.so":
            return pathlib.Path(plugin.path)
    target = tmp_path_factory.mktemp("fake") / "libpyflow_fake.so"
    cc(target, sorted(SOURCES.glob("*.c")), "-O1", "-shared", "-fPIC", "-fvisibility=hidden")
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


KNOBS = {
    "delay_us": 0,
    "seed": 0,
    "real_time": 0,
    "memory": 256 << 20,
    "flops": 1e9,
    "bandwidth": 1e10,
    "link": 1e9,
    "latency": 1e-5,
    "can_peer": 1,
    "fail_alloc": 0,
    "fail_copy": 0,
    "fail_copy_late": 0,
    "fail_launch": 0,
    "fail_launch_late": 0,
    "fail_event": 0,
    "fail_open": 0,
    "fail_times": 1,
    "fail_status": 13,
}


@pytest.fixture
def fake(devices):
    """The devices, all knobs at rest and counters zero.  Afterwards nothing may be left of the
    test on any device: no violation, no event, no byte."""
    import pyflow as tf

    for device in devices:
        device.settle()
        device.set(**KNOBS)
        device.reset_counters()
    with tf.Graph().as_default():
        yield devices
    for device in devices:
        device.set(**KNOBS)
        device.settle()
    if any(device["bytes_in_use"] for device in devices):
        gc.collect()
    for device in devices:
        device.settle()
        assert device["violations"] == 0, device.violation
        left = {name: device[name] for name in ("bytes_in_use", "blocks", "pinned", "events")}
        assert not any(left.values()), f"left on FAKE:{device.ordinal}: {left}"
