"""What a launcher that watches its tasks decides: restart, end, and who is there.

Invariants
1. A task's epoch is one more at each start.
2. The cluster ends when its chief does: the others may end by themselves for `grace` seconds,
   parameter servers are told to; when a task fails that may not be restarted, or that cannot begin:
   it ended twice in a row within SETTLED seconds by the same exception; or when asked.
3. Each change of a task's state or address counts up the generation and is published.

    RUNNING -> WINDING [_wind_down: the chief ended] -> STOPPING [_stop: signal] -> over
    RUNNING -> STOPPING [_stop: a task failed, or asked];  STOPPING -> killed [_pass_time: grace]
    a task: running -> restarting [_schedule] -> running [_start];  -> done | gone [_task_ended]

Threads: one of its own runs all of it, beginning with _run; calls from any thread are done by that
one.  Callers: local.py and ray.py, which say how a process is started and watched.
"""
import abc
import dataclasses
import os
import signal
import sys
import threading
import time

from pyflow.distributed.run import epochs
from pyflow.distributed.launch import members, processes, tracebacks
from pyflow.distributed.launch.calls import Calls
from pyflow.distributed.launch.contract import LEASE, SERVING, Task, chief_of

RUNNING, WINDING, STOPPING = "running", "winding down", "stopping"
LAST_WORDS = 0.5                # seconds that they have by themselves once all others have ended
SETTLED = 10.0                  # seconds after which a start counts as a success for the back-off
PASSING = frozenset("""AbortedError UnavailableError DeadlineExceededError CancelledError
    ConnectionError ConnectionRefusedError ConnectionResetError BrokenPipeError TimeoutError
    KeyboardInterrupt""".split())       # what others' ends raise: the next start may do better


@dataclasses.dataclass
class Slot:
    """A task, of which one process at a time is. process: has send(signal number) and status, None
    while it runs."""

    job: str
    index: int
    address: str = ""
    epoch: int = 0
    state: str = "restarting"
    process: object = None
    restarts: int = 0
    in_row: int = 0             # restarts since one that settled
    started: float = 0.0
    due: float | None = None    # when the next process starts
    problem: str | None = None  # the exception that ended the last one soon, without numbers
    place: object = None        # the launcher's: a port's socket, an actor

    @property
    def label(self):
        """ "worker-0"."""
        return f"{self.job}-{self.index}"

    @property
    def is_live(self):
        """True while it has a process that has not been seen to end."""
        return self.process is not None and self.process.status is None


