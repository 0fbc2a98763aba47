"""StepStats as a chrome trace, with TensorFlow's names (tensorflow.python.client.timeline).

    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    sess.run(train_op, options=options, run_metadata=metadata)
    with open("timeline.json", "w") as f:
        f.write(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())

Each device is a process; kernels that overlap lie on several tracks of it.  Arrows join a kernel to
those whose outputs it read.  PYFLOW_TRACE=FILE writes richer traces, of all steps, with threads.

Invariants
    1. Only StepStats is read, so messages of TensorFlow's own classes work as well as pyflow's.

Threads: pure functions.
"""
import collections
import json
import re
from typing import NamedTuple

_LABEL = re.compile(r"^(?P<name>.*?) = (?P<op>[^(]*)\((?P<inputs>.*)\)$", re.S)
_STREAMS = ("/stream:", "/memcpy")


class AllocationMaximum(NamedTuple):
    """The most bytes an allocator had in use: when (micros), how many, after which node."""

    timestamp: int
    num_bytes: int
    tensors: set


class StepStatsAnalysis(NamedTuple):
    """What analyze_step_stats found: the trace, and {allocator: AllocationMaximum}."""

    chrome_trace: object
    allocator_maximums: dict


class Timeline:
    """A step's StepStats in the chrome trace event format.

    step_stats: of RunMetadata.  graph: ignored; TensorFlow's signature has it.
    """

    def __init__(self, step_stats, graph=None):
        self._stats = step_stats
        self._events, self._pids = [], {}

    def generate_chrome_trace_format(self, show_dataflow=True, show_memory=False,
                                     op_time="schedule"):
        """The trace as JSON text.

        show_dataflow: arrows along the edges.  show_memory: a counter per allocator.  op_time:
        "schedule" shows a kernel until its outputs were delivered, "device" the kernels of streams
        alone, "all" until it returned.
        """
        self._analyze(show_dataflow, show_memory, op_time)
        return json.dumps({"traceEvents": self._events}, indent=1)

    def analyze_step_stats(self, show_dataflow=True, show_memory=True, op_time="schedule"):
        """A StepStatsAnalysis."""
        maximums = self._analyze(show_dataflow, show_memory, op_time)
        return StepStatsAnalysis(self, maximums)

    def _analyze(self, show_dataflow, show_memory, op_time):
        if op_time not in ("schedule", "device", "all"):
            raise ValueError(f"op_time must be 'schedule', 'device' or 'all', got {op_time!r}")
        self._events, self._pids = [], {}
        slices = []
        for device in self._stats.dev_stats:
            if op_time == "device" and not any(s in device.device for s in _STREAMS) and \
                    any(s in d.device for d in self._stats.dev_stats for s in _STREAMS):
                continue
            slices += self._device(device, op_time)
        if show_dataflow:
            self._arrows(slices)
        return self._memory(slices, show_memory)

    def _device(self, device, op_time):
        pid = self._pids[device.device] = len(self._pids)
        self._events.append({"name": "process_name", "ph": "M", "pid": pid,
                             "args": {"name": f"{device.device} Compute"}})
        ends, slices = [], []
        for node in sorted(device.node_stats, key=lambda n: (n.all_start_micros, n.node_name)):
            start, length = _span(node, op_time)
            lane = next((i for i, end in enumerate(ends) if end <= start), len(ends))
            ends[lane:lane + 1] = [start + length]
            name, op, inputs = parse_label(node.timeline_label, node.node_name)
            slices.append(_Slice(node, pid, lane, start, length, name, op, inputs))
            args = {"name": node.node_name, "op": op}
            args.update((f"input{i}", source) for i, source in enumerate(inputs))
            if name != node.node_name:
                args["label"] = name
            if node.scheduled_micros:
                args["queued_us"] = max(0, node.all_start_micros - node.scheduled_micros)
            self._events.append({"name": op, "cat": "Op", "ph": "X", "pid": pid, "tid": lane,
                                 "ts": start, "dur": length, "args": args})
        return slices

    def _arrows(self, slices):
        made, number = {}, 0
        for slice_ in sorted(slices, key=lambda s: s.start + s.length):
            made.setdefault(slice_.node.node_name, []).append(slice_)
        for slice_ in slices:
            for source in slice_.inputs:
                name = source.lstrip("^").partition(":")[0]
                before = [s for s in made.get(name, ()) if s.start <= slice_.start
                          and s is not slice_]
                if not before:
                    continue
                last, number = before[-1], number + 1
                for phase, at, ts in (("s", last, last.start + last.length),
                                      ("t", slice_, max(slice_.start, last.start + last.length))):
                    self._events.append({"name": source, "cat": "DataFlow", "ph": phase,
                                         "id": number, "pid": at.pid, "tid": at.lane, "ts": ts})

    def _memory(self, slices, show):
        """{allocator: AllocationMaximum}; with `show`, counters too."""
        found, pid = {}, len(self._pids)
        counters = collections.defaultdict(list)
        for slice_ in slices:
            for use in slice_.node.memory:
                at = slice_.start + slice_.length
                counters[use.allocator_name].append((at, use.allocator_bytes_in_use,
                                                     slice_.node.node_name))
        for name, points in counters.items():
            peak = max(points, key=lambda p: p[1])
            found[name] = AllocationMaximum(peak[0], peak[1], {peak[2]})
            if show:
                self._events += [{"name": name, "cat": "Memory", "ph": "C", "pid": pid, "ts": at,
                                  "args": {name: size}} for at, size, _ in sorted(points)]
        if show and counters:
            self._events.append({"name": "process_name", "ph": "M", "pid": pid,
                                 "args": {"name": "Allocators"}})
        return found


class _Slice(NamedTuple):
    node: object
    pid: int
    lane: int
    start: int
    length: int
    name: str
    op: str
    inputs: list


def _span(node, op_time):
    start = node.all_start_micros
    length = node.op_end_rel_micros if op_time == "all" else node.all_end_rel_micros
    return start, max(1, length)


def parse_label(label, node_name=""):
    """("fc/MatMul", "MatMul", ["x", "W/read"]) of "fc/MatMul = MatMul(x, W/read)"."""
    found = _LABEL.match(label)
    if found is None:
        return node_name or label, label.partition(":")[0] or node_name, []
    inputs = found["inputs"].split(", ") if found["inputs"] else []
    return found["name"], found["op"], inputs
