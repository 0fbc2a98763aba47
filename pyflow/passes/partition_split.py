"""Split: one graph per partition (device or task); what crosses goes through Send and Recv.

    data edge     _Send in the source's partition, _Recv in the reader's, once per tensor and
                  destination
    control edge  the same, with an empty tensor that waits for the source, where no output of the
                  source is sent there anyway
    while loop    every partition that takes part in a loop runs all of its iterations

A loop whose nodes lie in several partitions gets, in each of them, a CONTROL LOOP:

    Const -> Enter -> Merge -> Switch -> NextIteration -> Merge      (Switch asks the LoopCond,
                        |                                             which is sent every iteration)
                        ^--- control edge to every _Recv of the loop in this partition

Invariants
    1. Partitions joined in a loop run the same iterations of it: the control loop's Merge is live
       exactly in those in which the LoopCond's partition evaluates the condition.
    2. Each _Send and each _Recv of a pair runs once per iteration of its frame, dead or live, so
       every key (tensor, frame, iteration) is sent once and received once in a step.
    3. Routing nodes lie where they are used (partition_routing.py), feeds with their first reader,
       fetches with what they fetch.  So loop invariants are sent once per loop, results once after
       it.
    4. A partition that has no edge across its border inside a loop has no control loop for it.
    5. No partition runs ahead of the others by more than a loop's parallel_iterations on each side:
       in every loop each partition's iterations are felt in the LoopCond's.

6. Where `narrow` says so, floats travel as bfloat16: the nearest to each, off by 2^-8 of it at most
   (what is beyond 3.39e38 becomes infinite; numbers below 2^-126 are off by 2^-134).  Values that
   are fed or fetched are no edges, and stay as they are.

Threads: pure functions; nodes of the given graph are changed.

    for part in split(graph, "device"):
        part.name, part.graph, part.args, part.rets
"""
import functools

import numpy as np

from pyflow.framework import dtypes, errors
from pyflow.framework.device import DeviceSpec
from pyflow.framework.tensor_shape import TensorShape
from pyflow.passes import partition, partition_routing
from pyflow.passes.node import Graph, Node
from pyflow.passes.partition_frames import Frames
from pyflow.passes.reads import Reads, waits_of

BY = ("device", "task")
_SWITCHES = frozenset(("Switch", "RefSwitch", "_SwitchN"))      # dead outputs of a live node
_SCALAR, _EMPTY = TensorShape([]), TensorShape([0])


class Part:
    """One partition: `graph`, and which feeds (`args`) and fetches (`rets`) of the whole step are
    its own, as numbers of the whole graph's lists in its own order."""

    __slots__ = ("name", "graph", "args", "rets")

    def __init__(self, name, graph, args, rets):
        self.name, self.graph, self.args, self.rets = name, graph, args, rets


def split(graph, by="device", delays=None, incarnation=partition.no_task,
          link=partition.within_task, narrow=None):
    """[Part] of a placed graph; the first holds the first node.

    by: "device", one partition per device; "task", one per task, its devices joined by
        `partition.cut`.
    delays: {(node, output index, partition): node that the Recv waits for}, from partition_delay.
    incarnation: function of a sending device, of its task's, which edges carry.
    link: function of two devices in different partitions, and a type -> (send op, receive op).
    narrow: None, or a function of two such devices: whether floats travel as bfloat16.
    Raises InvalidArgumentError for a loop without a LoopCond that would have to be split.
    """
    if by not in BY:
        raise ValueError(f"split by {by!r}: expected one of {', '.join(BY)}")
    name_of = partition_name if by == "task" else str
    if len({name_of(n.device) for n in graph.nodes}) < 2:
        return [_single(graph, name_of)]
    parts = _Splitter(graph, name_of, delays or {}, incarnation, link, narrow).parts()
    if by == "task":
        for part in parts:
            part.graph = partition.cut(part.graph, incarnation=incarnation)
    return parts


@functools.lru_cache(maxsize=4096)     # asked for each edge, of a few devices
def partition_name(device):
    """'/job:worker/replica:0/task:1' of a full device name."""
    spec = DeviceSpec.from_string(device)
    return f"/job:{spec.job}/replica:{spec.replica}/task:{spec.task}"


def _single(graph, name_of):
    name = name_of(graph.nodes[0].device) if graph.nodes else ""
    return Part(name, graph, list(range(len(graph.args))), list(range(len(graph.rets))))


