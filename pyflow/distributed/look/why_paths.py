"""Chains of waits as a graph, {node: those it waits for}: what leads where, and circles.

Threads: pure functions.  Callers: why.py, why_replicas.py.
"""


def leading(edges, nodes, roots):
    """{node: set of the roots that lead to it} of some nodes."""
    found = {}
    for root in roots:
        for at in _behind(edges, [root]):
            if at in nodes:
                found.setdefault(at, set()).add(root)
    return found


def _behind(edges, todo):
    """What these lead to, they themselves first."""
    seen, todo = {}, list(todo)
    while todo:
        at = todo.pop()
        if at not in seen:
            seen[at] = None
            todo += edges.get(at, ())
    return seen


def leading_to(edges, end):
    """All that leads to it, it itself too."""
    before = {}
    for at, after in edges.items():
        for to in after:
            before.setdefault(to, []).append(at)
    return set(_behind(before, [end]))


def ends_without(edges, ends, start, stops):
    """Those of `ends` that `start` leads to past nothing for which stops(node)."""
    seen, todo, found = set(), list(edges.get(start, ())), []
    while todo:
        at = todo.pop()
        if at in seen or stops(at):
            continue
        seen.add(at)
        if at in ends:
            found.append(at)
        todo += edges.get(at, ())
    return found


def circle(edges, root):
    """The nodes of a circle that the root leads to, or None."""
    path, on_path, done = [], {}, set()

    def walk(at):
        if at in on_path:
            return path[on_path[at]:]
        if at in done:
            return None
        on_path[at] = len(path)
        path.append(at)
        for after in edges.get(at, ()):
            found = walk(after)
            if found:
                return found
        path.pop()
        del on_path[at]
        done.add(at)
        return None
    return walk(root)
