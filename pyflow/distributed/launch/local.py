"""A cluster of processes on this machine: started, restarted with the next epoch, ended together.

Invariants
1. Each process is told by its contract who it is; its epoch is one more at each start of its task.
2. A task's address is its own before its process starts and stays so while the cluster lives: its
   port is reserved (processes.py), or it is a UNIX socket in a folder that only we may enter, which
   no other user of the machine can connect to.
3. The cluster ends when its chief does: the others may end by themselves for `grace` seconds,
   parameter servers are told to; when a task fails that may not be restarted; or when asked.
4. No process outlives the launcher, also when that is killed (processes.py).

    RUNNING -> WINDING [_wind_down: the chief ended] -> STOPPING [_stop: signal] -> over
    RUNNING -> STOPPING [_stop: a task failed, or asked];  STOPPING -> killed [_turn: grace is over]
    a task: running -> restarting [_schedule] -> running [_start];  -> done | gone [_task_ended]

Threads: one of its own runs all of it and starts the processes; calls from any thread are done by
that one.  Callers: `python -m pyflow launch`, tests.

    with LocalCluster([sys.executable, "train.py"], {"ps": 1, "worker": 2}, restarts=3) as cluster:
        status = cluster.wait()
"""
import collections
import dataclasses
import os
import secrets
import selectors
import shutil
import signal
import sys
import tempfile
import threading
import time

from pyflow.distributed import epochs
from pyflow.distributed.launch import members, processes
from pyflow.distributed.launch.contract import LEASE, Task, chief_of

RUNNING, WINDING, STOPPING = "running", "winding down", "stopping"
SERVING = ("ps",)               # jobs whose tasks serve until they are told to end
SETTLED = 10.0                  # seconds after which a start counts as a success for the back-off
_POLL = 0.05                    # seconds, where the system cannot say that a process has ended


@dataclasses.dataclass
class Slot:
    """A task, of which one process at a time is."""

    job: str
    index: int
    address: str
    reserved: object = None     # socket of the port
    epoch: int = 0
    state: str = "restarting"
    process: object = None
    restarts: int = 0
    in_row: int = 0             # restarts since one that settled
    started: float = 0.0
    due: float | None = None    # when the next process starts

    @property
    def label(self):
        """ "worker-0"."""
        return f"{self.job}-{self.index}"


