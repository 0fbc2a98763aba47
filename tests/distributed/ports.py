"""Ports of loopback for a test's servers, without pyflow: TensorFlow's process asks, too.

Not those that the kernel gives to sockets that ask for none: between the choice and the server's start anybody's
connection could take one, even a peer's own attempt to reach it (which then is connected with itself).
"""
import contextlib
import random
import socket

LOWEST = 10000
_random = random.SystemRandom()


def free_ports(n):
    """n ports of loopback that nobody listens at."""
    with contextlib.ExitStack() as held:
        found = set()
        while len(found) < n:
            found.update(_taken(held, _random.randrange(LOWEST, _the_kernels_first()), 1))
        return list(found)


def ports_in_a_row(n):
    """The first of n ports of loopback, one after the other, that nobody listens at."""
    while True:
        with contextlib.ExitStack() as held:
            first = _random.randrange(LOWEST, _the_kernels_first() - n)
            if len(_taken(held, first, n)) == n:
                return first


def _taken(held, first, n):
    """Those of n ports from the first on that can be bound; they are, until `held` is closed."""
    found = []
    for port in range(first, first + n):
        probe = held.enter_context(socket.socket())
        with contextlib.suppress(OSError):
            probe.bind(("localhost", port))
            found.append(port)
    return found


def _the_kernels_first():
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            first = int(file.read().split()[0])
    except OSError:
        return 32768                    # Linux's own choice
    return first if first > 2 * LOWEST else 65536
