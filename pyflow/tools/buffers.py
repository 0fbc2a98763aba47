"""What `python -m pyflow explain --buffers` prints: the plan of a graph's intermediate buffers, made
before anything runs (_executor/core/plan/buffers.pyx).

One line per output of a kernel, in the order of running:

    1048576+4096   4,096   conv (Conv2D)   until relu       a place: offset + bytes, and its last reader
    in place of 0  4,096   relu (Relu)     until mean       written over input 0 (conv), which ends here
    shares 0       4,096   flat (Reshape)  until mean       input 0's bytes under another shape
    heap           40      mean (Mean)                      and why it has no place

What is on the heap may still be written in place: a kernel asks while it runs whether its input has
another reader.  Kernels inside loops are not listed: all theirs is on the heap.  Threads: the command's own.

    for line in lines(graph_def, fetches=["loss"], batch=8): print(line)
"""

HEAP = {
    "unknown": "size not known before running",
    "small": "small: from its thread's cache",
    "few": "the whole plan needs less than 1 MB",
    "leaves": "may leave the step (fetched, assigned, sent, into a loop) or is on a device",
}
_SMALL = 65536                                   # plan.h, PF_PLACE_BYTES


def lines(message, fetches=(), batch=None):
    """The text for a GraphDef, line by line.

    fetches: names of tensors or operations; without, all outputs that nobody reads.
    batch: the size that stands for the unknown ones of placeholders.
    Raises ValueError for names that are not there, tf.errors exceptions for a graph that has no plan.
    """
    plan, feeds = _compile(message, fetches, batch)
    counts = dict.fromkeys(("planned", "in place", "shares", "heap"), 0)
    why_heap = dict.fromkeys(HEAP, 0)
    rows = []
    any_planned = any(place[4] == "planned" for place in plan.places())
    for node, op, port, size, how, offset, read, _, _, last in plan.places():
        counts[how] += 1
        note = f"until {last}" if last and last != node else ""
        where = {"planned": f"{offset}+{size}", "in place": f"in place of {read}",
                 "shares": f"shares {read}", "heap": "heap"}[how]
        if how == "heap":
            why = ("unknown" if not size else "small" if size < _SMALL else
                   "leaves" if any_planned else "few")
            why_heap[why] += 1
            note = HEAP[why]
        name = f"{node}:{port}" if port else node
        rows.append((where, f"{size:,}" if size else "?", f"{name} ({op})", note))
    yield from _table(rows)
    yield from _summary(plan.buffers(), counts, why_heap, feeds)


def _compile(message, fetches, batch):
    """(core Plan, names of what would be fed) of the graph, as a session here would compile it."""
    import pyflow as tf
    from pyflow.session.session import compiled_of
    if batch is not None:
        _set_batch(message, batch)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(message, name="")
    feeds = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
    if fetches:
        found = [graph.as_graph_element(name) for name in fetches]
    else:
        found = [op for op in graph.get_operations() if _nobody_reads(op)]
    tensors = [t for f in found for t in (f.outputs if hasattr(f, "outputs") else [f])]
    targets = [f for f in found if hasattr(f, "outputs") and not f.outputs]
    feeds = [t for t in feeds if t not in tensors]
    with tf.Session(graph=graph) as session:
        return compiled_of(session, [*tensors, *targets], feeds).core, [t.name for t in feeds]


def _nobody_reads(op):
    return not any(t.consumers() for t in op.outputs) and not op.control_outputs


def _set_batch(message, batch):
    for node in message.node:
        node.attr.pop("_output_shapes", None)
        if node.op == "Placeholder":
            for size in node.attr["shape"].shape.dim:
                size.size = batch if size.size < 0 else size.size


def _table(rows):
    widths = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
    for where, size, name, note in rows:
        line = f"{where:{widths[0]}}  {size:>{widths[1]}}  {name:{widths[2]}}  {note}"
        yield line.rstrip()


def _summary(buffers, counts, why_heap, feeds):
    heap = ", ".join(f"{n} {HEAP[why].partition(' (')[0].partition(':')[0]}"
                     for why, n in why_heap.items() if n)
    yield (f"# outputs: {counts['planned']} planned, {counts['in place']} in place, "
           f"{counts['shares']} share their input's bytes, {counts['heap']} on the heap"
           + (f" ({heap})" if heap else ""))
    yield (f"# {buffers['planned']:,} bytes planned for buffers of {buffers['total']:,}; at most "
           f"{buffers['alive']:,} of them alive at once")
    if feeds:
        yield f"# fed: {', '.join(feeds)}"
