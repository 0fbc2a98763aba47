"""Why an address does not answer: nobody listens, no way leads there, or its process is stopped.

    connection refused          no process listens there
    no connection in time       the machine is down, or its packets are lost
    connected, then silence     the process takes no connections: stopped, or starved
    connected, gRPC greets      it lives, but its Python does not get to answer

Invariants
1. Nothing is sent, and nothing but the first bytes is read.
2. What is said of a process (its number, that it is stopped) is read from /proc of this machine,
   for addresses of loopback alone; where that cannot be read it is left out.

Threads: any.

    probe.reason("localhost:2222")      # "no process listens at localhost:2222 ..."
"""
import os
import socket
import time

from pyflow.distributed.wire import security

_STATES = {"T": "stopped (by SIGSTOP or a terminal; kill -CONT {pid} lets it go on)",
           "t": "stopped by a debugger", "D": "in an uninterruptible call of the system (a disk or "
           "a network file system)", "Z": "dead, and not yet waited for by its parent"}


def reason(address, patience=0.5, credentials=None):
    """A sentence.  patience: seconds for each of the looks; credentials: security.Credentials with
    which it was asked, or None."""
    try:
        host, port = _split(address)
    except ValueError as problem:
        return str(problem)
    try:
        found = _connected(address, host, port, patience)
    except socket.gaierror as problem:
        return f"the name {host!r} cannot be resolved ({problem.strerror or problem})"
    except (ConnectionRefusedError, FileNotFoundError):
        return f"no process listens at {address}: it ended, was killed, or was not started yet"
    except TimeoutError:
        return (f"no connection to {address} within {patience:g} s: its machine is down, or "
                "packets are lost on the way")
    except OSError as problem:
        return f"no way leads to {address}: {problem.strerror or problem}"
    with found:
        process = process_at(host, port)
        if process is not None and process[1] in _STATES:
            pid, state = process
            return f"its process {pid} at {address} is {_STATES[state].format(pid=pid)}"
        greeted = _greets(found, patience) if credentials is None else True
    refused = security.why_refused(address, credentials, patience) \
        if credentials is not None or not greeted else None
    if refused:
        return refused
    whose = f"process {process[0]} " if process is not None else "a process "
    if greeted:
        return (f"{whose}listens at {address} and its gRPC greets, but no call is answered: its "
                "Python is held up, or all its threads are busy")
    return (f"{whose}listens at {address} but does not take connections: it is stopped, or starved "
            "of CPU")


def _split(address):
    """(host, port), (None, None) of a UNIX socket.  Raises ValueError."""
    if address.startswith("unix"):
        return None, None
    host, port = security.host_and_port(address)
    if port is None:
        raise ValueError(f"{address!r} is no HOST:PORT")
    return host or "localhost", port


def _connected(address, host, port, patience):
    if host is not None:
        return socket.create_connection((host, port), patience)
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(patience)
    try:
        scheme, _, path = address.partition(":")
        found.connect(path.removeprefix("//") if scheme == "unix" else "\0" + path)
    except OSError:
        found.close()
        raise
    return found


def _greets(connection, patience):
    """An HTTP/2 server speaks first."""
    connection.settimeout(patience)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            return bool(connection.recv(9))
        except OSError:
            return False
    return False


# ---------------------------------------------------------------- processes of this machine

def process_at(host, port):
    """(pid, state letter of /proc) of the process that listens at a port of loopback; None: it
    cannot be told."""
    if host not in ("localhost", "127.0.0.1", "::1"):
        return None
    inodes = _listeners(port)
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{number}") in wanted:
                    return int(pid), state_of(int(pid))
        except OSError:
            pass                        # it ended, or is another user's
    return None


def _listeners(port):
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as lines:
                next(lines)
                for line in lines:
                    words = line.split()
                    if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                        found.add(words[9])
        except (OSError, StopIteration):
            pass
    return found


def state_of(pid):
    """The state letter of a process; "" if there is none, or no /proc."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
