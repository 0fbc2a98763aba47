"""Arrows of a Chrome trace, checked."""
import collections


def check_flows(events, least):
    """Arrows pair up, forward in time, within slices of their tracks."""
    slices = collections.defaultdict(list)
    for e in events:
        if e["ph"] == "X":
            slices[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    begun = {e["id"]: e for e in events if e["ph"] == "s" and e["cat"] == "Send"}
    ended = {e["id"]: e for e in events if e["ph"] == "f"}
    assert begun.keys() == ended.keys() and len(begun) >= least
    others = [e["id"] for e in events if e["ph"] in "st" and e.get("cat") != "Send"]
    assert not begun.keys() & set(others)
    for number, s in begun.items():
        f = ended[number]
        assert f["ts"] >= s["ts"] and f["pid"] != s["pid"]
        for e in (s, f):
            assert any(a <= e["ts"] <= b for a, b in slices[e["pid"], e["tid"]])
    return begun
