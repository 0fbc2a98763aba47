"""Placement by a cost model: what each node takes on each device, and what moving tensors takes.

A node's time on a device is, in this order,
    1. what was measured: RunMetadata or StepStats of an earlier run, {node: seconds}, or {node:
       {device type: seconds}}; for types not measured it is scaled by the estimates' ratio;
    2. latency + max(flops / flops per second, bytes / bandwidth), with what the kernel's cost
       function says for the known shapes;
    3. the same with an estimate from shapes: an operation per element; unknown sizes count as 1;
what was not measured, times the iterations of the loops around it (place_loops.py).
A tensor between devices takes latency + bytes / link per iteration: straight from peer to peer
where the devices can, else through the host.  place_search.py does the rest.

Invariants
    1. Who asked for a device gets it; colocation and kernels are never broken.
    2. A placement whose simulated memory exceeds a device's limit is a ResourceExhaustedError.
    3. A loop's back edges are left out; its nodes take all their iterations at once.

Threads: belongs to one session, which compiles under a lock.

    tf.Session(placement="cost", placement_costs=run_metadata)
"""
import numpy as np

from pyflow.framework import errors
from pyflow.framework.device import parsed
from pyflow.framework.tensor_shape import TensorShape
from pyflow.passes import place_loops, wire
from pyflow.passes.node import Graph, Node
from pyflow.passes.place_kernels import BUILT_IN
from pyflow.passes.place_search import Problem

_FREE = BUILT_IN | frozenset("IdentityN ReadVariableOp Placeholder PlaceholderV2 Reshape Squeeze"
                             " ExpandDims Shape ShapeN Size Rank".split())
_STRING_BYTES = 16


class CostModel:
    """What nodes cost.

    declared: function(nodes) -> {name: (flops, bytes)}, the kernels' cost functions; None: none.
    measured: None, RunMetadata, StepStats, or {node name: seconds, or {device type: seconds}}.
    """

    def __init__(self, declared=None, measured=None):
        self._declared, self._measured = declared, read_measured(measured)
        self._counts = read_counts(measured)
        self.summary = ""

    def choose(self, groups, devices):
        """(device index per group, {group: reason}).  Raises ResourceExhaustedError."""
        number, problem = self._problem(groups, devices)
        found = problem.solve()
        if found.excess:
            raise _too_big(groups, devices, problem, found)
        chosen = [None] * len(groups.nodes)
        for root, g in number.items():
            chosen[root] = found.at[g]
        self.summary = f"cost model: a step is estimated at {_text(found.makespan)}"
        return chosen, _reasons(number, problem, found, devices)

    # ------------------------------------------------------------ the problem

    def _problem(self, groups, devices):
        """({group root: number}, Problem)."""
        nodes, number = groups.nodes, {}
        group = [number.setdefault(root, len(number)) for root in groups.of]
        host = devices.mask(devices.default)
        allowed = [None] * len(number)
        for root, g in number.items():
            mask = groups.mask[root]
            if nodes[root].op in ("_Arg", "_Retval") and root not in groups.members:
                mask = mask & host or mask
            allowed[g] = [d for d in range(len(devices.all)) if mask >> d & 1]
        order = _order(nodes, groups.index)
        position = {i: k for k, i in enumerate(order)}
        inputs, size, persistent, owner = self._edges(nodes, groups.index, order, position)
        speeds = [d.speed for d in devices.all]
        latency, pace = _links(speeds, devices.peers)
        ordered = [nodes[i] for i in order]
        times = place_loops.times(ordered, self._counts)
        duration = self._durations(ordered, times, devices)
        return number, Problem(duration, [group[i] for i in order], allowed, inputs, size,
                               owner, persistent, latency, pace, [s.memory for s in speeds],
                               [times[node] for node in ordered])

    @staticmethod
    def _edges(nodes, index, order, position):
        """inputs, sizes and persistent tensors of the Problem; outputs nobody reads count too."""
        tensors, size, persistent, inputs, owner = {}, [], set(), [], []
        for node in nodes:
            for k in range(len(node.types)):
                tensors[node, k] = len(size)
                size.append(tensor_bytes(node, k))
                owner.append(position[index[node]])
                if node.op in _PERSISTENT:
                    persistent.add(tensors[node, k])
        for i in order:
            node, edges = nodes[i], []
            if node.op not in ("Merge", "RefMerge"):
                edges = [(position[index[c]], None) for c in node.controls]
            for source, k in node.inputs:
                if source.op in _BACK:
                    continue
                edges.append((position[index[source]], tensors.get((source, k))))
            inputs.append(edges)
        return inputs, size, persistent, owner

    def _durations(self, nodes, runs, devices):
        """Seconds of each node on each device, in all its runs of a step."""
        declared = self._declared(nodes) if self._declared is not None else {}
        duration = []
        for node in nodes:
            flops, traffic = declared.get(node.name) or estimate(node)
            times = [runs[node] * seconds(flops, traffic, d.speed) for d in devices.all]
            seen = self._measured.get(node.name)
            if seen is not None:
                times = _measured_times(seen, times, devices)
            duration.append(times)
        return duration


