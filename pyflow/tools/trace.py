"""python -m pyflow trace FILE: where a step's time went.

FILE is what PYFLOW_TRACE=FILE wrote (.json, .json.gz, or the .part of a process that was killed), a
serialized RunMetadata or StepStats (.pb), or another chrome trace of kernels.  Prints the time each
thread was busy, the ops and nodes that cost most, the time kernels waited for a thread, and the
critical path: the longest chain of kernels that had to run one after the other.

Threads: a command of its own.
"""
import argparse
import io
import json
import os
import sys
from types import SimpleNamespace
from typing import NamedTuple

from pyflow.framework import whole_files
from pyflow.session.trace_records import Event
from pyflow.tools import as_json


class Trace(NamedTuple):
    """A trace as the report reads it: times in nanoseconds."""

    events: list       # [Event]; lane: a key of lanes
    steps: list        # [SimpleNamespace(plan, id)]; plan: inputs, lines, keys
    lanes: dict        # {lane: name}
    notes: list        # sentences
    walls: list        # [(start, end)] of whole steps


class UnreadableTrace(Exception):
    """The file is no trace; the message says what was tried."""


def main(argv):
    """Prints the report.  Returns 1 if it has no such step, 2 if FILE is no trace."""
    parser = argparse.ArgumentParser(prog="python -m pyflow trace",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("file", help="a trace, or a RunMetadata (.pb)")
    parser.add_argument("--top", type=int, default=15, help="rows per table (default 15)")
    parser.add_argument("--step", type=int, help="look at this step alone, by its number")
    as_json.add_option(parser)
    args = parser.parse_args(argv)
    from pyflow.tools import trace_report
    try:
        trace = load(args.file)
    except UnreadableTrace as e:
        print(e, file=sys.stderr)
        return 2
    try:
        if args.json:
            as_json.show(trace_report.facts(trace, args.top, args.step))
        else:
            print(trace_report.report(trace, args.top, args.step))
    except ValueError as e:
        print(e, file=sys.stderr)
        return 1
    return 0


def load(path):
    """The Trace in a file.  Raises UnreadableTrace."""
    if not os.path.exists(path) and os.path.exists(path + ".part"):
        path += ".part"
    try:
        data = whole_files.read(path)
        if data[:2] == b"\x1f\x8b":
            data = whole_files.unpacked(data, path)
    except OSError as e:
        raise UnreadableTrace(f"{path}: {e.strerror}") from None
    if data.startswith(b'{"pyflow_trace"'):
        from pyflow.session import trace_file
        text = io.StringIO()
        trace_file.write(io.BytesIO(data), text)
        data = text.getvalue().encode()
    if data.lstrip()[:1] in (b"{", b"["):
        return _of_json(path, data)
    return _of_proto(path, data)


# ------------------------------------------------------------ chrome traces

def _of_json(path, data):
    try:
        content = json.loads(data)
    except ValueError as e:
        raise UnreadableTrace(f"{path} is not a trace: as JSON: {e}") from None
    rows = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise UnreadableTrace(f"{path} is not a trace: it has no list traceEvents")
    other = content.get("otherData", {}) if isinstance(content, dict) else {}
    if other.get("writer") == "pyflow":
        return _of_pyflow(rows, other)
    return _of_chrome(rows)


def _of_pyflow(rows, other):
    plans = [SimpleNamespace(inputs=p["inputs"], lines=p["lines"], keys=p["keys"])
             for p in other["plans"]]
    trace = Trace([], [], _thread_names(rows), _notes(other), [])
    numbers, ends, memory = {}, {}, _counter(rows)
    for row in rows:
        if row["ph"] == "e":
            ends[row["cat"], row["id"]] = row["ts"]
    for row in rows:
        if row["ph"] not in "Xb" or "node" not in row.get("args", {}):
            if row.get("cat") == "step":
                trace.walls.append((_ns(row["ts"]), _ns(row["ts"] + row["dur"])))
            continue
        args = row["args"]
        end = row["ts"] + row["dur"] if row["ph"] == "X" else ends.get((row["cat"], row["id"]),
                                                                      row["ts"])
        plan = args.get("plan")
        key = args["step"], plan
        if plan is not None and key not in numbers:
            numbers[key] = len(trace.steps)
            trace.steps.append(SimpleNamespace(plan=plans[plan], id=args["step"]))
        trace.events.append(_event(row, args, numbers.get(key, -1), end, memory))
    return trace


def _event(row, args, step, end, memory):
    frame, _, turns = args.get("iteration", "").rpartition(":")
    iteration = tuple(int(t) for t in turns.split(".")) if turns else ()
    kind = row["cat"]
    count = int(row["name"].split()[0]) if kind == "block" else 1
    op = f"block of {count}" if kind == "block" else row["name"]
    return Event(kind, step, args["node"], op, "", row["tid"],
                 _ns(row["ts"] - args.get("queued_us", 0.0)), _ns(row["ts"]), _ns(end), 0, frame,
                 iteration, memory.get(end, 0), bool(args.get("failed")), count, [])


def _counter(rows):
    return {r["ts"]: r["args"]["bytes"] for r in rows
            if r["ph"] == "C" and r["name"] == "allocator in use"}


def _notes(other):
    notes = []
    if other.get("dropped"):
        notes.append(f"{other['dropped']} records did not fit and are missing")
    if other.get("cut"):
        notes.append("the trace was cut at its size limit (PYFLOW_TRACE_MB)")
    return notes


def _of_chrome(rows):
    plan = SimpleNamespace(inputs={}, lines={}, keys={})
    trace = Trace([], [SimpleNamespace(plan=plan, id=0)], _thread_names(rows), [], [])
    for row in rows:
        if row.get("ph") != "X":
            continue
        args = row.get("args", {})
        name, op = str(args.get("name", row["name"])), str(args.get("op", row["name"]))
        plan.inputs[name] = [str(v) for k, v in sorted(args.items()) if k.startswith("input")]
        start = _ns(row["ts"])
        lane = row.get("pid", 0), row.get("tid", 0)
        trace.events.append(Event("kernel", 0, name, op, "", lane,
                                  start - _ns(args.get("queued_us", 0)), start,
                                  start + _ns(row.get("dur", 0)), 0, "", (), 0, False, 1, []))
    return trace


def _thread_names(rows):
    names, processes = {}, {}
    for row in rows:
        if row.get("ph") == "M" and row["name"] == "thread_name":
            names[row["tid"]] = names[row["pid"], row["tid"]] = row["args"]["name"]
        elif row.get("ph") == "M" and row["name"] == "process_name":
            processes[row["pid"]] = row["args"]["name"]
    for row in rows:
        lane = row.get("pid", 0), row.get("tid", 0)
        if row.get("ph") == "X" and lane not in names:
            names[lane] = f"{processes.get(lane[0], lane[0])} #{lane[1]}"
    return names


def _ns(micros):
    return round(float(micros) * 1000)


# ------------------------------------------------------------ RunMetadata

def of_metadata(metadata):
    """The Trace in a RunMetadata that a traced `Session.run` filled in."""
    return _of_stats(metadata.step_stats, metadata.partition_graphs)


def _of_proto(path, data):
    from pyflow.framework import protos
    return _of_stats(*_step_stats(path, data, protos))


def _of_stats(stats, graphs):
    from pyflow.timeline import parse_label
    plan = SimpleNamespace(inputs={}, lines={}, keys={})
    for graph in graphs:                          # with Merge nodes, which leave no statistics
        plan.inputs.update((node.name, list(node.input)) for node in graph.node)
    trace = Trace([], [SimpleNamespace(plan=plan, id=0)], {}, [], [])
    for device in stats.dev_stats:
        for node in device.node_stats:
            label, op, inputs = parse_label(node.timeline_label, node.node_name)
            lane = device.device, node.thread_id
            thread = device.thread_names.get(node.thread_id) or f"thread {node.thread_id}"
            trace.lanes[lane] = f"{device.device.rpartition('/device:')[2]} {thread}"
            plan.inputs.setdefault(node.node_name, inputs)
            trace.events.append(_event_of_node(node, label, op, lane))
    return trace


def _event_of_node(node, label, op, lane):
    start = node.all_start_nanos or node.all_start_micros * 1000
    ready = node.scheduled_nanos or node.scheduled_micros * 1000 or start
    length = node.all_end_rel_nanos or node.all_end_rel_micros * 1000
    frame, _, turns = label[len(node.node_name):].strip(" []").rpartition(":")
    iteration = tuple(int(t) for t in turns.split(".")) if turns else ()
    in_use = max((m.allocator_bytes_in_use for m in node.memory), default=0)
    return Event("kernel", 0, node.node_name, op, "", lane, min(ready, start), start,
                 start + length, 0, frame, iteration, in_use, False, 1, [])


def _step_stats(path, data, protos):
    """(StepStats, [GraphDef of what ran])."""
    problems = []
    for name in ("RunMetadata", "StepStats"):
        try:
            message = getattr(protos, name).FromString(data)
        except Exception as e:      # a parser of untrusted bytes: whatever it says is shown
            problems.append(f"as {name}: {e}")
            continue
        stats = message.step_stats if name == "RunMetadata" else message
        if any(len(d.node_stats) for d in stats.dev_stats):
            return stats, getattr(message, "partition_graphs", ())
        problems.append(f"as {name}: it has no node statistics")
    raise UnreadableTrace(f"{path} is not a trace: " + "; ".join(problems))
