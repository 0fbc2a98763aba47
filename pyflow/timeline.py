"""StepStats as a chrome trace, with TensorFlow's names (tensorflow.python.client.timeline).

    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    sess.run(train_op, options=options, run_metadata=metadata)
    with open("timeline.json", "w") as f:
        f.write(timeline.Timeline(metadata.step_stats).generate_chrome_trace_format())

Each device is a process; kernels that overlap lie on several tracks of it.  Arrows join a kernel to
those whose outputs it read.  PYFLOW_TRACE=FILE writes richer traces, of all steps, with threads.

A step of several tasks has a process per task, with the tracks of its devices; arrows join what a
task sent to what another received, and `critical_path` tells who waited for whom.

Invariants
    1. Only StepStats is read, so messages of TensorFlow's own classes work as well as pyflow's.
    2. Every "s" of a Send has one "f" of its Recv, not before it, inside both slices.

Threads: pure functions.
"""
import collections
import json
import re
from typing import NamedTuple

_LABEL = re.compile(r"^(?P<name>.*?) = (?P<op>[^(]*)\((?P<inputs>.*)\)$", re.S)
_STREAMS = ("/stream:", "/memcpy")
_TRACKS = 1000                          # of a device's kernels, where a process is a task
_SENT = re.compile(r"/_(\w*?)(send|recv)_(\d+)$")


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

    step_stats: of RunMetadata.  graph: ignored; TensorFlow's signature has it.  tasks: those that
        are processes of the trace; default: where several tasks took part, these.
    """

    def __init__(self, step_stats, graph=None, tasks=None):
        self._stats, self._all_tasks = step_stats, tasks
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
        self._tasks = self._all_tasks or tasks_of(self._stats)
        self._grouped = self._all_tasks is not None or len(self._tasks) > 1
        slices = []
        for device in self._stats.dev_stats:
            if op_time == "device" and not any(s in device.device for s in _STREAMS) and \
                    any(s in d.device for d in self._stats.dev_stats for s in _STREAMS):
                continue
            slices += self._device(device, op_time)
        if show_dataflow:
            self._arrows(slices)
            self._sent(slices)
        return self._memory(slices, show_memory)

    def _device(self, device, op_time):
        pid, first = self._process(device.device)
        ends, slices = [], []
        for node in sorted(device.node_stats, key=lambda n: (n.all_start_micros, n.node_name)):
            start, length = _span(node, op_time)
            lane = next((i for i, end in enumerate(ends) if end <= start), len(ends))
            ends[lane:lane + 1] = [start + length]
            lane += first
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

    def _process(self, device):
        """(process, first track) of a device: a process of its own, or its task's."""
        if not self._grouped:
            pid = self._pids[device] = len(self._pids)
            self._events.append({"name": "process_name", "ph": "M", "pid": pid,
                                 "args": {"name": f"{device} Compute"}})
            return pid, 0
        task = task_of(device)
        pid, first = self._tasks.index(task), _TRACKS * len(self._pids)
        if not any(task_of(known) == task for known in self._pids):
            self._events.append({"name": "process_name", "ph": "M", "pid": pid,
                                 "args": {"name": task}})
        self._pids[device] = pid
        self._events.append({"name": "thread_name", "ph": "M", "pid": pid, "tid": first,
                             "args": {"name": device.partition("/device:")[2] or device}})
        return pid, first

    def _sent(self, slices):
        """Arrows from what a task sent to what another received."""
        for number, (send, recv) in enumerate(pairs(slices), _TRACKS ** 3):
            leaves = max(send.start, min(send.start + send.length, recv.start + recv.length))
            comes = max(leaves, recv.start)
            base = {"name": send.inputs[0] if send.inputs else send.node.node_name, "cat": "Send",
                    "id": number}
            self._events.append({**base, "ph": "s", "pid": send.pid, "tid": send.lane,
                                 "ts": min(leaves, send.start + send.length)})
            self._events.append({**base, "ph": "f", "bp": "e", "pid": recv.pid, "tid": recv.lane,
                                 "ts": comes})

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


# ---------------------------------------------------------------- several tasks

def task_of(device):
    """"/job:ps/replica:0/task:0" of a device's name."""
    return device.partition("/device:")[0].partition("/stream:")[0]


def tasks_of(step_stats):
    """The tasks whose devices are in a StepStats, in order."""
    return sorted({task_of(d.device) for d in step_stats.dev_stats if "/device:" in d.device})


