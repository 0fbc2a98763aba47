"""Tables of a cluster for people and as JSON: what `python -m pyflow cluster status|top` prints.

Threads: pure functions.
"""
from pyflow.distributed.look import asking
from pyflow.distributed.wire import task_names

_COLUMNS = (("task", "<"), ("address", "<"), ("pid", ">"), ("epoch", ">"), ("sessions", ">"),
            ("graphs", ">"), ("open", ">"), ("early", ">"), ("waiting", ">"), ("steps/s", ">"),
            ("steps", ">"))


def as_json(statuses, before=None):
    """A list of dicts, one a task."""
    return [_row(task, found, (before or {}).get(task)) for task, found in statuses.items()]


def _row(task, found, before):
    if isinstance(found, asking.Silent):
        return {"task": task, "address": found.address, "answers": False, "reason": found.reason}
    return {
        "task": task, "address": found.address, "answers": True, "pid": found.pid,
        "host": found.host, "version": found.version, "incarnation": f"{found.incarnation:016x}",
        "epoch": found.epoch, "sessions": found.sessions, "graphs": found.graphs,
        "steps_open": found.steps_open, "steps_early": found.steps_early,
        "steps_done": found.steps_done, "steps_per_second": _rate(found, before),
        "waiting_bytes": found.early_bytes, "kernels": found.kernels_digest.hex()[:16],
        "devices": [{"name": d.name, "memory_limit": d.memory_limit} for d in found.device],
        "plugins": [{"id": p.id, "version": p.version} for p in found.plugin],
        "links": [{"task": r.task, "kind": r.kind, "address": r.address} for r in found.route],
        "lease": found.lease,
        "timeouts": [{"name": t.name, "seconds": t.seconds, "what": t.what}
                     for t in found.timeout]}


def _rate(found, before):
    """Steps done per second since `before`; None without one, or of another incarnation."""
    if before is None or isinstance(before, asking.Silent) \
            or before.incarnation != found.incarnation or found.clock_ns <= before.clock_ns:
        return None
    rate = (found.steps_done - before.steps_done) / ((found.clock_ns - before.clock_ns) / 1e9)
    return round(rate, 1)


def table(statuses, before=None):
    """Lines: a row per task; who does not answer says why."""
    rows = as_json(statuses, before)
    cells = [[name for name, _ in _COLUMNS]]
    cells += [_cells(row) for row in rows if row["answers"]]
    lines = columns(cells, [side for _, side in _COLUMNS])
    lines += [f"{task_names.short(row['task'])} at {row['address']} does not answer: "
              f"{row['reason']}" for row in rows if not row["answers"]]
    return lines


def _cells(row):
    rate = row["steps_per_second"]
    return [task_names.short(row["task"]), row["address"], str(row["pid"]), str(row["epoch"]),
            str(row["sessions"]), str(row["graphs"]), str(row["steps_open"]),
            str(row["steps_early"]), size(row["waiting_bytes"]), "-" if rate is None else
            f"{rate:g}", str(row["steps_done"])]


def details(statuses):
    """Lines: what does not change, per task; tasks that say the same stand together."""
    lines, said = [], {}
    for task, found in statuses.items():
        if isinstance(found, asking.Silent):
            continue
        name = task_names.short(task)
        lines.append(f"{name}: incarnation {found.incarnation:016x} on {found.host}")
        for route in found.route:
            where = f" at {route.address}" if route.address else ""
            lines.append(f"  sends to {task_names.short(route.task)} by {route.kind}{where}")
        devices = ", ".join(d.name.partition("device:")[2] for d in found.device)
        plugins = ", ".join(f"{p.id} {p.version}" for p in found.plugin)
        text = f"pyflow {found.version}; devices {devices}; plugins {plugins}"
        said.setdefault((text, _times(found)), []).append(name)
    for (text, times), names in said.items():
        lines += ["", f"{', '.join(names)}: {text}", *times]
    return lines


def _times(found):
    cells = [[t.name, f"{t.seconds:g} s", t.what] for t in found.timeout]
    return tuple("  " + line for line in columns(cells, "<><"))


def columns(cells, sides):
    """Lines of cells side by side.  sides: "<" or ">" per column."""
    if not cells:
        return []
    widths = [max(len(row[k]) for row in cells) for k in range(len(sides))]
    return ["  ".join(f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths))
            .rstrip() for row in cells]


def size(count):
    """"1.2 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}" if unit != "B" else f"{count} B"
        count /= 1000
