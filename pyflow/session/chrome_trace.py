"""Traces in the JSON trace event format, which Perfetto and chrome://tracing open.

One process with a track per thread: steps, kernels, chunks of parallel_for and calls for Python
nest on the thread that ran them.  Asynchronous kernels and loops in slabs, which belong to no
thread, are asynchronous slices.  Arrows join a kernel to its inputs that came from another thread,
and a Recv to its Send.  Counters show the bytes in use: the host allocator's, and those of each
device with memory of its own.

Invariants
    1. Times are microseconds since the trace began, with a fraction of nanoseconds.
    2. Slices of a thread nest; every "s" has its "f" and every "b" its "e".
    3. What a tool needs to find the critical path is in `otherData`: the inputs of every node.

Threads: pure functions.
"""
import bisect
import json

from pyflow.session import trace_records

_TRACKED = ("kernel", "async", "block")
_FIRST_STREAM = 100_000                           # tracks of threads have lower numbers


class Writer:
    """Turns steps into events and writes them to a text file as they come.

    with open(...) as f:  w = Writer(f, pid, zero_ns);  w.steps(taken, info_of);  w.close(names)
    """

    def __init__(self, file, pid, zero_ns, title="pyflow"):
        self.file, self.pid, self.zero = file, pid, zero_ns
        self.plans, self.first, self.next_id = {}, True, 1
        self.lanes, self.streams = set(), {}
        self.counted, self.dropped, self.count = {}, 0, 0
        file.write('{"displayTimeUnit":"ns","traceEvents":[\n')
        self.put({"ph": "M", "pid": pid, "tid": 0, "ts": 0, "name": "process_name",
                  "args": {"name": f"{title} {pid}"}})

    def put(self, event):
        """Writes one event."""
        self.file.write(("" if self.first else ",\n") + json.dumps(event, separators=(",", ":")))
        self.first = False
        self.count += 1

    def micros(self, ns):
        """Microseconds since the trace began."""
        return round((ns - self.zero) / 1000, 3)

    def steps(self, taken, info_of=trace_records.plan_info):
        """Writes what one Trace.take returned: the step or steps of one run."""
        steps = trace_records.steps(taken, info_of)
        events = trace_records.events(taken, steps)
        self.dropped += taken["dropped"]
        for step in steps:
            self._step(step)
        links = Links(steps, events)
        for event in sorted(events, key=lambda e: (e.start, -e.end)):
            self._event(event, steps[event.step], links)

    def _step(self, step):
        number = self.plans.setdefault(id(step.plan), (len(self.plans), step.plan))[0]
        self.lanes.add(step.lane)
        args = {"step": step.id, "plan": number}
        if step.status:
            args["status"] = step.status
        self._slice(f"step {step.id}", "step", step.lane, step.start, step.end, args)

    def _slice(self, name, category, lane, start, end, args):
        self.put({"ph": "X", "pid": self.pid, "tid": lane + 1, "ts": self.micros(start),
                  "dur": round((end - start) / 1000, 3), "name": name, "cat": category,
                  "args": args})

    def _pair(self, event, category, args, end):
        own, self.next_id = self.next_id, self.next_id + 1
        base = {"pid": self.pid, "tid": event.lane + 1, "cat": category, "id": own,
                "name": event.name if category == "loop" else event.op}
        self.put({**base, "ph": "b", "ts": self.micros(event.start), "args": args})
        self.put({**base, "ph": "e", "ts": self.micros(end)})

    def _event(self, event, step, links):
        self.lanes.add(event.lane)
        args = self._args(event, step)
        if event.kind == "async":
            args["completed_us"] = round((event.end - event.done) / 1000, 3)
            self._pair(event, "async", args, event.done)
        elif event.kind == "loop":
            self._pair(event, "loop", args, event.end)
        elif event.kind == "stream":
            self._stream(event, args)
        else:
            name = f"{event.count} kernels" if event.kind == "block" else event.op
            self._slice(name, event.kind, event.lane, event.start, event.end, args)
        if event.kind in _TRACKED:
            self._arrows(event, links)
            self._counter("allocator in use", event.in_use, event.end)
        if event.own_memory is not None:
            self._counter(f"{event.device.rpartition('/')[2]} in use", event.own_memory, event.end)

    def _counter(self, name, value, when):
        """A point of a track of bytes, where it changes."""
        if self.counted.get(name) != value:
            self.counted[name] = value
            self.put({"ph": "C", "pid": self.pid, "ts": self.micros(when), "name": name,
                      "args": {"bytes": value}})

    def _stream(self, event, args):
        """A slice on the track of the device's stream."""
        name = f"{event.device.rpartition('/')[2]} {trace_records.STREAMS[event.done]}"
        track = self.streams.setdefault(name, _FIRST_STREAM + len(self.streams))
        args["enqueued_us"] = round((event.start - event.ready) / 1000, 3)
        self.put({"ph": "X", "pid": self.pid, "tid": track, "cat": "stream", "name": event.op,
                  "ts": self.micros(event.start), "args": args,
                  "dur": round((event.end - event.start) / 1000, 3)})

    def _args(self, event, step):
        args = {"node": event.name, "step": step.id}
        if event.iteration:
            args["iteration"] = trace_records.tag(event)
        if event.kind == "chunk":
            args["items"] = event.done
        if event.kind not in _TRACKED:
            return args
        args["plan"] = self.plans[id(step.plan)][0]
        args["queued_us"] = round((event.start - event.ready) / 1000, 3)
        if event.outputs:
            args["outputs"] = ["handle" if o.shape is None else list(o.shape)
                               for o in event.outputs]
            args["bytes"] = sum(o.bytes for o in event.outputs)
        if event.failed:
            args["failed"] = True
        return args

    def _arrows(self, event, links):
        """From the slices of other threads that made what this event read."""
        to = links.slice_of(event)
        for source in links.sources(event):
            at = links.slice_of(source)
            if at is None or to is None or at.lane == to.lane:
                continue
            left = max(at.start, at.end - 1)
            if left > to.end:
                continue                        # an input of a block's later instruction
            own, self.next_id = self.next_id, self.next_id + 1
            base = {"pid": self.pid, "cat": "data", "id": own, "name": "edge"}
            self.put({**base, "ph": "s", "tid": at.lane + 1, "ts": self.micros(left)})
            self.put({**base, "ph": "f", "bp": "e", "tid": to.lane + 1,
                      "ts": self.micros(max(to.start, left))})

    def close(self, names, cut=False):
        """Writes the names of the threads and the plans, and ends the file's text.

        names: [(thread id, name)] by lane.  cut: the trace was stopped by its size limit.
        """
        for lane in sorted(self.lanes):
            name = names[lane][1] if lane < len(names) else f"lane {lane}"
            self.put({"ph": "M", "pid": self.pid, "tid": lane + 1, "ts": 0, "name": "thread_name",
                      "args": {"name": name}})
            self.put({"ph": "M", "pid": self.pid, "tid": lane + 1, "ts": 0,
                      "name": "thread_sort_index", "args": {"sort_index": lane}})
        for name, track in self.streams.items():
            self.put({"ph": "M", "pid": self.pid, "tid": track, "ts": 0, "name": "thread_name",
                      "args": {"name": name}})
        plans = [plan.as_json() for _, plan in self.plans.values() if plan is not None]
        other = {"writer": "pyflow", "dropped": self.dropped, "cut": bool(cut),
                 "plans": [{"nodes": {n: op for n, op, _ in p["table"]["nodes"]},
                            "inputs": p["inputs"], "lines": p["lines"], "keys": p["keys"]}
                           for p in plans]}
        self.file.write('\n],"otherData":' + json.dumps(other, separators=(",", ":")) + "}\n")