class LocalCluster:
    """Processes of one command, a cluster.

    command: [program, argument ...], the same for each task.
    jobs: {job: how many tasks}. The chief is task 0 of chief, master or worker.
    restarts: how often a task may be started again after it failed or was killed.
    backoff: seconds before the first restart in a row and before any; doubled in between.
    unix: UNIX sockets for addresses, where ports of 127.0.0.1 are the default.
    shards, lease, certificates, insecure: for the contract.
    environment: {variable: text} beside this process's own.
    grace: seconds that processes have to end. output: function(label, line) for what they print,
        and for messages labelled "launch"; default: print "[label] line".

    Used by `with`, or start() and stop()."""

    def __init__(self, command, jobs, *, restarts=0, backoff=(0.1, 5.0), unix=False, shards=None,
                 lease=LEASE, certificates=None, insecure=False, environment=None, grace=5.0,
                 output=None, cwd=None):
        self.job_id = secrets.token_hex(8)
        self._command = [os.fspath(word) for word in command]
        self._restarts, self._backoff, self._grace = restarts, backoff, grace
        self._unix, self._cwd, self._output = unix, cwd, output or _print
        self._contract = dict(shards=shards, lease=float(lease), certificates=certificates,
                              insecure=insecure, job_id=self.job_id)
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._wanted = checked_jobs(jobs)
        self._chief = chief_of({job: range(n) for job, n in self._wanted.items()})
        self._slots, self._strays = {}, []          # (job, index): Slot; replaced Processes
        self._phase, self._deadline, self._status = RUNNING, None, None
        self._generation, self._selector, self._guard = 0, None, None
        self._requests, self._wake = collections.deque(), None
        self._changed = threading.Condition()
        self._thread, self._failure = None, None
        self._begun, self._over = threading.Event(), threading.Event()

    # ------------------------------------------------------------ calls of any thread

    def start(self):
        """Starts all tasks; returns itself once they are there."""
        self.folder = _short_folder()
        self._wake = os.pipe()
        for end in self._wake:
            os.set_blocking(end, False)
        self._thread = threading.Thread(target=self._run, name="pyflow launch", daemon=True)
        self._thread.start()
        while not self._begun.wait(0.1) and not self._over.is_set():
            pass
        if self._failure is not None:
            raise self._failure
        return self

    def wait(self, timeout=None):
        """The cluster's exit status once it is over, None if `timeout` seconds pass first: the
        chief's, or of the first task that failed for good; 128 + n where signal n did it."""
        if not self._over.wait(timeout):
            return None
        if self._failure is not None:
            raise self._failure
        return self._status

    def stop(self, number=signal.SIGTERM, status=None):
        """Sends all processes a signal, kills what is left after `grace` seconds (a second call: at
        once), and returns the exit status."""
        if self._thread is not None and not self._over.is_set():
            self._ask(lambda: self._stop(number, 128 + number if status is None else status))
        return self.wait()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def members(self):
        """members.Members: all tasks now."""
        with self._changed:
            return self._members()

    def wait_for(self, condition, timeout=10.0):
        """Waits until condition(members()) is true; returns the Members. TimeoutError."""
        end = time.monotonic() + timeout
        with self._changed:
            while not condition(found := self._members()):
                if self._over.is_set() or not self._changed.wait(end - time.monotonic()):
                    raise TimeoutError(f"after {timeout} s the cluster is {found}")
            return found

    def pid(self, job, index):
        """The process id of a task; None where it has no process now."""
        process = self._slots[job, index].process
        return None if process is None or process.status is not None else process.pid

    def kill(self, job, index, number=signal.SIGKILL):
        """Sends one task's process a signal."""
        self._ask(lambda: self._slots[job, index].process.send(number))

    def replace(self, job, index):
        """Starts a task's next epoch beside its process, which is taken for lost (frozen, cut off)
        and left as it is: for tests of what happens when it comes back. A port changes by it."""
        self._ask(lambda: self._replace(self._slots[job, index]))

    def scale(self, job, count):
        """Has `count` tasks in a job: starts those that are missing, ends those with higher
        numbers. Processes that are there learn of it from the members' file."""
        self._ask(lambda: self._scale(job, checked_jobs({job: count})[job]))

    def _ask(self, call):
        """Has the cluster's thread do something; raises what it raises."""
        if self._thread is None:
            raise RuntimeError("the cluster has not been started")
        done, answer = threading.Event(), []

        def run():
            try:
                call()
            except Exception as e:
                answer.append(e)
            done.set()
        self._requests.append(run)
        try:
            os.write(self._wake[1], b".")
        except (BlockingIOError, OSError):          # full is as good; closed: it is over
            pass
        while not done.wait(0.05):
            if self._over.is_set() and not done.is_set():
                if self._failure is not None:
                    raise self._failure
                return
        if answer:
            raise answer[0]

    # ------------------------------------------------------------ the cluster's thread

    def _run(self):
        try:
            with selectors.DefaultSelector() as self._selector:
                self._selector.register(self._wake[0], selectors.EVENT_READ, self._answer)
                self._guard = processes.Guard()
                self._guard.tell(f"={self.folder}")
                for job, count in self._wanted.items():
                    self._scale(job, count)
                for slot in self._slots.values():
                    self._start(slot)
                self._begun.set()
                while self._turn():
                    pass
        except BaseException as e:
            self._failure = e
        finally:
            self._close()

    def _close(self):
        """Nothing stays: whatever runs is killed, descriptors are closed, the folder goes."""
        for process in self._live():
            process.send(signal.SIGKILL)
        if self._guard is not None:
            self._guard.close()
        for slot in self._slots.values():
            if slot.reserved is not None:
                slot.reserved.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        with self._changed:
            self._over.set()
            self._changed.notify_all()
        for end in self._wake:
            os.close(end)

    def _turn(self):
        """Waits for the next thing that happens, and does what follows; False once all is over."""
        for key, _ in self._selector.select(self._patience()):
            key.data()
        for process in self._live():
            self._look_at(process)
        now = time.monotonic()
        for slot in self._slots.values():
            if slot.due is not None and slot.due <= now:
                self._start(slot)
        if self._phase == WINDING and (now >= self._deadline or not self._working()):
            self._stop(signal.SIGTERM, self._status)
        elif self._phase == STOPPING and now >= self._deadline:
            for process in self._live():
                process.send(signal.SIGKILL)
        return self._phase == RUNNING or bool(self._live())

    def _patience(self):
        """Seconds until something is due."""
        times = [slot.due for slot in self._slots.values() if slot.due is not None]
        if self._deadline is not None:
            times.append(self._deadline)
        wait = max(0.0, min(times) - time.monotonic()) if times else None
        if any(process.ended is None for process in self._live()):
            wait = _POLL if wait is None else min(wait, _POLL)
        return wait if self._deadline is None or wait else _POLL

    def _answer(self):
        try:
            os.read(self._wake[0], 4096)
        except BlockingIOError:
            pass
        while self._requests:
            self._requests.popleft()()

    def _live(self):
        """The processes that have not been seen to end."""
        own = [slot.process for slot in self._slots.values() if slot.process is not None]
        return [process for process in own + self._strays if process.status is None]

    def _working(self):
        return any(slot.process is not None and slot.process.status is None
                   for slot in self._slots.values() if slot.job not in SERVING)

    # ------------------------------------------------------------ processes

    def _start(self, slot):
        """A process of the task's next epoch."""
        slot.due, slot.epoch = None, epochs.checked_epoch(slot.epoch + 1)
        slot.state, slot.started = "running", time.monotonic()
        self._note()                                # its contract names a file that is there
        contract = Task(self._members().cluster(), slot.job, slot.index, epoch=slot.epoch,
                        members=self._members_path, **self._contract)
        environment = {**self._environment, **contract.environment()}
        slot.process = process = processes.Process(self._command, environment, self._guard,
                                                   self._cwd)

        def look():
            self._look_at(process)
        process.label = slot.label
        self._selector.register(process.output, selectors.EVENT_READ, look)
        if process.ended is not None:
            self._selector.register(process.ended, selectors.EVENT_READ, look)

    def _look_at(self, process):
        """Passes on what a process wrote; sees that it has ended."""
        if process.status is not None:
            return
        has_ended = process.has_ended()             # first: what it wrote before is in the pipe
        while self._pass_on(process):
            pass
        if not has_ended:
            return
        for descriptor in (process.output, process.ended):
            if descriptor is not None and descriptor in self._selector.get_map():
                self._selector.unregister(descriptor)
        process.close()
        if process in self._strays:
            self._strays.remove(process)
            self._say(f"{process.label}'s replaced process: {processes.said_of(process.status)}")
        for slot in self._slots.values():
            if slot.process is process:
                self._task_ended(slot, process.status)

    def _pass_on(self, process):
        """True if there may be more."""
        lines = process.lines()
        if lines is None and process.output in self._selector.get_map():
            self._selector.unregister(process.output)       # at its end it is always readable
        for line in lines or ():
            self._emit(process.label, line)
        return bool(lines)

    def _task_ended(self, slot, status):
        said = f"{slot.label} (epoch {slot.epoch}): {processes.said_of(status)}"
        if slot.state == "restarting":              # scaled away, and back before it had ended
            slot.due = time.monotonic()
        elif status == 0:
            self._set(slot, "done")
            if self._phase == RUNNING and (slot.job, slot.index) == self._chief:
                self._wind_down()
        elif self._phase != RUNNING or slot.state == "gone":
            self._set(slot, "gone")
        elif slot.restarts < self._restarts:
            self._schedule(slot, said)
        else:
            self._set(slot, "gone")
            again = f" after {slot.restarts} restarts" if slot.restarts else ""
            self._say(f"{said}{again}: the cluster is stopped")
            self._stop(signal.SIGTERM, processes.exit_status(status))

    def _schedule(self, slot, said):
        """Has a task restarted, later the more often it failed in a row."""
        now = time.monotonic()
        slot.in_row = 0 if now - slot.started > SETTLED else slot.in_row
        delay = min(self._backoff[1], self._backoff[0] * 2 ** slot.in_row)
        slot.due, slot.restarts, slot.in_row = now + delay, slot.restarts + 1, slot.in_row + 1
        self._say(f"{said}: epoch {slot.epoch + 1} starts in {delay:.2g} s (restart "
                  f"{slot.restarts} of {self._restarts})")
        self._set(slot, "restarting")

    def _replace(self, slot):
        if slot.process is None or slot.process.status is not None:
            raise ValueError(f"{slot.label} has no process now: it is {slot.state}")
        self._strays.append(slot.process)
        if slot.reserved is not None:
            slot.reserved.close()
            slot.reserved, slot.address = self._reserve(slot.job, slot.index)
        self._start(slot)

    def _scale(self, job, count):
        if job not in self._wanted:
            raise ValueError(f"the cluster has no job {job!r}, it has {', '.join(self._wanted)}")
        for index in range(count):
            if (job, index) not in self._slots:
                reserved, address = self._reserve(job, index)
                self._slots[job, index] = Slot(job, index, address, reserved, state="gone")
        for (name, index), slot in self._slots.items():
            there = slot.process is not None and slot.process.status is None
            if name == job and index < count and slot.state == "gone":
                slot.state = "restarting"       # at once, so that each contract names them all
                slot.due = None if there else time.monotonic()
            elif name == job and index >= count and slot.state in ("running", "restarting"):
                slot.due = None
                self._set(slot, "gone")
                if there:
                    slot.process.send(signal.SIGTERM)

    def _reserve(self, job, index):
        """(socket or None, address) for a task."""
        if self._unix:
            return None, f"unix:{self.folder}/{job}-{index}.sock"
        reserved = processes.reserve_port()
        return reserved, f"127.0.0.1:{processes.port_of(reserved)}"

    # ------------------------------------------------------------ the end

    def _wind_down(self):
        """The chief has ended well."""
        self._phase, self._status = WINDING, 0
        self._deadline = time.monotonic() + self._grace
        for slot in self._slots.values():
            slot.due = None

    def _stop(self, number, status):
        if self._phase == STOPPING:                 # asked again
            self._deadline = time.monotonic()
            return
        self._phase, self._status = STOPPING, status
        self._deadline = time.monotonic() + self._grace
        for slot in self._slots.values():
            slot.due = None
        for process in self._live():
            process.send(number)

    # ------------------------------------------------------------ what others see

    @property
    def _members_path(self):
        return os.path.join(self.folder, "members.json")

    def _members(self):
        return members.Members(self._generation, self.job_id, {
            key: members.Member(slot.address, slot.epoch, slot.state)
            for key, slot in list(self._slots.items())})

    def _set(self, slot, state):
        slot.state = state
        self._note()

    def _note(self):
        """Something changed."""
        with self._changed:
            self._generation += 1
            members.write(self._members_path, self._members())
            self._changed.notify_all()

    def _say(self, text):
        self._emit("launch", text)

    def _emit(self, label, line):
        try:
            self._output(label, line)
        except (BrokenPipeError, ValueError):       # nobody reads any more
            self._output = lambda label, line: None
            self._stop(signal.SIGTERM, 128 + signal.SIGPIPE)


