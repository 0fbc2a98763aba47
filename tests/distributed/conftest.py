import socket

import pytest


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
