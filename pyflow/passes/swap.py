"""Swapping: values of a device's own memory wait on the host for the gradients that read them.

Asked for by `tf.swap_scope()` or, as in TF 1.x, by the attribute `_swap_to_host` on operations, and
for what loops save by `tf.while_loop(swap_memory=True)`. Only on devices that are not CPUs.

For each output of a marked operation that gradients read:

    made -> _CopyToHost .............. -> _CopyToDevice -> gradients
                                              ^
    gradients that an EARLIER one waits for -> _AwaitStream

Kernels and copies of a device with streams are only enqueued, so both directions are throttled:
the node that makes a value waits until the copy of the last but IN_FLIGHT is over, and a copy back
until the device has come within IN_FLIGHT readers of its first one.  Without this a whole pass
would be enqueued, and take its memory, before the first copy is done.

The stacks of a loop's gradient get `_StackPushHost` and `_StackPopHost`, whose values lie on the
host: the core puts the copies around them.  parallel_iterations throttles those.

Invariants
    1. Values are the same bits: copies only.
    2. Readers outside the gradients keep the device's value; it is freed when they are done.
    3. Nothing happens to nodes on CPUs: their memory is the host's.
    4. New edges follow the graph's order of execution, so they close no cycle.

Threads: a graph belongs to the thread that compiles it.

    swap.swap(graph)                    # the number of values swapped
"""
import collections

from pyflow.framework.device import DeviceSpec
from pyflow.framework.memory_scopes import SWAP
from pyflow.passes import pure, recompute
from pyflow.passes.node import Node

IN_FLIGHT = 2                           # values, or readers, that copies are ahead or behind
_ON_HOST = {"StackPushV2": "_StackPushHost", "StackPopV2": "_StackPopHost"}


def swap(graph, mode=recompute.DEFAULT):
    """Adds the copies.  mode: RewriterConfig.memory_optimization.  Returns the number of values and
    stacks swapped."""
    if mode == recompute.NONE:
        return 0
    stacks = _swap_stacks(graph)
    if not any(SWAP in n.attrs for n in graph.nodes):
        return stacks
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
        out, back = _copies(source, index, number, recompute.triggers_of(first))
        after[source].append(out)
        before[first].append(back)
        for reader, i in readers:
            reader.inputs[i] = (back, 0)
    _throttle_out(after, position)
    _throttle_back(before, position)
    nodes = []
    for node in graph.nodes:
        nodes += before.get(node, ())
        nodes.append(node)
        nodes += after.get(node, ())
    graph.nodes = nodes
    return len(uses) + stacks


def _on_device(device):
    return DeviceSpec.from_string(device).device_type != "CPU"


def _wanted(source, index, reader, apart):
    return (source.attrs.get(SWAP) and recompute.is_gradient(reader)
            and not recompute.is_gradient(source) and source not in apart
            and reader.device == source.device and pure.is_value(source.types[index])
            and _on_device(source.device)
            and not recompute.is_small(source, index) and recompute.triggers_of(reader))


def _copies(source, index, number, triggers):
    """The two copies of one value, both nodes of its device."""
    dtype, made, value = source.types[index].base_dtype, [], (source, index)
    for op, part in (("_CopyToHost", "out"), ("_CopyToDevice", "in")):
        node = Node(f"{source.name}/_swap_{part}_{number}", op, [value], attrs={"T": dtype},
                    device=source.device, types=(dtype,), origin=source.origin,
                    shapes=[source.shapes[index]] if source.shapes else None)
        value = (node, 0)
        made.append(node)
    made[1].controls = list(triggers)
    return made


def _throttle_out(after, position):
    """The node that makes a value waits for the copy of the last but IN_FLIGHT."""
    sources = sorted(after, key=position.__getitem__)
    for earlier, later in zip(sources, sources[IN_FLIGHT:]):
        if earlier.device == later.device:
            later.controls.append(after[earlier][0])


def _throttle_back(before, position):
    """Copies back wait, instead of for the gradients right before their reader, until the device
    has done those before the last reader but IN_FLIGHT."""
    readers = sorted(before, key=position.__getitem__)
    for earlier, later in zip(readers, readers[IN_FLIGHT:]):
        if earlier.device == later.device:
            wait = Node(f"{later.name}/_swap_await", "_AwaitStream", (),
                        recompute.triggers_of(earlier), device=later.device, origin=later.origin)
            for back in before[later]:
                back.controls = [wait]
            before[later].insert(0, wait)


# ---------------------------------------------------------------- stacks of loops
def _swap_stacks(graph):
    """Stacks on devices that every push marks with swap_memory hold their values on the host."""
    pushed, popped = collections.defaultdict(list), collections.defaultdict(list)
    for node in graph.nodes:
        if node.op in _ON_HOST:
            (pushed if node.op == "StackPushV2" else popped)[_stack_of(node)].append(node)
    made = 0
    for stack, pushes in pushed.items():
        if stack is None or not all(_swaps(push) for push in pushes):
            continue
        for node in pushes + popped[stack]:
            node.op = _ON_HOST[node.op]
        made += 1
    return made


def _swaps(push):
    source, index = push.inputs[1]
    return (push.attrs.get("swap_memory") and _on_device(push.device)
            and not recompute.is_small(source, index))


def _stack_of(node):
    """The StackV2 behind a handle that was routed into a loop; None: not found."""
    seen = set()
    while node.op != "StackV2":
        if node in seen or not node.inputs:
            return None
        seen.add(node)
        node = node.inputs[0][0]
    return node
