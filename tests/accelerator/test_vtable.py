"""The fake accelerator's device table, driven from C without a host (driver.c): streams run later,
poison, limits, traps, failures, leak counters; also under AddressSanitizer and ThreadSanitizer."""

import pathlib
import signal
import subprocess

import pytest
from fake_build import SOURCES, cc

HERE = pathlib.Path(__file__).resolve().parent
SCENARIOS = (
    "poison round_trip ordering disorder later limit first_fit misuse failures peers event_times "
    "facts threads"
).split()


def build(folder, *flags):
    parts = [SOURCES / f"{name}.c" for name in ("control", "device", "memory", "stream")]
    return cc(folder / "driver", [HERE / "driver.c", *parts], "-O1", *flags)


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return build(tmp_path_factory.mktemp("driver"))


def run(driver, *names):
    return subprocess.run([str(driver), *names], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(driver, name):
    done = run(driver, name)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("name", ["trap_read", "trap_write"])
def test_touching_device_memory_kills(driver, name):
    assert run(driver, name).returncode == -signal.SIGSEGV


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizers_find_nothing(tmp_path, sanitizer):
    done = run(build(tmp_path, f"-fsanitize={sanitizer}"))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-4000:]
    assert "Sanitizer" not in done.stderr
