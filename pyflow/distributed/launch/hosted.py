"""One task's process, hosted by a process that something else keeps: a Ray actor.

It decides nothing; whoever supervises starts it, reads what happens, and starts it again.

Invariants
1. Its address is reserved before its process starts, for as long as it is hosted.
2. The process, and what it started, ends when its host does (processes.py).
3. A process that is stopped (SIGSTOP, a frozen cgroup does not show) for a lease is killed.

Threads: one of its own starts processes and reads them; calls come from any.
Callers: ray.py's actors; tests.

    hosted = HostedTask("10.0.0.7")
    hosted.start([sys.executable, "train.py"], contract.environment())
    lines, status = hosted.events(timeout=1.0)          # status: None while it runs
"""
import collections
import os
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import time

from pyflow.distributed.launch import processes
from pyflow.distributed.launch.calls import Calls
from pyflow.distributed.launch.contract import LEASE

HELD = 100_000                  # lines that wait to be read; more are dropped, and that is said


class HostedTask:
    """host: an address of this machine under which the others reach it. lease: seconds."""

    def __init__(self, host, lease=LEASE):
        self._reserved = processes.reserve_port(host)
        self.address = f"{f'[{host}]' if ':' in host else host}:{processes.port_of(self._reserved)}"
        self.folder = tempfile.mkdtemp(prefix="pyflow-")
        self._lines, self._status, self._dropped = collections.deque(), None, 0
        self._news, self._over = threading.Condition(), threading.Event()
        self._calls, self._process = Calls(self._over), None
        self._lease, self._stopped_since = lease, None
        threading.Thread(target=self._run, name="pyflow task", daemon=True).start()

    @property
    def members_path(self):
        """The file for the contract's field `members`; `tell` writes it."""
        return os.path.join(self.folder, "members.json")

    def start(self, command, environment):
        """Starts the process; a first word "" is this Python. RuntimeError while one runs."""
        command = [command[0] or sys.executable, *command[1:]]
        self._calls.ask(lambda: self._start(command, environment))
        return self.pid()

    def pid(self):
        """Of the process, None if it has ended."""
        process = self._process
        return None if process is None or process.status is not None else process.pid

    def tell(self, text):
        """Replaces the members' file."""
        with open(self.members_path + ".tmp", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(self.members_path + ".tmp", self.members_path)

    def events(self, timeout):
        """(lines, status): what it has written since the last call, after at most `timeout`
        seconds; its status once it has ended and all is read: as subprocess gives it."""
        with self._news:
            self._news.wait_for(lambda: self._lines or self._status is not None, timeout)
            lines = [self._lines.popleft() for _ in range(min(1000, len(self._lines)))]
            if self._dropped:
                lines.append(f"({self._dropped} lines were dropped: they came too fast)")
                self._dropped = 0
            return lines, None if self._lines else self._status

    def send(self, number):
        """A signal to the process and what it started."""
        self._calls.ask(lambda: self._process and self._process.send(number))

    def close(self):
        """Kills the process, and gives everything back."""
        self._over.set()
        self._calls.ask(lambda: None)

    # ------------------------------------------------------------ its thread

    def _run(self):
        guard = processes.Guard()
        guard.tell(f"={self.folder}")
        self._guard = guard
        with selectors.DefaultSelector() as self._selector:
            self._selector.register(self._calls, selectors.EVENT_READ)
            while not self._over.is_set():
                self._selector.select(0.05)     # also where the system cannot say what has ended
                self._calls.answer()
                if self._process is not None and self._process.status is None:
                    self._look()
        if self._process is not None:
            self._process.send(signal.SIGKILL)
        guard.close()
        self._reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._calls.close()

    def _start(self, command, environment):
        if self.pid() is not None:
            raise RuntimeError(f"process {self.pid()} runs still")
        with self._news:
            self._status = None
        self._process = process = processes.Process(command, {**os.environ, **environment},
                                                    self._guard)
        for descriptor in (process.output, process.ended):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ)

    def _look(self):
        process = self._process
        has_ended = process.has_ended()
        while lines := process.lines():
            self._keep(lines)
        if lines is None and process.output in self._selector.get_map():
            self._selector.unregister(process.output)
        if not has_ended:
            self._look_whether_stopped()
            return
        for descriptor in (process.output, process.ended):
            if descriptor is not None and descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        process.close()
        with self._news:
            self._status = process.status
            self._news.notify_all()

    def _look_whether_stopped(self):
        now = time.monotonic()
        if not is_stopped(self._process.pid):
            self._stopped_since = None
        elif self._stopped_since is None:
            self._stopped_since = now
        elif now - self._stopped_since > self._lease:
            self._keep([f"(stopped for {now - self._stopped_since:.1f} s: it is killed)"])
            self._stopped_since = now
            self._process.send(signal.SIGKILL)

    def _keep(self, lines):
        with self._news:
            room = max(0, HELD - len(self._lines))
            self._lines.extend(lines[:room])
            self._dropped += len(lines[room:])
            self._news.notify_all()


def is_stopped(pid):
    """True if a process of this machine is stopped by a signal (Linux's state T)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] in ("T", "t")
    except OSError:
        return False


def kill_group(pid, number=signal.SIGKILL):
    """A signal to a process and its group, if it leads one. Returns whether it was there."""
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except OSError:
        return False
    return True
