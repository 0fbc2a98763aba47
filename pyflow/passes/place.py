"""Placement: gives every node a full device name, or says which device is missing and where it was
asked for.

Rules, in order (TensorFlow 1.x's, `placer.cc`)
    1. Nodes that share state or a colocation label share a device (place_groups.py).
    2. A group may use the devices that its nodes asked for and that have kernels for all of them,
       by op and element types (place_kernels.py).  An unknown device, a device without kernel, or
       two nodes that disagree are InvalidArgumentErrors; with soft placement requests give way.
    3. Who asked gets the device of the highest priority among those; others:
       feeds and fetches are on the host; ops that only route (Identity, Switch, Merge, Enter, ...)
       and those that only read a shape (Shape, Size, Rank) follow their first input; arithmetic on
       a few integers (shapes, counters) stays on the CPU; everything else goes to the device type
       of the highest priority, accelerators before the CPU, in a cluster to the first task by name;
       sources without inputs (Const) go to their readers if these are all in one place, and in a
       cluster what only waits (NoOp) to what it waits for.
    With a cost model (place_cost.py) rule 3 is a simulation instead.

Invariants
    1. After `place`, `node.device` of every node is one of `devices.names`.
    2. Time is linear in nodes and edges; with one device it is one walk.
    3. With `explain`, `node.why` says why each node is where it is.

Threads: pure but for the nodes of the graph given.

    place(graph, Devices.of_process({"CPU": 2}), soft=False)
"""
from pyflow.framework import dtypes, errors
from pyflow.framework.device import parsed
from pyflow.passes import node as node_lib
from pyflow.passes.place_devices import LOCAL, Device, Devices  # noqa: F401 - the pass's interface
from pyflow.passes.place_groups import (RESOURCE, Groups, made_at, state_key, types_text,
                                        unknown_device)
from pyflow.passes.place_kernels import BUILT_IN

SMALL = 64                          # elements of an integer tensor that is no work
_FOLLOWS = (BUILT_IN | frozenset("""IdentityN ReadVariableOp IsVariableInitialized
    VarIsInitializedOp Shape ShapeN Size Rank""".split())) - frozenset(
    "_Arg _Retval Const NoOp ControlTrigger VariableV2 Variable VarHandleOp".split())
_HOST = frozenset(("_Arg", "_Retval"))
_INTEGERS = frozenset((dtypes.int32._number, dtypes.int64._number))
_CHEAP = _INTEGERS | {dtypes.bool._number}


def place(graph, devices, soft=False, log=None, explain=False, costs=None, pins=None):
    """Sets `device` of all nodes.  log(text): called with one line per node
    (log_device_placement).  costs: a place_cost.CostModel, None for TensorFlow's rule.  pins:
    {node name: device index}, Pins.at."""
    nodes = graph.nodes
    if len(devices.names) == 1:
        _on_one(nodes, devices, soft)
    else:
        _on_many(nodes, devices, soft, explain, costs, pins)
    if log is not None:
        for node in nodes:
            log(f"{node.name}: ({node.op}): {node.device}")
    return graph


def _on_many(nodes, devices, soft, explain, costs, pins):
    groups, chosen, reasons = Groups(nodes), None, {}
    while chosen is None or devices.drop_broken(set(chosen)):
        groups.limit(devices, soft, pins)
        if costs is None:
            chosen = _Default(groups, devices).choose()
        else:
            chosen, reasons = costs.choose(groups, devices)
    of = groups.of
    if explain:
        for i, node in enumerate(nodes):
            node.why = why(i, groups, devices, chosen, reasons.get(of[i]))
    names = devices.names
    for i, node in enumerate(nodes):
        node.device = names[chosen[of[i]]]


def _on_one(nodes, devices, soft):
    name, known = devices.default, {""}
    for node in nodes:
        if node.device not in known:
            if not (devices.task_mask if soft else devices.mask)(node.device):
                raise errors.InvalidArgumentError(None, node.origin, unknown_device(node, devices))
            known.add(node.device)
        node.device = name