_BACK = frozenset(("NextIteration", "RefNextIteration"))
_PERSISTENT = frozenset(("Const", "VariableV2", "Variable"))


def _order(nodes, index):
    """Indices in an order in which inputs come first: the construction order if it is one."""
    def sources(node):
        return [s for s, _ in node.inputs if s.op not in _BACK] + (
            node.controls if node.op not in ("Merge", "RefMerge") else [])
    done, order = set(), []
    for i, node in enumerate(nodes):
        stack = [i] if i not in done else []
        while stack:
            at = stack[-1]
            if at in done:
                stack.pop()
                continue
            missing = [index[s] for s in sources(nodes[at]) if index[s] not in done]
            if missing:
                stack += missing
            else:
                done.add(at)
                order.append(stack.pop())
    return order


def _links(speeds, peers):
    """latency[a][b] in seconds and pace[a][b] in seconds per byte; peers: set of pairs (from, to)
    that copy without the host, at the slower one's pace."""
    many = range(len(speeds))
    latency = [[0.0 if a == b else speeds[a].latency + speeds[b].latency for b in many]
               for a in many]
    pace = [[0.0 if a == b else 1 / speeds[a].link + 1 / speeds[b].link for b in many]
            for a in many]
    for a, b in peers:
        pace[a][b] = 1 / min(speed.peer_link or speed.link for speed in (speeds[a], speeds[b]))
    return latency, pace


def seconds(flops, traffic, speed):
    """Seconds of `flops` operations that move `traffic` bytes; nothing for no work."""
    if not flops and not traffic:
        return 0.0
    return speed.latency + max(flops / speed.flops, traffic / speed.bandwidth)


def _measured_times(seen, times, devices):
    """`seen`: {device type, "" for any: seconds}; types that were not measured are scaled."""
    known = seen.get("")
    if known is not None:
        return [known] * len(times)
    kind, known = next(iter(seen.items()))
    base = next((t for t, d in zip(times, devices.all) if d.kind == kind), 0.0)
    return [seen.get(d.kind, known * t / base if base and t else known)
            for t, d in zip(times, devices.all)]


# ---------------------------------------------------------------- estimates

def elements(shape):
    """The number of elements of a TensorShape, unknown sizes counted as 1."""
    dims = shape.as_tuple() if shape is not None else None
    count = 1
    for size in dims or ():
        count *= 1 if size is None else size
    return count


def tensor_bytes(node, index):
    """Bytes of an output."""
    if index >= len(node.types):
        return 0
    dtype = node.types[index].base_dtype
    if dtype.name in ("resource", "variant"):
        return 0
    size = _STRING_BYTES if dtype.name == "string" else dtype.size
    return elements(node.shapes[index] if node.shapes else None) * size


def estimate(node):
    """(flops, bytes) of a node without declared costs."""
    if node.op in _FREE:
        return 0, 0
    read = sum(tensor_bytes(source, index) for source, index in node.inputs)
    written = sum(tensor_bytes(node, k) for k in range(len(node.types)))
    counts = [elements(s.shapes[i] if s.shapes and i < len(s.shapes) else None)
              for s, i in node.inputs]
    counts += [elements(shape) for shape in node.shapes or ()]
    return max(counts, default=0), read + written


def bytes_for_costs(nodes):
    """GraphDef bytes for `_executor.node_costs`: these nodes, unknown sizes written as 1; known
    shapes that are read (Conv2DBackpropFilter's) as constants."""
    there = set(nodes)
    copies, constants = {}, {}
    for node in nodes:
        copies[node] = copy = node.copy_without_edges()
        copy.device = ""
        if node.shapes and any(s is None or not s.is_fully_defined() for s in node.shapes):
            copy.attrs = {k: v for k, v in node.attrs.items() if k != "_output_shapes"}
            copy.shapes = [_known(shape) for shape in node.shapes]
    for node, copy in copies.items():
        copy.inputs = [_shape_value(s, k, constants) or (copies[s], k)
                       for s, k in node.inputs if s in there]
    return wire.graph_bytes(Graph([*constants.values(), *copies.values()]))[0]