def _reads(inputs):
    """Some of the inputs are tensors: of an edge's two ends it is the one that sends."""
    return any(not name.startswith("^") for name in inputs)


class Links:
    """Which event made what another one read: by step, node and iteration."""

    def __init__(self, steps, events):
        self.graphs = [(s.plan.inputs, s.plan.keys) if s.plan else ({}, {}) for s in steps]
        self.made, self.sends, self.runs = {}, {}, {}
        self.launches = {}
        for event in sorted(events, key=lambda e: e.start):
            if event.kind == "launch":
                self.launches[event.step, event.name, event.iteration] = event
            if event.kind in _TRACKED:
                self.made[event.step, event.name, event.iteration] = event
                starts, found = self.runs.setdefault((event.step, event.name), ([], []))
                starts.append(event.start)
                found.append(event)
                inputs, keys = self.graphs[event.step]
                if event.name in keys and _reads(inputs.get(event.name, ())):
                    self.sends[keys[event.name], event.iteration] = event

    def sources(self, event):
        """The events whose outputs this one read; also through nodes that left no event."""
        inputs, keys = self.graphs[event.step]
        if event.name in keys and not _reads(inputs.get(event.name, ())):
            sent = self.sends.get((keys[event.name], event.iteration))
            if sent is not None:
                yield sent
        seen, wanted = set(), list(inputs.get(event.name, ()))
        while wanted and len(seen) < 64:
            name = wanted.pop().lstrip("^").partition(":")[0]
            if name in seen:
                continue
            seen.add(name)
            found = self._event(name, event)
            if found is None:
                wanted += inputs.get(name, ())
            else:
                yield found

    def _event(self, name, reader):
        """The node's event that `reader` saw: of the same iteration, of the one before, of a loop
        outside; or, from a loop that is over, the last one."""
        step, turn = reader.step, reader.iteration
        for tag in _earlier(turn):
            found = self.made.get((step, name, tag))
            if found is not None and found.start <= reader.start and found is not reader:
                return found
        starts, events = self.runs.get((step, name), ((), ()))
        at = bisect.bisect_right(starts, reader.start) - 1
        found = events[at] if at >= 0 else None
        same = found is not None and found is not reader and len(found.iteration) > len(turn)
        return found if same and found.iteration[:len(turn)] == turn else None

    def slice_of(self, event):
        """The slice of a thread that stands for the event: an asynchronous kernel's is its launch;
        None: it has none."""
        if event.kind != "async":
            return event
        return self.launches.get((event.step, event.name, event.iteration))


def _earlier(turn):
    """(2, 5) -> (2, 5), (2, 4), (2,), (1,), ()."""
    yield turn
    while turn:
        yield turn[:-1] + (turn[-1] - 1,)
        turn = turn[:-1]
        yield turn
