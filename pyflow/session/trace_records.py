"""Records of the core's Trace, read: events with names, times in nanoseconds, iteration tags.

    Trace.take() + what is known of its plans  ->  Event, one per kernel, chunk, loop, post, step

Invariants
    1. Every kernel that ran is one Event of kind "kernel" or "async"; kernels that were dead or
       came after an error have none.  A Merge at the head of a loop is the arrival of a token, no
       kernel.
    2. Times are CLOCK_MONOTONIC nanoseconds, ready <= start <= end.
    3. Iterations are numbered per loop, outermost first; () outside of loops.

Threads: pure functions of what `take` returned; `remember` may be called from any thread.

    trace = executor.Trace(3);  plan.run(feeds, trace=trace)
    for event in trace_records.events(trace.take()): print(event.name, event.end - event.start)
"""
import threading
import weakref
from typing import NamedTuple

import numpy as np

KINDS = {1: "kernel", 2: "async", 3: "launch", 4: "chunk", 5: "loop", 6: "block", 7: "post",
         9: "stream"}
_OUTPUT, _MORE = 10, 11
_FAILED, _OWN_MEMORY = 1, 2
_HANDLE = 255
_UNIT = 64                                        # bytes: of pf_record.in_use
_GOLDEN = 0x9E3779B97F4A7C15                      # path = outer path * _GOLDEN + turn, mod 2^64
_INVERSE, _MASK = pow(_GOLDEN, -1, 1 << 64), (1 << 64) - 1
STREAMS = ("compute", "copy-in", "copy-out")

RECORD = np.dtype([("ready", "<i8"), ("start", "<i8"), ("end", "<i8"), ("back", "<i8"),
                   ("path", "<u8"), ("in_use", "<u4"), ("turn", "<u4"), ("instr", "<u4"),
                   ("step", "<u4"), ("lane", "<u2"), ("kind", "u1"), ("flags", "u1"),
                   ("frame", "<u2"), ("n_out", "<u2")])
OUTPUT = np.dtype([("bytes", "<i8"), ("dims", "<i8", (5,)), ("slot", "<i4"), ("type", "<i4"),
                   ("lane", "<u2"), ("kind", "u1"), ("ndim", "u1"), ("memory", "<u4")])


class Output(NamedTuple):
    """One output of a kernel.  shape: None for variable and resource handles."""

    slot: int
    type: int          # DataType number
    shape: tuple
    bytes: int
    memory: int        # DLPack device type


class Event(NamedTuple):
    """Something that took time.  ready, start, end, done: nanoseconds of CLOCK_MONOTONIC."""

    kind: str          # kernel async launch chunk loop block post stream
    step: int          # index into the trace's steps
    name: str          # node; of a loop, its frame
    op: str
    device: str
    lane: int
    ready: int
    start: int
    end: int
    done: int          # async: when `done` was called; chunk: its number of items; stream: which
    frame: str
    iteration: tuple
    in_use: int
    failed: bool
    count: int         # block: its instructions
    outputs: list
    own_memory: int = None    # kernel and launch on a device with memory: its bytes in use


class StepInfo(NamedTuple):
    """One step of a trace."""

    plan: object       # a PlanInfo
    id: int
    start: int
    end: int
    lane: int
    status: int


class PlanInfo:
    """What records refer to: the nodes, instructions and frames of a plan, and its graph's edges.

    inputs: node -> names of input tensors ("^name" for control); lines: node -> "file:line";
    keys: nodes that send or receive -> what both ends call it.
    """

    def __init__(self, table, inputs=None, lines=None, keys=None):
        self.nodes = [tuple(n) for n in table["nodes"]]
        self.instr_node = [int(k) for k in table["instr_node"]]
        self.frames = [tuple(f) for f in table["frames"]]
        self.inputs, self.lines, self.keys = inputs or {}, lines or {}, keys or {}

    def as_json(self):
        """A dict of plain lists and dicts, for PlanInfo(**...) elsewhere."""
        return {"table": {"nodes": self.nodes, "instr_node": self.instr_node,
                          "frames": self.frames},
                "inputs": self.inputs, "lines": self.lines, "keys": self.keys}


