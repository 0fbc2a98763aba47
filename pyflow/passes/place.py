"""Placement: gives every node a full device name, or says which device is missing and where it was
asked for.

Rules, in order
    1. Nodes that share state or a colocation group (`loc:@x`, a ref input, the handle of a
       variable) share a device.
    2. What a node asks for is completed with job, replica and task of this process and device
       CPU:0.
    3. An unknown device is an InvalidArgumentError naming node, line and the devices there are;
       with soft placement the node goes to CPU:0 instead, and so does a node whose op has no kernel
       for the device it asked for.

Invariant: after `place`, `node.device` of every node is one of `devices.names`.

    place(graph, Devices.of_process({"CPU": 2}), soft=False)
"""
from pyflow.framework import errors
from pyflow.framework.device import DeviceSpec
from pyflow.passes.node import is_ref

RESOURCE = 20                       # DT_RESOURCE
LOCAL = "/job:localhost/replica:0/task:0"


class Devices:
    """The devices a session may use.  `names` in order; the first is the default."""

    def __init__(self, names, prefix=LOCAL, kernel_types=None):
        """kernel_types: op -> device types that have a kernel for it; None: not known."""
        self.names = list(dict.fromkeys(names))
        self.prefix, self._kernel_types = prefix, kernel_types
        self._known, self._resolved = set(self.names), {"": self.names[0]}
        self._local = DeviceSpec.from_string(prefix)

    @classmethod
    def of_process(cls, device_count=None, found=(), kernel_types=None):
        """CPUs as in ConfigProto.device_count (default 1); other types as found, at most as many as
        counted."""
        counts = dict(device_count or {})
        names = [f"{LOCAL}/device:CPU:{i}" for i in range(max(1, counts.get("CPU", 1)))]
        for kind, ordinal, _ in found:
            if kind != "CPU" and ordinal < counts.get(kind, ordinal + 1):
                names.append(f"{LOCAL}/device:{kind}:{ordinal}")
        return cls(names, kernel_types=kernel_types)

    def lacks_kernel(self, name, op):
        """True if it is known that the type of device `name` has no kernel for `op`."""
        types = self._kernel_types.get(op) if self._kernel_types is not None else None
        return types is not None and not types & {DeviceSpec.from_string(name).device_type, "*"}

    @property
    def default(self):
        return self.names[0]

    def resolve(self, request):
        """The full name for a (partial) request, or None if there is no such device."""
        found = self._resolved.get(request)
        if found is None:
            found = self._complete(request)
            if found is not None:
                self._resolved[request] = found
        return found

    def _complete(self, request):
        asked = DeviceSpec.from_string(request)
        if asked.job == "local":              # the old name of the only process
            asked.job = "localhost"
        spec = self._local.merged_with(asked)
        if spec.device_type is None:
            spec.device_type = "CPU"
        if spec.device_index is None:
            spec.device_index = 0
        name = spec.to_string()
        return name if name in self._known else None


def place(graph, devices, soft=False, log=None):
    """Sets `device` of all nodes.  log(text): called with one line per node
    (log_device_placement)."""
    groups = _groups(graph)
    chosen = {}
    for node in graph.nodes:
        root = groups.root(node)
        device = chosen.get(root)
        if node.device:
            device = _merge(node, device, devices, soft)
            chosen[root] = device
    for node in graph.nodes:
        node.device = chosen.get(groups.root(node)) or devices.default
        if log is not None:
            log(f"{node.name}: ({node.op}): {node.device}")
    return graph


def _merge(node, device, devices, soft):
    name = devices.resolve(node.device)
    if soft and name is not None and devices.lacks_kernel(name, node.op):
        return device or devices.default
    if name is None:
        if soft:
            return device or devices.default
        raise errors.InvalidArgumentError(None, node.origin, unknown_device(node, devices))
    if device is not None and device != name:
        if soft:
            return device
        raise errors.InvalidArgumentError(
            None,
            node.origin,
            f"Cannot place node '{node.name}' ({node.op}){_made_at(node)} on {name}: what it shares"
            f" state with or is colocated with is on {device}. Ask for one device, or set"
            " allow_soft_placement=True.",
        )
    return name


def unknown_device(node, devices):
    """The message for a device that is not there."""
    advice = ""
    wanted = DeviceSpec.from_string(node.device)
    if wanted.device_type == "CPU":
        advice = (f" More CPU devices: tf.Session(config=tf.ConfigProto(device_count={{'CPU': "
                  f"{(wanted.device_index or 0) + 1}}})).")
    elif wanted.job not in (None, "localhost", "local"):
        advice = (
            " A session on another job needs its server's address: tf.Session('grpc://host:port')."
        )
    return (
        f"Cannot assign a device for operation {node.name}: node '{node.name}'"
        f" ({node.op}){_made_at(node)} was explicitly assigned to {node.device} but available"
        f" devices are [ {', '.join(devices.names)} ]. Make sure the device specification refers to"
        f" a valid device, or set allow_soft_placement=True.{advice}"
    )


def _made_at(node):
    return f", made at {node.origin.user_frame}," if node.origin is not None else ""


# ---------------------------------------------------------------- groups that share a device

class _Groups:
    """Union-find over nodes; a group's root is its first node."""

    def __init__(self):
        self._parent = {}

    def root(self, node):
        parent, at = self._parent, node
        while at in parent:
            at = parent[at]
        while node is not at:
            parent[node], node = at, parent[node]
        return at

    def join(self, a, b):
        a, b = self.root(a), self.root(b)
        if a is not b:
            self._parent[b] = a


def _groups(graph):
    groups, by_name = _Groups(), {}
    for node in graph.nodes:
        for position, (source, index) in enumerate(node.inputs):
            if _shares_state(source, index, node, position):
                groups.join(source, node)
        labels = node.attrs.get("_class")
        if labels and isinstance(labels, (list, tuple)):
            if not by_name:
                by_name = {n.name: n for n in graph.nodes}
            for label in labels:
                label = label.decode() if isinstance(label, bytes) else label
                other = by_name.get(label[5:]) if label.startswith("loc:@") else None
                if other is not None:
                    groups.join(other, node)
    return groups


def _shares_state(source, index, reader, position):
    """True for the handle of a resource, and for a reference that stays one in `reader`."""
    if index >= len(source.types):
        return False
    dtype = source.types[index]
    if dtype.as_datatype_enum == RESOURCE:
        return True
    return is_ref(dtype) and _takes_ref(reader, position)


def _takes_ref(node, position):
    """False where the value is read (Identity of a variable): then the edge may cross devices."""
    op_def = getattr(node.origin, "op_def", None)
    if op_def is None or op_def.name != node.op:
        return False
    spans = op_def.input_spans(node.attrs)
    return any(
        arg.is_ref and start <= position < stop for arg, (start, stop) in zip(op_def.inputs, spans)
    )
