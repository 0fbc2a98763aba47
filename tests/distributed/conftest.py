import pathlib
import logging
import socket
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "fuzz"), str(HERE.parent / "executor")]


@pytest.fixture
def free_ports():
    """function(n) -> n ports of loopback that nobody listens at."""
    def find(n):
        held = [socket.socket() for _ in range(n)]
        for probe in held:
            probe.bind(("localhost", 0))
        ports = [probe.getsockname()[1] for probe in held]
        for probe in held:
            probe.close()
        return ports
    return find


@pytest.fixture(autouse=True)
def warnings_are_heard(caplog):
    """Other folders' modules silence the logger "pyflow" for good."""
    caplog.set_level(logging.WARNING, "pyflow")
