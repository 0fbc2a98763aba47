"""The text of `python -m pyflow trace`: tables of what cost most, and the critical path.

Invariants
    1. A kernel's self time is its time less that of kernels nested in it on its thread; an
       asynchronous kernel's is the time from its start until it called done, on no thread.
    2. The critical path is the chain of kernels along data and control edges with the greatest
       sum of measured times, within one step: the step took at least as long, however many threads.

Threads: pure functions.
"""
from pyflow.session import chrome_trace

_WORK = ("kernel", "async", "block", "stream")


def facts(trace, top=15, step=None):
    """The same in JSON's types, times in nanoseconds.  ValueError: as `report`."""
    events, work = _chosen(trace, step)
    own = self_times(work)
    ops = _grouped(work, own, lambda e: (e.op,))
    nodes = _grouped(work, own, lambda e: (e.name, e.op, _line(trace, e)))
    path = _longest(trace, work)
    found = {
        "steps": len({trace.steps[e.step].id for e in work if 0 <= e.step < len(trace.steps)}),
        "kernels": sum(e.count for e in work if e.kind != "stream"),
        "wall_ns": _wall(trace, work, step),
        "busy_ns": sum(time for e, time in _pairs(work, own) if e.kind != "async"),
        "failed": [e.name for e in work if e.failed],
        "ops": [{"op": op, "count": count, "self_ns": time, "waits": waits}
                for (op,), (count, time, waits) in ops[:top]],
        "nodes": [{"node": name, "op": op, "made_at": line, "count": count, "self_ns": time,
                   "waits": waits} for (name, op, line), (count, time, waits) in nodes[:top]],
        "queueing_ns": sum(e.start - e.ready for e in work), "notes": list(trace.notes)}
    if path is not None:
        number, _, length, chain = path
        found["critical_path"] = {"step": number, "ns": length, "nodes": [
            {"node": e.name, "op": e.op, "ns": e.end - e.start, "iteration": list(e.iteration or ())}
            for e in chain]}
    return found


def report(trace, top=15, step=None):
    """The whole report.  ValueError: there is nothing to report on."""
    events, work = _chosen(trace, step)
    own = self_times(work)
    total = sum(own.values())
    lines = _head(trace, work, own, step) + [""]
    lines += _lanes(trace, events, _wall(trace, work, step)) + [""]
    lines += _table("ops by self time", work, own, total, top, lambda e: (e.op,), ("op",)) + [""]
    lines += _table("nodes by self time", work, own, total, top,
                    lambda e: (e.name, e.op, _line(trace, e)), ("node", "op", "made at")) + [""]
    lines += _queueing(work) + [""] + _critical(trace, work, top)
    peak = max(work, key=lambda e: e.in_use)
    if peak.in_use:
        lines += ["", f"allocator: {size(peak.in_use)} in use at most, after {peak.name}"]
    return "\n".join(line.rstrip() for line in lines + [f"note: {n}" for n in trace.notes])


def _chosen(trace, step):
    """(events, those of them that are work) of all steps or of one."""
    events = trace.events
    if step is not None:
        known = {i for i, s in enumerate(trace.steps) if s.id == step}
        events = [e for e in events if e.step in known]
        if not events:
            raise ValueError(f"the trace has no step {step}; it has "
                             f"{', '.join(sorted({str(s.id) for s in trace.steps}))}")
    work = [e for e in events if e.kind in _WORK]
    if not work:
        raise ValueError("the trace has no kernels: did a step run while it was written?")
    return events, work