class _Splitter:
    """The state of one split.  `extra` collects new nodes: {node: those that come right after}."""

    def __init__(self, graph, name_of, delays, incarnation, link, narrow):
        self.graph, self.name_of, self.delays = graph, name_of, delays
        self.incarnation, self.link, self.narrow = incarnation, link, narrow
        self.widened, self.readers = {}, {}     # of a Recv: the Cast after it; who reads the source
        self.reads = Reads(graph)
        self.nodes = partition_routing.settle(list(graph.nodes), name_of, self.reads)
        self.before, self.after, self.pairs, self.loops = {}, {}, {}, {}
        self._settle_ends()
        self.frames = Frames(Graph(self.nodes))
        self.joined = self._join_frames()

    def part_of(self, node):
        return self.name_of(node.device)

    def crosses(self, source, reader):
        return self.name_of(source.device) != self.name_of(reader.device)

    def parts(self):
        """[Part]: crossing edges replaced, then the nodes dealt out."""
        order = list(self.nodes)
        for node in order:
            if any(self.crosses(s, node) for s, _ in node.inputs):
                node.inputs = [self._received(s, i, node) if self.crosses(s, node) else (s, i)
                               for s, i in node.inputs]
        for node in order:
            if any(self.crosses(c, node) for c in node.controls):
                node.controls = [self._signal(c, node) if self.crosses(c, node) else c
                                 for c in node.controls]
        for frame, name in sorted(self.joined, key=lambda j: (j[0].name, j[1])):
            self._trigger(frame, name)
        self._acknowledge()
        dealt = {}
        for node in order:
            for each in (*self.before.get(node, ()), node, *self.after.get(node, ())):
                dealt.setdefault(self.part_of(each), []).append(each)
        return [self._part(name, nodes) for name, nodes in dealt.items()]

    def _part(self, name, nodes):
        args = [k for k, a in enumerate(self.graph.args) if self.part_of(a) == name]
        rets = [k for k, r in enumerate(self.graph.rets) if self.part_of(r) == name]
        own_args = [self.graph.args[k] for k in args]
        own_rets = [self.graph.rets[k] for k in rets]
        for own in (own_args, own_rets):
            for index, node in enumerate(own):
                node.attrs = {**node.attrs, "index": index}
        return Part(name, Graph(nodes, own_args, own_rets), args, rets)

    def _settle_ends(self):
        """Feeds go to their first reader, fetches to what they fetch."""
        args, first = set(self.graph.args), {}
        for ret in self.graph.rets:
            ret.device = ret.inputs[0][0].device
        for node in self.nodes:
            for source in (*(s for s, _ in node.inputs), *node.controls):
                if source in args:
                    first.setdefault(source, node)
        others = [n for n in self.nodes if n not in args]
        for arg in args:
            reader = first.get(arg) or (others[0] if others else None)
            if reader is not None:
                arg.device = reader.device

    # ------------------------------------------------------------ which partitions run which loops

    def _join_frames(self):
        """{(frame, partition)}: those that need a control loop."""
        joined = {}
        for node in self.nodes:
            for source in (*(s for s, _ in node.inputs), *node.controls):
                if self.crosses(source, node):
                    frame = self.frames.of_output(source)
                    self._join(joined, frame, source)
                    self._join(joined, frame, node)
        return set(joined)

    def _join(self, joined, frame, node):
        """The partition of `node` takes part in the frame and all around it, and so does each
        LoopCond."""
        while not frame.is_root and (frame, self.part_of(node)) not in joined:
            joined[frame, self.part_of(node)] = node.device
            if frame.loop_cond is None:
                raise errors.InvalidArgumentError(
                    None, frame.enter.origin,
                    f"the while loop '{frame.name}' has no LoopCond, so its nodes cannot be split"
                    f" over devices ({node.name} is on {node.device}): put the loop on one device")
            self._join(joined, frame, frame.loop_cond)
            frame = frame.parent

    def _trigger(self, frame, name):
        """The Merge of the partition's control loop; None in the root."""
        if frame.is_root:
            return None
        if (frame, name) not in self.loops:
            self.loops[frame, name] = None          # while it is built
            self._make_loop(frame, name)
        return self.loops[frame, name]

    def _make_loop(self, frame, name):
        cond = frame.loop_cond
        near = cond if self.part_of(cond) == name else self._device_in(name)
        device, prefix = near.device, f"{cond.name}/_loop_{len(self.loops)}"
        outer = self._trigger(frame.parent, name)
        start = self._constant(f"{prefix}/start", np.int32(0), _SCALAR, device, cond.origin,
                               [outer] if outer is not None else [])
        make = _Maker(prefix, device, cond.origin, dtypes.int32)
        parallel = frame.enter.attrs.get("parallel_iterations", 10)
        enter = make("Enter", [(start, 0)], frame_name=frame.enter.attrs["frame_name"],
                     is_constant=False, parallel_iterations=parallel)
        merge = make("Merge", [(enter, 0)], N=2)
        self.loops[frame, name] = merge
        self._insert(near, self.before, start, enter, merge)
        goes_on = (cond, 0) if near is cond else self._received(cond, 0, near, frame)
        switch = make("Switch", [(merge, 0), goes_on])
        back = make("NextIteration", [(switch, 1)])
        merge.inputs.append((back, 0))
        self._insert(near, self.after, switch, back)

    def _acknowledge(self):
        """Invariant 5: who sends nothing back, directly or not, reports each iteration it begins.

        The LoopCond's partition cannot retire an iteration before all it receives in it came.
        """
        flows = {}
        for source, _, name in self.pairs:
            frame = self.frames.of_output(source)
            while frame is not None:                # what comes back in an inner loop counts too
                flows.setdefault(frame, {}).setdefault(name, set()).add(self.part_of(source))
                frame = frame.parent
        for (frame, name), merge in list(self.loops.items()):
            cond, senders = frame.loop_cond, flows.get(frame, {})
            reached, todo = {self.part_of(cond)}, [self.part_of(cond)]
            while todo:
                new = senders.get(todo.pop(), set()) - reached
                reached |= new
                todo += new
            if name not in reached:
                begun = self._constant(f"{merge.name}/_begun", np.zeros(0, np.float32), _EMPTY,
                                       merge.device, cond.origin, [merge])
                near = self._device_in(name)
                self._insert(near, self.before, begun)
                trigger = self.loops[frame, self.part_of(cond)]
                self.pairs[begun, 0, self.part_of(cond)] = self._pair(begun, 0, cond, trigger, near)

    def _device_in(self, name):
        return next(n for n in self.nodes if self.part_of(n) == name)

    def _insert(self, at, where, *nodes):
        where.setdefault(at, []).extend(nodes)

    # ------------------------------------------------------------ pairs

    def _received(self, source, index, reader, frame=None):
        """(Recv, 0) for an output of another partition, one per partition."""
        name, frame = self.part_of(reader), frame or self.frames.of_output(source)
        trigger, key = self._trigger(frame, name), (source, index, name)    # a loop makes pairs too
        if partition.reads_late(source, index, reader, self.reads):
            recv = self._read_late(source, index, reader, trigger)
            return self.widened.get(recv, recv), 0
        if key not in self.pairs:
            self.pairs[key] = self._pair(source, index, reader, trigger, source)
            late = self.delays.get(key)
            if late is not None and frame.is_root:
                self.pairs[key].controls.append(late)
        return self.widened.get(self.pairs[key], self.pairs[key]), 0

    def _read_late(self, source, index, reader, trigger):
        """The Recv of a variable's value as it is after all else that the reader waits for."""
        key = (source, (index, reader), self.part_of(reader))
        if key not in self.pairs:
            waits = [self._signal(c, source) if self.crosses(c, source) else c
                     for c in waits_of(source, reader)]
            self.pairs[key] = self._pair(source, index, reader, trigger, source)
            self.readers[self.pairs[key]].controls.extend(waits)
        return self.pairs[key]

    def _signal(self, source, reader):
        """The Recv that stands for a control edge from another partition."""
        name = self.part_of(reader)
        for index in range(len(source.types) if source.op not in _SWITCHES else 0):
            if (source, index, name) in self.pairs and (source, index, name) not in self.delays:
                return self.pairs[source, index, name]      # its value comes anyway
        trigger, key = self._trigger(self.frames.of_output(source), name), (source, None, name)
        if key not in self.pairs:
            done = self._constant(f"{source.name}/_done_{len(self.pairs)}", np.zeros(0, np.float32),
                                  _EMPTY, source.device, source.origin, [source])
            self._insert(source, self.after, done)
            self.pairs[key] = self._pair(done, 0, reader, trigger, source)
        return self.pairs[key]

    def _pair(self, source, index, reader, trigger, after):
        number = len(self.pairs)
        sent = self._narrowed(source, index, reader, number)
        output = (source, index) if sent is None else (sent, 0)
        send, recv = partition.pair(*output, reader.device, number, "part_", self.incarnation,
                                    self.link, None if sent is None else (source, index))
        self._insert(after, self.after, *filter(None, [sent, send]))
        self.readers[recv] = sent or send
        if trigger is not None:
            recv.controls.append(trigger)
        self._insert(reader, self.before, recv)
        if sent is not None:
            self.widened[recv] = partition.cast(recv, 0, dtypes.float32, reader.device,
                                                f"{source.name}/_part_widen_{number}")
            self._insert(reader, self.before, self.widened[recv])
        return recv

    def _narrowed(self, source, index, reader, number):
        """The Cast whose result is sent in place of an output; None: that is sent as it is."""
        if self.narrow is None or source.types[index].base_dtype != dtypes.float32 \
                or source.shapes and source.shapes[index] == _EMPTY \
                or not self.narrow(source.device, reader.device):
            return None
        return partition.cast(source, index, dtypes.bfloat16, source.device,
                              f"{source.name}/_part_narrow_{number}")

    @staticmethod
    def _constant(name, value, shape, device, origin, controls):
        dtype = dtypes.as_dtype(value.dtype)
        return Node(name, "Const", (), controls, {"dtype": dtype, "value": np.asarray(value)},
                    device, (dtype,), origin, [shape])


class _Maker:
    """Routing nodes of one control loop: make("Enter", inputs, frame_name=...)."""

    def __init__(self, prefix, device, origin, dtype):
        self.prefix, self.device, self.origin, self.dtype = prefix, device, origin, dtype

    def __call__(self, op, inputs, **attrs):
        types = {"Merge": (self.dtype, dtypes.int32), "Switch": (self.dtype,) * 2}
        return Node(f"{self.prefix}/{op.lower()}", op, inputs, (), {"T": self.dtype, **attrs},
                    self.device, types.get(op, (self.dtype,)), self.origin)