class Pins:
    """Where a session's variables and resources are: `at`, {node name: device index}.

    Plans are pruned before they are placed, and each must put a variable where the others do; so
    the nodes that hold state are placed once, with all their users in the whole graph.
    """

    def __init__(self, devices):
        self.at, self._devices, self._revision = {}, devices, None

    def refresh(self, graph, soft, costs=None):
        """Places the state holders that a user's graph got since the last time."""
        if len(self._devices.names) == 1 or graph.revision == self._revision:
            return
        self._revision = graph.revision
        operations = graph.get_operations()
        new = [op for op in operations if not op._inputs and op.name not in self.at
               and holds_state(op)]
        if not new:
            return
        nodes = (_with_users(new, operations) if costs is None
                 else node_lib.whole(graph).nodes)
        groups, names = Groups(nodes), {op.name for op in new}
        roots = {node.name: groups.of[i] for i, node in enumerate(nodes) if node.name in names}
        chosen = None
        while chosen is None or self._devices.drop_broken({chosen[g] for g in roots.values()}):
            groups.limit(self._devices, soft, self.at, strict=False)
            if costs is None:
                chosen = _Default(groups, self._devices).choose()
            else:
                chosen, _ = costs.choose(groups, self._devices)
        self.at.update((name, chosen[g]) for name, g in roots.items())


def _with_users(holders, operations):
    """Pass nodes of the operations that may have to share a device with one of `holders`; what
    else they read is left out."""
    labelled, states = {}, {}
    for op in operations:
        if op.attrs.get("_class"):
            for name in _labels(op):
                labelled.setdefault(name, []).append(op)
        if not op._inputs and holds_state(op):
            states.setdefault(_state_key(op), []).append(op)
    needed, stack = set(holders), list(holders)
    while stack:
        op = stack.pop()
        near = [o for name in (op.name, *_labels(op)) for o in labelled.get(name, ())]
        if not op._inputs and holds_state(op):
            near += states[_state_key(op)]
        for t in op.outputs:
            if t.dtype._is_ref_dtype or t.dtype._number == RESOURCE:
                near += t.consumers()
        near += [op.graph._nodes_by_name[name] for name in _labels(op)
                 if name in op.graph._nodes_by_name]
        near += [t.op for t in op._inputs if t.dtype._is_ref_dtype or t.dtype._number == RESOURCE]
        for other in near:
            if other not in needed:
                needed.add(other)
                stack.append(other)
    outside = node_lib.Node("", "_Outside")
    node_of = {op: node_lib._node(op) for op in sorted(needed, key=lambda op: op._id)}
    for op, node in node_of.items():
        node.inputs = [(node_of[t.op], t.value_index) if t.op in node_of else (outside, 0)
                       for t in op._inputs]
    return [outside, *node_of.values()]


def _labels(op):
    return [(label.decode() if isinstance(label, bytes) else label).removeprefix("loc:@")
            for label in op.attrs.get("_class") or ()]


def _state_key(op):
    return state_key(node_lib._node(op))


def holds_state(op):
    """True for an Operation that makes a variable, a queue, a table: a reference or a resource,
    out of nothing."""
    return bool(op.outputs) and not op._inputs and any(
        t.dtype._number == RESOURCE or t.dtype._is_ref_dtype for t in op.outputs)


class _Default:
    """Rule 3.  `chosen[group]`: index of its device, None so far."""

    def __init__(self, groups, devices):
        self.groups, self.devices = groups, devices
        self.chosen = [None] * len(groups.nodes)
        self.host = devices.mask(devices.default)
        self.own = devices.task_mask(devices.default)
        self.hosts = sum(1 << i for i, d in enumerate(devices.all) if d.kind == "CPU")

    def choose(self):
        """The list `chosen`."""
        groups, chosen, best = self.groups, self.chosen, self.devices.best
        of, mask, asked, members = groups.of, groups.mask, groups.asked, groups.members
        sources, ends, tasks = [], [], self.devices.has_tasks()
        if tasks:
            self._prefer_own()
        for i, node in enumerate(groups.nodes):
            root = of[i]
            if chosen[root] is not None:
                continue
            allowed = mask[root]
            if allowed & (allowed - 1) == 0 or root in asked:
                chosen[root] = best(allowed)
            elif node.op in _HOST:
                chosen[root] = best(allowed & self.host or allowed)
            elif not node.inputs and len(node.types) == 1 and root not in members:
                sources.append(i)
            elif tasks and node.op == "NoOp" and node.controls and root not in members:
                ends.append(i)
            else:
                chosen[root] = self._unasked(node, allowed)
        self._place_sources(sources)
        for i in ends:
            self._place_end(i)
        return chosen

    def _prefer_own(self):
        """Groups of a node that says so are on the session's own task: a replica's state, by whose
        name other replicas have another one."""
        groups = self.groups
        for i, node in enumerate(groups.nodes):
            if "_own_task" in node.attrs and parsed(node.device).task is None:
                root = groups.of[i]
                groups.mask[root] = groups.mask[root] & self.own or groups.mask[root]

    def _place_end(self, i):
        """What only waits (tf.group) is where all that it waits for is: another task would have to
        be told that it is over."""
        groups, node = self.groups, self.groups.nodes[i]
        places = {self.chosen[groups.of[groups.index[c]]] for c in node.controls}
        where = places.pop() if len(places) == 1 else None
        allowed = groups.mask[groups.of[i]]
        self.chosen[groups.of[i]] = (where if where is not None and allowed >> where & 1 else
                                     self._unasked(node, allowed))

    def _unasked(self, node, allowed):
        if node.op in _FOLLOWS and node.inputs:
            source = self.chosen[self.groups.of[self.groups.index[node.inputs[0][0]]]]
            if source is not None and allowed >> source & 1:
                return source
        types = node.types
        if types and types[0]._number in _CHEAP and allowed & self.hosts \
                and is_small_integers(node):
            allowed &= self.hosts
        return self.devices.best(allowed)

    def _place_sources(self, sources):
        """Those without inputs go where all their readers are, else where small integers go."""
        chosen, of, mask = self.chosen, self.groups.of, self.groups.mask
        readers = self._readers(sources)
        for i in sources:
            node = self.groups.nodes[i]
            places = readers.get(i, 0)
            if places and places & (places - 1) == 0 and places & mask[of[i]]:
                chosen[of[i]] = self.devices.best(places)
            else:
                chosen[of[i]] = self._unasked(node, mask[of[i]])

    def _readers(self, sources):
        """{source: mask of the devices of its readers}."""
        groups, found = self.groups, {}
        wanted = {groups.nodes[i]: i for i in sources}
        for k, node in enumerate(groups.nodes):
            for source, _ in node.inputs:
                i = wanted.get(source)
                if i is not None:
                    place_of = self.chosen[groups.of[k]]
                    found[i] = found.get(i, 0) | (1 << place_of if place_of is not None else 0)
        return found


