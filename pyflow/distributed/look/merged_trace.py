"""The next steps of all tasks of a cluster as one trace: recorded by each, joined here.

    recording, notes = record(cluster, 10, seconds=5)   # cluster: an asking.Cluster
    write(recording, file)                              # JSON trace events, for Perfetto

Invariants
1. Times are of this process's clock: each task's are moved by its offset (clocks.py).
2. Ids of arrows are not used twice in a file; a task is one process in it.
3. Steps that all of their tasks recorded go before others: no two tasks begin to record, end it,
   or are full, at the same time, so each records more than what is asked for.

Threads: the caller's.
"""
import contextlib
import json
import time
from typing import NamedTuple

from pyflow import timeline
from pyflow.distributed.look import asking, clocks
from pyflow.distributed.wire import messages
from pyflow.distributed.look import switches as switches_lib
from pyflow.framework import protos

POLL = 0.05
SPARE, FACTOR = 64, 8                   # of what is asked for, each task records so many times and more


class Recording(NamedTuple):
    """What was recorded.  switches: a Switches, or None."""

    steps: list
    tasks: list
    switches: object


class Step(NamedTuple):
    """One step over all tasks: stats, a StepStats."""

    session: int
    step: int
    stats: object


def record(cluster, steps, seconds, switches=False):
    """(Recording, [sentences]) of the next steps; at most `seconds` are waited for them.  Where
    there are too few that all tasks recorded, others are there in part.

    switches: thread switches of the tasks of this machine, too, where the system permits it."""
    asker, notes = cluster.asker, []
    offsets = {}
    for task in cluster.tasks:
        try:
            offsets[task] = clocks.offset_ns(lambda: _clock(asker, task))[0]
        except LookupError as silent:
            notes.append(str(silent))
    with contextlib.ExitStack() as stack:
        system = _switches(cluster, stack, notes) if switches else None
        asker.ask_all("Tracing", messages.TracingRequest(
            steps=FACTOR * steps + SPARE), list(offsets))
        before, until = _statuses(cluster, offsets), time.monotonic() + seconds
        # those under way as the recording begins, or ends, are there in part
        wanted = steps + 2 * max([1, *(s.steps_running for s in before.values())])
        while time.monotonic() < until:
            time.sleep(POLL)
            now = _statuses(cluster, offsets)
            if any(now[t].steps_done - before[t].steps_done >= wanted for t in now if t in before):
                break
        ended = asker.ask_all("Tracing", messages.TracingRequest(stop=True), list(offsets))
    found, recorded = {}, {}
    for task, reply in ended.items():
        if isinstance(reply, asking.Silent):
            notes.append(f"{task} at {reply.address} does not answer: {reply.reason}")
            continue
        for traced in reply.step:
            _add(found.setdefault((traced.session, traced.step), protos.StepStats()),
                 traced.step_stats, offsets[task])
            recorded.setdefault(traced.session, {}).setdefault(task, []).append(traced.step)
    made = sorted((Step(*key, stats) for key, stats in found.items()), key=lambda s: span(s)[0])
    return Recording(_chosen(made, steps, recorded), cluster.tasks, system), notes


def _chosen(made, steps, recorded):
    """The first so many of the steps, of those first that no task had not begun to record, or was
    too full for.  recorded: {session: {task: [numbers, which grow, of its steps]}}."""
    common = {session: (max(map(min, tasks.values())), min(map(max, tasks.values())))
              for session, tasks in recorded.items()}

    def in_part(step):
        first, last = common[step.session]
        return not first <= step.step <= last
    return sorted(sorted(made, key=in_part)[:steps], key=lambda s: span(s)[0])


def _switches(cluster, stack, notes):
    """The Switches of the tasks of this machine, begun; None, with a note, where it cannot be."""
    boot, pids = clocks.boot(), {}
    for task, status in cluster.statuses().items():
        if not isinstance(status, asking.Silent) and boot and \
                getattr(cluster.asker.ask(task, "Clock", messages.Empty()), "boot", "") == boot:
            pids[task] = status.pid
    try:
        return stack.enter_context(switches_lib.Switches(pids))
    except OSError as problem:
        notes.append(f"thread switches are left out: {problem}")
        return None


def _clock(asker, task):
    reply = asker.ask(task, "Clock", messages.Empty())
    if isinstance(reply, asking.Silent):
        raise LookupError(f"{task} at {reply.address} does not answer: {reply.reason}")
    return reply


def _statuses(cluster, tasks):
    replies = cluster.asker.ask_all("GetStatus", messages.GetStatusRequest(), list(tasks))
    return {t: r for t, r in replies.items() if not isinstance(r, asking.Silent)}


def _add(stats, data, offset):
    own = protos.RunMetadata.FromString(data).step_stats
    if abs(offset) >= 1000:
        clocks.shift(own, -offset)
    stats.MergeFrom(own)


def span(step):
    """(begin, end) of a step's kernels, micros of the wall clock; (0, 0) without any."""
    times = [(n.all_start_micros, n.all_start_micros + n.all_end_rel_micros)
             for d in step.stats.dev_stats for n in d.node_stats]
    return (min(t[0] for t in times), max(t[1] for t in times)) if times else (0, 0)


def length(step):
    """Micros."""
    begin, end = span(step)
    return end - begin


def write(recording, file):
    """One file of JSON trace events."""
    steps, tasks = recording.steps, sorted(recording.tasks)
    zero = min([span(s)[0] for s in steps], default=0)
    events, named, next_id = [], set(), 1
    for step in steps:
        own = json.loads(timeline.Timeline(step.stats, tasks=tasks).generate_chrome_trace_format())
        ids = {}
        for event in own["traceEvents"]:
            if event["ph"] == "M":
                key = (event["name"], event["pid"], event.get("tid"))
                if key in named:
                    continue
                named.add(key)
            if "ts" in event:
                event["ts"] -= zero
            if "id" in event:
                if event["id"] not in ids:
                    ids[event["id"]], next_id = next_id, next_id + 1
                event["id"] = ids[event["id"]]
            if event["ph"] == "X":
                event["args"]["step"] = step.step
            events.append(event)
    if recording.switches is not None and steps:
        events += recording.switches.events(zero, {t: k for k, t in enumerate(tasks)})
    json.dump({"displayTimeUnit": "ms", "traceEvents": events}, file)
