"""Swapping: values of a device's own memory wait on the host for the gradients that read them.

Asked for by `tf.swap_scope()` or, as in TF 1.x, by the attribute `_swap_to_host` on operations.
For each output of a marked operation that gradients read, on a device that is not a CPU:

    made -> _swap_out (host) ............ -> _swap_hold (host) -> _swap_in (device) -> gradients
                          after the gradients that the first reader waits for ^

The copies themselves are the Send and Receive nodes that the partition pass puts between devices.

Invariants
    1. Values are the same bits: identities and copies only.
    2. Readers outside the gradients keep the device's value; it is freed when they are done.
    3. Nothing happens to nodes on CPUs: their memory is the host's.

Threads: a graph belongs to the thread that compiles it.

    swap.swap(graph)                    # the number of values swapped
"""
import collections

from pyflow.framework.device import DeviceSpec
from pyflow.framework.memory_scopes import SWAP
from pyflow.passes import pure, recompute
from pyflow.passes.node import Node

IN_FLIGHT = 2                           # values being copied out while the next is computed


def swap(graph, mode=recompute.DEFAULT):
    """Adds the identities.  mode: RewriterConfig.memory_optimization.  Returns the number of values
    swapped."""
    if mode == recompute.NONE or not any(SWAP in n.attrs for n in graph.nodes):
        return 0
    apart = pure.conditional(graph) if graph.has_control_flow() else frozenset()
    position = recompute.order_of(graph)
    uses = collections.defaultdict(list)
    for node in graph.nodes:
        for i, (source, index) in enumerate(node.inputs):
            if _wanted(source, index, node, apart):
                uses[source, index].append((node, i))
    after, before = collections.defaultdict(list), collections.defaultdict(list)
    for number, ((source, index), readers) in enumerate(uses.items()):
        first = min((r for r, _ in readers), key=position.__getitem__)
        out, hold, back = _nodes(source, index, number, recompute.triggers_of(first))
        after[source].append(out)
        before[first] += [hold, back]
        for reader, i in readers:
            reader.inputs[i] = (back, 0)
    _throttle(after, position)
    nodes = []
    for node in graph.nodes:
        nodes += before.get(node, ())
        nodes.append(node)
        nodes += after.get(node, ())
    graph.nodes = nodes
    return len(uses)


def _throttle(after, position):
    """The node that makes a value waits until the copy of the last but IN_FLIGHT is over.

    Kernels of a device with streams are only enqueued: without this the whole forward pass would
    be, and take its memory, before the first copy is done."""
    sources = sorted(after, key=position.__getitem__)
    for earlier, later in zip(sources, sources[IN_FLIGHT:]):
        if earlier.device == later.device:
            later.controls.append(after[earlier][0])


def _wanted(source, index, reader, apart):
    return (source.attrs.get(SWAP) and recompute.is_gradient(reader)
            and not recompute.is_gradient(source) and source not in apart
            and reader.device == source.device and pure.is_value(source.types[index])
            and DeviceSpec.from_string(source.device).device_type != "CPU"
            and not recompute.is_small(source, index) and recompute.triggers_of(reader))


def _host_of(device):
    spec = DeviceSpec.from_string(device)
    spec.device_type, spec.device_index = "CPU", 0
    return spec.to_string()


def _nodes(source, index, number, triggers):
    """The three identities of one value."""
    dtype, host = source.types[index].base_dtype, _host_of(source.device)
    made, value = [], (source, index)
    for part, device in (("out", host), ("hold", host), ("in", source.device)):
        node = Node(f"{source.name}/_swap_{part}_{number}", "Identity", [value],
                    attrs={"T": dtype}, device=device, types=(dtype,), origin=source.origin,
                    shapes=[source.shapes[index]] if source.shapes else None)
        value = (node, 0)
        made.append(node)
    made[1].controls = list(triggers)
    return made