# ------------------------------------------------------------ what is known of plans

_sources = weakref.WeakKeyDictionary()            # core Plan -> (GraphDef bytes, origins, graph)
_infos = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def remember(plan, data, origins, graph):
    """Where a core Plan comes from: for names of inputs and the user's lines, if it is traced."""
    origins = {name: weakref.ref(op) for name, op in origins.items()}   # a plan's key must not be
    with _lock:                                                         # held by its value
        _sources[plan] = (data, origins, weakref.ref(graph))


def plan_info(plan):
    """The PlanInfo of a core Plan; made once."""
    with _lock:
        info, source = _infos.get(plan), _sources.get(plan)
    if info is None:
        info = PlanInfo(plan.trace_table(), *(_edges(*source) if source else ()))
        with _lock:
            _infos[plan] = info
    return info


def _edges(data, origins, graph):
    from pyflow.framework import protos
    graph = graph()
    inputs, lines, keys = {}, {}, {}
    for node in protos.GraphDef.FromString(data).node:
        inputs[node.name] = [_tensor(name) for name in node.input]
        if "tensor_name" in node.attr and "send_device" in node.attr:
            keys[node.name] = node.attr["tensor_name"].s.decode("utf-8", "replace")
        origin = origins.get(node.name)
        line = _line(origin() if origin is not None else node.name, graph)
        if line:
            lines[node.name] = line
    return inputs, lines, keys


def _tensor(name):
    return name[:-2] if name.endswith(":0") else name


def _line(op, graph):
    if isinstance(op, str):
        try:
            op = graph.get_operation_by_name(op) if graph is not None else None
        except (KeyError, ValueError):
            op = None
    frame = getattr(op, "user_frame", None)
    return str(frame) if frame is not None else None


# ------------------------------------------------------------ reading

def clock(taken):
    """ticks -> nanoseconds, for arrays and numbers."""
    tick0, ns0, tick1, ns1 = taken["clock"]
    rate = (ns1 - ns0) / (tick1 - tick0) if tick1 > tick0 else 1.0

    def to_ns(ticks):
        return ns0 + np.rint((np.asarray(ticks, np.int64) - tick0) * rate).astype(np.int64)
    return to_ns


def steps(taken, info_of=plan_info):
    """[StepInfo] of what Trace.take returned."""
    to_ns = clock(taken)
    return [StepInfo(info_of(plan) if plan is not None else None, number, int(to_ns(start)),
                     int(to_ns(end)) if end else int(to_ns(taken["clock"][2])), lane, status)
            for plan, number, start, end, lane, status in taken["steps"]]


def events(taken, known_steps=None):
    """[Event] of what Trace.take returned, ordered by lane and by time of writing."""
    known_steps = steps(taken) if known_steps is None else known_steps
    records = np.frombuffer(taken["records"], RECORD)
    records = records[np.argsort(records["lane"], kind="stable")]
    is_main = records["kind"] < _OUTPUT
    outputs = _outputs(records.view(OUTPUT), np.cumsum(is_main) - 1)
    main = records[is_main]
    turns = Turns(main, known_steps)
    times = _times(main, clock(taken))
    columns = [main[f].tolist() for f in ("kind", "step", "instr", "lane", "path", "turn", "frame",
                                          "in_use", "flags", "n_out", "back")]
    found = []
    for k, ((ready, start, end, back), row) in enumerate(zip(times, zip(*columns))):
        kind, step, instr, lane, path, turn, frame, in_use, flags, n_out, raw = row
        plan = known_steps[step].plan
        name, op, device, frame_name = _names(plan, kind, instr, frame)
        done = back if kind == 2 else n_out if kind == 9 else raw
        if kind == 9:
            device = devices()[raw] if raw < len(devices()) else device
        iteration = turns.of(step, frame, path, turn, kind) if frame else ()
        found.append(Event(KINDS.get(kind, str(kind)), step, name, op, device, lane,
                           min(ready, start), start, max(start, end), done, frame_name, iteration,
                           in_use * _UNIT, bool(flags & _FAILED), n_out if kind == 6 else 1,
                           outputs.get(k, []), raw if flags & _OWN_MEMORY else None))
    return found


