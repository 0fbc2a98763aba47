"""How often each node runs in a step, for the cost model.

A node of a loop's frame runs once per iteration: as often as a trace saw the busiest of its frame
run, else TRIPS times what the frame around it runs.  Enter runs with the frame around, as does
Exit, whose result leaves it once.

Invariants
    1. Nodes outside of loops run once; so do those of branches that are not taken, which nobody
       knows beforehand.

Threads: pure.

    times(nodes in an order with inputs first, {"while/MatMul": 5})
"""
TRIPS = 10                          # iterations of a loop that nobody measured
_ENTER = frozenset(("Enter", "RefEnter"))
_EXIT = frozenset(("Exit", "RefExit"))


def times(nodes, counts=None):
    """{node: executions in one step}.  nodes: inputs first but for the back edges of loops;
    counts: {node name: executions}, of a trace."""
    counts, frame_of, around = counts or {}, {}, {"": None}
    for node in nodes:
        frame_of[node] = _frame(node, frame_of, around)
    seen = {}
    for node, frame in frame_of.items():
        if frame and node.op not in _ENTER | _EXIT and node.name in counts:
            seen[frame] = max(seen.get(frame, 0), counts[node.name])
    runs = {"": 1}
    for frame in around:                    # those around come first
        if frame:
            runs[frame] = seen.get(frame) or runs[around[frame]] * TRIPS
    return {node: runs[around[frame] if frame and node.op in _ENTER else frame]
            for node, frame in frame_of.items()}


def _frame(node, frame_of, around):
    """The frame in which a node's outputs are: of its inputs' the innermost."""
    inner, depth = "", 0
    for source in [s for s, _ in node.inputs] + node.controls:
        frame = frame_of.get(source, "")            # none yet: a back edge
        if _depth(frame, around) > depth:
            inner, depth = frame, _depth(frame, around)
    if node.op in _ENTER:
        name = node.attrs.get("frame_name", "")
        frame = f"{inner}/{name.decode() if isinstance(name, bytes) else name}"
        around.setdefault(frame, inner)
        return frame
    if node.op in _EXIT and inner:
        return around[inner]
    return inner


def _depth(frame, around):
    depth = 0
    while frame:
        frame, depth = around[frame], depth + 1
    return depth
