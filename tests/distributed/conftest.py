import pathlib
import logging
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz"), str(HERE.parent / "executor")]

import processes  # noqa: E402


@pytest.fixture
def free_ports():
    """function(n) -> n ports of loopback that nobody listens at."""
    return processes.free_ports


@pytest.fixture(autouse=True)
def warnings_are_heard(caplog):
    """Other folders' modules silence the logger "pyflow" for good."""
    caplog.set_level(logging.WARNING, "pyflow")