def _times(main, to_ns):
    """Rows (ready, start, end, back) in nanoseconds; records of streams have them already."""
    streams = main["kind"] == 9
    return zip(*(np.where(streams, main[f], to_ns(main[f])).tolist()
                 for f in ("ready", "start", "end", "back")))


def devices():
    """Names of the devices by the number that records of streams carry."""
    from pyflow.session import runtime
    return [f"/job:localhost/replica:0/task:0/device:{kind}:{number}"
            for kind, number, _ in runtime.executor().devices()]


class Turns:
    """The iterations of the loops around a record: a record has its innermost turn and a number
    for all of them, from which the number of the loops outside follows."""

    def __init__(self, main, known_steps):
        self._frames = [s.plan.frames if s.plan is not None else [] for s in known_steps]
        self._turn, self._found = {}, {}
        inside = main[(main["frame"] > 0) & np.isin(main["kind"], (1, 2, 6))]
        for step, frame, path, turn in zip(*(inside[f].tolist() for f in
                                             ("step", "frame", "path", "turn"))):
            self._turn[step, frame, path] = turn

    def of(self, step, frame, path, turn, kind):
        """(outermost turn, ..., innermost turn); a LOOP's own turns are those outside of it."""
        frames = self._frames[step]
        if frame >= len(frames):
            return ()
        if kind == 5:
            return self._outer(step, frames[frame][0], path)
        return self._outer(step, frames[frame][0], (path - turn) * _INVERSE & _MASK) + (turn,)

    def _outer(self, step, frame, path):
        if frame <= 0:
            return ()
        known = self._found.get((step, frame, path))
        if known is None:
            parent = self._frames[step][frame][0]
            turn = path if parent <= 0 else self._turn.get((step, frame, path), 0)
            outer = self._outer(step, parent, (path - turn) * _INVERSE & _MASK)
            known = self._found[step, frame, path] = outer + (turn,)
        return known


def _names(plan, kind, instr, frame):
    if plan is None or frame >= len(plan.frames):
        return f"instruction {instr}", "?", "", ""
    frame_name = plan.frames[frame][1]
    if kind == 5:
        return frame_name, "while", "", frame_name
    if kind == 7:
        return "host call", "post", "", ""
    return (*plan.nodes[plan.instr_node[instr]], frame_name)


def _outputs(records, owner):
    """{index of the event: [Output]}."""
    found = {}
    is_output = records["kind"] >= _OUTPUT
    own = records[is_output]
    columns = [own[f].tolist() for f in ("kind", "slot", "type", "ndim", "dims", "bytes", "memory")]
    for k, kind, slot, number, ndim, dims, count, memory in zip(
            owner[is_output].tolist(), *columns):
        values = found.setdefault(k, [])
        if kind == _MORE:
            if values:
                values[-1] = values[-1]._replace(
                    shape=values[-1].shape + tuple(dims[:ndim - 5]))
            continue
        shape = None if ndim == _HANDLE else tuple(dims[:min(ndim, 5)])
        values.append(Output(slot, number, shape, count, memory))
    return found


def lanes():
    """[(thread id, name)] by lane, with Python's names of its own threads."""
    from pyflow.session import runtime
    own = {t.native_id: t.name for t in threading.enumerate()}
    return [(thread, own.get(thread, name) or f"thread {thread}")
            for thread, name in runtime.executor().trace_lanes()]


def tag(event):
    """"while/while_context:3" inside a loop, else ""."""
    return f"{event.frame}:{'.'.join(map(str, event.iteration))}" if event.iteration else ""
