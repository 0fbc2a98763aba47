"""Partition: edges between devices go through a send node and a receive node.

Which pair serves an edge is looked up by the two device types; the default is `_Send`/`_Recv`,
ordinary kernels of the CPU plugin that meet in the step's rendezvous.  A transport plugin registers
its own pair:

    register_transport("CPU", "ACME", "acme.Send", "acme.Recv")

Invariants
    1. One pair per tensor and destination device, shared by all readers there.
    2. After `cut` every data edge joins nodes of one device, send and receive pairs excepted.
    3. The two nodes of a pair sit in one plan.  With control flow a control edge from send to
       receive keeps them in one frame, runs the receive once per iteration and passes deadness on.
    4. What enters a loop is sent once, not once per iteration (partition_routing.py).
    5. Control edges between devices stay: one plan orders them.
    6. Who reads a ref variable after an update of it has a pair of its own (`reads_late`).

`cut` keeps everything in one plan; partition_split.py makes a graph per device or task.
"""
from typing import NamedTuple

from pyflow.framework.device import DeviceSpec
from pyflow.passes import partition_routing
from pyflow.passes.partition_frames import MERGES
from pyflow.passes.node import Graph, Node, is_ref
from pyflow.passes.reads import Reads, waits_of

_transports = {}


def register_transport(source, destination, send_op, recv_op):
    """Selects the pair of ops for edges from device type `source` to `destination`.

    The ops have `_Send`'s and `_Recv`'s signatures.  Returns the pair that was selected before.
    """
    old = transport(source, destination)
    _transports[source, destination] = (send_op, recv_op)
    return old


def transport(source, destination):
    """(send op, receive op) for edges between two device types."""
    return _transports.get((source, destination), ("_Send", "_Recv"))


def within_task(source, destination, dtype=None):
    """(send op, receive op) for an edge of a type between two devices, full names, of one task."""
    return transport(_kind(source), _kind(destination))


def no_task(device):
    """The incarnation of a device of no particular task."""
    return 1


def cut(graph, delays=None, incarnation=no_task):
    """Inserts the pairs.  Returns the graph: the same object if one device holds everything.

    delays: {(node, output index, device): node that the receive waits for}, from partition_delay.
    incarnation: function of a sending device, of its task's (an int64), which its edges carry.
    """
    if len({n.device for n in graph.nodes}) < 2:
        return graph
    in_order, pairs, tied, reads = [], {}, graph.has_control_flow(), Reads(graph)
    for node in partition_routing.settle(graph.nodes, str, reads) if tied else graph.nodes:
        for i, (source, index) in enumerate(node.inputs):
            if source.device != node.device:
                key = (source, index, node.device)
                late = reads_late(source, index, node, reads)
                if late:
                    key = (source, (index, node), node.device)
                if key not in pairs:
                    pairs[key] = pair(source, index, node.device, len(pairs),
                                      incarnation=incarnation)
                    if tied:
                        pairs[key][1].controls.append(pairs[key][0])
                    if late:
                        pairs[key][0].controls.extend(waits_of(source, node))
                    if delays and key in delays:
                        pairs[key][1].controls.append(delays[key])
                    in_order.extend(pairs[key])
                node.inputs[i] = (pairs[key][1], 0)
        in_order.append(node)
    return Graph(in_order, graph.args, graph.rets)


def reads_late(source, index, reader, reads):
    """True if `reader` computes with a variable's value after an update of it, or reads it through
    its reference after control inputs: then its Send, which does the reading, waits for what the
    reader waits for, and nobody shares it.

    reads: the graph's `Reads`."""
    if index >= len(source.types) or reader.op in MERGES:
        return False
    return (bool(reader.controls) and is_ref(source.types[index])
            or bool(reads) and reads.sees_update(source, index, reader))


class Edge(NamedTuple):
    """A tensor that goes from one node to another: send, recv: their names; tensor: as the graph
    has it, of type dtype, though it may travel narrowed, as bfloat16."""

    send: str
    recv: str
    send_op: str
    recv_op: str
    tensor: str
    dtype: str
    narrowed: bool


def pair(source, index, destination, number, stem="", incarnation=no_task, link=within_task,
         narrowed=None):
    """(send node, receive node) that carry an output to the device `destination`.

    number: distinguishes the pairs of one step; stem: pairs of different passes; incarnation: as
    for `cut`; link: function of the two devices and the type: the pair's ops; narrowed: the
    (node, output index) that the source is the bfloat16 of.
    """
    dtype = source.types[index].base_dtype
    attrs = {"tensor_name": f"{stem}edge_{number}_{source.name}:{index}",
             "send_device": source.device, "send_device_incarnation": incarnation(source.device),
             "recv_device": destination, "client_terminated": False}
    send_op, recv_op = link(source.device, destination, dtype)
    send = Node(
        f"{source.name}/_{stem}send_{number}",
        send_op,
        [(source, index)],
        attrs={"T": dtype, **attrs},
        device=source.device,
        origin=source.origin,
    )
    recv = Node(
        f"{source.name}/_{stem}recv_{number}",
        recv_op,
        attrs={"tensor_type": dtype, **attrs},
        device=destination,
        types=(dtype,),
        origin=source.origin,
        shapes=[source.shapes[index]] if source.shapes else None,
    )
    sent, of = narrowed or (source, index)
    send.edge = recv.edge = Edge(send.name, recv.name, send_op, recv_op, f"{sent.name}:{of}",
                                 sent.types[of].base_dtype.name, narrowed is not None)
    return send, recv


def cast(source, index, to, device, name):
    """A Cast of an output to the type `to`, on a device."""
    return Node(name, "Cast", [(source, index)],
                attrs={"SrcT": source.types[index].base_dtype, "DstT": to, "Truncate": False},
                device=device, types=(to,), origin=source.origin,
                shapes=[source.shapes[index]] if source.shapes else None)


def _kind(device):
    return DeviceSpec.from_string(device).device_type
