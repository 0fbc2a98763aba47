"""What a trace in the JSON trace event format must be: read with care, since no Perfetto is here.

    problems(json.load(f)) == []
"""

import collections
import numbers

NEEDED = {
    "X": {"pid", "tid", "ts", "dur", "name"},
    "b": {"pid", "tid", "ts", "name", "cat", "id"},
    "e": {"pid", "tid", "ts", "name", "cat", "id"},
    "s": {"pid", "tid", "ts", "name", "cat", "id"},
    "f": {"pid", "tid", "ts", "name", "cat", "id", "bp"},
    "C": {"pid", "ts", "name", "args"},
    "M": {"pid", "name", "args"},
}
META = {"process_name", "thread_name", "thread_sort_index"}
SLACK = 0.0015  # microseconds: times are rounded to nanoseconds


def problems(trace):
    """Sentences about what is wrong."""
    found = []
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        return ["no object with a list traceEvents"]
    events = trace["traceEvents"]
    for i, event in enumerate(events):
        found += [f"event {i}: {text}" for text in _fields(event)]
    if not found:
        found += _nesting(events) + _pairs(events) + _names(events)
    return found


def _fields(event):
    phase = event.get("ph")
    if phase not in NEEDED:
        return [f"phase {phase!r}"]
    found = [f"{phase} without {key}" for key in NEEDED[phase] - set(event)]
    for key in ("ts", "dur"):
        if key in event and (not isinstance(event[key], numbers.Real) or event[key] < 0):
            found.append(f"{key} is {event[key]!r}")
    for key in ("pid", "tid"):
        if key in event and not isinstance(event[key], int):
            found.append(f"{key} is {event[key]!r}")
    if phase == "M" and event["name"] not in META:
        found.append(f"metadata {event['name']!r}")
    if phase == "C" and not all(isinstance(v, numbers.Real) for v in event["args"].values()):
        found.append("a counter that is no number")
    return found


def slices(events):
    """{(pid, tid): [(start, end, event)]}, in order."""
    tracks = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(
                (event["ts"], event["ts"] + event["dur"], event))
    for track in tracks.values():
        track.sort(key=lambda s: (s[0], -s[1]))
    return tracks


def _nesting(events):
    found = []
    for track, members in slices(events).items():
        open_ = []
        for start, end, event in members:
            while open_ and open_[-1] <= start + SLACK:
                open_.pop()
            if open_ and end > open_[-1] + SLACK:
                found.append(f"{event['name']} on {track} ends outside of what it lies in")
            open_.append(end)
    return found


def _pairs(events):
    found, flows = [], collections.defaultdict(list)
    tracks = slices(events)
    for event in events:
        if event["ph"] in "bsef":
            flows[event["cat"], event["id"]].append(event)
    for key, members in flows.items():
        if [m["ph"] for m in members] not in (["b", "e"], ["s", "f"]):
            found.append(f"{key} is {[m['ph'] for m in members]}")
        elif members[0]["ts"] > members[1]["ts"]:
            found.append(f"{key} ends before it begins")
        elif members[0]["ph"] == "s":
            found += [f"{key}: no slice under its {m['ph']}" for m in members
                      if not any(a - SLACK <= m["ts"] <= b + SLACK for a, b, _ in
                                 tracks[m["pid"], m["tid"]])]
    return found


def _names(events):
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    used = {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xbe"}
    return [f"track {track} has no name" for track in used - named]
