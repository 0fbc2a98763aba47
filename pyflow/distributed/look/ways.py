"""Ways: how the tensors of a plan go from task to task, for people.

    pyflow.distributed.ways.explain(session, fetches)

    2 parts: /job:ps/task:0 (4 nodes), /job:worker/task:0 (7 nodes)
    /job:ps/task:0 -> /job:worker/task:0: 1 tensor by _net.Send and _Recv over unix
        w/read:0 float, CPU:0 to GPU:1
        not by nccl: no kernel of nccl.Send or nccl.Recv for it there

PYFLOW_DUMP writes the same beside a plan's parts, as `ways.txt`.

Invariants
1. The link is the one that the sending task has to the other now; a pair of a plugin's has a way of
   its own, and no link is named.

Threads: any; the tasks are asked over gRPC.
"""
from pyflow.distributed.wire import pairs, task_names
from pyflow.session.session import compiled_of

LISTED = 5                              # tensors of one pair of tasks


def text(sizes, table, link_of, why_not=None):
    """Lines.  sizes: {task: nodes of its part}; table: of edges.add; link_of: function(task, task)
    -> kind or None; why_not: pairs.Choice.why_not, for those that pairs were asked for."""
    tasks = ", ".join(f"{task_names.short(t)} ({n} nodes)" for t, n in sizes.items())
    lines, groups = [f"{len(sizes)} part{'s' * (len(sizes) != 1)}: {tasks}"], {}
    for row in table.values():
        if row.source != row.destination:
            ops = row.edge.send_op, row.edge.recv_op
            groups.setdefault((row.source, row.destination, *ops), []).append(
                (row.edge, (row.send_device, row.recv_device)))
    for (source, destination, send, recv), among in sorted(groups.items()):
        over = ""
        if send == pairs.NET.send:
            over = f" over {link_of(source, destination) or 'no link yet'}"
        narrowed = sum(e.narrowed for e, _ in among)
        few = f", {narrowed} of them as bfloat16" if narrowed else ""
        lines.append(f"{task_names.short(source)} -> {task_names.short(destination)}: {len(among)} "
                     f"tensor{'s' * (len(among) != 1)} by {send} and {recv}{over}{few}")
        lines += [f"    {e.tensor} {e.dtype}{' as bfloat16' * e.narrowed}, {_between(devices)}"
                  for e, devices in among[:LISTED]]
        if len(among) > LISTED:
            lines.append(f"    ... and {len(among) - LISTED} more")
        if send == pairs.NET.send and why_not:
            reasons = {why_not(*devices, str(e.dtype)) for e, devices in among}
            lines += [f"    {reason}" for reason in sorted(reasons - {None})]
    return "\n".join(lines) + "\n"


def _between(devices):
    """The two devices without their tasks, which stand above."""
    return " to ".join(d.rpartition("device:")[2] for d in devices)


def explain(session, fetches, feed_dict=None):
    """How the tensors of the plan for these fetches and feeds go from task to task, as text.  The
    plan is compiled if it is not there; nothing runs."""
    return compiled_of(session, fetches, feed_dict or ()).plan.explain()
