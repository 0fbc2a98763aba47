"""Processes of tasks: started by exec, each a process group, read line by line, left to nobody.

Invariants
1. Processes are started by exec, never by a fork that goes on as Python: threads of gRPC survive.
2. A process, and what it started in its group, ends when its launcher does, also by kill -9:
   the kernel kills the process (child.py), the guard its group.
3. A group is killed before its first process is reaped, while its number cannot be another's.
4. A reserved port stays bound, and not listened to, until the reservation is closed: nobody else is
   given it, and a server that sets SO_REUSEADDR, as gRPC's do, can listen on it.

Threads: one; it must live as long as the processes (the kernel looks at the thread that started
them).  Callers: local.py, and ray.py's actors.
"""
import os
import pathlib
import signal
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
LONGEST = 65536                 # bytes of a line that are held back for its end
_PYTHON = [sys.executable, "-I", "-S"]


class Guard:
    """guard.py and the pipe to it.  close() ends it, and with it all groups that are left."""

    def __init__(self):
        self._process = subprocess.Popen(
            [*_PYTHON, HERE / "guard.py"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True, text=True, bufsize=1)
        self.pid = self._process.pid

    def tell(self, line):
        """One of guard.py's lines. Nothing happens where the guard was killed."""
        try:
            self._process.stdin.write(line + "\n")
        except (BrokenPipeError, ValueError):
            pass

    def close(self):
        """Waits until the guard has ended what was left."""
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        self._process.wait()


class Process:
    """A running command. `output`: a descriptor, not blocking, of its two outputs as one;
    `ended`: one that is readable once it has ended, or None where the system has none."""

    def __init__(self, command, environment, guard, cwd=None):
        self._guard, self._rest = guard, b""
        shim = [*_PYTHON, str(HERE / "child.py"), str(os.getpid())]
        self._popen = subprocess.Popen(
            [*shim, *command], env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0, bufsize=0)
        self.pid = self._popen.pid
        guard.tell(f"+{self.pid}")
        self.output = self._popen.stdout.fileno()
        os.set_blocking(self.output, False)
        self.ended = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        self.status = None

    def lines(self):
        """What complete lines it has written meanwhile, without their ends; None once there will
        be no more."""
        data = self._read()
        if data is None and not self._rest:
            return None
        self._rest += data or b""
        *lines, self._rest = self._rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if self._rest and (data is None or len(self._rest) > LONGEST):
            lines.append(self._rest)
            self._rest = b""
        return [line.decode("utf-8", "replace") for line in lines]

    def _read(self):
        """Bytes, b"" if there are none now, None at the end."""
        try:
            return os.read(self.output, LONGEST) or None
        except BlockingIOError:
            return b""

    def has_ended(self):
        """True once it has; then its status is known, and its group is no more."""
        if self.status is not None:
            return True
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return False
        self.send(signal.SIGKILL)               # what it started and left
        self._guard.tell(f"-{self.pid}")
        self.status = self._popen.wait()
        return True

    def send(self, number):
        """A signal to the process and what it started."""
        if self.status is None:
            try:
                os.killpg(self.pid, number)
            except OSError:         # a zombie alone, or not yet of its group
                pass

    def close(self):
        """Closes `output` and `ended`, once it has ended."""
        self._popen.stdout.close()
        if self.ended is not None:
            os.close(self.ended)


def exit_status(status):
    """A status as shells have it: 128 + n of one that signal n ended."""
    return 128 - status if status < 0 else status


def said_of(status):
    """ "exit status 3", "SIGKILL"."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def reserve_port(host="127.0.0.1"):
    """A bound socket, to be closed when the port is no longer needed (invariant 4)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    reserved = socket.socket(family, socket.SOCK_STREAM)
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind((host, 0))
    except OSError:
        reserved.close()
        raise
    return reserved


def port_of(reserved):
    """The number of a reserved port."""
    return reserved.getsockname()[1]