def _shape_value(node, index, constants):
    """(Const, 0) for output `index` of a Shape or ShapeN of a known shape, else None."""
    if node.op not in ("Shape", "ShapeN") or index >= len(node.inputs):
        return None
    source, k = node.inputs[index]
    shape = source.shapes[k] if source.shapes and k < len(source.shapes) else None
    if shape is None or shape.ndims is None:
        return None
    if (node, index) not in constants:
        dtype = node.types[index].base_dtype
        value = np.asarray(_known(shape).as_list(), dtype.as_numpy_dtype)
        constants[node, index] = Node(f"{node.name}/known_{index}", "Const",
                                      attrs={"dtype": dtype, "value": value}, types=(dtype,),
                                      shapes=[TensorShape([len(value)])])
    return constants[node, index], 0


def _known(shape):
    dims = shape.as_tuple() if shape is not None else None
    return TensorShape(None if dims is None else [1 if d is None else d for d in dims])


# ---------------------------------------------------------------- measured

def read_measured(measured):
    """{node: {device type, "" for any: seconds}} of RunMetadata, StepStats or a dict."""
    if measured is None:
        return {}
    if hasattr(measured, "step_stats"):
        measured = measured.step_stats
    if not hasattr(measured, "dev_stats"):
        return {name: dict(value) if isinstance(value, dict) else {"": float(value)}
                for name, value in dict(measured).items()}
    found = {}
    for device in measured.dev_stats:
        kind = _kind_of(device.device)
        if kind is None:
            continue
        sums = {}
        for stats in device.node_stats:
            name = stats.node_name.split(":")[0]
            sums[name] = sums.get(name, 0.0) + _span(stats)
        for name, value in sums.items():
            mine = found.setdefault(name, {})
            mine[kind] = max(mine.get(kind, 0.0), value)
    return found


def read_counts(measured):
    """{node: how often it ran} of RunMetadata or StepStats; {} of a dict."""
    measured = getattr(measured, "step_stats", measured)
    counts = {}
    for device in getattr(measured, "dev_stats", ()):
        mine = {}
        for stats in device.node_stats if _kind_of(device.device) is not None else ():
            name = stats.node_name.split(":")[0]
            mine[name] = mine.get(name, 0) + 1
        for name, count in mine.items():
            counts[name] = max(counts.get(name, 0), count)
    return counts


def _kind_of(device):
    """'GPU' of '/job:x/device:GPU:0/stream:all'; None for lanes that are no device."""
    device = device.split("/stream:")[0]
    try:
        return parsed(device).device_type
    except ValueError:
        return None


def _span(stats):
    """Seconds a kernel ran."""
    if stats.op_end_rel_nanos:
        return (stats.op_end_rel_nanos - stats.op_start_rel_nanos) * 1e-9
    end = stats.op_end_rel_micros or stats.all_end_rel_micros
    return max(0, end - stats.op_start_rel_micros) * 1e-6


# ---------------------------------------------------------------- texts

def _reasons(number, problem, found, devices):
    totals, reasons = problem.group_totals(), {}
    for root, g in number.items():
        here = found.at[g]
        others = ", ".join(f"{_text(totals[g][d])} on /device:{devices.all[d].kind}:"
                           f"{devices.all[d].ordinal}" for d in problem.allowed[g] if d != here)
        reasons[root] = (f"cost model: {_text(totals[g][here])} here, {others}" if others else
                         "cost model: the only device for it")
    return reasons


def _text(value):
    """'3.1 ms'."""
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if value * scale >= 1:
            return f"{value * scale:.3g} {unit}"
    return f"{value * 1e9:.3g} ns"


def _too_big(groups, devices, problem, found):
    limits = ", ".join(f"{d.name} {d.speed.memory} bytes" for d in devices.all if d.speed.memory)
    biggest = max(range(len(problem.size)), key=lambda t: problem.size[t])
    return errors.ResourceExhaustedError(
        None, None,
        f"the graph does not fit: no placement was found that stays within the memory of all"
        f" devices ({limits}); the best one needs {found.excess} bytes more. Its largest tensor has"
        f" {problem.size[biggest]} bytes, all together {sum(problem.size)}. Use a smaller batch, or"
        " allow more devices.",
    )
