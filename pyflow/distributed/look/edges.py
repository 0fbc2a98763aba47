"""Edges: what the parts of a session's plans send each other, by the keys under which senders and
receivers meet (`send device;incarnation;receive device;tensor;frame:iteration`).

    table = {}
    add(table, part.graph.nodes)                    # of each part, as it was registered
    of_key(table, "/job:ps/.../device:CPU:0;00...ff;/job:worker/...;edge_0_x:0;:0").edge.send
    of_ends(table, ["x/_part_recv_0"])["x/_part_recv_0"].source

Invariants
1. What an edge is was noted where its pair was made (passes/partition.py): nothing is read out of
   the names of nodes.
2. A key without its frame and iteration names one edge of a session.

Threads: pure functions; who shares a table guards it.  Callers: cluster_compiler.py, ways.py,
session_link.py.
"""
from typing import NamedTuple

from pyflow.passes import partition
from pyflow.passes.partition_split import partition_name


class Found(NamedTuple):
    """An Edge, with the devices between which it lies; frame: of the loop around a key of it, ""
    without one."""

    send_device: str
    recv_device: str
    edge: partition.Edge
    frame: str = ""

    @property
    def source(self):
        """The task that sends."""
        return partition_name(self.send_device)

    @property
    def destination(self):
        """The task that receives."""
        return partition_name(self.recv_device)


def add(table, nodes):
    """Puts what these nodes send and receive into the table, {key without frame and iteration:
    Found}."""
    for node in nodes:
        if node.edge is not None:
            attrs = node.attrs
            table[_stem(attrs)] = Found(attrs["send_device"], attrs["recv_device"], node.edge)


def of_key(table, key):
    """The Found of a key, or None."""
    stem = key
    while ";" in stem:                              # a frame's name may hold one
        stem = stem.rpartition(";")[0]
        if stem in table:
            return table[stem]._replace(frame=key[len(stem) + 1:].rpartition(":")[0])
    return None


def of_ends(table, names):
    """{name: Found} of those nodes that send or receive an edge, without its key."""
    wanted, found = set(names), {}
    for row in table.values():
        found.update(dict.fromkeys(wanted.intersection((row.edge.send, row.edge.recv)), row))
    return found


def _stem(attrs):
    incarnation = attrs["send_device_incarnation"] & (1 << 64) - 1
    return (f"{attrs['send_device']};{incarnation:016x};{attrs['recv_device']};"
            f"{attrs['tensor_name']}")