class Supervisor(abc.ABC):
    """The part of LocalCluster and RayCluster that both have; their documentation has its
    arguments."""

    def __init__(self, command, jobs, *, job_id, restarts=0, backoff=(0.1, 5.0), shards=None,
                 lease=LEASE, certificates=None, insecure=False, environment=None, grace=5.0,
                 output=None):
        self.job_id = job_id
        self._command = [os.fspath(word) for word in command]
        self._restarts, self._backoff, self._grace = restarts, backoff, grace
        self._output, self._lease = output or _print, float(lease)
        self._told = dict(shards=shards, lease=self._lease, certificates=certificates,
                          insecure=insecure)
        self._environment = {"PYTHONUNBUFFERED": "1", **(environment or {})}
        self._wanted = checked_jobs(jobs)
        self._chief = chief_of({job: range(n) for job, n in self._wanted.items()})
        self._slots = {}                            # (job, index): Slot
        self._phase, self._deadline, self._status, self._generation = RUNNING, None, None, 0
        self._last = False                          # only servers are left
        self._calls, self._failure = None, None
        self._tracebacks = tracebacks.Tracebacks(self._emit)
        self._changed = threading.Condition()
        self._begun, self._over = threading.Event(), threading.Event()

    # ------------------------------------------------------------ calls of any thread

    def start(self):
        """Starts all tasks; returns itself once they are there."""
        self._calls = Calls(self._over)
        threading.Thread(target=self._live_out, name="pyflow launch", daemon=True).start()
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
        if self._calls is not None and not self._over.is_set():
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

    def kill(self, job, index, number=signal.SIGKILL):
        """Sends one task's process a signal."""
        self._ask(lambda: self._slots[job, index].process.send(number))

    def _ask(self, call):
        """Has the cluster's thread do something; raises what it raises."""
        if self._calls is None:
            raise RuntimeError("the cluster has not been started")
        self._calls.ask(call)
        if self._failure is not None:
            raise self._failure

    # ------------------------------------------------------------ what launchers add

    @abc.abstractmethod
    def _run(self):
        """Starts all tasks, sets _begun, and watches them until all is over."""

    @abc.abstractmethod
    def _start(self, slot):
        """Begins a task's next epoch, by _begin and a process."""

    def _close(self):
        """Leaves nothing behind."""

    def _publish(self, who):
        """Tells the tasks which members there are."""

    def _strays(self):
        """Processes that run and belong to no slot any more."""
        return ()

    # ------------------------------------------------------------ the cluster's thread

    def _live_out(self):
        try:
            self._run()
        except BaseException as e:
            self._failure = e
        finally:
            try:
                self._close()
            finally:
                with self._changed:
                    self._over.set()
                    self._changed.notify_all()
                self._calls.close()

    def _pass_time(self):
        """What is due now; False once all is over."""
        now = time.monotonic()
        self._tracebacks.release(now)
        for slot in list(self._slots.values()):
            if slot.due is not None and slot.due <= now:
                slot.due = None
                self._start(slot)
        working = any(s.is_live for s in self._slots.values() if s.job not in SERVING)
        if self._phase == WINDING and not working and not self._last:
            self._deadline, self._last = min(self._deadline, now + LAST_WORDS), True
        if self._phase == WINDING and (now >= self._deadline or not self._live()):
            self._stop(signal.SIGTERM, self._status)
        elif self._phase == STOPPING and now >= self._deadline:
            for process in self._live():
                process.send(signal.SIGKILL)
        return self._phase == RUNNING or bool(self._live())

    def _patience(self, longest=None):
        """Seconds until something is due, at most `longest`; None: nothing is."""
        now = time.monotonic()
        times = [slot.due - now for slot in self._slots.values() if slot.due is not None]
        if self._tracebacks.due() is not None:
            times.append(self._tracebacks.due() - now)
        if self._deadline is not None:              # once that is over, kill again and again
            times.append(max(0.05, self._deadline - now))
        if longest is not None:
            times.append(longest)
        return max(0.0, min(times)) if times else None

    def _live(self):
        """The processes that have not been seen to end."""
        return [s.process for s in self._slots.values() if s.is_live] + list(self._strays())

    def _begin(self, slot, members_path):
        """The contract of a task's next epoch, which begins."""
        slot.epoch, slot.started = epochs.checked_epoch(slot.epoch + 1), time.monotonic()
        self._set(slot, "running")              # published before there is who reads it
        return Task(self._members().cluster(), slot.job, slot.index, epoch=slot.epoch,
                    job_id=self.job_id, members=members_path, **self._told)

    def _task_ended(self, slot, status):
        said = f"{slot.label} (epoch {slot.epoch}): {processes.said_of(status)}"
        raised = self._tracebacks.end(slot.label)
        if slot.state == "restarting":              # asked to come back before it had ended
            slot.due = time.monotonic()
        elif status == 0:
            self._set(slot, "done")
            if self._phase == RUNNING and (slot.job, slot.index) == self._chief:
                self._wind_down()
        elif self._phase != RUNNING or slot.state == "gone":
            self._set(slot, "gone")
        elif self._cannot_begin(slot, status, raised):
            self._lose(slot, f"{said}, twice in the same way: {raised}",
                       processes.exit_status(status))
        elif slot.restarts < self._restarts:
            self._schedule(slot, said)
        else:
            again = f" after {slot.restarts} restarts" if slot.restarts else ""
            self._lose(slot, f"{said}{again}", processes.exit_status(status))

    def _cannot_begin(self, slot, status, raised):
        """Another start would end as this one and the one before did."""
        before = slot.problem
        soon = status > 0 and time.monotonic() - slot.started < SETTLED
        slot.problem = tracebacks.without_numbers(raised) if soon else None
        return (slot.problem is not None and slot.problem == before
                and raised.partition(":")[0].rpartition(".")[2] not in PASSING)

    def _schedule(self, slot, said):
        """Has a task restarted, later the more often it failed in a row."""
        now = time.monotonic()
        slot.in_row = 0 if now - slot.started > SETTLED else slot.in_row
        delay = min(self._backoff[1], self._backoff[0] * 2 ** slot.in_row)
        slot.due, slot.restarts, slot.in_row = now + delay, slot.restarts + 1, slot.in_row + 1
        self._say(f"{said}: epoch {slot.epoch + 1} starts in {delay:.2g} s (restart "
                  f"{slot.restarts} of {self._restarts})")
        self._set(slot, "restarting")

    def _lose(self, slot, said, status):
        """A task that will not come back ends the cluster."""
        self._set(slot, "gone")
        self._say(f"{said}: the cluster is stopped")
        self._stop(signal.SIGTERM, status)

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

    def _members(self):
        return members.Members(self._generation, self.job_id, {
            key: members.Member(slot.address, slot.epoch, slot.state)
            for key, slot in list(self._slots.items())})

    def _set(self, slot, state):
        with self._changed:
            slot.state = state
            self._generation += 1
            self._publish(self._members())
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
    """Starts a cluster and waits for its end; Ctrl-C is passed on to its processes, as is SIGTERM;
    a second one kills them. Returns the exit status. For the main thread."""
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


def _print(label, line):
    try:
        print(f"[{label}] {line}", flush=True)
    except BrokenPipeError:     # what is buffered must not fail once more when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