def pairs(slices):
    """[(Send, Recv)] of the slices of one step: by the number of their edge and, in loops, the
    iteration."""
    sends, found = {}, []
    for slice_ in slices:
        name = _SENT.search(slice_.node.node_name)
        if name and name[2] == "send" and "Send" in slice_.op:
            sends[_pair_key(slice_, name)] = slice_
    for slice_ in slices:
        name = _SENT.search(slice_.node.node_name)
        if name and name[2] == "recv" and "Recv" in slice_.op:
            send = sends.get(_pair_key(slice_, name))
            if send is not None and send.start <= slice_.start + slice_.length:
                found.append((send, slice_))
    return found


def _pair_key(slice_, name):
    node = slice_.node.node_name
    return node[:name.start()], name[1], name[3], slice_.name[len(node):]


class Stage(NamedTuple):
    """One kernel of a critical path.  micros: since when it had what it waited for, from the step's
    first kernel on; length: from then to its end; waited: before it, since what it waited for was
    there; after: the task that it waited for, "" for its own."""

    task: str
    node: str
    op: str
    micros: int
    length: int
    waited: int
    after: str


def critical_path(step_stats):
    """[Stage], in order of time: from the kernel that ended last back to the first, each time to
    the one among what it read that was there last; a Recv goes back to its Send at another task."""
    timeline = Timeline(step_stats)
    slices, tasks = [], {}
    for device in step_stats.dev_stats:
        if not any(word in device.device for word in _STREAMS):
            own = timeline_slices(timeline, device)
            tasks.update((id(s), task_of(device.device)) for s in own)
            slices += own
    if not slices:
        return []
    sent = {id(recv): send for send, recv in pairs(slices)}
    made = {}
    for slice_ in sorted(slices, key=lambda s: s.start + s.length):
        made.setdefault((tasks[id(slice_)], slice_.node.node_name), []).append(slice_)
    zero, path = min(s.start for s in slices), []
    ends = [s for s in slices if not s.op.endswith("Send")] or slices     # nobody waits for a Send
    at = max(ends, key=lambda s: s.start + s.length)
    while at is not None and len(path) < 100_000:
        before = _before(at, sent, made, tasks)
        path.append(_stage(at, before, tasks, zero))
        at = before
    return path[::-1]


def timeline_slices(timeline, device):
    """The slices of one device."""
    timeline._grouped = False
    return timeline._device(device, "schedule")


def _before(at, sent, made, tasks):
    """The slice that `at` waited for last; None: nothing is known."""
    if id(at) in sent:
        return sent[id(at)]
    found = None
    for source in at.inputs:
        name = source.lstrip("^").partition(":")[0]
        known = [s for s in made.get((tasks[id(at)], name), ()) if s is not at
                 and s.start <= at.start]
        if known and (found is None or known[-1].start + known[-1].length
                      > found.start + found.length):
            found = known[-1]
    return found


def _stage(at, before, tasks, zero):
    ready = before.start + before.length if before is not None else at.start
    end = at.start + at.length
    begin = min(max(at.start, ready), end)          # a Recv waits inside its own slice
    other = tasks[id(before)] if before is not None else tasks[id(at)]
    return Stage(tasks[id(at)], at.node.node_name, at.op, begin - zero, end - begin,
                 max(0, begin - ready), other if other != tasks[id(at)] else "")


def critical_text(step_stats, most=40):
    """The critical path as lines: when, how long, where, what, and whom a task waited for."""
    path = critical_path(step_stats)
    if not path:
        return "no kernel was recorded"
    whole = path[-1].micros + path[-1].length
    by_task = collections.Counter()
    for stage in path:
        by_task[stage.task] += stage.length
    lines = [f"critical path: {len(path)} kernels, {whole / 1000:.3f} ms; "
             + ", ".join(f"{task or 'here'} {micros / 1000:.3f} ms"
                         for task, micros in by_task.most_common())]
    shown = path if len(path) <= most else path[:most // 2] + path[-most // 2:]
    for k, stage in enumerate(shown):
        if len(path) > most and k == most // 2:
            lines.append(f"    ... {len(path) - len(shown)} more")
        after = f"  (waited for {stage.after})" if stage.after else ""
        lines.append(f"{stage.micros / 1000:10.3f} ms {stage.length:>7} us  {stage.task}  "
                     f"{stage.op} {stage.node}{after}")
    return "\n".join(lines)
