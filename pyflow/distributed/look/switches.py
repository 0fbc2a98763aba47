"""Thread switches of this machine's tasks, from the system's own trace (ftrace), where it permits.

    with Switches({task: pid}) as switches: ...         # PermissionError or OSError: it does not
    switches.events(zero_micros, processes)             # slices for a Chrome trace

A track per thread: "CPU 1" while it runs, "ready" while it waits for a CPU though it could run.

Invariants
1. An instance of its own is used and removed again: other tracers are not disturbed.
2. Times are of the system's monotonic clock, moved to the wall clock as it is when they are read.

Threads: the caller's.  It needs tracefs, mounted, and to be root:
`mount -t tracefs nodev /sys/kernel/tracing`.
"""
import os
import re
import time

_LINE = re.compile(r"\[(?P<cpu>\d+)\]\s+\S+\s+(?P<at>\d+\.\d+): sched_switch: prev_comm=.*? "
                   r"prev_pid=(?P<out>\d+) prev_prio=\d+ prev_state=(?P<state>\S+) ==> "
                   r"next_comm=.*? next_pid=(?P<in>\d+) ")
_FIRST_TRACK = 10_000_000               # tracks of threads: above those of devices
_SHORTEST = 20.0                        # micros that a thread that could run waits, to be shown
BUFFER_KB = 8192                        # per CPU


def tracefs():
    """Where tracefs is mounted.  Raises OSError with what to do if it is not."""
    with open("/proc/mounts", encoding="utf-8") as mounts:
        for line in mounts:
            words = line.split()
            if words[2] == "tracefs":
                return words[1]
    raise OSError("tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing")


class Switches:
    """Records while it is open.  pids: {task: process}, of this machine."""

    def __init__(self, pids, root=None):
        self._pids, self._threads, self._text = dict(pids), {}, ""
        self._root = root or tracefs()
        self._here = os.path.join(self._root, "instances", f"pyflow-{os.getpid()}")

    def __enter__(self):
        os.mkdir(self._here)
        try:
            self._note_threads()
            self._set("trace_clock", "mono")
            self._set("buffer_size_kb", str(BUFFER_KB))
            self._set("set_event_pid", " ".join(map(str, self._threads)))
            self._set("options/event-fork", "1")
            self._set("events/sched/sched_switch/enable", "1")
        except BaseException:
            os.rmdir(self._here)
            raise
        return self

    def __exit__(self, *_):
        try:
            self._set("events/sched/sched_switch/enable", "0")
            self._note_threads()
            with open(os.path.join(self._here, "trace"), encoding="utf-8",
                      errors="replace") as file:
                self._text = file.read()
        finally:
            os.rmdir(self._here)

    def _set(self, name, value):
        with open(os.path.join(self._here, name), "w", encoding="utf-8") as file:
            file.write(value)

    def _note_threads(self):
        for task, pid in self._pids.items():
            try:
                numbers = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue                # it ended
            for number in numbers:
                try:
                    with open(f"/proc/{pid}/task/{number}/comm", encoding="utf-8") as file:
                        self._threads[int(number)] = task, file.read().strip()
                except OSError:
                    pass

    def events(self, zero, processes):
        """Slices of a Chrome trace.  zero: its beginning, micros of the wall clock; processes:
        {task: number}."""
        to_wall = (time.time_ns() - time.monotonic_ns()) / 1000
        return events_of(self._text, self._threads, processes, zero - to_wall)


def events_of(text, threads, processes, zero):
    """As Switches.events, of a trace's text.  threads: {thread: (task, name)}; zero: micros of the
    monotonic clock."""
    found, since, left, seen = [], {}, {}, set()
    for line in text.splitlines():
        switch = _LINE.search(line)
        if switch is None:
            continue
        at = float(switch["at"]) * 1e6 - zero
        out, into = int(switch["out"]), int(switch["in"])
        if out in threads and out in since:
            begin, cpu = since.pop(out)
            found.append(_slice(threads, processes, out, f"CPU {int(cpu)}", begin, at))
            seen.add(out)
        if switch["state"].startswith("R"):
            left[out] = at              # it could go on
        if into in threads:
            since[into] = at, switch["cpu"]
            ready = left.pop(into, None)
            if ready is not None and at - ready >= _SHORTEST:
                found.append(_slice(threads, processes, into, "ready", ready, at))
        else:
            left.pop(into, None)
    for thread in sorted(seen):
        task, name = threads[thread]
        found.append({"name": "thread_name", "ph": "M", "pid": processes[task],
                      "tid": _FIRST_TRACK + thread, "args": {"name": f"{name} {thread}"}})
    return found


def _slice(threads, processes, thread, name, begin, end):
    return {"name": name, "cat": "switch", "ph": "X", "pid": processes[threads[thread][0]],
            "tid": _FIRST_TRACK + thread, "ts": round(begin, 3), "dur": round(end - begin, 3),
            "args": {"thread": thread}}