def is_small_integers(node):
    """True for arithmetic on a few integers: shapes, indices, counters."""
    types, shapes = node.types, node.shapes
    if not types or not shapes:
        return False
    for dtype, shape in zip(types, shapes):
        if dtype._number not in _CHEAP:
            return False
        count = shape.num_elements() if shape is not None else None
        if count is None or count > SMALL:
            return False
    for source, index in node.inputs:
        if index >= len(source.types) or source.types[index]._number not in _INTEGERS:
            return False
    return bool(node.inputs) or types[0]._number in _INTEGERS


# ---------------------------------------------------------------- reasons

def why(i, groups, devices, chosen, costs=None):
    """Why node i is where it is, for `explain` and PYFLOW_DUMP."""
    node, root = groups.nodes[i], groups.of[i]
    device = devices.all[chosen[root]]
    if node.device:
        if devices.mask(node.device) >> chosen[root] & 1:
            return f"asked for {node.device}"
        return f"asked for {node.device}, which is not possible: soft placement" + \
            _lacking(node, devices, device)
    tie = groups.ties.get(i) or (root, "state") if root in groups.members and i != root else None
    if tie is not None:
        other = groups.nodes[tie[0]]
        verb = "shares state with" if tie[1] == "state" else "colocated with"
        return f"{verb} {other.name}{_line(other)}"
    if costs is not None:
        return costs
    return _rule(node, root, groups, devices, device)


def _rule(node, root, groups, devices, device):
    allowed = groups.mask[root]
    if root in groups.asked:
        return "its group asked for it"
    if root in groups.members and allowed & (allowed - 1) == 0:
        return "the only device for its whole group" + _lacking(node, devices, device)
    if node.op in _HOST:
        return "feeds and fetches are on the host"
    if allowed & (allowed - 1) == 0:
        return _lacking(node, devices, device).lstrip(",; ") or "the only device for it"
    if node.op in _FOLLOWS and node.inputs:
        source = node.inputs[0][0]
        if groups.mask[root] and source.name:
            return f"follows its input {source.name}"
    if device.kind == "CPU" and is_small_integers(node):
        return "a few integers"
    if not node.inputs and device.kind == "CPU":
        return "beside its readers"
    lacking = _lacking(node, devices, device)
    return f"highest priority of the devices with a kernel{lacking}"


def _lacking(node, devices, device):
    """'; no FAKE kernel for op Y/float64: CPU' where a preferred device was not possible."""
    mask = devices.kernel_mask(node)
    kinds = {d.kind for k, d in enumerate(devices.all)
             if d.priority > device.priority and not mask >> k & 1}
    if not kinds:
        return ""
    return (f"; no {'/'.join(sorted(kinds))} kernel for op {node.op}{types_text(node)}:"
            f" {device.kind}")


def _line(node):
    text = made_at(node)
    return f" ({text[10:-1]})" if text else ""
