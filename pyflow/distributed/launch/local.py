"""A cluster of processes on this machine: started, restarted with the next epoch, ended together.

Invariants
1. A task's address is its own before its process starts and stays so while the cluster lives: its
   port is reserved (processes.py), or it is a UNIX socket in a folder that only we may enter, which
   no other user of the machine can connect to.
2. No process outlives the launcher, also when that is killed (processes.py).
3. Restart and end are decided by supervision.py.

Threads: one of its own starts the processes and watches them; calls come from any.
Callers: `python -m pyflow launch`, tests.

    with LocalCluster([sys.executable, "train.py"], {"ps": 1, "worker": 2}, restarts=3) as cluster:
        status = cluster.wait()
"""
import json
import os
import secrets
import selectors
import shutil
import signal
import tempfile
import time

from pyflow.distributed.launch import control, members, processes
from pyflow.distributed.launch.supervision import Slot, Supervisor, checked_jobs

_POLL = 0.05                    # seconds, where the system cannot say that a process has ended


class LocalCluster(Supervisor):
    """Processes of one command, a cluster.

    command: [program, argument ...], the same for each task.
    jobs: {job: how many tasks}. The chief is task 0 of chief, master or worker.
    unix: UNIX sockets for addresses, where ports of 127.0.0.1 are the default.
    cwd: the processes' folder, default this process's.
    restarts: how often a task may be started again after it failed or was killed.
    backoff: seconds before the first restart in a row and before any; doubled in between.
    shards, lease, certificates, insecure: for the contract.
    environment: {variable: text} beside this process's own.
    grace: seconds that processes have to end. output: function(label, line) for what they print,
        and for messages labelled "launch"; default: print "[label] line".

    Used by `with`, or start() and stop()."""

    def __init__(self, command, jobs, *, unix=False, cwd=None, **options):
        super().__init__(command, jobs, job_id=secrets.token_hex(8), **options)
        self._unix, self._cwd = unix, cwd
        self._replaced = []                         # Processes beside those of the slots
        self._selector, self._guard, self._control, self.folder = None, None, None, None

    # ------------------------------------------------------------ calls of any thread

    def pid(self, job, index):
        """The process id of a task; None where it has no process now."""
        slot = self._slots[job, index]
        return slot.process.pid if slot.is_live else None

    def replace(self, job, index):
        """Starts a task's next epoch beside its process, which is taken for lost (frozen, cut off)
        and left as it is: for tests of what happens when it comes back. A port changes by it."""
        self._ask(lambda: self._replace(self._slots[job, index]))

    def scale(self, job, count):
        """Has `count` tasks in a job: starts those that are missing, ends those with higher
        numbers. Processes that are there learn of it from the members' file."""
        self._ask(lambda: self._scale(job, checked_jobs({job: count})[job]))

    # ------------------------------------------------------------ the cluster's thread

    def _run(self):
        self.folder = _short_folder()
        self._guard = processes.Guard()
        self._guard.tell(f"={self.folder}")
        with selectors.DefaultSelector() as self._selector:
            self._selector.register(self._calls, selectors.EVENT_READ, self._calls.answer)
            self._control = control.Control(self.folder, self._answer)
            self._selector.register(self._control, selectors.EVENT_READ, self._control.serve)
            for job, count in self._wanted.items():
                self._scale(job, count)
            self._pass_time()
            self._begun.set()
            while self._turn():
                pass

    def _turn(self):
        """Waits for the next thing that happens, and does what follows; False once all is over."""
        blind = any(process.ended is None for process in self._live())
        for key, _ in self._selector.select(self._patience(_POLL if blind else None)):
            key.data()
        for process in self._live():
            self._look_at(process)
        return self._pass_time()

    def _close(self):
        for process in self._live():
            process.send(signal.SIGKILL)
        if self._guard is not None:
            self._guard.close()
        if self._control is not None:
            self._control.close()
        for slot in self._slots.values():
            if slot.place is not None:
                slot.place.close()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _publish(self, who):
        members.write(self._members_path, who)

    def _strays(self):
        return self._replaced

    @property
    def _members_path(self):
        return os.path.join(self.folder, "members.json")

    # ------------------------------------------------------------ processes

    def _start(self, slot):
        contract = self._begin(slot, self._members_path)
        environment = {**os.environ, **self._environment, **contract.environment()}
        slot.process = process = processes.Process(self._command, environment, self._guard,
                                                   self._cwd)

        def look():
            self._look_at(process)
        process.label = slot.label
        for descriptor in (process.output, process.ended):
            if descriptor is not None:
                self._selector.register(descriptor, selectors.EVENT_READ, look)

    def _look_at(self, process):
        """Passes on what a process wrote; sees that it has ended."""
        if process.status is not None:
            return
        has_ended = process.has_ended()             # first: what it wrote before is in the pipe
        while lines := process.lines():
            for line in lines:
                self._tracebacks.take(process.label, line)
        known = self._selector.get_map()
        if lines is None and process.output in known:
            self._selector.unregister(process.output)       # at its end it is always readable
        if not has_ended:
            return
        for descriptor in (process.output, process.ended):
            if descriptor is not None and descriptor in known:
                self._selector.unregister(descriptor)
        process.close()
        if process in self._replaced:
            self._replaced.remove(process)
            self._say(f"{process.label}'s replaced process: {processes.said_of(process.status)}")
        for slot in self._slots.values():
            if slot.process is process:
                self._task_ended(slot, process.status)

    def _replace(self, slot):
        if not slot.is_live:
            raise ValueError(f"{slot.label} has no process now: it is {slot.state}")
        self._replaced.append(slot.process)
        if slot.place is not None:
            slot.place.close()
            slot.place, slot.address = self._reserve(slot.job, slot.index)
        self._start(slot)

    def _scale(self, job, count):
        if job not in self._wanted:
            raise ValueError(f"the cluster has no job {job!r}, it has {', '.join(self._wanted)}")
        for index in range(count):
            if (job, index) not in self._slots:
                place, address = self._reserve(job, index)
                self._slots[job, index] = Slot(job, index, address, state="gone", place=place)
        for (name, index), slot in self._slots.items():
            if name == job and index < count and slot.state == "gone":
                slot.state = "restarting"       # at once, so that each contract names them all
                slot.due = None if slot.is_live else time.monotonic()
            elif name == job and index >= count and slot.state in ("running", "restarting"):
                slot.due = None
                self._set(slot, "gone")
                if slot.is_live:
                    slot.process.send(signal.SIGTERM)

    def _answer(self, request):
        """What control.py's requests do."""
        for job, count in request.get("scale", {}).items():
            self._scale(job, checked_jobs({job: count})[job])
        return {"pid": os.getpid(), "command": self._command,
                "members": json.loads(self._members().to_json())}

    def _reserve(self, job, index):
        """(socket or None, address) for a task."""
        if self._unix:
            return None, f"unix:{self.folder}/{job}-{index}.sock"
        reserved = processes.reserve_port()
        return reserved, f"127.0.0.1:{processes.port_of(reserved)}"


def _short_folder():
    """A new folder of mode 0700 whose name leaves room for a socket's in it (107 bytes)."""
    folder = tempfile.mkdtemp(prefix="pyflow-")
    if len(os.fsencode(folder)) > 60:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="pyflow-", dir="/tmp")
    return folder
