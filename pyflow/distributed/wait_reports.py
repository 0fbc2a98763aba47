"""What a task answered to GetWaits, sorted: steps, keys, and what runs (see waits.py).

Threads: objects of whoever asked.

    report = Report(reply)              # of a WaitsResponse
    report.runs[session, step].leaves("y/_part_send_3")     # what has to end before that node
"""
import re
from typing import NamedTuple

_KEY = re.compile(r"^(?P<source>[^;]*);(?P<incarnation>[0-9a-f]{16});(?P<to>[^;]*);"
                  r"(?P<stem>.*?)edge_(?P<number>\d+)_(?P<tensor>.*);"
                  r"(?P<frame>.*):(?P<turn>-?\d+)$", re.S)


class Call(NamedTuple):
    """A kernel under way."""

    node: str
    op: str
    resource: str
    seconds: float


class Run:
    """A step's partition that runs on a task; without functions' steps within it."""

    def __init__(self):
        self.seconds, self.calls, self.blocks, self.nodes = 0.0, [], {}, {}

    def leaves(self, name=None):
        """The names of the nodes that run or are under way before the node `name`; all: None."""
        if name is None or name not in self.nodes:
            wanted = set(self.blocks)
        else:
            wanted, todo, before = set(), [self.nodes[name]], self._before()
            while todo:
                block = todo.pop()
                if block not in wanted:
                    wanted.add(block)
                    todo += before.get(block, ())
        names = {self.blocks[k][0] for k in wanted if k in self.blocks}
        names |= {n for n, k in self.nodes.items() if k in wanted}
        if name is not None and name not in self.nodes:
            return set()
        return names

    def _before(self):
        found = {}
        for number, (_, _, _, successors) in self.blocks.items():
            for k in successors:
                found.setdefault(k, []).append(number)
        return found

    def running(self, names=None):
        """(node, op) of a block that computes, without a call under way; None."""
        under_way = {c.node for c in self.calls}
        by_block = {}
        for node, block in self.nodes.items():
            by_block.setdefault(block, set()).add(node)
        for number, (node, op, pending, _) in sorted(self.blocks.items()):
            if pending != -1 or names is not None and node not in names:
                continue
            if node not in under_way and not under_way & by_block.get(number, set()):
                return node, op
        return None


class Report:
    """One task's answer, sorted."""

    def __init__(self, reply):
        self.steps, self.keys, self.runs, self.masters = {}, {}, {}, list(reply.step)
        self.cut = False
        for row in reply.row:
            key = (row.session, row.step)
            if row.kind == "step":
                self.steps[key] = row
            elif row.kind == "key":
                self.keys.setdefault(key, []).append(row)
            elif row.kind == "cut":
                self.cut = True
            else:
                self._run_row(self.runs.setdefault(key, Run()), row)

    @staticmethod
    def _run_row(run, row):
        if row.kind == "run":
            run.seconds = max(run.seconds, row.seconds)
        elif row.kind == "call":
            run.calls.append(Call(row.text[0], row.text[1], row.text[2], row.seconds))
        elif row.kind == "block":
            successors = [int(n) for n in row.text[2].split(",") if n]
            run.blocks[row.id, row.a] = (row.text[0], row.text[1], row.b,
                                         [(row.id, n) for n in successors])
        elif row.kind == "node":
            run.nodes[row.text[0]] = (row.id, row.a)


class Key(NamedTuple):
    """A rendezvous key, read."""

    task: str           # who sends
    send: str           # its node
    tensor: str
    in_loop: bool


def read_key(text):
    """The Key of a rendezvous key's text, or None."""
    found = _KEY.match(text)
    if not found:
        return None
    source = found["tensor"].rpartition(":")[0] or found["tensor"]
    return Key(found["source"].partition("/device:")[0],
               f"{source}/_{found['stem']}send_{found['number']}", found["tensor"],
               bool(found["frame"]))
