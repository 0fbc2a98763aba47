"""What a task answered to GetWaits, sorted: steps, keys, what runs, resources (see waits.py).

Threads: objects of whoever asked.

    report = Report(reply)              # of a WaitsResponse
    report.runs[session, step].leaves("y/_part_send_3")     # what has to end before that node
"""
from typing import NamedTuple

# What a call does that waits, and so who ends it: PF_ROLE_* of core/host/host.h; 0: its kernel.
PUTS, TAKES, RECEIVES, CALLS, SENDS = 1, 2, 3, 4, 5


class Block(NamedTuple):
    """A block that is not done.  missing: predecessors; 0: it is ready; -1: it runs."""

    node: str           # its first
    op: str
    missing: int
    successors: list


class Run:
    """A step's partitions that run on a task, and functions' steps within them.  depths: {id of
    one: how deep in calls of functions it lies}."""

    def __init__(self):
        self.seconds, self.calls, self.blocks, self.nodes, self.depths = 0.0, [], {}, {}, {}

    def within(self, number):
        """The ids of what runs in functions that the partition of that id may have called."""
        least = self.depths.get(number, 0)
        return {k for k, depth in self.depths.items() if depth > least}

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
        names = {self.blocks[k].node for k in wanted if k in self.blocks}
        names |= {n for n, k in self.nodes.items() if k in wanted}
        if name is not None and name not in self.nodes:
            return set()
        return names

    def _before(self):
        found = {}
        for number, block in self.blocks.items():
            for k in block.successors:
                found.setdefault(k, []).append(number)
        return found

    def running(self, names=None, ids=None):
        """(node, op) of a block that computes, without a call under way; None.  ids: of those that
        count; None: all."""
        under_way = {c.node for c in self.calls}
        by_block = {}
        for node, block in self.nodes.items():
            by_block.setdefault(block, set()).add(node)
        for number, block in sorted(self.blocks.items()):
            if block.missing != -1 or names is not None and block.node not in names \
                    or ids is not None and number[0] not in ids:
                continue
            if block.node not in under_way and not under_way & by_block.get(number, set()):
                return block.node, block.op
        return None

    def is_ready(self):
        """A block of it waits for nothing but a thread."""
        return any(block.missing == 0 for block in self.blocks.values())


class Resource:
    """What calls wait at.  state: {role: what who has it has to wait for}; needed: how many puts a
    take waits for, of which `there` have come; uses: the last of each node and session; sources:
    the numbers of those that have put."""

    def __init__(self, row):
        self.name, self.state = row.name, {TAKES: row.takes, PUTS: row.puts}
        self.there, self.needed, self.uses, self.sources = row.there, row.needed, [], []
        self.held = row.held            # whoever took it has to give it back, as a lock
        self.works = row.works          # it computes what is taken, as an iterator


class Report:
    """One task's answer, sorted."""

    def __init__(self, reply):
        self.steps = {(row.session, row.step): row for row in reply.open}
        self.keys, self.runs, self.masters, self.cut = {}, {}, list(reply.step), reply.cut
        self.sessions = {row.number: row for row in reply.session}
        for row in reply.key:
            self.keys.setdefault((row.session, row.step), []).append(row)
        for row in reply.run:
            run = self._run(row)
            run.seconds = max(run.seconds, row.seconds)
            run.depths[row.id] = row.depth
        for row in reply.call:
            self._run(row).calls.append(row)
        for row in reply.block:
            self._run(row).blocks[row.id, row.number] = Block(
                row.node, row.op, row.missing, [(row.id, n) for n in row.successor])
        for row in reply.node:
            self._run(row).nodes[row.node] = row.id, row.block
        self.resources = {row.name: Resource(row) for row in reply.resource}
        for row in reply.use:
            if row.resource in self.resources:
                self.resources[row.resource].uses.append(row)
        for row in reply.source:
            if row.resource in self.resources:
                self.resources[row.resource].sources.append(row.number)

    def _run(self, row):
        return self.runs.setdefault((row.session, row.step), Run())