def run(cluster):
    """Starts a LocalCluster and waits for its end; Ctrl-C is passed on to its processes, as is
    SIGTERM. Returns the exit status. For the main thread."""
    def terminated(number, frame):
        raise SystemExit(128 + number)
    before = signal.signal(signal.SIGTERM, terminated)
    try:
        cluster.start()
        while (status := cluster.wait(3600)) is None:
            pass
        return status
    except KeyboardInterrupt:
        return _interrupted(cluster, signal.SIGINT)
    except SystemExit:
        return _interrupted(cluster, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted(cluster, number):
    while True:
        try:
            return cluster.stop(number, 128 + number)
        except (KeyboardInterrupt, SystemExit):     # impatience: kill them now
            continue


def checked_jobs(jobs):
    """{job: number of tasks}, checked: ValueError."""
    for job, count in jobs.items():
        if not (isinstance(job, str) and job.isascii() and job.replace("_", "a").isalnum()):
            raise ValueError(f"job {job!r}: expected a name of letters, digits and _")
        if type(count) is not int or not 0 <= count <= 1000:
            raise ValueError(f"{job}={count!r}: expected a number of tasks, 0 to 1000")
    if not any(jobs.values()):
        raise ValueError(f"jobs {jobs}: a cluster has at least one task")
    return dict(jobs)


def _short_folder():
    """A new folder of mode 0700 whose name leaves room for a socket's in it (107 bytes)."""
    folder = tempfile.mkdtemp(prefix="pyflow-")
    if len(os.fsencode(folder)) > 60:
        os.rmdir(folder)
        folder = tempfile.mkdtemp(prefix="pyflow-", dir="/tmp")
    return folder


def _print(label, line):
    try:
        print(f"[{label}] {line}", flush=True)
    except BrokenPipeError:     # what is buffered must not fail once more when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