def span(ns):
    """12.3 us, 4.56 ms, 1.23 s."""
    for unit, scale in (("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        if abs(ns) < 999.5 * scale or unit == "s":
            return f"{ns / scale:.3g} {unit}"
    return ""


def size(count):
    """1.5 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    return ""


def _head(trace, work, own, step):
    wall = _wall(trace, work, step)
    busy = sum(time for e, time in _pairs(work, own) if e.kind != "async")
    steps = len({trace.steps[e.step].id for e in work if 0 <= e.step < len(trace.steps)})
    kernels = sum(e.count for e in work if e.kind != "stream")
    failed = [e.name for e in work if e.failed]
    lines = [f"{steps} step{'s' * (steps != 1)}, {kernels} kernels: {span(wall)} in steps, "
             f"{span(busy)} in kernels, {busy / max(wall, 1):.2f} at once on average"]
    return lines + [f"failed: {', '.join(failed[:5])}"] * bool(failed)


def _pairs(work, own):
    return [(e, own[i]) for i, e in enumerate(work)]


def _wall(trace, work, step):
    """Nanoseconds during which at least one step ran."""
    spans = trace.walls if step is None and trace.walls else [(e.start, e.end) for e in work]
    return union(spans) if trace.walls and step is None else spans_length(spans)


def spans_length(spans):
    """From the first start to the last end."""
    return max(end for _, end in spans) - min(start for start, _ in spans)


def union(spans):
    """Nanoseconds covered by at least one of the spans."""
    covered, until = 0, None
    for start, end in sorted(spans):
        if until is None or start > until:
            covered, until = covered + end - start, end
        elif end > until:
            covered, until = covered + end - until, end
    return covered


def self_times(work):
    """{index: ns}: each event's time less that of the events nested in it on its lane."""
    own = {i: e.end - e.start for i, e in enumerate(work)}
    lanes = {}
    for i, e in enumerate(work):
        if e.kind != "async":
            lanes.setdefault(e.lane, []).append(i)
    for members in lanes.values():
        open_ = []
        for i in sorted(members, key=lambda i: (work[i].start, -work[i].end)):
            while open_ and work[open_[-1]].end <= work[i].start:
                open_.pop()
            if open_ and work[i].end <= work[open_[-1]].end:
                own[open_[-1]] -= work[i].end - work[i].start
            open_.append(i)
    return own


def _lanes(trace, events, wall):
    lines = [f"{'thread or stream':40}{'busy':>10}{'share':>9}{'slices':>9}"]
    found = {}
    for e in events:
        if e.kind in ("kernel", "block", "chunk", "post", "stream", "launch"):
            found.setdefault(e.lane, []).append((e.start, e.end))
    for lane in sorted(found, key=lambda lane: -union(found[lane])):
        busy = union(found[lane])
        name = str(trace.lanes.get(lane, lane))
        lines.append(f"{name[-39:]:40}{span(busy):>10}{busy / max(wall, 1):>9.1%}"
                     f"{len(found[lane]):>9}")
    return lines


def _line(trace, event):
    if not 0 <= event.step < len(trace.steps):
        return ""
    return trace.steps[event.step].plan.lines.get(event.name, "")


def _grouped(work, own, key):
    """[(key, [count, self time, waits])], the dearest first."""
    groups = {}
    for event, time in _pairs(work, own):
        group = groups.setdefault(key(event), [0, 0, False])
        group[0] += event.count
        group[1] += time
        group[2] |= event.kind == "async"
    return sorted(groups.items(), key=lambda item: (-item[1][1], item[0]))


def _table(title, work, own, total, top, key, names):
    rows = _grouped(work, own, key)
    wide = [max([len(n)] + [min(48, len(k[i])) for k, _ in rows[:top]])
            for i, n in enumerate(names)]
    head = "  ".join(f"{n:{w}}" for n, w in zip(names, wide))
    lines = [title, f"{'self time':>10}{'share':>8}{'count':>8}{'mean':>10}  {head}"]
    for parts, (count, time, waits) in rows[:top]:
        cells = "  ".join(f"{short(p):{w}}" for p, w in zip(parts, wide))
        lines.append(f"{span(time):>10}{time / max(total, 1):>8.1%}{count:>8}"
                     f"{span(time / count):>10}  {cells}{' (waits)' if waits else ''}")
    if len(rows) > top:
        rest = sum(time for _, (_, time, _) in rows[top:])
        lines.append(f"{span(rest):>10}{rest / max(total, 1):>8.1%}  in {len(rows) - top} more")
    return lines


def short(text, room=48):
    """The text, its middle left out if it is long."""
    return text if len(text) <= room else f"{text[:room // 3]}...{text[-(room - room // 3 - 3):]}"


def _queueing(work):
    waits = sorted((e for e in work), key=lambda e: e.ready - e.start)
    total = sum(e.start - e.ready for e in work)
    lines = [f"queueing: {span(total)} between ready and start, over all kernels"]
    lines += [f"{span(e.start - e.ready):>10}  {short(e.name)}" for e in waits[:3]
              if e.start - e.ready > 1000]
    return lines


# ------------------------------------------------------------ critical path

def critical_path(steps, events):
    """(ns, [Event]): the longest chain of one step's events along its edges."""
    links = chrome_trace.Links(steps, events)
    best, before = {}, {}
    for event in sorted(events, key=lambda e: (e.start, e.end)):
        key = id(event)
        length, source = 0, None
        for candidate in links.sources(event):
            reach = best.get(id(candidate), 0)
            if reach > length:
                length, source = reach, candidate
        best[key], before[key] = length + event.end - event.start, source
    last = max(events, key=lambda e: best[id(e)])
    path, length = [], best[id(last)]
    while last is not None:
        path.append(last)
        last = before[id(last)]
    return length, path[::-1]


def _longest(trace, work):
    """(number, its events, ns and events of its critical path) of the longest step, or None."""
    groups = {}
    for event in work:
        if 0 <= event.step < len(trace.steps) and event.kind != "stream":
            groups.setdefault(trace.steps[event.step].id, []).append(event)
    if not groups:
        return None
    number, events = max(groups.items(), key=lambda item: spans_length(
        [(e.start, e.end) for e in item[1]]))
    return number, events, *critical_path(trace.steps, events)


def _critical(trace, work, top):
    found = _longest(trace, work)
    if found is None:
        return []
    number, events, length, path = found
    wall = spans_length([(e.start, e.end) for e in events])
    lines = [f"critical path of the longest step ({number}): {span(length)} of {span(wall)} "
             f"({length / max(wall, 1):.0%}), {len(path)} kernels"]
    shown = sorted(sorted(path, key=lambda e: e.start - e.end)[:top], key=lambda e: e.start)
    for e in shown:
        tag = f" [{'.'.join(map(str, e.iteration))}]" if e.iteration else ""
        lines.append(f"{span(e.end - e.start):>10}  {short(e.name)}{tag}  {e.op}")
    if len(path) > len(shown):
        rest = length - sum(e.end - e.start for e in shown)
        lines.append(f"{span(rest):>10}  in {len(path) - len(shown)} shorter ones")
    return lines
